"""Motion of one rigid body with the fluid under it, shared by all backends.

As in :mod:`flowsim.kernels.cell`, these are plain functions that a backend compiles. The position of a body on the grid
is in :mod:`flowsim.kernels.body_geometry`. The state of a body is a row with the columns of
:mod:`flowsim.kernels.layout`.
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
    DAMPING,
    EXCESS_INERTIA,
    EXCESS_MASS,
    FLUID_ACCELERATION,
    FLUID_INERTIA,
    FLUID_MASS,
    FLUID_MOTION,
    FORCE_X,
    FORCE_Y,
    FREE,
    FREELY,
    HOLDS_ANGLE,
    HOLDS_X,
    HOLDS_Y,
    INERTIA_LAG,
    MASS_LAG,
    REST,
    SPIN,
    SPIN_BEFORE,
    SPIN_RATE,
    SPIN_TARGET,
    STIFFNESS,
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
    """Move a free body: its centre of mass moves in a straight line, and the reference point turns around it."""
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
def move_mounted_body(traits: Array, freedom: int, body: Array, dt: float) -> None:
    """Move a body with some degrees of freedom of its reference point held; those stay the same bit for bit."""
    x, y, angle = body[X], body[Y], body[ANGLE]
    stop_held(freedom, body)
    move_free_body(traits, body, dt)
    stop_held(freedom, body)
    if freedom & HOLDS_X:
        body[X] = x
    if freedom & HOLDS_Y:
        body[Y] = y
    if freedom & HOLDS_ANGLE:
        body[ANGLE] = angle


@device_function
def stop_held(freedom: int, body: Array) -> None:
    """Set the velocity of the degrees of freedom that are held to zero."""
    if freedom & HOLDS_X:
        body[VX] = 0.0
    if freedom & HOLDS_Y:
        body[VY] = 0.0
    if freedom & HOLDS_ANGLE:
        body[SPIN] = 0.0


@device_function
def turn_held_body(body: Array, dt: float) -> None:
    """Turn a body held at its reference point; its angular velocity approaches its target at a given rate."""
    spin, most = body[SPIN], dt * body[SPIN_RATE]
    body[SPIN] = spin + min(max(body[SPIN_TARGET] - spin, -most), most)
    body[ANGLE] += 0.5 * dt * (spin + body[SPIN])


@device_function
def move_body(traits: Array, freedom: int, body: Array, dt: float) -> None:
    """Move a body that is free, or turn a held one that has a target of the angular velocity."""
    if freedom > FREELY:
        move_mounted_body(traits, freedom, body, dt)
    elif freedom:
        move_free_body(traits, body, dt)
    elif body[SPIN_RATE] > 0.0:
        turn_held_body(body, dt)


@device_function
def move_bodies(bodies: Any, states: Array, dt: float) -> None:
    """Move the bodies of a simulation; ``states`` are their states."""
    for k in range(len(bodies.order)):
        move_body(bodies.traits[k], bodies.kinds[k, FREE], states[k], dt)


@device_function
def free_motion(
    masses: Any, dt: float, su: Any, sv: Any, motion: Any, force: Any, follow: Any
) -> tuple[float, float, float]:
    """Solve body velocity and penalty together.

    (M - M_f)(V' - V) = int w (u - V' - omega' x r) + dt F, and likewise for the angular momentum. The first two of
    ``masses``, M - M_f and its moment of inertia, are zero for a body of the fluid's density, whose motion follows from
    the momentum of the fluid under it alone. For a body lighter than the fluid the negative excess, the other two, is
    multiplied by the acceleration ``follow`` of the fluid under it in the previous step instead of (V' - V) / dt: the
    projection responds to V' one step late, and with more added mass than mass that would amplify itself
    (docs/bodies.md). ``su`` and ``sv`` are the sums of w, w r, w r^2, w f, w r f over the faces of u and v.
    """
    mass, inertia, mass_lag, inertia_lag = masses
    vx, vy, omega = motion
    fx, fy, torque = force
    follow_x, follow_y, follow_turn = follow
    mass, inertia = mass + mass_lag, inertia + inertia_lag
    a, b = mass + su[0], mass + sv[0]
    rx = mass * vx + su[3] + dt * (fx + mass_lag * follow_x)
    ry = mass * vy + sv[3] + dt * (fy + mass_lag * follow_y)
    # u_s = V_x - omega r_y and v_s = V_y + omega r_x couple each component only with the rotation
    rt = inertia * omega - su[4] + sv[4] + dt * (torque + inertia_lag * follow_turn)
    pivot = inertia + su[2] + sv[2] - su[1] * su[1] / a - sv[1] * sv[1] / b
    omega = (rt + su[1] * rx / a - sv[1] * ry / b) / pivot
    return (rx + su[1] * omega) / a, (ry - sv[1] * omega) / b, omega


@device_function
def mounted_motion(
    freedom: int, body: Array, arm: Any, masses: Any, dt: float, sums: Any, motion: Any, pulls: Any
) -> tuple[float, float, float]:
    """Solve body velocity and penalty together for a body with held degrees of freedom, springs and dampers.

    These are the equations of :func:`free_motion`, with V = U + omega x a of the centre of mass, for the velocity U of
    the reference point and the ``arm`` a from there to the centre of mass; they are projected on U and omega, of which
    held components are zero. A spring pulls with the mean of its lengths, a damper with the mean of the velocities,
    before and after the step: the trapezoidal rule adds no damping, and is stable however stiff the spring.

    Parameters
    ----------
    freedom, body, arm
        What is held; the state of the body, moved with its old velocity; (a_x, a_y).
    masses, dt, motion
        As for :func:`free_motion`; the motion is that at the beginning of the step.
    sums, pulls
        The sums over the faces of u and of v; the applied force and the acceleration to follow.

    Returns
    -------
    (float, float, float)
        Velocity of the centre of mass, and spin.
    """
    mass, inertia, mass_lag, inertia_lag = masses
    su, sv = sums
    force, follow = pulls
    ax, ay = arm
    mass, inertia = mass + mass_lag, inertia + inertia_lag
    a, b = mass + su[0], mass + sv[0]
    rx = mass * motion[0] + su[3] + dt * (force[0] + mass_lag * follow[0])
    ry = mass * motion[1] + sv[3] + dt * (force[1] + mass_lag * follow[1])
    rt = inertia * motion[2] - su[4] + sv[4] + dt * (force[2] + inertia_lag * follow[2])
    c = inertia + su[2] + sv[2] + 2.0 * (ay * su[1] + ax * sv[1]) + a * ay * ay + b * ax * ax
    p, q = -su[1] - a * ay, sv[1] + b * ax
    # the force towards the reference point has no moment about it, so the arm's rotation in this step does not enter
    dx, dy = _turn_of_arm(body, motion, arm)
    rt += ax * (ry - mass * dy) - ay * (rx - mass * dx)
    pull, hold = spring(body, 0, dt)
    rx, a = rx + pull, a + hold
    pull, hold = spring(body, 1, dt)
    ry, b = ry + pull, b + hold
    pull, hold = spring(body, 2, dt)
    rt, c = rt + pull, c + hold
    if freedom & HOLDS_X:
        rx, p = 0.0, 0.0
    if freedom & HOLDS_Y:
        ry, q = 0.0, 0.0
    omega = (rt - p * rx / a - q * ry / b) / (c - p * p / a - q * q / b)
    if freedom & HOLDS_ANGLE:
        omega = 0.0
    return (rx - p * omega) / a - omega * ay, (ry - q * omega) / b + omega * ax, omega


@device_function
def _turn_of_arm(body: Array, motion: Any, arm: Any) -> tuple[float, float]:
    """Return the old velocity of the centre of mass minus the one that it would have at the end of the new arm."""
    return (
        motion[0] - (body[VX_BEFORE] - motion[2] * arm[1]),
        motion[1] - (body[VY_BEFORE] + motion[2] * arm[0]),
    )


@device_function
def spring(body: Array, d: int, dt: float) -> tuple[float, float]:
    """Return the impulse of spring and damper of degree of freedom d, and its decrease per unit of the new velocity."""
    stiffness, damping, before = body[STIFFNESS + d], body[DAMPING + d], body[VX_BEFORE + d]
    # the body was moved with its old velocity: the mean of old and new position is 3/4 of a step at the old velocity
    # behind, and 1/4 of a step at the new one ahead
    stretch = body[X + d] - body[REST + d] - 0.75 * dt * before
    return (
        -dt * (stiffness * stretch + 0.5 * damping * before),
        dt * (0.25 * dt * stiffness + 0.5 * damping),
    )


@device_function
def _acceleration_under(body: Array) -> tuple[float, float, float]:
    """Return the acceleration of the fluid under a light body."""
    return body[FLUID_ACCELERATION], body[FLUID_ACCELERATION + 1], body[FLUID_ACCELERATION + 2]


@device_function
def respond(
    traits: Array,
    freedom: int,
    body: Array,
    su: Any,
    sv: Any,
    dt: float,
    gravity: Array,
) -> tuple[float, float, float]:
    """Compute the new motion of a body, and store the force and torque on it.

    Parameters
    ----------
    traits, body
        Its row in the table of bodies, and its state.
    freedom
        Its freedom to change its motion (:data:`flowsim.kernels.layout.FREELY` and so on), 0 if it has none.
    su, sv
        Sums of w, w r, w r^2, w f, w r f over the faces of u and of v under the body, times the area of a cell.

    Returns
    -------
    (float, float, float)
        Velocity of the centre of mass, and spin, to which the fluid under the body is dragged.
    """
    if freedom > FREELY:
        return respond_mounted(traits, freedom, body, su, sv, dt, gravity)
    cx, cy = traits[CENTROID_X], traits[CENTROID_Y]
    theta = body[ANGLE]
    cos, sin = math.cos(theta), math.sin(theta)
    # from the reference point to the centre of mass, about which all moments are taken
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
    if freedom != 0 and mass + mass_lag + min(su[0], sv[0]) > 1e-6 * m:
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
        # the body was moved with its old velocity; this correction makes it the trapezoidal rule, of second order
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
def respond_mounted(
    traits: Array, freedom: int, body: Array, su: Any, sv: Any, dt: float, gravity: Array
) -> tuple[float, float, float]:
    """Do what :func:`respond` does for a body with held degrees of freedom, springs and dampers.

    It is a separate function, because with fastmath the order of sums depends on what is compiled with them, and bodies
    without a mount must stay the same bit for bit.
    """
    ax, ay = _arm(traits, body[ANGLE])
    bx, by = _arm(traits, body[ANGLE_BEFORE])
    spin, mass, lag, turn_lag = (
        body[SPIN_BEFORE],
        traits[EXCESS_MASS],
        traits[MASS_LAG],
        traits[INERTIA_LAG],
    )
    if mass + lag + min(su[0], sv[0]) <= 1e-6 * traits[FLUID_MASS]:
        # it has no mass of its own, and no fluid to follow
        body[FORCE_X], body[FORCE_Y], body[TORQUE] = 0.0, 0.0, 0.0
        turn = body[SPIN]
        return body[VX] - turn * ay, body[VY] + turn * ax, turn
    # moving a body that turns about a point changes the velocity of its centre of mass
    old = body[VX_BEFORE] - spin * by, body[VY_BEFORE] + spin * bx, spin
    fx, fy = body[APPLIED_X] + mass * gravity[0], body[APPLIED_Y] + mass * gravity[1]
    # the moment of the force about the reference point is the mean of those before and after the step
    force = fx, fy, body[APPLIED_TORQUE] + 0.5 * ((bx - ax) * fy - (by - ay) * fx)
    follow = _acceleration_under(body)
    masses = mass, traits[EXCESS_INERTIA], lag, turn_lag
    new = mounted_motion(freedom, body, (ax, ay), masses, dt, (su, sv), old, (force, follow))
    dx, dy, turned = new[0] - old[0], new[1] - old[1], new[2] - spin
    body[ANGLE] += 0.5 * dt * turned
    bx, by = _arm(traits, body[ANGLE])
    if not freedom & HOLDS_X:
        body[X] += 0.5 * dt * dx + (ax - bx)
    if not freedom & HOLDS_Y:
        body[Y] += 0.5 * dt * dy + (ay - by)
    body[VX], body[VY], body[SPIN] = new[0] + new[2] * by, new[1] - new[2] * bx, new[2]
    stop_held(freedom, body)
    fx = (su[3] - su[0] * new[0] + su[1] * new[2] + traits[FLUID_MASS] * dx) / dt
    fy = (sv[3] - sv[0] * new[1] - sv[1] * new[2] + traits[FLUID_MASS] * dy) / dt
    turn = -su[4] + su[1] * new[0] - su[2] * new[2] + sv[4] - sv[1] * new[1] - sv[2] * new[2]
    torque = (turn + traits[FLUID_INERTIA] * turned) / dt + ax * fy - ay * fx
    lag_x, lag_y = lag * (follow[0] - dx / dt), lag * (follow[1] - dy / dt)
    # held degrees of freedom do not follow the fluid
    body[FORCE_X] = fx if freedom & HOLDS_X else fx + lag_x
    body[FORCE_Y] = fy if freedom & HOLDS_Y else fy + lag_y
    lag_t = turn_lag * (follow[2] - turned / dt) + ax * lag_y - ay * lag_x
    body[TORQUE] = torque if freedom & HOLDS_ANGLE else torque + lag_t
    return new


@device_function
def _arm(traits: Array, angle: float) -> tuple[float, float]:
    """Return the vector from the reference point to the centre of mass of a body at an angle."""
    cos, sin = math.cos(angle), math.sin(angle)
    return (
        cos * traits[CENTROID_X] - sin * traits[CENTROID_Y],
        sin * traits[CENTROID_X] + cos * traits[CENTROID_Y],
    )


@device_function
def follow_fluid(traits: Array, body: Array, su: Any, sv: Any, dt: float) -> None:
    """Store the rigid motion of the fluid under a light body, and its rate."""
    if min(su[0], sv[0]) < 0.1 * traits[FLUID_MASS]:
        for d in range(3):
            body[FLUID_ACCELERATION + d] = 0.0
        return
    nothing = (0.0, 0.0, 0.0)
    # the motion of a body without its own mass
    fit = free_motion((0.0, 0.0, 0.0, 0.0), 0.0, su, sv, nothing, nothing, nothing)
    for d in range(3):
        body[FLUID_ACCELERATION + d] = (fit[d] - body[FLUID_MOTION + d]) / dt
        body[FLUID_MOTION + d] = fit[d]
