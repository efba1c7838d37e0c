import gymnasium
import numpy as np
import pytest
import torch

from coupling.bench.learner import warm_learner
from rl_agent import AgentConfig, Learner
from rl_agent.runtime.device import DeviceError

GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device, torch finds none"
)
SMALL = {
    "hidden": (32, 32),
    "batch_size": 64,
    "buffer_size": 2**14,
    "learning_starts": 2**13,
    "window": 5,
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_missing_gpu_is_reported_in_one_sentence():
    box = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    with pytest.raises(
        DeviceError, match=r"device = 'cuda' needs a CUDA device, but torch .* here "
    ):
        Learner(AgentConfig(device="cuda"), box, box, agents=1, seed=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_gpu_checkpoint_loads_on_the_cpu_if_requested(tmp_path):
    path = tmp_path / "agent.npz"
    box = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    learner = Learner(AgentConfig(), box, box, agents=1, seed=0)
    learner.config = AgentConfig(device="cuda")
    learner.save(path)
    with pytest.raises(DeviceError, match="needs a CUDA device"):
        Learner.load(path)
    assert Learner.load(path, "cpu").config.device == "cpu"


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_captured_update_equals_the_cpu_update(network):
    learners = [
        warm_learner(AgentConfig(**SMALL, network=network, device=device), 4, 2)
        for device in ("cpu", "cuda")
    ]
    before = learners[0].algorithm.weights.copy()
    for _ in range(20):
        for learner in learners:
            learner.update()
    cpu, cuda = learners
    cuda.algorithm.torch_step.to_host()
    moved = np.abs(cpu.algorithm.weights - before).max()
    assert moved > 1e-3
    apart = np.abs(cuda.algorithm.weights - cpu.algorithm.weights)
    assert np.quantile(apart, 0.99) < 0.02 * moved
    np.testing.assert_allclose(cuda.memory.values.rho, cpu.memory.values.rho, rtol=1e-3)
    np.testing.assert_allclose(cuda.memory.values.v_tbc, cpu.memory.values.v_tbc, atol=1e-3)
    assert cuda.memory.values.n_far == pytest.approx(cpu.memory.values.n_far, abs=3)


ALGORITHMS = {
    "ddpg": {},
    "naf": {"network": "lstm"},
    "td3": {},
    "sac": {"network": "lstm"},
    "acer": {"episodes": 8, "segment": 10},
    "vracer": {"advantage": "quadratic"},
    "vracer, gaussian": {"advantage": "gaussian"},
}


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("name", ALGORITHMS)
def test_captured_update_of_every_algorithm_equals_the_cpu_update(name):
    settings = SMALL | {"algorithm": name.split(",")[0]} | ALGORITHMS[name]
    cpu, cuda = (
        warm_learner(AgentConfig(**settings, device=device), 4, 2) for device in ("cpu", "cuda")
    )
    before = cpu.algorithm.weights.copy()
    for _ in range(10):
        cpu.update()
        cuda.update()
    arrays, others = cpu.algorithm.arrays(), cuda.algorithm.arrays()
    for part, adam in cpu.algorithm.optimiser.adams.items():
        assert cuda.algorithm.optimiser.adams[part].steps == adam.steps > 0
    moved = np.abs(cpu.algorithm.weights - before).max()
    for array in ("weights", *(["target"] if "target" in arrays else [])):
        assert np.quantile(np.abs(others[array] - arrays[array]), 0.98) < 0.02 * moved
    assert moved > 5e-4


@pytest.mark.gpu
@GPU
def test_resuming_on_a_gpu_keeps_weights_and_moments(tmp_path):
    learner = warm_learner(AgentConfig(**SMALL, device="cuda"), 4, 2)
    for _ in range(5):
        learner.update()
    learner.save(tmp_path / "agent.npz")
    other = Learner.load(tmp_path / "agent.npz")
    for one in (learner, other):
        one.update()
        one.algorithm.torch_step.to_host()
    np.testing.assert_allclose(other.algorithm.weights, learner.algorithm.weights, atol=1e-6)
    np.testing.assert_allclose(
        other.algorithm.optimiser.adams["all"].second,
        learner.algorithm.optimiser.adams["all"].second,
        rtol=1e-4,
        atol=1e-12,
    )
