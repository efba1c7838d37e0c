"""The example of a task of one's own, examples/crossing.py, keeps what docs/own_task.md says of such tasks."""

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def crossing(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    sys.modules.pop("crossing", None)
    gymnasium.registry.pop("Crossing-v0", None)


def test_a_batch_equals_single_environments_to_the_bit():
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 2, 3)).astype(np.float32)
    batch = gymnasium.make_vec(
        "crossing:Crossing-v0", num_envs=2, vectorization_mode="vector_entry_point"
    )
    singles = [gymnasium.make("Crossing-v0").unwrapped for _ in range(2)]
    observations, _ = batch.reset(seed=5)
    for b, single in enumerate(singles):
        np.testing.assert_array_equal(observations[b], single.reset(seed=5 + b)[0])
    for step in actions:
        observations, rewards, *_ = batch.step(step)
        for b, single in enumerate(singles):
            observation, reward, *_ = single.step(step[b])
            np.testing.assert_array_equal(observations[b], observation)
            assert rewards[b] == reward


def test_who_swims_across_is_paid_for_the_way_less_the_effort():
    environment = gymnasium.make("crossing:Crossing-v0").unwrapped
    low, _ = environment.reset(seed=1)
    action = np.array([-0.6, 1.0, 0.0], np.float32)
    high, reward, terminated, *_ = environment.step(action)
    assert not terminated
    assert high[1] > low[1]
    assert reward == pytest.approx(high[1] - low[1] - 0.05 * float(action @ action), abs=1e-5)
