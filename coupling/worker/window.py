"""Snapshots of the first flow of a run during the simulation, for `flowsim watch`; without a viewer they cost nothing.

A viewer keeps the modification time of the file ``watch`` in the run's folder recent. The worker of slot 0 then writes,
a few times per second, the vorticity of its first flow and its scene to a file next to it; the viewer draws it.
Snapshots are taken only between two actions: within an action, the batch would have to advance step by step, without
groups that fit the caches.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv

from coupling.errors import describe_failure
from coupling.files import write_atomically

if TYPE_CHECKING:
    from cases.flow_env import Episodes

__all__ = ["FLOW_FILE", "REQUEST_FILE", "Window"]

REQUEST_FILE = "watch"
FLOW_FILE = "flow.npz"
FRESH = 5.0
"""Seconds for which a request is valid."""


class Window:
    """Writes snapshots of the first flow of a batch while there is a valid request, at most a few times per second.

    Parameters
    ----------
    folder
        Folder of the requests and snapshots.
    every
        Seconds between snapshots, and between checks for a request.
    clock, wall_clock
        Functions that return a monotonic time, and the time of file modifications, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        every: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._request, self._file = folder / REQUEST_FILE, folder / FLOW_FILE
        self._every, self._clock, self._wall_clock = every, clock, wall_clock
        self._due = clock()

    def show(self, vector: "VectorEnv[Any, Any, Any]") -> None:
        """Write a snapshot after a step, if it is due and requested."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._every
        episodes = _episodes(vector)
        if episodes is None or not self._is_wanted():
            return
        from flowsim.render.snapshot import pack_glimpse

        try:
            write_atomically(self._file, pack_glimpse(episodes.task.scene(0), episodes.caption(0)))
        except OSError:  # a full disk, for example: the run has more important things to write
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the scene of a user's task may raise anything
            print(
                f"the flow cannot be shown: {describe_failure(error)}", file=sys.stderr, flush=True
            )
            self._due = float("inf")

    def _is_wanted(self) -> bool:
        try:
            return self._wall_clock() - self._request.stat().st_mtime < FRESH
        except OSError:
            return False


def _episodes(vector: "VectorEnv[Any, Any, Any]") -> "Episodes | None":
    """Return the episodes of a batch of flows; None for other tasks."""
    # importing it takes seconds, which other tasks do not need
    flows = sys.modules.get("cases.flow_env")
    batch: Any = vector.unwrapped
    return batch.episodes if flows and isinstance(batch, flows.FlowVectorEnv) else None
