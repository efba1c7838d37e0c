"""The learning rules, one file per algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_agent.actor import Actor
from rl_agent.algorithms import vracer
from rl_agent.algorithms.algorithm import Algorithm, Evaluation, Source
from rl_agent.algorithms.vracer import VRacer
from rl_agent.config import CONTINUOUS_ONLY, AgentConfig
from rl_agent.scaling import Sizes

__all__ = ["Algorithm", "Evaluation", "Source", "VRacer", "make_actor", "make_algorithm"]

MODULES: dict[str, Any] = {"vracer": vracer}
CLASSES: dict[str, type[Any]] = {"vracer": VRacer}


def make_actor(config: AgentConfig, sizes: Sizes) -> Actor:
    """Build the policy of the algorithm that ``config.algorithm`` names.

    Raises
    ------
    ValueError
        If the algorithm does not serve discrete actions and the task has them.
    """
    if sizes.choices and config.algorithm in CONTINUOUS_ONLY:
        raise ValueError(
            f"algorithm = {config.algorithm} needs continuous actions (a Box), but the task has {sizes.choices} "
            "discrete ones; use vracer, acer or ppo"
        )
    actor: Actor = MODULES[config.algorithm].make_actor(config, sizes)
    return actor


def make_algorithm(config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> Algorithm:
    """Build the algorithm that ``config.algorithm`` names, with fresh weights; errors of ``make_actor``."""
    make_actor(config, sizes)
    algorithm: Algorithm = CLASSES[config.algorithm](config, sizes, rng)
    return algorithm
