"""Host-side writing of the velocity of a batch: in the box, and on the sides through which fluid enters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend.host.arrays import Arrays
from flowsim.boundary import BOTTOM, Side, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.inflow import Inflow
from flowsim.kernels.far_field import forget_departed
from flowsim.kernels.forcing import LAST_DT

Array = Any
FloatArray = NDArray[np.float64]

GIVEN = (Side.INFLOW, Side.SLIP, Side.NO_SLIP)
"""Sides whose normal velocity is given."""


class Velocity(Arrays):
    """Writes the velocity of flows and of their sides."""

    def set_velocity(self, b: int | Sequence[int], u: ArrayLike, v: ArrayLike) -> None:
        """Set the velocity of one or several simulations on :meth:`Grid.u_faces` and :meth:`Grid.v_faces`.

        The velocity through inflow sides and walls stays as it is given there. The next step is the first one of a
        multi-step method, and its size follows from the new speed.

        Raises
        ------
        ValueError
            For values of a wrong shape, or that are not finite.
        """
        where = self._index(b)
        self.u[where], self.v[where] = self._both(where, u, v)
        self._write_normal_velocity(where, GIVEN)
        self._forget_departed(where)
        self._begin_anew(b)

    def add_velocity(self, b: int | Sequence[int], u: ArrayLike, v: ArrayLike) -> None:
        """Add to the velocity of one or several simulations, see :meth:`set_velocity`; a number adds to all faces."""
        where = self._index(b)
        along_x, along_y = self._both(where, u, v)
        self.u[where] += along_x
        self.v[where] += along_y
        self._write_normal_velocity(where, GIVEN)
        self._begin_anew(b)

    def _both(self, where: Any, u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """Return both components of a velocity, checked before either is written."""
        shape = self.u[where].shape
        return self._given("u", u, shape), self._given("v", v, shape)

    def _begin_anew(self, b: int | Sequence[int]) -> None:
        """Recompute the largest speed from the velocity, and clear the history of the time integration."""
        for n in np.atleast_1d(np.asarray(b)):
            fastest = abs(self.u[n]).max() + abs(self.v[n]).max()
            self._speed[n], self.dt[n] = float(self.to_host(fastest)), 0.0
            self._forcing_columns[n, LAST_DT] = 0.0

    def _forget_departed(self, where: Any) -> None:
        """Clear the vorticity that has left the box of some simulations, whose flows are replaced."""
        if (room := self._device_state.far_room) is not None:
            forget_departed(room.vortices, room.excess, where)

    def _fill_given_sides(self, which: NDArray[np.bool_]) -> None:
        members = np.flatnonzero(which).tolist()
        where = slice(None) if which.all() else self._index(members)
        box = self._device_state.box
        given = np.repeat(
            self.sides.velocities(self.stream)[:, :, None], box.given.shape[-1], axis=2
        )
        box.given[where] = self._device.array(given.astype(self.dtype))
        self._write_inflows(members, [0.0] * self.batch)
        self._write_normal_velocity(where, (*GIVEN, Side.FAR_FIELD))

    def _write_normal_velocity(self, where: Any, kinds: Sequence[Side]) -> None:
        """Write the given velocity through sides of some kinds; steps change it only on far-field sides."""
        nx, ny, given = self.grid.nx, self.grid.ny, self._device_state.box.given[where]
        for side in np.flatnonzero(np.isin(self._side_kinds, kinds)).tolist():
            if normal_to_x(side):
                self.u[where, G + side * nx] = given[..., side, 0, : ny + 2 * G]
            else:
                self.v[where, :, G + (side - BOTTOM) * ny] = given[..., side, 1, : nx + 2 * G]

    def _use_inflows(self, which: NDArray[np.bool_]) -> None:
        """Let some simulations use the newest profiles."""
        for b in np.flatnonzero(which):
            self._used_inflows[b] = dict(self._inflows)

    def _has_varying_inflow(self) -> bool:
        """Return whether a profile that a simulation uses varies in time."""
        return any(inflow.varies for used in self._used_inflows for inflow in used.values())

    def _write_inflows(
        self, members: Sequence[int], times: Sequence[float], varying: bool = False
    ) -> None:
        """Write the profiles that some simulations use, with ``varying`` only those that vary in time.

        ``times`` are those of all simulations.
        """
        nx, ny = self.grid.nx, self.grid.ny
        for side in self._inflows:
            lines: dict[int, FloatArray] = {}
            profiles: dict[tuple[Inflow, float], FloatArray] = {}
            for b in members:
                inflow = self._used_inflows[b].get(side)
                if inflow is None or (varying and not inflow.varies):
                    continue
                moment = inflow, times[b] if inflow.varies else 0.0
                if moment not in profiles:
                    profiles[moment] = inflow.at(moment[1])
                lines[b] = profiles[moment][b]
            if not lines:
                continue
            where = self._index(list(lines))
            line = self._device.array(np.stack(list(lines.values())).astype(self.dtype))
            self._device_state.box.given[where, side, :, : line.shape[-1]] = line
            if side < 2:
                self.u[where, G + side * nx] = line[..., 0, :]
            else:
                self.v[where, :, G + (side - 2) * ny] = line[..., 1, :]
