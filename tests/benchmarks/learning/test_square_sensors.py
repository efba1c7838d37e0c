"""The study of the square's sensors: what its models see, and what they find in data with a known answer."""

import numpy as np
import pytest
import torch

from benchmarks.learning import square_sensors
from benchmarks.learning.square_sensors import Inputs


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_inputs_hold_past_values_of_the_same_episode():
    time, episode = np.mgrid[0:5, 0:3]
    values = 100.0 * episode + time
    observations = np.repeat(values[:, :, None], 129, axis=2)
    found = square_sensors.inputs(observations, Inputs("base", 4, 3))
    assert found.shape == (5, 3, 3 * 5)
    newest_first = found[:, :, ::5]
    assert newest_first[4, 1].tolist() == [104.0, 103.0, 102.0]
    assert newest_first[0, 2].tolist() == [200.0, 200.0, 200.0]


@pytest.mark.parametrize(("sensors", "first"), [("wake", 0), ("base", 64)])
def test_inputs_are_evenly_spaced_pressures_and_the_action(sensors, first):
    observations = np.broadcast_to(np.arange(129.0), (2, 1, 129))
    found = square_sensors.inputs(observations, Inputs(sensors, 4, 1))
    assert found[0, 0].tolist() == [first, first + 21, first + 42, first + 63, 128]


def test_models_explain_what_can_be_seen_and_nothing_else(monkeypatch, one_thread):
    monkeypatch.setattr(square_sensors, "GRADIENT_STEPS", 500)
    rng = np.random.default_rng(0)
    episodes = square_sensors.FITTED + square_sensors.VALIDATED + square_sensors.TESTED
    observations = rng.standard_normal((40, episodes, 129))
    seen = 0.5 * observations[:, :, 64] - 0.5 * observations[:, :, 127]
    row = square_sensors.measure(observations, seen, Inputs("base", 4, 1))
    assert row["linear"]["explained"] > 0.99
    assert row["mlp"]["explained"] > 0.9
    unseen = square_sensors.measure(observations, seen, Inputs("wake", 4, 1))
    assert abs(unseen["linear"]["explained"]) < 0.1
