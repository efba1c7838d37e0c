"""Small learners with a memory of ended episodes, and the losses of their batches."""

import gymnasium
import numpy as np
import torch

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms.algorithm import Source, evaluation_of
from rl_agent.config import OnPolicyConfig
from rl_agent.replay.refer import Rules

RULES = Rules(c_max=3.0, beta=0.4, rule_1=True, rho_clip=np.inf)
GAMMA = 0.9
ONE_STEP = ("ddpg", "naf", "td3", "sac")


def box(size, bound=1.0):
    return gymnasium.spaces.Box(-bound, bound, (size,), np.float32)


def a_learner(algorithm, *, choices=0, seed=0, agents=2, **settings):
    """A learner with some terminated and some truncated episodes, and weights that have moved on since."""
    common = {
        "hidden": (6,),
        "batch_size": 16,
        "buffer_size": 400,
        "learning_starts": 60,
        "gamma": GAMMA,
        "window": 3,
    }
    config = AgentConfig(algorithm=algorithm, **common | settings)
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
    weights[:] += 0.3 * rng.standard_normal(len(weights)).astype(np.float32)
    return learner


def a_batch(learner, seed=1):
    source = Source(
        learner.memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7
    )
    drawn = learner.sampler.draw(learner.memory, learner.config.draws, np.random.default_rng(seed))
    return learner.algorithm.gather(source, drawn)


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
    w = part.views(flat[algorithm.parts.places[name]].astype(float))
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
    place = algorithm.parts.places[part]
    return np.random.default_rng(0).permutation(np.arange(place.start, place.stop))[:count]


def by_autograd(algorithm, batch, rules, weight=None):
    """Gradient of the loss as the paper writes it and what it says of the batch, in double precision."""
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
