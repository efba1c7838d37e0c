"""Small learners with a memory of ended episodes, and the losses of their batches."""

import gymnasium
import numpy as np
import torch

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms.algorithm import evaluation_of
from rl_agent.config import OnPolicyConfig
from rl_agent.replay import Source, targets
from rl_agent.replay.refer import Rules
from rl_agent.rollout.in_process import SerialRun
from rl_agent.rollout.open_episodes import PER_AGENT, PER_STEP

RULES = Rules(c_max=3.0, beta=0.4, rule_1=True, rho_clip=np.inf)
GAMMA = 0.9
ONE_STEP = ("ddpg", "naf", "td3", "sac")


def box(size, bound=1.0):
    return gymnasium.spaces.Box(-bound, bound, (size,), np.float32)


def a_learner(algorithm, *, choices=0, seed=0, agents=2, moved=0.3, **settings):
    """A learner with some terminated and some truncated episodes, and weights that have moved on since."""
    common = {
        "hidden": (6,),
        "batch_size": 16,
        "buffer_size": 400,
        "learning_starts": 60,
        "gamma": GAMMA,
        "window": 3,
    }
    # whichever of these the algorithm reads
    config = AgentConfig.model_validate({"algorithm": algorithm} | common | settings)
    actions = gymnasium.spaces.Discrete(choices) if choices else box(2)
    learner = Learner(config, box(3, np.inf), actions, agents=agents, seed=seed)
    rng = np.random.default_rng(seed)
    everyone = np.arange(agents)
    learner.begin(everyone, rng.normal(size=(agents, 3)))
    for t in range(40):
        learner.act(everyone)
        ends = (t + everyone) % 10 == 9
        learner.observe(
            everyone, rng.normal(size=agents), ends & (t < 20), ends, rng.normal(size=(agents, 3))
        )
        learner.begin(everyone[ends], rng.normal(size=(int(ends.sum()), 3)))
        if learner.updates_due() and isinstance(config, OnPolicyConfig):
            break
    weights = learner.algorithm.weights
    weights[:] += moved * rng.standard_normal(len(weights)).astype(np.float32)
    return learner


def v_tbc(rewards, values, rho, final_value, gamma, decay=1.0):
    """V_tbc of one whole episode, by the sweep of the memory."""
    length, target = len(rewards), np.empty(len(rewards), np.float32)
    no = np.zeros(length, np.float32)
    table = (np.array([k]) for k in (0, length))
    finals = np.array([final_value], np.float32)
    steps = targets.StoredSteps(
        np.arange(length), rewards, values, no, rho, no, no > 0.0, target, *table, finals
    )
    coefficients = targets.Coefficients(*np.float32([gamma, 1.0, decay]))
    targets.sweep_all(np.zeros(1, np.int64), steps, coefficients)
    return target


def a_batch(learner, seed=1):
    source = Source(
        learner.memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7
    )
    sampled = learner.sampler.sample(
        learner.memory.storage, learner.config.sample_size, np.random.default_rng(seed)
    )
    return learner.algorithm.gather(source, sampled)


def loss_and_gradient(algorithm, batch, rules=RULES, target=None, inputs=None, dtype=np.float64):
    """The loss, by default in double precision."""
    inputs = (algorithm.inputs(batch, None) if inputs is None else inputs) | rules._asdict()
    inputs = {name: torch.as_tensor(np.asarray(value, dtype)) for name, value in inputs.items()}
    if algorithm.target is not None:
        inputs["target_weights"] = torch.as_tensor(
            (algorithm.target if target is None else target).astype(dtype)
        )
    weights = torch.tensor(algorithm.weights.astype(dtype), requires_grad=True)
    loss, results = algorithm.loss(weights, inputs)
    (gradient,) = torch.autograd.grad(loss, weights)
    return loss.item(), {n: r.detach().numpy() for n, r in results.items()}, gradient.numpy()


def network(algorithm, name, x, flat=None):
    """One hidden layer in plain numpy, at one input."""
    flat = algorithm.weights if flat is None else flat
    part = algorithm.parts.parts[name]
    w = part.views(flat[algorithm.parts.slices[name]].astype(float))
    z = x @ w["weight0"] + w["bias0"]
    h = {"softsign": z / (1 + np.abs(z)), "relu": np.maximum(z, 0), "tanh": np.tanh(z)}[
        part.activation
    ]
    return h @ w["weight1"] + w["bias1"]


def finite_differences(function, flat, where):
    """The gradient of ``function`` of flat weights at the indices ``where``."""
    out = []
    for k in where:
        step = np.zeros(len(flat))
        step[k] = 1e-5
        out.append((function(flat + step) - function(flat - step)) / 2e-5)
    return np.array(out)


