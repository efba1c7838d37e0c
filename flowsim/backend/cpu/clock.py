"""Begin and end of a step, swept over simulations."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import small
from flowsim.stepping import begin, end, note_speed

Array = Any


@small
def begin_step(
    active: Array, time: Array, until: Array, dt: Array, ratio: Array, speed: Array, viscosity: Array, h: float,
    cfl: float, stable_decay: float, multistep: bool, velocity: Array, spin: Array, angle: Array, before: Array,
) -> None:  # fmt: skip
    """See :func:`flowsim.stepping.begin`."""
    for b in active:
        begin(b, time, until, dt, ratio, speed, viscosity, h, cfl, stable_decay, multistep, velocity, spin, angle,
              before)  # fmt: skip


@small
def find_speed(active: Array, blocks: int, speeds: Array, speed: Array, diverged: Array) -> None:
    """Find the largest |u| + |v| from that of each block, and who has blown up."""
    for b in active:
        fastest = 0.0
        for block in range(blocks):
            fastest = max(fastest, float(speeds[b, block]))
        note_speed(b, fastest, speed, diverged)


@small
def end_step(
    active: Array, time: Array, until: Array, dt: Array, steps: Array, running: Array, diverged: Array,
    outside: Array, fences: Array, position: Array, force: Array, torque: Array, impulse: Array,
) -> None:  # fmt: skip
    """See :func:`flowsim.stepping.end`."""
    for b in active:
        end(
            b,
            time,
            until,
            dt,
            steps,
            running,
            diverged,
            outside,
            fences,
            position,
            force,
            torque,
            impulse,
        )
