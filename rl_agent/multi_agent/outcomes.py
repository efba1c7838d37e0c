"""What each agent of a batch of multi-agent environments got in a step, as vector environments tell it.

Gymnasium has one reward for each environment. Those of its agents, and which of them have ended, stand in the infos,
shape (N,) of one environment and (E, N) of a batch; of an environment that began again within the step they are in
``final_info``, as all that belongs to its last action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AGENT_ENDED", "AGENT_REWARDS", "agent_outcomes"]

AGENT_REWARDS = "agent_rewards"
"""Key of the rewards of the agents; 0 for one that had ended before."""

AGENT_ENDED = "agent_ended"
"""Key of the flags which agents have reached a terminal state by now."""


def agent_outcomes(
    infos: dict[str, Any], over: npt.NDArray[np.bool_], agents_per_env: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the rewards of all agents, and which of them have ended, of the same action.

    Parameters
    ----------
    infos
        What ``step`` of a vector environment that resets within the step gave.
    over
        Which environments began again, shape (E,).
    agents_per_env
        N.

    Returns
    -------
    rewards, ended
        Shape (E, N); zeros where an environment told none, since it failed.
    """
    rewards = np.zeros((len(over), agents_per_env))
    ended = np.zeros((len(over), agents_per_env), np.bool_)
    for told, whose in ((infos, ~over), (infos.get("final_info", {}), over)):
        for name, into in ((AGENT_REWARDS, rewards), (AGENT_ENDED, ended)):
            if name in told:
                into[whose] = np.asarray(told[name])[whose]
    return rewards, ended
