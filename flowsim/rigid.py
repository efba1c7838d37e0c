"""The mechanics of one rigid body on the grid, written once for every backend.

Like :mod:`flowsim.stencils`, plain functions that a backend compiles: where a body is, how far a point is from it, how
it moves with the fluid under it. Windows are ranges of faces [i0, i1) x [j0, j1); over a periodic side they may reach
beyond the box, by less than its length, and :func:`wrapped` brings an index back.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.body_arrays import TOUCHES_BODY
from flowsim.boundary import BOTTOM, LEFT, RIGHT, SIDES, Side
from flowsim.distances import TABLE, signed_distance, tabulated_distance
from flowsim.midlines import bends, bent_distance, bent_extent, out_of_reach
from flowsim.shared import shared
from flowsim.stencils import PERIODIC, mask, penalized_share, surface_share

Array = Any
FIRST_WALL = int(Side.SLIP)
RIGID = 1e9
"""lambda dt under which everything moves with the body."""


@shared
def wrapped(i: int, n: int) -> int:
    """Return the index of a face of a periodic box; windows reach at most one box length beyond."""
    if i >= n:
        return i - n
    return i + n if i < 0 else i


@shared
def within(x: float, length: float, side: int) -> float:
    """Return a coordinate, brought into the box if that is periodic."""
    return x - math.floor(x / length) * length if side == PERIODIC else x


@shared
def image(x: float, near: float, length: float, side: int) -> float:
    """Return the image of coordinate x that is nearest to another one, in a box that may be periodic."""
    return x + length * math.floor((near - x) / length + 0.5) if side == PERIODIC else x


@shared
def face_range(x: float, reach: float, h: float, n: int, side: int) -> tuple[int, int]:
    """Return the range of faces [i0, i1) that a body reaching ``reach`` to both sides of x can touch."""
    i0, i1 = int(math.floor((x - reach) / h)), int(math.ceil((x + reach) / h)) + 1
    if side == PERIODIC:
        return max(i0, -n), min(i1, max(i0, -n) + n)
    return min(max(i0, 0), n), max(min(i1, n), 0)


@shared
def body_window(
    bodies: Any,
    n: int,
    k: int,
    x: float,
    y: float,
    angle: float,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> tuple[int, int, int, int]:
    """Return the window of faces that a body at (x, y) can touch, plus a margin."""
    c, s = math.cos(angle), math.sin(angle)
    a, b = bodies.axes[k, 0], bodies.axes[k, 1]
    reach_x = math.sqrt((a * c) ** 2 + (b * s) ** 2) + 1.5 * h
    reach_y = math.sqrt((a * s) ** 2 + (b * c) ** 2) + 1.5 * h
    if bends(bodies.midlines, bodies, k):
        x0, x1, y0, y1 = bent_extent(bodies.midlines, bodies, n, k, c, s)
        x, y = x + 0.5 * (x0 + x1), y + 0.5 * (y0 + y1)
        reach_x, reach_y = 0.5 * (x1 - x0) + 1.5 * h, 0.5 * (y1 - y0) + 1.5 * h
    i0, i1 = face_range(x, reach_x, h, nx, sides[LEFT])
    j0, j1 = face_range(y, reach_y, h, ny, sides[BOTTOM])
    return i0, i1, j0, j1


@shared
def body_distance(
    bodies: Any, n: int, k: int, rx: float, ry: float, cos: float, sin: float
) -> float:
    """Return the signed distance of a point from body k of simulation n, given relative to its reference point."""
    x, y = cos * rx + sin * ry, cos * ry - sin * rx
    if bends(bodies.midlines, bodies, k):
        return bent_distance(bodies.midlines, bodies, n, k, x, y)
    if bodies.shapes[k] == TABLE:
        return tabulated_distance(
            bodies.distances, bodies.starts[k], bodies.sides[k], bodies.axes[k, 0], x, y
        )
    return signed_distance(bodies.shapes[k], bodies.axes[k, 0], bodies.axes[k, 1], x, y)


@shared
def diffusion_at_surface(bodies: Any, k: int, nu: float, dt: float, h: float) -> float:
    """Return nu dt / h^2, or 0 for a body so thin that its surface is no wall.

    One thinner than 4 cells is held by solid shares, which change more steadily when it moves.
    """
    return 0.0 if min(bodies.axes[k, 0], bodies.axes[k, 1]) < 2.0 * h else nu * dt / h**2


@shared
def share_at_surface(
    distance: float, west: float, east: float, south: float, north: float, along_x: bool, h: float, c: float,
    diffusion: float,
) -> float:  # fmt: skip
    """Return the penalised share w of a face of u (``along_x``) or v less than a cell outside of a body.

    Such that the surface is the wall. It takes the ``distance`` of the face and of its four neighbours. Elsewhere, and
    without ``diffusion``, the share is that of the solid part of the cell.
    """
    depth = -(min(west, 0.0) + min(east, 0.0) + min(south, 0.0) + min(north, 0.0))
    x2, y2 = (east - west) ** 2, (north - south) ** 2
    facing = (x2 if along_x else y2) / max(x2 + y2, 1e-30)
    return max(
        surface_share(distance, depth, diffusion), penalized_share(facing * mask(distance, h), c)
    )


@shared
def whereabouts(
    n: int,
    k: int,
    bodies: Any,
    position: Array,
    angle: Array,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> tuple[float, float, float, float, tuple[int, int, int, int]]:
    """Return reference point (x, y) and centre of mass of body k of simulation n, in the box, and its window."""
    theta = angle[n, k]
    cos, sin = math.cos(theta), math.sin(theta)
    x, y = (
        within(position[n, k, 0], nx * h, sides[LEFT]),
        within(position[n, k, 1], ny * h, sides[BOTTOM]),
    )
    xc = x + cos * bodies.centroid[k, 0] - sin * bodies.centroid[k, 1]
    yc = y + sin * bodies.centroid[k, 0] + cos * bodies.centroid[k, 1]
    return x, y, xc, yc, body_window(bodies, n, k, x, y, theta, h, nx, ny, sides)


@shared
def reach_towards(bodies: Any, n: int, k: int, direction: float, angle: float) -> float:
    """Return how far body k of simulation n reaches from its reference point in a direction of the box."""
    if bends(bodies.midlines, bodies, k):
        turn = angle - direction
        return bent_extent(bodies.midlines, bodies, n, k, math.cos(turn), math.sin(turn))[1]
    support = bodies.support[k]
    count = len(support)
    place = (direction - angle) / (2.0 * math.pi)
    place = (place - math.floor(place)) * count
    m = int(place)
    weight = place - m
    return (1.0 - weight) * support[m % count] + weight * support[(m + 1) % count]


@shared
def touches_box(
    bodies: Any,
    n: int,
    k: int,
    x: float,
    y: float,
    angle: float,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> bool:
    """Return whether a body is within a cell of a wall, or crosses any side but a periodic one."""
    for side in range(SIDES):
        if sides[side] == PERIODIC:
            continue
        if side == LEFT:
            direction, gap = math.pi, x
        elif side == RIGHT:
            direction, gap = 0.0, nx * h - x
        elif side == BOTTOM:
            direction, gap = -0.5 * math.pi, y
        else:
            direction, gap = 0.5 * math.pi, ny * h - y
        if gap - reach_towards(bodies, n, k, direction, angle) < (
            h if sides[side] >= FIRST_WALL else 0.0
        ):
            return True
    return False


@shared
def move_free_bodies(
    n: int, bodies: Any, position: Array, angle: Array, velocity: Array, spin: Array, dt: float
) -> None:
    """Move the free bodies of simulation n: the centre of mass goes straight, the reference point turns around it."""
    for k in range(len(bodies.free)):
        if not bodies.free[k]:
            continue
        x, y, turn = bodies.centroid[k, 0], bodies.centroid[k, 1], spin[n, k]
        c, s = math.cos(angle[n, k]), math.sin(angle[n, k])
        rx, ry = c * x - s * y, s * x + c * y
        angle[n, k] += dt * turn
        c, s = math.cos(angle[n, k]), math.sin(angle[n, k])
        new_rx, new_ry = c * x - s * y, s * x + c * y
        u, v = velocity[n, k, 0] - turn * ry, velocity[n, k, 1] + turn * rx
        position[n, k, 0] += dt * u + (rx - new_rx)
        position[n, k, 1] += dt * v + (ry - new_ry)
        velocity[n, k, 0], velocity[n, k, 1] = u + turn * new_ry, v - turn * new_rx


@shared
def free_motion(
    mass: float, inertia: float, mass_lag: float, inertia_lag: float, dt: float, su: Any, sv: Any, state: Any,
    force: Any, follow: Array,
) -> tuple[float, float, float]:  # fmt: skip
    """Solve body velocity and penalty together.

    (M - M_f)(V' - V) = int w (u - V' - omega' x r) + dt F, and likewise for the angular momentum; ``mass`` and
    ``inertia`` are the excess over the displaced fluid, zero for a body of the fluid's density, for which the momentum
    of the fluid under the body alone decides. Of a body lighter than the fluid the negative excess takes the
    acceleration ``follow`` of the fluid under it in the step before instead of (V' - V) / dt: the projection answers
    to V' one step late, and with more added mass than mass that would feed back on itself (docs/bodies.md).
    ``su`` and ``sv`` are the sums of w, w r, w r^2, w f, w r f over the faces of u and v.
    """
    vx, vy, omega = state
    fx, fy, torque = force
    mass, inertia = mass + mass_lag, inertia + inertia_lag
    a, b = mass + su[0], mass + sv[0]
    rx = mass * vx + su[3] + dt * (fx + mass_lag * follow[0])
    ry = mass * vy + sv[3] + dt * (fy + mass_lag * follow[1])
    # u_s = V_x - omega r_y and v_s = V_y + omega r_x couple each component with the rotation alone
    rt = inertia * omega - su[4] + sv[4] + dt * (torque + inertia_lag * follow[2])
    pivot = inertia + su[2] + sv[2] - su[1] * su[1] / a - sv[1] * sv[1] / b
    omega = (rt + su[1] * rx / a - sv[1] * ry / b) / pivot
    return (rx + su[1] * omega) / a, (ry - sv[1] * omega) / b, omega


@shared
def respond(
    n: int,
    k: int,
    su: Any,
    sv: Any,
    bodies: Any,
    moves: bool,
    state: Any,
    dt: float,
    gravity: Array,
) -> tuple[float, float, float]:
    """Give body k of simulation n its new motion, and note what force and torque that takes.

    Parameters
    ----------
    su, sv
        Sums of w, w r, w r^2, w f, w r f over the faces of u and of v under the body, times the area of a cell.
    moves
        Without it free bodies keep their velocity, too.
    state
        Position, angle, velocity, spin, the last three as they were before the step, applied force and torque, force,
        torque and the acceleration of the fluid that light bodies follow: arrays over simulations and bodies.

    Returns
    -------
    (float, float, float)
        Velocity of the centre of mass, and spin, to which the fluid under the body is dragged.
    """
    (
        position,
        angle,
        velocity,
        spin,
        before,
        applied_force,
        applied_torque,
        force,
        torque,
        follow,
    ) = state
    theta = angle[n, k]
    cos, sin = math.cos(theta), math.sin(theta)
    # from the reference point to the centre of mass, about which everything is taken
    ax = cos * bodies.centroid[k, 0] - sin * bodies.centroid[k, 1]
    ay = sin * bodies.centroid[k, 0] + cos * bodies.centroid[k, 1]
    m, j, spin_before = bodies.fluid_mass[k], bodies.fluid_inertia[k], before[n, k, 2]
    cos, sin = math.cos(before[n, k, 3]), math.sin(before[n, k, 3])
    vx = before[n, k, 0] - spin_before * (sin * bodies.centroid[k, 0] + cos * bodies.centroid[k, 1])
    vy = before[n, k, 1] + spin_before * (cos * bodies.centroid[k, 0] - sin * bodies.centroid[k, 1])
    omega = spin[n, k]
    new_vx, new_vy, new_omega = (
        velocity[n, k, 0] - omega * ay,
        velocity[n, k, 1] + omega * ax,
        omega,
    )
    lag_x, lag_y, lag_t = 0.0, 0.0, 0.0
    # a body that has left the box has no fluid to follow
    if (
        moves
        and bodies.free[k]
        and bodies.mass[k] + bodies.mass_lag[k] + min(su[0], sv[0]) > 1e-6 * m
    ):
        old_vx, old_vy, old_omega = new_vx, new_vy, omega
        pull = (
            applied_force[n, k, 0] + bodies.mass[k] * gravity[0],
            applied_force[n, k, 1] + bodies.mass[k] * gravity[1],
            applied_torque[n, k],
        )
        new_vx, new_vy, new_omega = free_motion(
            bodies.mass[k], bodies.inertia[k], bodies.mass_lag[k], bodies.inertia_lag[k], dt, su, sv,
            (old_vx, old_vy, old_omega), pull, follow[n, k],
        )  # fmt: skip
        lag_x = bodies.mass_lag[k] * (dt * follow[n, k, 0] - (new_vx - old_vx))
        lag_y = bodies.mass_lag[k] * (dt * follow[n, k, 1] - (new_vy - old_vy))
        lag_t = bodies.inertia_lag[k] * (dt * follow[n, k, 2] - (new_omega - old_omega))
        # the body was moved with its old velocity: the trapezoidal rule is second order
        turned = theta + 0.5 * dt * (new_omega - omega)
        cos, sin = math.cos(turned), math.sin(turned)
        bx = cos * bodies.centroid[k, 0] - sin * bodies.centroid[k, 1]
        by = sin * bodies.centroid[k, 0] + cos * bodies.centroid[k, 1]
        position[n, k, 0] += 0.5 * dt * (new_vx - old_vx) + (ax - bx)
        position[n, k, 1] += 0.5 * dt * (new_vy - old_vy) + (ay - by)
        angle[n, k] = turned
        velocity[n, k, 0], velocity[n, k, 1] = new_vx + new_omega * by, new_vy - new_omega * bx
        spin[n, k] = new_omega
        vx, vy, spin_before = old_vx, old_vy, old_omega
    fx = (su[3] - su[0] * new_vx + su[1] * new_omega + m * (new_vx - vx) + lag_x) / dt
    fy = (sv[3] - sv[0] * new_vy - sv[1] * new_omega + m * (new_vy - vy) + lag_y) / dt
    turn = -su[4] + su[1] * new_vx - su[2] * new_omega + sv[4] - sv[1] * new_vy - sv[2] * new_omega
    force[n, k, 0], force[n, k, 1] = fx, fy
    torque[n, k] = (turn + j * (new_omega - spin_before) + lag_t) / dt + ax * fy - ay * fx
    return new_vx, new_vy, new_omega


@shared
def follow_fluid(
    n: int, k: int, su: Any, sv: Any, bodies: Any, motion: Array, acceleration: Array, dt: float
) -> None:
    """Note the rigid motion of the fluid under a light body, and its rate."""
    if min(su[0], sv[0]) < 0.1 * bodies.fluid_mass[k]:
        for d in range(3):
            acceleration[n, k, d] = 0.0
        return
    # the motion of a body without mass of its own
    fit = free_motion(
        0.0, 0.0, 0.0, 0.0, 0.0, su, sv, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), acceleration[n, k]
    )
    for d in range(3):
        acceleration[n, k, d] = (fit[d] - motion[n, k, d]) / dt
        motion[n, k, d] = fit[d]


@shared
def sensor_point(position: Array, angle: Array, sensor: Any) -> tuple[float, float]:
    """Return where a sensor (its coordinates in the body's frame) is in the box."""
    c, s = math.cos(angle), math.sin(angle)
    return position[0] + c * sensor[0] - s * sensor[1], position[1] + s * sensor[0] + c * sensor[1]


@shared
def near_others(
    rank: int,
    bodies: Any,
    x: float,
    y: float,
    position: Array,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> bool:
    """Return whether the body of a rank, at (x, y), may touch one that comes before it."""
    k = bodies.order[rank]
    reach = max(bodies.axes[k, 0], bodies.axes[k, 1]) + 3.0 * h
    for earlier in range(rank):
        other = bodies.order[earlier]
        ox, oy = (
            image(position[other, 0], x, nx * h, sides[LEFT]),
            image(position[other, 1], y, ny * h, sides[BOTTOM]),
        )
        if math.hypot(ox - x, oy - y) < reach + max(bodies.axes[other, 0], bodies.axes[other, 1]):
            return True
    return False


@shared
def claimed_by_others(
    n: int, rank: int, bodies: Any, px: float, py: float, own: float, position: Array, angles: Array, h: float, nx: int,
    ny: int, sides: Array, contact: Array,
) -> float:  # fmt: skip
    """Return what share of the cell about (px, py) the less movable bodies claim, and note whom the body touches.

    ``own`` is the distance of the point from the body of this rank itself.
    """
    k = bodies.order[rank]
    claimed = 0.0
    for earlier in range(rank):
        other = bodies.order[earlier]
        ox = image(position[other, 0], px, nx * h, sides[LEFT])
        oy = image(position[other, 1], py, ny * h, sides[BOTTOM])
        theta = angles[other]
        if out_of_reach(bodies.midlines, bodies, n, other, px - ox, py - oy, theta, h):
            continue
        distance = body_distance(
            bodies, n, other, px - ox, py - oy, math.cos(theta), math.sin(theta)
        )
        # the two distances of a point add up to no less than the gap, and to the gap itself in between
        if own + distance < h:
            contact[k] |= TOUCHES_BODY
            contact[other] |= TOUCHES_BODY
        claimed += mask(distance, h)
    return claimed
