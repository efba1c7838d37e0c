import math
import re

import numpy as np
import pytest
from pydantic import ValidationError

from rl_agent import AgentConfig
from rl_agent.algorithms.sac.config import SACConfig
from rl_agent.config import OnPolicyConfig, algorithms, default_settings
from rl_agent.config.defaults import fit, warnings_of


def test_defaults_are_the_values_of_the_paper():
    config = AgentConfig()
    assert (config.gamma, config.learning_rate, config.batch_size) == (0.995, 1e-4, 256)
    assert (config.buffer_size, config.learning_starts, config.env_steps_per_gradient_step) == (
        2**18,
        2**17,
        1.0,
    )
    assert (config.c_max_scale, config.annealing, config.far_policy_target) == (4.0, 5e-7, 0.1)
    assert math.isclose(config.sigma**2, 0.2)
    assert config.hidden_sizes == (128, 128)
    assert AgentConfig(network="lstm").hidden_sizes == (32, 32)
    assert AgentConfig(network="lstm", hidden=(8,)).hidden_sizes == (8,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", 1.01),
        ("gamma", -0.1),
        ("learning_rate", 0.0),
        ("batch_size", 0),
        ("buffer_size", 1),
        ("learning_starts", 0),
        ("env_steps_per_gradient_step", 0.0),
        ("hidden", ()),
        ("hidden", (32, 0)),
        ("sigma", 0.0),
        ("far_policy_target", 1.5),
        ("beta", 2.0),
        ("c_max_scale", 0.0),
        ("annealing", -1.0),
        ("annealing", math.inf),
        ("c_max_scale", math.inf),
        ("replay", "per"),
        ("sampler", "per"),
        ("algorithm", "c51"),
        ("algorithm", 3),
        ("activation", "gelu"),
        ("tau", 0.0),
        ("device", "tpu"),
        ("network", "transformer"),
        ("gama", 0.9),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_its_key(key, value):
    with pytest.raises(ValidationError) as refusal:
        AgentConfig.model_validate({key: value})
    assert key in str(refusal.value)
    assert refusal.value.title == "AgentConfig"  # not pydantic's name for all algorithms together


def test_learning_starts_must_fit_the_buffer():
    with pytest.raises(
        ValidationError, match="learning_starts = 200 must not be above buffer_size = 100"
    ):
        AgentConfig(buffer_size=100, learning_starts=200)


def test_every_algorithm_has_the_defaults_of_its_paper():
    ddpg = AgentConfig(algorithm="ddpg")
    assert (ddpg.batch_size, ddpg.learning_rate, ddpg.critic_l2) == (128, 1e-4, 1e-4)
    assert math.isclose(ddpg.policy_rate, 1e-5)
    assert math.isclose(AgentConfig(algorithm="ddpg", learning_rate=1e-3).policy_rate, 1e-4)
    assert AgentConfig(algorithm="ddpg", policy_learning_rate=1e-3).policy_rate == 1e-3
    assert (ddpg.sigma, ddpg.noise, ddpg.tau, ddpg.replay, ddpg.annealing) == (
        0.2,
        "gaussian",
        0.01,
        "refer",
        5e-7,
    )
    plain = AgentConfig(algorithm="ddpg", replay="none")
    assert (plain.noise, plain.annealing) == ("ou", 0.0)
    naf = AgentConfig(algorithm="naf")
    assert (naf.batch_size, naf.learning_rate, naf.sigma, naf.tau) == (256, 1e-4, 0.2, 0.01)
    acer = AgentConfig(algorithm="acer")
    assert (
        acer.buffer_size,
        acer.sample_size,
        acer.tau,
        acer.importance_clip,
        acer.trust_region,
    ) == (
        10**5,
        24,
        1e-3,
        5,
        1,
    )
    assert (acer.dueling_samples, acer.learning_rate) == (5, 1e-4)
    assert math.isclose(acer.policy_rate, 1e-5)
    for name in ("td3", "sac"):
        config = AgentConfig(algorithm=name)
        assert (config.hidden, config.activation, config.batch_size) == ((256, 256), "relu", 128)
        assert (config.tau, config.gamma, config.buffer_size) == (5e-3, 0.99, 10**6)
        assert config.policy_rate == config.learning_rate
    for name in ("tis", "trust-tis", "a3c", "trust-a3c"):
        config = AgentConfig(algorithm=name)
        assert (config.sigma, config.policy_rate, config.sample_size) == (
            0.3,
            1e-4,
            24 if "tis" in name else 480,
        )
        assert not name.startswith("trust") or (config.trust_region, config.tau) == (
            1.0,
            5e-3,
        )
    ppo = AgentConfig(algorithm="ppo")
    assert ppo.hidden_sizes == (64, 64)
    assert (ppo.gamma, ppo.gae_lambda, ppo.clip, ppo.horizon, ppo.epochs) == (
        0.995,
        0.97,
        0.2,
        2048,
        10,
    )
    assert (ppo.batch_size, ppo.hidden, ppo.learning_rate) == (64, (64, 64), 3e-4)
    assert math.isclose(ppo.policy_rate, 1e-4)


@pytest.mark.parametrize("algorithm", algorithms())
def test_written_configuration_is_read_back_unchanged(algorithm):
    config = AgentConfig(algorithm=algorithm, gamma=0.9)
    assert AgentConfig.model_validate(config.model_dump(mode="json")) == config
    if algorithm in ("dqn", "rainbow"):
        with pytest.raises(ValidationError, match="use network = mlp or conv"):
            AgentConfig(algorithm=algorithm, network="lstm")
        return
    if not issubclass(algorithms()[algorithm], OnPolicyConfig):
        assert AgentConfig(algorithm=algorithm, network="lstm").hidden_sizes == (32, 32)


def test_rainbow_has_the_settings_of_its_data_efficient_form():
    """NERS, table B.1, after van Hasselt et al. 2019."""
    rainbow = AgentConfig(algorithm="rainbow", network="conv", image_shape=(1, 84, 84))
    assert (rainbow.batch_size, rainbow.buffer_size, rainbow.gamma, rainbow.learning_starts) == (
        32,
        10**6,
        0.99,
        1600,
    )
    assert (rainbow.sampler, rainbow.priority_exponent, rainbow.importance_exponent) == (
        "proportional",
        0.5,
        0.4,
    )
    assert (rainbow.convolutions, rainbow.hidden_sizes, rainbow.window) == (
        ((32, 5, 5), (64, 5, 5)),
        (256,),
        3,
    )
    assert (rainbow.atoms, rainbow.value_limit, rainbow.n_step, rainbow.target_update_interval) == (
        51,
        10.0,
        20,
        2000,
    )
    assert (rainbow.learning_rate, rainbow.adam_epsilon, rainbow.max_gradient_norm) == (
        1e-4,
        1.5e-4,
        10.0,
    )
    assert (rainbow.noise_sigma, rainbow.env_steps_per_gradient_step, rainbow.clip_rewards) == (
        0.1,
        1.0,
        True,
    )
    dqn = AgentConfig(algorithm="dqn", network="conv", image_shape=(1, 84, 84))
    assert (dqn.convolutions, dqn.hidden_sizes) == (((32, 8, 4), (64, 4, 2), (64, 3, 1)), (512,))


def test_each_algorithm_has_its_own_settings():
    assert (
        type(AgentConfig(algorithm="sac"))
        is type(AgentConfig.model_validate({"algorithm": "sac"}))
        is SACConfig
    )
    assert "horizon" not in SACConfig.model_fields
    assert SACConfig(temperature=0.1) == AgentConfig(algorithm="sac", temperature=0.1)


def test_written_configuration_has_the_settings_of_all_algorithms():
    """Run folders and checkpoints keep the format of the former single settings model."""
    written = [
        AgentConfig(algorithm=algorithm).model_dump(mode="json") for algorithm in algorithms()
    ]
    assert all(settings.keys() == default_settings().keys() for settings in written)
    naf = AgentConfig(algorithm="naf").model_dump(mode="json")
    assert (naf["critic_l2"], naf["horizon"], naf["tau"]) == (0.0, 2048, 0.01)
    assert AgentConfig(algorithm="naf", critic_l2=0.0).model_fields_set == {"algorithm"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"algorithm": "ppo", "replay": "refer"}, "ppo is on-policy"),
        ({"algorithm": "ppo", "sampler": "rank"}, "ppo is on-policy"),
        ({"algorithm": "ppo", "network": "lstm"}, "cuts episodes at its horizon"),
        ({"algorithm": "ppo", "horizon": 32}, "horizon = 32 must not be below batch_size = 64"),
        ({"algorithm": "acer", "sampler": "proportional"}, "priorities of single steps"),
        ({"algorithm": "acer", "replay": "refer"}, "trust region of its own"),
        (
            {"algorithm": "tis", "replay": "refer"},
            "bounds its updates by truncated weights, so replay must be none",
        ),
        ({"algorithm": "tis", "trust_region": 2.0}, "which algorithm = tis does not read"),
        ({"algorithm": "a3c", "network": "lstm"}, "a3c cuts episodes at its horizon"),
        ({"algorithm": "trust-a3c", "replay": "refer"}, "trust-a3c is on-policy"),
        ({"sampler": "rank"}, "far-policy fraction that steers beta"),
        ({"sampler": "ners"}, "far-policy fraction that steers beta"),
        ({"algorithm": "ppo", "sampler": "ners"}, "ppo is on-policy"),
        ({"algorithm": "acer", "sampler": "ero"}, "priorities of single steps"),
        ({"algorithm": "dqn", "replay": "refer"}, "no policy whose importance weights"),
        ({"algorithm": "sac", "network": "conv", "image_shape": (1, 9, 9)}, "critics of actions"),
        ({"algorithm": "dqn", "network": "conv"}, "needs image_shape = "),
        ({"image_shape": (1, 9, 9)}, "needs image_shape = "),
        (
            {"algorithm": "sac", "score_learning_rate": 1e-3},
            "score_learning_rate is a setting of sampler = ero or ners",
        ),
        ({"beta_rate": 3e-3}, r"beta_rate = 0.003 is no longer supported"),
        ({"algorithm": "sac", "score_steps": 9}, "score_steps = 9 is no longer supported"),
        (
            {"algorithm": "naf", "sampler": "proportional", "replay": "refer-2"},
            "use replay = none or refer-1",
        ),
        (
            {"algorithm": "sac", "sampler": "rank", "episode_share": 0.5},
            "a share of a uniform batch, which sampler = rank does not sample",
        ),
        (
            {"algorithm": "acer", "episode_share": 0.5},
            "which algorithm = acer does not read",
        ),
        ({"gamma_first": 0.9}, "set both or neither"),
        ({"gamma_steps": 1000}, "set both or neither"),
        (
            {"gamma": 0.9, "gamma_first": 0.95, "gamma_steps": 10},
            "gamma_first = 0.95 must not be above gamma = 0.9",
        ),
        (
            {"gamma": 1.0, "gamma_first": 0.95, "gamma_steps": 10},
            "must be below 1 then",
        ),
        ({"algorithm": "ddpg", "noise": "ou"}, "noise = ou is correlated in time"),
        ({"algorithm": "sac", "squash": "none"}, "squash must be tanh"),
        ({"algorithm": "td3", "squash": "tanh"}, "tanh in its policy"),
        (
            {"algorithm": "td3", "replay": "refer", "random_start": True},
            "random_start = True stores actions",
        ),
        *(
            (settings | {"random_start": True}, "random_start = True stores actions")
            for settings in (
                {"algorithm": "vracer", "replay": "none"},
                {"algorithm": "acer"},
                {"algorithm": "tis"},
                {"algorithm": "a3c"},
                {"algorithm": "ppo"},
            )
        ),
        ({"clip": 0.3}, "clip = 0.3 is a setting of ppo, which algorithm = vracer does not read"),
        (
            {"algorithm": "naf", "critic_l2": 0.1},
            "critic_l2 = 0.1 is a setting of ddpg and sac and td3",
        ),
    ],
)
def test_incompatible_settings_are_refused_with_the_reason(settings, reason):
    with pytest.raises(ValidationError, match=reason):
        AgentConfig(**settings)


