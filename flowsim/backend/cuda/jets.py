"""Sweeps over the windows of jets, with a block of threads for each body or each simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.flow import place_along_y, sign_along_y
from flowsim.backend.cuda.launching import SIMULATED, Kernel, block_sums
from flowsim.backend.cuda.windows import (
    AT_X,
    AT_Y,
    COSINE,
    INSIDE,
    LEVEL,
    MASS_X,
    MASS_Y,
    SINE,
    STEPS,
    BodyRoom,
)
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import within, wrapped
from flowsim.kernels.cell import share_of_reference_step
from flowsim.kernels.jets import (
    BODY,
    FLOW_RATE,
    add_gain,
    jet_frame,
    jet_source,
    jet_velocity,
    jet_window,
    net_flow_rate,
    note_jet,
)
from flowsim.kernels.jets import ramp_jets as ramp
from flowsim.kernels.layout import ANGLE, DT, X, Y
from flowsim.kernels.mass_balance import balance_sides
from flowsim.kernels.records import Bodies, Box, Clock, Fields

Array = Any
THREADS = 8 if SIMULATED else 128


@Kernel
def _ramp_jets(active: Array, jets: Any, clock: Array) -> None:
    n = cuda.blockIdx.x
    if active[n]:
        ramp(jets, n, clock[n, DT])


def ramp_jets(active: Array, jets: Any, clock: Array) -> None:
    """Move the flow rates of all jets towards their targets."""
    _ramp_jets.launch((len(active),), (1,), active, jets, clock)


@Kernel
def _weigh_jets(
    active: Array, level: int, fields: Fields, bodies: Bodies, box: Box, room: BodyRoom
) -> None:
    """Subtract the jets' part from the sums over the faces under bodies of a level, and store the jets' momentum."""
    k, n, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[n] or room.windows[n, k, LEVEL] != level:
        return
    scratch = cuda.shared.array((6, THREADS), np.float64)
    jets: Any = bodies.jets
    shares, h, sides = fields.shares, box.h, box.sides
    nx, ny = shares.shape[2] - 2 * G, shares.shape[3] - 2 * G
    place, sums = room.places[n, k], room.sums[n, k]
    grip = place[INSIDE], place[STEPS]
    for j in range(len(jets.kinds)):
        if jets.kinds[j, BODY] != k:
            continue
        frame = jet_frame(jets, j, place[AT_X], place[AT_Y], place[COSINE], place[SINE])
        i0, i1, j0, j1 = jet_window(frame, h, nx, ny, sides)
        sx, sy, st = 0.0, 0.0, 0.0
        mx, my, mt = 0.0, 0.0, 0.0
        for cell in range(t, (i1 - i0) * (j1 - j0), cuda.blockDim.x):
            i, m = i0 + cell // (j1 - j0), j0 + cell % (j1 - j0)
            a, b = wrapped(i, nx) + G, wrapped(m, ny) + G
            if shares[0, n, a, b] > 0.0:
                fx, fy = i * h, (m + 0.5) * h
                w, speed = np.float64(shares[0, n, a, b]), jet_velocity(frame, True, fx, fy, h)
                part, solid = w * speed, share_of_reference_step(w, grip) * speed
                sx, mx = sx + part, mx + solid
                st, mt = st - part * (fy - place[MASS_Y]), mt - solid * (fy - place[MASS_Y])
            if shares[1, n, a, b] > 0.0:
                fx, fy = (i + 0.5) * h, m * h
                w, speed = np.float64(shares[1, n, a, b]), jet_velocity(frame, False, fx, fy, h)
                part, solid = w * speed, share_of_reference_step(w, grip) * speed
                sy, my = sy + part, my + solid
                st, mt = st + part * (fx - place[MASS_X]), mt + solid * (fx - place[MASS_X])
        block_sums((sx, sy, st, mx, my, mt), scratch)
        if t == 0:
            jet = jets.state[n, j]
            rate = jet[FLOW_RATE]
            sums[3, 0] -= rate * scratch[0, 0]
            sums[8, 0] -= rate * scratch[1, 0]
            sums[9, 0] -= rate * scratch[2, 0]
            scale = h * h * rate
            note_jet(jet, scale * scratch[3, 0], scale * scratch[4, 0], scale * scratch[5, 0])


@Kernel
def _add_jets(
    active: Array,
    level: int,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: BodyRoom,
) -> None:
    """Add the velocity of the jets to that of the fluid under bodies of a level."""
    k, n, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[n] or room.windows[n, k, LEVEL] != level:
        return
    jets: Any = bodies.jets
    u, v, shares = fields.new_u, fields.new_v, fields.shares
    nx, ny, real, h = u.shape[1] - 2 * G, u.shape[2] - 2 * G, u.dtype.type, box.h
    place = room.places[n, k]
    for j in range(len(jets.kinds)):
        if jets.kinds[j, BODY] != k:
            continue
        rate = jets.state[n, j, FLOW_RATE]
        frame = jet_frame(jets, j, place[AT_X], place[AT_Y], place[COSINE], place[SINE])
        i0, i1, j0, j1 = jet_window(frame, h, nx, ny, box.sides)
        for cell in range(t, (i1 - i0) * (j1 - j0), cuda.blockDim.x):
            i, m = i0 + cell // (j1 - j0), j0 + cell % (j1 - j0)
            a, b = wrapped(i, nx) + G, wrapped(m, ny) + G
            if shares[0, n, a, b] > 0.0:
                jet = jet_velocity(frame, True, i * h, (m + 0.5) * h, h)
                u[n, a, b] += shares[0, n, a, b] * real(rate * jet)
            if shares[1, n, a, b] > 0.0:
                jet = jet_velocity(frame, False, (i + 0.5) * h, m * h, h)
                v[n, a, b] += shares[1, n, a, b] * real(rate * jet)
        cuda.syncthreads()  # neighbouring jets may act on the same faces
    if t == 0:
        arm_x, arm_y = place[MASS_X] - place[AT_X], place[MASS_Y] - place[AT_Y]
        add_gain(jets, n, k, bodies.state[n, k], arm_x, arm_y, clock.columns[n, DT])


def weigh_jets(
    active: Array, level: int, fields: Fields, bodies: Bodies, box: Box, room: BodyRoom
) -> None:
    """Subtract the jets' part from the sums over the faces under bodies of a level, and store the jets' momentum."""
    batch, count = room.windows.shape[:2]
    _weigh_jets.launch((count, batch), (THREADS,), active, level, fields, bodies, box, room)


def add_jets(
    active: Array,
    level: int,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: BodyRoom,
) -> None:
    """Add the velocity of the jets to that of the fluid under bodies of a level."""
    batch, count = room.windows.shape[:2]
    _add_jets.launch((count, batch), (THREADS,), active, level, fields, bodies, clock, box, room)


@Kernel
def _subtract_sources(
    active: Array, d: Array, jets: Any, state: Array, h: float, sides: Array, ordered: bool
) -> None:
    n, t = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[n]:
        return
    nx, ny, real = d.shape[1], d.shape[2], d.dtype.type
    for j in range(len(jets.kinds)):
        rate = jets.state[n, j, FLOW_RATE]
        body = state[n, jets.kinds[j, BODY]]
        x, y = within(body[X], nx * h, sides[LEFT]), within(body[Y], ny * h, sides[BOTTOM])
        frame = jet_frame(jets, j, x, y, math.cos(body[ANGLE]), math.sin(body[ANGLE]))
        i0, i1, j0, j1 = jet_window(frame, h, nx, ny, sides)
        for cell in range(t, (i1 - i0) * (j1 - j0), cuda.blockDim.x):
            i, m = i0 + cell // (j1 - j0), j0 + cell % (j1 - j0)
            a, b, sign = wrapped(i, nx), wrapped(m, ny), 1
            if ordered:
                sign, b = sign_along_y(b, sides), place_along_y(b, ny, sides)
            d[n, a, b] -= real(sign * rate * jet_source(frame, i, m, h))
        cuda.syncthreads()


def subtract_sources(
    active: Array, d: Array, bodies: Bodies, box: Box, ordered: bool = False
) -> None:
    """Subtract the sources of the jets from h div u, which is in the order of the pressure solver if ``ordered``."""
    jets, state = bodies.jets, bodies.state
    _subtract_sources.launch(
        (len(active),), (THREADS,), active, d, jets, state, box.h, box.sides, ordered
    )


@Kernel
def _balance_jets(
    active: Array, new_u: Array, new_v: Array, nx: int, ny: int, jets: Any, sides: Array, h: float
) -> None:
    b = cuda.blockIdx.x
    if active[b]:
        net = -net_flow_rate(jets, b) / h
        balance_sides(b, (new_u, new_v), nx, ny, sides, net, cuda.threadIdx.x, cuda.blockDim.x)


def balance_jets(active: Array, fields: Fields, bodies: Bodies, box: Box) -> None:
    """Let the net flow rate of jets out through the sides, as :func:`update_sides` does with other imbalances."""
    nx, ny = fields.new_u.shape[1] - 2 * G, fields.new_u.shape[2] - 2 * G
    flat = fields.new_u.reshape(-1), fields.new_v.reshape(-1)
    _balance_jets.launch(
        (len(active),), (THREADS,), active, *flat, nx, ny, bodies.jets, box.sides, box.h
    )
