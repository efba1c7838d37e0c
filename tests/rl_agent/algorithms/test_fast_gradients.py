"""Fast implementations of a gradient step against autograd."""

import numpy as np
import pytest
from learners import a_batch, a_learner, loss_and_gradient

ONE_STEP = ("ddpg", "naf", "td3", "sac")


NETWORKS = {
    "mlp": {"network": "mlp"},
    "lstm": {"network": "lstm"},
    "burn-in": {"network": "lstm", "window": 2, "burn_in": 2},
    "frames": {"network": "mlp", "frames": 3, "previous_action": True},
}

FAST = {
    "ddpg": {"critic_l2": 0.01},
    "naf": {},
    "td3": {"critic_l2": 0.01},
    "sac": {},
    "acer": {"episodes": 5, "segment": 6, "acting": "window"},
    "acer, discrete": {"episodes": 5, "segment": 6, "choices": 3, "acting": "window"},
    "acer, discrete, shared": {
        "episodes": 5,
        "segment": 6,
        "choices": 3,
        "acting": "window",
        "shared_network": True,
    },
    "ppo": {"horizon": 64},
    "vracer": {"advantage": "gaussian"},
    "vracer, discrete": {"choices": 3},
}


@pytest.mark.parametrize("net", NETWORKS)
@pytest.mark.parametrize("name", FAST)
def test_fast_path_equals_autograd(name, net):
    """Single precision runs the analytic passes, double precision plain torch (``networks/parameter_views.py``)."""
    if name == "ppo" and net in ("lstm", "burn-in"):
        pytest.skip("PPO has no lstm")
    learner = a_learner(name.split(",")[0], **NETWORKS[net] | FAST[name])
    algorithm = learner.algorithm
    if algorithm.target is not None:
        algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    expected, results, gradient = loss_and_gradient(algorithm, batch, inputs=inputs)
    loss, fast, slope = loss_and_gradient(algorithm, batch, inputs=inputs, dtype=np.float32)
    assert loss == pytest.approx(expected, rel=1e-4, abs=1e-5)
    scale = np.abs(gradient).max()
    assert scale > 1e-3
    np.testing.assert_allclose(slope, gradient, atol=3e-5 * scale)
    for kind in ("value", "rho", "kl"):
        np.testing.assert_allclose(fast[kind], results[kind], rtol=3e-4, atol=3e-5)


WRITTEN_OUT = {
    "ddpg": {"critic_l2": 0.01},
    "ddpg, plain": {"replay": "none"},
    "ddpg, weighted": {"replay": "refer-1", "sampler": "rank"},
    "naf": {"replay": "refer-1"},
    "naf, plain": {"replay": "none"},
    "naf, weighted": {"replay": "none", "sampler": "proportional"},
    "td3": {"critic_l2": 0.01},
    "td3, refer": {"replay": "refer"},
    "sac": {"critic_l2": 0.01, "temperature": 0.7},
    "sac, refer": {"replay": "refer"},
    "sac, weighted": {"sampler": "rank"},
}


def assert_the_same(found, results):
    """Compare the analytic gradient's results with those of the loss; only some of the steps are far-policy."""
    assert 0 < found.far.sum() < len(found.far)
    np.testing.assert_array_equal(found.far, results["far"])
    for kind in ("value", "rho", "kl"):
        np.testing.assert_allclose(getattr(found, kind), results[kind], rtol=3e-4, atol=3e-5)
    for kind in ("policy_loss", "value_loss"):
        assert getattr(found, kind) == pytest.approx(float(results[kind]), rel=1e-3)


def assert_each_part_agrees(algorithm, expected, least):
    """Compare the analytic gradient with autograd, which must have at least this size in every network."""
    for name, place in algorithm.parts.slices.items():
        if expected[place].size:  # no sigma without a Gaussian
            scale = np.abs(expected[place]).max()
            assert scale > least, name
            np.testing.assert_allclose(
                algorithm.last_gradient[place], expected[place], atol=3e-5 * scale
            )


@pytest.mark.parametrize("net", NETWORKS)
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_analytic_gradient_equals_autograd(name, net):
    learner = a_learner(name.split(",")[0], **NETWORKS[net] | WRITTEN_OUT[name])
    algorithm = learner.algorithm
    algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    # such that some of the steps are far-policy, and some are not
    c_max = (3.0 if net == "frames" else 1.3) if name.startswith("sac") else 30.0
    rules = learner.refer.rules(0)._replace(c_max=c_max)
    weight = (
        np.random.default_rng(3).uniform(0.2, 1.0, 16).astype(np.float32)
        if "weighted" in name
        else None
    )
    random = algorithm._rng.bit_generator.state
    found = algorithm.analytic_gradient(batch, rules, weight)
    algorithm._rng.bit_generator.state = random
    _, results, expected = loss_and_gradient(
        algorithm, batch, rules, inputs=algorithm.inputs(batch, weight)
    )
    np.testing.assert_allclose(
        algorithm.last_gradient, expected, atol=3e-5 * np.abs(expected).max()
    )
    assert found.gradient_norm == pytest.approx(np.linalg.norm(expected), rel=1e-4)
    assert_the_same(found, results)
    np.testing.assert_allclose(found.td_error, results["td_error"], rtol=3e-4, atol=3e-5)
    assert np.abs(expected).max() > 1e-3


