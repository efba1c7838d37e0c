"""`flowsim evaluate` shows a policy's mean action and its sampled actions side by side, where it samples them."""

import json

import pytest

from coupling.commands import cli
from coupling.run.folder import RunFolder
from coupling.settings.config import dump_config, fitted, load_config
from coupling.worker.environments import describe_task
from rl_agent.config import algorithms
from rl_agent.learner import Learner


@pytest.fixture
def evaluate(tmp_path, monkeypatch, capsys):
    """Evaluate an untrained policy of an algorithm by the command; gives what it prints."""

    def run(algorithm, *words):
        config = fitted(load_config("small/lq1", [f"agent.algorithm={algorithm}"]), 20)
        folder = RunFolder(tmp_path / algorithm)
        if not folder.path.exists():
            task = describe_task(config.env, config.env_options)
            spaces = task.observation_space, task.action_space
            folder.path.mkdir(mode=0o700)
            folder.config_file.write_text(dump_config(config))
            Learner(config.agent, *spaces, agents=1, seed=0).policy().save(folder.checkpoint)
        monkeypatch.setattr("sys.argv", ["flowsim", "evaluate", str(folder.path), *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    return run


def rows_of(text):
    return [line.split("│")[1].strip() for line in text.splitlines() if line.count("│") > 2]


@pytest.mark.parametrize("algorithm", ["vracer", "sac", "ppo", "a3c"])
def test_stochastic_policy_is_evaluated_with_mean_and_sampled_actions(evaluate, algorithm):
    rows = rows_of(evaluate(algorithm, "--episodes", "2"))
    assert rows[:2] == ["agent, mean action", "agent, sampled actions"]
    assert {"zero", "random"} <= set(rows)
    both = json.loads(evaluate(algorithm, "--episodes", "3", "--json"))
    mean = json.loads(evaluate(algorithm, "--episodes", "3", "--json", "--deterministic"))
    sampled = json.loads(evaluate(algorithm, "--episodes", "3", "--json", "--no-deterministic"))
    assert both["mean_return"] == mean["mean_return"]
    assert both["sampled"]["mean_return"] == sampled["mean_return"]
    assert mean["mean_return"] != sampled["mean_return"]
    assert "sampled" not in mean.keys() | sampled.keys()
    assert both["baselines"] == mean["baselines"]


@pytest.mark.parametrize("algorithm", ["ddpg", "td3", "naf"])
def test_deterministic_policy_is_evaluated_once(evaluate, algorithm):
    rows = rows_of(evaluate(algorithm, "--episodes", "2"))
    assert [row for row in rows if row.startswith("agent")] == ["agent"]


def test_deterministic_option_selects_one_row(evaluate):
    assert rows_of(evaluate("vracer", "--episodes", "2", "--deterministic"))[0] == "agent"
    rows = rows_of(evaluate("vracer", "--episodes", "2", "--no-deterministic"))
    assert rows[0] == "agent, sampled actions"


def test_algorithms_with_deterministic_policies():
    without = {name for name, kind in algorithms().items() if not kind.is_stochastic}
    assert without == {"ddpg", "td3", "naf", "dqn", "rainbow"}
