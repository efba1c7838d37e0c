"""A second measurement of force and torque: the momentum balance of a control volume around each body.

The first measurement, ``body_state.force`` and ``body_state.torque``, sums the penalty force on the fluid inside the
body. This one does not use the penalty: it balances the momentum in a rectangle of cells around the body with the
fluxes through its edges,

    F = -d/dt int u dV - oint u (u . n) dS - oint p n dS + oint nu (grad u + grad u^T) . n dS + int f dV + m_f dV/dt,

where f is the force per unit mass that drives the flow, and the last term is due to the momentum of the fluid inside
the body (m_f its mass, V the velocity of its centre of mass), which belongs to the left side of the body's own equation
of motion. The torque is the balance of angular momentum about the reference point of the body, its ``center``. Fluxes
are averaged over both ends of the step; the pressure is that at its middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite
from flowsim.backend.jit_cache import at_once
from flowsim.backend.state import State
from flowsim.grid import GHOSTS as G
from flowsim.kernels.device_function import device_function

FloatArray = NDArray[np.float64]
Field = NDArray[np.floating]
Cells = tuple[int, int, int, int]
"""A rectangle of cells [i0, i1) x [j0, j1)."""


@dataclass
class _Balance:
    """State of one control volume at the beginning of a step."""

    cells: Cells
    centre: FloatArray
    momentum: FloatArray
    flux: FloatArray
    inside: FloatArray


class ControlVolumes:
    """Measures force and torque on every body of a batch by control volumes.

    Parameters
    ----------
    flows : State
        The batch of simulations.
    margin : float
        Distance from the body to the edges of its rectangle, in units of D; at least four cells.

    Attributes
    ----------
    force : (B, K, 2) float64
    torque : (B, K) float64
        Force and torque in the last step, in units of rho U^2 D and rho U^2 D^2. NaN where the rectangle would cut
        another body, also across a periodic side, or leave the box, and before the first measured step.

    Raises
    ------
    ValueError
        For a margin that is not finite.
    """

    def __init__(self, flows: State, margin: float = 0.25) -> None:
        if not is_finite(margin):
            raise ValueError(f"margin = {margin!r}: the margin of control volumes must be finite")
        self._flows = flows
        self._margin = max(margin, 4 * flows.grid.h)
        bodies = len(flows.bodies)
        self.force = np.full((flows.batch, bodies, 2), np.nan)
        self.torque = np.full((flows.batch, bodies), np.nan)
        self._begun: dict[tuple[int, int], _Balance | None] = {}

    def begin(self, who: NDArray[np.int64]) -> None:
        """Compute the balances of the simulations ``who`` before a step."""
        self._flows.fill_ghosts()
        self._begun = {
            (int(b), k): self._look(int(b), k) for b in who for k in range(self.force.shape[1])
        }

    def end(self, who: NDArray[np.int64]) -> None:
        """Compute force and torque in the simulations ``who`` after a step."""
        self._flows.fill_ghosts()
        for b in who:
            for k in range(self.force.shape[1]):
                self.force[b, k], self.torque[b, k] = self._measure(int(b), k)

    def power(self) -> FloatArray:
        """Return the power (B, K) of the fluid on each body, by force and torque."""
        state = self._flows.body_state
        along = (self.force * state.velocity).sum(axis=-1)
        power: FloatArray = along + self.torque * state.angular_velocity
        return power

    def _measure(self, b: int, k: int) -> tuple[FloatArray, float]:
        flows, begun = self._flows, self._begun[b, k]
        if begun is None:
            return np.full(2, np.nan), float("nan")
        dt = flows.dt[b]
        momentum, flux = self._balance(b, begun.cells, begun.centre)
        stored, through = (momentum - begun.momentum) / dt, 0.5 * (begun.flux + flux)
        inside = (self._momentum_inside(b, k, begun.centre) - begun.inside) / dt
        there, h = _within(begun.cells, begun.centre, flows.grid.h), flows.grid.h
        p = self._around(flows.pressure[b], begun.cells, ghosts=0)
        total = inside - stored - through - _pressure(p, *there, h)
        if flows.is_forced:
            pushed = (self._around(along, begun.cells) for along in flows.force_on_faces(b))
            total += _integral(*pushed, *there, h)
        return total[:2], float(total[2])

    def _look(self, b: int, k: int) -> _Balance | None:
        cells = self._rectangle(b, k)
        if cells is None:
            return None
        centre = self._flows.body_state.position[b, k].copy()
        inside = self._momentum_inside(b, k, centre)
        return _Balance(cells, centre, *self._balance(b, cells, centre), inside)

    def _balance(self, b: int, cells: Cells, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return momentum and angular momentum in a rectangle, and their fluxes out of it."""
        flows, h = self._flows, self._flows.grid.h
        u, v = (self._around(field[b], cells) for field in (flows.u, flows.v))
        there = _within(cells, centre, h)
        return _integral(u, v, *there, h), _flux(u, v, *there, h, flows.viscosity[b])

    def _around(self, field: Any, cells: Cells, ghosts: int = G) -> Field:
        """Return a field in a rectangle that is one cell wider on every side, as a host array.

        Copying the whole field from a GPU would transfer many times as many bytes.
        """
        i0, i1, j0, j1 = cells
        part = field[i0 - 1 : i1 + 1 + 2 * ghosts, j0 - 1 : j1 + 1 + 2 * ghosts]
        return np.ascontiguousarray(self._flows.to_host(part))

    def _momentum_inside(self, b: int, k: int, centre: FloatArray) -> FloatArray:
        """Return momentum, and angular momentum about a point, of the fluid inside a body.

        This fluid moves with the body and with its jets.
        """
        flows, state = self._flows, self._flows.body_state
        mass, inertia = flows.displaced(b, k)
        c, s = np.cos(state.angle[b, k]), np.sin(state.angle[b, k])
        x, y = flows.bodies[k].centroid
        x, y = c * x - s * y, s * x + c * y
        (u, v), omega = state.velocity[b, k], state.angular_velocity[b, k]
        px, py = mass * (u - omega * y), mass * (v + omega * x)
        away_x, away_y = state.position[b, k] - centre
        spin = inertia * omega + mass * (x * v - y * u) + away_x * py - away_y * px
        inside = np.array([px, py, spin])
        for j, jet in enumerate(flows.jets):
            if jet.body == k:
                px, py, turn = flows.jet_momentum[b, j]
                inside += px, py, turn + (x + away_x) * py - (y + away_y) * px
        return inside

    def _rectangle(self, b: int, k: int) -> Cells | None:
        """Return the cells [i0, i1) x [j0, j1) around a body, or None if they cannot be a control volume."""
        flows, h = self._flows, self._flows.grid.h
        low, high = flows.extent(b, k)
        if not np.isfinite([low, high]).all():
            return None  # a body that is nowhere
        low, high = low - self._margin, high + self._margin
        i0, j0 = (int(cell) for cell in np.floor(low / h))
        i1, j1 = (int(cell) for cell in np.ceil(high / h))
        if i0 < 1 or j0 < 1 or i1 > flows.grid.nx - 1 or j1 > flows.grid.ny - 1:
            return None
        size, middle = np.array(flows.grid.size), 0.5 * (low + high)
        for other in range(len(flows.bodies)):
            if other != k:
                near, far = flows.extent(b, other)
                # its nearest image
                away = size * np.round((middle - 0.5 * (near + far)) / size)
                away = np.where(flows.sides.periodic, away, 0.0)
                near, far = near + away, far + away
                if (near < np.array([i1, j1]) * h).all() and (far > np.array([i0, j0]) * h).all():
                    return None
        return i0, i1, j0, j1


