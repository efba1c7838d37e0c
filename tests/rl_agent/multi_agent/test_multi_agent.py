"""Several agents (Weber et al. 2022), against a brute-force reference written from the paper's equations.

One file, since every test compares with this reference or lives in its environments.
"""

import dataclasses
import math

import gymnasium as gym
import numpy as np
import pytest
from learners import by_autograd

from rl_agent import AgentConfig, Learner, Policy
from rl_agent.multi_agent.outcomes import agent_outcomes
from rl_agent.replay import Source
from rl_agent.replay.refer import Rules
from rl_agent.saving.checkpoint import read_checkpoint, write_checkpoint

N, S, A = 3, 2, 2
GAMMA = 0.9
VARIANTS = [
    {"relation": relation, "dynamics": dynamics}
    for relation in ("individual", "cooperative")
    for dynamics in ("local", "full")
]
NAMES = ["LDI", "FDI", "LDCo", "FDCo"]
OWN = [variant | {"policies": "own"} for variant in (VARIANTS[0], VARIANTS[3])]
BOX = gym.spaces.Box(-10.0, 10.0, (S,), np.float32)
ACTIONS = gym.spaces.Box(-1.0, 1.0, (A,), np.float32)


def make_learner(environments=2, agents_per_env=N, **settings):
    usual = {
        "hidden": (6,),
        "batch_size": 16,
        "buffer_size": 64,
        "learning_starts": 24,
        "gamma": GAMMA,
        "beta": 0.6,
        "c_max_scale": 0.3,
    }
    config = AgentConfig(**usual | settings)
    return Learner(config, BOX, ACTIONS, agents=environments, seed=3, agents_per_env=agents_per_env)


class Lived:
    """Random environments played with a learner, and an independent record of their episodes."""

    def __init__(self, learner, steps, seed=0):
        rng = np.random.default_rng(seed)
        self.environments = []
        agents, n = np.arange(learner.agents), learner.agents_per_env
        members = len(agents) * n

        def apart(rows):
            return rows if n == 1 else rows.reshape(len(agents), n, *rows.shape[1:])

        now = rng.normal(size=(members, S)).astype(np.float32)
        learner.begin(agents, apart(now))
        running = [self.fresh(now[k * n : k * n + n]) for k in agents]
        for _ in range(steps):
            learner.act(agents)
            place = np.arange(members), learner.collector.open_episodes.length
            action, mean, std = (getattr(learner.collector.open_episodes, name)[place].copy()
                                 for name in ("action", "behaviour_mean", "behaviour_std"))  # fmt: skip
            reward, now = rng.normal(size=members), rng.normal(size=(members, S)).astype(np.float32)
            gone = np.concatenate([w["gone"] for w in running]) > 0
            terminated = gone | (rng.random(members) < 0.12)
            all_gone = terminated.reshape(-1, n).all(1)
            truncated = ~all_gone & (rng.random(len(agents)) < 0.08)
            ended = all_gone | truncated
            more = () if n == 1 else (apart(terminated),)
            learner.observe(agents, apart(reward), all_gone, truncated, apart(now), *more)
            for k, played in enumerate(running):
                rows = slice(k * n, k * n + n)
                played["action"].append(action[rows])
                played["mean"].append(mean[rows])
                played["std"].append(std[rows])
                played["reward"].append(np.where(played["gone"] > 0, 0.0, reward[rows]))
                played["observation"].append(now[rows])
                played["gone"] = np.where(
                    (played["gone"] == 0) & terminated[rows], len(played["reward"]), played["gone"]
                )
                if ended[k]:
                    self.environments.append(played)
                    running[k] = self.fresh(now[rows])
            if ended.any():
                learner.begin(agents[ended], apart(now)[ended])
            while learner.updates_due():
                learner.update()

    @staticmethod
    def fresh(observation):
        n = len(observation)
        empty = {name: [] for name in ("action", "mean", "std", "reward")}
        return empty | {"observation": [observation], "gone": np.zeros(n, int)}


def density(action, mean, std):
    return np.prod(np.exp(-0.5 * ((action - mean) / std) ** 2) / (np.sqrt(2 * np.pi) * std))


def outputs_of(learner, weights, observation, i):
    """V and m of agent i."""
    w = learner.algorithm.network.views(weights[: learner.algorithm.network.size])
    of = f"agent{i}/" if learner.config.policies == "own" else ""
    h = (observation - learner.state_scale.mean) * learner.state_scale.per_std
    z = h @ w[f"{of}weight0"] + w[f"{of}bias0"]
    return (z / (1 + np.abs(z))) @ w[f"{of}weight1"] + w[f"{of}bias1"]


