import copy
import errno
import os

import gymnasium
import numpy as np
import pytest

from rl_agent import AgentConfig, CheckpointError, Learner, Policy
from rl_agent.serial import SerialRun


class Drift(gymnasium.Env):
    """A noisy integrator whose episodes terminate or are truncated at random."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=2).astype(np.float32)
        return self.x.copy(), {}

    def step(self, action):
        self.x = self.x + np.float32(0.1) * np.array([self.x[1], action[0]], np.float32)
        self.x += self.np_random.normal(0, 0.05, 2).astype(np.float32)
        chance = self.np_random.random()
        return self.x.copy(), -float(self.x @ self.x), chance < 0.02, chance > 0.97, {}


def make_run(network="mlp"):
    config = AgentConfig(network=network, hidden=(8, 8), window=4, batch=16, memory=600, start=300, learning_rate=1e-3)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    environments = gymnasium.vector.SyncVectorEnv([Drift] * 3, autoreset_mode=mode)
    learner = Learner(config, Drift.observation_space, Drift.action_space, agents=3, seed=1)
    return SerialRun(learner, environments, seed=2)


def assert_equal_to_the_bit(one, other):
    for (arrays, counters), (other_arrays, other_counters) in ((one.memory.state(), other.memory.state()),):
        assert counters == other_counters
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)
    for name, array in one.running.save().items():
        np.testing.assert_array_equal(array, other.running.save()[name], err_msg=name)
    np.testing.assert_array_equal(one.algorithm.weights, other.algorithm.weights)
    np.testing.assert_array_equal(one.algorithm.adam.second, other.algorithm.adam.second)
    assert one.refer.beta == other.refer.beta
    assert one.reward_scale.value == other.reward_scale.value
    assert vars(one.counters) == vars(other.counters)


@pytest.mark.parametrize(("network", "before"), [("mlp", 200), ("mlp", 900), ("lstm", 900)])
def test_resuming_equals_going_on_to_the_bit(tmp_path, network, before):
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
    assert run.learner.memory.first_serial > 0
    assert_equal_to_the_bit(run.learner, other.learner)
    assert np.abs(run.learner.algorithm.weights).max() > 0.1


def test_two_runs_of_one_seed_are_equal_to_the_bit():
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


def test_a_policy_is_read_without_the_memory(saved):
    learner, path = saved
    observations = np.random.default_rng(0).normal(size=(4, 2))
    loaded, snapshot = Policy.load(path), learner.policy()
    expected, _ = snapshot.act(observations, snapshot.initial_state(4), deterministic=True)
    actions, _ = loaded.act(observations, loaded.initial_state(4), deterministic=True)
    np.testing.assert_array_equal(actions, expected)


@pytest.mark.parametrize("load", [Learner.load, Policy.load])
def test_a_truncated_checkpoint_is_refused(saved, load):
    _, path = saved
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            load(path)


def test_a_flipped_bit_is_refused_or_harmless(saved):
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
            assert_equal_to_the_bit(learner, other)  # it hit the padding or a time stamp of the archive
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


def test_without_space_the_old_checkpoint_stays_and_nothing_else(saved, monkeypatch):
    learner, path = saved
    content = path.read_bytes()

    def no_space(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        learner.save(path)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]
