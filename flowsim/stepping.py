"""Begin and end of the step of one simulation, written once for every backend: how long it is, and who goes on."""

from __future__ import annotations

import math
from typing import Any

from flowsim.shared import shared

Array = Any

ABSURD_SPEED = 1e3
"""A flow faster than this many U has blown up."""


@shared
def time_step(
    speed: float, nu: float, h: float, cfl: float, stable_decay: float, left: float
) -> float:
    """Return dt from the CFL condition and the diffusive limit, such that whole steps fill the time ``left``.

    Shortest waves decay at the sum of the rates of upwind dissipation and of diffusion, and the stability interval of
    the negative real axis, ``stable_decay``, is 1 for Adams-Bashforth and 2 for Euler.
    """
    # no flow, however slow, takes longer steps than one of speed U, so that sudden forces are resolved
    speed = max(speed, 1.0)
    decay = 4.0 / 3.0 * speed / h + 8.0 * nu / h**2
    dt = min(cfl * h / speed, 0.9 * stable_decay / decay)
    if left < math.inf:
        left = max(left, 1e-12)
        dt = left / math.ceil(left / dt - 1e-9)
    return dt


@shared
def begin(
    b: int, time: Array, until: Array, dt: Array, ratio: Array, speed: Array, viscosity: Array, h: float, cfl: float,
    stable_decay: float, multistep: bool, velocity: Array, spin: Array, angle: Array, before: Array,
) -> None:  # fmt: skip
    """Set dt and its ratio to the last one, 0 for the first step and for Euler; note how the bodies are and move."""
    last = dt[b]
    dt[b] = time_step(speed[b], viscosity[b], h, cfl, stable_decay, until[b] - time[b])
    ratio[b] = dt[b] / last if multistep and last > 0.0 else 0.0
    for k in range(spin.shape[1]):
        before[b, k, 0], before[b, k, 1] = velocity[b, k, 0], velocity[b, k, 1]
        before[b, k, 2], before[b, k, 3] = spin[b, k], angle[b, k]


@shared
def note_speed(b: int, fastest: float, speed: Array, diverged: Array) -> None:
    """Keep the largest |u| + |v|, and whether the simulation has blown up."""
    speed[b] = fastest
    diverged[b] = not fastest < ABSURD_SPEED


@shared
def end(
    b: int, time: Array, until: Array, dt: Array, steps: Array, running: Array, diverged: Array, outside: Array,
    fences: Array, position: Array, force: Array, torque: Array, impulse: Array,
) -> None:  # fmt: skip
    """Let time go by, add up the forces, and stop at the end of the time, at a fence, or after a blow-up."""
    step = dt[b]
    time[b] += step
    steps[b] += 1
    for k in range(torque.shape[1]):
        x, y = position[b, k, 0], position[b, k, 1]
        x0, x1, y0, y1 = fences[b, k, 0], fences[b, k, 1], fences[b, k, 2], fences[b, k, 3]
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            outside[b] = True
        # a simulation that has blown up adds nothing rather than infinity
        if (
            math.isfinite(force[b, k, 0])
            and math.isfinite(force[b, k, 1])
            and math.isfinite(torque[b, k])
        ):
            impulse[b, k, 0] += force[b, k, 0] * step
            impulse[b, k, 1] += force[b, k, 1] * step
            impulse[b, k, 2] += torque[b, k] * step
    running[b] = not (diverged[b] or outside[b] or time[b] >= until[b] - 1e-9)
