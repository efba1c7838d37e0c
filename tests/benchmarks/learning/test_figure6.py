"""Figure 6: trainings that keep their policies, and their page."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from coupling.evaluation.evaluate import PolicyController, evaluate
from rl_agent import Policy

ROOT = Path(__file__).parents[3]
SUITE = {
    "tiny": {
        "about": "One job.",
        "presets": ["small/lq1"],
        "agents": 4,
        "steps": 600,
        "seeds": 1,
        "training_options": {"max_episode_steps": 5},
        "evaluate_every": 300,
        "agent": {"hidden": [8], "batch_size": 16, "learning_starts": 200, "buffer_size": 4096},
        "methods": {"SAC, small": {"algorithm": "sac"}},
    }
}


@pytest.fixture
def module(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # the script changes its first entry
    return importlib.import_module("benchmarks.learning.figure6")


@pytest.fixture
def figure6(module, tmp_path, monkeypatch):
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(SUITE))

    def command(*words):
        places = ["--plan", tmp_path / "plan.yaml", "--results", tmp_path / "results.parquet"]
        monkeypatch.setattr(
            sys, "argv", list(map(str, ["figure6.py", words[0], *places, *words[1:]]))
        )
        return module.main()

    return command


@pytest.mark.slow
def test_a_training_leaves_its_policy_and_a_row_of_the_page(figure6, tmp_path):
    assert figure6("run", "--work", tmp_path / "work") == 0
    (found,) = importlib.import_module("benchmarks.studies").read(tmp_path / "results.parquet")
    assert found["name"] == "tiny/LinearQuadratic-v0_sac_small_seed0"
    settings = found["settings"]
    policy = Policy.load(tmp_path / "work" / found["name"] / "checkpoint")
    controller = PolicyController(policy, deterministic=True, seed=0)
    found_again = evaluate(settings["env"], settings["env_options"], controller, episodes=10)
    assert found_again.summary() == found["evaluation"]["deterministic"]
    assert found_again.summary()["mean_length"] > 5  # which is the limit in training alone
    page = tmp_path / "figure6.md"
    assert figure6("page", "--page", page) == 0
    row, _ = [line for line in page.read_text().splitlines() if line.startswith("| SAC, small |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == "600"
    assert float(cells[5]) == pytest.approx(found_again.returns.mean(), rel=0.01)
    rows = found["curve"]
    last = [row for row in rows if row["episodes"]][-1]
    assert np.isfinite(float(cells[3]))
    assert float(cells[4]) == pytest.approx(last["mean_length"], rel=0.01)
    assert last["mean_length"] == 5
    on_the_way = [row for row in rows if row["evaluated_mean_return"] is not None]
    assert [row["environment_steps"] for row in on_the_way] == [300, 600]
    assert on_the_way[-1]["evaluated_mean_return"] == found_again.summary()["mean_return"]
    assert "| SAC, small | 300 (300) | 1.00 | 1.00 |" in page.read_text()
    assert (tmp_path / "images" / "figure6_tiny.png").stat().st_size > 10_000
    assert "1 of 1 trainings done." in page.read_text()


def test_far_policy_shares_are_of_the_latest_row_and_only_with_refer(module):
    def training(replay, shares):
        curve = [
            {"environment_steps": 100 * n + 90, "far_fraction": share, "kl": float(n)}
            for n, share in enumerate(shares)
        ]
        return {"steps": 400, "curve": curve, "settings": {"agent": {"replay": replay}}}

    methods = {
        "a": [training("refer", [0.1, 0.2, 0.3, 0.4]), training("refer", [0.3, 0.4, 0.5, 0.8])],
        "without": [training("none", [0.9] * 4)],
        "older": [training("refer", [None] * 4)],
    }
    *head, row = module.far_policy_shares(methods)
    assert len(head) == 2
    cells = [cell.strip().split(" ")[0] for cell in row.strip("|").split("|")]
    assert cells == ["a", "0.2", "0.3", "0.4", "0.6", "3"]
    assert module.far_policy_shares({"without": methods["without"]}) == []
