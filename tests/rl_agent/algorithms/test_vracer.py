import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from learners import by_autograd

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms.vracer.loss import VRacer
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay import Batch, UniformSampler
from rl_agent.replay.refer import Rules

RULES = Rules(c_max=4.0, beta=0.4, rule_1=True, rho_clip=math.inf)


def vracer(network="mlp", batch=256, size=(5, 3), **settings):
    rng = np.random.default_rng(1)
    common = {"network": network, "batch_size": batch, "hidden": (16, 16), "window": 6}
    config = AgentConfig.model_validate(common | settings)
    algorithm = VRacer(config, Sizes(*size), rng)
    algorithm.weights[:] += 0.1 * rng.standard_normal(len(algorithm.weights)).astype(np.float32)
    return algorithm


def std_of(algorithm):
    """The standard deviation that it acts with."""
    network = algorithm.network
    state = np.zeros((1, network.state_shape[0]), np.float32)
    return algorithm.act(np.zeros((1, network.inputs), np.float32), state).std


def batch_for(algorithm, seed=2, far_out=0.5):
    """A batch in which near- and far-policy steps both occur."""
    rng = np.random.default_rng(seed)
    size, steps = algorithm.config.batch_size, algorithm.network.history + 1
    lengths = np.sort(rng.integers(1, steps + 1, size))[::-1].copy()
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    windows = normal(steps, size, algorithm.network.inputs)
    windows[np.arange(steps)[:, None] < steps - lengths[None]] = 0.0
    a = algorithm.sizes.action
    return Batch(
        windows=windows,
        lengths=lengths,
        action=0.5 * normal(size, a),
        behaviour_mean=far_out * 0.6 * normal(size, a),
        behaviour_std=np.exp(far_out * normal(size, a)) * np.float32(0.45),
        v_tbc=normal(size),
        q_ret=normal(size),
    )


@pytest.mark.parametrize("network", ["mlp", "lstm"])
@pytest.mark.parametrize(
    "rules",
    [
        RULES,
        RULES._replace(beta=1.0),
        RULES._replace(rule_1=False, rho_clip=1.5),
        RULES._replace(rule_1=False),
    ],
    ids=["refer", "refer-1", "clipped", "uniform"],
)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"center_advantages": True, "sigma_min": 0.15},
        {"policy": "clipped"},
        {"state_dependent_std": True, "sigma_min": 0.1},
        {"state_dependent_std": True, "trunks": "separate"},
        {"sampler": "rank", "replay": "none"},
    ],
    ids=["paper", "options", "clipped", "deviation", "trunks", "weighted"],
)
def test_fast_gradient_equals_autograd(network, rules, settings):
    algorithm = vracer(network, **settings)
    batch = batch_for(algorithm)
    if "policy" in settings:
        batch = replace(batch, action=np.clip(2.0 * batch.action, -1.0, 1.0))
    weight = None
    if "sampler" in settings:
        weight = np.random.default_rng(3).uniform(0.2, 1.0, len(batch.action)).astype(np.float32)
    fast = algorithm.analytic_gradient(batch, rules, weight)
    expected, reference = by_autograd(algorithm, batch, rules, weight)
    assert 0.05 < fast.far_fraction < 0.8
    scale = np.abs(expected).max()
    np.testing.assert_allclose(algorithm.last_gradient / scale, expected / scale, atol=1e-5)
    np.testing.assert_array_equal(fast.far, reference.far)
    np.testing.assert_allclose(fast.value, reference.value, atol=1e-5)
    np.testing.assert_allclose(fast.kl, reference.kl, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.log(fast.rho), np.log(reference.rho), atol=1e-4)
    for name in ("policy_loss", "value_loss", "mean_rho", "mean_kl", "far_fraction"):
        assert getattr(fast, name) == pytest.approx(getattr(reference, name), rel=1e-3, abs=1e-5)
    if weight is not None:
        np.testing.assert_allclose(fast.td_error, reference.td_error, atol=1e-5)


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_torch_step_for_gpus_equals_the_fast_update(network):
    """The same program that a CUDA graph captures, here on the CPU."""
    fast, torch_way = vracer(network), vracer(network)
    for seed in range(5):
        batch = batch_for(fast, seed)
        evaluation = fast.update(batch, 1e-3, RULES)
        results = torch_way.torch_step(
            torch_way.inputs(batch, None) | RULES._asdict(), {"all": 1e-3}
        )
        np.testing.assert_array_equal(results["far"] > 0.5, evaluation.far)
        np.testing.assert_allclose(results["value"], evaluation.value, atol=1e-5)
        for name in ("policy_loss", "value_loss", "gradient_norm"):
            assert results[name] == pytest.approx(getattr(evaluation, name), rel=1e-3)
    assert torch_way.optimiser.adams["all"].steps == 5
    # the first steps of Adam have the size of the learning rate whatever the gradient, round-off included
    apart = np.abs(torch_way.weights - fast.weights)
    assert np.quantile(apart, 0.99) < 1e-5
    assert apart.max() < 1e-3


