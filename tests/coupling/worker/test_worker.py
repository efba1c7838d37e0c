"""The worker's side: environments that fail, and the steps sent then."""

import re
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from coupling.wire import protocol
from coupling.wire.connection import Connection, write_connection
from coupling.wire.protocol import Welcome
from coupling.worker.process import Worker

BOX = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


class Counting(gym.Env):
    """Observes its step; action 0.5 makes it raise, -0.5 gives a reward that is no number."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = BOX
    made = 0

    def __init__(self):
        Counting.made += 1
        self.name = Counting.made

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0, self.name], np.float32), {}

    def step(self, action):
        if action[0] == 0.5:
            raise RuntimeError("told to fail")
        self.time += 1
        reward = np.nan if action[0] == -0.5 else 1.0
        return np.array([self.time, self.name], np.float32), reward, self.time == 3, False, {}


class Batch(VectorEnv):
    """The same as a batch of its own, which knows no single failures; notes the seeds of its resets."""

    seeds: ClassVar[list] = []
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs=1):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = Counting.observation_space, BOX
        self.observation_space = batch_space(Counting.observation_space, num_envs)
        self.action_space = batch_space(BOX, num_envs)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        Batch.seeds.append(seed)
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions):
        if (actions == 0.5).any():
            raise RuntimeError("told to fail")
        self.time += 1
        observations = np.full((self.num_envs, 2), self.time, np.float32)
        rewards = np.where(actions[:, 0] == -0.5, np.nan, 1.0)
        no = np.zeros(self.num_envs, bool)
        return observations, rewards, no, no, {}


gym.register(id="test/Counting-v0", entry_point="test_worker:Counting")
gym.register(id="test/Batch-v0", vector_entry_point="test_worker:Batch")


@pytest.fixture
def worker(tmp_path):
    """Make a worker that has joined; no learner listens."""
    workers = []

    def make(env, environments=3, seeds=None):
        file = tmp_path / "connection.json"
        write_connection(file, Connection("tcp://127.0.0.1:9", "run", env, {}, 1.0))
        worker = Worker(file, 0, environments)
        workers.append(worker)
        worker.take_up(Welcome(1, 1, 0, 0, seeds or [0] * environments, 1.0, 1.0))
        worker._vector.reset(seed=0)
        return worker

    yield make
    for worker in workers:
        worker.close()


def sent_and_read(step, environments=3):
    """Return the step as the learner reads it."""
    return protocol.decode_step(protocol.encode_step(step), environments, 2)


@pytest.mark.parametrize(
    ("action", "reason"), [(0.5, "RuntimeError: told to fail"), (-0.5, "not finite")]
)
def test_failed_environment_restarts_and_the_others_continue(worker, action, reason):
    worker = worker("test_worker:test/Counting-v0")
    worker._step(np.zeros((3, 1)))
    made = Counting.made
    step = sent_and_read(worker._step(np.array([[0.0], [action], [0.0]])))
    assert step.failed.tolist() == [False, True, False]
    assert not step.ended.any()
    assert step.rewards.tolist() == [1.0, 0.0, 1.0]
    assert step.observations[:, 0].tolist() == [2.0, 0.0, 2.0]
    assert step.observations[1, 1] == made + 1  # another environment than before
    assert reason in worker._heartbeat.failure
    assert worker._heartbeat.failures == 1
    step = sent_and_read(worker._step(np.zeros((3, 1))))
    assert step.terminated.tolist() == [True, False, True]
    assert step.final[:, 0].tolist() == [3.0, 3.0]
    assert step.observations[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert not step.failed.any()


def test_failed_batch_restarts_as_a_whole(worker):
    worker = worker("test_worker:test/Batch-v0")
    worker._step(np.zeros((3, 1)))
    step = sent_and_read(worker._step(np.array([[0.0], [0.5], [0.0]])))
    assert step.failed.all()
    assert not step.ended.any()
    assert (step.observations == 0).all()
    assert re.fullmatch(
        r"its step\(\) raised RuntimeError: told to fail \(test_worker.py, line \d+, in step\)",
        worker._heartbeat.failure,
    )


def test_restarted_batch_derives_its_seeds_from_the_first_ones(worker):
    def seeds_after_failures(first):
        fails = worker("test_worker:test/Batch-v0", seeds=first)
        Batch.seeds.clear()
        for _ in range(2):
            fails._step(np.full((3, 1), 0.5))
        return [tuple(seeds) for seeds in Batch.seeds]

    found = seeds_after_failures([1, 2, 3])
    assert seeds_after_failures([1, 2, 3]) == found
    assert len(set(found[0] + found[1] + seeds_after_failures([1, 2, 4])[0])) == 9


def test_other_environments_of_a_batch_with_a_broken_number_are_truncated(worker):
    worker = worker("test_worker:test/Batch-v0")
    worker._step(np.zeros((3, 1)))
    step = sent_and_read(worker._step(np.array([[0.0], [-0.5], [0.0]])))
    assert step.failed.tolist() == [False, True, False]
    assert step.truncated.tolist() == [True, False, True]
    assert not step.terminated.any()
    assert step.rewards.tolist() == [1.0, 0.0, 1.0]
    assert (step.final == 2).all()
    assert (step.observations == 0).all()
