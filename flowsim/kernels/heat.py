"""The temperature of a flow, shared by all backends: ghost points, buoyancy, the flux through a side.

The temperature is defined at the cell centres, in padded arrays like the velocity, and is transported by the same flux
as momentum (:func:`flowsim.kernels.cell.flux`). Fields are flat here. A line goes from one side to the opposite one.
"""

from __future__ import annotations

from typing import Any

from flowsim.boundary import BOTTOM, LEFT, RIGHT, TOP
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import OPEN, PERIODIC, TWO
from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import DIFFUSIVITY

Array = Any

# columns of a flow (B, 3)
BUOYANCY_X, BUOYANCY_Y, REFERENCE = range(3)
"""Acceleration per unit of temperature, and the temperature without buoyancy."""
HEAT_COLUMNS = 3

GIVEN, FLUX, ENTERING = range(3)
"""Thermal condition of a side: a given temperature, a given flux, or a given temperature of the fluid that enters
there."""


@device_function
def buoyancy(one: Any, other: Any, half: Any, level: Any) -> Any:
    """Return the acceleration of the face between two cells.

    ``half`` is half the acceleration per unit of temperature, ``level`` the acceleration at the reference temperature.
    """
    return half * (one + other) - level


@device_function
def _fill_beyond(
    t: Array, inside: int, outwards: int, kind: int, given: Any, way: Any, enters: bool
) -> None:
    """Fill the two ghost points beyond one end of a line; the side is half a cell outside entry ``inside``.

    ``way`` is h over the diffusivity.
    """
    near, next_one = t[inside], t[inside - outwards]
    if kind == GIVEN:
        near, next_one = TWO * given - near, TWO * given - next_one
    elif kind == FLUX:
        three = t.dtype.type(3)
        near, next_one = near + way * given, next_one + three * way * given
    elif enters:
        near, next_one = given, given
    t[inside + outwards] = near
    t[inside + 2 * outwards] = next_one


@device_function
def fill_line(
    heat: Any, temperature: Array, normal: Array, clock: Array, box: Any, b: int, low: int, m: int
) -> None:
    """Fill the ghost points at both ends of line m between the sides ``low`` and ``low + 1`` of simulation b.

    ``temperature`` and ``normal``, the velocity normal to the two sides, are flat; ``box`` is (h, sides, nx, ny).
    """
    real = temperature.dtype.type
    h, sides, nx, ny = box
    high = ny + 2 * G
    start = b * (nx + 2 * G) * high
    across = low == LEFT
    first = start + (G * high + m + G if across else (m + G) * high + G)
    step, n = (high, nx) if across else (1, ny)
    last = first + (n - 1) * step
    t = temperature
    if sides[low] == PERIODIC:
        t[first - step], t[first - 2 * step] = t[last], t[last - step]
        t[last + step], t[last + 2 * step] = t[first], t[first + step]
        return
    way, given = real(h / clock[b, DIFFUSIVITY]), heat.given
    _fill_beyond(t, first, -step, heat.kinds[low], real(given[b, low, m]), way, normal[first] > 0)
    _fill_beyond(
        t, last, step, heat.kinds[low + 1], real(given[b, low + 1, m]), way, normal[last + step] < 0
    )


@device_function
def lifted_faces(sides: Array, along_x: bool, n: int) -> tuple[int, int]:
    """Return the range [first, end) of those of the n + 1 faces of a line whose velocity a step predicts."""
    low, high = (sides[LEFT], sides[RIGHT]) if along_x else (sides[BOTTOM], sides[TOP])
    return 0 if low == PERIODIC or low == OPEN else 1, n + 1 if high == OPEN else n
