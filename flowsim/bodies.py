"""Rigid bodies: shape as a signed distance, mass, and how they move."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
from contourpy import contour_generator
from numpy.typing import NDArray

from flowsim.shared import shared

FloatArray = NDArray[np.float64]
Motion = str | Callable[[float], tuple[float, float, float, float, float, float]]


SURFACE_POINTS = 96


class Shape(IntEnum):
    """Numbers by which the compiled sweeps tell the shapes apart."""

    DISK = 0
    HALF_DISK = 1
    ELLIPSE = 2
    TABLE = 3


HALF_DISK, ELLIPSE, TABLE = int(Shape.HALF_DISK), int(Shape.ELLIPSE), int(Shape.TABLE)


class Contact(IntFlag):
    """What a body touches: the sum of these."""

    NONE = 0
    BOX = 1
    BODY = 2


TOUCHES_BOX, TOUCHES_BODY = int(Contact.BOX), int(Contact.BODY)


@shared
def signed_distance(shape: int, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return the signed distance (negative inside) of the point (x, y) of the body's own frame from its surface.

    ``a`` and ``b`` are the semi-axes; a disk has a = b, a half disk the half plane x < 0 of it. The ellipse's is exact
    to first order near the surface, which is all that a mask one cell wide can see.
    """
    if shape == ELLIPSE:
        scaled = math.sqrt((x / a) ** 2 + (y / b) ** 2)
        slope = math.sqrt((x / a**2) ** 2 + (y / b**2) ** 2)
        if slope < 1e-12:
            return -min(a, b)
        return max(scaled * (scaled - 1.0) / slope, -min(a, b))
    distance = math.sqrt(x * x + y * y) - a
    if shape == HALF_DISK:
        return max(distance, x)
    return distance


@shared
def tabulated_distance(table: Any, start: int, side: int, reach: Any, x: Any, y: Any) -> Any:
    """Return the distance at (x, y) by bilinear interpolation in a square table over [-reach, reach]^2.

    Beyond the table the distance to its edge is added, so that it keeps growing.
    """
    spacing = 2.0 * reach / (side - 1)
    inside_x, inside_y = min(max(x, -reach), reach), min(max(y, -reach), reach)
    s, t = (inside_x + reach) / spacing, (inside_y + reach) / spacing
    i, j = min(int(s), side - 2), min(int(t), side - 2)
    s, t = s - i, t - j
    k = start + i * side + j
    low = (1.0 - s) * table[k] + s * table[k + side]
    high = (1.0 - s) * table[k + 1] + s * table[k + side + 1]
    return (1.0 - t) * low + t * high + math.sqrt((x - inside_x) ** 2 + (y - inside_y) ** 2)


@functools.cache
def _elementwise_distance() -> Any:
    return numba.vectorize(signed_distance)


@dataclass(frozen=True, kw_only=True)
class Body:
    """What all rigid bodies share.

    Parameters
    ----------
    center : (float, float)
        Where it starts, in the box.
    angle : float
        Initial orientation in radians, counter-clockwise.
    density : float
        Over the density of the fluid.
    motion : str or callable
        ``"fixed"``, ``"free"`` (moved by the fluid and the applied force and torque), or a function of time that
        returns (x, y, theta, u, v, omega).

    Raises
    ------
    ValueError
        For a size or density that is not positive, or an unknown motion.
    """

    center: tuple[float, float] = (0.0, 0.0)
    angle: float = 0.0
    density: float = 1.0
    motion: Motion = "fixed"

    shape: ClassVar[Shape]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.density) and self.density > 0):
            raise ValueError(f"density = {self.density!r}: the density of a body must be positive")
        if isinstance(self.motion, str) and self.motion not in ("fixed", "free"):
            raise ValueError(f'motion = {self.motion!r}: a body is "fixed", "free" or driven by a function of time')
        for name, length in zip(("major", "minor"), self.semi_axes, strict=True):
            if not (np.isfinite(length) and length > 0):
                raise ValueError(f"{name} axis = {2 * length!r}: the size of a body must be positive")

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The lengths a and b of :func:`signed_distance`."""
        raise NotImplementedError

    @property
    def area(self) -> float:
        """Area of the body."""
        raise NotImplementedError

    @property
    def second_moment(self) -> float:
        """Polar second moment of area about the reference point (``center``)."""
        raise NotImplementedError

    @property
    def centroid(self) -> tuple[float, float]:
        """Centre of mass in the frame of the body, whose origin is the reference point."""
        return 0.0, 0.0

    def distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Signed distance, negative inside, of points of the body's own frame."""
        return np.asarray(_elementwise_distance()(int(self.shape), *self.semi_axes, x, y), np.float64)

    @property
    def surface(self) -> list[FloatArray]:
        """The surface as closed curves of the body's own frame, (n, 2) each."""
        return [self._arc(np.linspace(0.0, 2 * np.pi, SURFACE_POINTS, endpoint=False))]

    def _arc(self, around: FloatArray) -> FloatArray:
        a, b = self.semi_axes
        return np.stack([a * np.cos(around), b * np.sin(around)], axis=-1)

    @property
    def mass(self) -> float:
        """Mass per unit depth."""
        return self.density * self.area

    @property
    def inertia(self) -> float:
        """Moment of inertia about the reference point."""
        return self.density * self.second_moment


