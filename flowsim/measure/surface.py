"""Loads along the surface of a body: pressure and skin friction, and where the flow separates.

Near a penalised surface, values in a layer of about one cell are unusable: the penalty fixes the velocities, and the
projection that computes the pressure does not include the body. So pressure and velocity are read from cells and faces
at least one cell outside, and extrapolated to each surface point by a least-squares fit in the normal and tangential
coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite, is_vector, is_whole
from flowsim.bodies.shapes import Body
from flowsim.bodies.swimmers import Swimmer
from flowsim.boundary import Side
from flowsim.grid import GHOSTS as G

if TYPE_CHECKING:
    from flowsim.backend.state import State

FloatArray = NDArray[np.float64]

NEAREST = 1.0
"""Smallest distance from the surface, in cells, of values that are fitted: nearer ones are set by the penalty."""
REACH = 4.0
"""Largest distance from a surface point, in cells, of the values of its fit."""
FEWEST = 10
"""Smallest number of values for a fit of six coefficients; there are fewer where bodies or walls nearly touch."""


@dataclass(frozen=True)
class SurfaceLoads:
    """Pressure and friction at n points of the surface of a body, anticlockwise around each closed curve.

    Attributes
    ----------
    points : (n, 2)
        Positions in the box.
    normal : (n, 2)
        Outward unit normals.
    length : (n,)
        Length of the surface element of each point, in units of D; the sum is the circumference.
    arc : (n,)
        Distance along the surface from its first point, in units of D.
    curve : (n,) int
        Index of the closed curve of each point; 0 for a body whose surface is one curve.
    angle : (n,)
        Direction from the centre of area to each point, in radians anticlockwise from +x, within (-pi, pi].
    pressure : (n,)
        Pressure relative to the reference pressure, in units of rho U^2.
    friction : (n,)
        Shear stress of the fluid on the body along the anticlockwise tangent, in units of rho U^2.
    reference_pressure : float
        Reference pressure that was subtracted from the pressure of the simulation.
    center : (2,)
        Reference point of the body, about which the torque is taken.

    Values are NaN where too few cells are available: near a second body or a wall.
    """

    points: FloatArray
    normal: FloatArray
    length: FloatArray
    arc: FloatArray
    curve: NDArray[np.int64]
    angle: FloatArray
    pressure: FloatArray
    friction: FloatArray
    reference_pressure: float
    center: FloatArray

    @property
    def pressure_coefficient(self) -> FloatArray:
        """C_p = (p - p_ref) / (rho U^2 / 2) at every point; shape (n,)."""
        return 2.0 * self.pressure

    @property
    def friction_coefficient(self) -> FloatArray:
        """C_f = tau / (rho U^2 / 2) along the anticlockwise tangent at every point; shape (n,)."""
        return 2.0 * self.friction

    @property
    def tangent(self) -> FloatArray:
        """Unit tangents, anticlockwise; shape (n, 2)."""
        return np.stack([-self.normal[:, 1], self.normal[:, 0]], axis=-1)

    @property
    def traction(self) -> FloatArray:
        """Force of the fluid on the body per unit length, -p n + tau t; shape (n, 2)."""
        return self.friction[:, None] * self.tangent - self.pressure[:, None] * self.normal

    @property
    def pressure_force(self) -> FloatArray:
        """Integral of -p n, in units of rho U^2 D; shape (2,)."""
        return -(self.length * self.pressure) @ self.normal

    @property
    def friction_force(self) -> FloatArray:
        """Integral of tau t, in units of rho U^2 D; shape (2,)."""
        return (self.length * self.friction) @ self.tangent

    @property
    def force(self) -> FloatArray:
        """Sum of pressure and friction force, comparable to ``body_state.force``; shape (2,)."""
        return self.pressure_force + self.friction_force

    @property
    def torque(self) -> float:
        """Torque about ``center``, in units of rho U^2 D^2."""
        arm = self.points - self.center
        x, y = self.traction.T
        return float(self.length @ (arm[:, 0] * y - arm[:, 1] * x))

    def separation(self) -> FloatArray:
        """Return the separation points, (m, 2), towards which the friction points from both sides.

        They are found by linear interpolation between the points of the loads.
        """
        return self._crossings(-1.0)

    def attachment(self) -> FloatArray:
        """Return the attachment points, where the friction points away on both sides; shape (m, 2).

        They include the stagnation points.
        """
        return self._crossings(1.0)

    def _crossings(self, sign: float) -> FloatArray:
        """Return the points where the friction changes sign, from negative to positive for sign 1, reversed for -1."""
        found = []
        for number in np.unique(self.curve):
            own = self.curve == number
            points, now = self.points[own], sign * self.friction[own]
            after, next_point = np.roll(now, -1), np.roll(points, -1, axis=0)
            at = np.flatnonzero((now < 0) & (after >= 0))
            share = (now[at] / (now[at] - after[at]))[:, None]
            found.append(points[at] + share * (next_point[at] - points[at]))
        return np.concatenate(found)


def surface_loads(
    flow: State,
    b: int = 0,
    k: int = 0,
    *,
    points: int | None = None,
    reference_pressure: float | tuple[float, float] | None = None,
) -> SurfaceLoads:
    """Return pressure and skin friction along the surface of body k of simulation b.

    Parameters
    ----------
    flow : Simulation
    b, k : int
    points : int, optional
        Number of points along the surface; two per cell unless given.
    reference_pressure : float or (float, float), optional
        Reference pressure, or a point (x, y) at which it is sampled; the static pressure of the stream
        (:func:`stream_pressure`) unless given.

    Returns
    -------
    SurfaceLoads

    Raises
    ------
    ValueError
        For a swimmer, whose surface deforms, fewer than 8 points, a body or flow that does not exist, or an invalid
        reference pressure.
    """
    if not (0 <= b < flow.batch and 0 <= k < len(flow.bodies)):
        raise ValueError(
            f"b = {b!r}, k = {k!r}: there are {flow.batch} flows of {len(flow.bodies)} bodies, numbered from 0"
        )
    body = flow.bodies[k]
    if isinstance(body, Swimmer):
        raise ValueError(f"body {k} is a swimmer: loads are known along rigid surfaces only")
    if points is not None and not (is_whole(points) and points >= 8):
        raise ValueError(f"points = {points!r}: a surface needs a whole number of at least 8")
    h, state = flow.grid.h, flow.body_state
    reference = _reference(flow, b, reference_pressure)
    place, turn = state.position[b, k], _rotation(float(state.angle[b, k]))
    own, normal, length, arc, curve = _panels(body, h, points)
    at, normal = own @ turn.T + place, normal @ turn.T
    flow.fill_ghosts()
    distances = _Distances(flow, b)
    pressure = _pressure_on(flow, b, at, normal, distances) - reference
    friction = _friction_on(flow, b, k, at, normal, distances)
    x, y = (own - body.centroid).T
    angle = np.angle(np.exp(1j * (np.arctan2(y, x) + state.angle[b, k])))
    return SurfaceLoads(
        at, normal, length, arc, curve, angle, pressure, friction, reference, place.copy()
    )


def stream_pressure(flow: State, b: int = 0) -> float:
    """Return the static pressure of the stream along the side where it enters the box.

    On an ``inflow`` side, where the velocity is prescribed, it is the mean pressure of the cells along this side. On
    other sides it is that of the undisturbed stream by Bernoulli's law, the mean of p + |u|^2 / 2 minus U^2 / 2. In a
    box without a stream it is the mean pressure of the cells along the four sides.
    """
    cells, head, level = pressure_reference(flow)
    i, j = cells.T
    pressure = flow.to_host(flow.pressure[b]).astype(np.float64)[i, j]
    velocity = flow.velocity_at_centres(b).astype(np.float64)[i, j]
    return float((pressure + head * (velocity**2).sum(axis=-1)).mean() - level)


def pressure_reference(flow: State) -> tuple[NDArray[np.int64], float, float]:
    """Return cells (n, 2), factor and level; the reference pressure is the mean of p + factor |u|^2 minus level."""
    stream = np.array(flow.stream, np.float64)
    grid = np.moveaxis(np.indices((flow.grid.nx, flow.grid.ny)), 0, -1)
    if not stream.any():
        rim = [grid[0], grid[-1], grid[1:-1, 0], grid[1:-1, -1]]
        return np.concatenate(rim), 0.0, 0.0
    axis = int(abs(stream[1]) > abs(stream[0]))
    backwards = stream[axis] < 0
    cells = np.take(grid, -1 if backwards else 0, axis=axis)
    if flow.sides.kinds()[2 * axis + backwards] == Side.INFLOW:
        return cells, 0.0, 0.0
    return cells, 0.5, float(0.5 * (stream**2).sum())


def _reference(flow: State, b: int, given: float | tuple[float, float] | None) -> float:
    """Return the reference pressure."""
    if given is None:
        return stream_pressure(flow, b)
    if is_finite(given):
        return float(given)  # type: ignore[arg-type]
    if not is_vector(given):
        raise ValueError(
            f"reference_pressure = {given!r}: it must be a finite number, or a point (x, y)"
        )
    width, height = flow.grid.size
    x, y = given  # type: ignore[misc]
    if not (0 <= x <= width and 0 <= y <= height):
        raise ValueError(
            f"reference_pressure = {given!r}: outside the box of {width:g} x {height:g}"
        )
    return float(flow.sample_pressure([(x, y)])[b, 0])


# --- the surface as panels -------------------------------------------------------------------------------------------


def _panels(
    body: Body, h: float, count: int | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.int64]]:
    """Return midpoints, normals, lengths, arc lengths and curve indices of straight panels, in the body's frame.

    The panels form closed curves, so that a constant pressure gives no force.
    """
    curves = [_anticlockwise(curve) for curve in body.surface]
    around = [_circumference(curve) for curve in curves]
    total = math.fsum(around)
    wanted = max(8, math.ceil(2 * total / h)) if count is None else count
    parts = []
    for number, (curve, length) in enumerate(zip(curves, around, strict=True)):
        ends = _on_the_surface(body, _resample(curve, max(8, round(wanted * length / total))))
        edges = np.roll(ends, -1, axis=0) - ends
        lengths = np.hypot(*edges.T)
        normals = np.stack([edges[:, 1], -edges[:, 0]], axis=-1) / lengths[:, None]
        arc = np.cumsum(lengths) - 0.5 * lengths
        parts.append((ends + 0.5 * edges, normals, lengths, arc, np.full(len(ends), number)))
    middles, normals, lengths, arcs, numbers = map(np.concatenate, zip(*parts, strict=True))
    return middles, normals, lengths, arcs, numbers


def _anticlockwise(curve: FloatArray) -> FloatArray:
    x, y = curve.T
    area = x @ np.roll(y, -1) - y @ np.roll(x, -1)
    return curve if area > 0 else curve[::-1]


def _circumference(curve: FloatArray) -> float:
    return float(np.hypot(*(np.roll(curve, -1, axis=0) - curve).T).sum())


def _resample(curve: FloatArray, count: int) -> FloatArray:
    """Return points at equal distances along a closed curve, starting at its first point."""
    closed = np.concatenate([curve, curve[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    at = np.arange(count) * (along[-1] / count)
    return np.stack([np.interp(at, along, closed[:, axis]) for axis in (0, 1)], axis=-1)


def _on_the_surface(body: Body, points: FloatArray) -> FloatArray:
    """Move points near the surface onto it, along the gradient of the signed distance."""
    step = 1e-4 * max(body.semi_axes)
    for _ in range(2):
        x, y = points.T
        slope = np.stack(
            [
                body.distance(x + step, y) - body.distance(x - step, y),
                body.distance(x, y + step) - body.distance(x, y - step),
            ],
            axis=-1,
        ) / (2 * step)
        steep = (slope**2).sum(axis=-1, keepdims=True)
        # at corners the gradient is that of neither side
        points = points - np.where(
            steep > 0.5, body.distance(x, y)[:, None] * slope / np.maximum(steep, 0.5), 0.0
        )
    return points


def _rotation(angle: float) -> FloatArray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s], [s, c]])


class _Distances:
    """Signed distance of points from the nearest body of one simulation."""

    def __init__(self, flow: State, b: int) -> None:
        self._flow, self._b = flow, b

    def __call__(self, points: FloatArray) -> FloatArray:
        flow, b, nearest = self._flow, self._b, np.full(points.shape[:-1], np.inf)
        size, periodic = np.array(flow.grid.size), np.array(flow.sides.periodic)
        for k, body in enumerate(flow.bodies):
            if isinstance(body, Swimmer):
                continue
            state = flow.body_state
            away = points - state.position[b, k]
            away = np.where(periodic, away - size * np.round(away / size), away)
            own = away @ _rotation(float(state.angle[b, k]))
            nearest = np.minimum(nearest, body.distance(own[..., 0], own[..., 1]))
        return nearest


# --- fits ------------------------------------------------------------------------------------------------------------


def _pressure_on(
    flow: State, b: int, at: FloatArray, normal: FloatArray, distances: _Distances
) -> FloatArray:
    pressure = flow.to_host(flow.pressure[b]).astype(np.float64)
    values, n, t, weights = _around(flow, pressure, (0.5, 0.5), 0, at, normal, distances)
    terms = np.stack([np.ones_like(n), n, t, n * n, n * t, t * t], axis=-1)
    return _fit(terms, values, weights)[:, 0]


def _friction_on(
    flow: State, b: int, k: int, at: FloatArray, normal: FloatArray, distances: _Distances
) -> FloatArray:
    """Return nu d(u.t)/dn, where u is the velocity relative to the body, which vanishes on the surface."""
    state, h = flow.body_state, flow.grid.h
    tangent = np.stack([-normal[:, 1], normal[:, 0]], axis=-1)
    place, velocity = state.position[b, k], state.velocity[b, k]
    omega = float(state.angular_velocity[b, k])
    slopes = np.zeros(len(at))
    for axis, field in enumerate((flow.u, flow.v)):
        # no-slip: a velocity component relative to the body is n times a function of n and t, of second order in t
        # because the friction changes sign at separation; adding n^3 and n^2 t makes the friction 8 % too large at 32
        # cells per D (0.569 instead of 0.524 at Re 40, docs/decisions/surfaces_and_sides.md)
        offset = (0.0, 0.5) if axis == 0 else (0.5, 0.0)
        values, n, t, weights = _around(
            flow, flow.to_host(field[b]).astype(np.float64), offset, G, at, normal, distances
        )
        arm = at[:, None] - place
        arm = arm + h * (n[..., None] * normal[:, None] + t[..., None] * tangent[:, None])
        rigid = velocity[axis] + (-omega * arm[..., 1] if axis == 0 else omega * arm[..., 0])
        terms = np.stack([n, n * n, n * t, n * t * t], axis=-1)
        slopes += _fit(terms, values - rigid, weights)[:, 0] * tangent[:, axis]
    return float(flow.viscosity[b]) / h * slopes


def _around(
    flow: State,
    field: FloatArray,
    offset: tuple[float, float],
    ghosts: int,
    at: FloatArray,
    normal: FloatArray,
    distances: _Distances,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return values near each point, their normal and tangential coordinates in cells, and weights.

    All have the shape (points, candidates). Values within :data:`NEAREST` of a body, behind
    the surface or outside the box have weight zero.
    """
    h, cells = flow.grid.h, (flow.grid.nx, flow.grid.ny)
    reach = math.ceil(REACH)
    window = np.arange(-reach, reach + 1)
    shift = np.stack(np.meshgrid(window, window, indexing="ij"), axis=-1).reshape(-1, 2)
    index = np.round(at / h - offset).astype(np.int64)[:, None] + shift
    away = (index + offset) * h - at[:, None]
    n = (away * normal[:, None]).sum(axis=-1) / h
    t = (away[..., 1] * normal[:, None, 0] - away[..., 0] * normal[:, None, 1]) / h
    wrapped = np.stack(
        [
            index[..., axis] % cells[axis] if flow.sides.periodic[axis] else index[..., axis]
            for axis in (0, 1)
        ],
        axis=-1,
    )
    inside = ((wrapped >= 0) & (wrapped < cells)).all(axis=-1)
    where = np.clip(wrapped, 0, np.array(cells) - 1) + ghosts
    far = np.hypot(n, t) / REACH
    free = distances(away + at[:, None]) >= NEAREST * h
    weights = np.where(inside & free & (n > 0) & (far < 1), (1 - far) ** 2, 0.0)
    return field[where[..., 0], where[..., 1]], n, t, weights


def _fit(terms: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return weighted least-squares fits, (points, m), of terms (points, candidates, m); NaN with too few values."""
    root = np.sqrt(weights)
    left = root[..., None] * terms
    solved = np.linalg.pinv(left, rcond=1e-6) @ (root * values)[..., None]
    enough = (weights > 0).sum(axis=-1) >= FEWEST
    return np.where(enough[:, None], solved[..., 0], np.nan)