def _within(cells: Cells, centre: FloatArray, h: float) -> tuple[Cells, float, float]:
    """Return a rectangle and a point in the coordinates of the array from :meth:`ControlVolumes._around`."""
    i0, i1, j0, j1 = cells
    return (1, i1 - i0 + 1, 1, j1 - j0 + 1), centre[0] - (i0 - 1) * h, centre[1] - (j0 - 1) * h


@at_once
def _integral(u: Field, v: Field, cells: Cells, x0: float, y0: float, h: float) -> FloatArray:
    """Integrate a vector, given by its components on the faces, and its moment about a point, over a rectangle."""
    i0, i1, j0, j1 = cells
    total = np.zeros(3)
    for i in range(i0, i1 + 1):
        for j in range(j0, j1 + 1):
            # faces on the edge of the rectangle have half weight
            share_u = (0.5 if i in (i0, i1) else 1.0) if j < j1 else 0.0
            share_v = (0.5 if j in (j0, j1) else 1.0) if i < i1 else 0.0
            px, py = share_u * np.float64(u[i + G, j + G]), share_v * np.float64(v[i + G, j + G])
            total[0] += px
            total[1] += py
            total[2] += ((i + 0.5) * h - x0) * py - ((j + 0.5) * h - y0) * px
    return total * h**2


@device_function
def _through_face(u: Field, v: Field, k: int, m: int, h: float, nu: float) -> tuple[float, float]:
    """Return the fluxes of normal and tangential momentum by advection and viscosity through face (k, m) of u."""
    here, left, right = np.float64(u[k, m]), np.float64(v[k - 1, m]), np.float64(v[k, m])
    left, right = 0.5 * (left + v[k - 1, m + 1]), 0.5 * (right + v[k, m + 1])
    along, per_h = 0.5 * (left + right), nu / h
    stress = per_h * (np.float64(u[k + 1, m]) - u[k - 1, m])
    shear = per_h * (0.5 * (np.float64(u[k, m + 1]) - u[k, m - 1]) + right - left)
    return here * here - stress, here * along - shear


@at_once
def _flux(
    u: Field, v: Field, cells: Cells, x0: float, y0: float, h: float, nu: float
) -> FloatArray:
    """Integrate the fluxes of momentum and angular momentum by advection and viscosity out of a rectangle."""
    i0, i1, j0, j1 = cells
    total = np.zeros(3)
    for edge, sign in ((i0, -h), (i1, h)):
        for j in range(j0, j1):
            across, along = _through_face(u, v, edge + G, j + G, h, nu)
            x, y = edge * h - x0, (j + 0.5) * h - y0
            total += sign * np.array([across, along, x * along - y * across])
    for edge, sign in ((j0, -h), (j1, h)):
        for i in range(i0, i1):
            across, along = _through_face(v.T, u.T, edge + G, i + G, h, nu)
            x, y = (i + 0.5) * h - x0, edge * h - y0
            total += sign * np.array([along, across, x * across - y * along])
    return total


@at_once
def _pressure(p: Field, cells: Cells, x0: float, y0: float, h: float) -> FloatArray:
    """Integrate p n and its moment over the edges."""
    i0, i1, j0, j1 = cells
    total = np.zeros(3)
    for j in range(j0, j1):
        ahead, behind = np.float64(p[i1 - 1, j]) + p[i1, j], np.float64(p[i0 - 1, j]) + p[i0, j]
        push = 0.5 * (ahead - behind)
        total[0] += push
        total[2] -= ((j + 0.5) * h - y0) * push
    for i in range(i0, i1):
        above, below = np.float64(p[i, j1 - 1]) + p[i, j1], np.float64(p[i, j0 - 1]) + p[i, j0]
        push = 0.5 * (above - below)
        total[1] += push
        total[2] += ((i + 0.5) * h - x0) * push
    return total * h
