"""The losses of the algorithms against the equations of their papers, one step at a time."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from learners import GAMMA, RULES, a_batch, a_learner, box, loss_and_gradient
from scipy.optimize import minimize

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms import Source, make_algorithm
from rl_agent.algorithms.acer import retrace, trust_region_step
from rl_agent.algorithms.naf import q_value
from rl_agent.scaling import Sizes

ONE_STEP = ("ddpg", "naf", "td3", "sac")


def network(algorithm, name, x, flat=None):
    """One hidden layer in plain numpy, at one input."""
    flat = algorithm.weights if flat is None else flat
    part = algorithm.parts.parts[name]
    w = part.views(flat[algorithm.parts.places[name]].astype(float))
    z = x @ w["weight0"] + w["bias0"]
    h = {"softsign": z / (1 + np.abs(z)), "relu": np.maximum(z, 0), "tanh": np.tanh(z)}[part.activation]
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


# --- what is gathered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_transitions_end_where_the_episode_did(network):
    learner = a_learner("ddpg", network=network)
    memory = learner.memory
    source = Source(memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7)
    slots, batch = learner.algorithm.gather(source, memory.slots())
    window = learner.algorithm.network.history
    kinds = set()
    for b, slot in enumerate(slots):
        row, position = memory.rows(slot), memory.position[slot]
        length = memory.length[row]
        observations = np.concatenate(
            [memory.observation[memory.start[row] : memory.start[row] + length], memory.final_observation[row][None]]
        )
        scaled = (observations - source.mean) * source.per_std
        for windows, lengths, now in (
            (batch.windows, batch.lengths, position),
            (batch.next_windows, batch.next_lengths, position + 1),
        ):
            first = max(0, now - window)
            assert lengths[b] == now - first + 1
            np.testing.assert_allclose(windows[window - (now - first) :, b], scaled[first : now + 1], atol=1e-6)
            assert not windows[: window - (now - first), b].any()
        is_terminal = position == length - 1 and memory.terminated[row]
        assert batch.goes_on[b] == 1.0 - is_terminal
        assert batch.reward[b] == pytest.approx(memory.reward[slot] / 1.7)
        kinds.add((position == length - 1, bool(memory.terminated[row])))
    assert kinds == set(itertools.product((False, True), repeat=2))
    assert (np.diff(batch.lengths) <= 0).all()


# --- one-step algorithms ---------------------------------------------------------------------------------------------


def step(batch, b):
    names = ("windows", "next_windows", "action", "behaviour_mean", "behaviour_std", "reward", "goes_on")
    s, after, *rest = (getattr(batch, n).astype(float) for n in names)
    return s[0, b], after[0, b], *(array[b] for array in rest)


def test_ddpg_is_algorithm_4():
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
            s, after, a, m_mu, s_mu, r, goes_on = step(batch, b)
            q_next = critic(after, actor(after, algorithm.target), algorithm.target)
            rho = gaussian(a, actor(s, held), 0.2) / gaussian(a, m_mu, s_mu)
            if 1 / 3 < rho < 3:
                total += 0.5 * (critic(s, np.clip(a, -1, 1), flat) - (r + GAMMA * goes_on * q_next)) ** 2
        return total / 16 + 0.01 / 2 * np.sum(flat[algorithm.parts.places["critic"]] ** 2)

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
        np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-7, rtol=1e-4)
        assert np.abs(gradient[where]).max() > 1e-2


def test_td3_is_its_algorithm_1():
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
            s, after, a, _, _, r, goes_on = step(batch, b)
            chosen = np.clip(actor(after, algorithm.target) + inputs["noise"][b], -1, 1)
            both = [critic(name, after, chosen, algorithm.target) for name in ("critic", "other")]
            lesser.add(int(np.argmin(both)))
            for name in ("critic", "other"):
                q = critic(name, s, np.clip(a, -1, 1), flat)
                total += 0.5 * (q - r - GAMMA * goes_on * min(both)) ** 2
        assert lesser == {0, 1}
        return total / 16

    def policys_loss(flat):
        return -np.mean([critic("critic", s, actor(s, flat), held) for s, *_ in (step(batch, b) for b in range(16))])

    for part, loss in (("critic", critics_loss), ("other", critics_loss), ("policy", policys_loss)):
        where = some(algorithm, part)
        np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-7, rtol=1e-4)
        assert np.abs(gradient[where]).max() > 1e-2


def test_policy_and_targets_of_td3_move_in_every_second_step():
    learner = a_learner("td3", learning_rate=1e-2)
    algorithm = learner.algorithm
    places = algorithm.parts.places
    for k in range(1, 7):
        before, target = algorithm.weights.copy(), algorithm.target.copy()
        learner.update()
        moved = np.abs(algorithm.weights - before)
        assert moved[places["critic"]].max() > 1e-4
        assert moved[places["other"]].max() > 1e-4
        assert (moved[places["policy"]].max() > 1e-5) == (k % 2 == 0)
        rate = algorithm.config.target_rate if k % 2 == 0 else 0.0
        np.testing.assert_allclose(algorithm.target, target + rate * (algorithm.weights - target), atol=1e-6)
    assert algorithm.adams["policy"].steps == 3


def test_sac_is_its_three_losses():
    learner = a_learner("sac", activation="tanh", sigma=0.6, target_entropy=-1.5)
    algorithm = learner.algorithm
    algorithm.target[:] -= np.float32(0.05)
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    rules = RULES._replace(beta=1.0, rule_1=False)
    _, _, gradient = loss_and_gradient(algorithm, batch, rules, inputs=inputs)
    held = algorithm.weights.astype(float)
    temperature = np.exp(held[-1])

    def draw(s, noise, flat):
        outputs = network(algorithm, "policy", s, flat)
        m, std = outputs[:2], 0.6 * np.exp(outputs[2:])
        u = m + std * noise
        return np.tanh(u), np.log(gaussian(u, m, std)) - np.sum(np.log(1 - np.tanh(u) ** 2))

    def lesser(s, a, flat):
        return min(network(algorithm, name, np.r_[s, a], flat)[0] for name in ("critic", "other"))

    def critics_loss(flat):
        total = 0.0
        for b in range(16):
            s, after, raw, _, _, r, goes_on = step(batch, b)
            a, log_pi = draw(after, inputs["next_noise"][b], held)
            target = r + GAMMA * goes_on * (lesser(after, a, algorithm.target) - temperature * log_pi)
            for name in ("critic", "other"):
                total += 0.5 * (network(algorithm, name, np.r_[s, np.tanh(raw)], flat)[0] - target) ** 2
        return total / 16

    def policys_loss(flat):
        total = 0.0
        for b in range(16):
            s = step(batch, b)[0]
            a, log_pi = draw(s, inputs["noise"][b], flat)
            total += temperature * log_pi - lesser(s, a, held)
        return total / 16

    def temperatures_loss(flat):
        log_pi = np.mean([draw(step(batch, b)[0], inputs["noise"][b], held)[1] for b in range(16)])
        return -flat[-1] * (log_pi - 1.5)

    cases = {"critic": critics_loss, "other": critics_loss, "policy": policys_loss, "temperature": temperatures_loss}
    for part, loss in cases.items():
        where = some(algorithm, part)
        np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=1e-4)
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
            s, after, a, m_mu, s_mu, r, goes_on = step(batch, b)
            outputs, held_m = network(algorithm, "network", s, flat), network(algorithm, "network", s, held)[1:3]
            m, entries = outputs[1:3], outputs[3:]
            softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731
            lower = np.array([[softplus(entries[0]), 0.0], [entries[1], softplus(entries[2])]])
            q = outputs[0] - (a - m) @ lower @ lower.T @ (a - m)
            target = r + GAMMA * goes_on * network(algorithm, "network", after, algorithm.target)[0]
            rho = gaussian(a, held_m, 0.2) / gaussian(a, m_mu, s_mu)
            total += 0.4 * 0.5 * (q - target) ** 2 * (1 / 3 < rho < 3) + 0.6 * divergence(m_mu, s_mu, m, 0.2)
        return total / 16

    where = some(algorithm, "network", 30)
    np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=1e-4)
    assert np.abs(gradient[where]).max() > 1e-2


def test_nafs_q_is_largest_at_its_mean():
    outputs = torch.tensor(np.random.default_rng(0).normal(size=(1, 6)))
    best = q_value(outputs, outputs[:, 1:3])
    assert best.item() == pytest.approx(outputs[0, 0].item())
    for offset in np.random.default_rng(1).normal(size=(20, 2)):
        assert q_value(outputs, outputs[:, 1:3] + torch.tensor(offset)) < best


@pytest.mark.parametrize("network", ["mlp", "lstm"])
@pytest.mark.parametrize("name", ONE_STEP)
def test_far_policy_steps_teach_exactly_nothing(name, network):
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
def test_weights_of_a_prioritised_sampler_weigh_the_values_loss(name):
    learner = a_learner(name, replay="none", critic_l2=0.0 if name != "naf" else AgentConfig().critic_l2)
    algorithm = learner.algorithm
    _, batch = a_batch(learner)
    rules = RULES._replace(beta=1.0, rule_1=False)
    inputs = algorithm.inputs(batch, None)
    part = "network" if name == "naf" else "critic"
    of = lambda weight: loss_and_gradient(algorithm, batch, rules, inputs=inputs | {"weight": weight})[2][  # noqa: E731
        algorithm.parts.places[part]
    ]
    rng = np.random.default_rng(0)
    one, other = rng.uniform(size=(2, 16))
    np.testing.assert_allclose(of(one + other), of(one) + of(other), atol=1e-12)
    assert np.abs(of(one) - of(other)).max() > 1e-4


# --- ACER ------------------------------------------------------------------------------------------------------------


def test_the_trust_region_solves_its_quadratic_program():
    rng = np.random.default_rng(0)
    binding = 0
    for _ in range(20):
        g, k = rng.normal(size=3) * 2, rng.normal(size=3)
        z = trust_region_step(torch.tensor(g), torch.tensor(k), 0.5).numpy()
        constraint = {"type": "ineq", "fun": lambda z, k=k: 0.5 - k @ z}
        solution = minimize(lambda z, g=g: 0.5 * np.sum((g - z) ** 2), g, constraints=[constraint], tol=1e-12)
        np.testing.assert_allclose(z, solution.x, atol=1e-5)
        binding += k @ g > 0.5
    assert 3 < binding < 17


def test_without_divergence_the_trust_region_lets_every_gradient_pass():
    g = torch.tensor([[3.0, -2.0]])
    torch.testing.assert_close(trust_region_step(g, torch.zeros(1, 2), 1.0), g)


def test_retrace_equals_its_sum_over_later_errors():
    """Eq. 5 of the ACER paper, and the definition of Munos et al. 2016: a sum of discounted, traced errors."""
    rng = np.random.default_rng(0)
    r, v, q = rng.normal(size=(3, 6, 2))
    trace, last = rng.uniform(0, 1, (6, 2)), rng.normal(size=2)
    tensors = [torch.tensor(x) for x in (r, v, q, trace, last)]
    targets = retrace(*tensors, GAMMA).numpy()
    following = np.concatenate([v[1:], last[None]])
    for b, i in itertools.product(range(2), range(6)):
        total = q[i, b]
        for j in range(i, 6):
            error = r[j, b] + GAMMA * following[j, b] - q[j, b]
            total += GAMMA ** (j - i) * np.prod(trace[i + 1 : j + 1, b]) * error
        assert targets[i, b] == pytest.approx(total, rel=1e-10)


def test_retrace_of_full_traces_and_no_critic_is_the_discounted_return():
    r = np.random.default_rng(0).normal(size=(5, 1))
    nothing = torch.zeros(5, 1, dtype=torch.float64)
    targets = retrace(torch.tensor(r), nothing, nothing, nothing + 1, torch.zeros(1, dtype=torch.float64), GAMMA)
    for i in range(5):
        assert targets[i, 0].item() == pytest.approx(sum(GAMMA ** (j - i) * r[j, 0] for j in range(i, 5)))


def test_stretches_of_acer_are_those_of_the_episodes():
    learner = a_learner("acer", episodes=5, segment=6)
    memory = learner.memory
    source = Source(memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.0)
    ends = np.array([2, 9, 13, memory.start[2] + memory.length[2] - 1, memory.start[3]])
    slots, batch = learner.algorithm.gather(source, ends)
    exists = batch.exists > 0.5
    np.testing.assert_array_equal(exists.sum(0), np.minimum(memory.position[ends] + 1, 6))
    np.testing.assert_array_equal(slots, np.where(exists, ends - np.arange(5, -1, -1)[:, None], -1)[exists])
    is_last = memory.position[ends] + 1 == memory.length[memory.rows(ends)]
    np.testing.assert_array_equal(batch.goes_on, ~(is_last & memory.terminated[memory.rows(ends)]))
    after = np.where(
        is_last[:, None], memory.final_observation[memory.rows(ends)], memory.observation[(ends + 1) % 400]
    )
    np.testing.assert_allclose(batch.windows[-1, -5:], (after - source.mean) * source.per_std, rtol=1e-5)


def test_places_before_an_episode_change_nothing():
    """A graph has rows for them, because its shapes are fixed; on the CPU they are left out."""
    learner = a_learner("acer", choices=3, episodes=4, segment=14)
    algorithm = learner.algorithm
    source = Source(learner.memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7)
    ends = np.array([3, 9, 15, 27])
    slots, batch = algorithm.gather(source, ends)
    _, _, gradient = loss_and_gradient(algorithm, batch)
    algorithm.config = algorithm.config.model_copy(update={"device": "cuda"})
    same_slots, padded = algorithm.gather(source, ends)
    np.testing.assert_array_equal(same_slots, slots)
    assert len(padded.action) == 4 * 14 > len(batch.action) == len(slots)
    _, results, same = loss_and_gradient(algorithm, padded)
    np.testing.assert_allclose(same, gradient, atol=1e-12)
    assert len(algorithm.sorted_results(results)["rho"]) == len(slots)


@pytest.mark.parametrize("choices", [0, 3])
def test_acer_is_its_pseudo_code(choices):
    """Algorithms 2 and 3 stretch by stretch: dtheta and dtheta_v as they are accumulated there."""
    settings = {
        "truncation": 1.2,
        "trust_region": 0.05,
        "episodes": 4,
        "segment": 5,
        "dueling_samples": 2,
        "sigma": 0.5,
    }
    learner = a_learner("acer", choices=choices, **settings)
    algorithm = learner.algorithm
    algorithm.target[:] -= 0.3 * np.random.default_rng(5).standard_normal(len(algorithm.target)).astype(np.float32)
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    _, _, gradient = loss_and_gradient(algorithm, batch, inputs=inputs)
    held = algorithm.weights.astype(float)
    softmax = lambda x: np.exp(x) / np.exp(x).sum()  # noqa: E731
    phi_of = lambda s, flat: network(algorithm, "policy", s, flat)  # noqa: E731
    if choices:
        logits, phi_of = phi_of, lambda s, flat: softmax(network(algorithm, "policy", s, flat))
        del logits
    value_of = lambda s, flat: network(algorithm, "critic", s, flat)  # noqa: E731

    pushes, targets = [], []
    steps, n = batch.exists.shape
    row_of = {int(place): row for row, place in enumerate(batch.place)}
    truncated_weights = corrected = bound = 0
    for b in range(n):
        last = batch.windows[0, len(batch.action) + b].astype(float)
        q_ret = (phi_of(last, held) @ value_of(last, held) if choices else value_of(last, held)[0]) * batch.goes_on[b]
        q_opc = q_ret
        for i in range(steps - 1, -1, -1):
            if batch.exists[i, b] < 0.5:
                continue
            k = row_of[i * n + b]
            s, a, mu = batch.windows[0, k].astype(float), batch.action[k].astype(float), batch.behaviour_mean[k]
            mu, r = mu.astype(float), float(batch.reward[k])
            phi, average = phi_of(s, held), phi_of(s, algorithm.target)
            q_ret, q_opc = r + GAMMA * q_ret, r + GAMMA * q_opc
            if choices:
                chosen = int(a[0])
                q_all = value_of(s, held)
                v, q = phi @ q_all, q_all[chosen]
                rho_all = phi / mu
                rho = rho_all[chosen]
                g = np.zeros(3)
                g[chosen] = min(1.2, rho) * (q_ret - v) / phi[chosen]
                for j in range(3):
                    g[j] += max(0.0, 1 - 1.2 / rho_all[j]) * phi[j] * (q_all[j] - v) / phi[j]
                    corrected += rho_all[j] > 1.2
                kl = -average / phi
                trace = min(1.0, rho)
            else:
                std_mu = batch.behaviour_std[k].astype(float)
                v = value_of(s, held)[0]
                lead = lambda x, s=s: network(algorithm, "advantage", np.r_[s, x], held)[0]  # noqa: E731
                draws = phi + 0.5 * inputs["noise"][:, k]
                centre = np.mean([lead(u) for u in draws[1:]])
                q, q_drawn = v + lead(a) - centre, v + lead(draws[0]) - centre
                rho = gaussian(a, phi, 0.5) / gaussian(a, mu, std_mu)
                rho_drawn = gaussian(draws[0], phi, 0.5) / gaussian(draws[0], mu, std_mu)
                g = min(1.2, rho) * (q_opc - v) * (a - phi) / 0.25
                g = g + max(0.0, 1 - 1.2 / rho_drawn) * (q_drawn - v) * (draws[0] - phi) / 0.25
                corrected += rho_drawn > 1.2
                kl = (phi - average) / 0.25
                trace = min(1.0, rho**0.5)
            truncated_weights += rho > 1.2
            excess = max(0.0, (kl @ g - 0.05) / (kl @ kl))
            bound += excess > 0
            pushes.append((s, g - excess * kl))
            targets.append((s, a, q_ret, v + min(1.0, rho) * (q_ret - q), None if choices else draws[1:]))
            q_ret = trace * (q_ret - q) + v
            q_opc = (q_opc - q) + v
    assert min(truncated_weights, corrected, bound) > 0
    assert bound < len(pushes)

    def policys_loss(flat):
        return -np.mean([phi_of(s, flat) @ z for s, z in pushes])

    def critics_loss(flat):
        total = 0.0
        for s, a, q_ret, v_target, draws in targets:
            if choices:
                total += 0.5 * (q_ret - value_of(s, flat)[int(a[0])]) ** 2
                continue
            lead = lambda x, s=s: network(algorithm, "advantage", np.r_[s, x], flat)[0]  # noqa: E731
            v = value_of(s, flat)[0]
            total += 0.5 * (q_ret - (v + lead(a) - np.mean([lead(u) for u in draws]))) ** 2 + 0.5 * (v_target - v) ** 2
        return total / len(targets)

    parts = {"policy": policys_loss, "critic": critics_loss} | ({} if choices else {"advantage": critics_loss})
    for part, loss in parts.items():
        where = some(algorithm, part)
        np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=2e-4)
        assert np.abs(gradient[where]).max() > 1e-2


# --- V-RACER where it has no fast path --------------------------------------------------------------------------------


@pytest.mark.parametrize(("choices", "form"), [(3, "none"), (0, "quadratic"), (0, "gaussian")])
def test_vracer_with_choices_and_with_closed_forms_is_eqs_6_to_10_and_23(choices, form):
    learner = a_learner("vracer", choices=choices, advantage=form)
    algorithm = learner.algorithm
    _, batch = a_batch(learner)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    held = algorithm.weights.astype(float)
    assert 0 <= results["far"].sum() < 16
    softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731

    def lead(coefficients, a, m, sigma):
        """A(s, a) with plain loops, eqs. 18 to 22."""
        d = a - m
        if form == "quadratic":
            lower = np.array([[softplus(coefficients[0]), 0.0], [coefficients[1], softplus(coefficients[2])]])
            square = lower @ lower.T
            return -0.5 * d @ square @ d + 0.5 * np.trace(square @ np.diag(sigma**2))
        k, up, down = softplus(coefficients[0]), softplus(coefficients[1:3]), softplus(coefficients[3:])
        mean = k * np.prod((np.sqrt(up / (up + sigma**2)) + np.sqrt(down / (down + sigma**2))) / 2)
        return k * np.exp(-0.5 * sum(d[i] ** 2 / (up[i] if d[i] > 0 else down[i]) for i in range(2))) - mean

    def loss(flat):
        total = 0.0
        for b in range(16):
            s, a, mu = (x.astype(float) for x in (batch.windows[0, b], batch.action[b], batch.behaviour_mean[b]))
            outputs, constant = (network(algorithm, "network", s, w) for w in (flat, held))
            q_ret, v_tbc = float(batch.q_ret[b]), float(batch.v_tbc[b])
            if choices:
                p, p_held = (np.exp(x[1:]) / np.exp(x[1:]).sum() for x in (outputs, constant))
                rho, rho_held = p[int(a[0])] / mu[int(a[0])], p_held[int(a[0])] / mu[int(a[0])]
                kl = np.sum(mu * np.log(mu / p))
            else:
                s_mu, sigma, sigma_held = batch.behaviour_std[b].astype(float), softplus(flat[-2:]), softplus(held[-2:])
                rho = gaussian(a, outputs[1:3], sigma) / gaussian(a, mu, s_mu)
                rho_held = gaussian(a, constant[1:3], sigma_held) / gaussian(a, mu, s_mu)
                kl = divergence(mu, s_mu, outputs[1:3], sigma)
            one = -rho * (q_ret - constant[0]) + 0.5 * (outputs[0] - v_tbc) ** 2
            if form != "none":
                error = lead(outputs[3:], a, constant[1:3], sigma_held) + constant[0] - q_ret
                one += 0.5 * (rho_held * error) ** 2
            total += 0.4 * one * (1 / 3 < rho_held < 3) + 0.6 * kl
        return total / 16

    where = np.r_[some(algorithm, "network", 30), np.arange(len(held) - 2, len(held))]
    np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=2e-4)
    assert np.abs(gradient[where]).max() > 1e-2
    if form != "none":
        places = algorithm.network.views(np.arange(algorithm.network.size))["weight1"][:, 3:].ravel()
        assert np.abs(gradient[places]).max() > 1e-3


def test_closed_forms_enter_the_stored_targets():
    learner = a_learner("vracer", advantage="quadratic")
    for _ in range(20):
        learner.update()
    memory = learner.memory
    slots = memory.slots()
    assert np.abs(memory.advantage[slots]).max() > 1e-2
    scale = learner.reward_scale.value
    for serial in range(memory.first_serial, memory.next_serial):
        row = serial % len(memory.start)
        following = float(memory.final_value[row])
        for k in range(memory.start[row] + memory.length[row] - 1, memory.start[row] - 1, -1):
            q_ret = memory.reward[k] / scale + GAMMA * following
            q = memory.value[k] + memory.advantage[k]
            following = memory.value[k] + min(1.0, memory.rho[k]) * (q_ret - q)
            assert memory.v_tbc[k] == pytest.approx(following, abs=1e-4)


# --- PPO -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [0, 3])
def test_ppo_is_its_clipped_objective(choices):
    learner = a_learner("ppo", choices=choices, horizon=48, batch=24)
    algorithm = learner.algorithm
    if choices:
        algorithm.weights[:] *= 2.0
    _, batch = a_batch(learner)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    held = algorithm.weights.astype(float)
    assert 0 < results["far"].sum() < 24

    def policys_loss(flat):
        total = 0.0
        for b in range(24):
            s, a, mu = (x.astype(float) for x in (batch.windows[0, b], batch.action[b], batch.behaviour_mean[b]))
            outputs = network(algorithm, "policy", s, flat)
            if choices:
                rho = np.exp(outputs[int(a[0])]) / np.exp(outputs).sum() / mu[int(a[0])]
            else:
                sigma = np.log1p(np.exp(flat[algorithm.parts.places["sigma"]]))
                rho = gaussian(a, outputs, sigma) / gaussian(a, mu, batch.behaviour_std[b].astype(float))
            lead = float(batch.q_ret[b])
            total -= min(rho * lead, min(max(rho, 0.8), 1.2) * lead)
        return total / 24

    def values_loss(flat):
        errors = [network(algorithm, "value", batch.windows[0, b].astype(float), flat)[0] for b in range(24)]
        return 0.5 * np.mean((np.array(errors) - batch.v_tbc) ** 2)

    parts = {"policy": policys_loss, "value": values_loss} | ({} if choices else {"sigma": policys_loss})
    for part, loss in parts.items():
        where = some(algorithm, part)
        np.testing.assert_allclose(gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=1e-3)
        assert np.abs(gradient[where]).max() > 1e-3


def test_ppo_cuts_at_its_horizon_and_learns_from_every_step_in_every_epoch():
    config = AgentConfig(algorithm="ppo", hidden=(6,), horizon=50, batch=10, epochs=3, gamma=GAMMA, gae_lambda=0.8)
    learner = Learner(config, box(2, np.inf), box(1), agents=3, seed=0)
    rng, everyone = np.random.default_rng(0), np.arange(3)
    learner.begin(everyone, rng.normal(size=(3, 2)))
    seen, updates = [], 0
    for t in range(1, 200):
        assert learner.may_act()
        learner.act(everyone)
        ends = np.array([t % 7 == 0, t % 60 == 0, False])
        terminal = ends & np.array([True, False, False])
        learner.observe(everyone, np.ones(3), terminal, ends & ~terminal, rng.normal(size=(3, 2)))
        learner.begin(everyone[ends], rng.normal(size=(int(ends.sum()), 2)))
        due = learner.updates_due()
        if due == 0:
            assert learner.memory.steps + learner.running.length.sum() < 50
            continue
        slots = learner.memory.slots()
        assert len(slots) == 51
        assert due == 3 * 5
        assert not learner.may_act()
        advantage = learner.memory.advantage[slots]
        assert advantage.mean() == pytest.approx(0.0, abs=1e-5)
        assert advantage.std() == pytest.approx(1.0, abs=1e-3)
        while learner.updates_due():
            learner.update()
            updates += 1
        assert learner.memory.steps == 0
        seen.append(t)
    assert seen == [17 * k for k in range(1, 12)]
    assert updates == 15 * 11
    lengths = {record.agent: record.length for record in learner.finished_episodes()}
    # cuts leave the episodes of the record whole
    assert lengths[0] == 7
    assert lengths[1] == 60


def test_an_action_that_is_out_when_ppo_cuts_belongs_to_the_next_iteration():
    config = AgentConfig(algorithm="ppo", hidden=(6,), horizon=8, batch=4, epochs=1)
    learner = Learner(config, box(1, np.inf), box(1), agents=2, seed=0)
    learner.begin([0, 1], [[1.0], [2.0]])
    learner.act([1])
    out = learner.running.action[1, 0].copy()
    for t in range(8):
        learner.act([0])
        learner.observe([0], [1.0], [False], [False], [[float(t)]])
    assert learner.updates_due() == 2
    assert learner.running.is_waiting[1]
    # it comes back while the others' steps are learned from, and ends its episode
    learner.update()
    learner.observe([1], [7.0], [True], [False], [[3.0]])
    assert learner.memory.steps == 9
    learner.update()
    assert learner.updates_due() == 0
    slot = learner.memory.slots()
    assert len(slot) == 1
    np.testing.assert_array_equal(learner.memory.action[slot[0]], out)
    assert learner.memory.reward[slot[0]] == 7.0

    # an agent that is cut in the middle of an episode keeps the action that is out
    for t in range(3):
        learner.act([0])
        learner.observe([0], [1.0], [False], [False], [[float(t)]])
    learner.act([0])
    out = learner.running.action[0, 3].copy()
    learner.begin([1], [[0.0]])
    for t in range(4):
        learner.act([1])
        learner.observe([1], [1.0], [False], [False], [[float(t)]])
    assert learner.updates_due() == 2
    np.testing.assert_array_equal(learner.running.action[0, 0], out)
    assert learner.running.is_waiting[0]
    learner.observe([0], [2.0], [True], [False], [[0.0]])
    *_, record = learner.finished_episodes()
    assert (record.episode_return, record.length) == (8 + 3 + 2.0, 12)


# --- common ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ddpg", "naf", "td3", "sac"])
def test_discrete_actions_are_refused_by_those_that_cannot_take_them(name):
    with pytest.raises(
        ValueError, match=rf"algorithm = {name} needs continuous actions .* 4 discrete ones; use vracer"
    ):
        make_algorithm(AgentConfig(algorithm=name), Sizes(3, 1, 4), np.random.default_rng(0))


def test_closed_form_advantages_of_discrete_actions_are_refused():
    with pytest.raises(ValueError, match="advantage = quadratic is a form of continuous actions"):
        make_algorithm(AgentConfig(advantage="quadratic"), Sizes(3, 1, 4), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "choices"), [*itertools.product(("vracer", "acer", "ppo"), (0, 3)), *((name, 0) for name in ONE_STEP)]
)
def test_what_acts_is_what_learns(name, choices):
    """Right after acting, importance weights are 1 and divergences 0: numpy and torch agree about the policy."""
    settings = {"horizon": 48, "batch": 24} if name == "ppo" else {"start": 400}
    if name in ("td3", "sac"):
        settings |= {"random_start": False}
    learner = a_learner(name, choices=choices, **settings)
    # the weights that acted
    fresh = Learner(
        learner.config, box(3, np.inf), gymnasium.spaces.Discrete(3) if choices else box(2), agents=2, seed=0
    )
    learner.algorithm.weights[:] = fresh.algorithm.weights
    learner.state_scale.mean[:], learner.state_scale.per_std[:] = 0.0, 1.0  # nothing was standardised yet
    _, batch = a_batch(learner)
    _, results, _ = loss_and_gradient(learner.algorithm, batch)
    np.testing.assert_allclose(results["rho"], 1.0, atol=3e-5)
    np.testing.assert_allclose(results["kl"], 0.0, atol=1e-6)
