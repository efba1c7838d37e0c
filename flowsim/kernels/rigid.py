"""How one rigid body moves with the fluid under it, written once for every backend.

Like :mod:`flowsim.kernels.cell`, plain functions that a backend compiles. Where a body is on the grid is in
:mod:`flowsim.kernels.body_geometry`. The state of a body is a row with the columns of :mod:`flowsim.kernels.layout`.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import (
    ANGLE,
    ANGLE_BEFORE,
    APPLIED_TORQUE,
    APPLIED_X,
    APPLIED_Y,
    CENTROID_X,
    CENTROID_Y,
    EXCESS_INERTIA,
    EXCESS_MASS,
    FLUID_ACCELERATION,
    FLUID_INERTIA,
    FLUID_MASS,
    FLUID_MOTION,
    FORCE_X,
    FORCE_Y,
    FREE,
    INERTIA_LAG,
    MASS_LAG,
    SPIN,
    SPIN_BEFORE,
    SPIN_RATE,
    SPIN_TARGET,
    TORQUE,
    VX,
    VX_BEFORE,
    VY,
    VY_BEFORE,
    X,
    Y,
)

Array = Any
RIGID = (1.0, 1.0)
"""The grip with which cells move with the body by their solid share (:func:`flowsim.kernels.cell.penalized_share`)."""


@device_function
def move_free_body(traits: Array, body: Array, dt: float) -> None:
    """Move a free body: its centre of mass goes straight, the reference point turns around it."""
    x, y, turn = traits[CENTROID_X], traits[CENTROID_Y], body[SPIN]
    c, s = math.cos(body[ANGLE]), math.sin(body[ANGLE])
    rx, ry = c * x - s * y, s * x + c * y
    body[ANGLE] += dt * turn
    c, s = math.cos(body[ANGLE]), math.sin(body[ANGLE])
    new_rx, new_ry = c * x - s * y, s * x + c * y
    u, v = body[VX] - turn * ry, body[VY] + turn * rx
    body[X] += dt * u + (rx - new_rx)
    body[Y] += dt * v + (ry - new_ry)
    body[VX], body[VY] = u + turn * new_ry, v - turn * new_rx


@device_function
def turn_held_body(body: Array, dt: float) -> None:
    """Turn a body that is held at its reference point, whose angular velocity approaches its target at a given rate."""
    spin, most = body[SPIN], dt * body[SPIN_RATE]
    body[SPIN] = spin + min(max(body[SPIN_TARGET] - spin, -most), most)
    body[ANGLE] += 0.5 * dt * (spin + body[SPIN])


@device_function
def move_body(traits: Array, free: bool, body: Array, dt: float) -> None:
    """Move a body that is free, or turn one that is held and told to turn."""
    if free:
        move_free_body(traits, body, dt)
    elif body[SPIN_RATE] > 0.0:
        turn_held_body(body, dt)


@device_function
def move_bodies(bodies: Any, states: Array, dt: float) -> None:
    """Move the bodies of a simulation, whose states these are."""
    for k in range(len(bodies.order)):
        move_body(bodies.traits[k], bodies.kinds[k, FREE] != 0, states[k], dt)


@device_function
def free_motion(
    masses: Any, dt: float, su: Any, sv: Any, motion: Any, force: Any, follow: Any
) -> tuple[float, float, float]:
    """Solve body velocity and penalty together.

    (M - M_f)(V' - V) = int w (u - V' - omega' x r) + dt F, and likewise for the angular momentum. The first two of
    ``masses``, M - M_f and its moment of inertia, are zero for a body of the fluid's density, for which the momentum of
    the fluid under the body alone decides. Of a body lighter than the fluid the negative excess, the other two, takes
    the acceleration ``follow`` of the fluid under it in the step before instead of (V' - V) / dt: the projection
    answers to V' one step late, and with more added mass than mass that would feed back on itself (docs/bodies.md).
    ``su`` and ``sv`` are the sums of w, w r, w r^2, w f, w r f over the faces of u and v.
    """
    mass, inertia, mass_lag, inertia_lag = masses
    vx, vy, omega = motion
    fx, fy, torque = force
    follow_x, follow_y, follow_turn = follow
    mass, inertia = mass + mass_lag, inertia + inertia_lag
    a, b = mass + su[0], mass + sv[0]
    rx = mass * vx + su[3] + dt * (fx + mass_lag * follow_x)
    ry = mass * vy + sv[3] + dt * (fy + mass_lag * follow_y)
    # u_s = V_x - omega r_y and v_s = V_y + omega r_x couple each component with the rotation alone
    rt = inertia * omega - su[4] + sv[4] + dt * (torque + inertia_lag * follow_turn)
    pivot = inertia + su[2] + sv[2] - su[1] * su[1] / a - sv[1] * sv[1] / b
    omega = (rt + su[1] * rx / a - sv[1] * ry / b) / pivot
    return (rx + su[1] * omega) / a, (ry - sv[1] * omega) / b, omega


@device_function
def _acceleration_under(body: Array) -> tuple[float, float, float]:
    """Return the acceleration of the fluid under a light body."""
    return body[FLUID_ACCELERATION], body[FLUID_ACCELERATION + 1], body[FLUID_ACCELERATION + 2]


@device_function
def respond(
    traits: Array,
    free: bool,
    body: Array,
    su: Any,
    sv: Any,
    dt: float,
    gravity: Array,
) -> tuple[float, float, float]:
    """Give a body its new motion, and note what force and torque that takes.

    Parameters
    ----------
    traits, body
        Its row in the table of bodies, and its state.
    free
        Whether it may change its motion.
    su, sv
        Sums of w, w r, w r^2, w f, w r f over the faces of u and of v under the body, times the area of a cell.

    Returns
    -------
    (float, float, float)
        Velocity of the centre of mass, and spin, to which the fluid under the body is dragged.
    """
    cx, cy = traits[CENTROID_X], traits[CENTROID_Y]
    theta = body[ANGLE]
    cos, sin = math.cos(theta), math.sin(theta)
    # from the reference point to the centre of mass, about which everything is taken
    ax, ay = cos * cx - sin * cy, sin * cx + cos * cy
    m, j, spin_before = traits[FLUID_MASS], traits[FLUID_INERTIA], body[SPIN_BEFORE]
    cos, sin = math.cos(body[ANGLE_BEFORE]), math.sin(body[ANGLE_BEFORE])
    vx = body[VX_BEFORE] - spin_before * (sin * cx + cos * cy)
    vy = body[VY_BEFORE] + spin_before * (cos * cx - sin * cy)
    omega = body[SPIN]
    new_vx, new_vy, new_omega = body[VX] - omega * ay, body[VY] + omega * ax, omega
    lag_x, lag_y, lag_t = 0.0, 0.0, 0.0
    mass, mass_lag, inertia_lag = traits[EXCESS_MASS], traits[MASS_LAG], traits[INERTIA_LAG]
    # a body that has left the box has no fluid to follow
    if free and mass + mass_lag + min(su[0], sv[0]) > 1e-6 * m:
        old_vx, old_vy, old_omega = new_vx, new_vy, omega
        follow_x, follow_y, follow_turn = _acceleration_under(body)
        pull_x = body[APPLIED_X] + mass * gravity[0]
        pull_y = body[APPLIED_Y] + mass * gravity[1]
        new_vx, new_vy, new_omega = free_motion(
            (mass, traits[EXCESS_INERTIA], mass_lag, inertia_lag),
            dt,
            su,
            sv,
            (old_vx, old_vy, old_omega),
            (pull_x, pull_y, body[APPLIED_TORQUE]),
            (follow_x, follow_y, follow_turn),
        )
        lag_x = mass_lag * (dt * follow_x - (new_vx - old_vx))
        lag_y = mass_lag * (dt * follow_y - (new_vy - old_vy))
        lag_t = inertia_lag * (dt * follow_turn - (new_omega - old_omega))
        # the body was moved with its old velocity: the trapezoidal rule is second order
        turned = theta + 0.5 * dt * (new_omega - omega)
        cos, sin = math.cos(turned), math.sin(turned)
        bx, by = cos * cx - sin * cy, sin * cx + cos * cy
        body[X] += 0.5 * dt * (new_vx - old_vx) + (ax - bx)
        body[Y] += 0.5 * dt * (new_vy - old_vy) + (ay - by)
        body[ANGLE] = turned
        body[VX], body[VY] = new_vx + new_omega * by, new_vy - new_omega * bx
        body[SPIN] = new_omega
        vx, vy, spin_before = old_vx, old_vy, old_omega
    fx = (su[3] - su[0] * new_vx + su[1] * new_omega + m * (new_vx - vx) + lag_x) / dt
    fy = (sv[3] - sv[0] * new_vy - sv[1] * new_omega + m * (new_vy - vy) + lag_y) / dt
    turn = -su[4] + su[1] * new_vx - su[2] * new_omega + sv[4] - sv[1] * new_vy - sv[2] * new_omega
    body[FORCE_X], body[FORCE_Y] = fx, fy
    body[TORQUE] = (turn + j * (new_omega - spin_before) + lag_t) / dt + ax * fy - ay * fx
    return new_vx, new_vy, new_omega


@device_function
def follow_fluid(traits: Array, body: Array, su: Any, sv: Any, dt: float) -> None:
    """Note the rigid motion of the fluid under a light body, and its rate."""
    if min(su[0], sv[0]) < 0.1 * traits[FLUID_MASS]:
        for d in range(3):
            body[FLUID_ACCELERATION + d] = 0.0
        return
    nothing = (0.0, 0.0, 0.0)
    # the motion of a body without mass of its own
    fit = free_motion((0.0, 0.0, 0.0, 0.0), 0.0, su, sv, nothing, nothing, nothing)
    for d in range(3):
        body[FLUID_ACCELERATION + d] = (fit[d] - body[FLUID_MOTION + d]) / dt
        body[FLUID_MOTION + d] = fit[d]