@dataclass(frozen=True, kw_only=True)
class Disk(Body):
    """A circular cylinder."""

    diameter: float = 1.0
    shape: ClassVar[Shape] = Shape.DISK

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The radius, twice."""
        return self.diameter / 2, self.diameter / 2

    @property
    def area(self) -> float:
        """Area of the disk."""
        return np.pi * self.diameter**2 / 4

    @property
    def second_moment(self) -> float:
        """Polar second moment of area about the centre."""
        return self.area * self.diameter**2 / 8


@dataclass(frozen=True, kw_only=True)
class HalfDisk(Disk):
    """A D-section: at angle 0 the curved side looks towards -x and the flat side, whose middle is ``center``, to +x."""

    shape: ClassVar[Shape] = Shape.HALF_DISK

    @property
    def area(self) -> float:
        """Area of the half disk."""
        return super().area / 2

    @property
    def centroid(self) -> tuple[float, float]:
        """Centre of mass of the half disk."""
        return -2 * self.diameter / (3 * np.pi), 0.0

    @property
    def surface(self) -> list[FloatArray]:
        """The curved side; the flat one closes it."""
        return [self._arc(np.linspace(0.5 * np.pi, 1.5 * np.pi, SURFACE_POINTS))]


@dataclass(frozen=True, kw_only=True)
class Ellipse(Body):
    """An ellipse of axis ``major`` along x at angle 0, and minor axis ``aspect * major``."""

    major: float = 1.0
    aspect: float = 0.2
    shape: ClassVar[Shape] = Shape.ELLIPSE

    @property
    def semi_axes(self) -> tuple[float, float]:
        """Half of the major and of the minor axis."""
        return self.major / 2, self.aspect * self.major / 2

    @property
    def area(self) -> float:
        """Area of the ellipse."""
        a, b = self.semi_axes
        return np.pi * a * b

    @property
    def second_moment(self) -> float:
        """Polar second moment of area about the centre."""
        a, b = self.semi_axes
        return self.area * (a**2 + b**2) / 4


class _Measures(NamedTuple):
    area: float
    centroid: tuple[float, float]
    second_moment: float


class _Tabulated(Body):
    """A body that the sweeps read from a table of its signed distance."""

    shape: ClassVar[Shape] = Shape.TABLE

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The radius of a circle about the reference point that holds the body, twice."""
        raise NotImplementedError

    @functools.cached_property
    def _measures(self) -> _Measures:
        reach = self.semi_axes[0]
        x, y, spacing = _mesh(reach, 1024)
        share = np.clip(0.5 - self.distance(x, y) / spacing, 0.0, 1.0)
        area = float(share.sum())
        if area == 0.0:
            raise ValueError("distance: the signed distance is negative nowhere within the reach")
        centroid = float((share * x).sum()) / area, float((share * y).sum()) / area
        second = float((share * (x**2 + y**2)).sum())
        return _Measures(area * spacing**2, centroid, second * spacing**2)

    @property
    def area(self) -> float:
        """Area, from a fine grid."""
        return self._measures.area

    @property
    def centroid(self) -> tuple[float, float]:
        """Centre of mass, from a fine grid."""
        return self._measures.centroid

    @property
    def second_moment(self) -> float:
        """Polar second moment of area about the reference point, from a fine grid."""
        return self._measures.second_moment

    @functools.cached_property
    def surface(self) -> list[FloatArray]:
        """The surface as closed curves of the body's own frame, (n, 2) each, from a fine grid."""
        x, y, _ = _mesh(1.02 * self.semi_axes[0], 256)
        curves = contour_generator(x.T, y.T, self.distance(x, y).T).lines(0.0)
        return [np.asarray(curve, np.float64)[:-1] for curve in curves]  # the last point is the first one


