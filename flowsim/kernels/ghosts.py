"""Ghost points beyond the sides of the box, line by line, shared by all backends.

Fields of faces are flat here. A line goes from one side to the opposite one; entry m of it is ``f[start + m * step]``.

Normal velocity is filled only from faces in the box and on its sides. Tangential velocity is filled from that of the
same line, which in a ghost line is computed by :func:`fill_normal`, and from the normal velocity on the sides.
"""

from __future__ import annotations

from typing import Any

from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import PERIODIC, ghost_across, ghost_along
from flowsim.kernels.device_function import device_function

Array = Any


@device_function
def fill_normal(f: Array, start: int, step: int, n: int, kind_low: int, kind_high: int) -> None:
    """Fill the ghost points at both ends of a line of f, the velocity normal to the two sides.

    Entries G and G + n lie on the sides.
    """
    first, last = start + G * step, start + (G + n - 1) * step
    if kind_low == PERIODIC:
        f[first - step] = f[last]
        f[first - 2 * step] = f[last - step]
        f[last + step] = f[first]
        f[last + 2 * step] = f[first + step]
        return
    f[first - step] = ghost_across(kind_low, f[first], f[first + step])
    f[first - 2 * step] = ghost_across(kind_low, f[first], f[first + 2 * step])
    f[last + 2 * step] = ghost_across(kind_high, f[last + step], f[last])


@device_function
def fill_beyond(
    f: Array, inside: int, outwards: int, kind: int, wall: Any, turn: Any, enters: bool
) -> None:
    """Fill the two ghost points beyond one end of a line; the side is half a cell outside entry ``inside``."""
    three = f.dtype.type(3)
    f[inside + outwards] = ghost_along(kind, f[inside], wall, turn, enters)
    f[inside + 2 * outwards] = ghost_along(kind, f[inside - outwards], wall, three * turn, enters)


@device_function
def face_of_side(at: int, lines: int, ring: bool) -> int:
    """Return the face of a side that represents face ``at`` of it, which may lie beyond its ends.

    A face beyond the ends is represented by the end face or, in a periodic box, by its image, which no sweep over ghost
    points writes.
    """
    if not ring:
        return min(max(at, G), lines - G - 1)
    faces = lines - 2 * G
    if at < G:
        return at + faces
    return at - faces if at >= G + faces else at


# many arguments: a line in flat arrays takes six numbers; one backend loops over lines, the other has a thread for each
@device_function
def fill_tangential(
    f: Array,
    normal: Array,
    start: int,
    step: int,
    n: int,
    sides: Array,
    low: int,
    given: Array,
    b: int,
    component: int,
    at: int,
    to_next: int,
    lines: int,
) -> None:
    """Fill the ghost points at both ends of one line, of velocity tangential to the sides ``low`` and ``low + 1``.

    ``at`` is the index of the line along the sides, and into the velocities ``given`` there. It is one of ``lines``,
    ghosts included, and the next one is ``to_next`` entries away. ``normal`` is the velocity normal to the sides.
    """
    first, last = start + G * step, start + (G + n - 1) * step
    if sides[low] == PERIODIC:
        f[first - step] = f[last]
        f[first - 2 * step] = f[last - step]
        f[last + step] = f[first]
        f[last + 2 * step] = f[first + step]
        return
    across, before = 1 - component, max(at - 1, 0)
    # the two normal faces beside the line
    ring = sides[2 - low] == PERIODIC
    one, other = (
        (face_of_side(before, lines, ring) - at) * to_next,
        (face_of_side(at, lines, ring) - at) * to_next,
    )
    enters = -(normal[first + one] + normal[first + other]) < 0
    turn = given[b, low, across, at] - given[b, low, across, before]
    fill_beyond(f, first, -step, sides[low], given[b, low, component, at], -turn, enters)
    enters = normal[last + step + one] + normal[last + step + other] < 0
    turn = given[b, low + 1, across, at] - given[b, low + 1, across, before]
    fill_beyond(f, last, step, sides[low + 1], given[b, low + 1, component, at], turn, enters)
