"""Checks of numbers given by the user."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def is_finite(value: object) -> bool:
    """Return whether a value is one finite real number."""
    try:
        return (
            np.ndim(value) == 0  # type: ignore[arg-type]  # np.ndim also takes lists, strings and None
            and not isinstance(value, str | bytes)
            and math.isfinite(value)  # type: ignore[arg-type]
        )
    except (TypeError, ValueError, OverflowError):
        return False


def has_two(value: object) -> bool:
    """Return whether a value has two elements, such as the coordinates of a point."""
    try:
        _, _ = value  # type: ignore[misc]
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str | bytes)


def is_vector(value: object) -> bool:
    """Return whether a value is two finite real numbers."""
    return has_two(value) and all(is_finite(part) for part in value)  # type: ignore[attr-defined]


def is_positive(value: object) -> bool:
    """Return whether a value is one finite real number above zero."""
    return is_finite(value) and value > 0  # type: ignore[operator]


def refuse_unless_positive(name: str, values: NDArray[np.float64]) -> None:
    """Raise an error unless all numbers are positive and finite.

    Raises
    ------
    ValueError
    """
    fine = (values > 0) & (values < np.inf)
    if not fine.all():
        raise ValueError(f"{name} = {values[~fine].flat[0]:g}: it must be positive and finite")


def is_whole(value: object) -> bool:
    """Return whether a value is an integer of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
