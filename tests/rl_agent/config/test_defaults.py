"""Defaults fitted to a run, and warnings about settings that do not fit."""

import itertools
import re

import pytest
from pydantic import ValidationError

from rl_agent import AgentConfig
from rl_agent.config import OnPolicyConfig, algorithms
from rl_agent.config.defaults import fit, warnings_of

ON_POLICY = [name for name, kind in algorithms().items() if issubclass(kind, OnPolicyConfig)]
NETWORKS = {"dqn": ("mlp",), "rainbow": ("mlp",)}


def test_fitted_defaults_of_vracer():
    agent = fit(AgentConfig(), 60_000, 20)
    assert (agent.beta, agent.gamma, agent.learning_rate, agent.learning_starts) == (
        1.0,
        0.97,
        1e-3,
        1200,
    )
    assert agent.buffer_size == 10_000
    assert agent.annealing * 60_000 == pytest.approx(5.0, rel=0.02)
    long = fit(AgentConfig(), 1_000_000, 1000)
    assert (long.gamma, long.learning_rate, long.learning_starts, long.buffer_size) == (
        0.99,
        3.2e-4,
        5000,
        65_536,
    )
    # a run of the paper's length has the paper's rates
    paper = fit(AgentConfig(), 10_000_000, 1000)
    assert (paper.learning_rate, paper.annealing) == (1e-4, 5e-7)


def test_fitted_defaults_of_lstm_networks():
    agent = fit(AgentConfig(network="lstm"), 60_000, 200)
    assert (agent.acting, agent.annealing, agent.window) == ("window", 8.3e-6, 8)
    assert fit(AgentConfig(network="lstm"), 60_000, 4).window == 4
    named = {"acting": "carried", "annealing": 5e-5, "window": 16}
    carried = fit(AgentConfig(network="lstm", **named), 60_000, 200)
    assert {key: getattr(carried, key) for key in named} == named
    assert fit(AgentConfig(algorithm="sac", network="lstm"), 60_000, 200).annealing == 0.0
    # a segment is read once, from its beginning
    assert fit(AgentConfig(algorithm="acer", network="lstm"), 60_000, 200).acting == "carried"
    assert fit(AgentConfig(defaults="paper", network="lstm"), 60_000, 200).acting == "carried"


@pytest.mark.parametrize("algorithm", algorithms())
def test_given_settings_are_kept_and_the_rest_is_fitted(algorithm):
    named = {"algorithm": algorithm, "gamma": 0.5, "learning_rate": 2e-4}
    agent = fit(AgentConfig(**named), 20_000, 50)
    assert {key: getattr(agent, key) for key in named} == named
    # a resolved configuration is not fitted again for another run
    assert fit(AgentConfig.model_validate(agent.model_dump(mode="json")), 10**6, 1000) == agent
    assert fit(AgentConfig(defaults="paper", **named), 20_000, 50) == AgentConfig(
        defaults="paper", **named
    )


def test_learning_starts_and_buffer_size_are_kept_consistent():
    assert fit(AgentConfig(buffer_size=300), 60_000, 20).learning_starts == 300
    assert fit(AgentConfig(learning_starts=50_000), 60_000, 20).buffer_size == 50_000
    assert fit(AgentConfig(batch_size=2000), 60_000, 20).learning_starts == 2000
    with pytest.raises(
        ValidationError, match="learning_starts = 131072 must not be above buffer_size = 300"
    ):
        AgentConfig(defaults="paper", buffer_size=300)


@pytest.mark.parametrize(("steps", "episode_steps"), [(0, 200), (-1, 200), (1000, 0), (1000, -1)])
def test_runs_and_episodes_have_a_step(steps, episode_steps):
    with pytest.raises(ValueError, match=r"steps = (0|-1) must be at least 1"):
        fit(AgentConfig(), steps, episode_steps)


def test_policy_rate_follows_the_given_learning_rate():
    assert fit(
        AgentConfig(algorithm="ddpg", learning_rate=5e-4), 60_000, 20
    ).policy_rate == pytest.approx(1.5e-4)


@pytest.mark.parametrize(
    ("algorithm", "network"),
    [
        (name, network)
        for name in algorithms()
        if name not in ON_POLICY
        for network in NETWORKS.get(name, ("mlp", "lstm"))
    ],
)
def test_fitted_settings_give_no_warnings(algorithm, network):
    for steps, episode in itertools.product([2000, 60_000, 10**6, 10**8], [None, 4, 50, 1000]):
        agent = fit(AgentConfig(algorithm=algorithm, network=network), steps, episode)
        assert warnings_of(agent, steps, episode) == []


@pytest.mark.parametrize("algorithm", ON_POLICY)
def test_fitted_on_policy_settings_give_no_warnings(algorithm):
    for steps, episode in itertools.product([2000, 60_000, 10**6], [None, 4, 1000]):
        assert (
            warnings_of(fit(AgentConfig(algorithm=algorithm), steps, episode), steps, episode) == []
        )