@dataclass(frozen=True, kw_only=True)
class SignedDistance(_Tabulated):
    """Any shape, given by its signed distance.

    Parameters
    ----------
    function : callable
        ``function(x, y)`` takes arrays of coordinates in the body's own frame and returns the distance from the
        surface, negative inside.
    reach : float
        Radius of a circle about the origin of that frame that holds the whole body.

    Raises
    ------
    ValueError
        When the function is no signed distance: not finite, without an inside, not positive on the circle of radius
        ``reach``, or of a slope near the surface that is not 1.
    """

    function: Callable[[FloatArray, FloatArray], FloatArray]
    reach: float

    def __post_init__(self) -> None:
        super().__post_init__()
        angle = np.linspace(0, 2 * np.pi, 720)
        if not (self.distance(self.reach * np.cos(angle), self.reach * np.sin(angle)) > 0).all():
            raise ValueError(f"reach = {self.reach!r}: the signed distance must be positive at this distance")
        x, y, spacing = _mesh(self.reach, 256)
        distance = self.distance(x, y)
        if not (distance < 0).any():
            raise ValueError("function: the signed distance is negative nowhere within the reach")
        slope = np.hypot(*np.gradient(distance, spacing))[np.abs(distance) < 3 * spacing]
        # corners and the middle of thin parts may differ, the better part of the surface must not
        if not 0.9 < np.median(slope) < 1.1 or slope.max() > 1.5:
            raise ValueError(
                f"function: a signed distance has slope 1 near the surface, this one has {np.median(slope):.3g} "
                f"(at most {slope.max():.3g})"
            )

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The reach, twice."""
        return self.reach, self.reach

    def distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Signed distance, negative inside, of points of the body's own frame."""
        distance = np.asarray(self.function(x, y), np.float64)
        if distance.shape != np.shape(x) or not np.isfinite(distance).all():
            raise ValueError("function: a signed distance returns one finite number for every point")
        return distance


@dataclass(frozen=True, kw_only=True)
class Union(_Tabulated):
    """Several bodies as one rigid body; their ``center`` and ``angle`` place them in its frame.

    Their own density and motion play no part.

    Raises
    ------
    ValueError
        For a union of nothing.
    """

    parts: Sequence[Body]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts = (): a union needs at least one body")
        super().__post_init__()

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The radius of a circle about the reference point that holds all parts, twice."""
        reach = max(float(np.hypot(*part.center)) + max(part.semi_axes) for part in self.parts)
        return reach, reach

    def distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Signed distance, negative inside, of points of the union's frame."""
        distances = []
        for part in self.parts:
            c, s = np.cos(part.angle), np.sin(part.angle)
            rx, ry = x - part.center[0], y - part.center[1]
            distances.append(part.distance(c * rx + s * ry, c * ry - s * rx))
        return np.asarray(np.minimum.reduce(distances), np.float64)


