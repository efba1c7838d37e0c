"""Names that settings of an agent had before, and settings that are gone: read, with a warning, and never written.

Runs, checkpoints, shipped agents, kept results and users' YAML files of earlier versions have them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OLD_NAMES", "OldNameWarning", "current_name", "current_settings", "current_value"]

OLD_NAMES: Final = {
    "memory": "buffer_size",
    "start": "learning_starts",
    "batch": "batch_size",
    "picture": "image_shape",
    "piece": "fragment_length",
    "a": "annealing",
    "c": "c_max_scale",
    "d": "far_policy_target",
    "steps_per_update": "env_steps_per_gradient_step",
    "decay": "retrace_lambda",
    "deviation": "state_dependent_std",
    "judged_episodes": "performance_window",
    "truncation": "importance_clip",
    "target_rate": "tau",
    "target_every": "target_update_interval",
    "steps_ahead": "n_step",
}
"""The present name of each old one."""

REMOVED: Final[Mapping[str, Any]] = {
    "beta_rate": None,
    "score_context": True,
    "score_features": ["state", "action", "reward", "next_state", "time", "td_error", "target"],
    "score_steps": 128,
}
"""Settings that brought no gain, and the value that they always have now."""

_OLD_VALUES: Final[Mapping[str, Mapping[Any, Any]]] = {
    "deviation": {"state": True, "shared": False}
}
"""The present values of old ones, where these have changed with the name."""


class OldNameWarning(FutureWarning):
    """Settings were given by names of earlier versions."""


def current_name(key: str) -> str:
    """Return the present name of a setting."""
    return OLD_NAMES.get(key, key)


def current_value(key: str, value: Any) -> Any:
    """Return what ``value`` under the name ``key``, an old or a present one, is under the present name."""
    values = _OLD_VALUES.get(key, {})
    return values.get(value, value) if isinstance(value, str) else value


@functools.cache
def warn_once(sentence: str) -> None:
    """Warn of old names; Python's own memory of what it has told is lost whenever somebody changes a filter."""
    warnings.warn(sentence, OldNameWarning, stacklevel=1)


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an agent by their present names, in their order, without those that were removed.

    Raises
    ------
    ValueError
        When one is given by both of its names, or was removed and is not what it always is now.

    Warns
    -----
    OldNameWarning
        Once, with all names that are old.
    """
    for key in REMOVED.keys() & settings.keys():
        value = settings[key]
        if (list(value) if isinstance(value, tuple) else value) != REMOVED[key]:
            raise ValueError(
                f"{key} = {value} cannot be chosen any more: it brought no gain (docs/decisions/learner.md); leave "
                "it out"
            )
    settings = {key: value for key, value in settings.items() if key not in REMOVED}
    old = [key for key in OLD_NAMES if key in settings]
    if not old:
        return settings
    for key in old:
        if OLD_NAMES[key] in settings:
            raise ValueError(
                f"{key} and {OLD_NAMES[key]} are the old and the present name of one setting: leave out {key}"
            )
    names = ", ".join(f"{key} is now {OLD_NAMES[key]}" for key in old)
    warn_once(f"old names of agent settings: {names}")
    return {current_name(key): current_value(key, value) for key, value in settings.items()}
