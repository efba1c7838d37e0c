"""Selective frequency damping of the flows of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_positive
from flowsim.grid import GHOSTS as G
from flowsim.kernels.damping import DAMPING, DAMPING_COLUMNS, FILTER_WIDTH

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

FloatArray = NDArray[np.float64]


class SelectiveFrequencyDamping:
    """Damps flows towards their low-pass filtered state in every step, from its creation on (Åkervik et al. 2006).

    The velocity, and the temperature if there is one, are damped by ``damping`` (u - w), where w is u filtered with the
    time constant ``filter_width``: faster oscillations decay, and a steady flow does not change. It runs in compiled
    code on the device of the simulation. Used as a context manager, it stops at the end.

    Parameters
    ----------
    flow : Simulation
    damping : float
        Coefficient chi, in units of U/D: larger than the growth rate of the instability.
    filter_width : float
        Time constant Delta, in units of D/U: longer than the period of the instability over 2 pi.

    Raises
    ------
    ValueError
        For numbers that are not positive.
    """

    def __init__(self, flow: Simulation, damping: float, filter_width: float) -> None:
        for name, value in (("damping", damping), ("filter_width", filter_width)):
            if not is_positive(value):
                raise ValueError(f"{name} = {value!r}: it must be positive")
        self._flow, self.filter_width = flow, filter_width
        columns = np.zeros((flow.batch, DAMPING_COLUMNS))
        columns[:, DAMPING], columns[:, FILTER_WIDTH] = damping, filter_width
        self._columns = flow._device.array(columns)
        self._values = [flow.u, flow.v]
        if flow.heat is not None:
            self._values.append(flow.temperature)
        self._filtered = [flow._device.zeros(field.shape, flow.dtype) for field in self._values]
        for filtered, field in zip(self._filtered, self._values, strict=True):
            filtered[...] = field
        flow._device.prepare(lambda: self.damp(flow._device_state.running))
        flow.damping = self

    def damp(self, active: Any) -> None:
        """Call the sweeps that damp the fields before a step."""
        s = self._flow._device_state
        for field, filtered in zip(self._values, self._filtered, strict=True):
            s.sweeps.damp(active, s.clock, field, filtered, self._columns)

    def change(self) -> FloatArray:
        """Return the root mean square rate of change of the filtered velocity, in units of U^2/D; shape (B,)."""
        cells = self._flow.grid.nx * self._flow.grid.ny
        squares = np.zeros(self._flow.batch)
        for field, filtered in zip(self._values[:2], self._filtered[:2], strict=True):
            away = (field - filtered)[:, G:-G, G:-G]
            squares += self._flow.to_host((away.astype(np.float64) ** 2).sum(axis=(1, 2)))
        return np.sqrt(squares / cells) / self.filter_width

    def stop(self) -> None:
        """Stop the damping."""
        if self._flow.damping is self:
            self._flow.damping = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
