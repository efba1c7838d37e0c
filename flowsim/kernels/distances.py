"""Distance of a point from a body, shared by all backends: by formulas, or from a table."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

from flowsim.kernels.device_function import device_function


class Shape(IntEnum):
    """Numbers of the shapes in the compiled sweeps."""

    DISK = 0
    HALF_DISK = 1
    ELLIPSE = 2
    TABLE = 3
    MIDLINE = 4


HALF_DISK, ELLIPSE, TABLE = int(Shape.HALF_DISK), int(Shape.ELLIPSE), int(Shape.TABLE)
MIDLINE = int(Shape.MIDLINE)


@device_function
def signed_distance(shape: int, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return the signed distance (negative inside) of the point (x, y) in the frame of a body from its surface.

    ``a`` and ``b`` are the semi-axes; a disk has a = b, and a half disk is its half x < 0. The distance from an ellipse
    is exact to first order near the surface, which suffices for a mask one cell wide.
    """
    if shape == ELLIPSE:
        scaled = math.sqrt((x / a) ** 2 + (y / b) ** 2)
        slope = math.sqrt((x / a**2) ** 2 + (y / b**2) ** 2)
        if slope < 1e-12:
            return -min(a, b)
        return max(scaled * (scaled - 1.0) / slope, -min(a, b))
    distance = math.sqrt(x * x + y * y) - a
    if shape == HALF_DISK:
        return max(distance, x)
    return distance


@device_function
def tabulated_distance(table: Any, start: int, side: int, reach: Any, x: Any, y: Any) -> Any:
    """Return the distance at (x, y) by bilinear interpolation in a square table over [-reach, reach]^2.

    Beyond the table the distance to its edge is added, so that it keeps growing.
    """
    spacing = 2.0 * reach / (side - 1)
    inside_x, inside_y = min(max(x, -reach), reach), min(max(y, -reach), reach)
    s, t = (inside_x + reach) / spacing, (inside_y + reach) / spacing
    # not below the table if the position of the body is NaN
    i, j = max(min(int(s), side - 2), 0), max(min(int(t), side - 2), 0)
    s, t = s - i, t - j
    k = start + i * side + j
    low = (1.0 - s) * table[k] + s * table[k + side]
    high = (1.0 - s) * table[k + 1] + s * table[k + side + 1]
    return (1.0 - t) * low + t * high + math.sqrt((x - inside_x) ** 2 + (y - inside_y) ** 2)