def gaussian(a, m, s):
    return np.prod(np.exp(-0.5 * ((a - m) / s) ** 2) / (np.sqrt(2 * np.pi) * s))


def divergence(m_mu, s_mu, m, s):
    return np.sum(np.log(s / s_mu) + (s_mu**2 + (m_mu - m) ** 2) / (2 * s**2) - 0.5)


def some(algorithm, part, count=12):
    place = algorithm.parts.slices[part]
    return np.random.default_rng(0).permutation(np.arange(place.start, place.stop))[:count]


def by_autograd(algorithm, batch, rules, weight=None):
    """Gradient and results of the loss as the paper writes it, in double precision."""
    weights = torch.tensor(algorithm.weights, dtype=torch.float64, requires_grad=True)
    inputs = algorithm.inputs(batch, weight) | rules._asdict()
    loss, results = algorithm.loss(
        weights, {n: torch.as_tensor(x, dtype=torch.float64) for n, x in inputs.items()}
    )
    (gradient,) = torch.autograd.grad(loss, weights)
    results["gradient_norm"] = gradient.norm()
    return gradient.numpy(), evaluation_of(
        {n: result.detach().numpy() for n, result in results.items()}
    )


def source_of(memory):
    size = memory.storage.observation.shape[1]
    return Source(memory, np.zeros(size, np.float32), np.ones(size, np.float32), 0.9, 1.0)


class Drift(gymnasium.Env):
    """A noisy integrator whose episodes terminate or are truncated at random."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=2).astype(np.float32)
        return self.x.copy(), {}

    def step(self, action):
        self.x = self.x + np.float32(0.1) * np.array([self.x[1], action[0]], np.float32)
        self.x += self.np_random.normal(0, 0.05, 2).astype(np.float32)
        chance = self.np_random.random()
        return self.x.copy(), -float(self.x @ self.x), chance < 0.02, chance > 0.97, {}


class Push(Drift):
    """The same with three discrete pushes, numbered from 5 on."""

    action_space = gymnasium.spaces.Discrete(3, start=5)

    def step(self, action):
        return super().step(np.array([action - 6.0]))


def make_run(network="mlp", environment=Drift, **settings):
    small = {
        "hidden": (8, 8),
        "window": 4,
        "batch_size": 16,
        "buffer_size": 600,
        "learning_starts": 300,
        "learning_rate": 1e-3,
    }
    config = AgentConfig.model_validate({"network": network} | small | settings)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    environments = gymnasium.vector.SyncVectorEnv([environment] * 3, autoreset_mode=mode)
    learner = Learner(
        config, environment.observation_space, environment.action_space, agents=3, seed=1
    )
    return SerialRun(learner, environments, seed=2)


def assert_equal_to_the_bit(one, other):
    for (arrays, counters), (other_arrays, other_counters) in (
        (one.memory.state(), other.memory.state()),
    ):
        assert counters == other_counters
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)
    for name in PER_AGENT:
        np.testing.assert_array_equal(
            getattr(one.collector.open_episodes, name),
            getattr(other.collector.open_episodes, name),
            err_msg=name,
        )
    for name in PER_STEP:
        # entries after the current step are left from older episodes
        for agent in range(one.agents):
            parts = [
                getattr(run.open_episodes, name)[agent, : run.open_episodes.length[agent]]
                for run in (one.collector, other.collector)
            ]
            np.testing.assert_array_equal(*parts, err_msg=name)
    for part in ("algorithm", "sampler"):
        arrays = getattr(one, part).arrays() if part == "algorithm" else one.sampler.save()
        others = getattr(other, part).arrays() if part == "algorithm" else other.sampler.save()
        assert arrays.keys() == others.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, others[name], err_msg=name)
    assert one.algorithm.counters() == other.algorithm.counters()
    assert one.refer.beta == other.refer.beta
    assert vars(one.reward_scale) == vars(other.reward_scale)
    np.testing.assert_array_equal(
        one.collector.exploration.noise, other.collector.exploration.noise
    )
    assert vars(one.counters) == vars(other.counters)


def assert_slopes(algorithm, gradient, losses, *, least, rtol=2e-4):
    """Check the gradient of each part against finite differences, and that it has at least the given size."""
    held = algorithm.weights.astype(float)
    for part, loss in losses.items():
        where = some(algorithm, part)
        expected = finite_differences(loss, held, where)
        np.testing.assert_allclose(gradient[where], expected, atol=1e-6, rtol=rtol)
        assert np.abs(gradient[where]).max() > least
