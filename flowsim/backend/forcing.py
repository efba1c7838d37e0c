"""The force per unit mass that drives a flow: uniform, controlled to hold a mean velocity, or a field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend.host.given import has_two
from flowsim.grid import Grid

FloatArray = NDArray[np.float64]
Vectors = Sequence[Any] | NDArray[np.floating]
"""Two numbers or None, or (B, 2) of them."""
ForceField = Callable[[FloatArray, FloatArray], tuple[ArrayLike, ArrayLike]]
"""Function of the coordinate arrays x and y that returns the components of the force along x and y there."""


def vectors(name: str, given: Vectors, batch: int, none: bool = False) -> FloatArray:
    """Return (B, 2) numbers; None is allowed with ``none`` and becomes NaN.

    Raises
    ------
    ValueError
        For a wrong shape, or numbers that are not finite.
    """
    try:
        values = np.array(given, np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    fine = np.isfinite(values) | (np.isnan(values) & none)
    if values.shape not in ((2,), (batch, 2)) or not fine.all():
        numbers = "finite numbers or None" if none else "finite numbers"
        raise ValueError(f"{name} = {given!r}: it must be two {numbers}, or ({batch}, 2) of them")
    return np.broadcast_to(values, (batch, 2)).copy()


def check_mean_velocity(held: FloatArray, periodic: tuple[bool, bool]) -> None:
    """Raise an error for a mean velocity along a direction that is not periodic.

    Raises
    ------
    ValueError
    """
    for n, name in enumerate("xy"):
        if not (periodic[n] or np.isnan(held[:, n]).all()):
            raise ValueError(
                f"mean_velocity: along {name} it can be held only between periodic sides"
            )


def check_one_drive(held: FloatArray, force: FloatArray) -> None:
    """Raise an error for a mean velocity along a direction that has a given force.

    Raises
    ------
    ValueError
    """
    for n, name in enumerate("xy"):
        if (np.isfinite(held[:, n]) & (force[:, n] != 0)).any():
            raise ValueError(
                f"body_force and mean_velocity are both given along {name}: the force follows from the mean velocity"
            )


def on_faces(field: ForceField, grid: Grid, batch: int) -> tuple[FloatArray, FloatArray]:
    """Return a force field, shape (B, nx + 2 G, ny + 2 G): along x on the faces of u, and along y on those of v.

    Raises
    ------
    ValueError
        For values that are not finite or of a wrong shape.
    """
    sampled = []
    for component, places in enumerate((grid.u_faces(), grid.v_faces())):
        parts: Any = field(*places)
        shape = (batch, *grid.padded_shape)
        if not has_two(parts):
            raise ValueError("force_field must return two components, along x and along y")
        values = np.asarray(parts[component], np.float64)
        try:
            values = np.broadcast_to(values, shape).copy()
        except ValueError:
            raise ValueError(
                f"force_field returns an array of the shape {values.shape} for coordinates of {shape[1:]}"
            ) from None
        if not np.isfinite(values).all():
            raise ValueError("force_field is not finite everywhere")
        sampled.append(values)
    return sampled[0], sampled[1]
