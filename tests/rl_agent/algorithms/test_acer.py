"""ACER against the equations of its paper."""

import itertools
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from learners import (
    GAMMA,
    a_batch,
    a_learner,
    finite_differences,
    gaussian,
    loss_and_gradient,
    network,
    some,
)
from scipy.optimize import minimize

from rl_agent import AgentConfig, Learner
from rl_agent.algorithms.segments import retrace, trust_region_step
from rl_agent.replay import SegmentSampler, Source


def test_the_trust_region_solves_its_quadratic_program():
    rng = np.random.default_rng(0)
    binding = 0
    for _ in range(20):
        g, k = rng.normal(size=3) * 2, rng.normal(size=3)
        z = trust_region_step(torch.tensor(g), torch.tensor(k), 0.5).numpy()
        constraint = {"type": "ineq", "fun": lambda z, k=k: 0.5 - k @ z}
        solution = minimize(
            lambda z, g=g: 0.5 * np.sum((g - z) ** 2), g, constraints=[constraint], tol=1e-12
        )
        np.testing.assert_allclose(z, solution.x, atol=1e-5)
        binding += k @ g > 0.5
    assert 3 < binding < 17


def test_trust_region_is_inactive_without_divergence():
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


def test_retrace_gives_the_golden_values_of_rlax():
    """Inputs and losses (error^2 / 2) of ``retrace_continuous`` in the tests of rlax (DeepMind), lambda 0.9.

    Its discounts change from step to step, ours do not: they are multiplied into V and the trace.
    """
    q = np.array([[1.1, 1.1, 3.1], [3.1, 9.5, -2.1]]).T
    target_q = np.array([[0.2, 2.2], [1.2, -1.2]]).T
    v = np.array([[-0.08, 0.84, -2.625], [1.2, -1.9, 1.35]]).T
    r = np.array([[-1.3, -1.3, 2.3], [1.3, 5.3, -3.3]]).T
    discount = np.array([[0.0, 0.89, 0.85], [0.88, 1.0, 0.83]]).T
    rho = np.array([[2.0 / 3.0, 3.0], [0.3, 1.0 / 3.0]]).T
    losses = np.array([[2.88, 5.643226, 4.594238], [4.236919e-02, 20.44066, 3.160141e-03]]).T
    nothing = np.zeros((1, 2))
    trace = np.concatenate([nothing, 0.9 * np.minimum(1.0, rho) * discount[:-1]])
    value, known = (
        np.concatenate([nothing, (discount * v)[:-1]]),
        np.concatenate([nothing, target_q]),
    )
    given = [torch.tensor(x) for x in (r, value, known, trace, (discount * v)[-1])]
    np.testing.assert_allclose(0.5 * (retrace(*given, 1.0).numpy() - q) ** 2, losses, rtol=1e-5)


def test_retrace_of_full_traces_and_no_critic_is_the_discounted_return():
    r = np.random.default_rng(0).normal(size=(5, 1))
    nothing = torch.zeros(5, 1, dtype=torch.float64)
    targets = retrace(
        torch.tensor(r), nothing, nothing, nothing + 1, torch.zeros(1, dtype=torch.float64), GAMMA
    )
    for i in range(5):
        assert targets[i, 0].item() == pytest.approx(
            sum(GAMMA ** (j - i) * r[j, 0] for j in range(i, 5))
        )


def test_segments_match_the_stored_episodes():
    learner = a_learner("acer", episodes=5, segment=6)
    memory = learner.memory
    source = Source(memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.0)
    ends = np.array(
        [2, 9, 13, memory.storage.start[2] + memory.storage.length[2] - 1, memory.storage.start[3]]
    )
    # those with the longest past come first
    ends = ends[np.argsort(-memory.storage.position[ends], kind="stable")]
    indices, batch = learner.algorithm.gather(source, ends)
    exists = batch.exists > 0.5
    np.testing.assert_array_equal(exists.sum(0), np.minimum(memory.storage.position[ends] + 1, 6))
    np.testing.assert_array_equal(
        indices, np.where(exists, ends - np.arange(5, -1, -1)[:, None], -1)[exists]
    )
    is_last = memory.storage.position[ends] + 1 == memory.storage.length[memory.storage.rows(ends)]
    np.testing.assert_array_equal(
        batch.nonterminal, ~(is_last & memory.storage.terminated[memory.storage.rows(ends)])
    )
    after = np.where(
        is_last[:, None],
        memory.storage.final_observation[memory.storage.rows(ends)],
        memory.storage.observation[(ends + 1) % 400],
    )
    np.testing.assert_allclose(
        batch.sequences[-1], (after - source.mean) * source.per_std, rtol=1e-5
    )