def polygon(
    corners: Sequence[tuple[float, float]],
    *,
    center: tuple[float, float] = (0.0, 0.0),
    angle: float = 0.0,
    density: float = 1.0,
    motion: Motion = "fixed",
) -> SignedDistance:
    """Return a body with straight edges.

    Parameters
    ----------
    corners : sequence of (float, float)
        In the body's own frame, either way around. Where edges cross, inside is what they surround an odd number of
        times.
    center, angle, density, motion
        As of every :class:`Body`.

    Raises
    ------
    ValueError
        For fewer than three corners, corners that are not finite, or that lie in line.
    """
    ends = np.asarray(corners, np.float64)
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.isfinite(ends).all() or np.linalg.matrix_rank(ends - ends[0]) < 2:
        raise ValueError(f"corners = {corners!r}: a polygon needs at least three corners (x, y) that are not in line")

    def distance(x: FloatArray, y: FloatArray) -> FloatArray:
        nearest, inside = np.full(np.shape(x), np.inf), np.zeros(np.shape(x), bool)
        for (ax, ay), (bx, by) in zip(ends, np.roll(ends, -1, axis=0), strict=True):
            ex, ey = bx - ax, by - ay
            # the nearest point of the edge; one between equal corners is a point
            along = np.clip(((x - ax) * ex + (y - ay) * ey) / max(ex**2 + ey**2, 1e-300), 0.0, 1.0)
            nearest = np.minimum(nearest, np.hypot(x - ax - along * ex, y - ay - along * ey))
            # a ray towards +x from an inner point crosses an odd number of edges
            inside ^= ((ay > y) != (by > y)) & (((x - ax) * ey < (y - ay) * ex) == (by > ay))
        return np.where(inside, -nearest, nearest)

    reach = 1.05 * float(np.hypot(*ends.T).max())
    return SignedDistance(function=distance, reach=reach, center=center, angle=angle, density=density, motion=motion)


def _mesh(reach: float, cells: int) -> tuple[FloatArray, FloatArray, float]:
    """Return the centres of the cells of a square of half width ``reach``, and their spacing."""
    spacing = 2 * reach / cells
    line = (np.arange(cells) + 0.5) * spacing - reach
    x, y = np.meshgrid(line, line, indexing="ij")
    return x, y, spacing


SUPPORT_ANGLES = 256


class BodyTable(NamedTuple):
    """What the sweeps know about the K bodies; arrays of leading length K unless said otherwise.

    ``mass`` and ``inertia`` are the excess over the displaced fluid, ``fluid_mass`` and ``fluid_inertia``; moments of
    inertia and ``centroid`` belong to the centre of mass. ``mass_lag`` and ``inertia_lag`` are the parts that follow
    the fluid (docs/bodies.md), zero unless a body is lighter than the fluid. ``order`` lists the bodies from the
    least movable to the lightest. ``support`` (K, n) is the extent from the reference point in n directions. Body k's
    table of distances is ``distances[starts[k]:]``, ``sides[k]`` entries square.
    """

    shapes: NDArray[np.int64]
    axes: FloatArray
    centroid: FloatArray
    free: NDArray[np.bool_]
    mass: FloatArray
    inertia: FloatArray
    fluid_mass: FloatArray
    fluid_inertia: FloatArray
    mass_lag: FloatArray
    inertia_lag: FloatArray
    order: NDArray[np.int64]
    support: FloatArray
    distances: FloatArray
    starts: NDArray[np.int64]
    sides: NDArray[np.int64]

    @classmethod
    def of(cls, bodies: Sequence[Body], h: float) -> BodyTable:
        """Tabulate bodies for a grid of spacing h."""
        count = len(bodies)
        axes = np.array([body.semi_axes for body in bodies], np.float64).reshape(count, 2)
        centroid = np.array([body.centroid for body in bodies], np.float64).reshape(count, 2)
        free = np.array([body.motion == "free" for body in bodies], bool)
        density = np.array([body.density for body in bodies], np.float64)
        area = np.array([body.area for body in bodies], np.float64)
        second = np.array([body.second_moment for body in bodies], np.float64) - area * (centroid**2).sum(axis=1)
        lag = np.where(free, np.maximum(1.0 - density, 0.0), 0.0)
        heaviness = np.where(free, density * area, np.inf)
        tables: list[FloatArray] = []
        starts, sides = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for k, body in enumerate(bodies):
            if body.shape == Shape.TABLE:
                starts[k], sides[k] = sum(table.size for table in tables), int(np.ceil(8 * axes[k, 0] / h)) + 2
                line = np.linspace(-axes[k, 0], axes[k, 0], sides[k])
                tables.append(body.distance(*np.meshgrid(line, line, indexing="ij")).ravel())
        return cls(
            np.array([body.shape for body in bodies], np.int64), axes, centroid, free,
            (density - 1.0) * area, (density - 1.0) * second, area, second,
            lag * area, lag * second * np.minimum(3.0 * _reaction_to_rotation(area, second), 1.0),
            np.argsort(-heaviness, kind="stable"),
            np.array([_support(body) for body in bodies]).reshape(count, SUPPORT_ANGLES),
            np.concatenate([*tables, np.zeros(1)]), starts, sides,
        )  # fmt: skip


