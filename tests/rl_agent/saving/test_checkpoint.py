import copy
import errno
import os
import pickle
import re

import numpy as np
import pytest
from learners import Push, assert_equal_to_the_bit, make_run

from rl_agent import CheckpointError, Learner, Policy


@pytest.mark.parametrize(("network", "before"), [("mlp", 200), ("mlp", 900), ("lstm", 900)])
def test_resumed_run_equals_uninterrupted_run(tmp_path, network, before):
    run = make_run(network)
    run.run(before)
    run.learner.save(tmp_path / "agent.npz")
    other = copy.deepcopy(run)
    other.learner = Learner.load(tmp_path / "agent.npz")
    assert_equal_to_the_bit(run.learner, other.learner)
    # past the next full sweep, and past the removal of episodes
    run.run(1500)
    other.run(1500)
    assert run.learner.gradient_steps > 1100
    assert run.learner.memory.storage.first_id > 0
    assert_equal_to_the_bit(run.learner, other.learner)
    assert np.abs(run.learner.algorithm.weights).max() > 0.1


ALGORITHMS = {
    "ddpg": {},
    "ddpg with noise of memory, by rank": {"replay": "none", "sampler": "rank"},
    "naf, proportional": {"replay": "none", "sampler": "proportional"},
    "naf": {"network": "lstm"},
    "td3": {"network": "lstm"},
    "td3, by learned scores": {"sampler": "ners", "importance_steps": 500},
    "sac, from a learned subset": {"activation": "relu", "sampler": "ero"},
    "acer": {"episodes": 3, "segment": 6, "network": "lstm"},
    "acer, discrete": {"episodes": 3, "segment": 6, "environment": Push},
    "acer, discrete, shared": {
        "episodes": 3,
        "segment": 6,
        "environment": Push,
        "trunks": "shared",
    },
    "tis": {"episodes": 3, "segment": 6, "network": "lstm"},
    "trust-tis, discrete": {"episodes": 3, "segment": 6, "environment": Push},
    "trust-a3c": {"horizon": 6, "learning_rate": 1e-3},
    "a3c, discrete": {"horizon": 6, "learning_rate": 1e-3, "environment": Push},
    "vracer, discrete": {"environment": Push},
    "vracer, by rank": {"replay": "refer-1", "sampler": "rank"},
    "vracer, gaussian": {"advantage": "gaussian", "acting": "window", "network": "lstm"},
    "dqn, discrete": {"environment": Push, "batch_size": 8, "target_update_interval": 10},
    "rainbow, discrete": {"environment": Push, "batch_size": 8, "atoms": 5, "n_step": 3},
    "ppo": {"horizon": 100, "epochs": 5},
    "ppo, discrete": {"horizon": 100, "epochs": 5, "environment": Push},
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_reproducible_and_resumes_bit_for_bit(tmp_path, name):
    settings = {
        "algorithm": re.split(r"[ ,]", name)[0],
        "hidden": (6,),
        "window": 2,
        "env_steps_per_gradient_step": 3.0,
    }
    run, again = (make_run(**settings | ALGORITHMS[name]) for _ in range(2))
    run.run(450)
    again.run(450)
    assert_equal_to_the_bit(run.learner, again.learner)
    run.learner.save(tmp_path / "agent.npz")
    other = copy.deepcopy(run)
    other.learner = Learner.load(tmp_path / "agent.npz")
    assert_equal_to_the_bit(run.learner, other.learner)
    before = run.learner.algorithm.weights.copy()
    run.run(300)
    other.run(300)
    assert run.learner.gradient_steps > 100
    assert_equal_to_the_bit(run.learner, other.learner)
    assert np.abs(run.learner.algorithm.weights - before).max() > 1e-3

    run.learner.save(tmp_path / "agent.npz")
    snapshot = run.learner.policy()
    snapshot.save(tmp_path / "alone.policy")
    policies = Policy.load(tmp_path / "agent.npz"), snapshot, Policy.load(tmp_path / "alone.policy")
    observations = np.random.default_rng(0).normal(size=(50, 2))
    rngs = [np.random.default_rng(1) for _ in policies]
    for deterministic in (True, False):
        (one, _), (two, _), (three, _) = (
            p.act(observations, p.initial_state(50), deterministic=deterministic, rng=rng)
            for p, rng in zip(policies, rngs, strict=True)
        )
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
        assert one.shape == (50, 1)
        if "discrete" in name:
            assert set(one[:, 0]) <= {5.0, 6.0, 7.0}
        else:
            assert np.abs(one).max() <= 1.0


def test_run_saved_within_an_iteration_resumes_bit_for_bit(tmp_path):
    run = make_run(algorithm="ppo", horizon=90, epochs=2)
    learner = run.learner
    update, saved = learner.update, []

    def update_and_save():
        update()
        if learner.gradient_steps == 13:
            learner.save(tmp_path / "agent.npz")
            saved.append(learner.updates_due())

    learner.update = update_and_save
    run.run(400)
    assert saved[0] > 0
    other = Learner.load(tmp_path / "agent.npz")
    assert other.updates_due() == saved[0]
    fresh = make_run(algorithm="ppo", horizon=90, epochs=2)
    while fresh.learner.gradient_steps < 13:
        fresh.run(1)
    while other.updates_due():
        other.update()
    np.testing.assert_array_equal(other.algorithm.weights, fresh.learner.algorithm.weights)


def test_two_runs_with_one_seed_are_identical():
    one, other = make_run(), make_run()
    one.run(500)
    other.run(500)
    assert_equal_to_the_bit(one.learner, other.learner)


@pytest.fixture
def saved(tmp_path):
    run = make_run()
    run.run(400)
    path = tmp_path / "agent.npz"
    run.learner.save(path)
    return run.learner, path


def test_learner_cannot_resume_from_a_policy_file(saved, tmp_path):
    learner, path = saved
    learner.policy().save(tmp_path / "alone.policy")
    assert (tmp_path / "alone.policy").stat().st_size < path.stat().st_size / 4
    with pytest.raises(CheckpointError, match="has a policy without its learner"):
        Learner.load(tmp_path / "alone.policy")


def test_policy_loads_without_the_replay_memory(saved):
    learner, path = saved
    observations = np.random.default_rng(0).normal(size=(4, 2))
    snapshot = learner.policy()
    expected, _ = snapshot.act(observations, snapshot.initial_state(4), deterministic=True)
    for same in (Policy.load(path), pickle.loads(pickle.dumps(snapshot)), copy.deepcopy(snapshot)):
        actions, _ = same.act(observations, same.initial_state(4), deterministic=True)
        np.testing.assert_array_equal(actions, expected)


@pytest.mark.parametrize("load", [Learner.load, Policy.load])
def test_a_truncated_checkpoint_is_refused(saved, load):
    _, path = saved
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            load(path)


def test_flipped_bit_is_refused_or_harmless(saved):
    learner, path = saved
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            other = Learner.load(path)
        except CheckpointError:
            refused += 1
        else:
            # it hit the padding or a time stamp of the archive
            assert_equal_to_the_bit(learner, other)
    assert refused > 100


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "agent.npz"
    with pytest.raises(FileNotFoundError):
        Learner.load(path)
    path.write_text("nothing of ours")
    with pytest.raises(CheckpointError, match="damaged"):
        Learner.load(path)
    np.savez(path, weights=np.zeros(3))
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        Learner.load(path)


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "agent.npz"
    np.savez(path, meta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(CheckpointError):
        Learner.load(path)


def test_full_disk_leaves_only_the_old_checkpoint(saved, monkeypatch):
    learner, path = saved
    content = path.read_bytes()

    def no_space(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        learner.save(path)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]
