"""DQN and Rainbow against plain numpy loops, and on a chain with known Q."""

import gymnasium
import numpy as np
import pytest
import torch
from learners import RULES, a_batch, a_learner, loss_and_gradient, source_of

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms.dqn.loss import project
from rl_agent.networks.q_network import QNetwork
from rl_agent.replay import EpisodeMemory
from rl_agent.replay.batch import Source, gather_n_step_transitions

PLAIN = {"clip_rewards": False}
RAINBOW = {"atoms": 5, "value_limit": 3.0, "n_step": 3, "sampler": "uniform", **PLAIN}


def outputs_of(network, weights, x, noise=None):
    """The network of Rainbow with one hidden layer, at one input, in plain numpy."""
    w, at, f = {name: block.astype(float) for name, block in network.views(weights).items()}, 0, {}
    for name, (coming, going) in network._layers.items():
        f[name] = (
            (noise[at : at + coming], noise[at + coming : at + coming + going])
            if noise is not None
            else None
        )
        at += coming + going

    def linear(name, h):
        weight, bias = w[f"{name}/mean"], w[f"{name}/mean_bias"]
        if f[name] is not None:
            weight = weight + w[f"{name}/sigma"] * np.outer(*f[name])
            bias = bias + w[f"{name}/sigma_bias"] * f[name][1]
        return h @ weight + bias

    stream = lambda name: linear(f"{name}1", np.maximum(linear(f"{name}0", x), 0.0))  # noqa: E731
    advantage = stream("advantage").reshape(network._choices, -1)
    if "value0" not in network._layers:
        return advantage
    return stream("value") + advantage - advantage.mean(0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("double", [False, True])
def test_dqn_loss_equals_a_plain_loop(double):
    learner = a_learner("dqn", choices=3, double=double, **PLAIN)
    algorithm, (_, batch) = learner.algorithm, a_batch(learner)
    target = algorithm.weights + 0.2 * np.random.default_rng(5).standard_normal(
        len(algorithm.weights)
    )
    loss, results, _ = loss_and_gradient(algorithm, batch, target=target.astype(np.float32))
    network, place, total = algorithm.q_network, algorithm.parts.slices["q"], 0.0
    for b in range(16):
        q = outputs_of(network, algorithm.weights[place], batch.windows[-1, b])[:, 0]
        after, by = (
            outputs_of(network, of[place], batch.next_windows[-1, b])[:, 0]
            for of in (target.astype(np.float32), algorithm.weights)
        )
        best = after[by.argmax()] if double else after.max()
        error = batch.reward[b] + 0.9 * batch.nonterminal[b] * best - q[int(batch.action[b, 0])]
        assert results["td_error"][b] == pytest.approx(error, rel=1e-5, abs=1e-6)
        total += 0.5 * error**2 if abs(error) < 1 else abs(error) - 0.5
    assert loss == pytest.approx(total / 16, rel=1e-5)


def test_rainbow_loss_equals_a_plain_loop():
    learner = a_learner("rainbow", choices=3, **RAINBOW)
    algorithm, (_, batch) = learner.algorithm, a_batch(learner)
    inputs, z = algorithm.inputs(batch, None), np.linspace(-3, 3, 5)
    loss, results, gradient = loss_and_gradient(algorithm, batch, inputs=inputs)
    network, place, losses = algorithm.q_network, algorithm.parts.slices["q"], []
    for b in range(16):
        now, by, after = (
            softmax(outputs_of(network, flat[place], x[-1, b], inputs[noise]))
            for flat, x, noise in (
                (algorithm.weights, batch.windows, "noise"),
                (algorithm.weights, batch.next_windows, "noise"),
                (algorithm.target, batch.next_windows, "target_noise"),
            )
        )
        best, aim = (by @ z).argmax(), np.zeros(5)
        for p, place_of in zip(after[best], z, strict=True):
            to = np.clip(batch.reward[b] + 0.9 * batch.nonterminal[b] * place_of, -3, 3)
            at = (to + 3) / 1.5
            low, high = int(np.floor(at)), int(np.ceil(at))
            aim[low] += p * (1 - (at - low))
            aim[high] += p * (at - low)
        taken = now[int(batch.action[b, 0])]
        losses.append(-aim @ np.log(taken))
        assert results["value"][b] == pytest.approx(taken @ z, rel=1e-4, abs=1e-5)
        mean = batch.reward[b] + 0.9 * batch.nonterminal[b] * after[best] @ z
        assert results["td_error"][b] == pytest.approx(mean - taken @ z, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(results["priority"], losses, rtol=1e-4)
    assert loss == pytest.approx(np.mean(losses), rel=1e-4)
    assert not gradient[algorithm.parts.slices["epsilon"]].any()
    assert not network.views(gradient[place])["noise"].any()  # it is sampled, not learned


def test_the_deterministic_policy_is_greedy_whatever_epsilon_is():
    learner = a_learner("dqn", choices=3, learning_starts=400, **PLAIN)
    assert learner.algorithm.epsilon == 1.0
    seen = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    network, weights = learner.algorithm.q_network, learner.algorithm.weights
    place = learner.algorithm.parts.slices["q"]
    expected = [outputs_of(network, weights[place], x)[:, 0].argmax() for x in seen]
    actions, _ = learner.policy().act(seen)
    assert actions[:, 0].tolist() == expected
    sampled, _ = learner.policy().act(seen, deterministic=False, rng=np.random.default_rng(0))
    assert sampled[:, 0].tolist() != expected


def test_projection_preserves_the_mean():
    rng = np.random.default_rng(0)
    atoms, p = (
        torch.linspace(-2, 2, 9, dtype=torch.float64),
        torch.tensor(rng.dirichlet(np.ones(9), 20)),
    )
    returns = torch.tensor(rng.uniform(-2, 2, (20, 9)))
    back = project(p, returns, atoms)
    torch.testing.assert_close(back.sum(1), torch.ones(20, dtype=torch.float64))
    torch.testing.assert_close(back @ atoms, (p * returns).sum(1))
    torch.testing.assert_close(
        project(p, returns + 9.0, atoms)[:, -1], torch.ones(20, dtype=torch.float64)
    )


@pytest.mark.parametrize("window", [0, 2])
def test_n_step_transitions_equal_a_plain_loop(window):
    learner = a_learner("ddpg", buffer_size=70, learning_starts=60)
    memory: EpisodeMemory = learner.memory
    mean, per_std, _, _ = source_of(memory)[1:]
    for scale in (2.0, None):
        source = Source(memory, mean, per_std, 0.9, scale or 1.0)
        indices, found = gather_n_step_transitions(
            source, memory.storage.indices(), window, 4, clips_rewards=scale is None
        )
        for b, k in enumerate(indices):
            e = memory.storage.rows(indices[b : b + 1])[0]
            left = memory.storage.length[e] - memory.storage.position[k]
            seen = [
                memory.storage.observation[(memory.storage.start[e] + t) % 70]
                for t in range(memory.storage.length[e])
            ]
            seen.append(memory.storage.final_observation[e])
            m, at = min(left, 4), memory.storage.position[k]
            rewards = [memory.storage.reward[(k + j) % 70] for j in range(m)]
            rewards = np.clip(rewards, -1, 1) if scale is None else np.array(rewards) / scale
            assert found.reward[b] == pytest.approx(
                np.sum(rewards * 0.9 ** np.arange(m)), rel=1e-5, abs=1e-6
            )
            assert found.nonterminal[b] == pytest.approx(
                0.0 if memory.storage.terminated[e] and m == left else 0.9 ** (m - 1)
            )
            for back in range(window + 1):
                t = at + m - back
                np.testing.assert_array_equal(
                    found.next_windows[-1 - back, b], seen[t] if t >= 0 else np.zeros(3)
                )
            assert found.next_lengths[b] == min(at + m, window) + 1


class Chain(gymnasium.Env):
    """Five states in a row: right from the last gives 1 and ends, left from any gives 0.2 and returns to the first."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (5,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return np.eye(5, dtype=np.float32)[0], {}

    def step(self, action):
        ends = bool(action) and self.place == 4
        reward = float(ends) if action else 0.2
        self.place = (self.place + 1 if action else 0) % 5
        return np.eye(5, dtype=np.float32)[self.place], reward, ends, False, {}


def q_of_the_chain(gamma):
    q = np.zeros((5, 2))
    for _ in range(500):
        v = q.max(1)
        q[:, 0] = 0.2 + gamma * v[0]
        q[:, 1] = [*gamma * v[1:], 1.0]
    return q


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow"])
def test_q_of_a_chain_is_learned_from_random_steps(algorithm):
    """Rewards 0.2 again and again against 1 at the end, from any actions: with gamma 0.7 staying is better at first."""
    gamma, rainbow = 0.7, {"atoms": 21, "value_limit": 1.0, "noise_sigma": 0.02}
    config = AgentConfig(
        algorithm=algorithm,
        hidden=(32,),
        gamma=gamma,
        learning_rate=5e-3,
        buffer_size=600,
        learning_starts=500,
        n_step=1,
        target_update_interval=20,
        clip_rewards=True,
        **(rainbow if algorithm == "rainbow" else {}),
    )
    learner, chain = (
        Learner(config, Chain.observation_space, Chain.action_space, agents=1, seed=0),
        Chain(),
    )
    learner.begin([0], [chain.reset()[0]])
    while learner.memory.storage.steps < 500 and learner.environment_steps < 700:
        seen, reward, ended, _, _ = chain.step(int(learner.act([0])[0, 0]))
        learner.observe(
            [0], [reward], [ended], [not ended and learner.environment_steps % 50 == 0], [seen]
        )
        if not learner.collector.open_episodes.is_open[0]:
            learner.begin([0], [chain.reset()[0]])
    for _ in range(500):
        learner.update()
    indices = (np.eye(5, dtype=np.float32) - learner.state_scale.mean) * learner.state_scale.per_std
    q = q_of_the_chain(gamma)
    said = learner.algorithm.act(indices.astype(np.float32), np.zeros((5, 0), np.float32))
    np.testing.assert_allclose(said.value, q.max(1), atol=0.05)
    actions, _ = learner.policy().act(np.eye(5), np.zeros((5, 0), np.float32), deterministic=True)
    np.testing.assert_array_equal(actions[:, 0], q.argmax(1))
    assert set(q.argmax(1)) == {0, 1}


def test_epsilon_decays_for_dqn_and_is_zero_for_rainbow():
    learner = a_learner(
        "dqn", choices=2, env_steps_per_gradient_step=2.0, epsilon=0.2, epsilon_steps=100
    )
    algorithm = learner.algorithm
    for steps, epsilon in ((0, 1.0), (25, 0.6), (50, 0.2), (80, 0.2)):
        algorithm.optimiser.adams["q"].steps = steps
        assert learner.statistics()["epsilon"] == pytest.approx(epsilon)
        _, mean, _, _ = algorithm.act(np.zeros((1, 3), np.float32), np.zeros((1, 0), np.float32))
        np.testing.assert_allclose(np.sort(mean[0]), [epsilon / 2, 1 - epsilon / 2], rtol=1e-5)
    assert a_learner("rainbow", choices=2).algorithm.epsilon == 0.0


def test_noise_is_fixed_between_updates_and_off_when_deterministic():
    learner = a_learner("rainbow", choices=3, atoms=3, noise_sigma=2.0)
    algorithm, (_, batch) = learner.algorithm, a_batch(learner)
    seen, nothing = np.ones((2, 3), np.float32), np.zeros((2, 0), np.float32)
    values = []
    for _ in range(3):
        algorithm.update(batch, 1e-9, RULES)
        values += [algorithm.act(seen, nothing).value[0] for _ in range(2)]
    assert values[::2] == values[1::2]
    assert len({round(float(value), 4) for value in values}) == 3
    place = algorithm.parts.slices["q"]
    z, scaled = (
        np.linspace(-10, 10, 3),
        (np.ones(3) - learner.state_scale.mean) * learner.state_scale.per_std,
    )
    still = softmax(outputs_of(algorithm.q_network, algorithm.weights[place], scaled)) @ z
    actions, _ = learner.policy().act(seen, nothing, deterministic=True)
    assert (actions[:, 0] == still.argmax()).all()


def test_common_shift_of_advantages_does_not_change_q():
    network = QNetwork(3, 0, (4,), 3, 1, encoder=None, is_dueling=True, sigma=None)
    weights = network.initialise(np.random.default_rng(0))
    q = network.reference(torch.from_numpy(weights), torch.ones(1, 2, 3), torch.ones(2))
    network.views(weights)["advantage1/mean_bias"][:] += 7.0
    torch.testing.assert_close(
        q, network.reference(torch.from_numpy(weights), torch.ones(1, 2, 3), torch.ones(2))
    )


def test_gradients_are_clipped_to_the_maximum_norm():
    short, long = (
        a_learner("dqn", choices=2, max_gradient_norm=most, **PLAIN) for most in (1e-3, None)
    )
    _, batch = a_batch(short)
    for learner in (short, long):
        learner.algorithm.update(batch, 1e-3, RULES)
    of_short, of_long = (
        short.algorithm.optimiser.adams["q"].first,
        long.algorithm.optimiser.adams["q"].first,
    )
    assert np.linalg.norm(of_short) == pytest.approx(0.1 * 1e-3, rel=1e-3)
    np.testing.assert_allclose(
        of_short / np.linalg.norm(of_short), of_long / np.linalg.norm(of_long), atol=1e-4
    )
