"""Cooperation of the agents of an environment: shared rewards, values and importance weights.

Weber et al. 2022, "Remember and Forget Experience Replay for Multi-Agent Reinforcement Learning", section 2, with a
policy and V(s) for each of the N agents:

    f(r) = r^(i) or the mean over the N agents, V_f(s) likewise                    ``relation`` (eqs. 8, 9)
    rho  = that of an agent's own action, or the product over its environment      ``dynamics`` (eqs. 13, 12)

The targets are V_tbc of f(r) and V_f (eqs. 6, 7), one for each agent, and the loss is the mean over the agents of the
sampled environments (eqs. 10, 11). The value loss is eq. 10 of that paper, with the error of V(s^(i)); algorithm 2 of
the paper has V_f(s) instead, which would constrain only the mean of the agents' values. An agent that ended before its
environment adds nothing to the loss, and counts as 0 in f(r) and V_f.

In arrays over the agents of several environments, the N agents of an environment are adjacent. The torch versions of
``sum_of_each`` and ``mean_of_each``, for the losses, are in ``rl_agent/networks/distributions/densities.py``.
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
    """Replace each agent's number by the sum over its environment, shape (n N,)."""
    return np.repeat(numbers.reshape(-1, agents_per_env).sum(axis=1), agents_per_env)


def mean_of_each(numbers: F32, agents_per_env: int) -> F32:
    """Replace each agent's number by the mean over its environment (eq. 9), shape (n N,)."""
    return np.repeat(numbers.reshape(-1, agents_per_env).mean(axis=1), agents_per_env)


def cooperate(episodes: Sequence[Episode]) -> list[Episode]:
    """Replace the rewards and values of all agents of an environment by their means (eq. 9).

    An agent that has ended still counts, with a reward and a value of 0.
    """
    reward, value = (
        np.mean([getattr(of, name) for of in episodes], axis=0) for name in ("reward", "value")
    )
    final_value = float(np.mean([episode.final_value for episode in episodes]))
    return [
        replace(episode, reward=reward, value=value, final_value=final_value)
        for episode in episodes
    ]
