"""The penalty: sweeps over the windows of the bodies, with many blocks of threads for each body.

Bodies of a level (:mod:`flowsim.backend.cuda.placing`) are independent of each other, and a level takes three launches.
The first computes the solid shares and the sums over the faces under each body, in as many blocks as its window has
parts; the second adds up the parts in a fixed order, so that a run is reproducible bit for bit, and computes the new
motion of the body; the third drags the fluid along. Bodies of level two are processed one after the other, by one block
of threads per simulation.

The code for bending bodies is compiled only for simulations that have some, and the code that resolves overlaps only
for levels one and two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.jets import add_jets, weigh_jets
from flowsim.backend.cuda.launching import WARP, Kernel, block_sums, warp_sum
from flowsim.backend.cuda.placing import all_bodies, placed, rigid_bodies
from flowsim.backend.cuda.windows import (
    LEVEL,
    RANK,
    SUMS,
    THREADS,
    WORK,
    BodyRoom,
    moments,
    my_part,
    my_place,
    sum_parts,
    with_face,
)
from flowsim.bodies.table import BodyTable
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import (
    body_distance,
    claimed_by_others,
    share_at_surface,
    wrapped,
)
from flowsim.kernels.cell import mask, penalized_share
from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import (
    DT,
    FLUID_INERTIA,
    FREE,
    SPIN,
    TORQUE,
)
from flowsim.kernels.midline import bends, deformation_velocity, note_deformation
from flowsim.kernels.records import Bodies, Box, Clock, Fields
from flowsim.kernels.rigid import respond

Array = Any

WEST, EAST, SOUTH, NORTH = range(4)
"""Neighbours of a face."""
BLOCKS_EACH = 5
"""Blocks of the launch that computes shares that a multiprocessor runs at once; the number of registers is limited
accordingly."""


@cuda.jit(device=True)
def _find_beside(own: float, rx: float, ry: float, about: Any, shared: Any) -> bool:
    """Return whether this thread's face is less than a cell outside the body; compute its neighbours' distances then.

    (rx, ry) is its position relative to the body, and ``own`` its distance. Few faces of a block need the distances of
    their four neighbours, and those are scattered: all threads of the block share that work.
    """
    n, k, seen, bodies, h, _, diffusion, _, _, _ = about
    points, beside, near, count = shared
    t = cuda.threadIdx.x
    is_near = 0.0 < own < h and diffusion > 0.0
    if t == 0:
        count[0] = 0
    cuda.syncthreads()
    if is_near:
        points[0, t], points[1, t] = rx, ry
        near[cuda.atomic.add(count, 0, 1)] = t
    cuda.syncthreads()
    for m in range(t, 4 * count[0], cuda.blockDim.x):
        face, side = near[m // 4], m % 4
        dx = (-h if side == WEST else h) if side <= EAST else 0.0
        dy = (-h if side == SOUTH else h) if side > EAST else 0.0
        beside[side, face] = body_distance(
            bodies, n, k, points[0, face] + dx, points[1, face] + dy, seen[2], seen[3]
        )
    cuda.syncthreads()
    return is_near


@cuda.jit(device=True)
def _less_claimed(share: float, px: float, py: float, own: float, about: Any, others: Any) -> float:
    """Return the share of a face, minus what bodies before this one in the order claim.

    ``others`` is None for a body that meets no other, and otherwise its rank, and states and contacts of all bodies of
    the simulation.
    """
    n, k, _, bodies, h, grip, _, nx, ny, sides = about
    if others is None:
        return share
    rank, states, contact = others
    if share > 0.0 or not bends(bodies.midlines, bodies, k):
        claimed = claimed_by_others(n, rank, bodies, px, py, own, states, h, nx, ny, sides, contact)
        if claimed > 0.0:
            share = min(share, penalized_share(max(1.0 - claimed, 0.0), grip))
    return share


@cuda.jit(device=True)
def _drift(midlines: Any, about: Any, along_x: bool, px: float, py: float) -> float:
    """Return the deformation velocity at a face."""
    if midlines is None:
        return 0.0
    n, k, (x, y, cos, sin), bodies = about[0], about[1], about[2], about[3]
    u, v = deformation_velocity(bodies.nodes[k], midlines[n, k], px - x, py - y, cos, sin)
    return u if along_x else v


# many arguments: values that are the same for all faces of a thread, computed once by the kernel
@cuda.jit(device=True)
def _add_up(
    along_x: bool, part: Any, window: Any, middle: Any, about: Any, others: Any, field: Array, share: Array,
    drift: Array, shared: Any,
) -> Any:  # fmt: skip
    """Compute the solid shares of a block's faces of u (``along_x``) or v in a window; return a thread's five sums.

    ``part`` gives start and stride of the block along x and y, ``middle`` the centre of mass. The deformation velocity
    is subtracted from the velocity until :func:`_drag_along`. ``about`` holds what is the same for all faces under a
    body; ``seen`` in it is position, cosine and sine of the body. ``shared`` is scratch memory of the block.
    """
    i_first, i_step, j_first, j_step = part
    i0, i1, j0, j1 = window
    xc, yc = middle
    n, k, (x, y, cos, sin), bodies, h, grip, diffusion, nx, ny, _ = about
    beside, t = shared[1], cuda.threadIdx.x
    row, lane = my_place()
    bent = bends(bodies.midlines, bodies, k)
    to_x, to_y = (0.0, 0.5) if along_x else (0.5, 0.0)
    sums = (0.0, 0.0, 0.0, 0.0, 0.0)
    # the threads of a block run the same loops, even if their own faces lie outside the window
    corner_i = i0 + i_first
    while corner_i < i1:
        corner_j = j0 + j_first
        while corner_j < j1:
            i, j = corner_i + row, corner_j + lane
            corner_j += j_step
            in_window = i < i1 and j < j1
            px, py = (i + to_x) * h, (j + to_y) * h
            rx, ry = px - x, py - y
            own = body_distance(bodies, n, k, rx, ry, cos, sin) if in_window else h
            if diffusion > 0.0 and _find_beside(own, rx, ry, about, shared):
                around = beside[WEST, t], beside[EAST, t], beside[SOUTH, t], beside[NORTH, t]
                held = share_at_surface(own, around, along_x, h, grip, diffusion)
            else:
                held = penalized_share(mask(own, h), grip)
            if not in_window:
                continue
            f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
            w = field.dtype.type(_less_claimed(held, px, py, own, about, others))
            share[f, g] = w
            if bent and w > 0.0:
                drift[f, g] = _drift(bodies.midlines, about, along_x, px, py)
                field[f, g] -= drift[f, g]
            sums = with_face(sums, w, py - yc if along_x else px - xc, field[f, g])
        corner_i += i_step
    return sums


@cuda.jit(device=True)
def _room_in_block() -> Any:
    """Return shared memory for positions, neighbours' distances, a list of threads and its length: see _find_beside."""
    return (
        cuda.shared.array((2, THREADS), np.float64),
        cuda.shared.array((4, THREADS), np.float64),
        cuda.shared.array(THREADS, np.int32),
        cuda.shared.array(1, np.int32),
    )


