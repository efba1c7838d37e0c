"""The losses of the algorithms against the equations of their papers, one step at a time."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from learners import (
    GAMMA,
    ONE_STEP,
    RULES,
    a_batch,
    a_learner,
    box,
    divergence,
    finite_differences,
    gaussian,
    loss_and_gradient,
    network,
    some,
)

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms.making import make_algorithm
from rl_agent.algorithms.naf.loss import q_value
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay import Source

# --- what is gathered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_transitions_end_where_the_episode_did(network):
    learner = a_learner("ddpg", network=network)
    memory = learner.memory
    source = Source(memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7)
    indices, batch = learner.algorithm.gather(source, memory.storage.indices())
    window = learner.algorithm.network.history
    kinds = set()
    for b, place in enumerate(indices):
        row, position = memory.storage.rows(place), memory.storage.position[place]
        length = memory.storage.length[row]
        observations = np.concatenate(
            [
                memory.storage.observation[
                    memory.storage.start[row] : memory.storage.start[row] + length
                ],
                memory.storage.final_observation[row][None],
            ]
        )
        scaled = (observations - source.mean) * source.per_std
        for windows, lengths, now in (
            (batch.windows, batch.lengths, position),
            (batch.next_windows, batch.next_lengths, position + 1),
        ):
            first = max(0, now - window)
            assert lengths[b] == now - first + 1
            np.testing.assert_allclose(
                windows[window - (now - first) :, b], scaled[first : now + 1], atol=1e-6
            )
            assert not windows[: window - (now - first), b].any()
        is_terminal = position == length - 1 and memory.storage.terminated[row]
        assert batch.nonterminal[b] == 1.0 - is_terminal
        assert batch.reward[b] == pytest.approx(memory.storage.reward[place] / 1.7)
        kinds.add((position == length - 1, bool(memory.storage.terminated[row])))
    assert kinds == set(itertools.product((False, True), repeat=2))
    assert (np.diff(batch.lengths) <= 0).all()


# --- one-step algorithms ---------------------------------------------------------------------------------------------


def step(batch, b):
    names = (
        "windows",
        "next_windows",
        "action",
        "behaviour_mean",
        "behaviour_std",
        "reward",
        "nonterminal",
    )
    s, after, *rest = (getattr(batch, n).astype(float) for n in names)
    return s[0, b], after[0, b], *(array[b] for array in rest)


def test_ddpg_matches_algorithm_4():
    learner = a_learner("ddpg", critic_l2=0.01)
    algorithm = learner.algorithm
    algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    assert 0 < results["far"].sum() < 16
    actor = lambda s, flat: np.tanh(network(algorithm, "policy", s, flat))  # noqa: E731
    critic = lambda s, a, flat: network(algorithm, "critic", np.r_[s, a], flat)[0]  # noqa: E731
    held = algorithm.weights.astype(float)

    def critics_loss(flat):
        total = 0.0
        for b in range(16):
            s, after, a, m_mu, s_mu, r, nonterminal = step(batch, b)
            q_next = critic(after, actor(after, algorithm.target), algorithm.target)
            rho = gaussian(a, actor(s, held), 0.2) / gaussian(a, m_mu, s_mu)
            if 1 / 3 < rho < 3:
                total += (
                    0.5
                    * (critic(s, np.clip(a, -1, 1), flat) - (r + GAMMA * nonterminal * q_next)) ** 2
                )
        return total / 16 + 0.01 / 2 * np.sum(flat[algorithm.parts.slices["critic"]] ** 2)

    def policys_loss(flat):
        total = 0.0
        for b in range(16):
            s, _, a, m_mu, s_mu, _, _ = step(batch, b)
            m = actor(s, flat)
            rho = gaussian(a, actor(s, held), 0.2) / gaussian(a, m_mu, s_mu)
            total -= 0.4 * critic(s, m, held) * (1 / 3 < rho < 3)
            total += 0.6 * divergence(m_mu, s_mu, m, 0.2)
        return total / 16

    for part, loss in (("critic", critics_loss), ("policy", policys_loss)):
        where = some(algorithm, part)
        np.testing.assert_allclose(
            gradient[where], finite_differences(loss, held, where), atol=1e-7, rtol=1e-4
        )
        assert np.abs(gradient[where]).max() > 1e-2


def test_td3_matches_algorithm_1():
    learner = a_learner("td3", target_noise=0.5, target_noise_clip=0.6, activation="softsign")
    algorithm = learner.algorithm
    algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    assert np.abs(inputs["noise"]).max() == pytest.approx(0.6)
    rules = RULES._replace(beta=1.0, rule_1=False)
    _, _, gradient = loss_and_gradient(algorithm, batch, rules, inputs=inputs)
    actor = lambda s, flat: np.tanh(network(algorithm, "policy", s, flat))  # noqa: E731
    critic = lambda name, s, a, flat: network(algorithm, name, np.r_[s, a], flat)[0]  # noqa: E731
    held = algorithm.weights.astype(float)

    def critics_loss(flat):
        total, lesser = 0.0, set()
        for b in range(16):
            s, after, a, _, _, r, nonterminal = step(batch, b)
            chosen = np.clip(actor(after, algorithm.target) + inputs["noise"][b], -1, 1)
            both = [
                critic(name, after, chosen, algorithm.target) for name in ("critic_1", "critic_2")
            ]
            lesser.add(int(np.argmin(both)))
            for name in ("critic_1", "critic_2"):
                q = critic(name, s, np.clip(a, -1, 1), flat)
                total += 0.5 * (q - r - GAMMA * nonterminal * min(both)) ** 2
        assert lesser == {0, 1}
        return total / 16

    def policys_loss(flat):
        return -np.mean(
            [
                critic("critic_1", s, actor(s, flat), held)
                for s, *_ in (step(batch, b) for b in range(16))
            ]
        )

    for part, loss in (
        ("critic_1", critics_loss),
        ("critic_2", critics_loss),
        ("policy", policys_loss),
    ):
        where = some(algorithm, part)
        np.testing.assert_allclose(
            gradient[where], finite_differences(loss, held, where), atol=1e-7, rtol=1e-4
        )
        assert np.abs(gradient[where]).max() > 1e-2


def test_td3_updates_policy_and_targets_every_second_step():
    learner = a_learner("td3", learning_rate=1e-2)
    algorithm = learner.algorithm
    slices = algorithm.parts.slices
    for k in range(1, 7):
        before, target = algorithm.weights.copy(), algorithm.target.copy()
        learner.update()
        moved = np.abs(algorithm.weights - before)
        assert moved[slices["critic_1"]].max() > 1e-4
        assert moved[slices["critic_2"]].max() > 1e-4
        assert (moved[slices["policy"]].max() > 1e-5) == (k % 2 == 0)
        rate = algorithm.config.tau if k % 2 == 0 else 0.0
        np.testing.assert_allclose(
            algorithm.target, target + rate * (algorithm.weights - target), atol=1e-6
        )
    assert algorithm.optimiser.adams["policy"].steps == 3


def test_sac_matches_its_three_losses():
    learner = a_learner("sac", activation="tanh", sigma=0.6, target_entropy=-1.5)
    algorithm = learner.algorithm
    algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    rules = RULES._replace(beta=1.0, rule_1=False)
    _, _, gradient = loss_and_gradient(algorithm, batch, rules, inputs=inputs)
    held = algorithm.weights.astype(float)
    temperature = np.exp(held[-1])

    def sample(s, noise, flat):
        outputs = network(algorithm, "policy", s, flat)
        m, std = outputs[:2], 0.6 * np.exp(outputs[2:])
        u = m + std * noise
        return np.tanh(u), np.log(gaussian(u, m, std)) - np.sum(np.log(1 - np.tanh(u) ** 2))

    def lesser(s, a, flat):
        return min(
            network(algorithm, name, np.r_[s, a], flat)[0] for name in ("critic_1", "critic_2")
        )

    def critics_loss(flat):
        total = 0.0
        for b in range(16):
            s, after, raw, _, _, r, nonterminal = step(batch, b)
            a, log_pi = sample(after, inputs["next_noise"][b], held)
            target = r + GAMMA * nonterminal * (
                lesser(after, a, algorithm.target) - temperature * log_pi
            )
            for name in ("critic_1", "critic_2"):
                total += (
                    0.5 * (network(algorithm, name, np.r_[s, np.tanh(raw)], flat)[0] - target) ** 2
                )
        return total / 16

    def policys_loss(flat):
        total = 0.0
        for b in range(16):
            s = step(batch, b)[0]
            a, log_pi = sample(s, inputs["noise"][b], flat)
            total += temperature * log_pi - lesser(s, a, held)
        return total / 16

    def temperatures_loss(flat):
        log_pi = np.mean(
            [sample(step(batch, b)[0], inputs["noise"][b], held)[1] for b in range(16)]
        )
        return -flat[-1] * (log_pi - 1.5)

    cases = {
        "critic_1": critics_loss,
        "critic_2": critics_loss,
        "policy": policys_loss,
        "temperature": temperatures_loss,
    }
    for part, loss in cases.items():
        where = some(algorithm, part)
        np.testing.assert_allclose(
            gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=1e-4
        )
        assert np.abs(gradient[where]).max() > 1e-2


def test_naf_is_q_learning_with_a_quadratic_q():
    learner = a_learner("naf")
    algorithm = learner.algorithm
    algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    assert 0 < results["far"].sum() < 16
    held = algorithm.weights.astype(float)

    def loss(flat):
        total = 0.0
        for b in range(16):
            s, after, a, m_mu, s_mu, r, nonterminal = step(batch, b)
            outputs, held_m = (
                network(algorithm, "network", s, flat),
                network(algorithm, "network", s, held)[1:3],
            )
            m, entries = outputs[1:3], outputs[3:]
            softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731
            lower = np.array([[softplus(entries[0]), 0.0], [entries[1], softplus(entries[2])]])
            q = outputs[0] - (a - m) @ lower @ lower.T @ (a - m)
            target = (
                r + GAMMA * nonterminal * network(algorithm, "network", after, algorithm.target)[0]
            )
            rho = gaussian(a, held_m, 0.2) / gaussian(a, m_mu, s_mu)
            total += 0.4 * 0.5 * (q - target) ** 2 * (1 / 3 < rho < 3) + 0.6 * divergence(
                m_mu, s_mu, m, 0.2
            )
        return total / 16

    where = some(algorithm, "network", 30)
    np.testing.assert_allclose(
        gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=1e-4
    )
    assert np.abs(gradient[where]).max() > 1e-2


def test_nafs_q_is_largest_at_its_mean():
    outputs = torch.tensor(np.random.default_rng(0).normal(size=(1, 6)))
    best = q_value(outputs, outputs[:, 1:3])
    assert best.item() == pytest.approx(outputs[0, 0].item())
    for offset in np.random.default_rng(1).normal(size=(20, 2)):
        assert q_value(outputs, outputs[:, 1:3] + torch.tensor(offset)) < best


@pytest.mark.parametrize("network", ["mlp", "lstm"])
@pytest.mark.parametrize("name", ONE_STEP)
def test_far_policy_steps_have_zero_gradient(name, network):
    learner = a_learner(name, network=network, replay="refer", sigma=0.4)
    algorithm = learner.algorithm
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    _, results, gradient = loss_and_gradient(algorithm, batch, inputs=inputs)
    far = results["far"] > 0.5
    assert 0 < far.sum() < 16
    wild = inputs | {"reward": inputs["reward"] + np.where(far, 1e6, 0.0)}
    np.testing.assert_array_equal(loss_and_gradient(algorithm, batch, inputs=wild)[2], gradient)
    other = inputs | {"reward": inputs["reward"] + np.where(far, 0.0, 1.0)}
    assert np.abs(loss_and_gradient(algorithm, batch, inputs=other)[2] - gradient).max() > 1e-3


@pytest.mark.parametrize("name", ONE_STEP)
def test_sampler_weights_scale_the_value_loss(name):
    learner = a_learner(name, replay="none", critic_l2=0.0)
    algorithm = learner.algorithm
    _, batch = a_batch(learner)
    rules = RULES._replace(beta=1.0, rule_1=False)
    inputs = algorithm.inputs(batch, None)
    part = {"naf": "network", "ddpg": "critic"}.get(name, "critic_1")

    def of(weight):
        gradient = loss_and_gradient(algorithm, batch, rules, inputs=inputs | {"weight": weight})[2]
        return gradient[algorithm.parts.slices[part]]

    rng = np.random.default_rng(0)
    one, other = rng.uniform(size=(2, 16))
    np.testing.assert_allclose(of(one + other), of(one) + of(other), atol=1e-12)
    assert np.abs(of(one) - of(other)).max() > 1e-4


# --- common ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ddpg", "naf", "td3", "sac"])
def test_algorithms_without_discrete_actions_refuse_them(name):
    with pytest.raises(
        ValueError,
        match=rf"algorithm = {name} needs continuous actions .* 4 discrete ones; use a3c, .*dqn, rainbow, .* or vracer",
    ):
        make_algorithm(AgentConfig(algorithm=name), Sizes(3, 1, 4), np.random.default_rng(0))


def test_closed_form_advantages_of_discrete_actions_are_refused():
    with pytest.raises(ValueError, match="advantage = quadratic is for continuous actions"):
        make_algorithm(AgentConfig(advantage="quadratic"), Sizes(3, 1, 4), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        *itertools.product(("vracer", "acer", "tis", "a3c", "ppo"), (0, 3)),
        *((name, 0) for name in ONE_STEP),
    ],
)
def test_acting_and_learning_policies_are_the_same(name, choices):
    """Right after acting, importance weights are 1 and divergences 0, so the policies of numpy and torch agree."""
    settings = (
        {"horizon": 48, "batch_size": 24} if name in ("a3c", "ppo") else {"learning_starts": 400}
    )
    if name in ("td3", "sac"):
        settings |= {"random_start": False}
    learner = a_learner(name, choices=choices, **settings)
    # the weights that acted
    fresh = Learner(
        learner.config,
        box(3, np.inf),
        gymnasium.spaces.Discrete(3) if choices else box(2),
        agents=2,
        seed=0,
    )
    learner.algorithm.weights[:] = fresh.algorithm.weights
    # nothing was standardised yet
    learner.state_scale.mean[:], learner.state_scale.per_std[:] = 0.0, 1.0
    _, batch = a_batch(learner)
    _, results, _ = loss_and_gradient(learner.algorithm, batch)
    np.testing.assert_allclose(results["rho"], 1.0, atol=3e-5)
    np.testing.assert_allclose(results["kl"], 0.0, atol=1e-6)
