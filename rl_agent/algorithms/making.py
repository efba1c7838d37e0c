"""Construction of the actor and the algorithm from the settings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_agent.algorithms.algorithm import Algorithm
from rl_agent.config import AgentConfig, algorithms
from rl_agent.config.registry import implementation
from rl_agent.networks.actor import Actor
from rl_agent.normalization.spaces import Sizes

__all__ = ["make_actor", "make_algorithm"]


def make_actor(config: AgentConfig, sizes: Sizes) -> Actor:
    """Build the policy of the algorithm ``config.algorithm``.

    Raises
    ------
    ValueError
        If the algorithm, or one of its settings, does not support the actions of the task.
    """
    for problem in _problems(config, sizes):
        raise ValueError(problem)
    module, _ = implementation(config)
    actor: Actor = module.make_actor(config, sizes)
    return actor


def make_algorithm(config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> Algorithm:
    """Build the algorithm ``config.algorithm`` with new weights; raises as ``make_actor``."""
    for problem in _problems(config, sizes):
        raise ValueError(problem)
    algorithm: Algorithm = implementation(config)[1](config, sizes, rng)
    return algorithm


def _problems(config: AgentConfig, sizes: Sizes) -> Iterator[str]:
    """Yield the reasons why the algorithm does not support a task."""
    kinds = algorithms().items()
    if not sizes.choices and not config.serves_boxes:
        yield (
            f"algorithm = {config.algorithm} needs discrete actions, but the task has {sizes.action} continuous ones; "
            f"use {_either([name for name, kind in kinds if kind.serves_boxes])}"
        )
    if sizes.choices and not config.serves_choices:
        yield (
            f"algorithm = {config.algorithm} needs continuous actions (a Box), but the task has {sizes.choices} "
            f"discrete ones; use {_either([name for name, kind in kinds if kind.serves_choices])}"
        )
    yield from config.incompatibilities_with_actions(sizes.choices)


def _either(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"
