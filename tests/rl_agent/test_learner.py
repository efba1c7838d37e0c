import gymnasium
import numpy as np
import pytest

from rl_agent import AgentConfig, Learner, Policy

SMALL = {"hidden": (8, 8), "batch_size": 8, "buffer_size": 400, "learning_starts": 50}


def box(size, low=-1.0, high=1.0):
    return gymnasium.spaces.Box(low, high, (size,), np.float32)


def make_learner(agents=3, **settings):
    return Learner(
        AgentConfig.model_validate(SMALL | settings),
        box(2, -np.inf, np.inf),
        box(1),
        agents=agents,
        seed=0,
    )


def live(learner, rng, steps, agents=None, end=0.1, update=True):
    """Play random episodes as the service does."""
    agents = np.arange(learner.agents) if agents is None else np.asarray(agents)
    idle = agents[~learner.collector.open_episodes.is_open[agents]]
    learner.begin(idle, rng.normal(size=(len(idle), 2)))
    for _ in range(steps):
        learner.act(agents)
        ended = rng.random(len(agents)) < end
        terminal = ended & (rng.random(len(agents)) < 0.5)
        learner.observe(
            agents,
            rng.normal(size=len(agents)),
            terminal,
            ended & ~terminal,
            rng.normal(size=(len(agents), 2)),
        )
        learner.begin(agents[ended], rng.normal(size=(int(ended.sum()), 2)))
        while update and learner.updates_due():
            learner.update()


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0, 3.0, 0.7, 2.5])
def test_ratio_of_environment_to_gradient_steps_is_exact(ratio):
    learner = make_learner(agents=4, env_steps_per_gradient_step=ratio)
    rng = np.random.default_rng(0)
    while learner.gradient_steps == 0:
        live(learner, rng, 1)
    start = learner.counters.warm_up
    for _ in range(60):
        # any subset of the agents answers, any number of times
        some = rng.permutation(4)[: rng.integers(1, 5)]
        live(learner, rng, int(rng.integers(1, 4)), some)
        steps = learner.environment_steps - start
        assert learner.gradient_steps == int(np.floor(round(steps / ratio, 9)))
    assert learner.gradient_steps > 50


def test_no_gradient_step_before_learning_starts():
    learner = make_learner()
    live(learner, np.random.default_rng(0), 16, end=0.0)
    assert learner.environment_steps == 48
    assert learner.memory.storage.steps == 0
    assert learner.updates_due() == 0
    assert learner.may_act()
    with pytest.raises(ValueError, match="learning_starts = 50"):
        learner.update()
    live(learner, np.random.default_rng(0), 4, end=0.0)
    learner.abandon([0, 1, 2])
    assert learner.memory.storage.steps == 60
    assert learner.state_scale.frozen


def test_agents_wait_while_too_many_gradient_steps_are_due():
    learner = make_learner(agents=3, env_steps_per_gradient_step=0.5)
    live(learner, np.random.default_rng(0), 40)
    assert learner.gradient_steps > 0
    learner.act([0, 1, 2])
    assert learner.updates_due() == 6
    assert learner.may_act()
    learner.observe([0], [0.0], [False], [False], np.zeros((1, 2)))
    learner.act([0])
    assert learner.updates_due() == 8
    assert not learner.may_act()
    learner.update()
    learner.update()
    assert learner.may_act()


