"""Rigid bodies: shape as a signed distance, mass and motion."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from contourpy import contour_generator
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite, is_positive, is_vector
from flowsim.bodies.mounts import Spring, check_mount
from flowsim.kernels.distances import Shape
from flowsim.kernels.elementwise import write_distances

FloatArray = NDArray[np.float64]
Motion = str | Callable[[float], tuple[float, float, float, float, float, float]]


SURFACE_POINTS = 96


@dataclass(frozen=True, kw_only=True)
class Body:
    """Base class of all bodies.

    Parameters
    ----------
    center : (float, float)
        Initial position of the reference point in the box.
    angle : float
        Initial orientation in radians, counter-clockwise.
    density : float
        Density relative to the fluid.
    motion : str or callable
        ``"fixed"``, ``"free"`` (moved by the fluid and the applied force and torque), or a function of time that
        returns (x, y, theta, u, v, omega).
    held : collection of str
        Degrees of freedom of a free body that are held: ``"x"`` and ``"y"`` of the reference point, and
        ``"angle"``.
    springs : dict of str to Spring
        Springs and dampers on degrees of freedom of a free body.

    Raises
    ------
    ValueError
        For a center or angle that is not finite, a size or density that is not positive, an unknown motion, or a degree
        of freedom that cannot be held or sprung.
    """

    center: tuple[float, float] = (0.0, 0.0)
    angle: float = 0.0
    density: float = 1.0
    motion: Motion = "fixed"
    held: Collection[str] = ()
    springs: Mapping[str, Spring] = field(default_factory=dict, hash=False)

    shape: ClassVar[Shape]
    sizes: ClassVar[tuple[str, ...]] = ()
    """Names of the lengths and ratios that must be positive."""

    def __post_init__(self) -> None:
        if not is_vector(self.center):
            raise ValueError(f"center = {self.center!r}: it must be two finite numbers, x and y")
        if not is_finite(self.angle):
            raise ValueError(f"angle = {self.angle!r}: it must be a finite number, in radians")
        if not is_positive(self.density):
            raise ValueError(f"density = {self.density!r}: the density of a body must be positive")
        if not callable(self.motion) and self.motion not in ("fixed", "free"):
            raise ValueError(
                f'motion = {self.motion!r}: a body is "fixed", "free" or driven by a function of time'
            )
        check_mount(self.motion, self.held, self.springs)
        for name in self.sizes:
            if not is_positive(size := getattr(self, name)):
                raise ValueError(f"{name} = {size!r}: the size of a body must be positive")

    @property
    def semi_axes(self) -> tuple[float, float]:
        """Lengths a and b of :func:`flowsim.kernels.distances.signed_distance`."""
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
        """Return the signed distance, negative inside, of points in the frame of the body."""
        x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
        a, b = (float(length) for length in self.semi_axes)
        out = np.empty(x.size)
        write_distances(int(self.shape), a, b, x.ravel(), y.ravel(), out)
        return out.reshape(x.shape)

    @property
    def surface(self) -> list[FloatArray]:
        """The surface as closed curves in the frame of the body, (n, 2) each."""
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
    sizes = ("diameter",)

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The radius as both lengths."""
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
    """A D-section: at angle 0 the curved side faces -x, and the flat side, whose middle is ``center``, faces +x."""

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
        """The curved side; the flat side closes the curve."""
        return [self._arc(np.linspace(0.5 * np.pi, 1.5 * np.pi, SURFACE_POINTS))]


@dataclass(frozen=True, kw_only=True)
class Ellipse(Body):
    """An ellipse with major axis ``major``, along x at angle 0, and minor axis ``aspect * major``."""

    major: float = 1.0
    aspect: float = 0.2
    shape: ClassVar[Shape] = Shape.ELLIPSE
    sizes = ("major", "aspect")

    @property
    def semi_axes(self) -> tuple[float, float]:
        """Semi-major and semi-minor axis."""
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
    """A body whose signed distance the sweeps read from a table."""

    shape: ClassVar[Shape] = Shape.TABLE

    @property
    def semi_axes(self) -> tuple[float, float]:
        """Radius of a circle about the reference point that contains the body, as both lengths."""
        raise NotImplementedError

    @functools.cached_property
    def _measures(self) -> _Measures:
        reach = self.semi_axes[0]
        x, y, spacing = mesh(reach, 1024)
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
        """The surface as closed curves in the frame of the body, (n, 2) each, from a fine grid."""
        x, y, _ = mesh(1.02 * self.semi_axes[0], 256)
        curves = contour_generator(x.T, y.T, self.distance(x, y).T).lines(0.0)
        # the last point repeats the first
        return [np.asarray(curve, np.float64)[:-1] for curve in curves]


