"""Kinetic energy of the deviation of flows from a steady flow."""

from __future__ import annotations

import numpy as np

from cases.loads import FloatArray
from flowsim import Simulation
from flowsim.grid import GHOSTS


class DeviationEnergy:
    """Kinetic energy of the deviation of a batch of flows from the steady flow, over a part of the box.

    Parameters
    ----------
    simulation : Simulation
    x, y : (float, float)
        Limits of the region over which the energy is summed (the faces of cells within it).
    steady : int
        Index of the flow of the batch that is steady now.
    """

    def __init__(
        self,
        simulation: Simulation,
        x: tuple[float, float],
        y: tuple[float, float],
        steady: int = 0,
    ) -> None:
        self._simulation, h = simulation, simulation.grid.h
        part = [
            slice(GHOSTS + round(first / h), GHOSTS + round(last / h)) for first, last in (x, y)
        ]
        self._part = (slice(None), *part)
        self._steady = [values[steady].copy() for values in self._velocity()]

    def _velocity(self) -> list[FloatArray]:
        simulation = self._simulation
        fields = (simulation.u, simulation.v)
        return [np.asarray(simulation.to_host(field[self._part]), np.float64) for field in fields]

    def __call__(self) -> FloatArray:
        """Return the energy of each flow, shape (B,), in rho U^2 D^2."""
        batch, cell = self._simulation.batch, self._simulation.grid.h**2
        total = np.zeros(batch)
        for now, steady in zip(self._velocity(), self._steady, strict=True):
            for b in range(batch):  # one by one: sums are bitwise equal for any batch size
                total[b] += 0.5 * cell * np.sum((now[b] - steady) ** 2)
        return total
