"""Formulas for single points, applied to whole arrays."""

from typing import Any

from flowsim.backend.jit_cache import at_once
from flowsim.kernels.distances import signed_distance

Array = Any


@at_once
def write_distances(shape: int, a: float, b: float, x: Array, y: Array, out: Array) -> None:
    """Write :func:`flowsim.kernels.distances.signed_distance` of points (n,) to ``out`` (n,)."""
    for i in range(len(out)):
        out[i] = signed_distance(shape, a, b, x[i], y[i])