def sigmas_of(learner, weights):
    """Sigma of every agent, shape (N, A)."""
    free = weights[learner.algorithm.network.size :].reshape(-1, A)
    assert len(free) == (N if learner.config.policies == "own" else 1)
    return np.log1p(np.exp(np.broadcast_to(free, (N, A))))


def moment(learner, weights, played, t):
    """V, rho and KL of the agents at a step of an environment; 0, 1 and 0 for agents that have ended."""
    value, rho, kl = np.zeros(N), np.ones(N), np.zeros(N)
    sigmas = sigmas_of(learner, weights)
    for i in range(N):
        if 0 < played["gone"][i] <= t:
            continue
        out, sigma = (
            outputs_of(learner, weights, played["observation"][t][i].astype(float), i),
            sigmas[i],
        )
        a, m_mu, s_mu = (played[name][t][i].astype(float) for name in ("action", "mean", "std"))
        value[i] = out[0]
        rho[i] = density(a, out[1:], sigma) / density(a, m_mu, s_mu)
        kl[i] = np.sum(
            np.log(sigma / s_mu) + (s_mu**2 + (m_mu - out[1:]) ** 2) / (2 * sigma**2) - 0.5
        )
    return value, rho, kl


def scalarised(config, numbers):
    # eqs. 8 and 9
    return numbers if config.relation == "individual" else np.full(N, numbers.mean())


def weights_of(config, rho):
    return rho if config.dynamics == "local" else np.full(N, rho.prod())  # eqs. 13 and 12


def targets(learner, weights, played):
    """V_tbc of all agents at all steps, eq. 6, shape (T + 1, N)."""
    config, scale = learner.config, learner.reward_scale.value
    steps = len(played["reward"])
    final = np.array(
        [
            0.0
            if played["gone"][i]
            else outputs_of(learner, weights, played["observation"][steps][i].astype(float), i)[0]
            for i in range(N)
        ]
    )
    target = np.zeros((steps + 1, N))
    target[steps] = scalarised(config, final)
    for t in range(steps - 1, -1, -1):
        value, rho, _ = moment(learner, weights, played, t)
        v, bar = scalarised(config, value), np.minimum(1.0, weights_of(config, rho))
        target[t] = v + bar * (
            scalarised(config, played["reward"][t]) / scale + GAMMA * target[t + 1] - v
        )
    return target


def lengths_of(played):
    """Steps that each agent took part in, shape (N,)."""
    return np.where(played["gone"] > 0, played["gone"], len(played["reward"]))


def places_of(learner, number, played, t):
    """Ring indices of the agents' steps in the memory, by their observations."""
    memory = learner.memory
    indices = memory.storage.indices()
    first = [
        s
        for s in indices
        if np.array_equal(memory.storage.observation[s], played["observation"][t][0])
    ]
    assert len(first) == 1
    return memory.storage.of_all_agents(np.array(first))


