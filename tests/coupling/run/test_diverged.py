"""Runs that must not end for good: a learner that diverges, and a step that holds the interpreter."""

import re

import numpy as np
import pytest
from audit import audit_memory
from shell import complaint, workers_of
from test_run import main_in_process

from rl_agent import Learner


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value")
def test_diverged_run_resumes_from_its_last_checkpoint(shell, monkeypatch, capsys):
    preset, update = shell.preset(workers={"processes": 1}), Learner.update

    def diverging(learner):
        update(learner)
        if learner.gradient_steps == 100:
            learner.algorithm.weights[:] = np.nan

    monkeypatch.setenv("PYTHONPATH", shell.environment["PYTHONPATH"])  # for its worker
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", diverging)
        code, stderr = main_in_process(shell, ["train", preset], monkeypatch, capsys)
    assert code == 1
    assert re.search(
        r"learning has diverged: .* `flowsim resume runs/run` continues from the checkpoint of \d+ environment steps, "
        r"without the \d+ steps since then \(kept as experience/\*.diverged\); if it diverges again, begin a new run "
        r"with a smaller agent.learning_rate",
        " ".join(stderr.split()),
    ), stderr
    assert shell.status()["state"] == "failed"
    assert not workers_of(shell.run_folder)
    code, stderr = main_in_process(shell, ["resume", "runs/run"], monkeypatch, capsys)
    assert code == 0, stderr
    assert "from the experience log" not in stderr
    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    assert learner.environment_steps >= 1000
    assert (
        audit_memory(learner) + learner.collector.open_episodes.length.sum()
        == learner.environment_steps
    )
    learner.algorithm.weights[:] = np.nan  # an older run, whose checkpoint itself has diverged
    learner.save(shell.run_folder / "checkpoint.npz")
    words = ["resume", "runs/run", "run.steps=5000"]
    code, stderr = main_in_process(shell, words, monkeypatch, capsys)
    assert code == 1
    assert "was written after learning had diverged" in complaint(stderr)
    code, stderr = main_in_process(shell, ["evaluate", "runs/run"], monkeypatch, capsys)
    assert code == 1
    assert "actions that are not finite: its training has diverged" in stderr


@pytest.mark.slow
def test_step_may_hold_the_interpreter_longer_than_dead_after(shell):
    """Solvers called through ctypes.PyDLL, f2py or pybind11 do this."""
    preset = shell.preset(
        env_options={"hold": 2, "hold_at": [5, 50]},
        workers={"processes": 1, "agents": 1, "dead_after": 0.6, "heartbeat": 0.2},
        run={"steps": 120},
    )
    done = shell.run("train", preset)
    assert done.returncode == 0, done.stderr
    assert "died" not in done.stderr
    assert shell.status()["restarts"] == 0