UNREAD = [
    (
        {"algorithm": "sac", "center_advantages": True},
        "of algorithm = vracer, which algorithm = sac",
    ),
    ({"algorithm": "sac", "sigma_min": 0.1}, "of algorithm = ppo or vracer, which algorithm = sac"),
    ({"algorithm": "sac", "priority_exponent": 0.9}, "or ners, which sampler = uniform does not"),
    ({"algorithm": "ppo", "buffer_size": 9000}, "which algorithm = ppo does not read"),
    ({"algorithm": "ppo", "learning_starts": 900}, "which algorithm = ppo does not read"),
    ({"algorithm": "ppo", "env_steps_per_gradient_step": 2.0}, "which algorithm = ppo does not"),
    ({"algorithm": "ppo", "center_advantages": True}, "which algorithm = ppo does not read"),
    ({"algorithm": "a3c", "batch_size": 9}, "which algorithm = a3c does not read"),
    ({"algorithm": "acer", "batch_size": 9}, "batch_size = 9 is a setting of algorithm = "),
    ({"algorithm": "acer", "sigma_min": 0.1}, "which algorithm = acer does not read"),
    ({"algorithm": "acer", "center_advantages": True}, "which algorithm = acer does not read"),
    (
        {"algorithm": "acer", "without": ("dueling",), "dueling_samples": 3},
        "of the component dueling, which without leaves out",
    ),
    (
        {"algorithm": "acer", "without": ("retrace", "trust_region"), "trust_region": 2.0},
        "of the component trust_region, which without leaves out",
    ),
    (
        {"algorithm": "acer", "without": ("trust_region",), "tau": 0.3},
        "tau = 0.3 is a setting of the component trust_region, which without leaves out",
    ),
    (
        {"algorithm": "acer", "shared_network": True, "policy_learning_rate": 0.1},
        "of shared_network = False, which shared_network = True does not read",
    ),
    ({"algorithm": "dqn", "sigma": 0.9}, "which algorithm = dqn does not read"),
    ({"algorithm": "dqn", "activation": "tanh"}, "which algorithm = dqn does not read"),
    ({"algorithm": "dqn", "value_limit": 20.0}, "several atoms, which atoms = 1 does not read"),
    ({"algorithm": "dqn", "noisy": True, "epsilon": 0.3}, "noisy = False, which noisy = True does"),
    (
        {"replay": "none", "beta": 0.5},
        "replay = refer or refer-2, which replay = none does not read",
    ),
    ({"acting": "window"}, "acting = window is a setting of network = lstm, which network = mlp"),
    ({"window": 3}, "of network = lstm or conv, which network = mlp does not read"),
    ({"convolutions": ((8, 4, 2),)}, "of network = conv, which network = mlp does not read"),
    ({"network": "lstm", "activation": "relu"}, "of network = mlp, which network = lstm does not"),
]


