"""The task whose environments run outside Python: a C, C++ or Fortran solver with the client in ``coupling/c``.

``env: flowsim/External-v0`` defines only the spaces, in ``env_options``. Stepping such a task in Python, to evaluate
it, film it or host it in a worker of this package, raises an error that says so.
"""

from typing import Annotated, Any

import numpy as np
import pydantic
from gymnasium.spaces import Box
from pydantic import BaseModel, ConfigDict, Field

from cases.error_messages import sentence_of
from coupling.errors import ConfigError
from coupling.settings import EXTERNAL

__all__ = ["EXTERNAL", "external_task"]

_Bounds = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]


class _Options(BaseModel):
    """The spaces of one environment, as given in ``env_options``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    observation_size: int = Field(ge=1, strict=True)
    action_low: _Bounds
    action_high: _Bounds
    episode_steps: int | None = Field(default=None, ge=1, strict=True)


def external_task(env_options: dict[str, Any]) -> tuple[Box, Box, int | None]:
    """Return the observation and the action space of an external task, and its longest episode if given.

    Parameters
    ----------
    env_options
        ``observation_size``, the number of floats in an observation; ``action_low`` and ``action_high``, the bounds of
        each component of an action; and optionally ``episode_steps``, the longest episode.

    Raises
    ------
    ConfigError
        If a key is missing or unknown, or its value is out of range.
    """
    try:
        options = _Options.model_validate(env_options)
    except pydantic.ValidationError as error:
        raise ConfigError(
            f"env_options of env = {EXTERNAL!r}: {sentence_of(error, _Options)}"
        ) from error
    low, high = (
        np.array(bounds, np.float32) for bounds in (options.action_low, options.action_high)
    )
    if len(low) != len(high) or not (low < high).all():
        raise ConfigError(
            f"env_options.action_low = {options.action_low} must be below action_high = {options.action_high}, "
            "number by number"
        )
    observation = Box(-np.inf, np.inf, (options.observation_size,), np.float32)
    return observation, Box(low, high, dtype=np.float32), options.episode_steps
