"""Prescribed motions: functions of time for the ``motion`` of a body.

Each returns (x, y, theta, u, v, omega); the velocities are the derivatives of the positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Motion = Callable[[float], tuple[float, float, float, float, float, float]]


def oscillation(
    center: tuple[float, float],
    amplitude: float,
    period: float,
    *,
    direction: float = 0.0,
    phase: float = 0.0,
    angle: float = 0.0,
    pitch: float = 0.0,
) -> Motion:
    """Oscillate about ``center`` by amplitude sin(2 pi t / period + phase).

    Parameters
    ----------
    center : (float, float)
    amplitude : float
        In units of D.
    period : float
        In units of D/U.
    direction : float
        Angle of the line of motion from the x axis, in radians.
    phase : float
        In radians.
    angle, pitch : float
        The orientation is angle + pitch sin(2 pi t / period + phase), in radians.

    Raises
    ------
    ValueError
        For a period that is not positive.
    """
    if not period > 0:
        raise ValueError(f"period = {period!r}: the period of an oscillation must be positive")
    rate = 2 * math.pi / period
    dx, dy = math.cos(direction), math.sin(direction)

    def motion(t: float) -> tuple[float, float, float, float, float, float]:
        s, c = math.sin(rate * t + phase), rate * math.cos(rate * t + phase)
        x, y = center[0] + amplitude * dx * s, center[1] + amplitude * dy * s
        return x, y, angle + pitch * s, amplitude * dx * c, amplitude * dy * c, pitch * c

    return motion


def rotation(center: tuple[float, float], rate: float, *, angle: float = 0.0) -> Motion:
    """Rotate about ``center`` at a constant ``rate`` in radians per D/U, from ``angle``."""

    def motion(t: float) -> tuple[float, float, float, float, float, float]:
        return center[0], center[1], angle + rate * t, 0.0, 0.0, rate

    return motion


def ramp(
    center: tuple[float, float],
    velocity: tuple[float, float],
    duration: float,
    *,
    smooth: bool = True,
    angle: float = 0.0,
) -> Motion:
    """Accelerate from rest to a constant velocity.

    Parameters
    ----------
    center : (float, float)
        Initial position.
    velocity : (float, float)
        Final velocity, in units of U.
    duration : float
        Time until it is reached, in units of D/U.
    smooth : bool
        Whether the velocity grows as a half cosine, without a jump of the acceleration, or linearly.
    angle : float
        Constant orientation, in radians.

    Raises
    ------
    ValueError
        For a duration that is not positive.
    """
    if not duration > 0:
        raise ValueError(f"duration = {duration!r}: the duration of a ramp must be positive")

    def motion(t: float) -> tuple[float, float, float, float, float, float]:
        s = min(max(t / duration, 0.0), 1.0)
        after = max(t - duration, 0.0)
        if smooth:
            speed, way = (
                0.5 - 0.5 * math.cos(math.pi * s),
                0.5 * s - math.sin(math.pi * s) / (2 * math.pi),
            )
        else:
            speed, way = s, 0.5 * s * s
        way = way * duration + after
        return (
            center[0] + way * velocity[0],
            center[1] + way * velocity[1],
            angle,
            *(speed * v for v in velocity),
            0.0,
        )  # type: ignore[return-value]

    return motion


def added(*motions: Motion) -> Motion:
    """Return the sum of motions: positions, angles and velocities add up, so all but one need the center (0, 0)."""

    def motion(t: float) -> tuple[float, float, float, float, float, float]:
        x, y, theta, u, v, omega = (
            sum(parts) for parts in zip(*(m(t) for m in motions), strict=True)
        )
        return x, y, theta, u, v, omega

    return motion
