import numpy as np
import torch

from rl_agent.adam import Adam
from rl_agent.gradient_step import GradientStep, descend


def test_adam_as_a_torch_program_is_the_compiled_one_and_torchs_own():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(50).astype(np.float32)
    adam, ours = Adam(50), weights.copy()
    w, first, second = torch.tensor(weights), torch.zeros(50), torch.zeros(50)
    theirs = torch.tensor(weights, requires_grad=True)
    optimiser = torch.optim.Adam([theirs], lr=0.01)
    for step in range(1, 8):
        gradient = rng.standard_normal(50).astype(np.float32)
        adam.step(ours, gradient, 0.01)
        numbers = (1.0, 0.01 / (1 - 0.9**step), (1 - 0.999**step) ** -0.5)
        descend(w, torch.tensor(gradient), first, second, *map(torch.tensor, numbers))
        theirs.grad = torch.tensor(gradient)
        optimiser.step()
    assert np.abs(ours - weights).max() > 0.02
    np.testing.assert_allclose(w, ours, atol=1e-6)
    np.testing.assert_allclose(theirs.detach(), ours, atol=1e-6)
    before = w.clone()
    descend(
        w, torch.ones(50), first, second, torch.tensor(0.0), torch.tensor(0.0), torch.tensor(1.0)
    )
    np.testing.assert_array_equal(w, before)


def test_a_step_moves_what_is_due_and_lets_the_target_follow():
    weights, target = np.ones(4, np.float32), np.zeros(4, np.float32)
    stretches = {"policy": (slice(0, 2), Adam(2)), "critic": (slice(2, 4), Adam(2))}
    seen = []

    def loss(w, inputs):
        seen.append(inputs["target_weights"].clone().numpy())
        return (inputs["slope"] * w).sum(), {"value": w.sum()}

    step = GradientStep(weights, stretches, loss, "cpu", target)
    slope = np.array([3.0, 4.0, 0.0, -12.0])
    results = step({"slope": slope}, {"critic": 0.1}, target_rate=0.25)
    assert results["value"] == 4.0
    assert results["gradient_norm"] == 13.0
    np.testing.assert_allclose(weights, [1.0, 1.0, 1.0, 1.1], atol=1e-6)
    np.testing.assert_allclose(target, [0.25, 0.25, 0.25, 0.275], atol=1e-6)
    assert (stretches["policy"][1].steps, stretches["critic"][1].steps) == (0, 1)
    step({"slope": slope}, {"policy": 0.1, "critic": 0.1})
    np.testing.assert_allclose(weights[:2], [0.9, 0.9], atol=1e-6)
    np.testing.assert_allclose(seen, [[0.0] * 4, [0.25, 0.25, 0.25, 0.275]], atol=1e-6)
    np.testing.assert_allclose(target, [0.25, 0.25, 0.25, 0.275], atol=1e-6)
