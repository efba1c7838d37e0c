"""Sweeps over the windows of the bodies: shares, penalty, free motion."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from flowsim.backend.cpu.compiling import inner, sweep
from flowsim.bodies import signed_distance, tabulated_distance
from flowsim.grid import GHOSTS as G
from flowsim.stencils import mask, penalized_share, surface_share

Array = Any


@inner
def _wrapped(i: int, n: int) -> int:
    """Return the index of a face of a periodic box; windows reach at most one box length beyond."""
    if i >= n:
        return i - n
    return i + n if i < 0 else i


@inner
def _within(x: float, length: float, periodic: bool) -> float:
    """Return a coordinate, brought into the box if that is periodic."""
    return x - math.floor(x / length) * length if periodic else x


@inner
def _range(x: float, reach: float, h: float, n: int, periodic: bool) -> tuple[int, int]:
    """Return the range of faces [i0, i1) that a body reaching ``reach`` to both sides of x can touch."""
    i0, i1 = math.floor((x - reach) / h), math.ceil((x + reach) / h) + 1
    if periodic:
        return max(i0, -n), min(i1, max(i0, -n) + n)
    return min(max(i0, 0), n), max(min(i1, n), 0)


@inner
def _body_window(
    x: float, y: float, angle: float, a: float, b: float, h: float, nx: int, ny: int, sides: Array
) -> tuple[int, int, int, int]:
    """Return the ranges of faces [i0, i1) x [j0, j1) that a body of semi-axes a, b can touch, plus a margin."""
    c, s = math.cos(angle), math.sin(angle)
    reach_x = math.sqrt((a * c) ** 2 + (b * s) ** 2) + 1.5 * h
    reach_y = math.sqrt((a * s) ** 2 + (b * c) ** 2) + 1.5 * h
    i0, i1 = _range(x, reach_x, h, nx, sides[0] == 0)
    j0, j1 = _range(y, reach_y, h, ny, sides[2] == 0)
    return i0, i1, j0, j1


@inner
def _distance(bodies: Any, k: int, rx: float, ry: float, cos: float, sin: float) -> float:
    """Return the signed distance of a point from body k, given relative to its reference point."""
    x, y = cos * rx + sin * ry, cos * ry - sin * rx
    if bodies.shapes[k] == 3:
        return tabulated_distance(bodies.distances, bodies.starts[k], bodies.sides[k], bodies.axes[k, 0], x, y)
    return signed_distance(bodies.shapes[k], bodies.axes[k, 0], bodies.axes[k, 1], x, y)


@inner
def _surface_share(
    bodies: Any, k: int, distance: float, rx: float, ry: float, cos: float, sin: float, along_x: bool, h: float,
    c: float, diffusion: float,
) -> float:  # fmt: skip
    """Return the penalised share w of a face of u (``along_x``) or v less than a cell outside of body k.

    (rx, ry) is its place relative to the body.
    """
    west, east = _distance(bodies, k, rx - h, ry, cos, sin), _distance(bodies, k, rx + h, ry, cos, sin)
    south, north = _distance(bodies, k, rx, ry - h, cos, sin), _distance(bodies, k, rx, ry + h, cos, sin)
    depth = -(min(west, 0.0) + min(east, 0.0) + min(south, 0.0) + min(north, 0.0))
    x2, y2 = (east - west) ** 2, (north - south) ** 2
    facing = (x2 if along_x else y2) / max(x2 + y2, 1e-30)
    return max(surface_share(distance, depth, diffusion), penalized_share(facing * mask(distance, h), c))


@inner
def _shares(
    share: Array, window: Any, dx: float, dy: float, x: float, y: float, angle: float, bodies: Any, k: int, h: float,
    c: float, diffusion: float,
) -> None:  # fmt: skip
    """Write the penalised share of every face of a window; (dx, dy) is the offset of the faces in their cell.

    Without diffusion, that of the solid share of their cells.
    """
    i0, i1, j0, j1 = window
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        row = share[_wrapped(i, nx) + G]
        rx = (i + dx) * h - x
        # distances first: a loop without branches over the row is several times faster
        for j in range(j0, j1):
            row[_wrapped(j, ny) + G] = _distance(bodies, k, rx, (j + dy) * h - y, cos, sin)
        for j in range(j0, j1):
            m = _wrapped(j, ny) + G
            distance = np.float64(row[m])
            if diffusion > 0.0 and 0.0 < distance < h:
                row[m] = _surface_share(bodies, k, distance, rx, (j + dy) * h - y, cos, sin, dx == 0.0, h, c, diffusion)
            else:
                row[m] = penalized_share(mask(distance, h), c)


@inner
def _yield_to(
    share: Array, window: Any, dx: float, dy: float, x: float, y: float, angle: float, bodies: Any, rank: int,
    position: Array, angles: Array, h: float, c: float, sides: Array, contact: Array,
) -> None:  # fmt: skip
    """Take from the shares of a body what the less movable ones before it claim, and note whom it touches."""
    k = bodies.order[rank]
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    reach = max(bodies.axes[k, 0], bodies.axes[k, 1]) + 3.0 * h
    near = 0
    for other in bodies.order[:rank]:
        ox, oy = _image(position[other, 0], x, nx * h, sides[0]), _image(position[other, 1], y, ny * h, sides[2])
        if math.hypot(ox - x, oy - y) < reach + max(bodies.axes[other, 0], bodies.axes[other, 1]):
            near += 1
    if near == 0:
        return
    i0, i1, j0, j1 = window
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        px = (i + dx) * h
        for j in range(j0, j1):
            py = (j + dy) * h
            own = _distance(bodies, k, px - x, py - y, cos, sin)
            claimed = 0.0
            for other in bodies.order[:rank]:
                ox = _image(position[other, 0], px, nx * h, sides[0])
                oy = _image(position[other, 1], py, ny * h, sides[2])
                theta = angles[other]
                distance = _distance(bodies, other, px - ox, py - oy, math.cos(theta), math.sin(theta))
                # the two distances of a point add up to no less than the gap, and to the gap itself in between
                if own + distance < h:
                    contact[k] |= 2
                    contact[other] |= 2
                claimed += mask(distance, h)
            if claimed > 0.0:
                free = penalized_share(max(1.0 - claimed, 0.0), c)
                f, g = _wrapped(i, nx) + G, _wrapped(j, ny) + G
                share[f, g] = min(share[f, g], free)


@inner
def _image(x: float, near: float, length: float, side: int) -> float:
    """Return the image of coordinate x that is nearest to another one, in a box that may be periodic."""
    return x + length * math.floor((near - x) / length + 0.5) if side == 0 else x


@inner
def _touches_box(x: float, y: float, angle: float, support: Array, h: float, nx: int, ny: int, sides: Array) -> bool:
    """Return whether a body is within a cell of a wall, or crosses any side but a periodic one."""
    n = len(support)
    for side in range(4):
        if sides[side] == 0:
            continue
        direction = math.pi if side == 0 else 0.0 if side == 1 else -0.5 * math.pi if side == 2 else 0.5 * math.pi
        place = (direction - angle) / (2.0 * math.pi)
        place = (place - math.floor(place)) * n
        m = int(place)
        weight = place - m
        reach = (1.0 - weight) * support[m % n] + weight * support[(m + 1) % n]
        gap = (x if side == 0 else nx * h - x if side == 1 else y if side == 2 else ny * h - y) - reach
        if gap < (h if sides[side] >= 4 else 0.0):
            return True
    return False


@inner
def _moments(f: Array, share: Array, window: Any, offset: float, centre: float, h: float, along_x: bool) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a window, r being the lever arm of f about the centre."""
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(i0, i1):
        shares, values = share[_wrapped(i, nx) + G], f[_wrapped(i, nx) + G]
        for j in range(j0, j1):
            k = _wrapped(j, ny) + G
            w = np.float64(shares[k])
            g = np.float64(values[k])
            r = ((i if along_x else j) + offset) * h - centre
            s0 += w
            s1 += w * r
            s2 += w * r * r
            p0 += w * g
            p1 += w * r * g
    area = h * h
    return s0 * area, s1 * area, s2 * area, p0 * area, p1 * area


