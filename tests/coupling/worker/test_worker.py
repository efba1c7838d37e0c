"""The worker's side: environments that fail, and the steps sent then."""

import re

import numpy as np
import pytest
from counting import Batch, Counting

from coupling.wire import protocol
from coupling.wire.connection import Connection, write_connection
from coupling.wire.protocol import Welcome
from coupling.worker.process import Worker


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
    worker = worker("counting:test/Counting-v0")
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
    worker = worker("counting:test/Batch-v0")
    worker._step(np.zeros((3, 1)))
    step = sent_and_read(worker._step(np.array([[0.0], [0.5], [0.0]])))
    assert step.failed.all()
    assert not step.ended.any()
    assert (step.observations == 0).all()
    assert re.fullmatch(
        r"its step\(\) raised RuntimeError: told to fail \(counting.py, line \d+, in step\)",
        worker._heartbeat.failure,
    )


def test_restarted_batch_derives_its_seeds_from_the_first_ones(worker):
    def seeds_after_failures(first):
        fails = worker("counting:test/Batch-v0", seeds=first)
        Batch.seeds.clear()
        for _ in range(2):
            fails._step(np.full((3, 1), 0.5))
        return [tuple(seeds) for seeds in Batch.seeds]

    found = seeds_after_failures([1, 2, 3])
    assert seeds_after_failures([1, 2, 3]) == found
    assert len(set(found[0] + found[1] + seeds_after_failures([1, 2, 4])[0])) == 9


def test_other_environments_of_a_batch_with_a_broken_number_are_truncated(worker):
    worker = worker("counting:test/Batch-v0")
    worker._step(np.zeros((3, 1)))
    step = sent_and_read(worker._step(np.array([[0.0], [-0.5], [0.0]])))
    assert step.failed.tolist() == [False, True, False]
    assert step.truncated.tolist() == [True, False, True]
    assert not step.terminated.any()
    assert step.rewards.tolist() == [1.0, 0.0, 1.0]
    assert (step.final == 2).all()
    assert (step.observations == 0).all()
