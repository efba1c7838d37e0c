"""Names of the units of a flow in pictures."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DIAMETERS", "Units", "units_of"]


class Units(NamedTuple):
    """Names of units. The density is always that of the fluid, rho."""

    length: str
    time: str
    speed: str
    rate: str
    """Unit of vorticity and divergence."""
    pressure: str


def units_of(length: str, time: str | None = None) -> Units:
    """Return the names of the units of a flow.

    Parameters
    ----------
    length : str
        Unit of length, such as ``D``.
    time : str, optional
        Unit of time, such as ``T``; unless given, the unit of speed is U and that of time is length/U.
    """
    if time is None:
        return Units(length, f"{length}/U", "U", f"U/{length}", "rho U^2")
    return Units(length, time, f"{length}/{time}", f"1/{time}", f"rho {length}^2/{time}^2")


DIAMETERS = units_of("D")
"""Units of a flow past a body of size D in a stream of speed U."""
