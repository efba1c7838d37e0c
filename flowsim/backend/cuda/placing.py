"""Placing of bodies: the first launch over them, which moves them and finds their windows and levels.

A body has level zero if its window overlaps that of no less movable body, one if it only overlaps those of level zero,
and two otherwise. The code for bending bodies is compiled only for simulations that have some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import cuda

from flowsim.backend.cuda.jets import ramp_jets
from flowsim.backend.cuda.launching import SIMULATED, Kernel
from flowsim.backend.cuda.windows import (
    AT_X,
    AT_Y,
    COSINE,
    DIFFUSION,
    INSIDE,
    LEVEL,
    MASS_X,
    MASS_Y,
    MEETS,
    RANK,
    SINE,
    STEPS,
    BodyRoom,
)
from flowsim.bodies.table import TOUCHES_BOX, BodyTable
from flowsim.kernels.body_geometry import (
    diffusion_at_surface,
    locate_body,
    touches_box,
    windows_meet,
)
from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import (
    ANGLE,
    DT,
    FREE,
    VISCOSITY,
)
from flowsim.kernels.records import Bodies, Box, Clock, Fields
from flowsim.kernels.rigid import move_body
from flowsim.kernels.time import grip_of_step

Array = Any
_Table: Any = BodyTable


@device_function
def all_bodies(bodies: BodyTable) -> BodyTable:
    """Return the table of bodies unchanged, for simulations with bending bodies."""
    return bodies


@device_function
def rigid_bodies(bodies: BodyTable) -> Any:
    """Return the table of bodies without what only bending bodies need: code that depends on None is not compiled."""
    return _Table(
        bodies.traits, bodies.kinds, bodies.order, bodies.support, bodies.distances,
        None, None, None, None,
    )  # fmt: skip


@cuda.jit(device=True)
def placed(room: Any, n: int, k: int) -> Any:
    """Return how a body was placed.

    Reference point and direction, centre of mass, window, and how strongly its surface holds the fluid: grip and
    diffusion.
    """
    place, window = room.places[n, k], room.windows[n, k]
    return (
        (place[AT_X], place[AT_Y], place[COSINE], place[SINE]),
        (place[MASS_X], place[MASS_Y]),
        (window[0], window[1], window[2], window[3]),
        ((place[INSIDE], place[STEPS]), place[DIFFUSION]),
    )


def _placing(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _place(
        active: Array, fields: Fields, bodies: Bodies, time: Clock, box: Box, room: BodyRoom,
        penalty: float, moves: bool,
    ) -> None:  # fmt: skip
        """Move bodies, note their contacts with the box, and compute their windows, levels, and grip on the fluid."""
        n, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
        if not active[n]:
            return
        table, state, clock, h, sides = (
            view(bodies.table), bodies.state, time.columns, box.h, box.sides,
        )  # fmt: skip
        nx, ny, dt = fields.pressure.shape[1], fields.pressure.shape[2], clock[n, DT]
        inside, steps = grip_of_step(clock[n], penalty, h, moves)
        for rank in range(t, len(table.order), threads):
            k = table.order[rank]
            body = state[n, k]
            if moves:
                move_body(table.traits[k], table.kinds[k, FREE], body, dt)
            theta = body[ANGLE]
            x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, table, body, h, nx, ny, sides)
            touches = touches_box(table, n, k, x, y, theta, h, nx, ny, sides)
            bodies.contact[n, k] = TOUCHES_BOX if touches else 0
            place, window = room.places[n, k], room.windows[n, k]
            place[AT_X], place[AT_Y], place[MASS_X], place[MASS_Y] = x, y, xc, yc
            place[COSINE], place[SINE] = math.cos(theta), math.sin(theta)
            place[INSIDE], place[STEPS] = inside, steps
            place[DIFFUSION] = diffusion_at_surface(table, k, clock[n, VISCOSITY], dt, h)
            window[0], window[1], window[2], window[3] = i0, i1, j0, j1
            window[RANK] = rank
        for level in range(2):
            cuda.syncthreads()
            for rank in range(t, len(table.order), threads):
                window = room.windows[n, table.order[rank]]
                rises = False
                for earlier in range(rank):
                    other = room.windows[n, table.order[earlier]]
                    if windows_meet(window, other, nx, ny, sides):
                        rises = rises or level == 0 or other[MEETS] > 0
                if level == 0:
                    window[MEETS] = window[LEVEL] = 1 if rises else 0
                elif rises:
                    window[LEVEL] = 2 + rank

    return _place


_place, _place_bent = _placing(rigid_bodies), _placing(all_bodies)


def place_bodies(
    active: Array, fields: Fields, bodies: Bodies, time: Clock, box: Box, room: BodyRoom,
    penalty: float, moves: bool,
) -> None:  # fmt: skip
    """Move free and turning bodies, locate all bodies, and move the flow rates of their jets towards the targets."""
    place = _place_bent if len(bodies.table.nodes) else _place
    place.launch(
        (len(active),), (8 if SIMULATED else 32,), active, fields, bodies, time, box, room, penalty,
        moves,
    )  # fmt: skip
    if bodies.jets is not None and moves:
        ramp_jets(active, bodies.jets, time.columns)
