"""A look at the first flow of a run while it is simulated, for `flowsim watch`; costs nothing while nobody looks.

Who looks keeps the file ``watch`` in the run's folder fresh. The worker of slot 0 then writes, some times a second,
the vorticity of its first flow and what goes with it beside it; drawing is left to the one who looks. It looks between
two actions only: to look within them would have the batch advance step by step, without groups that fit the caches.
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
"""Seconds for which a request counts."""


class Window:
    """Writes the first flow of a batch beside a fresh request, at most some times a second.

    Parameters
    ----------
    folder
        Where requests are looked for, and the flow is written.
    every
        Seconds from one picture to the next, and from one look for a request to the next.
    clock, wall_clock
        Seconds of the process, and those of the times of files.
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
        """Write the flow after a step, if it is time for it and somebody looks."""
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
        except OSError:  # a full disk, say: the run has more important things to write
            pass
        except Exception as error:  # the scene of somebody's own task
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
    """Return the episodes of a batch of flows; other tasks have nothing to show."""
    # importing it takes seconds, which other tasks shall not wait for
    flows = sys.modules.get("cases.flow_env")
    batch: Any = vector.unwrapped
    return batch.episodes if flows and isinstance(batch, flows.FlowVectorEnv) else None