def test_action_without_outcome_is_revoked():
    learner = make_learner()
    live(learner, np.random.default_rng(0), 40)
    steps, held = learner.environment_steps, int(learner.collector.open_episodes.length[1])
    stored = learner.episodes
    learner.act([0, 1])
    due = learner.updates_due()
    learner.abandon([1])
    assert learner.updates_due() == due - 1
    assert learner.environment_steps == steps
    assert learner.episodes == stored + (held > 0)
    with pytest.raises(ValueError, match="agent 1 has no open episode"):
        learner.act([1])
    learner.begin([1], np.zeros((1, 2)))
    learner.act([1])


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_final_value_is_zero_if_terminated_and_bootstrapped_if_truncated(network):
    learner = make_learner(agents=4, network=network, window=3)
    rng = np.random.default_rng(3)
    learner.algorithm.weights[:] += 0.3 * rng.standard_normal(
        len(learner.algorithm.weights)
    ).astype(np.float32)
    observations = rng.normal(size=(7, 4, 2)).astype(np.float32)
    everyone = np.arange(4)
    learner.begin(everyone, observations[0])
    for t in range(1, 6):
        learner.act(everyone)
        last = t == 5
        learner.observe(
            everyone,
            np.ones(4),
            [last, False, False, False],
            [last, last, False, False],
            observations[t],
        )
    learner.act([2])  # agent 2 is lost while it waits, agent 3 before it asked
    learner.abandon([2, 3])

    memory = learner.memory
    finals = memory.values.final_value[:4]
    state = learner.policy().initial_state(4)
    for t in range(6):
        values, *_, state = learner.algorithm.act(observations[t], state)
    assert finals[0] == 0.0
    np.testing.assert_allclose(finals[1:], values[1:], atol=1e-6)
    assert np.abs(finals[1:]).min() > 1e-3
    np.testing.assert_array_equal(memory.storage.final_observation[:4], observations[5])


def test_begin_closes_an_open_episode_as_truncated():
    learner = make_learner()
    live(learner, np.random.default_rng(0), 5, end=0.0)
    learner.begin([2], np.ones((1, 2)))
    (record,) = learner.finished_episodes()
    assert (record.agent, record.length, record.terminated) == (2, 5, False)
    assert learner.collector.open_episodes.length[2] == 0
    learner.begin([2], np.ones((1, 2)))  # no action in between: there is no episode to store
    assert learner.finished_episodes() == []


def test_endless_episode_is_stored_in_parts_of_the_memory_size():
    learner = make_learner(agents=1, network="lstm", buffer_size=60)
    live(learner, np.random.default_rng(0), 59, end=0.0)
    assert learner.memory.storage.steps == 0
    state = learner.collector.open_episodes.state.copy()
    live(learner, np.random.default_rng(0), 1, end=0.0)
    assert (learner.memory.storage.steps, learner.episodes) == (60, 0)
    assert learner.collector.open_episodes.is_open[0]
    assert not learner.memory.storage.terminated[0]
    np.testing.assert_array_equal(
        learner.collector.open_episodes.current(np.array([0])),
        learner.memory.storage.final_observation[:1],
    )
    # the state of the network is carried on
    assert np.abs(learner.collector.open_episodes.state).max() > 0
    assert np.abs(learner.collector.open_episodes.state - state).max() > 0
    live(learner, np.random.default_rng(0), 60, end=0.0)
    assert (learner.memory.storage.steps, learner.episodes) == (60, 0)
    assert [record.length for record in learner.episodes_under_way()] == [120]


def test_fragments_of_a_running_episode_are_used_and_counted_once():
    learner = make_learner(agents=1, buffer_size=1000, learning_starts=20, fragment_length=20)
    live(learner, np.random.default_rng(0), 19, end=0.0)
    assert (learner.memory.storage.steps, learner.counters.warm_up) == (0, -1)
    live(learner, np.random.default_rng(0), 31, end=0.0)
    assert (learner.memory.storage.steps, learner.memory.storage.episodes, learner.episodes) == (
        40,
        2,
        0,
    )
    assert learner.gradient_steps > 0
    # a piece is bootstrapped with V where it was cut, and the next one begins there
    memory = learner.memory
    assert not memory.storage.terminated[:2].any()
    assert (memory.values.final_value[:2] != 0.0).all()
    np.testing.assert_array_equal(
        memory.storage.final_observation[0], memory.storage.observation[20]
    )
    learner.act([0])
    learner.observe([0], [1.0], [True], [False], np.zeros((1, 2)))
    (record,) = learner.finished_episodes()
    assert (record.length, record.terminated) == (51, True)
    assert (learner.memory.storage.steps, learner.memory.storage.episodes, learner.episodes) == (
        51,
        3,
        1,
    )


@pytest.mark.parametrize("fragment_length", [None, 25])
def test_an_episode_longer_than_the_memory_has_one_record(fragment_length):
    learner = make_learner(agents=1, buffer_size=60, fragment_length=fragment_length)
    live(learner, np.random.default_rng(0), 130, end=0.0, update=False)
    assert learner.finished_episodes() == []
    learner.act([0])
    learner.observe([0], [1.0], [True], [False], np.zeros((1, 2)))
    (record,) = learner.finished_episodes()
    assert (record.length, record.terminated) == (131, True)


