"""Begin and end of a step of one simulation, shared by all backends: step size, forces, and when to stop."""

from __future__ import annotations

import math
from typing import Any

from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import (
    ANGLE,
    ANGLE_BEFORE,
    CATCH_UP,
    DIFFUSIVITY,
    DIVERGED,
    DT,
    ENDING_CONTACT,
    FORCE_X,
    FORCE_Y,
    IMPULSE_TORQUE,
    IMPULSE_X,
    IMPULSE_Y,
    LAG,
    RATIO,
    RUNNING,
    SPEED,
    SPIN,
    SPIN_BEFORE,
    STOPPED,
    TIME,
    TORQUE,
    UNTIL,
    VISCOSITY,
    VX,
    VX_BEFORE,
    VY,
    VY_BEFORE,
    WORK,
    X_HIGH,
    X_LOW,
    Y_HIGH,
    Y_LOW,
    X,
    Y,
)
from flowsim.kernels.records import Clock

Array = Any

REFERENCE_CFL = 0.5
"""CFL number of the step in which a cut cell is penalised by its solid share."""
ABSURD_SPEED = 1e3
"""A flow faster than this many U has blown up."""
LARGEST_RATIO = 10.0
"""Ratio of a step to the last one beyond which it is an Euler step: the rates of a much shorter step say nothing about
a longer one, which a multi-step method would extrapolate from them."""

FASTEST_CATCH_UP = 2.0
"""Largest speed at which far-field sides and the pressure make up their lag, in times that of the flow."""


@device_function
def time_step(
    speed: float, nu: float, h: float, cfl: float, stable_decay: float, left: float
) -> float:
    """Return dt from the CFL condition and the diffusive limit, such that whole steps fill the time ``left``.

    The shortest waves decay at the sum of the rates of upwind dissipation and of diffusion, and the stability interval
    of the negative real axis, ``stable_decay``, is 1 for Adams-Bashforth and 2 for Euler.
    """
    # even a slow flow takes no longer steps than one of speed U, so that sudden forces are resolved
    speed = max(speed, 1.0)
    decay = 4.0 / 3.0 * speed / h + 8.0 * nu / h**2
    dt = min(cfl * h / speed, 0.9 * stable_decay / decay)
    if left < math.inf:
        left = max(left, 1e-12)
        dt = left / max(math.ceil(left / dt - 1e-9), 1)
    return dt


@device_function
def reference_step(speed: float, nu: float, h: float) -> float:
    """Return dt_0, the step at the reference CFL number, which depends on the flow and the grid alone."""
    return time_step(speed, nu, h, REFERENCE_CFL, 1.0, math.inf)


@device_function
def grip_of_step(clock: Array, penalty: float, h: float, moves: bool) -> tuple[float, float]:
    """Return C / (1 + C) and dt / dt_0 of the step of a simulation from its row of the clocks.

    A flow that settles (not ``moves``) takes no time, and each of its sweeps holds the solid share.
    """
    dt = clock[DT]
    c = penalty * dt
    steps = dt / reference_step(clock[SPEED], clock[VISCOSITY], h) if moves else 1.0
    return c / (1.0 + c), steps


@device_function
def begin(
    clock: Array, bodies: Array, h: float, cfl: float, stable_decay: float, multistep: bool
) -> None:
    """Set dt and its ratio to the last one, 0 for an Euler step; store the bodies' motion before it.

    ``clock`` and ``bodies`` are the rows of one simulation in the clocks and in the states of bodies.
    """
    last = clock[DT]
    left = clock[UNTIL] - clock[TIME]
    diffusivity = max(clock[VISCOSITY], clock[DIFFUSIVITY])
    dt = time_step(clock[SPEED], diffusivity, h, cfl, stable_decay, left)
    follows = multistep and last > 0.0 and dt <= LARGEST_RATIO * last
    clock[DT], clock[RATIO] = dt, dt / last if follows else 0.0
    catch_up(clock, last)
    for k in range(bodies.shape[0]):
        bodies[k, VX_BEFORE], bodies[k, VY_BEFORE] = bodies[k, VX], bodies[k, VY]
        bodies[k, SPIN_BEFORE], bodies[k, ANGLE_BEFORE] = bodies[k, SPIN], bodies[k, ANGLE]


@device_function
def catch_up(clock: Array, last: float) -> None:
    """Choose how far far-field sides and the pressure follow the flow in this step; ``last`` is the last one, or 0.

    Both lag behind by a step: the velocity on the sides follows from the flow at the beginning of it, and the pressure
    from what the projection of the last one left to do. In a much shorter step they would have to make up what a longer
    one left, and the pressure would accelerate all of the fluid in that short time.
    """
    dt, lag = clock[DT], clock[LAG] if last > 0.0 else 0.0
    clock[CATCH_UP] = FASTEST_CATCH_UP * dt / lag if FASTEST_CATCH_UP * dt < lag else 1.0
    clock[LAG] = lag * (1.0 - clock[CATCH_UP]) + dt


@device_function
def note_speed(b: int, fastest: float, clock: Clock) -> None:
    """Store the largest |u| + |v| of simulation b, and whether it has blown up."""
    clock.columns[b, SPEED] = fastest
    clock.flags[DIVERGED, b] = not fastest < ABSURD_SPEED


@device_function
def end(b: int, clock: Clock, bodies: Array, contact: Array) -> None:
    """Advance time, add up the forces, and stop at the end of the time, at a fence, at a contact, or after a blow-up.

    ``bodies`` are the states of the bodies of all simulations, ``contact`` (B, K) what they touch.
    """
    columns, flags = clock.columns, clock.flags
    step = columns[b, DT]
    columns[b, TIME] += step
    clock.steps[b] += 1
    for k in range(bodies.shape[1]):
        body = bodies[b, k]
        x, y = body[X], body[Y]
        if not (body[X_LOW] <= x <= body[X_HIGH] and body[Y_LOW] <= y <= body[Y_HIGH]):
            flags[STOPPED, b] = True
        if contact[b, k] & int(body[ENDING_CONTACT]):
            flags[STOPPED, b] = True
        fx, fy, torque = body[FORCE_X], body[FORCE_Y], body[TORQUE]
        # a simulation that has blown up adds nothing instead of infinity
        if math.isfinite(fx) and math.isfinite(fy) and math.isfinite(torque):
            body[IMPULSE_X] += fx * step
            body[IMPULSE_Y] += fy * step
            body[IMPULSE_TORQUE] += torque * step
            body[WORK] += (
                0.5
                * step
                * (
                    fx * (body[VX_BEFORE] + body[VX])
                    + fy * (body[VY_BEFORE] + body[VY])
                    + torque * (body[SPIN_BEFORE] + body[SPIN])
                )
            )
    late = columns[b, TIME] >= columns[b, UNTIL] - 1e-9
    flags[RUNNING, b] = not (flags[DIVERGED, b] or flags[STOPPED, b] or late)
