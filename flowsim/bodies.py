"""Rigid bodies: shape as a signed distance, mass, and how they move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

Motion = str | Callable[[float], tuple[float, float, float, float, float, float]]


class Shape(IntEnum):
    """Numbers by which the compiled sweeps tell the shapes apart."""

    DISK = 0
    HALF_DISK = 1
    ELLIPSE = 2


@register_jitable
def signed_distance(shape: int, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return the signed distance (negative inside) of the point (x, y) of the body's own frame from its surface.

    ``a`` and ``b`` are the semi-axes; a disk has a = b, a half disk the half plane x < 0 of it. The ellipse's is exact
    to first order near the surface, which is all that a mask one cell wide can see.
    """
    if shape == 2:
        scaled = np.sqrt((x / a) ** 2 + (y / b) ** 2)
        slope = np.sqrt((x / a**2) ** 2 + (y / b**2) ** 2)
        if slope < 1e-12:
            return -min(a, b)
        return max(scaled * (scaled - 1.0) / slope, -min(a, b))
    distance = np.sqrt(x * x + y * y) - a
    if shape == 1:
        return max(distance, x)
    return distance


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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.motion == "free":
            # its centre of mass is not its centre, and the coupling of free bodies is written about the centre of mass
            raise ValueError('motion = "free": a half disk can be fixed or driven, not free')

    @property
    def area(self) -> float:
        """Area of the half disk."""
        return super().area / 2


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


@dataclass
class BodyState:
    """Where the K bodies of B simulations are and what acts on them; plain float64 arrays that a user may write.

    Attributes
    ----------
    position, velocity : (B, K, 2)
    angle, angular_velocity : (B, K)
    applied_force : (B, K, 2)
        Force on a free body, in units of rho U^2 D.
    applied_torque : (B, K)
        Torque on a free body about its centre, in units of rho U^2 D^2.
    force, torque : (B, K, 2), (B, K)
        What the fluid did to the body in the last step, by the penalty and the momentum inside; read only.
    """

    position: NDArray[np.float64]
    angle: NDArray[np.float64]
    velocity: NDArray[np.float64]
    angular_velocity: NDArray[np.float64]
    applied_force: NDArray[np.float64]
    applied_torque: NDArray[np.float64]
    force: NDArray[np.float64] = field(repr=False)
    torque: NDArray[np.float64] = field(repr=False)

    @classmethod
    def zeros(cls, batch: int, bodies: int) -> BodyState:
        """All at the origin and at rest."""
        vector, scalar = (batch, bodies, 2), (batch, bodies)
        shapes = (vector, scalar, vector, scalar, vector, scalar, vector, scalar)
        return cls(*(np.zeros(shape) for shape in shapes))