@dataclass(frozen=True, kw_only=True)
class SignedDistance(_Tabulated):
    """Any shape, given by its signed distance.

    Parameters
    ----------
    function : callable
        ``function(x, y)`` takes arrays of coordinates in the frame of the body and returns the distance from the
        surface, negative inside.
    reach : float
        Radius of a circle about the origin of this frame that contains the whole body.

    Raises
    ------
    ValueError
        When the function is not a signed distance: not finite, nowhere negative, not positive on the circle of radius
        ``reach``, or with a slope other than 1 near the surface.
    """

    function: Callable[[FloatArray, FloatArray], FloatArray]
    reach: float
    sizes = ("reach",)

    def __post_init__(self) -> None:
        super().__post_init__()
        angle = np.linspace(0, 2 * np.pi, 720)
        if not (self.distance(self.reach * np.cos(angle), self.reach * np.sin(angle)) > 0).all():
            raise ValueError(
                f"reach = {self.reach!r}: the signed distance must be positive at this distance"
            )
        x, y, spacing = mesh(self.reach, 256)
        distance = self.distance(x, y)
        if not (distance < 0).any():
            raise ValueError("function: the signed distance is negative nowhere within the reach")
        slope = np.hypot(*np.gradient(distance, spacing))[np.abs(distance) < 3 * spacing]
        # corners and the middle of thin parts may deviate; most of the surface must not
        if not 0.9 < np.median(slope) < 1.1 or slope.max() > 1.5:
            raise ValueError(
                f"function: a signed distance has slope 1 near the surface, this one has {np.median(slope):.3g} "
                f"(at most {slope.max():.3g})"
            )

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The reach as both lengths."""
        return self.reach, self.reach

    def distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance, negative inside, of points in the frame of the body."""
        distance = np.asarray(self.function(x, y), np.float64)
        if distance.shape != np.shape(x) or not np.isfinite(distance).all():
            raise ValueError(
                "function: a signed distance returns one finite number for every point"
            )
        return distance


@dataclass(frozen=True, kw_only=True)
class Union(_Tabulated):
    """Several bodies as one rigid body; their ``center`` and ``angle`` are relative to its frame.

    The union has one density and one motion; parts cannot have their own.

    Raises
    ------
    ValueError
        For a union without parts, or with a part that is not a rigid body or has a density or motion of its own.
    """

    parts: Sequence[Body]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Sequence) or not self.parts:
            raise ValueError(f"parts = {self.parts!r}: a union needs a list of at least one body")
        for part in self.parts:
            if not isinstance(part, Body) or part.shape == Shape.MIDLINE:
                raise ValueError(f"parts: a {type(part).__name__} is not a rigid body")
            if part.density != 1.0 or part.motion != "fixed":
                raise ValueError(
                    f"parts: a {type(part).__name__} has a density or motion of its own; give these to the union"
                )
        super().__post_init__()

    @property
    def semi_axes(self) -> tuple[float, float]:
        """Radius of a circle about the reference point that contains all parts, as both lengths."""
        reach = max(float(np.hypot(*part.center)) + max(part.semi_axes) for part in self.parts)
        return reach, reach

    def distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance, negative inside, of points in the frame of the union."""
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
    held: Collection[str] = (),
    springs: Mapping[str, Spring] | None = None,
) -> SignedDistance:
    """Return a body with straight edges.

    Parameters
    ----------
    corners : sequence of (float, float)
        Corners in the frame of the body, clockwise or anticlockwise. Where edges cross, points that they surround an
        odd number of times are inside.
    center, angle, density, motion, held, springs
        As for every :class:`Body`.

    Raises
    ------
    ValueError
        For fewer than three corners, and corners that are not finite or are collinear.
    """
    try:
        ends = np.asarray(corners, np.float64)
    except (TypeError, ValueError):
        ends = np.zeros(0)
    if (
        ends.ndim != 2
        or ends.shape[1] != 2
        or not np.isfinite(ends).all()
        or np.linalg.matrix_rank(ends - ends[0]) < 2
    ):
        raise ValueError(
            f"corners = {corners!r}: a polygon needs at least three corners (x, y) that are not in line"
        )

    def distance(x: FloatArray, y: FloatArray) -> FloatArray:
        nearest, inside = np.full(np.shape(x), np.inf), np.zeros(np.shape(x), bool)
        for (ax, ay), (bx, by) in zip(ends, np.roll(ends, -1, axis=0), strict=True):
            ex, ey = bx - ax, by - ay
            # the nearest point of the edge; an edge between equal corners is a point
            along = np.clip(((x - ax) * ex + (y - ay) * ey) / max(ex**2 + ey**2, 1e-300), 0.0, 1.0)
            nearest = np.minimum(nearest, np.hypot(x - ax - along * ex, y - ay - along * ey))
            # a ray towards +x from an interior point crosses an odd number of edges
            inside ^= ((ay > y) != (by > y)) & (((x - ax) * ey < (y - ay) * ex) == (by > ay))
        return np.where(inside, -nearest, nearest)

    reach = 1.05 * float(np.hypot(*ends.T).max())
    return SignedDistance(
        function=distance,
        reach=reach,
        center=center,
        angle=angle,
        density=density,
        motion=motion,
        held=held,
        springs=springs or {},
    )


def mesh(reach: float, cells: int) -> tuple[FloatArray, FloatArray, float]:
    """Return the cell centres of a square of half-width ``reach``, and their spacing."""
    spacing = 2 * reach / cells
    line = (np.arange(cells) + 0.5) * spacing - reach
    x, y = np.meshgrid(line, line, indexing="ij")
    return x, y, spacing