@pytest.mark.parametrize("of_state", [False, True])
def test_reference_loss_gradient_equals_finite_differences_of_the_papers_loss(of_state):
    algorithm = vracer(batch=8, state_dependent_std=of_state)
    batch = batch_for(algorithm)
    gradient, evaluation = by_autograd(algorithm, batch, RULES)
    assert 0 < evaluation.far.sum() < 8
    held = evaluation.value.astype(float)

    def loss(weights):
        """Eqs. 6 to 11 one step at a time, the bracket of L_pi and the targets held constant."""
        total = 0.0
        outputs = numpy_outputs(algorithm, weights, batch.windows[-1].astype(float))
        size = algorithm.sizes.action
        for b in range(8):
            value, mean = outputs[b, 0], outputs[b, 1 : 1 + size]
            from_state = outputs[b, 1 + size :] if of_state else 0.0
            sigma = np.log1p(np.exp(weights[-size:] + from_state))
            m_mu, s_mu = batch.behaviour_mean[b].astype(float), batch.behaviour_std[b].astype(float)
            density = lambda m, s, b=b: np.prod(  # noqa: E731
                np.exp(-0.5 * ((batch.action[b] - m) / s) ** 2) / (np.sqrt(2 * np.pi) * s)
            )
            rho = density(mean, sigma) / density(m_mu, s_mu)
            kl = np.sum(
                np.log(sigma / s_mu) + (s_mu**2 + (m_mu - mean) ** 2) / (2 * sigma**2) - 0.5
            )
            is_near = 1 / RULES.c_max < rho < RULES.c_max
            both = -rho * (batch.q_ret[b] - held[b]) + 0.5 * (value - batch.v_tbc[b]) ** 2
            total += RULES.beta * both * is_near + (1 - RULES.beta) * kl
        return total / 8

    weights = algorithm.weights.astype(float)
    numeric = np.zeros_like(weights)
    for k in range(len(weights)):
        step = np.zeros_like(weights)
        step[k] = 1e-6
        numeric[k] = (loss(weights + step) - loss(weights - step)) / 2e-6
    np.testing.assert_allclose(gradient, numeric, atol=1e-7 * max(1.0, np.abs(numeric).max()) * 10)
    assert np.abs(numeric).max() > 0.1


def numpy_outputs(algorithm, weights, observations):
    w = algorithm.network.views(weights[: algorithm.network.size])
    h = observations
    for layer in range(2):
        z = h @ w[f"weight{layer}"] + w[f"bias{layer}"]
        h = z / (1 + np.abs(z))
    return h @ w["weight2"] + w["bias2"]


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_far_policy_steps_have_zero_gradient(network):
    algorithm = vracer(network)
    batch = batch_for(algorithm)
    far = algorithm.analytic_gradient(batch, RULES, None).far
    gradient = algorithm.last_gradient.copy()
    # targets of far-policy steps may be anything: the gradient does not change by a bit
    wild = np.where(far, np.float32(1e6), np.float32(0.0))
    changed = Batch(**vars(batch) | {"q_ret": batch.q_ret + wild, "v_tbc": batch.v_tbc - wild})
    algorithm.analytic_gradient(changed, RULES, None)
    np.testing.assert_array_equal(algorithm.last_gradient, gradient)
    near = Batch(**vars(batch) | {"q_ret": batch.q_ret + np.where(far, 0, 1).astype(np.float32)})
    algorithm.analytic_gradient(near, RULES, None)
    assert np.abs(algorithm.last_gradient - gradient).max() > 1e-3

    # a batch of far-policy steps only, without the penalty, gives zero
    nowhere = Batch(**vars(batch) | {"action": batch.action + 50.0})
    evaluation = algorithm.analytic_gradient(nowhere, RULES._replace(beta=1.0), None)
    assert evaluation.far.all()
    assert np.isfinite(evaluation.rho).all()
    assert not algorithm.last_gradient.any()


