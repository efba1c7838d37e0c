"""Fields that a picture of a flow can show, each with a range and a colour map."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flowsim.measure.fields import divergence, q_criterion, streamfunction

if TYPE_CHECKING:
    from flowsim.backend.state import State

Table = NDArray[np.uint8]
Values = NDArray[np.floating[Any]]

HALF = 512
"""Colours on each side of zero: more than 8-bit channels can distinguish."""


def _with_the_scene(simulation: State, b: int) -> Values:
    raise ValueError("this field is not computed from the flow alone: its values come with a scene")


@dataclass(frozen=True)
class Quantity:
    """A field and how it is shown.

    Attributes
    ----------
    name : str
    unit : str
        Unit, with names of :class:`flowsim.render.units.Units` in braces.
    limit : float
        Value at which the colours saturate, in this unit; fixed, so that pictures can be compared.
    signed : bool
        Whether the range is -limit to limit, with white at zero, or 0 to limit, starting with white.
    colours : str
        Name of a cmocean colour map.
    of : callable
        Returns the field of one simulation of a batch, shape (nx, ny), at the cell centres.
        The default raises: it is for fields that only a task can compute, or that come from another process, whose
        values are already in the scene.
    """

    name: str
    unit: str
    limit: float
    signed: bool
    colours: str
    of: Callable[[State, int], Values] = _with_the_scene

    def table(self) -> Table:
        """Return the colours from the smallest to the largest value, shape (2 HALF + 1, 3).

        Raises
        ------
        ValueError
            For an unknown colour map.
        """
        return _table(self.colours, self.signed)

    def along(self, values: Values) -> NDArray[np.float32]:
        """Return fractional table indices of values, not limited to the table; NaN has the index of zero."""
        per_limit = HALF if self.signed else 2 * HALF
        place = np.asarray(values, np.float32) * np.float32(per_limit / self.limit)
        if not np.isfinite(place).all():
            place = np.nan_to_num(place, posinf=2 * HALF, neginf=-2 * HALF)
        zero = HALF if self.signed else 0
        return np.asarray(place + np.float32(zero + 0.5))

    def places(self, values: Values) -> NDArray[np.intp]:
        """Return the table indices of the colours of values."""
        return np.clip(self.along(values), 0, 2 * HALF).astype(np.intp)


def _vorticity(simulation: State, b: int) -> Values:
    return simulation.vorticity(b)


def _speed(simulation: State, b: int) -> Values:
    velocity = simulation.velocity_at_centres(b)
    return np.hypot(velocity[..., 0], velocity[..., 1])


def _pressure(simulation: State, b: int) -> Values:
    pressure = simulation.to_host(simulation.pressure[b])
    return pressure - pressure.mean()  # incompressible: known up to a constant


def _temperature(simulation: State, b: int) -> Values:
    return simulation.temperature_at_centres(b)


VORTICITY = Quantity("vorticity", "{rate}", 8.0, True, "balance", _vorticity)
SPEED = Quantity("speed", "{speed}", 2.0, False, "tempo", _speed)
PRESSURE = Quantity("pressure", "{pressure}", 1.0, True, "curl", _pressure)
Q = Quantity("q", "({rate})^2", 4.0, True, "delta", q_criterion)
STREAMFUNCTION = Quantity("streamfunction", "{speed} {length}", 4.0, True, "tarn", streamfunction)
TEMPERATURE = Quantity("temperature", "", 1.0, False, "amp", _temperature)
DIVERGENCE = Quantity("divergence", "{rate}", 1e-3, True, "diff", divergence)
QUANTITIES = {
    quantity.name: quantity
    for quantity in (VORTICITY, SPEED, PRESSURE, Q, STREAMFUNCTION, DIVERGENCE, TEMPERATURE)
}


def choose(names: str, ranges: str | None = None) -> list[Quantity]:
    """Return quantities by name.

    Parameters
    ----------
    names
        Comma-separated names, such as ``vorticity,speed``.
    ranges
        Values at which colours saturate: ``12`` for the first, or ``vorticity=12,speed=1.5``.

    Raises
    ------
    ValueError
        For names or ranges that are no text, an unknown or repeated name, or a range that is not a positive number for
        one of these quantities.
    """
    for option, given in (("fields", names), ("range", ranges)):
        if not isinstance(given, str) and (option == "fields" or given is not None):
            raise ValueError(f"{option} is {given!r}, but must be text, separated by commas")
    chosen: dict[str, Quantity] = {}
    for name in names.split(","):
        if name not in QUANTITIES or name in chosen:
            raise ValueError(
                f"fields is {names!r}, but must be some of {', '.join(QUANTITIES)}, each once"
            )
        chosen[name] = QUANTITIES[name]
    for word in ranges.split(",") if ranges is not None else ():
        name, _, number = word.rpartition("=")
        name = name or next(iter(chosen))
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if name not in chosen or not 0.0 < limit < math.inf:
            raise ValueError(
                f"range is {ranges!r}, but must be a positive number, or one for each such as {next(iter(chosen))}=4, "
                f"of what is shown ({', '.join(chosen)})"
            )
        chosen[name] = replace(chosen[name], limit=limit)
    return list(chosen.values())


@cache
def _table(name: str, signed: bool) -> Table:
    """Return a colour map with white at zero; signed maps omit their nearly black ends."""
    with warnings.catch_warnings():
        # cmocean uses a deprecated feature of matplotlib
        warnings.simplefilter("ignore", DeprecationWarning)
        import cmocean

    if name not in cmocean.cm.cmapnames:
        raise ValueError(f"colours = {name!r}: they are one of {', '.join(cmocean.cm.cmapnames)}")
    low, high, zero = (0.04, 0.96, HALF) if signed else (0.0, 0.9, 0)
    table = getattr(cmocean.cm, name).resampled(2 * HALF + 1)(np.linspace(low, high, 2 * HALF + 1))[
        :, :3
    ]
    return np.asarray(np.round(255 * np.minimum(table / table[zero], 1.0)).astype(np.uint8))
