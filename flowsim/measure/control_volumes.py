"""The second measure of force and torque: the momentum balance of a control volume around each body.

The first measure, ``body_state.force`` and ``body_state.torque``, adds up what the penalty does to the fluid under the
body. This one never looks at the penalty: it balances the momentum in a rectangle of cells around the body with what
crosses its edges,

    F = -d/dt int u dV - oint u (u . n) dS - oint p n dS + oint nu (grad u + grad u^T) . n dS + int f dV + m_f dV/dt,

f being the force per unit mass that drives the flow, and the last term the momentum of the fluid under the body (m_f
its mass, V the velocity of its centre of mass), which belongs to the left side of the body's own equation of motion.
The torque is the balance of angular momentum about the body's reference point, its ``center``. Fluxes are the mean of
both ends of the step, the pressure is that of its middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.state import State
from flowsim.grid import GHOSTS as G

FloatArray = NDArray[np.float64]


@dataclass
class _Balance:
    """What is known about one control volume at the beginning of a step."""

    cells: tuple[int, int, int, int]
    centre: FloatArray
    momentum: FloatArray
    flux: FloatArray
    inside: FloatArray


class ControlVolumes:
    """Measures force and torque on every body of a batch by control volumes.

    Parameters
    ----------
    flows : State
        Of the simulations.
    margin : float
        Distance from the body to the edges of its rectangle, in units of D; at least four cells are kept.

    Attributes
    ----------
    force : (B, K, 2) float64
    torque : (B, K) float64
        Of the last step, in units of rho U^2 D and rho U^2 D^2. NaN where a rectangle would cut another body, leaves
        the box, or no step has been measured yet.
    """

    def __init__(self, flows: State, margin: float = 0.25) -> None:
        self._flows = flows
        self._margin = max(margin, 4 * flows.grid.h)
        bodies = len(flows.bodies)
        self.force = np.full((flows.batch, bodies, 2), np.nan)
        self.torque = np.full((flows.batch, bodies), np.nan)
        self._begun: dict[tuple[int, int], _Balance | None] = {}

    def begin(self, who: NDArray[np.int64]) -> None:
        """Look at the flow before a step of the simulations ``who``."""
        self._flows.fill_ghosts()
        self._begun = {
            (int(b), k): self._look(int(b), k) for b in who for k in range(self.force.shape[1])
        }

    def end(self, who: NDArray[np.int64]) -> None:
        """Measure the step."""
        self._flows.fill_ghosts()
        for b in who:
            for k in range(self.force.shape[1]):
                self.force[b, k], self.torque[b, k] = self._measure(int(b), k)

    def power(self) -> FloatArray:
        """Return the power (B, K) that the fluid gives each body, force times velocity plus torque times rotation."""
        state = self._flows.body_state
        along = (self.force * state.velocity).sum(axis=-1)
        power: FloatArray = along + self.torque * state.angular_velocity
        return power

    def _measure(self, b: int, k: int) -> tuple[FloatArray, float]:
        flows, begun = self._flows, self._begun[b, k]
        if begun is None:
            return np.full(2, np.nan), float("nan")
        dt = flows.dt[b]
        stored = (self._momentum(b, begun.cells, begun.centre) - begun.momentum) / dt
        through = 0.5 * (begun.flux + self._flux(b, begun.cells, begun.centre))
        inside = (self._momentum_inside(b, k, begun.centre) - begun.inside) / dt
        total = inside - stored - through - self._pressure(b, begun.cells, begun.centre)
        if flows.is_forced:
            pushed = flows.force_on_faces(b)
            total += self._integral(*pushed, begun.cells, begun.centre)
        return total[:2], float(total[2])

    def _look(self, b: int, k: int) -> _Balance | None:
        cells = self._rectangle(b, k)
        if cells is None:
            return None
        centre = self._flows.body_state.position[b, k].copy()
        momentum, flux = self._momentum(b, cells, centre), self._flux(b, cells, centre)
        return _Balance(cells, centre, momentum, flux, self._momentum_inside(b, k, centre))

    def _momentum_inside(self, b: int, k: int, centre: FloatArray) -> FloatArray:
        """Return momentum, and angular momentum about a point, of the fluid under a body.

        It moves as the body does, and as the jets do.
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

    def _rectangle(self, b: int, k: int) -> tuple[int, int, int, int] | None:
        """Return the cells [i0, i1) x [j0, j1) around a body, or None where that cannot be a control volume."""
        flows, h = self._flows, self._flows.grid.h
        low, high = flows.extent(b, k)
        low, high = low - self._margin, high + self._margin
        i0, j0 = (int(cell) for cell in np.floor(low / h))
        i1, j1 = (int(cell) for cell in np.ceil(high / h))
        if i0 < 1 or j0 < 1 or i1 > flows.grid.nx - 1 or j1 > flows.grid.ny - 1:
            return None
        for other in range(len(flows.bodies)):
            if other != k:
                near, far = flows.extent(b, other)
                if (near < np.array([i1, j1]) * h).all() and (far > np.array([i0, j0]) * h).all():
                    return None
        return i0, i1, j0, j1

    def _momentum(self, b: int, cells: tuple[int, int, int, int], centre: FloatArray) -> FloatArray:
        """Integrate momentum and angular momentum over the rectangle, from the velocities on the faces."""
        flows = self._flows
        return self._integral(flows.to_host(flows.u[b]), flows.to_host(flows.v[b]), cells, centre)

    def _integral(
        self,
        u: NDArray[np.floating],
        v: NDArray[np.floating],
        cells: tuple[int, int, int, int],
        centre: FloatArray,
    ) -> FloatArray:
        """Integrate a vector over the rectangle, and its moment about a point, from its components on the faces."""
        h = self._flows.grid.h
        i0, i1, j0, j1 = cells
        u = u[G + i0 : G + i1 + 1, G + j0 : G + j1].astype(np.float64)
        v = v[G + i0 : G + i1, G + j0 : G + j1 + 1].astype(np.float64)
        # faces on the edge of the rectangle count half
        rows = u.sum(axis=0) - 0.5 * (u[0] + u[-1])
        columns = v.sum(axis=1) - 0.5 * (v[:, 0] + v[:, -1])
        x = (np.arange(i0, i1) + 0.5) * h - centre[0]
        y = (np.arange(j0, j1) + 0.5) * h - centre[1]
        return np.array([rows.sum(), columns.sum(), x @ columns - y @ rows]) * h**2

    def _flux(self, b: int, cells: tuple[int, int, int, int], centre: FloatArray) -> FloatArray:
        """Integrate what advection and viscous stress carry out of the rectangle."""
        flows, h, nu = self._flows, self._flows.grid.h, self._flows.viscosity[b]
        i0, i1, j0, j1 = cells
        u, v = flows.to_host(flows.u[b]), flows.to_host(flows.v[b])
        total = np.zeros(3)
        for edge, sign in ((i0, -1.0), (i1, 1.0)):
            normal, along, stress, shear = _edge(u, v, edge, j0, j1, h, nu)
            x, y = edge * h - centre[0], (np.arange(j0, j1) + 0.5) * h - centre[1]
            fx, fy = normal * normal - stress, normal * along - shear
            total += sign * h * np.array([fx.sum(), fy.sum(), (x * fy - y * fx).sum()])
        for edge, sign in ((j0, -1.0), (j1, 1.0)):
            normal, along, stress, shear = _edge(v.T, u.T, edge, i0, i1, h, nu)
            x, y = (np.arange(i0, i1) + 0.5) * h - centre[0], edge * h - centre[1]
            fx, fy = normal * along - shear, normal * normal - stress
            total += sign * h * np.array([fx.sum(), fy.sum(), (x * fy - y * fx).sum()])
        return total

    def _pressure(self, b: int, cells: tuple[int, int, int, int], centre: FloatArray) -> FloatArray:
        """Integrate p n over the edges, and its moment."""
        h = self._flows.grid.h
        i0, i1, j0, j1 = cells
        p = self._flows.to_host(self._flows.pressure[b]).astype(np.float64)
        x = (np.arange(i0, i1) + 0.5) * h - centre[0]
        y = (np.arange(j0, j1) + 0.5) * h - centre[1]
        across_x = 0.5 * (p[i1 - 1, j0:j1] + p[i1, j0:j1] - p[i0 - 1, j0:j1] - p[i0, j0:j1])
        across_y = 0.5 * (p[i0:i1, j1 - 1] + p[i0:i1, j1] - p[i0:i1, j0 - 1] - p[i0:i1, j0])
        return np.array([across_x.sum(), across_y.sum(), x @ across_y - y @ across_x]) * h


def _edge(
    u: NDArray[np.floating],
    v: NDArray[np.floating],
    edge: int,
    start: int,
    stop: int,
    h: float,
    nu: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return velocity across and along an edge x = edge h, and normal and shear stress there, between cells."""
    k, low, high = edge + G, start + G, stop + G
    here = u[k - 1 : k + 2, low - 1 : high + 1].astype(np.float64)
    beside = v[k - 1 : k + 1, low : high + 1].astype(np.float64)
    left, right = (0.5 * (line[:-1] + line[1:]) for line in beside)
    stress = nu * (here[2, 1:-1] - here[0, 1:-1]) / h
    shear = nu * ((here[1, 2:] - here[1, :-2]) / (2 * h) + (right - left) / h)
    return here[1, 1:-1], 0.5 * (left + right), stress, shear