def test_step_makes_good_actions_more_and_bad_ones_less_likely():
    algorithm = vracer(batch=4, learning_rate=1e-3)
    batch = batch_for(algorithm, far_out=0.05)
    value = algorithm.analytic_gradient(batch, RULES, None).value
    advantage = np.array([5.0, -5.0, 5.0, -5.0], np.float32)
    batch = Batch(**vars(batch) | {"q_ret": value + advantage, "v_tbc": value})
    before = algorithm.analytic_gradient(batch, RULES._replace(beta=1.0), None).rho
    for _ in range(3):
        algorithm.optimiser.descend(algorithm.last_gradient, {"all": 1e-3})
    after = algorithm.analytic_gradient(batch, RULES._replace(beta=1.0), None).rho
    assert np.mean(np.sign(advantage) * np.log(after / before)) > 0.01


def test_penalty_alone_pulls_the_policy_towards_the_behaviour():
    algorithm = vracer(batch=64)
    batch = batch_for(algorithm)
    mean = np.full_like(batch.behaviour_mean, 0.3)
    batch = Batch(
        **vars(batch) | {"behaviour_mean": mean, "behaviour_std": np.full_like(mean, 0.7)}
    )
    first = algorithm.analytic_gradient(batch, RULES._replace(beta=0.0), None).mean_kl
    for _ in range(1500):
        last = algorithm.analytic_gradient(batch, RULES._replace(beta=0.0), None).mean_kl
        algorithm.optimiser.descend(algorithm.last_gradient, {"all": 3e-3})
    assert last < 0.01 * first
    np.testing.assert_allclose(std_of(algorithm), 0.7, atol=0.03)


def test_importance_weights_cannot_overflow():
    algorithm = vracer()
    batch = batch_for(algorithm)
    tight = Batch(
        **vars(batch)
        | {"behaviour_std": np.full_like(batch.behaviour_std, 1e-4), "action": batch.action * 0}
    )
    evaluation = algorithm.analytic_gradient(tight, RULES._replace(rule_1=False), None)
    assert np.isfinite(evaluation.rho).all()
    assert np.isfinite(algorithm.last_gradient).all()
    assert evaluation.rho.max() <= np.exp(20.0) * 1.0001


class FixedSampler(UniformSampler):
    def __init__(self, indices):
        self.indices = indices

    def sample(self, memory, batch, rng):
        return self.indices.copy()


