"""How the simulations of a video ended, and for how long their last frame is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["HOLD_SECONDS", "Ending"]

HOLD_SECONDS = 1.5
"""Time for which the last frame is shown."""


@dataclass(frozen=True)
class Ending:
    """How one simulation of a video ended.

    Attributes
    ----------
    title : str
        Title of its panel.
    episode_return : float
        Undiscounted sum of the rewards.
    actions : int
        Number of actions.
    failed : bool
        Whether the agent left the box, or the simulation diverged.
    how : str
        How it ended: `survived`, `left the box` or `diverged`.
    measures : mapping
        Measures of the task (``FlowTask.measures``) by name, averaged over the second half of the actions so far.
    """

    title: str
    episode_return: float
    actions: int
    failed: bool
    how: str = "survived"
    measures: Mapping[str, float] = field(default_factory=dict)