BALLS = {"buffer_size": 16384, "learning_starts": 1000, "defaults": "paper"}


def test_too_many_agents_for_the_run_give_a_warning():
    whole = fit(AgentConfig(fragment_length=None), 5000, 200)
    assert warnings_of(whole, 5000, 200, agents=12) == []
    (told,) = warnings_of(whole, 5000, 200, agents=24)
    assert "workers.agents = 24 with episodes of up to 200 steps may take 4800 steps" in told
    assert warnings_of(fit(AgentConfig(), 5000, 200), 5000, 200, agents=24) == []


def test_too_many_agents_without_a_time_limit_give_a_warning():
    assert warnings_of(fit(AgentConfig(), 2400), 2400, agents=24) == []  # pieces of 50 steps
    (told,) = warnings_of(fit(AgentConfig(), 800), 800, agents=24)
    assert "24 with episodes without a time limit may take 1200 steps" in told
    assert (
        warnings_of(fit(AgentConfig(fragment_length=None), 800), 800, agents=24) == []
    )  # nobody knows


def test_long_episodes_are_split_into_fragments():
    assert fit(AgentConfig(), 60_000, 50).fragment_length is None
    assert fit(AgentConfig(), 60_000, 500).fragment_length == 50
    assert fit(AgentConfig(), 60_000).fragment_length == 50
    assert fit(AgentConfig(), 1_000_000, 1000).fragment_length == 208
    assert fit(AgentConfig(network="lstm"), 60_000, 500).fragment_length is None
    assert AgentConfig().fragment_length is None
    with pytest.raises(
        ValidationError,
        match=r"fragment_length = 50 is a setting of .*vracer, which algorithm = ppo",
    ):
        AgentConfig(algorithm="ppo", fragment_length=50)


def test_fitted_defaults_of_ppo():
    agent = fit(AgentConfig(algorithm="ppo"), 60_000, 200)
    assert (agent.horizon, agent.gae_lambda, agent.policy_rate, agent.learning_rate) == (
        500,
        0.917,
        1e-3,
        1e-3,
    )
    # credit reaches as far as episodes are long
    assert fit(AgentConfig(algorithm="ppo"), 60_000, 20).gae_lambda == 0.9
    assert fit(AgentConfig(algorithm="ppo"), 60_000, 1000).gae_lambda == 0.97
    assert fit(AgentConfig(algorithm="ppo", gamma=0.5), 60_000, 1000).gae_lambda == 0.9
    assert fit(AgentConfig(algorithm="ppo", gamma=1.0), 60_000, 1000).gae_lambda == 0.97
    # four episodes, where T/120 is but one
    assert fit(AgentConfig(algorithm="ppo"), 60_000, 500).horizon == 2000
    assert fit(AgentConfig(algorithm="ppo"), 5000, 200).horizon == 256
    assert fit(AgentConfig(algorithm="ppo"), 10**6, 1000).horizon == 2048


@pytest.mark.parametrize("algorithm", ["a3c", "trust-a3c"])
def test_fitted_defaults_of_a3c(algorithm):
    agent = fit(AgentConfig(algorithm=algorithm), 60_000, 200)
    assert (agent.horizon, agent.first_horizon) == (480, 1200)
    assert (agent.learning_rate, agent.policy_rate) == (3e-3, 3e-3)
    assert fit(AgentConfig(algorithm=algorithm), 10_000, 200).horizon == 120
    assert fit(AgentConfig(algorithm=algorithm), 10**6, 200).learning_rate == 9.5e-4
    named = fit(AgentConfig(algorithm=algorithm, horizon=2000), 60_000, 200)
    assert (named.horizon, named.first_horizon) == (2000, 2000)


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg"])
@pytest.mark.parametrize("replay", ["refer", "refer-1", "refer-2"])
def test_buffer_with_any_refer_rule_is_a_sixth_of_the_run(algorithm, replay):
    assert fit(AgentConfig(algorithm=algorithm, replay=replay), 60_000, 1000).buffer_size == 10_000
    assert fit(AgentConfig(algorithm=algorithm, replay="none"), 60_000, 1000).buffer_size == 60_000


def test_sac_with_rule_1_alone_has_a_larger_c_max():
    assert fit(AgentConfig(algorithm="sac", replay="refer-1"), 60_000, 1000).c_max_scale == 16.0
    assert (
        fit(
            AgentConfig(algorithm="sac", replay="refer-1", c_max_scale=5.0), 60_000, 1000
        ).c_max_scale
        == 5.0
    )
    assert fit(AgentConfig(algorithm="sac", replay="refer"), 60_000, 1000).c_max_scale == 4.0
    assert fit(AgentConfig(algorithm="ddpg", replay="refer-1"), 60_000, 1000).c_max_scale == 4.0


