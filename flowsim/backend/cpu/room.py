"""Room that sweeps need beside the fields."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any

MOMENTS, WORK, ROW_SUMS = 5, 10, 12
"""Columns of the sums of a row: the moments of u, then of v; the work of a deformation on u and on v; all of them."""
ANGLE, SPIN, X, Y, CENTER_X, CENTER_Y, I_LOW, I_HIGH, J_LOW, J_HIGH = range(10)
"""Columns of a place: angle and spin of the body, its reference point, its centre of mass, its window."""
MEETS, VX, VY, OMEGA, PLACE_COLUMNS = range(10, 15)
"""Whether it may touch another body, and the motion towards which the fluid under it is penalised; all of them."""


class Room(NamedTuple):
    """Room that sweeps need beside the fields.

    Attributes
    ----------
    rows
        A few rows for each worker, (workers, 5, n), n > ny + 1.
    places
        The body that is looked at, as it was found, (B, 15) float64.
    sums
        Over the rows of its window, (B, nx, 12) float64.
    """

    rows: Array
    places: Array
    sums: Array
