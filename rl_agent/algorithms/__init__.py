"""The learning rules: a folder for each algorithm, with its loss as the paper writes it and its analytic gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rl_agent.algorithms import segments
from rl_agent.algorithms.a3c import loss as a3c
from rl_agent.algorithms.acer import loss as acer
from rl_agent.algorithms.algorithm import Algorithm, Evaluation, Source
from rl_agent.algorithms.ddpg import loss as ddpg
from rl_agent.algorithms.dqn import loss as dqn
from rl_agent.algorithms.naf import loss as naf
from rl_agent.algorithms.ppo import loss as ppo
from rl_agent.algorithms.sac import loss as sac
from rl_agent.algorithms.td3 import loss as td3
from rl_agent.algorithms.tis import loss as tis
from rl_agent.algorithms.vracer import loss as vracer
from rl_agent.algorithms.vracer.loss import VRacer
from rl_agent.config import AgentConfig
from rl_agent.networks.actor import Actor
from rl_agent.normalization.spaces import Sizes

__all__ = ["Algorithm", "Evaluation", "Source", "VRacer", "make_actor", "make_algorithm"]

ALGORITHMS: dict[str, tuple[Callable[[Any, Sizes], Actor], type[Any]]] = {
    "vracer": (vracer.make_actor, vracer.VRacer),
    "ddpg": (ddpg.make_actor, ddpg.DDPG),
    "naf": (naf.make_actor, naf.NAF),
    "acer": (segments.make_actor, acer.ACER),
    "tis": (segments.make_actor, tis.TIS),
    "trust-tis": (segments.make_actor, tis.TIS),
    "td3": (td3.make_actor, td3.TD3),
    "sac": (sac.make_actor, sac.SAC),
    "a3c": (segments.make_actor, a3c.A3C),
    "trust-a3c": (segments.make_actor, a3c.A3C),
    "ppo": (ppo.make_actor, ppo.PPO),
    "dqn": (dqn.make_actor, dqn.DQN),
    "rainbow": (dqn.make_actor, dqn.DQN),
}
"""By name, what acts and what learns."""


def make_actor(config: AgentConfig, sizes: Sizes) -> Actor:
    """Build the policy of the algorithm that ``config.algorithm`` names.

    Raises
    ------
    ValueError
        If the algorithm, or one of its settings, does not serve the actions of the task.
    """
    if not sizes.choices and not config.serves_boxes:
        raise ValueError(
            f"algorithm = {config.algorithm} needs discrete actions, but the task has {sizes.action} continuous ones; "
            "use sac, td3 or vracer"
        )
    if sizes.choices and not config.serves_choices:
        raise ValueError(
            f"algorithm = {config.algorithm} needs continuous actions (a Box), but the task has {sizes.choices} "
            "discrete ones; use dqn, rainbow, vracer, acer, tis, a3c or ppo"
        )
    for problem in config.incompatibilities_with_actions(sizes.choices):
        raise ValueError(problem)
    return ALGORITHMS[config.algorithm][0](config, sizes)


def make_algorithm(config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> Algorithm:
    """Build the algorithm that ``config.algorithm`` names, with fresh weights; errors of ``make_actor``."""
    make_actor(config, sizes)
    algorithm: Algorithm = ALGORITHMS[config.algorithm][1](config, sizes, rng)
    return algorithm