@cuda.jit(device=True)
def _note_work(
    midlines: Any, form: Array, body: Array, work: float, spins: Any, inertia: float, dt: float
) -> None:
    """Store the work that the deformation of a body did on the fluid."""
    if midlines is None:
        return
    body[TORQUE] = note_deformation(form, body[TORQUE], work, spins, inertia, dt)


# many arguments: values that are the same for all faces of a thread, computed once by the kernel
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
    row, lane = my_place()
    i = i0 + i_first + row
    while i < i1:
        f = wrapped(i, nx) + G
        j = j0 + j_first + lane
        while j < j1:
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
            j += j_step
        i += i_step
    return work


def _weighing(view: Callable[[BodyTable], BodyTable], others_of: Callable[..., Any]) -> Kernel:
    @functools.partial(Kernel, launch_bounds=(THREADS, BLOCKS_EACH))
    def _weigh(
        active: Array, level: int, fields: Fields, bodies: Bodies, box: Box, room: BodyRoom
    ) -> None:
        """Compute the solid shares of bodies of a level, and the sums of u and v over parts of their windows."""
        chunk, k, n = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
        if not active[n] or room.windows[n, k, LEVEL] != level:
            return
        table, u, v = view(bodies.table), fields.new_u, fields.new_v
        scratch, shared = cuda.shared.array((5, THREADS), np.float64), _room_in_block()
        nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
        chunks = room.along * room.across
        along_x = chunk < chunks
        component = 0 if along_x else 1
        chunk -= component * chunks
        seen, middle, window, (grip, diffusion) = placed(room, n, k)
        part = my_part(room.along, room.across, chunk)
        if window[0] + part[0] >= window[1] or window[2] + part[2] >= window[3]:
            for m in range(cuda.threadIdx.x, 5, cuda.blockDim.x):
                room.sums[n, k, 5 * component + m, chunk] = 0.0
            return
        about = n, k, seen, table, box.h, grip, diffusion, nx, ny, box.sides
        field = u[n] if along_x else v[n]
        others = others_of(room.windows[n, k, RANK], bodies.state[n], bodies.contact[n])
        sums = _add_up(
            along_x, part, window, middle, about, others, field, fields.shares[component, n],
            fields.drifts[component, n], shared,
        )  # fmt: skip
        block_sums(sums, scratch)
        for m in range(cuda.threadIdx.x, 5, cuda.blockDim.x):
            room.sums[n, k, 5 * component + m, chunk] = scratch[m, 0]

    return _weigh