@pytest.mark.parametrize(("settings", "reason"), UNREAD)
def test_settings_that_are_not_read_are_refused_in_a_call_and_reported_from_a_file(
    settings, reason
):
    with pytest.raises(ValidationError, match=reason):
        AgentConfig(**settings)
    kind = algorithms()[settings.get("algorithm", "vracer")]
    with pytest.raises(ValidationError, match=reason):
        kind(**settings)
    agent = AgentConfig.model_validate(settings)
    assert any(re.search(reason, told) for told in warnings_of(fit(agent, 60_000), 60_000))


@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_written_configuration_has_no_setting_that_is_not_read(algorithm, network):
    try:
        config = AgentConfig(algorithm=algorithm, network=network)
    except ValidationError:  # the algorithm has no LSTM
        return
    for written in (config, fit(config, 60_000, 200)):
        read = AgentConfig.model_validate(written.model_dump(mode="json"))
        assert warnings_of(read, 60_000, 200) == warnings_of(written, 60_000, 200)
        assert not [told for told in warnings_of(read, 60_000, 200) if "does not read" in told]
        assert AgentConfig(**config.model_dump()) == config


def test_a_fitted_value_limit_that_one_atom_does_not_read_is_not_reported():
    fitted = fit(AgentConfig(algorithm="dqn", gamma=0.5), 60_000)
    assert fitted.value_limit == 2.0
    assert warnings_of(fitted, 60_000) == []


