"""Bodies that swim by bending their midline."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from flowsim.backend.host.given import is_positive
from flowsim.bodies.shapes import Body, Motion
from flowsim.kernels.distances import Shape
from flowsim.kernels.midline import (
    AMPLITUDE,
    ARC,
    GAP,
    HALF_WIDTH,
    LATERAL,
    LENGTH,
    MARGIN,
    NODE_COLUMNS,
    RAMP,
    SLOPE,
    SPACING,
    STEERING,
    STRIDE,
    WAVE_COLUMNS,
    WAVELENGTH,
    WEIGHT,
)

FloatArray = NDArray[np.float64]
Profile = Callable[[FloatArray], FloatArray]

POINTS = 65
"""Points of a midline, clustered at head and tail."""


def slender(s: FloatArray, head: float = 0.04) -> FloatArray:
    """Return the half-width of the two-dimensional swimmer of Kern and Koumoutsakos (2006) at s in [0, 1], in lengths.

    It has a round head of radius ``head``, a straight taper to 0.01 at s = 0.95, and a pointed tail.
    """
    taper = head - (head - 0.01) * (s - head) / (0.95 - head)
    round_head = np.sqrt(np.maximum(2.0 * head * s - s * s, 0.0))
    return np.asarray(
        np.where(s < head, round_head, np.where(s < 0.95, taper, 0.2 * (1.0 - s))), np.float64
    )


@dataclass(frozen=True, kw_only=True)
class Swimmer(Body):
    """A body that bends along its midline in a travelling wave; at angle 0 it swims towards +x.

    The curvature of the midline is kappa(s, t) = A(s) sin 2 pi (phase - s/wavelength) + turn C(s). With ``lateral`` its
    displacement is y(s, t) = A(s) sin 2 pi (phase - s/wavelength), and a turn adds curvature. The phase grows at the
    rate 1/period. :meth:`flowsim.Simulation.steer` changes turn and period. ``center`` is the centre of mass.

    Parameters
    ----------
    length : float
        Length L of the midline, in units of D.
    half_width : callable
        Half-width in lengths, a function of arrays of s/L in [0, 1]; zero at head and tail.
    amplitude : callable
        A, a function of arrays of s/L: a curvature in units of 1/L, or, with ``lateral``, a displacement in units of L.
    steering : callable, optional
        C, a function of arrays of s/L, a curvature in units of 1/L; unless given A, or with ``lateral`` half a sine.
    wavelength : float
        Wavelength, in lengths.
    lateral : bool
        Whether A is a displacement.
    period : float
        Period, in units of D/U.
    phase : float
        Initial phase, in periods.
    ramp : float
        Number of periods in which the wave grows from a straight body.

    Raises
    ------
    ValueError
        For values out of range, or a density other than that of the fluid.
    """

    length: float = 1.0
    half_width: Profile = slender
    amplitude: Profile
    steering: Profile | None = None
    wavelength: float = 1.0
    lateral: bool = False
    period: float = 1.0
    phase: float = 0.0
    ramp: float = 1.0
    motion: Motion = "free"

    shape: ClassVar[Shape] = Shape.MIDLINE

    def __post_init__(self) -> None:
        for name in ("length", "wavelength", "period", "ramp"):
            value = getattr(self, name)
            if not is_positive(value):
                raise ValueError(f"{name} = {value!r}: the {name} of a swimmer must be positive")
        if self.density != 1.0:
            raise ValueError(
                f"density = {self.density!r}: a body that deforms has the density of the fluid, 1"
            )
        if self.held or self.springs:
            raise ValueError("a body that deforms has neither held degrees of freedom nor springs")
        s = np.linspace(0.0, 1.0, 201)
        w = np.asarray(self.half_width(s), np.float64)
        if w.shape != s.shape or not (np.isfinite(w).all() and (w >= 0).all() and w.max() > 0):
            raise ValueError(
                "half_width: returns a half-width, not negative, for every s/L in [0, 1]"
            )
        if max(w[0], w[-1]) > 1e-6:
            raise ValueError("half_width: must be zero at head and tail")
        super().__post_init__()

    @property
    def semi_axes(self) -> tuple[float, float]:
        """Largest distance from the centre of mass, and largest half-width."""
        return 0.75 * self.length, float(
            self.length * self.half_width(np.linspace(0.0, 1.0, 1001)).max()
        )

    @functools.cached_property
    def nodes(self) -> FloatArray:
        """Properties at the points of the midline, (POINTS, NODE_COLUMNS): see :mod:`flowsim.kernels.midline`."""
        s = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, POINTS))
        nodes = np.zeros((POINTS, NODE_COLUMNS))
        scale = self.length if self.lateral else 1.0 / self.length
        nodes[:, ARC], nodes[:, HALF_WIDTH] = self.length * s, self.length * self.half_width(s)
        nodes[:, AMPLITUDE] = scale * np.asarray(self.amplitude(s), np.float64)
        nodes[:, SLOPE] = CubicSpline(nodes[:, ARC], nodes[:, AMPLITUDE])(nodes[:, ARC], 1)
        nodes[:, WEIGHT] = np.gradient(nodes[:, ARC])
        half = 0.5 * np.diff(nodes[:, ARC])
        nodes[:, WEIGHT] = np.append(half, 0.0) + np.append(0.0, half)
        if self.steering is not None:
            nodes[:, STEERING] = np.asarray(self.steering(s), np.float64) / self.length
        else:
            nodes[:, STEERING] = (
                np.sin(np.pi * s) / self.length if self.lateral else nodes[:, AMPLITUDE]
            )
        return nodes

    @property
    def area(self) -> float:
        """Area, which does not change when the body bends."""
        return float(2.0 * self.nodes[:, HALF_WIDTH] @ self.nodes[:, WEIGHT])

    @functools.cached_property
    def _middle(self) -> float:
        """Arc length of the centre of mass of the straight body."""
        mass = self.nodes[:, HALF_WIDTH] * self.nodes[:, WEIGHT]
        return float(mass @ self.nodes[:, ARC] / mass.sum())

    @property
    def second_moment(self) -> float:
        """Polar second moment of area of the straight body."""
        s, w = self.nodes[:, ARC] - self._middle, self.nodes[:, HALF_WIDTH]
        return float(self.nodes[:, WEIGHT] @ (2.0 * w * s**2 + 2.0 / 3.0 * w**3))

    def _straight_distance(self, s: FloatArray, d: FloatArray) -> FloatArray:
        """Return the signed distance of points at arc length s and offset d from the straight body."""
        at = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 2 * POINTS + 1))
        arc, edge, d = self.length * at, self.length * self.half_width(at), np.abs(d)
        nearest = np.full(np.shape(s), np.inf)
        for a, b, ds, dw in zip(arc, edge, np.diff(arc), np.diff(edge), strict=False):
            along = np.clip(((s - a) * ds + (d - b) * dw) / (ds**2 + dw**2), 0.0, 1.0)
            nearest = np.minimum(nearest, np.hypot(s - a - along * ds, d - b - along * dw))
        inside = (s > 0.0) & (s < self.length) & (d < np.interp(s, arc, edge))
        return np.where(inside, -nearest, nearest)

    def distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance of points in the frame of the body from the straight body."""
        return self._straight_distance(self._middle - np.asarray(x), np.asarray(y))

    @property
    def surface(self) -> list[FloatArray]:
        """The surface of the straight body; :meth:`flowsim.Simulation.surface` gives that of the bent body."""
        s, w = self._middle - self.nodes[:, ARC], self.nodes[:, HALF_WIDTH]
        return [np.concatenate([np.stack([s, w], axis=-1), np.stack([s, -w], axis=-1)[-2:0:-1]])]

    def wave(self, h: float) -> FloatArray:
        """Return the wave parameters for a grid of spacing h, (WAVE_COLUMNS,): see :mod:`flowsim.kernels.midline`."""
        wave = np.zeros(WAVE_COLUMNS)
        wave[WAVELENGTH], wave[LATERAL], wave[LENGTH] = (
            self.wavelength * self.length,
            self.lateral,
            self.length,
        )
        arc = self.nodes[::STRIDE, ARC]
        wave[RAMP], wave[GAP] = self.ramp, np.diff(arc).max()
        cells = np.ceil(4 * self.length / h)
        wave[SPACING] = self.length / cells
        wave[MARGIN] = 12 * wave[SPACING]
        return wave

    def strip(self, h: float) -> FloatArray:
        """Return signed distances from the straight body; axis 0 is the arc length, axis 1 the offset."""
        wave = self.wave(h)
        spacing = wave[SPACING]
        s = (
            np.arange(round((self.length + 2 * wave[MARGIN]) / spacing) + 1) * spacing
            - wave[MARGIN]
        )
        d = np.arange(int(np.ceil((self.semi_axes[1] + wave[MARGIN]) / spacing)) + 1) * spacing
        return self._straight_distance(*np.meshgrid(s, d, indexing="ij"))


def anguilliform(**options: object) -> Swimmer:
    """Return the two-dimensional eel of Kern and Koumoutsakos (2006), after Carling et al. (1998).

    The lateral displacement of its midline is 0.125 L (s/L + 0.03125)/1.03125 sin 2 pi (s/L - t/T); options are those
    of :class:`Swimmer`.
    """
    return Swimmer(**{"amplitude": _eel, "lateral": True, **options})  # type: ignore[arg-type]


def carangiform(**options: object) -> Swimmer:
    """Return the swimmer of Verma et al. (2018), whose curvature wave grows from 0.82/L at the head to 5.7/L."""
    return Swimmer(**{"amplitude": _fish, **options})  # type: ignore[arg-type]


def _eel(s: FloatArray) -> FloatArray:
    return 0.125 * (s + 0.03125) / 1.03125


def _fish(s: FloatArray) -> FloatArray:
    knots, values = (0.0, 0.15, 0.4, 0.65, 0.9, 1.0), (0.82, 1.46, 2.57, 3.75, 5.09, 5.7)
    return np.asarray(CubicSpline(knots, values, bc_type="natural")(s))
