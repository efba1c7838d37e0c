"""Instruments that measure a simulation while it advances, without changing its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite, is_positive, is_whole
from flowsim.kernels.recording import (
    GIVEN,
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


def check_flow(flow: object) -> None:
    """Refuse anything but a simulation.

    Raises
    ------
    ValueError
    """
    from flowsim.simulation import Simulation  # imports the instruments

    if not isinstance(flow, Simulation):
        raise ValueError(f"flow = {flow!r}: it must be a Simulation")


class Instrument:
    """Base class of instruments, which measure every flow of a batch at given times or steps from their creation on.

    A flow is measured after the first step that ends at or after the due time. No step is shortened for it, and results
    are bit for bit the same with and without instruments. Used as a context manager, an instrument stops at the end.

    Parameters
    ----------
    flow : Simulation
    every : float, optional
        Time between two measurements, in units of D/U.
    steps : int, optional
        Alternatively, number of steps between two measurements; 1 unless either is given.
    start : float, optional
        Time at which to start, also after a reset of the flow; now, and at once after a reset, unless given.
    pauses : bool
        Whether a flow that is due pauses until the host has measured it.

    Raises
    ------
    ValueError
        For anything but a simulation, numbers out of range, or both an interval and a number of steps.
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
        schedule[:, SEEN], schedule[:, GIVEN] = flow.steps, start is not None
        self._schedule = flow._device.array(schedule)
        cells, head, level = pressure_reference(flow)
        self._reference = Reference(flow._device.array(cells), head, level)
        flow._device.prepare(lambda: self.look(flow._device_state.running))
        flow.instruments.append(self)

    def look(self, active: Array) -> None:
        """Call the sweeps that find the flows that are due at the end of a step."""
        s = self._flow._device_state
        s.sweeps.look(active, s.clock, s.fields, self._schedule, self._reference, self._pauses)

    def collect(self) -> None:
        """Copy the measurements to the host; the simulation calls this before any are overwritten."""

    def _take_ready(self) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """Return the flows that are due, the time since their last measurement, and their reference pressure."""
        schedule = self._flow.to_host(self._schedule)
        ready = np.flatnonzero(schedule[:, READY] > 0)
        found = ready, schedule[ready, READY].copy(), schedule[ready, REFERENCE].copy()
        if len(ready):
            self._schedule[:, READY] = 0.0
        return found

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of the complete state, including the measurements."""
        self.collect()
        return {"schedule": self._flow.to_host(self._schedule[:, :GIVEN]).copy()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from a state of :meth:`get_state`, of a compatible instrument (:meth:`fits`)."""
        self._schedule[:, :GIVEN] = self._flow._device.array(state["schedule"])

    def fits(self, state: dict[str, NDArray[Any]]) -> bool:
        """Return whether a state is of an instrument with the same measurements and schedule.

        An instrument without a given start also continues one that has started at any time.
        """
        own = self.get_state()
        if own.keys() != state.keys() or own["schedule"].shape != state["schedule"].shape:
            return False
        ours, theirs, often = own["schedule"], state["schedule"], [INTERVAL, STRIDE]
        given = self._flow.to_host(self._schedule)[:, GIVEN] > 0
        starts = np.where(
            given, theirs[:, START] == ours[:, START], theirs[:, START] <= self._flow.time
        )
        return bool((ours[:, often] == theirs[:, often]).all() and starts.all())

    def stop(self) -> None:
        """Stop measuring; the measurements are kept."""
        self.collect()
        if self in self._flow.instruments:
            self._flow.instruments.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
