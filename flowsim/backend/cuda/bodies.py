"""Sweeps over the windows of the bodies: many blocks of threads for each body.

A step of the bodies is three launches, or four. The first moves free bodies, finds their windows, and which of them
meet. A body whose window meets none of a less movable one is independent of all others: the second launch finds its
solid shares and ten sums over the faces under it, in as many blocks as its window has parts, and the last block to end
adds the parts up in their order, so that a run repeats to the bit, and gives the body its new motion; the third drags
the fluid along. Bodies whose windows meet are left to a fourth launch, where one block of threads takes all of a
simulation in turn.

What belongs to bodies that bend is compiled only for simulations that have some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import SIMULATED, Kernel, block_sums
from flowsim.bodies.table import TOUCHES_BOX, BodyTable
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid
from flowsim.kernels.body_geometry import (
    body_distance,
    claimed_by_others,
    diffusion_at_surface,
    locate_body,
    near_others,
    sensor_point,
    share_at_surface,
    touches_box,
    windows_meet,
    within,
    wrapped,
)
from flowsim.kernels.cell import mask, penalized_share, velocity_at
from flowsim.kernels.device_function import device_function
from flowsim.kernels.distances import MIDLINE
from flowsim.kernels.layout import (
    ANGLE,
    AXIS_A,
    CENTROID_X,
    DT,
    FLUID_INERTIA,
    FREE,
    MASS_LAG,
    SHAPE,
    SPIN,
    TIME,
    TORQUE,
    VISCOSITY,
)
from flowsim.kernels.midline import bend as bend_midline
from flowsim.kernels.midline import bends, deformation_velocity, note_box, note_deformation
from flowsim.kernels.rigid import RIGID, follow_fluid, move_free_body, respond

Array = Any
_Table: Any = BodyTable

THREADS = 8 if SIMULATED else 128
"""Threads of a block: what a face under a body takes is 160 registers, and so three blocks share a multiprocessor."""
LANES = 4 if SIMULATED else 32
"""Threads that go along a row of a window; the others of a block take further rows."""
FACES_ALONG = 1 if SIMULATED else 4
"""Faces along a row that a thread takes in a window as large as the largest body."""
MOST_PARTS = 512
SUMS = 10
"""Sums of w, w r, w r^2, w f, w r f over the faces of u and over those of v."""
LINE = 16
"""Numbers between the sums of two parts: a line of the cache for each, so that no block sees old ones of another."""
AT_X, AT_Y, COSINE, SINE, MASS_X, MASS_Y = range(6)
"""Columns of places: reference point, cosine and sine of the angle, centre of mass."""
ALONE = 4
"""Column of windows, after i0, i1, j0, j1: whether none of a less movable body meets it."""


class BodyRoom(NamedTuple):
    """Room for what the launches tell each other.

    Attributes
    ----------
    windows : (B, K, 5) int32
        i0, i1, j0, j1, and whether the body is independent of the others.
    places : (B, K, 6) float64
    motions : (B, K, 4) float64
        Velocity of the centre of mass and spin to which the fluid is dragged, and the spin before.
    parts : (B, K, parts, 16) float64
        Sums over the faces in each part of a window.
    ended : (B, K) int32
        Blocks that have ended.
    along : int
        Parts of a window along a row.
    """

    windows: Array
    places: Array
    motions: Array
    parts: Array
    ended: Array
    along: int


def body_room(table: BodyTable, batch: int, grid: Grid, zeros: Callable[..., Array]) -> BodyRoom:
    """Return room for the bodies of a batch, made by ``zeros(shape, dtype)``."""
    count = len(table.order)
    reach = float(table.traits[:, AXIS_A:CENTROID_X].max(initial=0.0))
    faces = 2.0 * reach / grid.h + 5.0
    along = math.ceil(min(faces, grid.ny) / (LANES * FACES_ALONG))
    across = math.ceil(min(faces, grid.nx) / (THREADS // LANES))
    along = min(along, MOST_PARTS)
    parts = along * max(1, min(across, MOST_PARTS // along))
    return BodyRoom(
        zeros((batch, count, 5), np.int32),
        zeros((batch, count, 6), np.float64),
        zeros((batch, count, 4), np.float64),
        zeros((batch, count, parts, LINE), np.float64),
        zeros((batch, count), np.int32),
        along,
    )


@device_function
def _all(bodies: BodyTable) -> BodyTable:
    """Return the table of bodies of which some bend."""
    return bodies


@device_function
def _rigid(bodies: BodyTable) -> Any:
    """Return the table of bodies of which none bends: what hangs on None is not compiled."""
    return _Table(
        bodies.traits, bodies.kinds, bodies.order, bodies.support, bodies.distances,
        None, None, None, None,
    )  # fmt: skip


@cuda.jit(device=True)
def _share(along_x: bool, px: float, py: float, about: Any, others: Any) -> float:
    """Return the penalised share of a face at (px, py), less what bodies before this one claim.

    ``about`` holds what is the same for all faces under a body; ``seen`` in it is place, cosine and sine of the body.
    ``others`` is None for a body that meets none, and else its rank, states and contacts of all bodies of the
    simulation.
    """
    n, k, seen, bodies, h, c, diffusion, nx, ny, sides = about
    x, y, cos, sin = seen
    own = body_distance(bodies, n, k, px - x, py - y, cos, sin)
    if diffusion > 0.0 and 0.0 < own < h:
        rx, ry = px - x, py - y
        west = body_distance(bodies, n, k, rx - h, ry, cos, sin)
        east = body_distance(bodies, n, k, rx + h, ry, cos, sin)
        south = body_distance(bodies, n, k, rx, ry - h, cos, sin)
        north = body_distance(bodies, n, k, rx, ry + h, cos, sin)
        share = share_at_surface(own, (west, east, south, north), along_x, h, c, diffusion)
    else:
        share = penalized_share(mask(own, h), c)
    if others is None:
        return share
    rank, states, contact = others
    if share > 0.0 or not bends(bodies.midlines, bodies, k):
        claimed = claimed_by_others(n, rank, bodies, px, py, own, states, h, nx, ny, sides, contact)
        if claimed > 0.0:
            share = min(share, penalized_share(max(1.0 - claimed, 0.0), c))
    return share


@cuda.jit(device=True)
def _with_face(sums: Any, share: float, arm: float, velocity: float) -> Any:
    """Add a face under a body to the sums of w, w r, w r^2, w f, w r f, r being the lever arm of the velocity f."""
    turning = share * arm
    s0, s1, s2, p0, p1 = sums
    return (
        s0 + share,
        s1 + turning,
        s2 + turning * arm,
        p0 + share * velocity,
        p1 + turning * velocity,
    )


@cuda.jit(device=True)
def _moments(sums: Array, first: int, h: float) -> tuple[float, float, float, float, float]:
    """Return five sums over the faces under a body, from row ``first`` on, times the area of a cell."""
    area = h * h
    return (
        sums[first, 0] * area,
        sums[first + 1, 0] * area,
        sums[first + 2, 0] * area,
        sums[first + 3, 0] * area,
        sums[first + 4, 0] * area,
    )


@cuda.jit(device=True)
def _drift(midlines: Any, about: Any, along_x: bool, px: float, py: float) -> float:
    """Return the velocity of deformation of a face."""
    if midlines is None:
        return 0.0
    n, k, (x, y, cos, sin), bodies = about[0], about[1], about[2], about[3]
    u, v = deformation_velocity(bodies.nodes[k], midlines[n, k], px - x, py - y, cos, sin)
    return u if along_x else v


@cuda.jit(device=True)
def _note_work(
    midlines: Any, form: Array, body: Array, work: float, spins: Any, inertia: float, dt: float
) -> None:
    """Note what the deformation of a body gave to the fluid."""
    if midlines is None:
        return
    body[TORQUE] = note_deformation(form, body[TORQUE], work, spins, inertia, dt)


@cuda.jit(device=True)
def _add_up(
    part: Any, window: Any, middle: Any, about: Any, others: Any, u: Array, v: Array,
    share_u: Array, share_v: Array, drifts: Array,
) -> Any:  # fmt: skip
    """Find the solid shares of a thread's faces in a window, and return their ten sums.

    ``part`` is where the thread begins, along x and y, and how far it goes each time; ``middle`` the centre of mass.
    What deforms is left out of the velocity until :func:`_drag_along`.
    """
    i_first, i_step, j_first, j_step = part
    i0, i1, j0, j1 = window
    xc, yc = middle
    n, k, bodies, h, nx, ny = about[0], about[1], about[3], about[4], about[7], about[8]
    real = u.dtype.type
    bent = bends(bodies.midlines, bodies, k)
    of_u = of_v = (0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(i0 + i_first, i1, i_step):
        f = wrapped(i, nx) + G
        for j in range(j0 + j_first, j1, j_step):
            g = wrapped(j, ny) + G
            px, py = i * h, (j + 0.5) * h
            w = real(_share(True, px, py, about, others))
            share_u[f, g] = w
            if bent and w > 0.0:
                drifts[0, n, f, g] = _drift(bodies.midlines, about, True, px, py)
                u[n, f, g] -= drifts[0, n, f, g]
            of_u = _with_face(of_u, w, py - yc, u[n, f, g])
            px, py = (i + 0.5) * h, j * h
            w = real(_share(False, px, py, about, others))
            share_v[f, g] = w
            if bent and w > 0.0:
                drifts[1, n, f, g] = _drift(bodies.midlines, about, False, px, py)
                v[n, f, g] -= drifts[1, n, f, g]
            of_v = _with_face(of_v, w, px - xc, v[n, f, g])
    return of_u + of_v


@cuda.jit(device=True)
def _drag_along(
    part: Any, window: Any, middle: Any, motion: Any, about: Any, bent: bool, u: Array, v: Array,
    share_u: Array, share_v: Array, drifts: Array,
) -> float:  # fmt: skip
    """Drag the fluid of a thread's faces along with a body; return the work of the deformation."""
    i_first, i_step, j_first, j_step = part
    i0, i1, j0, j1 = window
    xc, yc = middle
    vx, vy, omega = motion
    n, h, nx, ny = about
    real = u.dtype.type
    work = 0.0
    for i in range(i0 + i_first, i1, i_step):
        f = wrapped(i, nx) + G
        for j in range(j0 + j_first, j1, j_step):
            g = wrapped(j, ny) + G
            gap_u = real(vx - omega * ((j + 0.5) * h - yc)) - u[n, f, g]
            gap_v = real(vy + omega * ((i + 0.5) * h - xc)) - v[n, f, g]
            u[n, f, g] += share_u[f, g] * gap_u
            v[n, f, g] += share_v[f, g] * gap_v
            if bent and share_u[f, g] > 0.0:
                work += share_u[f, g] * drifts[0, n, f, g] * gap_u
                u[n, f, g] += drifts[0, n, f, g]
            if bent and share_v[f, g] > 0.0:
                work += share_v[f, g] * drifts[1, n, f, g] * gap_v
                v[n, f, g] += drifts[1, n, f, g]
    return work


