"""Two trainings of one seed are the same bit for bit, with one worker process or with synchronous workers."""

import csv

import numpy as np
import pytest

WALL_CLOCK = {"seconds", "steps_per_second", "updates_per_second"}
ALL = ["run.steps=1500", "run.seed=3", "agent.hidden=[16]"]
SMALL = [*ALL, "agent.learning_starts=300", "agent.batch_size=32"]
ON_POLICY = [*ALL, "agent.batch_size=32", "agent.horizon=256"]
SEGMENTS = [*ALL, "agent.learning_starts=300", "agent.episodes=8"]
LEARNERS = {
    "vracer": ["small/lq2", *SMALL],
    "lstm": ["small/recall", "agent.network=lstm", "agent.window=4", *SMALL],
    "frames": [
        "small/hidden_pendulum",
        "agent.network=mlp",
        "agent.frames=3",
        "agent.previous_action=true",
        *SMALL,
    ],
    "ddpg": ["small/lq2", "agent=ddpg", *SMALL],
    "naf": ["small/lq2", "agent=naf", *SMALL],
    "td3": ["small/lq2", "agent=td3", *SMALL],
    "sac": ["small/lq2", "agent=sac", *SMALL],
    "ppo": ["small/lq2", "agent=ppo", *ON_POLICY],
    "a3c": ["small/lq2", "agent=a3c", *ON_POLICY],
    "acer": ["small/lq2", "agent=acer", *SEGMENTS],
    "tis": ["small/lq2", "agent=tis", *SEGMENTS],
    "discrete acer": ["env=CartPole-v1", "agent=acer", *SEGMENTS],
    "dqn": ["env=CartPole-v1", "agent=dqn", *SMALL],
    "rainbow": ["env=CartPole-v1", "agent=rainbow", *SMALL],
}


def trained(shell, name, *words):
    """Train, and return the results of the run that do not depend on time."""
    done = shell.run("train", *words, f"run.name={name}", "workers.dead_after=120")
    assert done.returncode == 0, done.stderr
    folder = shell.folder / "runs" / name
    tables = {}
    for table in ("statistics", "episodes"):
        with (folder / f"{table}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows, table
        tables[table] = [{k: v for k, v in row.items() if k not in WALL_CLOCK} for row in rows]
    with np.load(folder / "checkpoint.npz") as checkpoint:
        arrays = {name: checkpoint[name] for name in checkpoint.files}
    return tables, arrays


def assert_same(one, other):
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for name, array in one[1].items():
        if name != "meta":  # with the random numbers of the sessions
            np.testing.assert_array_equal(array, other[1][name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_same_seed_with_one_process_gives_identical_trainings(shell, learner):
    words = [*LEARNERS[learner], "workers.agents=4", "workers.processes=1"]
    one, other = (trained(shell, name, *words) for name in ("one", "other"))
    assert_same(one, other)
    assert int(float(one[0]["statistics"][-1]["gradient_steps"])) > 0


@pytest.mark.slow
def test_same_seed_with_synchronous_workers_gives_identical_trainings(shell):
    words = [*LEARNERS["vracer"], "workers.agents=5", "workers.processes=2", "workers.synchronous=true"]  # fmt: skip
    assert_same(*(trained(shell, name, *words) for name in ("one", "other")))
