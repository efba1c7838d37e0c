"""Sweeps over the windows of the bodies: one block of threads for each simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import SIMULATED, THREADS, Kernel, block_sums
from flowsim.bodies.table import TOUCHES_BOX
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import (
    body_distance,
    claimed_by_others,
    diffusion_at_surface,
    locate_body,
    near_others,
    sensor_point,
    share_at_surface,
    touches_box,
    within,
    wrapped,
)
from flowsim.kernels.cell import mask, penalized_share, velocity_at
from flowsim.kernels.distances import MIDLINE
from flowsim.kernels.layout import (
    ANGLE,
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
from flowsim.kernels.rigid import RIGID, follow_fluid, move_free_bodies, respond

Array = Any


@cuda.jit(device=True)
def _share(along_x: bool, px: float, py: float, about: Any) -> float:
    """Return the penalised share of a face at (px, py), less what bodies before this one claim.

    ``about`` holds what is the same for all faces under a body. In it ``seen`` is place, cosine and sine of the body;
    ``states`` and ``contact`` are those of all bodies of a simulation.
    """
    n, rank, crowded, seen, bodies, states, contact, h, c, diffusion, nx, ny, sides = about
    k = bodies.order[rank]
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
    if crowded and (share > 0.0 or not bends(bodies.midlines, bodies, k)):
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
def _moments(scratch: Array, first: int, h: float) -> tuple[float, float, float, float, float]:
    """Return five sums over the faces under a body, from row ``first`` on, times the area of a cell."""
    area = h * h
    return (
        scratch[first, 0] * area,
        scratch[first + 1, 0] * area,
        scratch[first + 2, 0] * area,
        scratch[first + 3, 0] * area,
        scratch[first + 4, 0] * area,
    )


@cuda.jit(device=True)
def _drift(
    bodies: Any, n: int, k: int, along_x: bool, rx: float, ry: float, cos: float, sin: float
) -> float:
    """Return the velocity of deformation of a face, seen from the body."""
    u, v = deformation_velocity(bodies.nodes[k], bodies.midlines[n, k], rx, ry, cos, sin)
    return u if along_x else v


@Kernel
def _penalize(
    active: Array,
    u: Array,
    v: Array,
    shares: Array,
    drifts: Array,
    form: Array,
    bodies: Any,
    moves: bool,
    state: Array,
    contact: Array,
    gravity: Array,
    clock: Array,
    penalty: float,
    h: float,
    sides: Array,
) -> None:
    n, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    if not active[n]:
        return
    real = u.dtype.type
    scratch = cuda.shared.array((10, THREADS), np.float64)
    motion = cuda.shared.array(3, np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    dt, share_u, share_v = clock[n, DT], shares[0, n], shares[1, n]
    states, touched = state[n], contact[n]
    if t == 0:
        if moves:
            move_free_bodies(bodies, state[n], dt)
        for k in range(len(bodies.order)):
            contact[n, k] = 0
    cuda.syncthreads()
    c = penalty * dt
    for rank in range(len(bodies.order)):
        k = bodies.order[rank]
        body = state[n, k]
        theta = body[ANGLE]
        cos, sin = math.cos(theta), math.sin(theta)
        x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
        if t == 0 and touches_box(bodies, n, k, x, y, theta, h, nx, ny, sides):
            contact[n, k] |= TOUCHES_BOX
        crowded = rank > 0 and near_others(rank, bodies, x, y, state[n], h, nx, ny, sides)
        cuda.syncthreads()
        diffusion = diffusion_at_surface(bodies, k, clock[n, VISCOSITY], dt, h)
        of_u = of_v = (0.0, 0.0, 0.0, 0.0, 0.0)
        width, seen = j1 - j0, (x, y, cos, sin)
        about = n, rank, crowded, seen, bodies, states, touched, h, c, diffusion, nx, ny, sides
        bent = bends(bodies.midlines, bodies, k)
        for face in range(t, (i1 - i0) * width, threads):
            i, j = i0 + face // width, j0 + face % width
            f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
            px, py = i * h, (j + 0.5) * h
            w = real(_share(True, px, py, about))
            share_u[f, g] = w
            if bent and w > 0.0:
                drifts[0, n, f, g] = _drift(bodies, n, k, True, px - x, py - y, cos, sin)
                u[n, f, g] -= drifts[0, n, f, g]
            of_u = _with_face(of_u, w, py - yc, u[n, f, g])
            px, py = (i + 0.5) * h, j * h
            w = real(_share(False, px, py, about))
            share_v[f, g] = w
            if bent and w > 0.0:
                drifts[1, n, f, g] = _drift(bodies, n, k, False, px - x, py - y, cos, sin)
                v[n, f, g] -= drifts[1, n, f, g]
            of_v = _with_face(of_v, w, px - xc, v[n, f, g])
        spin = body[SPIN]  # before it is given its new value
        block_sums(of_u + of_v, scratch)
        if t == 0:
            su, sv = _moments(scratch, 0, h), _moments(scratch, 5, h)
            free = moves and bodies.kinds[k, FREE] != 0
            motion[0], motion[1], motion[2] = respond(
                bodies.traits[k], free, body, su, sv, dt, gravity
            )
        cuda.syncthreads()
        vx, vy, omega = motion[0], motion[1], motion[2]
        work = 0.0
        for face in range(t, (i1 - i0) * width, threads):
            i, j = i0 + face // width, j0 + face % width
            f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
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
        if bent:
            block_sums((work,), scratch)
            if t == 0:
                work, inertia = scratch[0, 0] * h * h, bodies.traits[k, FLUID_INERTIA]
                body[TORQUE] = note_deformation(
                    form[n, k], body[TORQUE], work, (spin, omega), inertia, dt
                )
        cuda.syncthreads()


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


def penalize(active: Array, rows: None, *arguments: Any) -> None:
    """Move free bodies, give them their new velocity, drag the fluid under every body along, as on the CPU."""
    _penalize.launch((len(active),), (THREADS,), active, *arguments)


@Kernel
def _follow_light_bodies(
    active: Array,
    u: Array,
    v: Array,
    bodies: Any,
    state: Array,
    clock: Array,
    h: float,
    sides: Array,
) -> None:
    n, t = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[n]:
        return
    scratch = cuda.shared.array((10, THREADS), np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for k in range(len(bodies.order)):
        if bodies.traits[k, MASS_LAG] == 0.0:
            continue
        body = state[n, k]
        cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
        x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
        of_u = of_v = (0.0, 0.0, 0.0, 0.0, 0.0)
        width = j1 - j0
        for face in range(t, (i1 - i0) * width, cuda.blockDim.x):
            i, j = i0 + face // width, j0 + face % width
            f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
            distance = body_distance(bodies, n, k, i * h - x, (j + 0.5) * h - y, cos, sin)
            w = penalized_share(mask(distance, h), RIGID)
            of_u = _with_face(of_u, w, (j + 0.5) * h - yc, u[n, f, g])
            distance = body_distance(bodies, n, k, (i + 0.5) * h - x, j * h - y, cos, sin)
            w = penalized_share(mask(distance, h), RIGID)
            of_v = _with_face(of_v, w, (i + 0.5) * h - xc, v[n, f, g])
        block_sums(of_u + of_v, scratch)
        if t == 0:
            su, sv = _moments(scratch, 0, h), _moments(scratch, 5, h)
            follow_fluid(bodies.traits[k], body, su, sv, clock[n, DT])


def follow_light_bodies(
    active: Array, rows: None, u: Array, v: Array, shares: Array, *arguments: Any
) -> None:
    """Find the rigid motion of the fluid under every body that is lighter than it, and its rate."""
    _follow_light_bodies.launch((len(active),), (THREADS,), active, u, v, *arguments)


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
