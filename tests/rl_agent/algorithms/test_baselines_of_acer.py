"""A3C and TIS, plain and in a trust region, against the equations of the ACER paper."""

import gymnasium
import numpy as np
import pytest
from learners import (
    GAMMA,
    a_batch,
    a_learner,
    assert_slopes,
    box,
    gaussian,
    loss_and_gradient,
    network,
)

from rl_agent import Learner
from rl_agent.replay import Source

DELTA = 0.05


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def directions_and_errors(learner, batch, steps, choices):
    """z and (weight, return, state) of every step, by scalars; ``steps`` has (row, state, weighted advantage)."""
    algorithm, out = learner.algorithm, []
    phi_of = (lambda s, w: softmax(network(algorithm, "policy", s, w))) if choices else None
    phi_of = phi_of or (lambda s, w: network(algorithm, "policy", s, w))
    bound = 0
    for row, s, advantage in steps:
        phi, a = phi_of(s, algorithm.weights), batch.action[row].astype(float)
        slope = np.eye(choices)[int(a[0])] / phi if choices else (a - phi) / 0.25
        g = advantage * slope
        if algorithm.target is not None:
            average = phi_of(s, algorithm.target)
            k = -average / phi if choices else (phi - average) / 0.25
            excess = max(0.0, (k @ g - DELTA) / (k @ k))
            bound += excess > 0
            g = g - excess * k
        out.append((s, g))
    return phi_of, out, bound


def rho_of(algorithm, batch, row, s, choices):
    outputs, a = network(algorithm, "policy", s), batch.action[row].astype(float)
    if choices:
        return softmax(outputs)[int(a[0])] / batch.behaviour_mean[row][int(a[0])]
    mu = batch.behaviour_mean[row].astype(float), batch.behaviour_std[row].astype(float)
    return gaussian(a, outputs, 0.5) / gaussian(a, *mu)


def check(learner, batch, phi_of, directions, targets):
    """The gradient of the loss by finite differences of -phi'z and the squared errors."""
    algorithm = learner.algorithm
    held = algorithm.weights.astype(float)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    losses = {
        "policy": lambda w: -np.mean([phi_of(s, w) @ z for s, z in directions]),
        "value": lambda w: (
            0.5
            * np.mean([c * (g - network(algorithm, "value", s, w)[0]) ** 2 for c, g, s in targets])
        ),
    }
    assert_slopes(algorithm, gradient, losses, least=1e-2)
    for part, loss in losses.items():
        assert results[f"{part}_loss"] == pytest.approx(loss(held), rel=1e-5)


def moved(name, choices, **settings):
    learner = a_learner(name, choices=choices, sigma=0.5, **settings)
    algorithm = learner.algorithm
    assert (algorithm.target is not None) == name.startswith("trust")
    if algorithm.target is not None:
        noise = np.random.default_rng(5).standard_normal(len(algorithm.target)).astype(np.float32)
        algorithm.target[:] -= 0.3 * noise
    return learner


@pytest.mark.parametrize("choices", [0, 3])
@pytest.mark.parametrize("name", ["tis", "trust-tis"])
def test_tis_matches_appendix_e2(name, choices):
    more = {"trust_region": DELTA} if name.startswith("trust") else {}
    learner = moved(name, choices, episodes=4, segment=5, importance_clip=1.2, **more)
    algorithm = learner.algorithm
    indices, batch = a_batch(learner)
    n = batch.exists.shape[1]
    row_of = {int(index): row for row, index in enumerate(batch.index)}
    steps, targets, cut = [], [], 0
    for b in range(n):
        after = batch.sequences[-1, b].astype(float)
        total, product = network(algorithm, "value", after)[0] * batch.nonterminal[b], 1.0
        for t in range(len(batch.exists) - 1, -1, -1):
            if t * n + b not in row_of:
                continue
            row, s = row_of[t * n + b], batch.sequences[t, b].astype(float)
            total = float(batch.reward[row]) + GAMMA * total
            product *= rho_of(algorithm, batch, row, s, choices)
            weight = min(1.2, product)
            cut += product > 1.2
            steps.append((row, s, weight * (total - network(algorithm, "value", s)[0])))
            targets.append((weight, total, s))
    assert len(steps) == len(indices)
    assert 0 < cut < len(steps)
    phi_of, directions, bound = directions_and_errors(learner, batch, steps, choices)
    assert (0 < bound < len(steps)) == bool(more)
    check(learner, batch, phi_of, directions, targets)


@pytest.mark.parametrize("choices", [0, 3])
@pytest.mark.parametrize("name", ["a3c", "trust-a3c"])
def test_a3c_matches_equation_2(name, choices):
    """Returns up to the last step of each agent since the previous gradient, with the networks of that time."""
    more = {"trust_region": DELTA} if name.startswith("trust") else {}
    learner = moved(name, choices, horizon=48, **more)
    algorithm, memory = learner.algorithm, learner.memory
    moved_on = algorithm.weights.copy()
    actions = gymnasium.spaces.Discrete(choices) if choices else box(2)
    algorithm.weights[:] = Learner(
        learner.config, box(3, np.inf), actions, agents=2, seed=0
    ).algorithm.weights
    assert learner.updates_due() == 1
    scale = learner.reward_scale.value
    assert scale == pytest.approx(
        np.sqrt(np.mean(memory.storage.reward[memory.storage.indices()] ** 2)), rel=1e-5
    )
    units = learner.state_scale.mean, learner.state_scale.per_std, GAMMA, scale
    indices, batch = algorithm.gather(Source(memory, *units), memory.storage.indices())
    assert len(indices) == 48
    seen = {int(index): batch.windows[0, row].astype(float) for row, index in enumerate(indices)}
    row_of = {int(index): row for row, index in enumerate(indices)}
    found = [(batch.q_ret[row], batch.v_tbc[row]) for row in range(48)]
    steps, targets = [], []
    for episode in memory.storage.all_rows():
        final = (
            memory.storage.final_observation[episode] - learner.state_scale.mean
        ) * learner.state_scale.per_std
        total = (
            0.0 if memory.storage.terminated[episode] else float(memory.values.final_value[episode])
        )
        if not memory.storage.terminated[episode]:
            assert total == pytest.approx(
                algorithm.values(final[None, None], np.ones(1, np.int64))[0], abs=1e-6
            )
        for t in range(memory.storage.length[episode] - 1, -1, -1):
            index = int((memory.storage.start[episode] + t) % memory.storage.capacity)
            total = memory.storage.reward[index] / scale + GAMMA * total
            row, s = row_of[index], seen[index]
            value = algorithm.values(s[None, None].astype(np.float32), np.ones(1, np.int64))[0]
            assert found[row] == pytest.approx((total - value, total), abs=1e-5)
            steps.append((row, s, float(batch.q_ret[row])))
            targets.append((1.0, float(batch.v_tbc[row]), s))
    algorithm.weights[:] = moved_on
    phi_of, directions, bound = directions_and_errors(learner, batch, steps, choices)
    assert (0 < bound < len(steps)) == bool(more)
    check(learner, batch, phi_of, directions, targets)


def test_a3c_uses_each_horizon_for_one_gradient():
    learner = a_learner("a3c", horizon=48)
    learner.update()
    assert learner.updates_due() == 0
    assert learner.memory.storage.steps == 0
    assert learner.may_act()