@pytest.mark.parametrize(
    ("settings", "steps", "episode", "sentence"),
    [
        (
            {"algorithm": "sac", "replay": "refer-1", "buffer_size": 80_000},
            60_000,
            None,
            r"agent\.buffer_size = 80000 holds all of run\.steps = 60000, so most .*; agent\.buffer_size=10000 fits",
        ),
        (
            BALLS,
            60_000,
            20,
            r"agent\.beta = 0\.3 rises .* 10000 gradient steps, of which the run has 59000, .*beta=1 ",
        ),
        (
            BALLS,
            60_000,
            20,
            r"agent\.gamma = 0\.995 looks 200 steps ahead, .* at most 20; agent\.gamma=0\.97 fits",
        ),
        (
            {"defaults": "paper"},
            200_000,
            None,
            r"agent\.buffer_size = 262144 holds all of run\.steps = 200000, .*agent\.buffer_size=33333 fits",
        ),
        (
            {"defaults": "paper"},
            60_000,
            None,
            r"agent\.learning_starts = 131072 is not below run\.steps = 60000, .*agent\.learning_starts=1200 fits",
        ),
        (
            {"learning_starts": 40_000},
            60_000,
            None,
            r"agent\.learning_starts = 40000 is more than half of run\.steps = 60000",
        ),
        (
            {"learning_starts": 20},
            60_000,
            None,
            r"agent\.batch_size = 256 is more than agent\.learning_starts = 20",
        ),
        (
            {"annealing": 0.01},
            60_000,
            None,
            r"agent\.annealing = 0\.01 makes the learning rate 601 times smaller",
        ),
        (
            {"env_steps_per_gradient_step": 100.0},
            60_000,
            None,
            r"agent\.env_steps_per_gradient_step = 100 leaves 588 gradient steps",
        ),
        (
            {"algorithm": "ppo", "horizon": 20_000},
            60_000,
            None,
            r"agent\.horizon = 20000 leaves only 3 iterations",
        ),
    ],
)
def test_warning_names_the_setting_and_a_value_that_fits(settings, steps, episode, sentence):
    told = warnings_of(fit(AgentConfig(**settings), steps, episode), steps, episode)
    assert [warning for warning in told if re.search(sentence, warning)], told


ODD = [
    {"defaults": "paper"}, {"learning_starts": 1000}, {"learning_starts": 20}, {"learning_starts": 10**6},
    {"batch_size": 5000}, {"buffer_size": 10**6}, {"beta": 0.1}, {"annealing": 0.01}, {"gamma": 1.0},
    {"env_steps_per_gradient_step": 50.0}, {"learning_starts": 90, "batch_size": 100},
]  # fmt: skip
ODD_ON_POLICY = [{"defaults": "paper"}, {"horizon": 10**5}, {"annealing": 0.01}, {"gamma": 1.0}]


@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("steps", [10, 100, 1000, 60_000, 10**8])
def test_proposed_value_resolves_the_warning(algorithm, steps):
    """Applying the proposed value removes the warning."""
    seen = 0
    for settings in ODD_ON_POLICY if algorithm in ON_POLICY else ODD:
        try:
            named = {"algorithm": algorithm} | settings
            agent = fit(AgentConfig(**named), steps, 20)
        except ValidationError:  # no setting of this learner
            continue
        for told in warnings_of(
            agent, steps, 20, agents=0
        ):  # the number of agents has its own test
            words = re.findall(r"(\w+)\.(\w+)=([\d.e+-]+)(?: or more)? fits$", told)
            assert words, told
            ((section, key, value),) = words
            again, longer = dict(named), steps
            if section == "run":
                longer = int(value)
            else:
                again[key] = type(getattr(agent, key))(float(value))
            about = told.split(" = ")[0]
            left = warnings_of(fit(AgentConfig(**again), longer, 20), longer, 20, agents=0)
            assert not [warning for warning in left if warning.startswith(f"{about} = ")], (
                told,
                left,
            )
            seen += 1
    assert seen


def test_td3_explores_more_in_a_short_run():
    kind = algorithms()["td3"]
    assert fit(kind(), 60_000, 50).sigma == 0.3
    assert fit(kind(), 1_000_000, 50).sigma == 0.1
    assert fit(kind(sigma=0.05), 60_000, 50).sigma == 0.05


def test_fitted_tau_of_average_policies():
    assert fit(AgentConfig(algorithm="acer"), 60_000, 200).tau == 0.02
    assert fit(AgentConfig(algorithm="trust-a3c", tau=0.1), 60_000, 200).tau == 0.1
    assert fit(AgentConfig(algorithm="ddpg"), 60_000, 200).tau == 0.01
