"""Host-side access to the temperature of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend.host.arrays import Arrays
from flowsim.backend.temperature import AlongSide, along_side, cells_along
from flowsim.boundary import side_number
from flowsim.grid import GHOSTS as G
from flowsim.kernels.heat import REFERENCE
from flowsim.kernels.records import Heat
from flowsim.measure import fields

Array = Any
FloatArray = NDArray[np.float64]


class Heated(Arrays):
    """Temperature of the flow and of its sides, for flows that have one."""

    def _needs_heat(self) -> Heat:
        if (heat := self._device_state.heat) is None:
            raise ValueError(
                "this flow has no temperature: make the simulation with temperature=Temperature(...)"
            )
        return heat

    @property
    def temperature(self) -> Array:
        """Temperature (B, nx + 2 G, ny + 2 G) at the cell centres, as an array of the backend."""
        return self._needs_heat().temperature

    @property
    def diffusivity(self) -> FloatArray:
        """Diffusivity (B,) of the temperature, in units of U D; writable."""
        self._needs_heat()
        return self._diffusivity

    @property
    def buoyancy(self) -> FloatArray:
        """Acceleration (B, 2) per unit of temperature, in units of U^2/D; writable."""
        self._needs_heat()
        return self._heat_columns[:, :REFERENCE]

    def temperature_at_centres(self, which: int | slice = slice(None)) -> NDArray[np.floating]:
        """Return the temperature at the cell centres; shape (B, nx, ny), or (nx, ny) for one simulation."""
        nx, ny = self.grid.nx, self.grid.ny
        return np.array(self.to_host(self.temperature[which][..., G : G + nx, G : G + ny]))

    def set_temperature(self, b: int | Sequence[int], values: ArrayLike) -> None:
        """Set the temperature (nx, ny) of one or several simulations at the cell centres; a number fills all cells.

        The next step is the first one of a multi-step method.

        Raises
        ------
        ValueError
            For values of a wrong shape, or that are not finite.
        """
        inside, where = self.temperature[:, G:-G, G:-G], self._index(b)
        inside[where] = self._given("temperature", values, inside[where].shape)
        self.dt[b] = 0.0

    def set_side_temperature(
        self, side: str, values: AlongSide, which: NDArray[np.bool_] | None = None
    ) -> None:
        """Set the temperature or flux of a side until the next :meth:`reset`; nothing is recompiled.

        Parameters
        ----------
        side : str
            ``"left"``, ``"right"``, ``"bottom"`` or ``"top"``; for a side that was created with a flux, the values are
            a flux.
        values : float or array
            A number, or values at the cells along the side, (n,) or (B, n).
        which : (B,) bool, optional
            Which simulations; all by default.

        Raises
        ------
        ValueError
            For values that are not finite or of a wrong shape, or for an unknown or periodic side.
        """
        number = self._heated_side(side)
        given = along_side(side, values, self.grid, self.batch)
        which = self._chosen("which", which)
        self._side_heat[which, number, : given.shape[1]] = given[which]

    def side_temperature(self, side: str) -> FloatArray:
        """Return the temperature of a side, or its flux into the box, at the cells along it, (B, n).

        Raises
        ------
        ValueError
            For an unknown or periodic side.
        """
        number = self._heated_side(side)
        return self._side_heat[:, number, : cells_along(side, self.grid)].copy()

    def _heated_side(self, side: str) -> int:
        self._needs_heat()
        number = side_number(side)
        if getattr(self.sides, side) == "periodic":
            raise ValueError(f"side = {side!r}: only a side that is not periodic has a temperature")
        return number

    def sample_temperature(self, points: ArrayLike) -> FloatArray:
        """Interpolate the temperature bilinearly between cell centres at given points.

        Parameters
        ----------
        points : (n, 2)
            The same in each simulation; points beyond the outermost cell centres are moved there.

        Returns
        -------
        (B, n) float64
        """
        return fields.sample_temperature(self, points)

    def _begin_heat(self, which: NDArray[np.bool_], where: Any) -> None:
        """Reset some simulations to their initial temperature."""
        table, heat = self.heat_table, self._device_state.heat
        if table is None or heat is None:
            return
        self._diffusivity[which] = table.diffusivity[which]
        self._heat_columns[which], self._side_heat[which] = table.columns[which], table.given[which]
        heat.rate[where], heat.new_temperature[where] = 0, 0
        begin = self._device.array(table.initial.astype(self.dtype))
        heat.temperature[:, G:-G, G:-G][where] = begin[where]
