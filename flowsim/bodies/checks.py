"""Checks of bodies: numbers, positions, motions, and overlaps with sides and with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import has_two, is_finite, is_vector, is_whole
from flowsim.backend.temperature import Temperature
from flowsim.bodies.jets import Jet
from flowsim.bodies.resolution import extent_of
from flowsim.bodies.shapes import Body
from flowsim.bodies.swimmers import Swimmer
from flowsim.boundary import SIDE_NAMES, Sides, normal_to_x
from flowsim.grid import Grid

FloatArray = NDArray[np.float64]


def check_kinds(
    grid: Grid,
    sides: Sides,
    bodies: Sequence[Body],
    jets: Sequence[Jet],
    temperature: Temperature | None,
) -> None:
    """Check the types of what a flow is made of.

    Raises
    ------
    ValueError
        For anything of another type, such as a body or a jet that is not in a sequence.
    """
    if not isinstance(grid, Grid):
        raise ValueError(f"grid = {grid!r}: it must be a Grid, such as Grid(192, 96, 1 / 12)")
    if not isinstance(sides, Sides):
        raise ValueError(f'sides = {sides!r}: it must be a Sides, such as Sides.all("periodic")')
    if not isinstance(bodies, Sequence) or isinstance(bodies, str):
        raise ValueError(f"bodies = {bodies!r}: it must be a list of bodies")
    for k, body in enumerate(bodies):
        if not isinstance(body, Body):
            raise ValueError(f"body {k} is {body!r}: it must be a body, such as Disk()")
    if not isinstance(jets, Sequence) or not all(isinstance(jet, Jet) for jet in jets):
        raise ValueError(f"jets = {jets!r}: it must be a list of jets")
    if not isinstance(temperature, Temperature | None):
        raise ValueError(
            f"temperature = {temperature!r}: it must be a Temperature, such as Temperature(0.01)"
        )


def check_sensors(sensors: Sequence[tuple[int, tuple[float, float]]], bodies: int) -> None:
    """Refuse sensors on bodies that do not exist, or at points that are not finite.

    Raises
    ------
    ValueError
    """
    for n, sensor in enumerate(sensors):
        if not has_two(sensor):
            raise ValueError(f"sensor {n} is {sensor!r}, but must be a body's number and a point")
        body, point = sensor
        if not (is_whole(body) and 0 <= body < bodies):
            raise ValueError(f"sensor {n} is on body {body!r}, but there are {bodies} bodies")
        if not is_vector(point):
            raise ValueError(f"sensor {n} is at {point!r}, but must be at two finite numbers")


TIMES = (0.0, 0.13, 0.57, 1.19, 2.71)
"""Times at which the velocity of a motion is compared with the derivative of its position."""
APART = 0.05
"""Allowed difference, relative to the larger of the two; a motion may be interpolated from a table."""


def check_bodies(bodies: Sequence[Body], grid: Grid, sides: Sides) -> None:
    """Refuse bodies that cannot be simulated as they are given.

    Raises
    ------
    ValueError
        For positions outside the box, a solid on an inflow side, a motion that is not six finite
        numbers or whose velocity is not the derivative of its position, or a free body lighter than the fluid that
        overlaps another body.
    """
    for k, body in enumerate(bodies):
        x, y, angle = _start(k, body)
        for axis, (name, at) in enumerate((("x", x), ("y", y))):
            if not sides.periodic[axis] and not 0 <= at <= grid.size[axis]:
                raise ValueError(
                    f"body {k} is at {name} = {at:g}, outside the box of {grid.size[0]:g} x {grid.size[1]:g}"
                )
        if callable(body.motion):
            _check_motion(k, body)
        if not isinstance(body, Swimmer):
            _check_inflow(k, body, np.array([x, y]), angle, grid, sides)
    _check_light_bodies(bodies)


def state_of_motion(k: int, body: Body, time: float) -> tuple[float, ...]:
    """Return (x, y, theta, u, v, omega) of driven body k at a time.

    Raises
    ------
    ValueError
        If its motion returns anything but six finite numbers.
    """
    assert callable(body.motion)
    state = body.motion(time)
    try:
        fine = len(state) == 6 and all(is_finite(value) for value in state)
    except TypeError:
        fine = False
    if not fine:
        raise ValueError(
            f"body {k}: its motion at time {time:g} is {state!r}, but must be six finite numbers, "
            "(x, y, theta, u, v, omega)"
        )
    return state


def _start(k: int, body: Body) -> tuple[float, float, float]:
    if callable(body.motion):
        x, y, angle, *_ = state_of_motion(k, body, 0.0)
        return x, y, angle
    return *body.center, body.angle


def _check_motion(k: int, body: Body) -> None:
    """Refuse a motion that is wrong at most of the times; a kink at one of them is allowed."""
    step, wrong = 1e-5, []
    for t in TIMES[1:]:
        before, now, after = (np.array(state_of_motion(k, body, t + d)) for d in (-step, 0.0, step))
        slope = (after[:3] - before[:3]) / (2 * step)
        allowed = APART * np.maximum(np.abs(slope), np.abs(now[3:])) + 1e-3
        if not (np.abs(slope - now[3:]) <= allowed).all():
            wrong.append((t, slope, now[3:]))
    if len(wrong) > len(TIMES[1:]) / 2:
        t, slope, given = wrong[0]
        raise ValueError(
            f"body {k}: the velocity of its motion at time {t:g} is {_numbers(given)}, "
            f"but the derivative of its position is {_numbers(slope)}"
        )


def _numbers(values: FloatArray) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


def _check_inflow(
    k: int, body: Body, place: FloatArray, angle: float, grid: Grid, sides: Sides
) -> None:
    low, high = extent_of(body, place, angle)
    for number, side in enumerate(SIDE_NAMES):
        axis = 0 if normal_to_x(number) else 1
        at = 0.0 if number % 2 == 0 else grid.size[axis]
        if getattr(sides, side) == "inflow" and low[axis] < at < high[axis]:
            raise ValueError(
                f"body {k} covers a part of the {side} side, through which fluid enters"
            )


def _check_light_bodies(bodies: Sequence[Body]) -> None:
    """Refuse free bodies lighter than the fluid that overlap another body, because shared cells are unstable."""
    for k, body in enumerate(bodies):
        if body.motion != "free" or body.density >= 1.0 or isinstance(body, Swimmer):
            continue
        for other, beside in enumerate(bodies):
            if other == k or isinstance(beside, Swimmer):
                continue
            if _overlap(body, beside):
                raise ValueError(
                    f"bodies {min(k, other)} and {max(k, other)} overlap, and body {k} is free and "
                    "lighter than the fluid: set them apart"
                )


def _overlap(one: Body, other: Body) -> bool:
    """Return whether a surface point or the centre of mass of one body lies inside the other."""
    for body, beside in ((one, other), (other, one)):
        own = np.concatenate([*body.surface, [body.centroid]])
        c, s = np.cos(body.angle), np.sin(body.angle)
        away = own @ np.array([[c, s], [-s, c]]) + np.subtract(body.center, _center(beside))
        angle = beside.angle
        c, s = np.cos(angle), np.sin(angle)
        x, y = (away @ np.array([[c, -s], [s, c]])).T
        if (beside.distance(x, y) < 0).any():
            return True
    return False


def _center(body: Body) -> tuple[float, float]:
    if not callable(body.motion):
        return body.center
    x, y, *_ = body.motion(0.0)
    return x, y
