"""The example of a custom task, examples/crossing.py, behaves as docs/own_task.md says."""

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


def test_batch_equals_single_environments_bit_for_bit():
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


def test_reward_is_progress_minus_effort():
    environment = gymnasium.make("crossing:Crossing-v0").unwrapped
    low, _ = environment.reset(seed=1)
    action = np.array([-0.6, 1.0, 0.0], np.float32)
    high, reward, terminated, *_ = environment.step(action)
    assert not terminated
    assert high[1] > low[1]
    assert reward == pytest.approx(high[1] - low[1] - 0.05 * float(action @ action), abs=1e-5)