@pytest.fixture(params=VARIANTS + OWN, ids=[*NAMES, "LDI, own", "FDCo, own"])
def lived(request):
    """A learner that has learned a little, so that old steps are far-policy, and the record of its episodes."""
    learner = make_learner(learning_rate=0.02, annealing=0.0, **request.param)
    environments = Lived(learner, 60).environments
    assert learner.gradient_steps > 50
    held = environments[-(learner.memory.storage.episodes // N) :]
    assert any(0 < g < len(w["reward"]) for w in held for g in w["gone"])  # an agent ended early
    assert any((w["gone"] == 0).any() for w in held)  # and some were cut short
    return learner, held


def test_memory_holds_the_episodes_as_played(lived):
    learner, held = lived
    storage = learner.memory.storage
    assert (
        storage.size == N * sum(len(played["reward"]) for played in held) == N * storage.env_steps
    )
    assert storage.steps == sum(lengths_of(played).sum() for played in held) < storage.size
    for number, played in enumerate(held):
        for t in range(len(played["reward"])):
            indices = places_of(learner, number, played, t)
            np.testing.assert_array_equal(storage.observation[indices], played["observation"][t])
            here = (played["gone"] == 0) | (t < played["gone"])
            np.testing.assert_array_equal(storage.is_present(indices), here)
            np.testing.assert_array_equal(storage.action[indices][here], played["action"][t][here])
            np.testing.assert_allclose(
                storage.reward[indices],
                scalarised(learner.config, played["reward"][t]),
                rtol=1e-5,
                atol=1e-6,
            )
            for place in indices:  # the index of any agent leads to all
                np.testing.assert_array_equal(storage.of_all_agents(np.array([place])), indices)


def test_far_policy_share_and_means_are_over_experiences(lived):
    """Eq. 15 (eq. 12 of the ReF-ER paper) and the statistics: steps of absent agents are no experiences."""
    learner, held = lived
    memory, c_max = learner.memory, learner.refer.c_max(0)
    rho, kl = [], []
    for number, played in enumerate(held):
        for t in range(len(played["reward"])):
            own = places_of(learner, number, played, t)[t < lengths_of(played)]
            rho += list(memory.values.rho[own])
            kl += list(memory.values.kl[own])
    rho = np.array(rho)
    far = (rho <= 1 / c_max) | (rho >= c_max)
    assert (memory.values.n_far, memory.storage.steps) == (far.sum(), len(rho))
    said = learner.statistics()
    assert said["far_fraction"] == pytest.approx(far.mean())
    assert said["rho"] == pytest.approx(rho.mean())
    assert said["kl"] == pytest.approx(np.mean(kl))
    asked = []
    learner.refer.update_beta = lambda *numbers: asked.append(numbers)
    learner.update()
    assert asked == [(memory.values.n_far, memory.storage.steps, learner.environment_steps)]
    memory.values.classify(c_max)
    assert memory.values.n_far == np.count_nonzero(
        memory.values.far[learner.memory.storage.experiences()]
    )
    assert not memory.values.far[
        np.setdiff1d(memory.storage.indices(), learner.memory.storage.experiences())
    ].any()


def test_absent_agents_do_not_lower_the_far_policy_share():
    """With D = 0.1, a fifth of the experiences is far-policy, but less than a tenth of the indices: beta falls."""
    learner = make_learner(environments=1, replay="refer", far_policy_target=0.1, buffer_size=200)
    seen = np.ones((1, N, S))
    learner.begin([0], seen)
    for step in range(1, 101):
        learner.act([0])
        gone = [[step >= 20, step >= 20, False]]
        learner.observe([0], np.zeros((1, N)), [False], [step == 100], seen, gone)
    memory = learner.memory
    here = learner.memory.storage.experiences()
    assert len(here) == 140
    rho = np.where(np.arange(140) < 28, 9.0, 1.0).astype(np.float32)
    nothing = np.zeros(140, np.float32)
    memory.values.store(here, nothing, rho, nothing, rho > 5.0)
    assert memory.values.n_far < 0.1 * memory.storage.size
    before = learner.refer.beta
    learner.refer.update_beta(memory.values.n_far, memory.storage.steps, 0)
    assert learner.refer.beta < before
    memory.remove_oldest()
    assert (memory.values.n_far, memory.storage.steps, memory.storage.size) == (0, 0, 0)


def test_targets_match_equation_6(lived):
    learner, held = lived
    weights = learner.algorithm.weights.astype(float)
    memory = learner.memory
    # what the networks say now about every stored moment
    indices, batch = learner.algorithm.gather(
        source_of(learner),
        memory.storage.indices()[memory.storage.episode_id[memory.storage.indices()] % N == 0],
    )
    learner.algorithm.analytic_gradient(batch, learner.refer.rules(0), None)
    e = learner.algorithm.analytic_gradient(batch, learner.refer.rules(0), None)
    memory.values.store(indices, e.value, e.rho, e.kl, e.far)
    learner.values.refresh_final_values()
    memory.values.sweep(GAMMA, learner.reward_scale.value)
    for number, played in enumerate(held):
        expected = targets(learner, weights, played)
        for t in range(len(played["reward"])):
            own = places_of(learner, number, played, t)
            counted = memory.storage.is_present(own)
            np.testing.assert_allclose(
                memory.values.v_tbc[own][counted], expected[t][counted], rtol=1e-4, atol=1e-5
            )
            value, rho, kl = moment(learner, weights, played, t)
            np.testing.assert_allclose(
                memory.values.value[own], scalarised(learner.config, value), rtol=1e-4, atol=1e-5
            )
            np.testing.assert_allclose(
                memory.values.rho[own], weights_of(learner.config, rho), rtol=2e-4
            )
            np.testing.assert_allclose(memory.values.kl[own], kl, rtol=1e-3, atol=1e-5)


def source_of(learner):
    scale = learner.state_scale
    return Source(learner.memory, scale.mean, scale.per_std, GAMMA, learner.reward_scale.value)


def test_gradient_matches_equations_10_to_16(lived):
    learner, held = lived
    algorithm, config = learner.algorithm, learner.config
    rules = Rules(c_max=1.3, beta=0.4, rule_1=True, rho_clip=math.inf)
    rng = np.random.default_rng(5)
    sampled = [
        (k, int(rng.integers(len(held[k]["reward"])))) for k in rng.integers(0, len(held), 12)
    ]
    first = np.array([places_of(learner, k, held[k], t)[rng.integers(N)] for k, t in sampled])
    _, batch = algorithm.gather(source_of(learner), first)
    q_ret = batch.q_ret.reshape(-1, N).astype(float)
    v_tbc = batch.v_tbc.reshape(-1, N).astype(float)
    start = algorithm.weights.astype(float)
    held_values = [moment(learner, start, held[k], t)[0] for k, t in sampled]
    far = 0

    def loss(weights):
        nonlocal far
        total = 0.0
        for b, (k, t) in enumerate(sampled):
            value, rho, kl = moment(learner, weights, held[k], t)
            rho = weights_of(config, rho)
            for i in range(N):
                if 0 < held[k]["gone"][i] <= t:
                    continue
                is_near = 1 / rules.c_max < rho[i] < rules.c_max
                far += not is_near
                both = (
                    -rho[i] * (q_ret[b, i] - held_values[b][i])
                    + 0.5 * (value[i] - v_tbc[b, i]) ** 2
                )
                total += (rules.beta * both * is_near + (1 - rules.beta) * kl[i]) / N
        return total / len(sampled)

    numeric = np.zeros_like(start)
    for k in range(len(start)):
        step = np.zeros_like(start)
        step[k] = 1e-6
        numeric[k] = (loss(start + step) - loss(start - step)) / 2e-6
    assert 0 < far < 2 * len(start) * len(sampled) * N
    scale = np.abs(numeric).max()
    gradient, evaluation = by_autograd(algorithm, batch, rules)
    np.testing.assert_allclose(gradient / scale, numeric / scale, atol=2e-6)
    fast = algorithm.analytic_gradient(batch, rules, None)
    np.testing.assert_allclose(algorithm.last_gradient / scale, numeric / scale, atol=2e-5)
    np.testing.assert_array_equal(fast.far, evaluation.far)
    for name in ("value", "rho", "kl"):
        np.testing.assert_allclose(
            getattr(fast, name), getattr(evaluation, name), rtol=2e-4, atol=2e-5
        )
    for name in ("policy_loss", "value_loss", "mean_rho", "mean_kl", "far_fraction"):
        assert getattr(fast, name) == pytest.approx(getattr(evaluation, name), rel=1e-3, abs=1e-5)
    here = batch.present > 0
    assert not here.all()
    assert fast.far_fraction == pytest.approx(fast.far[here].mean())
    assert fast.mean_rho == pytest.approx(fast.rho[here].mean())


@pytest.mark.parametrize("variant", VARIANTS, ids=NAMES)
def test_one_agent_equals_the_single_agent_learner_bit_for_bit(variant):
    plain, alone = (
        make_learner(agents_per_env=1, environments=4),
        make_learner(agents_per_env=1, environments=4, **variant),
    )
    for learner in (plain, alone):
        Lived(learner, 80)
    assert plain.gradient_steps > 100
    np.testing.assert_array_equal(alone.algorithm.weights, plain.algorithm.weights)
    _, batch = plain.algorithm.gather(source_of(plain), plain.memory.storage.indices()[:16])
    rules = plain.refer.rules(0)
    by_plain = plain.algorithm.analytic_gradient(batch, rules, None)
    gradient = plain.algorithm.last_gradient.copy()
    # and so is the way of environments with one agent in each
    by_environments = alone.algorithm.analytic_gradient(
        dataclasses.replace(batch, present=np.ones(16, np.float32)), rules, None
    )
    np.testing.assert_array_equal(alone.algorithm.last_gradient, gradient)
    np.testing.assert_array_equal(by_environments.value, by_plain.value)
    np.testing.assert_array_equal(by_environments.rho, by_plain.rho)


def test_separate_policies_with_equal_weights_equal_the_shared_one():
    """N networks with the same weights give the outputs of one, and its gradient is the sum of theirs."""
    own, shared = make_learner(policies="own"), make_learner()
    Lived(own, 40)
    parts = (
        own.algorithm.weights[: own.algorithm.network.size].reshape(N, -1),
        own.algorithm.weights[-N * A :],
    )
    own.algorithm.weights[:] = np.concatenate([np.tile(parts[0][0], N), np.tile(parts[1][:A], N)])
    shared.algorithm.weights[:] = np.concatenate([parts[0][0], parts[1][:A]])
    _, batch = own.algorithm.gather(source_of(own), own.memory.storage.indices()[:16])
    rules = own.refer.rules(0)
    for learner in (own, shared):
        learner.algorithm.analytic_gradient(batch, rules, None)
    gradient = own.algorithm.last_gradient
    expected = np.concatenate(
        [
            gradient[: own.algorithm.network.size].reshape(N, -1).sum(0),
            gradient[-N * A :].reshape(N, A).sum(0),
        ]
    )
    np.testing.assert_allclose(shared.algorithm.last_gradient, expected, rtol=1e-4, atol=1e-6)


def test_ended_agent_does_not_change_the_gradient():
    learner = make_learner(relation="individual", dynamics="local")
    Lived(learner, 40)
    storage = learner.memory.storage
    indices = storage.indices()
    absent = indices[~storage.is_present(indices)]
    assert len(absent) > 0
    _, batch = learner.algorithm.gather(source_of(learner), absent)
    rules = learner.refer.rules(0)
    learner.algorithm.analytic_gradient(batch, rules, None)
    gradient = learner.algorithm.last_gradient.copy()
    gone = batch.present == 0
    wild = dataclasses.replace(
        batch,
        q_ret=np.where(gone, 1e6, batch.q_ret).astype(np.float32),
        v_tbc=np.where(gone, -1e6, batch.v_tbc).astype(np.float32),
        action=np.where(gone[:, None], 5.0, batch.action).astype(np.float32),
    )
    learner.algorithm.analytic_gradient(wild, rules, None)
    np.testing.assert_array_equal(learner.algorithm.last_gradient, gradient)


def test_an_ended_agent_stays_so_in_an_episode_as_long_as_the_memory():
    learner = make_learner(environments=1, buffer_size=24)
    learner.begin([0], np.ones((1, N, S)))
    for step in range(50):
        learner.act([0])
        gone = [False, step >= 2, False]
        learner.observe([0], [[1.0] * N], [False], [False], np.ones((1, N, S)), [gone])
    assert learner.memory.storage.present[learner.memory.storage.all_rows()].tolist() == [24, 0, 24]
    assert learner.collector.open_episodes.gone_after.tolist() == [-1, 0, -1]
    assert learner.finished_episodes() == []


def test_counters_and_records_are_per_environment():
    learner = make_learner(environments=1, replay="refer")
    seen = np.ones((1, N, S))
    learner.begin([0], seen)
    rewards = [[1.0, 2.0, 3.0], [1.0, 5.0, 0.0], [4.0, 7.0, 0.5]]
    for step, reward in enumerate(rewards):
        assert learner.act([0]).shape == (1, N, A)
        learner.observe([0], [reward], [step == 2], [False], seen, [[False, True, False]])
    (record,) = learner.finished_episodes()
    assert (record.agent, record.length, record.terminated) == (0, 3, True)
    # what the second is sent later is ignored
    assert record.episode_return == pytest.approx((6.0 + 2.0 + 3.5) / 3)
    assert (learner.environment_steps, learner.episodes, learner.memory.storage.episodes) == (
        3,
        1,
        N,
    )


@pytest.mark.parametrize("policies", ["shared", "own"])
def test_checkpoint_resumes_bit_for_bit_and_its_policy_acts(tmp_path, policies):
    one = make_learner(relation="cooperative", dynamics="full", policies=policies)
    Lived(one, 25)
    one.save(tmp_path / "checkpoint.npz")
    other = Learner.load(tmp_path / "checkpoint.npz")
    assert (other.agents_per_env, other.agents) == (N, 2)
    for learner in (one, other):
        Lived(learner, 30, seed=1)
    np.testing.assert_array_equal(one.algorithm.weights, other.algorithm.weights)
    assert one.environment_steps == other.environment_steps
    one.policy().save(tmp_path / "policy")
    policy = Policy.load(tmp_path / "policy")
    seen = np.random.default_rng(0).normal(size=(4, N, S)).astype(np.float32)
    actions, _ = policy.act(seen, policy.initial_state(4), deterministic=True)
    assert actions.shape == (4, N, A)
    np.testing.assert_allclose(policy.act(seen[0])[0], actions[0], atol=1e-6)
    weights = one.algorithm.weights.astype(float)
    each = [
        outputs_of(one, weights, own.astype(float), k % N)[1:]
        for k, own in enumerate(seen.reshape(-1, S))
    ]
    np.testing.assert_allclose(actions.reshape(-1, A), np.clip(each, -1.0, 1.0), atol=1e-5)


def test_checkpoints_with_the_old_name_world_are_read(tmp_path):
    learner = make_learner()
    Lived(learner, 5)
    for what, name, load in (
        (learner, "checkpoint.npz", Learner.load),
        (learner.policy(), "policy", Policy.load),
    ):
        what.save(tmp_path / name)
        file = next(tmp_path.glob(f"{name}*"))
        file = file / "checkpoint.npz" if file.is_dir() else file
        arrays, meta = read_checkpoint(file)
        meta["world"] = meta.pop("agents_per_env")
        write_checkpoint(file, arrays, meta)
        assert load(tmp_path / name).sizes.agents_per_env == N


def test_discrete_actions_of_a_multi_agent_environment():
    own = gym.spaces.Discrete(4, start=2)
    config = AgentConfig(
        policy="boltzmann", hidden=(6,), batch_size=8, buffer_size=64, learning_starts=16
    )
    learner = Learner(config, BOX, own, agents=3, seed=0, agents_per_env=N)
    agents, no = np.arange(3), np.zeros(3, bool)
    sent = np.zeros((3, N, S), np.float32)
    learner.begin(agents, sent)
    for step in range(12):
        sampled = learner.act(agents)
        assert sampled.shape == (3, N, 1)
        assert all(own.contains(int(number)) for number in sampled.ravel())
        one_left = np.tile([step % 6 > 2, False, False], (3, 1))
        learner.observe(agents, np.ones((3, N)), no, no | (step % 6 == 5), sent, one_left)
        if step % 6 == 5:
            learner.begin(agents, sent)
        while learner.updates_due():
            learner.update()
    assert learner.gradient_steps > 5
    assert not learner.memory.storage.is_present(learner.memory.storage.indices()).all()
    assert np.isfinite(learner.algorithm.weights).all()


def test_rewards_and_ends_per_agent_are_read_from_infos():
    """An environment that ended has its values in ``final_info``; infos of failed environments give zeros."""
    mine = {"agent_rewards": np.arange(6.0).reshape(3, 2), "agent_ended": np.zeros((3, 2), bool)}
    last = {"agent_rewards": np.full((3, 2), -1.0), "agent_ended": np.ones((3, 2), bool)}
    over = np.array([False, True, False])
    rewards, ended = agent_outcomes(mine | {"final_info": last}, over, 2)
    np.testing.assert_array_equal(rewards, [[0.0, 1.0], [-1.0, -1.0], [4.0, 5.0]])
    np.testing.assert_array_equal(ended, [[False] * 2, [True] * 2, [False] * 2])
    rewards, ended = agent_outcomes({"failed": ["it", "it", "it"]}, over, 2)
    assert not rewards.any()
    assert not ended.any()


def refuse(message, **settings):
    with pytest.raises(ValueError, match=message):
        Learner(AgentConfig(**settings), BOX, ACTIONS, agents=2, seed=0, agents_per_env=N)


def test_settings_unfit_for_several_agents_are_refused_in_one_sentence():
    refuse("ddpg learns from one agent per environment", algorithm="ddpg")
    refuse("samples single agents", replay="none", sampler="rank")


def test_arrays_without_an_agent_axis_are_refused():
    learner, seen = make_learner(environments=1), np.zeros((1, N, S))
    with pytest.raises(ValueError, match=rf"shape \(1, {N * S}\), expected \(1, {N}, {S}\)"):
        learner.begin([0], seen.reshape(1, -1))
    learner.begin([0], seen)
    learner.act([0])
    with pytest.raises(ValueError, match=rf"rewards have shape \(1,\), expected \(1, {N}\)"):
        learner.observe([0], [0.0], [False], [False], seen)
    with pytest.raises(ValueError, match=rf"agent_ended has shape \(1,\), expected \(1, {N}\)"):
        learner.observe([0], np.zeros((1, N)), [False], [False], seen, [False])
    with pytest.raises(ValueError, match="agent 0 sent a reward that is not finite"):
        learner.observe([0], np.full((1, N), np.nan), [False], [False], seen)
    with pytest.raises(ValueError, match=rf"takes shape \(n, {N}, {S}\) or \({N}, {S}\)"):
        learner.policy().act(seen.reshape(1, -1))
