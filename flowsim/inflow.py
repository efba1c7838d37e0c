"""Velocity profiles of inflow sides."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.boundary import PROFILES, SIDE_NAMES, Side, Sides, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid

FloatArray = NDArray[np.float64]
Profile = str | ArrayLike | Callable[..., Any]
"""A name, an array, or a function of the coordinate along the side and, optionally, of time."""


class Inflow:
    """The velocity on one inflow side, sampled at the points of the grid.

    Parameters
    ----------
    side : str
    profile : Profile
        See :meth:`flowsim.Simulation.set_inflow`.
    grid : Grid
    batch : int
    stream : (float, float)
        Mean velocity of a profile that is given by name.

    Raises
    ------
    ValueError
        For an unknown name, or values that are not finite or of the wrong shape.
    """

    def __init__(
        self, side: str, profile: Profile, grid: Grid, batch: int, stream: tuple[float, float]
    ) -> None:
        self.name, self.number = f"the profile of side {side}", SIDE_NAMES.index(side)
        self._batch, self._h = batch, grid.h
        across = bool(normal_to_x(self.number))
        self._cells = grid.ny if across else grid.nx
        self._normal = 0 if across else 1
        self._profile = self._named(profile, stream) if isinstance(profile, str) else profile
        self.varies = callable(self._profile) and _takes_time(self._profile)
        self.at(0.0)

    def _named(self, name: str, stream: tuple[float, float]) -> FloatArray:
        if name not in PROFILES:
            raise ValueError(f"{self.name} is {name!r}, but by name it is {', '.join(PROFILES)}")
        s = (np.arange(self._cells) + 0.5) / self._cells
        parabola = s * (1.0 - s)
        return stream[self._normal] * parabola / parabola.mean()

    def at(self, time: float) -> FloatArray:
        """Return the velocity (u, v) along the side, ghost points included, at a time; shape (B, 2, cells + 2 G)."""
        out = np.zeros((self._batch, 2, self._cells + 2 * G))
        for component in (0, 1):
            # the velocity component along the side is defined on the faces between cells
            shift = 0.5 if component == self._normal else 0.0
            s = (np.arange(-G, self._cells + G, dtype=np.float64) + shift) * self._h
            out[:, component] = self._component(component, s, shift, time)
        if not np.isfinite(out).all():
            raise ValueError(f"{self.name} is not finite at time {time:g}")
        return out

    def _component(self, component: int, s: FloatArray, shift: float, time: float) -> FloatArray:
        if callable(self._profile):
            s = np.clip(s, 0.0, self._cells * self._h)
            given = np.asarray(self._profile(s, time) if self.varies else self._profile(s), float)
            values = self._of(given, component, len(s))
        else:
            given = np.asarray(self._profile, float)
            values = self._of(given, component, self._cells)
            if shift:
                values = np.concatenate([values[:, :1]] * G + [values] + [values[:, -1:]] * G, 1)
            else:
                centres = (np.arange(self._cells) + 0.5) * self._h
                values = np.stack([np.interp(s, centres, line) for line in values])
        return values

    def _of(self, given: FloatArray, component: int, count: int) -> FloatArray:
        """Return one component, (1 or B, count), of values of shape (n,), (n, 2), (B, n) or (B, n, 2)."""
        pairs = given.ndim > 1 and given.shape[-1] == 2
        lines = given[..., component] if pairs else given
        if lines.ndim == 0:
            lines = np.full(count, float(lines))
        if lines.shape not in ((count,), (self._batch, count)):
            raise ValueError(
                f"{self.name} has the shape {given.shape}, but must be ({count},), ({count}, 2), "
                f"({self._batch}, {count}) or ({self._batch}, {count}, 2)"
            )
        lines = np.atleast_2d(lines)
        return lines if pairs or component == self._normal else np.zeros_like(lines)


def _takes_time(function: Callable[..., Any]) -> bool:
    """Return whether a function needs two arguments; arguments with a default do not count."""
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
    ]
    return len(needed) > 1


def has_outlet(sides: Sides) -> bool:
    """Return whether fluid can leave through a side."""
    return bool(np.isin(sides.kinds(), (Side.OUTFLOW, Side.OPEN, Side.FAR_FIELD)).any())


def check_stream(sides: Sides, stream: tuple[float, float], grid: Grid) -> None:
    """Refuse a stream that is incompatible with the sides of the box.

    Raises
    ------
    ValueError
        When it enters through an outflow side, or cannot leave the box.
    """
    given, kinds = sides.velocities(stream), sides.kinds()
    for number, side in enumerate(SIDE_NAMES):
        inwards = given[number, 0 if number < 2 else 1] * (1 if number % 2 == 0 else -1)
        if kinds[number] == Side.OUTFLOW and inwards > 0:
            raise ValueError(
                f"stream = {stream!r}: it enters through the {side} side, which is outflow"
            )
    along_x, along_y = given[1, 0] - given[0, 0], given[3, 1] - given[2, 1]
    if not has_outlet(sides) and abs(along_x * grid.ny + along_y * grid.nx) > 1e-12:
        raise ValueError(
            "the stream enters the box but cannot leave it: one side must be outflow, open or far_field"
        )