WITHOUT = ("retrace", "dueling", "trust_region", "bias_correction")


@pytest.mark.parametrize(
    ("choices", "net", "without", "shared"),
    [(choices, net, (), False) for choices in (0, 3) for net in NETWORKS]
    + [(0, "mlp", (component,), False) for component in WITHOUT]
    + [(3, "mlp", (component,), False) for component in WITHOUT if component != "dueling"]
    + [(3, net, (), True) for net in NETWORKS],
)
def test_analytic_gradient_of_acer_equals_autograd(choices, net, without, shared):
    """Segments that begin in the middle and at the start of episodes; every term occurs in some of them."""
    settings = {
        "shared_network": shared,
        "without": without,
        "episodes": 7,
        "segment": 6,
        "importance_clip": 1.2,
        "trust_region": 0.05,
        "sigma": 0.5,
    }
    small = {} if choices else {"advantage_hidden": (4,)}
    learner = a_learner("acer", choices=choices, hidden=(6, 5), **NETWORKS[net] | settings | small)
    algorithm, rng = learner.algorithm, np.random.default_rng(5)
    algorithm.weights[:] *= 3.0 if net in ("lstm", "burn-in") or shared else 1.0
    algorithm.target[:] -= 0.3 * rng.standard_normal(len(algorithm.target)).astype(np.float32)
    rules = learner.refer.rules(0)._replace(c_max=1.5)
    for seed in (1, 2):  # the second reuses the buffers of the first
        _, batch = a_batch(learner, seed)
        random = algorithm._rng.bit_generator.state
        found = algorithm.analytic_gradient(batch, rules, None)
        algorithm._rng.bit_generator.state = random
        _, results, expected = loss_and_gradient(
            algorithm, batch, rules, inputs=algorithm.inputs(batch, None)
        )
        assert_each_part_agrees(algorithm, expected, least=1e-2)
        assert found.gradient_norm == pytest.approx(np.linalg.norm(expected), rel=1e-4)
        assert_the_same(found, results)


@pytest.mark.parametrize("choices", [0, 3])
def test_analytic_gradient_of_ppo_equals_autograd(choices):
    """With networks that differ from those that acted, so that some of the steps are clipped."""
    learner = a_learner("ppo", choices=choices, horizon=64, clip=0.1)
    algorithm, rng = learner.algorithm, np.random.default_rng(5)
    away = 0.2 if choices else 0.02
    algorithm.weights += away * rng.standard_normal(len(algorithm.weights)).astype(np.float32)
    rules = learner.refer.rules(0)
    for seed in (1, 2):  # the second reuses the buffers of the first
        _, batch = a_batch(learner, seed)
        assert batch.q_ret.min() < 0 < batch.q_ret.max()
        found = algorithm.analytic_gradient(batch, rules, None)
        _, results, expected = loss_and_gradient(algorithm, batch, rules)
        assert_each_part_agrees(algorithm, expected, least=1e-3)
        assert found.gradient_norm == pytest.approx(np.linalg.norm(expected), rel=1e-4)
        assert_the_same(found, results)


@pytest.mark.parametrize("name", ONE_STEP)
def test_analytic_and_autograd_updates_agree(name):
    """Five updates: TD3 updates its policy and its targets in two of them."""
    fast, slow = (a_learner(name) for _ in range(2))
    slow.algorithm.analytic_gradient = None
    before = {kind: array.copy() for kind, array in fast.algorithm.arrays().items()}
    for _ in range(5):
        fast.update()
        slow.update()
    for kind, array in slow.algorithm.arrays().items():
        moved = np.abs(array - before[kind]).max()
        assert moved > 0
        np.testing.assert_allclose(fast.algorithm.arrays()[kind], array, atol=2e-3 * moved)
    assert {n: adam.steps for n, adam in fast.algorithm.optimiser.adams.items()} == {
        n: adam.steps for n, adam in slow.algorithm.optimiser.adams.items()
    }
    np.testing.assert_allclose(fast.memory.values.value, slow.memory.values.value, atol=1e-5)


def test_td3_skips_the_policy_between_its_updates():
    learner = a_learner("td3", target_noise=0.5, policy_delay=2)
    algorithm = learner.algorithm
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    _, results, gradient = loss_and_gradient(algorithm, batch, inputs=inputs)
    algorithm.due = frozenset({"critic"})
    _, between, slope = loss_and_gradient(algorithm, batch, inputs=inputs)
    policy, critic = (
        algorithm.parts.slices["policy"],
        slice(algorithm.parts.slices["critic_1"].start, None),
    )
    np.testing.assert_array_equal(slope[critic], gradient[critic])
    assert np.abs(gradient[policy]).max() > 1e-3
    assert not slope[policy].any()
    assert between["policy_loss"] == results["policy_loss"]