def test_an_episode_abandoned_at_the_end_of_a_fragment_has_a_record():
    learner = make_learner(agents=1, fragment_length=5)
    learner.begin([0], np.zeros((1, 2)))
    for _ in range(5):
        learner.act([0])
        learner.observe([0], [1.0], [False], [False], np.zeros((1, 2)))
    learner.act([0])
    learner.abandon([0])
    (record,) = learner.finished_episodes()
    assert record == (0, 5, 5.0, 5, False)
    assert (learner.episodes, learner.memory.storage.steps, learner.counters.issued) == (1, 5, 5)
    assert not learner.collector.open_episodes.is_open[0]


def test_learning_starts_although_the_memory_never_holds_that_many_steps():
    """A memory of 60 holds at most 51 steps of episodes of 17."""
    learner = make_learner(agents=1, buffer_size=60, learning_starts=60)
    for episode in range(5):
        assert learner.counters.is_learning == (episode == 4)
        live(learner, np.random.default_rng(episode), 17, end=0.0)
        learner.abandon([0])
    assert learner.gradient_steps == 17


def test_deciding_changes_no_noise():
    learner = make_learner(agents=2, algorithm="ddpg", replay="none", noise="ou")
    live(learner, np.random.default_rng(0), 3, end=0.0)
    before = learner.collector.exploration.noise.copy()
    decision = learner.decide([0, 1])
    np.testing.assert_array_equal(learner.collector.exploration.noise, before)
    learner.issue(decision)
    np.testing.assert_array_equal(learner.collector.exploration.noise, decision.noise)
    assert (decision.noise != before).all()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"frames": 3},
        {"network": "lstm", "window": 3},
        {"network": "lstm", "window": 3, "acting": "window"},
        {"frames": 3, "trunks": "separate"},
    ],
)
def test_no_agents_act(settings):
    learner = make_learner(agents=2, **settings)
    assert learner.act([]).shape == (0, 1)
    actions, state = learner.policy().act(np.zeros((0, 2)))
    assert actions.shape == (0, 1)
    assert state.shape == learner.policy().initial_state(0).shape


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_diverged_policy_is_reported():
    learner = make_learner()
    learner.begin([0], np.zeros((1, 2)))
    learner.algorithm.weights[:] = np.nan
    with pytest.raises(FloatingPointError, match="diverged"):
        learner.act([0])


def test_episodes_are_reported_with_unscaled_returns():
    learner = make_learner(agents=1)
    learner.begin([0], np.zeros((1, 2)))
    for t in range(4):
        learner.act([0])
        learner.observe([0], [10.0 + t], [t == 3], [False], np.zeros((1, 2)))
    (record,) = learner.finished_episodes()
    assert record == (0, 4, 46.0, 4, True)
    assert learner.finished_episodes() == []
    statistics = learner.statistics()
    assert (statistics["return_mean"], statistics["length_mean"], statistics["episodes"]) == (
        46.0,
        4.0,
        1.0,
    )
    assert np.isnan(learner.statistics()["return_mean"])


def test_effective_share_of_a_sampler_is_reported():
    learner = make_learner(algorithm="sac", sampler="proportional", replay="none")
    live(learner, np.random.default_rng(0), 30)
    assert learner.gradient_steps > 20
    assert 0.0 < learner.statistics()["effective_share"] < 1.0
    assert "effective_share" not in make_learner().statistics()


@pytest.mark.parametrize(("target_entropy", "way"), [(30.0, 1), (-30.0, -1)])
def test_the_temperature_of_sac_is_reported(target_entropy, way):
    # neither target can be reached, so the log temperature moves by Adam's step, the learning rate
    learner = make_learner(
        algorithm="sac", target_entropy=target_entropy, temperature=0.5, learning_rate=1e-2
    )
    assert learner.statistics()["temperature"] == pytest.approx(0.5)
    live(learner, np.random.default_rng(0), 30)
    learned = learner.gradient_steps
    assert learned > 20
    expected = 0.5 * np.exp(way * 1e-2 * learned)
    assert learner.statistics()["temperature"] == pytest.approx(expected, rel=1e-2)
    assert "temperature" not in make_learner().statistics()


