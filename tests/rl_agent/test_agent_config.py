import math

import pytest
from pydantic import ValidationError

from rl_agent import AgentConfig


def test_defaults_are_the_values_of_the_paper():
    config = AgentConfig()
    assert (config.gamma, config.learning_rate, config.batch) == (0.995, 1e-4, 256)
    assert (config.memory, config.start, config.steps_per_update) == (2**18, 2**17, 1.0)
    assert (config.c, config.a, config.d) == (4.0, 5e-7, 0.1)
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
        ("batch", 0),
        ("memory", 1),
        ("start", 0),
        ("steps_per_update", 0.0),
        ("hidden", ()),
        ("hidden", (32, 0)),
        ("sigma", 0.0),
        ("d", 1.5),
        ("beta", 2.0),
        ("c", 0.0),
        ("a", -1.0),
        ("replay", "per"),
        ("network", "transformer"),
        ("gama", 0.9),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_its_key(key, value):
    with pytest.raises(ValidationError) as refusal:
        AgentConfig.model_validate({key: value})
    assert key in str(refusal.value)


def test_learning_must_be_able_to_start():
    with pytest.raises(ValidationError, match="start = 200 must not be above memory = 100"):
        AgentConfig(memory=100, start=200)