@inner
def _free_motion(
    mass: float, inertia: float, mass_lag: float, inertia_lag: float, dt: float, su: Any, sv: Any, state: Any,
    force: Any, follow: Array,
) -> tuple[float, float, float]:  # fmt: skip
    """Solve body velocity and penalty together.

    (M - M_f)(V' - V) = int w (u - V' - omega' x r) + dt F, and likewise for the angular momentum; ``mass`` and
    ``inertia`` are the excess over the displaced fluid, zero for a body of the fluid's density, for which the momentum
    of the fluid under the body alone decides. Of a body lighter than the fluid the negative excess takes the
    acceleration ``follow`` of the fluid under it in the step before instead of (V' - V) / dt: the projection answers
    to V' one step late, and with more added mass than mass that would feed back on itself (docs/bodies.md).
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


@inner
def _impose(
    f: Array,
    share: Array,
    window: Any,
    offset: float,
    centre: float,
    h: float,
    along_x: bool,
    base: float,
    turn: float,
) -> None:
    """Penalise f towards base + turn r inside a window."""
    real = f.dtype.type
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    for i in range(i0, i1):
        shares, values = share[_wrapped(i, nx) + G], f[_wrapped(i, nx) + G]
        for j in range(j0, j1):
            k = _wrapped(j, ny) + G
            target = real(base + turn * (((i if along_x else j) + offset) * h - centre))
            values[k] += shares[k] * (target - values[k])


@inner
def move_free_bodies(
    active: Array, bodies: Any, position: Array, angle: Array, velocity: Array, spin: Array, dt: Array
) -> None:
    """Move free bodies with their velocity: the centre of mass goes straight, the reference point turns around it."""
    for n in active:
        for k in range(len(bodies.free)):
            if not bodies.free[k]:
                continue
            x, y, turn = bodies.centroid[k, 0], bodies.centroid[k, 1], spin[n, k]
            c, s = math.cos(angle[n, k]), math.sin(angle[n, k])
            rx, ry = c * x - s * y, s * x + c * y
            angle[n, k] += dt[n] * turn
            c, s = math.cos(angle[n, k]), math.sin(angle[n, k])
            new_rx, new_ry = c * x - s * y, s * x + c * y
            u, v = velocity[n, k, 0] - turn * ry, velocity[n, k, 1] + turn * rx
            position[n, k, 0] += dt[n] * u + (rx - new_rx)
            position[n, k, 1] += dt[n] * v + (ry - new_ry)
            velocity[n, k, 0], velocity[n, k, 1] = u + turn * new_ry, v - turn * new_rx


@sweep
def penalize(
    active: Array,
    u: Array,
    v: Array,
    share_u: Array,
    share_v: Array,
    bodies: Any,
    moves: bool,
    position: Array,
    angle: Array,
    velocity: Array,
    spin: Array,
    before: Array,
    applied_force: Array,
    applied_torque: Array,
    force: Array,
    torque: Array,
    contact: Array,
    follow: Array,
    gravity: Array,
    penalty: float,
    dt: Array,
    h: float,
    sides: Array,
) -> None:
    """Give free bodies their new velocity, drag the fluid under every body along, and add up what that takes.

    ``bodies`` is a :class:`flowsim.bodies.BodyTable`; without ``moves`` free bodies keep their velocity, too.
    ``before`` (B, K, 3) holds the velocities at the start of the step. The force on the body is the penalty integral
    plus the rate of change of momentum of the fluid inside.
    """
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        n = active[task]
        step = dt[n]
        contact[n] = 0
        c = penalty * step
        for rank in range(len(bodies.order)):
            k = bodies.order[rank]
            theta = angle[n, k]
            cos, sin = math.cos(theta), math.sin(theta)
            x = _within(position[n, k, 0], nx * h, sides[0] == 0)
            y = _within(position[n, k, 1], ny * h, sides[2] == 0)
            # from the reference point to the centre of mass, about which everything is taken
            ax = cos * bodies.centroid[k, 0] - sin * bodies.centroid[k, 1]
            ay = sin * bodies.centroid[k, 0] + cos * bodies.centroid[k, 1]
            xc, yc = x + ax, y + ay
            if _touches_box(x, y, theta, bodies.support[k], h, nx, ny, sides):
                contact[n, k] |= 1
            window = _body_window(x, y, theta, bodies.axes[k, 0], bodies.axes[k, 1], h, nx, ny, sides)
            # a body thinner than 4 cells is held by solid shares, which change more steadily when it moves
            thin = min(bodies.axes[k, 0], bodies.axes[k, 1]) < 2.0 * h
            diffusion = 0.0 if thin else bodies.viscosity[n] * step / h**2
            _shares(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, k, h, c, diffusion)
            _shares(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, k, h, c, diffusion)
            if rank > 0:
                _yield_to(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, rank, position[n], angle[n], h, c, sides,
                          contact[n])  # fmt: skip
                _yield_to(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, rank, position[n], angle[n], h, c, sides,
                          contact[n])  # fmt: skip
            su = _moments(u[n], share_u[n], window, 0.5, yc, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, xc, h, True)
            m, j, spin_before = bodies.fluid_mass[k], bodies.fluid_inertia[k], before[n, k, 2]
            vx, vy = before[n, k, 0] - spin_before * ay, before[n, k, 1] + spin_before * ax
            omega = spin[n, k]
            new_vx, new_vy, new_omega = velocity[n, k, 0] - omega * ay, velocity[n, k, 1] + omega * ax, omega
            # a body that has left the box has no fluid to follow
            implicit = bodies.mass[k] + bodies.mass_lag[k]
            lag_x, lag_y, lag_t = 0.0, 0.0, 0.0
            if moves and bodies.free[k] and implicit + min(su[0], sv[0]) > 1e-6 * m:
                old_vx, old_vy, old_omega = new_vx, new_vy, omega
                new_vx, new_vy, new_omega = _free_motion(
                    bodies.mass[k],
                    bodies.inertia[k],
                    bodies.mass_lag[k],
                    bodies.inertia_lag[k],
                    step,
                    su,
                    sv,
                    (old_vx, old_vy, old_omega),
                    (
                        applied_force[n, k, 0] + bodies.mass[k] * gravity[0],
                        applied_force[n, k, 1] + bodies.mass[k] * gravity[1],
                        applied_torque[n, k],
                    ),
                    follow[n, k],
                )
                lag_x = bodies.mass_lag[k] * (step * follow[n, k, 0] - (new_vx - old_vx))
                lag_y = bodies.mass_lag[k] * (step * follow[n, k, 1] - (new_vy - old_vy))
                lag_t = bodies.inertia_lag[k] * (step * follow[n, k, 2] - (new_omega - old_omega))
                # the body was moved with its old velocity: the trapezoidal rule is second order
                turned = theta + 0.5 * step * (new_omega - omega)
                cos, sin = math.cos(turned), math.sin(turned)
                bx = cos * bodies.centroid[k, 0] - sin * bodies.centroid[k, 1]
                by = sin * bodies.centroid[k, 0] + cos * bodies.centroid[k, 1]
                position[n, k, 0] += 0.5 * step * (new_vx - old_vx) + (ax - bx)
                position[n, k, 1] += 0.5 * step * (new_vy - old_vy) + (ay - by)
                angle[n, k] = turned
                velocity[n, k, 0], velocity[n, k, 1] = new_vx + new_omega * by, new_vy - new_omega * bx
                spin[n, k] = new_omega
                vx, vy, spin_before = old_vx, old_vy, old_omega
            _impose(u[n], share_u[n], window, 0.5, yc, h, False, new_vx, -new_omega)
            _impose(v[n], share_v[n], window, 0.5, xc, h, True, new_vy, new_omega)
            fx = (su[3] - su[0] * new_vx + su[1] * new_omega + m * (new_vx - vx) + lag_x) / step
            fy = (sv[3] - sv[0] * new_vy - sv[1] * new_omega + m * (new_vy - vy) + lag_y) / step
            pull = -su[4] + su[1] * new_vx - su[2] * new_omega + sv[4] - sv[1] * new_vy - sv[2] * new_omega
            force[n, k, 0], force[n, k, 1] = fx, fy
            torque[n, k] = (pull + j * (new_omega - spin_before) + lag_t) / step + ax * fy - ay * fx


@sweep
def follow_light_bodies(
    active: Array,
    u: Array,
    v: Array,
    share_u: Array,
    share_v: Array,
    bodies: Any,
    position: Array,
    angle: Array,
    motion: Array,
    acceleration: Array,
    dt: Array,
    h: float,
    sides: Array,
) -> None:
    """Find the rigid motion (B, K, 3) of the fluid under every body that is lighter than it, and its rate."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        n = active[task]
        for k in range(len(bodies.order)):
            if bodies.mass_lag[k] == 0.0:
                continue
            theta = angle[n, k]
            x = _within(position[n, k, 0], nx * h, sides[0] == 0)
            y = _within(position[n, k, 1], ny * h, sides[2] == 0)
            xc = x + math.cos(theta) * bodies.centroid[k, 0] - math.sin(theta) * bodies.centroid[k, 1]
            yc = y + math.sin(theta) * bodies.centroid[k, 0] + math.cos(theta) * bodies.centroid[k, 1]
            window = _body_window(x, y, theta, bodies.axes[k, 0], bodies.axes[k, 1], h, nx, ny, sides)
            _shares(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, k, h, 1e9, 0.0)
            _shares(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, k, h, 1e9, 0.0)
            su = _moments(u[n], share_u[n], window, 0.5, yc, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, xc, h, True)
            if min(su[0], sv[0]) < 0.1 * bodies.fluid_mass[k]:
                acceleration[n, k] = 0.0
                continue
            # the motion of a body without mass of its own
            fit = _free_motion(0.0, 0.0, 0.0, 0.0, 0.0, su, sv, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), acceleration[n, k])
            for d in range(3):
                acceleration[n, k, d] = (fit[d] - motion[n, k, d]) / dt[n]
                motion[n, k, d] = fit[d]


@sweep
def cover(active: Array, chi: Array, bodies: Any, position: Array, angle: Array, h: float, sides: Array) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    nx, ny = chi.shape[1], chi.shape[2]
    for task in prange(len(active)):
        n = active[task]
        chi[n] = 0.0
        for k in range(len(bodies.order)):
            theta = angle[n, k]
            cos, sin = math.cos(theta), math.sin(theta)
            x = _within(position[n, k, 0], nx * h, sides[0] == 0)
            y = _within(position[n, k, 1], ny * h, sides[2] == 0)
            i0, i1, j0, j1 = _body_window(x, y, theta, bodies.axes[k, 0], bodies.axes[k, 1], h, nx, ny, sides)
            for i in range(i0, i1):
                for j in range(j0, j1):
                    distance = _distance(bodies, k, (i + 0.5) * h - x, (j + 0.5) * h - y, cos, sin)
                    f, g = _wrapped(i, nx), _wrapped(j, ny)
                    chi[n, f, g] = max(chi[n, f, g], mask(distance, h))