def test_scales_are_computed_from_the_memory():
    learner = make_learner(agents=4, learning_starts=200)
    rng = np.random.default_rng(0)
    while learner.counters.warm_up < 0:
        live(learner, rng, 1)
    indices = learner.memory.storage.indices()
    observations, rewards = (
        learner.memory.storage.observation[indices],
        learner.memory.storage.reward[indices],
    )
    scaled = learner.state_scale(observations)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-4)
    assert learner.reward_scale.value == pytest.approx(np.sqrt(np.mean(rewards**2)), rel=1e-5)
    before = learner.state_scale.mean.copy()
    while learner.gradient_steps < 1000:
        live(learner, rng, 1)
    np.testing.assert_array_equal(learner.state_scale.mean, before)
    rewards = learner.memory.storage.reward[learner.memory.storage.indices()]
    assert learner.reward_scale.value == pytest.approx(np.sqrt(np.mean(rewards**2)), rel=1e-3)
    assert learner.statistics()["reward_scale"] == learner.reward_scale.value


def test_full_sweep_refreshes_final_values_and_far_policy_flags():
    learner = make_learner(agents=4, learning_rate=1e-2)
    rng = np.random.default_rng(0)
    while learner.gradient_steps < 999:
        live(learner, rng, 1, update=False)
        while learner.updates_due() and learner.gradient_steps < 999:
            learner.update()
    memory = learner.memory
    rows = memory.storage.truncated_rows()
    before = memory.values.final_value[rows].copy()
    learner.update()
    scaled = learner.state_scale(memory.storage.final_observation[rows])
    value, *_ = learner.algorithm.act(scaled, np.zeros((len(rows), 0), np.float32))
    np.testing.assert_allclose(memory.values.final_value[rows], value, atol=1e-5)
    assert np.abs(memory.values.final_value[rows] - before).max() > 1e-4
    indices = memory.storage.indices()
    c_max = learner.refer.c_max(learner.environment_steps)
    np.testing.assert_array_equal(
        memory.values.far[indices],
        ~((memory.values.rho[indices] > 1 / c_max) & (memory.values.rho[indices] < c_max)),
    )
    stored = memory.values.v_tbc[indices].copy()
    memory.values.sweep(learner.config.gamma, learner.reward_scale.value)
    np.testing.assert_array_equal(memory.values.v_tbc[indices], stored)


def test_targets_use_the_current_discount():
    learner = make_learner(agents=4, gamma=0.99, gamma_first=0.5, gamma_steps=2000)
    while learner.environment_steps < 1000:
        live(learner, np.random.default_rng(0), 1)
    assert 1.0 / (1.0 - learner.gamma) == pytest.approx(np.sqrt(2.0 * 100.0), rel=0.01)
    learner.sweep_memory()
    memory, indices = learner.memory, learner.memory.storage.indices()
    found = memory.values.v_tbc[indices].copy()
    memory.values.sweep(learner.gamma, learner.reward_scale.value)
    np.testing.assert_array_equal(memory.values.v_tbc[indices], found)
    memory.values.sweep(learner.config.gamma, learner.reward_scale.value)
    assert np.abs(memory.values.v_tbc[indices] - found).max() > 1e-3


def test_actions_are_scaled_to_the_task_and_stored_raw():
    space = gymnasium.spaces.Box(
        np.array([0.0, -10.0], np.float32), np.array([4.0, 10.0], np.float32)
    )
    learner = Learner(AgentConfig(**SMALL, sigma=2.0), box(2), space, agents=200, seed=0)
    everyone = np.arange(200)
    learner.begin(everyone, np.zeros((200, 2)))
    actions = learner.act(everyone)
    raw = learner.collector.open_episodes.action[everyone, 0]
    np.testing.assert_allclose(
        actions, np.array([2.0, 0.0]) + raw * np.array([2.0, 10.0]), rtol=1e-6
    )
    assert np.abs(raw).max() > 1.5  # unclipped
    assert np.abs(raw).max() <= 6.5  # three standard deviations
    squashed = Learner(
        AgentConfig(**SMALL, sigma=2.0, squash="tanh"), box(2), space, agents=200, seed=0
    )
    squashed.begin(everyone, np.zeros((200, 2)))
    assert space.contains(squashed.act(everyone)[0])
    np.testing.assert_array_equal(squashed.collector.open_episodes.action[everyone, 0], raw)