@device_function
def _none(rank: int, states: Array, contact: Array) -> None:
    """Return None: a body of level zero meets no other."""
    return


@device_function
def _others(rank: int, states: Array, contact: Array) -> Any:
    """Return what is needed to locate the bodies before this one."""
    return rank, states, contact


@Kernel
def _respond(
    active: Array,
    level: int,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: BodyRoom,
    moves: bool,
) -> None:
    """Add up the sums over the parts of windows, and compute the new motion of the bodies of a level."""
    k, n, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[n] or room.windows[n, k, LEVEL] != level:
        return
    scratch = cuda.shared.array((SUMS, 1), np.float64)
    sum_parts(room, n, k, scratch)
    if t == 0:
        table, dt = bodies.table, clock.columns[n, DT]
        su, sv = moments(scratch, 0, box.h), moments(scratch, 5, box.h)
        body, motion = bodies.state[n, k], room.motions[n, k]
        freedom = table.kinds[k, FREE] if moves else 0
        motion[3] = body[SPIN]
        motion[0], motion[1], motion[2] = respond(
            table.traits[k], freedom, body, su, sv, dt, box.gravity
        )


def _dragging(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _drag(
        active: Array, level: int, fields: Fields, bodies: Bodies, box: Box, room: BodyRoom
    ) -> None:
        """Drag the fluid under bodies of a level along, and add up the work of the deformation."""
        chunk, k, n = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
        if not active[n] or room.windows[n, k, LEVEL] != level:
            return
        table, u, v, shares = view(bodies.table), fields.new_u, fields.new_v, fields.shares
        nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
        _, middle, window, _ = placed(room, n, k)
        moved = room.motions[n, k]
        motion = moved[0], moved[1], moved[2]
        bent = bends(table.midlines, table, k)
        part = my_part(room.along, room.across, chunk)
        work = _drag_along(
            part, window, middle, motion, (n, box.h, nx, ny), bent, u, v, shares[0, n],
            shares[1, n], fields.drifts,
        )  # fmt: skip
        if bent:
            scratch = cuda.shared.array((1, THREADS), np.float64)
            block_sums((work,), scratch)
            if cuda.threadIdx.x == 0:
                room.sums[n, k, WORK, chunk] = scratch[0, 0]

    return _drag


@Kernel
def _work(
    active: Array, level: int, bodies: Bodies, clock: Clock, box: Box, room: BodyRoom
) -> None:
    """Store the work that the deformation of bodies of a level did on the fluid."""
    k, n, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[n] or room.windows[n, k, LEVEL] != level:
        return
    table = bodies.table
    if not bends(table.midlines, table, k):
        return
    work = 0.0
    for chunk in range(t, room.sums.shape[3], WARP):
        work += room.sums[n, k, WORK, chunk]
    work = warp_sum(work)
    if t == 0:
        moved, inertia = room.motions[n, k], table.traits[k, FLUID_INERTIA]
        spins = moved[3], moved[2]
        body, work, dt = bodies.state[n, k], work * box.h * box.h, clock.columns[n, DT]
        _note_work(table.midlines, bodies.form[n, k], body, work, spins, inertia, dt)


def _taking_turns(view: Callable[[BodyTable], BodyTable]) -> Kernel:
    @Kernel
    def _take_turns(
        active: Array, fields: Fields, bodies: Bodies, clock: Clock, box: Box, room: BodyRoom,
        moves: bool,
    ) -> None:  # fmt: skip
        """Process bodies of level two one after the other, in one block of threads per simulation."""
        n, t = cuda.blockIdx.x, cuda.threadIdx.x
        if not active[n]:
            return
        table, u, v, drifts = view(bodies.table), fields.new_u, fields.new_v, fields.drifts
        state, h = bodies.state, box.h
        scratch, shared = cuda.shared.array((SUMS, THREADS), np.float64), _room_in_block()
        shared_motion = cuda.shared.array(3, np.float64)
        nx, ny, dt = u.shape[1] - 2 * G, u.shape[2] - 2 * G, clock.columns[n, DT]
        part = my_part(1, 1, 0)
        share_u, share_v = fields.shares[0, n], fields.shares[1, n]
        for rank in range(len(table.order)):
            k = table.order[rank]
            if room.windows[n, k, LEVEL] < 2:
                continue
            body = state[n, k]
            seen, middle, window, (grip, diffusion) = placed(room, n, k)
            about = n, k, seen, table, h, grip, diffusion, nx, ny, box.sides
            others = rank, state[n], bodies.contact[n]
            of_u = _add_up(
                True, part, window, middle, about, others, u[n], share_u, drifts[0, n], shared
            )
            of_v = _add_up(
                False, part, window, middle, about, others, v[n], share_v, drifts[1, n], shared
            )
            spin = body[SPIN]  # before it is given its new value
            block_sums(of_u + of_v, scratch)
            if t == 0:
                su, sv = moments(scratch, 0, h), moments(scratch, 5, h)
                freedom = table.kinds[k, FREE] if moves else 0
                shared_motion[0], shared_motion[1], shared_motion[2] = respond(
                    table.traits[k], freedom, body, su, sv, dt, box.gravity
                )
            cuda.syncthreads()
            motion = shared_motion[0], shared_motion[1], shared_motion[2]
            bent = bends(table.midlines, table, k)
            work = _drag_along(
                part, window, middle, motion, (n, h, nx, ny), bent, u, v, share_u, share_v, drifts
            )
            if bent:
                block_sums((work,), scratch)
                if t == 0:
                    work, inertia = scratch[0, 0] * h * h, table.traits[k, FLUID_INERTIA]
                    spins = spin, motion[2]
                    _note_work(table.midlines, bodies.form[n, k], body, work, spins, inertia, dt)
            cuda.syncthreads()

    return _take_turns


_weigh, _weigh_bent = _weighing(rigid_bodies, _none), _weighing(all_bodies, _none)
_weigh_beside, _weigh_bent_beside = _weighing(rigid_bodies, _others), _weighing(all_bodies, _others)
_drag, _drag_bent = _dragging(rigid_bodies), _dragging(all_bodies)
_take_turns, _take_turns_bent = _taking_turns(rigid_bodies), _taking_turns(all_bodies)


def penalize(
    active: Array, fields: Fields, bodies: Bodies, time: Clock, box: Box, room: BodyRoom,
    penalty: float, moves: bool,
) -> None:  # fmt: skip
    """Compute the new velocity of free bodies, and drag the fluid under every body along, as on the CPU.

    With ``jets``, each body of level two or more has launches of its own. How strongly the bodies hold the fluid, which
    follows from ``penalty``, was computed when they were placed.
    """
    jets, bent = bodies.jets, len(bodies.table.nodes) > 0
    batch, count, _, parts = room.sums.shape
    over_faces, over_bodies = (fields, bodies, box, room), (bodies, time, box, room)
    weighs = (_weigh_bent, _weigh_bent_beside) if bent else (_weigh, _weigh_beside)
    drag, take_turns = (_drag_bent, _take_turns_bent) if bent else (_drag, _take_turns)
    for level in range(min(count, 2) if jets is None or count < 3 else count + 2):
        weighs[min(level, 1)].launch(
            (2 * parts, count, batch), (THREADS,), active, level, *over_faces
        )
        if jets is not None:
            weigh_jets(active, level, *over_faces)
        _respond.launch((count, batch), (SUMS * WARP,), active, level, *over_bodies, moves)
        drag.launch((parts, count, batch), (THREADS,), active, level, *over_faces)
        if jets is not None:
            add_jets(active, level, fields, *over_bodies)
        if bent:
            _work.launch((count, batch), (WARP,), active, level, *over_bodies)
    if count > 2 and jets is None:
        take_turns.launch((batch,), (THREADS,), active, fields, bodies, time, box, room, moves)
