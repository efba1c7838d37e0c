"""Formulas of single points, written for whole arrays."""

from typing import Any

from flowsim.distances import signed_distance
from flowsim.kept import at_once

Array = Any


@at_once
def write_distances(shape: int, a: float, b: float, x: Array, y: Array, out: Array) -> None:
    """Write :func:`flowsim.distances.signed_distance` of points (n,) to ``out`` (n,)."""
    for i in range(len(out)):
        out[i] = signed_distance(shape, a, b, x[i], y[i])
