"""Rewards and termination of each agent in multi-agent environments, from the infos of vector environments.

Gymnasium has one reward per environment. The rewards of the agents, and which of them have ended, are in the infos, of
shape (N,) for one environment and (E, N) for a batch. For an environment that was reset within the step they are in
``final_info``, like everything that belongs to its last action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AGENT_ENDED", "AGENT_REWARDS", "agent_outcomes"]

AGENT_REWARDS = "agent_rewards"
"""Info key of the agents' rewards; 0 for an agent that had ended before."""

AGENT_ENDED = "agent_ended"
"""Info key of the flags of agents that have reached a terminal state by now."""


def agent_outcomes(
    infos: dict[str, Any], over: npt.NDArray[np.bool_], agents_per_env: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the rewards of all agents, and which of them have ended, for the last action.

    Parameters
    ----------
    infos
        Infos from ``step`` of a vector environment that resets within the step.
    over
        Which environments were reset, shape (E,).
    agents_per_env
        Number of agents per environment (N).

    Returns
    -------
    rewards, ended
        Shape (E, N); zeros for an environment whose infos lack them because it failed.
    """
    rewards = np.zeros((len(over), agents_per_env))
    ended = np.zeros((len(over), agents_per_env), np.bool_)
    for told, whose in ((infos, ~over), (infos.get("final_info", {}), over)):
        for name, into in ((AGENT_REWARDS, rewards), (AGENT_ENDED, ended)):
            if name in told:
                into[whose] = np.asarray(told[name])[whose]
    return rewards, ended
