"""Jets: blowing and suction through slots in the surface of a body."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite, is_positive, is_vector, is_whole
from flowsim.bodies.shapes import Body
from flowsim.bodies.swimmers import Swimmer
from flowsim.kernels.jets import DEEP

FloatArray = NDArray[np.float64]
JET_PROFILES = ("cosine", "parabolic")


@dataclass(frozen=True, kw_only=True)
class Jet:
    """A slot in the surface of a body through which fluid is blown or sucked.

    A jet with an ``angle`` is radial: the fluid moves away from the reference point of the body, through an arc of
    ``width`` radians. A jet with a ``point`` is straight: the fluid moves along the surface normal at this point,
    through a slot of ``width`` D.

    Parameters
    ----------
    body : int
        Index of the body: fixed, driven, or free and not lighter than the fluid; not a swimmer.
    angle : float, optional
        Angle of the middle of the arc about the reference point, from the x axis of the body's frame, in radians.
    point : (float, float), optional
        Middle of the slot, in the body's frame; moved to the nearest point of the surface.
    width : float
        Full width of the slot: in radians with an ``angle``, in units of D with a ``point``.
    profile : str
        Velocity profile across the slot: ``"cosine"``, cos(pi s) with s from -1/2 to 1/2, or ``"parabolic"``.

    Raises
    ------
    ValueError
        For both or neither of ``angle`` and ``point``, values out of range, or an unknown profile.
    """

    body: int = 0
    angle: float | None = None
    point: tuple[float, float] | None = None
    width: float
    profile: str = "cosine"

    def __post_init__(self) -> None:
        if (self.angle is None) == (self.point is None):
            raise ValueError("a jet has either an angle or a point")
        place = (self.angle,) if self.point is None else self.point
        fine = is_finite(self.angle) if self.point is None else is_vector(self.point)
        if not fine:
            raise ValueError(f"the place of a jet is {place}, but must be finite")
        most = math.pi if self.point is None else math.inf
        if not (is_positive(self.width) and self.width < most):
            allowed = "between 0 and pi" if self.point is None else "positive and finite"
            raise ValueError(f"width = {self.width!r}: the width of this jet must be {allowed}")
        if self.profile not in JET_PROFILES:
            raise ValueError(
                f"profile = {self.profile!r}: the profile of a jet is {' or '.join(JET_PROFILES)}"
            )


class JetTable(NamedTuple):
    """The J jets as arrays for the sweeps; columns as in :mod:`flowsim.kernels.jets`.

    Attributes
    ----------
    places, kinds : (J, 6) float64, (J, 3) int64
        Geometry and kind of each jet.
    state : (B, J, 9) float64
        Flow rates and momentum.
    """

    places: Any
    kinds: Any
    state: Any


def tabulate_jets(
    jets: Sequence[Jet], bodies: Sequence[Body], h: float
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the geometry and kind of the jets for a grid of spacing h.

    Raises
    ------
    ValueError
        For a body that does not exist, cannot have jets, or is narrower than the slot or too thin under it.
    """
    places = [_place(n, jet, bodies, h) for n, jet in enumerate(jets)]
    kinds = [(jet.body, jet.angle is not None, jet.profile == "parabolic") for jet in jets]
    return np.array(places, np.float64).reshape(-1, 6), np.array(kinds, np.int64).reshape(-1, 3)


def _place(n: int, jet: Jet, bodies: Sequence[Body], h: float) -> tuple[float, ...]:
    if not (is_whole(jet.body) and 0 <= jet.body < len(bodies)):
        raise ValueError(f"jet {n} is on body {jet.body}, but there are {len(bodies)} bodies")
    body = bodies[jet.body]
    if isinstance(body, Swimmer) or (body.motion == "free" and body.density < 1.0):
        raise ValueError(
            f"jet {n} is on body {jet.body}: a swimmer, or a free body lighter than the fluid, has no jets"
        )
    if jet.angle is not None:
        towards = math.cos(jet.angle), math.sin(jet.angle)
        origin, surface = (0.0, 0.0), _surface_along(n, body, towards)
    else:
        assert jet.point is not None
        origin, towards = _foot(n, body, jet.point, h)
        surface = 0.0
        if not _has_ends(body, origin, towards, 0.5 * jet.width):
            raise ValueError(
                f"jet {n} is at {jet.point}, where its body is narrower than its slot of {jet.width:g} D"
            )
    under = surface - np.linspace(0.5, DEEP + 1.0, 15) * h
    solid = body.distance(origin[0] + under * towards[0], origin[1] + under * towards[1]) < 0
    if not (solid.all() and (jet.angle is None or surface > (DEEP + 0.5) * h)):
        raise ValueError(
            f"jet {n} needs {DEEP + 1:g} cells of solid under its slot, and {DEEP + 0.5:g} from there to the "
            f"reference point if it is radial: the grid is too coarse, h = {h:g}"
        )
    return *origin, *towards, surface, 0.5 * jet.width


def _distance(body: Body, x: float, y: float) -> float:
    return float(body.distance(np.array([x]), np.array([y]))[0])


def _surface_along(n: int, body: Body, towards: tuple[float, float]) -> float:
    """Return the distance from the reference point to the surface in a direction."""
    far = 2.0 * max(body.semi_axes)
    way = np.linspace(0.0, far, 4097)
    inside = np.flatnonzero(body.distance(way * towards[0], way * towards[1]) < 0)
    if not len(inside) or inside[-1] == len(way) - 1:
        raise ValueError(f"jet {n}: its body has no surface in the direction of its angle")
    low, high = way[inside[-1]], way[inside[-1] + 1]
    for _ in range(60):
        middle = 0.5 * (low + high)
        outside = _distance(body, middle * towards[0], middle * towards[1]) >= 0
        low, high = (low, middle) if outside else (middle, high)
    return float(0.5 * (low + high))


def _has_ends(
    body: Body, origin: tuple[float, float], towards: tuple[float, float], half: float
) -> bool:
    """Return whether there is solid under both ends of a straight slot; what enters beyond them misses the body."""
    way = np.linspace(0.0, 2.0 * max(body.semi_axes), 4097)
    (x, y), (tx, ty), almost = origin, towards, half * (1.0 - 1e-6)
    return all(
        bool((body.distance(x - way * tx - end * ty, y - way * ty + end * tx) < 0).any())
        for end in (-almost, almost)
    )


def _foot(
    n: int, body: Body, point: tuple[float, float], h: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the nearest point of the surface and its normal."""
    (x, y), step = point, 1e-4 * h
    away = _distance(body, x, y)
    if abs(away) > h:
        raise ValueError(
            f"jet {n} is at {point}, which is {abs(away):.3g} D from the surface of its body"
        )
    gx = (_distance(body, x + step, y) - _distance(body, x - step, y)) / (2 * step)
    gy = (_distance(body, x, y + step) - _distance(body, x, y - step)) / (2 * step)
    length = math.hypot(gx, gy)
    gx, gy = gx / length, gy / length
    return (x - away * gx, y - away * gy), (gx, gy)


def check_closed_box(*flow_rates: FloatArray) -> None:
    """Refuse jet flow rates (B, J) with a nonzero sum, in a box without an outlet.

    Raises
    ------
    ValueError
        When the flow rates of a simulation do not add up to zero.
    """
    for rates in flow_rates:
        net = np.abs(rates.sum(axis=1))
        if (net > 1e-9 * np.abs(rates).sum(axis=1)).any():
            raise ValueError(
                f"the flow rates of the jets add up to {net.max():g}, but nothing can leave or enter the box: "
                "one side must be outflow, open or far_field, or they must add up to zero"
            )
