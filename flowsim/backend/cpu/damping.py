"""Selective frequency damping."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import Task, divided, row_loop, rows_of
from flowsim.grid import GHOSTS as G
from flowsim.kernels.damping import shares_of_step
from flowsim.kernels.layout import DT
from flowsim.kernels.records import Clock

Array = Any


@row_loop
def _damp_row(values: Array, filtered: Array, loss: Any, gain: Any) -> None:
    for j in range(len(values)):
        away = values[j] - filtered[j]
        values[j] -= loss * away
        filtered[j] += gain * away


@divided
def damp(task: Task, clock: Clock, values: Array, filtered: Array, columns: Array) -> None:
    """Damp a field towards its filtered copy and update that; both are padded fields (B, ...)."""
    b = task.b
    real = values.dtype.type
    loss, gain = shares_of_step(columns[b], clock.columns[b, DT])
    start, stop = rows_of(task, G, values.shape[1] - G + 1)
    inside = slice(G, values.shape[2] - G + 1)
    for i in range(start, stop):
        _damp_row(values[b, i, inside], filtered[b, i, inside], real(loss), real(gain))
