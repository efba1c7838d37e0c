"""Symmetric foils of the NACA four-digit series, as corners for :func:`flowsim.polygon`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

HALF_THICKNESS = (0.2969, -0.1260, -0.3516, 0.2843, -0.1036)
"""Coefficients of sqrt(s), s, s^2, s^3, s^4 in y / (5 t) (Jacobs, Ward and Pinkerton 1933).

The last one closes the trailing edge; in the report it is -0.1015, which gives a blunt edge.
"""


def naca(thickness: float = 0.12, *, pivot: float = 0.5, points: int = 80) -> FloatArray:
    """Return the corners of a symmetric NACA foil of chord 1, anticlockwise from the sharp trailing edge.

    The chord lies along x with the leading edge at x = -pivot, so a body with these corners rotates about the pivot,
    which is its ``center``. NACA 0012 has the ``thickness`` 0.12.

    Parameters
    ----------
    thickness : float
        Largest thickness over the chord.
    pivot : float
        Distance of the origin from the leading edge, in chords.
    points : int
        Number of points on each side, clustered at both ends.

    Returns
    -------
    (2 points - 2, 2)

    Raises
    ------
    ValueError
        For a thickness that is not between 0 and 1, or fewer than three points.
    """
    if not 0.0 < thickness < 1.0:
        raise ValueError(f"thickness = {thickness!r}: a foil is between 0 and 1 chords thick")
    if points < 3:
        raise ValueError(f"points = {points!r}: a foil needs at least 3 points on each side")
    s = 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, points)))
    root, *others = HALF_THICKNESS
    half = (
        5.0 * thickness * (root * np.sqrt(s) + sum(c * s ** (n + 1) for n, c in enumerate(others)))
    )
    half[-1] = 0.0
    above, below = np.stack([s - pivot, half], axis=1), np.stack([s - pivot, -half], axis=1)
    return np.concatenate([above[::-1], below[1:-1]])
