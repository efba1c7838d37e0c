import contextlib
import types

import numpy as np
import pytest
import torch

from rl_agent.networks.optim import gradient_step
from rl_agent.networks.optim.gradient_step import GradientStep
from rl_agent.networks.optim.optimizer import Optimiser


def test_step_moves_the_given_groups_and_updates_the_target():
    weights, target = np.ones(4, np.float32), np.zeros(4, np.float32)
    optimiser = Optimiser(weights, {"policy": slice(0, 2), "critic": slice(2, 4)}, target)
    seen = []

    def loss(w, inputs):
        seen.append(inputs["target_weights"].clone().numpy())
        return (inputs["slope"] * w).sum(), {"value": w.sum()}

    step = GradientStep(optimiser, loss, "cpu")
    slope = np.array([3.0, 4.0, 0.0, -12.0])
    results = step({"slope": slope}, {"critic": 0.1}, target_rate=0.25)
    assert results["value"] == 4.0
    assert results["gradient_norm"] == 13.0
    np.testing.assert_allclose(weights, [1.0, 1.0, 1.0, 1.1], atol=1e-6)
    np.testing.assert_allclose(target, [0.25, 0.25, 0.25, 0.275], atol=1e-6)
    assert {name: adam.steps for name, adam in optimiser.adams.items()} == {
        "policy": 0,
        "critic": 1,
    }
    step({"slope": slope}, {"policy": 0.1, "critic": 0.1})
    np.testing.assert_allclose(weights[:2], [0.9, 0.9], atol=1e-6)
    np.testing.assert_allclose(seen, [[0.0] * 4, [0.25, 0.25, 0.25, 0.275]], atol=1e-6)
    np.testing.assert_allclose(target, [0.25, 0.25, 0.25, 0.275], atol=1e-6)


def pull(weights, inputs):
    """Return a loss whose gradient is that of a parabola."""
    return (inputs["slope"] * weights * weights).sum(), {"value": weights.sum()}


def on_device(step):
    """Make a step of the host believe that its copies are on a device."""
    step._is_graphed = True
    arrays = step._optimiser.arrays()
    step._copies = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


@pytest.mark.parametrize("written", ["max_norm", "epsilon"])
def test_step_is_captured_again_when_its_constants_change(monkeypatch, written):
    """The stand-in for a captured step keeps the constants it was made with, as a graph does."""

    class Held:
        def __init__(self, compute, state, arrays):
            self.compute, self.numbers = compute, (step.max_norm, adam.epsilon)

        def __call__(self, arrays):
            now = step.max_norm, adam.epsilon
            step.max_norm, adam.epsilon = self.numbers
            inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
            results = self.compute(inputs)
            step.max_norm, adam.epsilon = now
            return {name: result.numpy() for name, result in results.items()}

    monkeypatch.setattr(gradient_step, "_Program", Held)
    steps = [
        GradientStep(Optimiser(np.ones(3, np.float32), {"all": slice(0, 3)}), pull, "cpu")
        for _ in range(2)
    ]
    on_device(steps[1])
    slope = np.array([1.0, 2.0, 3.0])
    for value in (None, 1e-3):
        for step in steps:
            adam = step._optimiser.adams["all"]
            if value is not None and written == "max_norm":
                step.max_norm = value
            elif value is not None:
                adam.epsilon = value
            for _ in range(2):
                step({"slope": slope}, {"all": 0.1})
    steps[1].to_host()
    weights = [step._optimiser.weights for step in steps]
    assert np.abs(weights[0] - 1.0).max() > 0.1
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-6)


class NoDevice:
    """torch with stand-ins for streams and pinned memory, which need a device."""

    cuda = types.SimpleNamespace(
        Stream=lambda: types.SimpleNamespace(wait_stream=lambda other: None),
        current_stream=lambda: types.SimpleNamespace(wait_stream=lambda other: None),
        stream=lambda stream: contextlib.nullcontext(),
    )

    def __getattr__(self, name):
        return getattr(torch, name)

    def empty(self, size, **options):
        return torch.empty(size)


def test_interrupted_warm_up_changes_no_weights(monkeypatch):
    monkeypatch.setattr(gradient_step, "torch", NoDevice())
    calls = []

    def loss(weights, inputs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return pull(weights, inputs)

    step = GradientStep(Optimiser(np.ones(3, np.float32), {"all": slice(0, 3)}), loss, "cpu")
    on_device(step)
    with pytest.raises(KeyboardInterrupt):
        step({"slope": np.ones(3)}, {"all": 0.1})
    assert len(calls) == 2
    step.to_host()
    np.testing.assert_array_equal(step._optimiser.weights, np.ones(3))
    np.testing.assert_array_equal(step._optimiser.adams["all"].first, np.zeros(3))
