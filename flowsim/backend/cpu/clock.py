"""Begin and end of a step, swept over simulations."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import small
from flowsim.kernels.time import begin, end, note_speed

Array = Any


@small
def begin_step(
    active: Array,
    clock: Array,
    state: Array,
    h: float,
    cfl: float,
    stable_decay: float,
    multistep: bool,
) -> None:
    """See :func:`flowsim.kernels.time.begin`."""
    for b in active:
        begin(clock[b], state[b], h, cfl, stable_decay, multistep)


@small
def find_speed(active: Array, blocks: int, speeds: Array, clock: Array, flags: Array) -> None:
    """Find the largest |u| + |v| from that of each block, and who has blown up."""
    for b in active:
        fastest = 0.0
        for block in range(blocks):
            fastest = max(fastest, float(speeds[b, block]))
        note_speed(b, fastest, clock, flags)


@small
def end_step(active: Array, clock: Array, steps: Array, flags: Array, state: Array) -> None:
    """See :func:`flowsim.kernels.time.end`."""
    for b in active:
        end(b, clock, steps, flags, state)