@pytest.mark.parametrize("decay", [1.0, 0.6], ids=["paper", "options"])
def test_full_update_equals_a_plain_reference_of_the_paper(decay):
    """Algorithm 3 with eqs. 8, 10, 12 and 13 in double precision, plain loops and finite differences."""
    config = AgentConfig(
        hidden=(4,),
        batch_size=6,
        buffer_size=200,
        learning_starts=60,
        gamma=0.9,
        learning_rate=0.01,
        annealing=1e-3,
        c_max_scale=3.0,
        far_policy_target=0.02,
        sigma=0.5,
        retrace_lambda=decay,
    )
    box = lambda n: gymnasium.spaces.Box(-1.0, 1.0, (n,), np.float32)  # noqa: E731
    learner = Learner(config, box(2), box(1), agents=1, seed=5)
    rng = np.random.default_rng(9)
    for length, is_terminal in ((30, True), (25, False), (20, True)):
        learner.begin([0], rng.normal(size=(1, 2)))
        for t in range(length):
            learner.act([0])
            ends = t == length - 1
            learner.observe(
                [0], rng.normal(size=1), [ends and is_terminal], [ends], rng.normal(size=(1, 2))
            )
    algorithm, memory = learner.algorithm, learner.memory
    # a policy that has moved on, so that importance weights differ from one
    algorithm.weights[:] += 0.2 * rng.standard_normal(len(algorithm.weights)).astype(np.float32)
    indices = np.array([3, 28, 29, 40, 54, 60])
    learner.sampler = FixedSampler(indices)

    step, scale = learner.environment_steps, learner.reward_scale.value
    weights = algorithm.weights.astype(float)
    eta = config.learning_rate / (1 + config.annealing * step)
    c_max = 1 + config.c_max_scale / (1 + config.annealing * step)
    beta = config.beta
    r = memory.storage.reward[:75].astype(float) / scale
    v, rho = memory.values.value[:75].astype(float), memory.values.rho[:75].astype(float)
    ends = {29: 0.0, 54: float(memory.values.final_value[1]), 74: 0.0}

    def lambda_mix(target, t):
        return decay * target[t] + (1 - decay) * v[t]

    def targets():
        out = np.zeros(75)
        for t in reversed(range(75)):
            following = ends[t] if t in ends else lambda_mix(out, t + 1)
            out[t] = v[t] + min(1.0, rho[t]) * (r[t] + 0.9 * following - v[t])
        return out

    old = targets()
    np.testing.assert_allclose(memory.values.v_tbc[:75], old, atol=1e-5)

    states = (
        memory.storage.observation[indices].astype(float) - learner.state_scale.mean
    ) * learner.state_scale.per_std

    def network(w):
        view = algorithm.network.views(w[:-1])
        z = states @ view["weight0"] + view["bias0"]
        out = (z / (1 + np.abs(z))) @ view["weight1"] + view["bias1"]
        return out[:, 0], out[:, 1], np.log1p(np.exp(w[-1]))

    def statistics(w):
        value, mean, sigma = network(w)
        a, m_mu, s_mu = (
            getattr(memory.storage, n)[indices, 0].astype(float)
            for n in ("action", "behaviour_mean", "behaviour_std")
        )
        normal = lambda m, s: np.exp(-0.5 * ((a - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))  # noqa: E731
        kl = np.log(sigma / s_mu) + (s_mu**2 + (m_mu - mean) ** 2) / (2 * sigma**2) - 0.5
        return value, normal(mean, sigma) / normal(m_mu, s_mu), kl

    held, held_rho, _ = statistics(weights)
    q_ret = np.array(
        [r[k] + 0.9 * (ends[k] if k in ends else lambda_mix(old, k + 1)) for k in indices]
    )

    def loss(w):
        value, weight, kl = statistics(w)
        near = (weight > 1 / c_max) & (weight < c_max)
        both = -weight * (q_ret - held) + 0.5 * (value - old[indices]) ** 2
        return np.mean(beta * both * near + (1 - beta) * kl)

    gradient = np.array(
        [(loss(weights + e) - loss(weights - e)) / 2e-6 for e in 1e-6 * np.eye(len(weights))]
    )
    # first step of Adam: both moments, bias-corrected, reduce to this
    expected = weights - eta * gradient / (np.abs(gradient) + 1e-8)
    v[indices], rho[indices] = held, held_rho
    n_far = np.count_nonzero((held_rho <= 1 / c_max) | (held_rho >= c_max))
    assert 0 < n_far < 6
    expected_beta = (1 - eta) * beta + (eta if n_far / 75 <= config.far_policy_target else 0.0)

    learner.update()
    np.testing.assert_allclose(algorithm.weights, expected, atol=2e-5)
    np.testing.assert_allclose(memory.values.v_tbc[:75], targets(), atol=1e-5)
    assert np.abs(targets() - old).max() > 0.05
    np.testing.assert_allclose(memory.values.rho[indices], held_rho, rtol=1e-4)
    assert memory.values.n_far == n_far
    assert learner.refer.beta == pytest.approx(expected_beta, rel=1e-12)


def test_common_shift_of_advantages_does_not_move_a_centred_policy():
    algorithm = vracer(center_advantages=True)
    batch = batch_for(algorithm)
    algorithm.analytic_gradient(batch, RULES, None)
    gradient = algorithm.last_gradient.copy()
    algorithm.analytic_gradient(
        Batch(**vars(batch) | {"q_ret": batch.q_ret + np.float32(3.0)}), RULES, None
    )
    np.testing.assert_allclose(
        algorithm.last_gradient, gradient, atol=1e-5 * np.abs(gradient).max()
    )


def test_sigma_does_not_fall_below_its_floor():
    algorithm = vracer(sigma=0.3, sigma_min=0.2)
    algorithm.weights[-algorithm.sizes.action :] = -30.0
    np.testing.assert_allclose(std_of(algorithm), 0.2, rtol=1e-6)


def test_snapshot_samples_with_the_learners_sigma():
    spaces = (
        gymnasium.spaces.Box(-9, 9, (5,), np.float32),
        gymnasium.spaces.Box(-1, 1, (3,), np.float32),
    )
    learner = Learner(AgentConfig(sigma=0.3, sigma_min=0.2), *spaces, agents=1, seed=0)
    policy, rng = learner.policy(), np.random.default_rng(0)
    np.testing.assert_allclose(std_of(learner.algorithm), 0.3, rtol=1e-6)
    observations = np.zeros((4000, 5))
    sampled, _ = policy.act(observations, policy.initial_state(4000), deterministic=False, rng=rng)
    # truncation at three standard deviations narrows them by 1.3 %
    np.testing.assert_allclose(sampled.std(axis=0), 0.3 * 0.987, rtol=0.04)
