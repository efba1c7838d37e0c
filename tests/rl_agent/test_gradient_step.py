import numpy as np

from rl_agent.networks.optim.gradient_step import GradientStep
from rl_agent.networks.optim.optimizer import Optimiser


def test_a_step_moves_what_is_due_and_lets_the_target_follow():
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
