"""Selective frequency damping."""

from __future__ import annotations

from typing import Any

from numba import cuda

from flowsim.backend.cuda.launching import TILE, Kernel, cell_blocks
from flowsim.grid import GHOSTS as G
from flowsim.kernels.damping import shares_of_step
from flowsim.kernels.layout import DT
from flowsim.kernels.records import Clock

Array = Any


@Kernel
def _damp(active: Array, clock: Array, values: Array, filtered: Array, columns: Array) -> None:
    j, i, b = cuda.grid(3)
    if i + 2 * G <= values.shape[1] and j + 2 * G <= values.shape[2] and active[b]:
        real = values.dtype.type
        loss, gain = shares_of_step(columns[b], clock[b, DT])
        away = values[b, i + G, j + G] - filtered[b, i + G, j + G]
        values[b, i + G, j + G] -= real(loss) * away
        filtered[b, i + G, j + G] += real(gain) * away


def damp(active: Array, clock: Clock, values: Array, filtered: Array, columns: Array) -> None:
    """See :func:`flowsim.backend.cpu.damping.damp`."""
    batch, nx, ny = values.shape[0], values.shape[1] - 2 * G, values.shape[2] - 2 * G
    tiles = cell_blocks(nx + 1, ny + 1, batch), (*TILE, 1)
    _damp.launch(*tiles, active, clock.columns, values, filtered, columns)