def _reaction_to_rotation(area: FloatArray, second: FloatArray) -> FloatArray:
    """Return I_a / (I_f + I_a), the added over the total moment of inertia, of ellipses of given area and moment."""
    product = area / np.pi
    squares = np.maximum(4.0 * second / area, 2.0 * product)
    ratio = (squares**2 - 4.0 * product**2) / (2.0 * product * squares)
    return ratio / (1.0 + ratio)


def _support(body: Body) -> FloatArray:
    """Return how far a body extends from its reference point in SUPPORT_ANGLES directions."""
    x, y, _ = _mesh(max(body.semi_axes), 256)
    distance = body.distance(x, y)
    inside = distance < 0
    x, y, distance = x[inside], y[inside], distance[inside]
    angle = np.arange(SUPPORT_ANGLES) * (2 * np.pi / SUPPORT_ANGLES)
    # the disk of radius |d| about an inner point belongs to the body
    return np.array([(x * np.cos(a) + y * np.sin(a) - distance).max() for a in angle])


@dataclass
class BodyState:
    """Where the K bodies of B simulations are and what acts on them; plain arrays that a user may write into.

    Attributes
    ----------
    position, velocity : (B, K, 2)
    angle, angular_velocity : (B, K)
    applied_force : (B, K, 2)
        Force on a free body, in units of rho U^2 D.
    applied_torque : (B, K)
        Torque on a free body about its centre of mass, in units of rho U^2 D^2; the applied force acts there, too.
    force, torque : (B, K, 2), (B, K)
        What the fluid did to the body in the last step, by the penalty and the momentum inside; read only.
    impulse : (B, K, 3)
        Integral over time of force and torque, since it was last set to zero.
    fluid_motion, fluid_acceleration : (B, K, 3)
        Velocity (u, v, omega) of the fluid under a free body lighter than the fluid, and its rate; read only.
    contact : (B, K) int8
        Sum of :class:`Contact`: 1 for the box, 2 for another body, 0 for neither; read only.
    """

    position: NDArray[np.float64]
    angle: NDArray[np.float64]
    velocity: NDArray[np.float64]
    angular_velocity: NDArray[np.float64]
    applied_force: NDArray[np.float64]
    applied_torque: NDArray[np.float64]
    force: NDArray[np.float64] = field(repr=False)
    torque: NDArray[np.float64] = field(repr=False)
    impulse: NDArray[np.float64] = field(repr=False)
    fluid_motion: NDArray[np.float64] = field(repr=False)
    fluid_acceleration: NDArray[np.float64] = field(repr=False)
    contact: NDArray[np.int8] = field(repr=False)

    @staticmethod
    def layout(batch: int, bodies: int) -> dict[str, tuple[tuple[int, ...], type]]:
        """Return shape and type of every array."""
        sizes = {
            "angle": (),
            "angular_velocity": (),
            "applied_torque": (),
            "torque": (),
            "contact": (),
        } | dict.fromkeys(("impulse", "fluid_motion", "fluid_acceleration"), (3,))
        return {
            item.name: ((batch, bodies, *sizes.get(item.name, (2,))), np.int8 if item.name == "contact" else np.float64)
            for item in fields(BodyState)
        }