def test_a_snapshot_acts_like_the_learner_and_does_not_learn():
    learner = make_learner()
    rng = np.random.default_rng(0)
    live(learner, rng, 60)
    policy = learner.policy()
    observations = rng.normal(size=(5, 2))
    actions, _ = policy.act(observations, policy.initial_state(5), deterministic=True)
    scaled = learner.state_scale(observations.astype(np.float32))
    _, mean, _, _ = learner.algorithm.act(scaled, np.zeros((5, 0), np.float32))
    np.testing.assert_array_equal(actions, np.clip(mean, -1, 1))
    live(learner, rng, 60)
    again, _ = policy.act(observations, policy.initial_state(5), deterministic=True)
    np.testing.assert_array_equal(again, actions)
    samples = np.array(
        [
            policy.act(observations, policy.initial_state(5), deterministic=False, rng=rng)[0]
            for _ in range(200)
        ]
    )
    assert np.abs(samples).max() <= 1.0
    assert samples.std(axis=0).min() > 0.1
    with pytest.raises(ValueError, match="rng = None"):
        policy.act(observations, policy.initial_state(5), deterministic=False)
    assert isinstance(policy, Policy)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (gymnasium.spaces.Discrete(3), box(1), "observation space must be a Box"),
        (gymnasium.spaces.Box(0, 1, (2, 2)), box(1), "observation space must be a Box of one axis"),
        (
            box(2),
            gymnasium.spaces.MultiDiscrete([3, 2]),
            "action space must be a Box of one axis or Discrete",
        ),
        (
            box(2),
            gymnasium.spaces.Box(-1, 1, (2, 2)),
            "action space must be a Box of one axis or Discrete",
        ),
        (box(2), gymnasium.spaces.Discrete(1), "at least two actions"),
        (box(2), gymnasium.spaces.MultiBinary(2), "action space must be a Box"),
        (box(0), box(1), "must have at least one component"),
        (box(2), box(1, -np.inf, np.inf), "finite bounds"),
        (box(2), box(1, 1.0, 1.0), "high above low"),
    ],
)
def test_unsupported_spaces_are_refused(observation, action, message):
    with pytest.raises(ValueError, match=message):
        Learner(AgentConfig(**SMALL), observation, action, agents=1, seed=0)


def test_misuse_is_refused_in_one_sentence():
    learner = make_learner()
    with pytest.raises(ValueError, match="agent 3 does not exist: there are 3"):
        learner.begin([3], np.zeros((1, 2)))
    with pytest.raises(ValueError, match="distinct"):
        learner.begin([1, 1], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"shape \(1, 3\), expected \(1, 2\)"):
        learner.begin([1], np.zeros((1, 3)))
    with pytest.raises(ValueError, match="agent 1 sent an observation that is not finite"):
        learner.begin([0, 1], np.array([[0.0, 1.0], [np.nan, 0.0]]))
    learner.begin([0], np.zeros((1, 2)))
    with pytest.raises(ValueError, match="agent 0 does not wait for an outcome"):
        learner.observe([0], [0.0], [False], [False], np.zeros((1, 2)))
    learner.act([0])
    with pytest.raises(ValueError, match="agent 0 already waits"):
        learner.act([0])
    with pytest.raises(ValueError, match="reward that is not finite"):
        learner.observe([0], [np.inf], [False], [False], np.zeros((1, 2)))
    for flags, message in (
        (([False, True], [False]), r"terminated has shape \(2,\), expected \(1,\)"),
        (([False], False), r"truncated has shape \(\), expected \(1,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.observe([0], [0.0], *flags, np.zeros((1, 2)))
    learner.observe([0], [0.0], [False], [False], np.zeros((1, 2)))  # nothing was recorded before
    assert learner.collector.open_episodes.length[0] == 1
    with pytest.raises(ValueError, match="agents = 0"):
        make_learner(agents=0)
