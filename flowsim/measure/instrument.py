"""What measures a simulation while it advances, without a change of any step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite, is_positive, is_whole
from flowsim.kernels.recording import (
    INTERVAL,
    NEXT,
    READY,
    REFERENCE,
    SCHEDULE_COLUMNS,
    SEEN,
    START,
    STRIDE,
    Reference,
)
from flowsim.measure.surface import pressure_reference

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

Array = Any
FloatArray = NDArray[np.float64]


class Instrument:
    """Measures every flow of a batch at times or steps of its own, from the moment on that it is made.

    A flow is measured after the first step that ends at or after the time that is due: no step is shortened for it, and
    a simulation goes the same way bit for bit whether it is measured or not. As a context it stops at its end.

    Parameters
    ----------
    flow : Simulation
    every : float, optional
        Time between two measurements, in units of D/U.
    steps : int, optional
        Or steps between two; 1 unless either is given.
    start : float, optional
        Time from which on; now unless given.
    pauses : bool
        Whether a flow that is to be measured waits until the host has done it.

    Raises
    ------
    ValueError
        For numbers out of range, or both an interval and a number of steps.
    """

    def __init__(
        self,
        flow: Simulation,
        *,
        every: float | None = None,
        steps: int | None = None,
        start: float | None = None,
        pauses: bool = False,
    ) -> None:
        if every is not None and steps is not None:
            raise ValueError(f"every = {every!r}, steps = {steps!r}: give one of the two")
        if every is not None and not is_positive(every):
            raise ValueError(f"every = {every!r}: the time between two measurements is positive")
        if steps is not None and not (is_whole(steps) and steps >= 1):
            raise ValueError(f"steps = {steps!r}: there is at least one step between two")
        if start is not None and not is_finite(start):
            raise ValueError(f"start = {start!r}: the time to start at is finite")
        self._flow, self._pauses, self.every = flow, pauses, every
        schedule = np.zeros((flow.batch, SCHEDULE_COLUMNS))
        self.start: FloatArray = flow.time.copy() if start is None else np.maximum(start, flow.time)
        schedule[:, START] = self.start
        schedule[:, INTERVAL], schedule[:, STRIDE] = every or 0.0, steps or 1
        schedule[:, NEXT] = schedule[:, START] + every if every is not None else -np.inf
        schedule[:, SEEN] = flow.steps
        self._schedule = flow._device.array(schedule)
        cells, head, level = pressure_reference(flow)
        self._reference = Reference(flow._device.array(cells), head, level)
        flow._device.prepare(lambda: self.look(flow._device_state.running))
        flow.instruments.append(self)

    def look(self, active: Array) -> None:
        """Call the sweeps that see what is due at the end of a step."""
        s = self._flow._device_state
        s.sweeps.look(active, s.clock, s.fields, self._schedule, self._reference, self._pauses)

    def collect(self) -> None:
        """Take what was measured over to the host; the simulation does so before anything gets lost."""

    def _take_ready(self) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """Return which flows wait, the time since the last measurement of each, and its reference pressure."""
        schedule = self._flow.to_host(self._schedule)
        ready = np.flatnonzero(schedule[:, READY] > 0)
        found = ready, schedule[ready, READY].copy(), schedule[ready, REFERENCE].copy()
        if len(ready):
            self._schedule[:, READY] = 0.0
        return found

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of all that its future depends on, and of what it has measured."""
        self.collect()
        return {"schedule": self._flow.to_host(self._schedule).copy()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on with what :meth:`get_state` returned, of an instrument that measures the same (:meth:`fits`)."""
        self._schedule[:] = self._flow._device.array(state["schedule"])

    def fits(self, state: dict[str, NDArray[Any]]) -> bool:
        """Return whether a state is of an instrument that measures the same, as often."""
        own = self.get_state()
        if own.keys() != state.keys() or own["schedule"].shape != state["schedule"].shape:
            return False
        often = [INTERVAL, STRIDE]
        return bool((own["schedule"][:, often] == state["schedule"][:, often]).all())

    def stop(self) -> None:
        """Measure no longer; what was measured stays."""
        self.collect()
        if self in self._flow.instruments:
            self._flow.instruments.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
