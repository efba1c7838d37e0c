"""Work arrays of the sweeps."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any

MOMENTS, WORK, ROW_SUMS = 5, 10, 12
"""Columns of the sums of a row: the moments of u, then of v; the work of a deformation on u and on v; number of
columns."""
ANGLE, SPIN, X, Y, CENTER_X, CENTER_Y, I_LOW, I_HIGH, J_LOW, J_HIGH = range(10)
"""Columns of a place: angle and spin of the body, its reference point, its centre of mass, its window."""
MEETS, VX, VY, OMEGA, PLACE_COLUMNS = range(10, 15)
"""Whether it may touch another body, and the motion towards which the fluid under it is penalised; number of
columns."""


class Room(NamedTuple):
    """Work arrays of the sweeps.

    Attributes
    ----------
    rows
        A few rows for each worker, (workers, 5, n), n > ny + 1.
    places
        Place of the body that is being processed, (B, 15) float64.
    sums
        Sums over the rows of its window, (B, nx, 12) float64.
    """

    rows: Array
    places: Array
    sums: Array