@cuda.jit(device=True)
def _my_part(room: Any, chunk: int, chunks: int) -> tuple[int, int, int, int]:
    """Return where this thread begins in a window, along x and y, and how far it goes each time."""
    t, rows = cuda.threadIdx.x, cuda.blockDim.x // LANES
    along = room.along
    across = chunks // along
    return (
        (chunk // along) * rows + t // LANES,
        across * rows,
        (chunk % along) * LANES + t % LANES,
        along * LANES,
    )


@cuda.jit(device=True)
def _sum_of_parts(values: Any, scratch: Array, room: Any, n: int, k: int) -> bool:
    """Add up values of all threads of all blocks of body k of simulation n, in a fixed order.

    True in the block that ends last, which alone then has the sums in column 0 of ``scratch``.
    """
    t, part, parts = cuda.threadIdx.x, cuda.blockIdx.x, cuda.gridDim.x
    last = cuda.shared.array(1, np.int32)
    block_sums(values, scratch)
    for m in range(t, len(values), cuda.blockDim.x):
        room.parts[n, k, part, m] = scratch[m, 0]
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        last[0] = cuda.atomic.add(room.ended, (n, k), 1) == parts - 1
        if last[0]:
            room.ended[n, k] = 0
    cuda.syncthreads()
    if not last[0]:
        return False
    cuda.threadfence()
    for m in range(len(values)):
        total = 0.0
        for other in range(t, parts, cuda.blockDim.x):
            total += room.parts[n, k, other, m]
        scratch[m, t] = total
    width = cuda.blockDim.x // 2
    while width > 0:
        cuda.syncthreads()
        if t < width:
            for m in range(len(values)):
                scratch[m, t] += scratch[m, t + width]
        width //= 2
    cuda.syncthreads()
    return True


@cuda.jit(device=True)
def _seen(room: Any, n: int, k: int) -> Any:
    """Return reference point and direction of a body, its centre of mass, and its window, as they were placed."""
    place, window = room.places[n, k], room.windows[n, k]
    return (
        (place[AT_X], place[AT_Y], place[COSINE], place[SINE]),
        (place[MASS_X], place[MASS_Y]),
        (window[0], window[1], window[2], window[3]),
    )


def _placing(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _place(
        active: Array, table: Any, moves: bool, state: Array, contact: Array, clock: Array,
        h: float, nx: int, ny: int, sides: Array, room: Any,
    ) -> None:  # fmt: skip
        """Move free bodies, note what they touch of the box, find windows, and who is independent of the others."""
        n, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
        if not active[n]:
            return
        bodies = view(table)
        for k in range(t, len(bodies.order), threads):
            body = state[n, k]
            if moves and bodies.kinds[k, FREE] != 0:
                move_free_body(bodies.traits[k], body, clock[n, DT])
            theta = body[ANGLE]
            x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
            touches = touches_box(bodies, n, k, x, y, theta, h, nx, ny, sides)
            contact[n, k] = TOUCHES_BOX if touches else 0
            place, window = room.places[n, k], room.windows[n, k]
            place[AT_X], place[AT_Y], place[MASS_X], place[MASS_Y] = x, y, xc, yc
            place[COSINE], place[SINE] = math.cos(theta), math.sin(theta)
            window[0], window[1], window[2], window[3] = i0, i1, j0, j1
        cuda.syncthreads()
        for rank in range(t, len(bodies.order), threads):
            k = bodies.order[rank]
            window, alone = room.windows[n, k], True
            for earlier in range(rank):
                other = room.windows[n, bodies.order[earlier]]
                if windows_meet(window, other, nx, ny, sides):
                    alone = False
            window[ALONE] = alone

    return _place


def _adding_up(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _respond(
        active: Array, u: Array, v: Array, shares: Array, drifts: Array, table: Any, moves: bool,
        state: Array, gravity: Array, clock: Array, penalty: float, h: float, sides: Array,
        room: Any,
    ) -> None:  # fmt: skip
        """Find the solid shares of independent bodies and the sums over them; give the bodies their new motion."""
        chunk, k, n = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
        if not active[n] or not room.windows[n, k, ALONE]:
            return
        bodies = view(table)
        scratch = cuda.shared.array((SUMS, THREADS), np.float64)
        nx, ny, dt = u.shape[1] - 2 * G, u.shape[2] - 2 * G, clock[n, DT]
        seen, middle, window = _seen(room, n, k)
        diffusion = diffusion_at_surface(bodies, k, clock[n, VISCOSITY], dt, h)
        about = n, k, seen, bodies, h, penalty * dt, diffusion, nx, ny, sides
        part = _my_part(room, chunk, cuda.gridDim.x)
        sums = _add_up(part, window, middle, about, None, u, v, shares[0, n], shares[1, n], drifts)
        if _sum_of_parts(sums, scratch, room, n, k) and cuda.threadIdx.x == 0:
            su, sv = _moments(scratch, 0, h), _moments(scratch, 5, h)
            body, motion = state[n, k], room.motions[n, k]
            free = moves and bodies.kinds[k, FREE] != 0
            motion[3] = body[SPIN]
            motion[0], motion[1], motion[2] = respond(
                bodies.traits[k], free, body, su, sv, dt, gravity
            )

    return _respond


def _dragging(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _drag(
        active: Array, u: Array, v: Array, shares: Array, drifts: Array, form: Array, table: Any,
        state: Array, clock: Array, h: float, room: Any,
    ) -> None:  # fmt: skip
        """Drag the fluid under independent bodies along."""
        chunk, k, n = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
        if not active[n] or not room.windows[n, k, ALONE]:
            return
        bodies = view(table)
        nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
        _, middle, window = _seen(room, n, k)
        moved = room.motions[n, k]
        motion = moved[0], moved[1], moved[2]
        bent = bends(bodies.midlines, bodies, k)
        part = _my_part(room, chunk, cuda.gridDim.x)
        work = _drag_along(
            part, window, middle, motion, (n, h, nx, ny), bent, u, v, shares[0, n], shares[1, n],
            drifts,
        )  # fmt: skip
        if bent:
            scratch = cuda.shared.array((1, THREADS), np.float64)
            if _sum_of_parts((work,), scratch, room, n, k) and cuda.threadIdx.x == 0:
                body, inertia = state[n, k], bodies.traits[k, FLUID_INERTIA]
                work, spins = scratch[0, 0] * h * h, (moved[3], moved[2])
                _note_work(bodies.midlines, form[n, k], body, work, spins, inertia, clock[n, DT])

    return _drag


def _taking_turns(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _take_turns(
        active: Array, u: Array, v: Array, shares: Array, drifts: Array, form: Array, table: Any,
        moves: bool, state: Array, contact: Array, gravity: Array, clock: Array, penalty: float,
        h: float, sides: Array, room: Any,
    ) -> None:  # fmt: skip
        """Do all of it for bodies that meet others, one after the other, in one block of threads a simulation."""
        n, t = cuda.blockIdx.x, cuda.threadIdx.x
        if not active[n]:
            return
        bodies = view(table)
        scratch = cuda.shared.array((SUMS, THREADS), np.float64)
        shared_motion = cuda.shared.array(3, np.float64)
        nx, ny, dt = u.shape[1] - 2 * G, u.shape[2] - 2 * G, clock[n, DT]
        rows = cuda.blockDim.x // LANES
        part = t // LANES, rows, t % LANES, LANES
        share_u, share_v = shares[0, n], shares[1, n]
        for rank in range(len(bodies.order)):
            k = bodies.order[rank]
            if room.windows[n, k, ALONE]:
                continue
            body = state[n, k]
            seen, middle, window = _seen(room, n, k)
            diffusion = diffusion_at_surface(bodies, k, clock[n, VISCOSITY], dt, h)
            about = n, k, seen, bodies, h, penalty * dt, diffusion, nx, ny, sides
            x, y = seen[0], seen[1]
            if near_others(rank, bodies, x, y, state[n], h, nx, ny, sides):
                others = rank, state[n], contact[n]
                sums = _add_up(part, window, middle, about, others, u, v, share_u, share_v, drifts)
            else:
                sums = _add_up(part, window, middle, about, None, u, v, share_u, share_v, drifts)
            spin = body[SPIN]  # before it is given its new value
            block_sums(sums, scratch)
            if t == 0:
                su, sv = _moments(scratch, 0, h), _moments(scratch, 5, h)
                free = moves and bodies.kinds[k, FREE] != 0
                shared_motion[0], shared_motion[1], shared_motion[2] = respond(
                    bodies.traits[k], free, body, su, sv, dt, gravity
                )
            cuda.syncthreads()
            motion = shared_motion[0], shared_motion[1], shared_motion[2]
            bent = bends(bodies.midlines, bodies, k)
            work = _drag_along(
                part, window, middle, motion, (n, h, nx, ny), bent, u, v, share_u, share_v, drifts
            )
            if bent:
                block_sums((work,), scratch)
                if t == 0:
                    work, inertia = scratch[0, 0] * h * h, bodies.traits[k, FLUID_INERTIA]
                    spins = spin, motion[2]
                    _note_work(bodies.midlines, form[n, k], body, work, spins, inertia, dt)
            cuda.syncthreads()

    return _take_turns


_place, _place_bent = _placing(_rigid), _placing(_all)
_respond, _respond_bent = _adding_up(_rigid), _adding_up(_all)
_drag, _drag_bent = _dragging(_rigid), _dragging(_all)
_take_turns, _take_turns_bent = _taking_turns(_rigid), _taking_turns(_all)


def penalize(
    active: Array, room: BodyRoom, u: Array, v: Array, shares: Array, drifts: Array, form: Array,
    bodies: BodyTable, moves: bool, state: Array, contact: Array, gravity: Array, clock: Array,
    penalty: float, h: float, sides: Array,
) -> None:  # fmt: skip
    """Move free bodies, give them their new velocity, drag the fluid under every body along, as on the CPU."""
    bent = len(bodies.nodes) > 0
    place, add_up, drag, take_turns = (
        (_place_bent, _respond_bent, _drag_bent, _take_turns_bent)
        if bent
        else (_place, _respond, _drag, _take_turns)
    )
    batch, count = room.ended.shape
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    parts = (room.parts.shape[2], count, batch)
    place.launch(
        (batch,), (8 if SIMULATED else 32,), active, bodies, moves, state, contact, clock, h, nx,
        ny, sides, room,
    )  # fmt: skip
    fields = u, v, shares, drifts
    add_up.launch(
        parts, (THREADS,), active, *fields, bodies, moves, state, gravity, clock, penalty, h,
        sides, room,
    )  # fmt: skip
    drag.launch(parts, (THREADS,), active, *fields, form, bodies, state, clock, h, room)
    if count > 1:
        take_turns.launch(
            (batch,), (THREADS,), active, *fields, form, bodies, moves, state, contact, gravity,
            clock, penalty, h, sides, room,
        )  # fmt: skip


@Kernel
def _bend(active: Array, bodies: Any, gait: Array, form: Array, clock: Array, moves: bool) -> None:
    n = cuda.blockIdx.x
    if not active[n]:
        return
    time, dt = clock[n, TIME], clock[n, DT] if moves else 0.0
    for k in range(cuda.threadIdx.x, len(bodies.nodes), cuda.blockDim.x):
        if bodies.kinds[k, SHAPE] == MIDLINE:
            nodes, line = bodies.nodes[k], bodies.midlines[n, k]
            bend_midline(nodes, bodies.waves[k], gait[n, k], form[n, k], line, time, dt)
            note_box(nodes, line, bodies.boxes[n, k])


def bend(active: Array, *arguments: Any) -> None:
    """Bend the midlines, as they are at the end of the step, or without ``moves`` now."""
    _bend.launch((len(active),), (32 if not SIMULATED else 2,), active, *arguments)


@Kernel
def _follow_light_bodies(
    active: Array, u: Array, v: Array, bodies: Any, state: Array, clock: Array, h: float,
    sides: Array, room: Any,
) -> None:  # fmt: skip
    chunk, k, n = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
    if not active[n] or bodies.traits[k, MASS_LAG] == 0.0:
        return
    scratch = cuda.shared.array((SUMS, THREADS), np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    body = state[n, k]
    cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
    x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
    of_u = of_v = (0.0, 0.0, 0.0, 0.0, 0.0)
    i_first, i_step, j_first, j_step = _my_part(room, chunk, cuda.gridDim.x)
    for i in range(i0 + i_first, i1, i_step):
        f = wrapped(i, nx) + G
        for j in range(j0 + j_first, j1, j_step):
            g = wrapped(j, ny) + G
            distance = body_distance(bodies, n, k, i * h - x, (j + 0.5) * h - y, cos, sin)
            w = penalized_share(mask(distance, h), RIGID)
            of_u = _with_face(of_u, w, (j + 0.5) * h - yc, u[n, f, g])
            distance = body_distance(bodies, n, k, (i + 0.5) * h - x, j * h - y, cos, sin)
            w = penalized_share(mask(distance, h), RIGID)
            of_v = _with_face(of_v, w, (i + 0.5) * h - xc, v[n, f, g])
    if _sum_of_parts(of_u + of_v, scratch, room, n, k) and cuda.threadIdx.x == 0:
        su, sv = _moments(scratch, 0, h), _moments(scratch, 5, h)
        follow_fluid(bodies.traits[k], body, su, sv, clock[n, DT])


def follow_light_bodies(
    active: Array, room: BodyRoom, u: Array, v: Array, shares: Array, *arguments: Any
) -> None:
    """Find the rigid motion of the fluid under every body that is lighter than it, and its rate."""
    batch, count = room.ended.shape
    parts = (room.parts.shape[2], count, batch)
    _follow_light_bodies.launch(parts, (THREADS,), active, u, v, *arguments, room)


@Kernel
def _cover(active: Array, chi: Array, bodies: Any, state: Array, h: float, sides: Array) -> None:
    n, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    if not active[n]:
        return
    nx, ny = chi.shape[1], chi.shape[2]
    for k in range(len(bodies.order)):
        body = state[n, k]
        cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
        x, y, _, _, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
        width = j1 - j0
        for cell in range(t, (i1 - i0) * width, threads):
            i, j = i0 + cell // width, j0 + cell % width
            distance = body_distance(bodies, n, k, (i + 0.5) * h - x, (j + 0.5) * h - y, cos, sin)
            f, g = wrapped(i, nx), wrapped(j, ny)
            chi[n, f, g] = max(chi[n, f, g], mask(distance, h))
        cuda.syncthreads()


def cover(active: Array, chi: Array, *arguments: Any) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    chi[:] = 0.0
    _cover.launch((len(active),), (THREADS,), active, chi, *arguments)


@Kernel
def _sense(
    active: Array,
    u: Array,
    v: Array,
    state: Array,
    sensors: Array,
    carriers: Array,
    h: float,
    sides: Array,
    sensed: Array,
) -> None:
    n = cuda.blockIdx.x
    if not active[n]:
        return
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for m in range(cuda.threadIdx.x, len(carriers), cuda.blockDim.x):
        x, y = sensor_point(state[n, carriers[m]], sensors[m])
        x, y = within(x, nx * h, sides[LEFT]), within(y, ny * h, sides[BOTTOM])
        sensed[n, m, 0], sensed[n, m, 1] = velocity_at(u[n], v[n], x, y, h)


def sense(active: Array, *arguments: Any) -> None:
    """Write to ``sensed`` (B, n, 2) the velocity of the flow at sensors (n, 2) in the frames of their carriers (n,)."""
    _sense.launch((len(active),), (32 if not SIMULATED else 4,), active, *arguments)
