"""Agents that act together, and what they have in common.

Weber et al. 2022, "Remember and Forget Experience Replay for Multi-Agent Reinforcement Learning", section 2, with a
policy and V(s) for each of the N agents:

    f(r) = r^(i) or the mean over the N agents, V_f(s) likewise                    ``relation`` (eqs. 8, 9)
    rho  = that of an agent's own action, or the product over its environment      ``dynamics`` (eqs. 13, 12)

The targets are V_tbc of f(r) and V_f (eqs. 6, 7), one for each agent, and the loss is the mean over the agents of the
sampled environments (eqs. 10, 11). The value's loss is eq. 10 of that paper, whose error is that of V(s^(i)); its
algorithm 2 has V_f(s) there, which would hold only the mean of the agents' values. An agent that
ended before its environment adds nothing to the loss, and counts in f(r) and V_f with 0.

Wherever the agents of environments stand in one array, the N of an environment are next to each other. The losses have
``sum_of_each`` and ``mean_of_each`` as torch operations (``rl_agent/networks/distributions/densities.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import Episode

__all__ = ["cooperate", "mean_of_each", "sum_of_each"]

F32 = npt.NDArray[np.float32]


def sum_of_each(numbers: F32, agents_per_env: int) -> F32:
    """Give every agent the sum over its environment, shape (n N,) to the same."""
    return np.repeat(numbers.reshape(-1, agents_per_env).sum(axis=1), agents_per_env)


def mean_of_each(numbers: F32, agents_per_env: int) -> F32:
    """Give every agent the mean over its environment (eq. 9), shape (n N,) to the same."""
    return np.repeat(numbers.reshape(-1, agents_per_env).mean(axis=1), agents_per_env)


def cooperate(episodes: Sequence[Episode]) -> list[Episode]:
    """Give all agents of an environment the mean of their rewards and values (eq. 9).

    An agent that has ended goes on to count, with a reward and a value of 0.
    """
    reward, value = (
        np.mean([getattr(of, name) for of in episodes], axis=0) for name in ("reward", "value")
    )
    final_value = float(np.mean([episode.final_value for episode in episodes]))
    return [
        replace(episode, reward=reward, value=value, final_value=final_value)
        for episode in episodes
    ]
