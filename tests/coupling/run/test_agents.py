"""Shipped agents: lookup by name, file permissions, and cards."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cases  # noqa: F401
from coupling.errors import ConfigError
from coupling.evaluation.evaluate import evaluate
from coupling.run.agents import describe_agents, find_agent, find_agents
from coupling.run.policies import load_controller

NAMES = [row["agent"] for row in describe_agents()]
COARSE = {
    "cavity": {"cells_per_diameter": 20},
    "fine": {"cells_per_diameter": 16},
    "step": {"cells_per_diameter": 8},
}
"""Grids on which the flow that episodes start from is there within seconds."""
PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


def test_wake_agent_is_shipped():
    assert "wake" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_agent_acts_in_its_task(name):
    folder = find_agent(Path(name))
    config = folder.config()
    env = gymnasium.make(config.env, **config.env_options | COARSE.get(name, {}))
    controller = load_controller(folder, deterministic=True, seed=0)
    controller.reset(1)
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        (action,) = controller(observation[None].astype(np.float32))
        assert env.action_space.contains(action.astype(np.float32))
        observation, *_ = env.step(action)
    env.close()
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in folder.path.iterdir()), (
        "readable by everybody"
    )


def test_pendulum_agent_reaches_the_return_on_its_card():
    folder = find_agent(Path("pendulum"))
    config, controller = (
        folder.config(),
        load_controller(find_agent(Path("pendulum")), deterministic=True, seed=0),
    )
    evaluated = evaluate(config.env, config.env_options, controller, episodes=2)
    (row,) = [row for row in describe_agents() if row["agent"] == "pendulum"]
    low, high = map(float, re.findall(r"[-\d.]+", row["return"])[1:])
    assert low - 1 <= evaluated.returns.mean() <= high + 1


def test_folder_takes_precedence_over_a_name_and_unknown_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_agent(Path("wake")).path.parent.name == "agents"
    (tmp_path / "wake").mkdir()
    with pytest.raises(ConfigError, match="is not a run folder"):
        find_agent(Path("wake"))
    with pytest.raises(ConfigError, match="does not exist"):
        find_agent(Path("wak"))


def test_a_folder_given_twice_counts_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("two", "one"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    (tmp_path / "also").symlink_to("one")
    given = ["two", "one", "./one", str(tmp_path / "two"), "also", "wake", "wake"]
    assert [folder.path.name for folder in find_agents(map(Path, given))] == ["two", "one", "wake"]


def test_page_has_a_card_for_each_agent():
    assert re.findall(r"^## ([\w-]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == NAMES