def test_padding_before_an_episode_changes_nothing():
    """A CUDA graph has rows for padding, because its shapes are fixed; on the CPU they are left out."""
    learner = a_learner("acer", choices=3, episodes=4, segment=14)
    algorithm = learner.algorithm
    source = Source(
        learner.memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7
    )
    ends = np.array([3, 9, 15, 27])
    indices, batch = algorithm.gather(source, ends)
    _, _, gradient = loss_and_gradient(algorithm, batch)
    algorithm.config = algorithm.config.model_copy(update={"device": "cuda"})
    same_places, padded = algorithm.gather(source, ends)
    np.testing.assert_array_equal(same_places, indices)
    assert len(padded.action) == 4 * 14 > len(batch.action) == len(indices)
    _, results, same = loss_and_gradient(algorithm, padded)
    np.testing.assert_allclose(same, gradient, atol=1e-12)
    assert len(algorithm.sorted_results(results)["rho"]) == len(indices)


class Step(NamedTuple):
    """A step of a segment: s, a, mu, phi, the average policy's phi, Q_ret and Q_opc."""

    s: Any
    a: Any
    mu: Any
    phi: Any
    average: Any
    q_ret: float
    q_opc: float


def discrete_step(step, q_all, without):
    """One step of algorithm 2: rho, g, k, the trace, V, Q, and how many weights have a bias correction."""
    chosen, phi = int(step.a[0]), step.phi
    v, q = phi @ q_all, q_all[chosen]
    rho_all = phi / step.mu
    rho = rho_all[chosen]
    g = np.zeros(3)
    g[chosen] = min(1.2, rho) * (step.q_ret - v) / phi[chosen]
    for j in range(3):
        if without != "bias_correction":
            g[j] += max(0.0, 1 - 1.2 / rho_all[j]) * phi[j] * (q_all[j] - v) / phi[j]
    return rho, g, -step.average / phi, min(1.0, rho), v, q, int((rho_all > 1.2).sum())


def continuous_step(step, v, advantage, samples, std_mu, without):
    """One step of algorithm 3; returns as ``discrete_step``."""
    a, mu, phi = step.a, step.mu, step.phi
    centre = np.mean([advantage(u) for u in samples[1:]])
    base = 0.0 if without == "dueling" else v - centre
    q, q_sampled = base + advantage(a), base + advantage(samples[0])
    rho = gaussian(a, phi, 0.5) / gaussian(a, mu, std_mu)
    rho_sampled = gaussian(samples[0], phi, 0.5) / gaussian(samples[0], mu, std_mu)
    g = min(1.2, rho) * (step.q_opc - v) * (a - phi) / 0.25
    correction = (q_sampled - v) * (samples[0] - phi) / 0.25
    if without != "bias_correction":
        g = g + max(0.0, 1 - 1.2 / rho_sampled) * correction
    return rho, g, (phi - step.average) / 0.25, min(1.0, rho**0.5), v, q, int(rho_sampled > 1.2)


