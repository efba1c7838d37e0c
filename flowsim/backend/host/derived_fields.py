"""Fields derived from the velocity, and fields at points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import step
from flowsim.backend.host.arrays import Arrays
from flowsim.measure import fields

Array = Any
FloatArray = NDArray[np.float64]


class DerivedFields(Arrays):
    """Fields at the centres of the cells and at points."""

    def max_divergence(self) -> FloatArray:
        """Return the largest |div u| of each simulation, without the sources of jets; shape (B,)."""
        self._device.send_state()
        step.find_divergence(self._device_state)
        largest = np.abs(self.to_host(self._device_state.fields.phi)).max(axis=(1, 2))
        return largest.astype(np.float64) / self.grid.h

    def velocity_at_centres(self, which: int | slice = slice(None)) -> NDArray[np.floating]:
        """Return the velocity at the cell centres; shape (B, nx, ny, 2), or (nx, ny, 2) for one simulation."""
        return fields.velocity_at_centres(self, which)

    def vorticity(self, which: int | slice = slice(None)) -> NDArray[np.floating]:
        """Return the vorticity dv/dx - du/dy at the cell centres (the mean of the four corners).

        Parameters
        ----------
        which
            Which simulations.

        Returns
        -------
        (B, nx, ny)
            Or (nx, ny) for one simulation.
        """
        return fields.vorticity(self, which)

    def solid(self) -> NDArray[np.float64]:
        """Return the fraction chi of each cell that lies inside any body; shape (B, nx, ny)."""
        chi = self._device.zeros((self.batch, self.grid.nx, self.grid.ny), np.float64)
        self._device.send_state()
        step.find_solid(self._device_state, chi)
        return self.to_host(chi)

    def sample_velocity(self, points: ArrayLike) -> FloatArray:
        """Interpolate the velocity bilinearly at given points.

        Parameters
        ----------
        points : (B, n, 2) or (n, 2)
            Points of shape (n, 2) are the same in each simulation. Points outside the box are moved to its edge.

        Returns
        -------
        (B, n, 2) float64

        Raises
        ------
        ValueError
            For a wrong shape, or points that are NaN.
        """
        places = fields.checked_points(points)
        if places.ndim == 3 and len(places) != self.batch:
            raise ValueError(
                f"points are of {len(places)} simulations, but this batch has {self.batch}"
            )
        self.fill_ghosts()
        every = np.broadcast_to(places, (self.batch, *places.shape[-2:]))
        near = self._device.array(np.ascontiguousarray(every))
        velocity = self._device.zeros(near.shape, np.float64)
        step.sample(self._device_state, near, velocity)
        return self.to_host(velocity)

    def sample_pressure(self, points: ArrayLike) -> FloatArray:
        """Interpolate the pressure bilinearly between cell centres at given points; its level is that of the solver.

        Parameters
        ----------
        points : (n, 2)
            The same in each simulation; points beyond the outermost cell centres are moved there.

        Returns
        -------
        (B, n) float64
        """
        return fields.sample_pressure(self, points)
