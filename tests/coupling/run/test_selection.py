"""The policy that a run hands out is the best of several, chosen by episodes used for nothing else."""

import json

import numpy as np
import pytest

from coupling.run.folder import RunFolder
from coupling.run.run import is_complete
from coupling.run.selection import CANDIDATES, Candidates, describe_choice, planned_steps
from coupling.settings.config import load_config
from rl_agent import Learner, Policy

SEEN = np.random.default_rng(0).normal(size=(30, 1)).astype(np.float32)


def test_policies_are_kept_evenly_over_the_last_third():
    assert planned_steps(18000) == [13000, 14000, 15000, 16000, 17000]
    assert planned_steps(18) == [13, 14, 15, 16, 17]
    assert planned_steps(1) == []


class FakePolicy:
    """A policy that is only a file."""

    def save(self, file):
        file.write_bytes(b"")


class FakeLearner:
    """A learner that only counts its steps."""

    environment_steps = 0

    def policy(self):
        return FakePolicy()


def kept(folder):
    return [int(file.stem) for file in sorted(folder.candidates.glob("*")) if file.stem.isdigit()]


def candidates_of(folder, *words):
    run = load_config(None, ["env=Pendulum-v1", "run.steps=18000", *words]).run
    return Candidates(folder, run)


def test_resumed_run_keeps_no_policy_twice_and_drops_later_ones(tmp_path):
    folder, learner = RunFolder(tmp_path), FakeLearner()

    def train(candidates, begin, end):
        candidates.begin(begin)
        for learner.environment_steps in range(begin, end, 24):
            if candidates.are_due(learner.environment_steps):
                candidates.keep(learner)

    asked = "run.select_episodes=4"
    train(candidates_of(folder, asked), 0, 15500)
    assert kept(folder) == [13008, 14016, 15000]
    # back to a checkpoint before the last one that was kept
    train(candidates_of(folder, asked), 14400, 18000)
    assert kept(folder) == [13008, 14016, 15000, 16008, 17016]
    (folder.candidates / "000000013008 (copy).npz").write_bytes(b"")  # not counted as one
    # on to twice the length, whose last third begins later
    train(candidates_of(folder, asked, "run.steps=36000"), 18000, 18048)
    assert kept(folder) == []
    train(candidates_of(folder), 0, 18000)
    assert kept(folder) == []


@pytest.mark.slow
def test_best_kept_policy_is_used_until_training_continues(shell):
    words = ["small/lq1", "run.name=run", "run.steps=900", "agent.learning_starts=200"]
    words += ["agent.buffer_size=4096", "agent.learning_rate=0.01"]
    asked = ["run.select_episodes=6", "run.select_max_actions=7", "run.evaluate_episodes=3"]
    done = shell.run("train", *words, *asked)
    assert done.returncode == 0, done.stderr
    folder = RunFolder(shell.run_folder)
    choice = json.loads(folder.selection.read_text())
    returns = {each["environment_steps"]: each["mean_return"] for each in choice["candidates"]}
    assert len(returns) == CANDIDATES
    assert returns[choice["chosen"]] == max(returns.values())
    assert all(each["episodes"] == 6 and each["mean_length"] <= 7 for each in choice["candidates"])
    said = describe_choice(folder)
    assert f"chosen from {CANDIDATES} by mean return in 6 other episodes" in said
    assert said in done.stdout
    assert said in done.stderr

    def acts(policy):
        return policy.act(SEEN)[0]

    handed_out, learner = Policy.load(folder.path), Learner.load(folder.checkpoint)
    np.testing.assert_array_equal(acts(learner.policy()), acts(handed_out))
    files = {int(file.stem): file for file in folder.candidates.glob("*.npz")}
    if choice["chosen"] in files:
        np.testing.assert_array_equal(acts(Policy.load(files[choice["chosen"]])), acts(handed_out))
    worst = min(files, key=lambda steps: returns[steps])
    learner.hand_out(Policy.load(files[worst]).weights)
    np.testing.assert_array_equal(acts(learner.policy()), acts(Policy.load(files[worst])))
    learner.update()
    assert learner.handed_out is None
    assert np.abs(acts(learner.policy()) - acts(Policy.load(files[worst]))).max() > 0

    evaluated = shell.run("evaluate", "runs/run", "--episodes", "3", "--json")
    assert json.loads(evaluated.stdout)["policy"] == said
    after = json.loads(folder.evaluation.read_text())["after"]
    assert json.loads(evaluated.stdout)["mean_return"] == after["mean_return"]

    again = shell.run("resume", "runs/run", "run.select_episodes=7")
    assert again.returncode == 2
    assert "is finished and its policy has been selected" in again.stderr

    # one that was cut off before the choice makes it when it is resumed, and finds the same
    folder.selection.unlink()
    assert not is_complete(folder)
    resumed = shell.run("resume", "runs/run")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(folder.selection.read_text()) == choice
    assert is_complete(folder)
    longer = shell.run("resume", "runs/run", "run.steps=1100", "run.select_episodes=0")
    assert longer.returncode == 0, longer.stderr
    assert not folder.selection.exists()
    assert describe_choice(folder) == ""