@pytest.mark.parametrize(
    ("choices", "without", "shared"),
    [
        (choices, without, False)
        for choices in (0, 3)
        for without in ("", "retrace", "dueling", "trust_region", "bias_correction")
        if not (choices and without == "dueling")
    ]
    + [(3, "", True)],
)
def test_acer_matches_its_pseudo_code(choices, without, shared):
    """Algorithms 2 and 3 segment by segment: dtheta and dtheta_v as they are accumulated there.

    ``without`` leaves out one of their components; with ``shared`` both are gradients of one network.
    """
    settings = {
        "shared_network": shared,
        "without": (without,) if without else (),
        "importance_clip": 1.2,
        "trust_region": 0.05,
        "episodes": 4,
        "segment": 5,
        "dueling_samples": 2,
        "sigma": 0.5,
    }
    learner = a_learner("acer", choices=choices, **settings)
    algorithm = learner.algorithm
    algorithm.target[:] -= 0.3 * np.random.default_rng(5).standard_normal(
        len(algorithm.target)
    ).astype(np.float32)
    _, batch = a_batch(learner)
    inputs = algorithm.inputs(batch, None)
    _, _, gradient = loss_and_gradient(algorithm, batch, inputs=inputs)
    held = algorithm.weights.astype(float)
    softmax = lambda x: np.exp(x) / np.exp(x).sum()  # noqa: E731
    statistics = softmax if choices else np.asarray
    logits_of = lambda s, flat: network(algorithm, "policy", s, flat)[: choices or None]  # noqa: E731
    phi_of = lambda s, flat: statistics(logits_of(s, flat))  # noqa: E731

    def value_of(s, flat):
        if not shared:
            return network(algorithm, "critic", s, flat)
        return network(algorithm, "policy", s, flat)[choices:]

    directions, targets = [], []
    steps, n = batch.exists.shape
    row_of = {int(index): row for row, index in enumerate(batch.index)}
    truncated_weights = corrected = bound = 0
    for b in range(n):
        last = batch.sequences[-1, b].astype(float)
        q_ret = (
            phi_of(last, held) @ value_of(last, held) if choices else value_of(last, held)[0]
        ) * batch.nonterminal[b]
        q_opc = q_ret
        for i in range(steps - 1, -1, -1):
            if batch.exists[i, b] < 0.5:
                continue
            k = row_of[i * n + b]
            s, a, mu = (
                batch.sequences[i, b].astype(float),
                batch.action[k].astype(float),
                batch.behaviour_mean[k],
            )
            mu, r = mu.astype(float), float(batch.reward[k])
            phi, average = phi_of(s, held), phi_of(s, algorithm.target)
            q_ret, q_opc = r + GAMMA * q_ret, r + GAMMA * q_opc
            step = Step(s, a, mu, phi, average, q_ret, q_opc)
            if choices:
                rho, g, kl, trace, v, q, is_corrected = discrete_step(
                    step, value_of(s, held), without
                )
                samples = None
            else:
                samples = phi + 0.5 * inputs["noise"][:, k]
                std_mu = batch.behaviour_std[k].astype(float)
                advantage = lambda x, s=s: network(algorithm, "advantage", np.r_[s, x], held)[0]  # noqa: E731
                v = value_of(s, held)[0]
                rho, g, kl, trace, v, q, is_corrected = continuous_step(
                    step, v, advantage, samples, std_mu, without
                )
                samples = samples[1:]
            corrected += is_corrected
            truncated_weights += rho > 1.2
            excess = max(0.0, (kl @ g - 0.05) / (kl @ kl))
            bound += excess > 0
            if without == "trust_region":
                excess = 0.0
            directions.append((s, g - excess * kl))
            targets.append((s, a, q_ret, v + min(1.0, rho) * (q_ret - q), samples))
            if without == "retrace":
                q_ret = q_opc = v
                continue
            q_ret = trace * (q_ret - q) + v
            q_opc = (q_opc - q) + v
    assert min(truncated_weights, corrected, bound) > 0
    assert bound < len(directions)

    def policys_loss(flat):
        return -np.mean([phi_of(s, flat) @ z for s, z in directions])

    def critics_loss(flat):
        total = 0.0
        for s, a, q_ret, v_target, samples in targets:
            if choices:
                total += 0.5 * (q_ret - value_of(s, flat)[int(a[0])]) ** 2
                continue
            advantage = lambda x, s=s: network(algorithm, "advantage", np.r_[s, x], flat)[0]  # noqa: E731
            v = value_of(s, flat)[0]
            base = v - np.mean([advantage(u) for u in samples]) if without != "dueling" else 0.0
            total += 0.5 * (q_ret - (base + advantage(a))) ** 2 + 0.5 * (v_target - v) ** 2
        return total / len(targets)

    parts = {"policy": policys_loss, "critic": critics_loss} | (
        {} if choices else {"advantage": critics_loss}
    )
    if shared:
        parts = {"policy": lambda flat: policys_loss(flat) + critics_loss(flat)}
    for part, loss in parts.items():
        where = some(algorithm, part)
        np.testing.assert_allclose(
            gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=2e-4
        )
        assert np.abs(gradient[where]).max() > 5e-3


def acer_that_collects(
    steps, *, ends=0.0, agents=2, seed=0, save=lambda learner: learner, **settings
):
    """A learner of discrete actions after ``steps`` steps of each agent, and the steps used by its on-policy calls.

    ``ends`` is the chance that a step is the last one of its episode; halfway the learner goes through ``save``.
    """
    usual = {
        "segment": 5,
        "episodes": 2,
        "learning_starts": 10,
        "hidden": (6,),
        "buffer_size": 5000,
    }
    space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    learner = Learner(
        AgentConfig(algorithm="acer", **usual | settings),
        space,
        gymnasium.spaces.Discrete(2),
        agents=agents,
        seed=0,
    )
    rng, everyone, calls = np.random.default_rng(seed), np.arange(agents), []
    learner.begin(everyone, np.zeros((agents, 1)))
    for t in range(steps):
        if t == steps // 2:
            learner = save(learner)
        learner.act(everyone)
        terminated, cut = rng.random(agents) < ends / 2, rng.random(agents) < ends / 2
        seen = rng.uniform(-1, 1, (agents, 1))
        learner.observe(everyone, np.ones(agents), terminated, cut, seen)
        ended = terminated | cut
        learner.begin(everyone[ended], rng.uniform(-1, 1, (int(ended.sum()), 1)))
        while learner.updates_due():
            learner.sampler.prepare(learner.memory.storage)
            is_replay = learner.sampler.replays_left > 0
            gather, found = learner.algorithm.gather, []
            learner.algorithm.gather = lambda *of, by=gather, to=found: to.append(by(*of)) or to[0]
            learner.update()
            learner.algorithm.gather = gather
            calls.append([] if is_replay else learner.memory.storage.step_ids(found[0][0]).tolist())
    return learner, calls


