import numpy as np
import torch

from rl_agent.networks.optim.adam import Adam, step_on_device
from rl_agent.networks.optim.optimizer import Optimiser


def test_device_adam_equals_compiled_adam_and_torch():
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
        step_on_device(w, torch.tensor(gradient), first, second, *map(torch.tensor, numbers))
        theirs.grad = torch.tensor(gradient)
        optimiser.step()
    assert np.abs(ours - weights).max() > 0.02
    np.testing.assert_allclose(w, ours, atol=1e-6)
    np.testing.assert_allclose(theirs.detach(), ours, atol=1e-6)
    before = w.clone()
    step_on_device(
        w, torch.ones(50), first, second, torch.tensor(0.0), torch.tensor(0.0), torch.tensor(1.0)
    )
    np.testing.assert_array_equal(w, before)


def test_descent_on_host_and_device_equals_torch_per_group():
    rng = np.random.default_rng(1)
    groups = {"policy": slice(0, 20), "critic": slice(20, 50)}
    rates, epsilons = {"policy": 0.03, "critic": 0.1}, {"policy": 1e-8, "critic": 0.2}
    weights = rng.standard_normal(50).astype(np.float32)
    host, device = (Optimiser(weights.copy(), groups, weights.copy()) for _ in range(2))
    theirs, optimisers = {}, {}
    for name, place in groups.items():
        host.adams[name].epsilon = device.adams[name].epsilon = epsilons[name]
        theirs[name] = torch.tensor(weights[place], requires_grad=True)
        optimisers[name] = torch.optim.Adam([theirs[name]], rates[name], eps=epsilons[name])
    copies = {name: torch.tensor(array) for name, array in device.arrays().items()}
    target = weights.astype(float)
    for due, target_rate in [
        (["critic"], 0.0),
        (["policy", "critic"], 0.25),
        (["critic"], 0.0),
        (["policy"], 1.0),
        (["policy", "critic"], 0.4),
    ]:
        gradient = rng.standard_normal(50).astype(np.float32)
        moving = {name: rates[name] for name in due}
        host.descend(gradient, moving, target_rate)
        numbers = device.count_step(moving, target_rate)
        device.descend_on_device(
            copies,
            torch.tensor(gradient),
            {name: torch.tensor(number) for name, number in numbers.items()},
        )
        for name in due:
            theirs[name].grad = torch.tensor(gradient[groups[name]])
            optimisers[name].step()
        both = torch.cat(list(theirs.values())).detach().numpy()
        target = (1.0 - target_rate) * target + target_rate * both
        for moved in (host.arrays(), copies):
            np.testing.assert_allclose(moved["weights"], both, atol=1e-6)
            np.testing.assert_allclose(moved["target"], target, atol=1e-6)
        for name, array in host.arrays().items():
            np.testing.assert_allclose(copies[name], array, atol=1e-6, err_msg=name)
    assert np.abs(both - weights).mean() > 0.02
    for one in (host, device):
        assert {name: adam.steps for name, adam in one.adams.items()} == {"policy": 3, "critic": 4}
