"""Old names of settings give the same agent and a warning with both names, and are never written."""

import json
import re

import numpy as np
import pytest
from gymnasium.spaces import Box
from pydantic import ValidationError

from rl_agent import AgentConfig, Learner, Policy
from rl_agent.config import algorithms, default_settings
from rl_agent.config.old_names import OLD_NAMES, OldNameWarning, current_settings, warn_once
from rl_agent.saving.checkpoint import read_checkpoint, write_checkpoint

GIVEN = {
    "memory": 5000, "start": 70, "batch": 7, "picture": (1, 40, 40), "piece": 60, "a": 1e-3, "c": 3.0, "d": 0.2,
    "steps_per_update": 2.0, "decay": 0.9, "deviation": "state", "judged_episodes": 3, "truncation": 2.0,
    "target_rate": 0.02, "target_every": 40, "steps_ahead": 4,
}  # fmt: skip
"""A value of each old name that is no default."""
BESIDE = {
    "picture": {"network": "conv"},
    "judged_episodes": {"sampler": "ero", "replay": "none"},
    "memory": {"start": 70},
}
"""What a setting needs beside it."""


@pytest.fixture(autouse=True)
def _nothing_told_yet():
    warn_once.cache_clear()


def old_settings(settings):
    """Return settings by their old names, as earlier versions wrote them."""
    old = {new: name for name, new in OLD_NAMES.items()}
    written = {old.get(key, key): value for key, value in settings.items()}
    return written | {"deviation": "state" if settings["state_dependent_std"] else "shared"}


def test_every_old_name_maps_to_a_current_setting():
    assert set(OLD_NAMES.values()) <= default_settings().keys()
    assert not OLD_NAMES.keys() & default_settings().keys()
    assert GIVEN.keys() == OLD_NAMES.keys()


@pytest.mark.parametrize("old", OLD_NAMES)
def test_an_old_name_gives_the_same_settings_and_a_warning_with_both(old):
    new = OLD_NAMES[old]
    kinds = reversed(list(algorithms().items()))
    name = next(name for name, kind in kinds if new in kind.model_fields)
    with pytest.warns(OldNameWarning, match=rf"\b{old} is now {new}\b") as told:
        config = AgentConfig(algorithm=name, **BESIDE.get(old, {}) | {old: GIVEN[old]})
    assert len(told) == 1
    expected = True if old == "deviation" else GIVEN[old]
    assert getattr(config, new) == expected != default_settings()[new]
    assert new in config.model_fields_set
    assert not OLD_NAMES.keys() & config.model_dump().keys()


def test_shared_deviation_maps_to_state_independent_std():
    with pytest.warns(OldNameWarning):
        assert AgentConfig(deviation="shared").state_dependent_std is False
    warn_once.cache_clear()
    with (
        pytest.warns(OldNameWarning),
        pytest.raises(ValidationError, match=r"state_dependent_std\n.*valid boolean"),
    ):
        AgentConfig(deviation="elsewhere")


def test_old_settings_of_other_algorithms_are_still_refused():
    with (
        pytest.warns(OldNameWarning),
        pytest.raises(ValidationError, match=r"n_step = 3 is a setting of .*rainbow"),
    ):
        AgentConfig(algorithm="vracer", steps_ahead=3)


def test_old_and_new_name_together_are_refused():
    sentence = "start and learning_starts are the old and the new name of one setting"
    with pytest.raises(ValueError, match=sentence):
        current_settings({"start": 5, "learning_starts": 5})
    with pytest.raises(ValidationError, match=sentence):
        AgentConfig(start=5, learning_starts=5)


@pytest.mark.parametrize("algorithm", ["vracer", "acer", "sac"])
def test_checkpoints_with_old_names_load_the_same_policy_and_learner(algorithm, tmp_path):
    spaces = Box(-1.0, 1.0, (3,), np.float32), Box(-1.0, 1.0, (2,), np.float32)
    config = AgentConfig(algorithm=algorithm, hidden=(5,), learning_starts=60, buffer_size=500)
    learner = Learner(config, *spaces, agents=2, seed=1)
    learner.save(tmp_path / "new")
    arrays, meta = read_checkpoint(tmp_path / "new")
    meta["config"] = old_settings(meta["config"])
    assert OLD_NAMES.keys() <= meta["config"].keys()
    write_checkpoint(tmp_path / "old", arrays, meta)
    observations = np.random.default_rng(0).uniform(-1.0, 1.0, (4, 3))
    with pytest.warns(OldNameWarning):
        policy = Policy.load(tmp_path / "old")
    expected = Policy.load(tmp_path / "new")
    np.testing.assert_array_equal(policy.act(observations)[0], expected.act(observations)[0])
    warn_once.cache_clear()
    with pytest.warns(OldNameWarning):
        again = Learner.load(tmp_path / "old")
    assert again.config == config
    for name, thing in (("policy", policy), ("learner", again)):
        thing.save(tmp_path / name)
        written = read_checkpoint(tmp_path / name)[1]["config"]
        assert not OLD_NAMES.keys() & written.keys(), name
        assert not re.search(r'"deviation"|"steps_per_update"', json.dumps(written))