@pytest.mark.parametrize("ratio", [0.0, 1.0, 4.0, 8.0])
@pytest.mark.parametrize(
    ("piece", "ends", "start"), [(5, 0.0, 10), (5, 0.1, 10), (None, 0.05, 10), (None, 0.05, 300)]
)
def test_every_collected_step_is_used_on_policy_exactly_once(ratio, piece, ends, start):
    """Algorithm 1; except for steps collected since the last on-policy call."""
    learner, calls = acer_that_collects(
        600, ends=ends, fragment_length=piece, learning_starts=start, replay_ratio=ratio,
        env_steps_per_gradient_step=10 / (1 + ratio),
    )  # fmt: skip
    storage = learner.memory.storage
    waiting = [
        row for row in storage.all_rows() if storage.episode_id[storage.start[row]] >= learner.sampler.next_id
    ]  # fmt: skip
    since = int(storage.length[waiting].sum())
    used = np.sort(np.concatenate(calls))
    np.testing.assert_array_equal(used, np.arange(storage.added - since))
    assert since < 0.2 * storage.added
    on_policy = sum(map(bool, calls))
    assert len(calls) == pytest.approx((1200 - start) * (1 + ratio) / 10, abs=(1 + ratio) * 5)
    if ratio == 0.0 and piece is not None:  # something was collected before every call
        assert on_policy == len(calls)
    elif piece == 5 and ends == 0.0:  # all agents complete a piece at once, as many as a call takes
        assert on_policy / len(calls) == pytest.approx(1 / (1 + ratio), abs=0.1)


def test_gradient_steps_beyond_the_ratio_are_replays():
    _, calls = acer_that_collects(
        300, fragment_length=5, replay_ratio=1.0, env_steps_per_gradient_step=1.0
    )
    assert len(calls) == pytest.approx(590, abs=5)
    assert sorted(itertools.chain(*calls)) == list(range(600))


def test_backlog_of_on_policy_steps_survives_a_checkpoint(tmp_path):
    def saved(learner):
        learner.save(tmp_path / "checkpoint.npz")
        return Learner.load(tmp_path / "checkpoint.npz")

    settings = {"ends": 0.05, "replay_ratio": 4.0, "env_steps_per_gradient_step": 2.0}
    learner, calls = acer_that_collects(400, **settings)
    again, same = acer_that_collects(400, save=saved, **settings)
    assert same == calls
    np.testing.assert_array_equal(again.algorithm.weights, learner.algorithm.weights)


def test_padding_segments_of_a_graph_batch_change_nothing():
    """On a GPU the segments of a call are padded to whole batches."""
    learner = a_learner("acer", choices=3, episodes=4, segment=6)
    algorithm, memory = learner.algorithm, learner.memory
    source = Source(memory, learner.state_scale.mean, learner.state_scale.per_std, GAMMA, 1.7)
    ends = SegmentSampler(6, None).sample(memory.storage, 7, np.random.default_rng(0))
    indices, batch = algorithm.gather(source, ends)
    loss, results, gradient = loss_and_gradient(algorithm, batch)
    algorithm.config = algorithm.config.model_copy(update={"device": "cuda"})
    same, filled = algorithm.gather(source, ends)
    assert filled.exists.shape == (6, 8)
    again, of_all, slope = loss_and_gradient(algorithm, filled)
    np.testing.assert_array_equal(same, indices)
    assert again == pytest.approx(loss)
    np.testing.assert_allclose(slope, gradient, atol=1e-12)
    np.testing.assert_allclose(algorithm.sorted_results(of_all)["rho"], results["rho"])


def test_replay_ratio_is_refused_for_continuous_actions():
    space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    with pytest.raises(ValueError, match="replay_ratio = 2 is for discrete actions"):
        Learner(AgentConfig(algorithm="acer", replay_ratio=2.0), space, space, agents=1, seed=0)


def test_network_of_policy_and_q_is_for_discrete_actions_and_has_one_learning_rate():
    learner = a_learner("acer", choices=3, shared_network=True)
    assert learner.algorithm.rates(0.5) == {"policy": 0.5 * learner.config.learning_rate}
    with pytest.raises(ValueError, match="shared_network = True is for discrete actions"):
        a_learner("acer", shared_network=True)


def test_leaving_out_unavailable_components_is_refused():
    with pytest.raises(ValueError, match="without = dueling is for continuous actions"):
        a_learner("acer", choices=3, without=("dueling",))
    with pytest.raises(ValueError, match="without"):
        AgentConfig(algorithm="acer", without=("critic",))