def test_settings_that_the_task_does_not_use_are_reported():
    config = fit(AgentConfig(sigma=0.5, squash="tanh", relation="cooperative"), 60_000)
    for task, count in (({"discrete": True}, 3), ({}, 1), ({"agents_per_env": 2}, 0)):
        told = warnings_of(config, 60_000, **task)
        assert len([w for w in told if "which the task does not have" in w]) == count
    acer = AgentConfig(algorithm="acer", dueling_samples=3, advantage_hidden=(4,))
    for discrete in (True, False):
        told = " ".join(warnings_of(fit(acer, 60_000), 60_000, discrete=discrete))
        assert ("dueling_samples = 3 is a setting for continuous actions" in told) == discrete
        assert ("advantage_hidden = (4,) is a setting for continuous actions" in told) == discrete


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "ddpg", "replay": "none", "sampler": "rank"},
        {"algorithm": "td3", "sampler": "proportional"},
        {"algorithm": "td3", "replay": "refer"},
        {"algorithm": "sac", "replay": "refer"},
        {"algorithm": "sac", "sampler": "rank"},
        {"algorithm": "sac", "sampler": "ners", "score_learning_rate": 1e-3},
        {"beta_rate": None, "score_context": True, "score_steps": 128},  # of earlier versions
        {"algorithm": "td3", "sampler": "ero", "performance_window": 10},
        {"algorithm": "naf", "replay": "refer-1", "sampler": "rank"},
        {"replay": "none", "sampler": "proportional"},
        {"algorithm": "sac", "episode_share": 0.5},
    ],
)
def test_compatible_settings_are_accepted(settings):
    AgentConfig(**settings)


def test_discount_horizon_grows_geometrically():
    config = AgentConfig(gamma=0.99, gamma_first=0.9, gamma_steps=1000)
    horizons = [1.0 / (1.0 - config.discount(step)) for step in (0, 250, 500, 750, 1000)]
    assert np.diff(np.log(horizons)) == pytest.approx(np.log(10.0) / 4)
    assert config.discount(0) == pytest.approx(0.9)
    assert config.discount(1000) == config.discount(10**6) == 0.99
    assert AgentConfig(gamma=0.99).discount(0) == 0.99


def test_docstring_gives_the_units_after_convolutions():
    told = " ".join(
        AgentConfig.__doc__.partition("    hidden\n")[2].partition("    activation\n")[0].split()
    )
    (usual,) = AgentConfig.conv_hidden
    assert f"or {usual} (conv" in told
    for kind in algorithms().values():
        (size,) = kind.conv_hidden
        assert size == usual or f"{size} for {kind.title}" in told
