"""Old names of agent settings, and removed settings: read with a warning, and never written.

They occur in runs, checkpoints, shipped agents, stored results and users' YAML files of earlier versions.
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
"""Current name of each old name."""

REMOVED: Final[Mapping[str, Any]] = {
    "beta_rate": None,
    "score_context": True,
    "score_features": ["state", "action", "reward", "next_state", "time", "td_error", "target"],
    "score_steps": 128,
}
"""Settings removed because they brought no gain, and the only value still accepted."""

_OLD_VALUES: Final[Mapping[str, Mapping[Any, Any]]] = {
    "deviation": {"state": True, "shared": False}
}
"""Current values of old values that changed together with the name."""


class OldNameWarning(FutureWarning):
    """Warning about settings given by names of earlier versions."""


def current_name(key: str) -> str:
    """Return the current name of a setting."""
    return OLD_NAMES.get(key, key)


def current_value(key: str, value: Any) -> Any:
    """Convert the value of a setting with the old or current name ``key`` to that under the current name."""
    values = _OLD_VALUES.get(key, {})
    return values.get(value, value) if isinstance(value, str) else value


@functools.cache
def warn_once(sentence: str) -> None:
    """Warn about old names once; Python's own record of issued warnings is reset by any change of the filters."""
    warnings.warn(sentence, OldNameWarning, stacklevel=1)


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return agent settings under their current names, in their order, without removed settings.

    Raises
    ------
    ValueError
        If a setting is given by both of its names, or a removed setting has any but the accepted value.

    Warns
    -----
    OldNameWarning
        Once, with all old names.
    """
    for key in REMOVED.keys() & settings.keys():
        value = settings[key]
        if (list(value) if isinstance(value, tuple) else value) != REMOVED[key]:
            raise ValueError(
                f"{key} = {value} is no longer supported: it brought no gain (docs/decisions/learner.md); leave it out"
            )
    settings = {key: value for key, value in settings.items() if key not in REMOVED}
    old = [key for key in OLD_NAMES if key in settings]
    if not old:
        return settings
    for key in old:
        if OLD_NAMES[key] in settings:
            raise ValueError(
                f"{key} and {OLD_NAMES[key]} are the old and the new name of one setting: leave out {key}"
            )
    names = ", ".join(f"{key} is now {OLD_NAMES[key]}" for key in old)
    warn_once(f"old names of agent settings: {names}")
    return {current_name(key): current_value(key, value) for key, value in settings.items()}
