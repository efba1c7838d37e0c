"""Solution of the systems along x in rows too long for one block of threads (:mod:`flowsim.backend.cuda.systems`).

Every row is divided into as many pieces as a block has threads for; they are read twice and written twice. The
recursions are the same, with a table in double precision; each thread computes what enters its piece from the sums of
all pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import SIMULATED, Kernel
from flowsim.backend.cuda.systems import (
    BELOW,
    CLOSURE,
    PER_LAST,
    PER_ROW,
    RHO,
    SUM,
    TURN,
    mode_zero_beginning,
)

Array = Any
MODES, PIECES = (2, 4) if SIMULATED else (16, 32)
"""Modes per block, and pieces of each row."""


@cuda.jit(device=True)
def _handed_up(sums: Array, table: Array, mode: int, part: int, start: float, piece: int) -> float:
    """Return the value with which the upward recursion enters a piece."""
    value = start
    for before in range(piece):
        value = table[BELOW + 1, mode, part] * value + sums[before, cuda.threadIdx.x, part]
    return value


@cuda.jit(device=True)
def _handed_down(
    sums: Array, table: Array, mode: int, part: int, start: float, piece: int, pieces: int
) -> float:
    """Return the sum over everything above, w[i] = rho (w[i+1] + r[i+1]), at the end of a piece."""
    value = start
    for after in range(pieces - 1, piece, -1):
        per = table[PER_LAST if after == pieces - 1 else BELOW + 1, mode, part]
        value = per * value + table[RHO, mode, part] * sums[after, cuda.threadIdx.x, part]
    return value


# many arguments: arrays in shared memory, and numbers, which stay in registers
@cuda.jit(device=True)
def _beginnings(
    rising: Array,
    falling: Array,
    table: Array,
    mode: int,
    part: int,
    pieces: int,
    periodic: bool,
    low: float,
    high: float,
) -> tuple[float, float]:
    """Return the initial values of the upward recursion and of the sum over everything above, at the ends of the row.

    ``low`` and ``high`` are 1 where the row is continued evenly and -1 where oddly.
    """
    up, down = 0.0, 0.0
    for piece in range(pieces):
        per = table[PER_LAST if piece == pieces - 1 else BELOW + 1, mode, part]
        up = per * up + rising[piece, cuda.threadIdx.x, part]
    for piece in range(pieces - 1, -1, -1):
        per = table[PER_LAST if piece == pieces - 1 else BELOW + 1, mode, part]
        down = per * down + falling[piece, cuda.threadIdx.x, part]
    rho, row, closure = (
        table[RHO, mode, part],
        table[PER_ROW, mode, part],
        table[CLOSURE, mode, part],
    )
    if periodic:
        return closure * up, rho * closure * down
    return closure * low * (down + high * row * up), rho * closure * high * (up + low * row * down)


# many arguments: arrays in shared memory, and numbers, which stay in registers
@cuda.jit(device=True)
def _solve_mode_zero(
    spectrum: Array,
    first: Any,
    row: Any,
    count: int,
    length: int,
    n: int,
    periodic: bool,
    held_low: bool,
    held_high: bool,
    scale: float,
    sums: Array,
) -> None:
    """Solve the mode that is constant along y, in double precision; the solution is multiplied by ``scale``.

    ``first`` is the index where this piece of ``count`` rows begins. ``sums`` (3, pieces) is scratch memory that the
    threads share; all threads of a block must call this.
    """
    pieces = (n + length - 1) // length
    mine = cuda.threadIdx.x == 0 and cuda.threadIdx.y < pieces
    piece = cuda.threadIdx.y if mine else pieces
    slope, rise, total = 0.0, 0.0, 0.0
    at = first
    if mine:
        for _ in range(count):
            total += rise
            slope += float(spectrum[at])
            rise += slope
            at += row
    slope, phi, mean, tilt = mode_zero_beginning(
        sums, piece, pieces, length, n, slope, rise, total, periodic, held_low, held_high
    )
    if mine:
        real = spectrum.dtype.type
        at = first
        for _ in range(count):
            r = float(spectrum[at])
            spectrum[at], spectrum[at + np.uint64(1)] = real(scale * phi), real(0)
            slope += r - mean
            phi += slope + tilt
            at += row


# one kernel: its parts are separated by barriers, and share registers
@Kernel
def solve_long_systems(
    active: Array,
    spectrum: Array,
    n: int,
    modes: int,
    length: int,
    table: Array,
    per_ny: float,
    periodic: bool,
    constant: bool,
    held_low: bool,
    held_high: bool,
) -> None:
    """Solve the systems for the entries of a block; see :meth:`flowsim.backend.cuda.poisson.Systems.solve`."""
    b = cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y
    piece, x = cuda.threadIdx.y, cuda.threadIdx.x
    if b >= active.size or not active[b]:
        return
    rising = cuda.shared.array((PIECES, MODES, 2), np.float64)
    falling = cuda.shared.array((PIECES, MODES, 2), np.float64)
    start, stop = min(piece * length, n), min((piece + 1) * length, n)
    one, row = np.uint64(1), np.uint64(modes * 2)
    if constant and cuda.blockIdx.x == 0:
        first = np.uint64((b * n + start) * modes * 2)
        sums = cuda.shared.array((3, PIECES), np.float64)
        _solve_mode_zero(
            spectrum,
            first,
            row,
            stop - start,
            length,
            n,
            periodic,
            held_low,
            held_high,
            per_ny,
            sums,
        )
        return
    mode = cuda.blockIdx.x * MODES + x + (1 - MODES if constant else 0)
    low, high = -1.0 if held_low else 1.0, -1.0 if held_high else 1.0
    inside = mode < modes
    real = spectrum.dtype.type
    first = np.uint64(((b * n + start) * modes + mode) * 2)
    if inside:
        rho0, rho1 = real(table[RHO, mode, 0]), real(table[RHO, mode, 1])
        c, s = real(table[TURN, mode, 0]), real(table[TURN, mode, 1])
        up0, up1, down0, down1, p0, p1 = real(0), real(0), real(0), real(0), real(1), real(1)
        at = first
        for _ in range(start, stop):
            re, im = spectrum[at], spectrum[at + one]
            at += row
            r0, r1 = c * re - s * im, c * im + s * re
            up0, up1 = rho0 * up0 + r0, rho1 * up1 + r1
            down0, down1 = down0 + p0 * r0, down1 + p1 * r1
            p0, p1 = p0 * rho0, p1 * rho1
        rising[piece, x, 0], rising[piece, x, 1] = up0, up1
        falling[piece, x, 0], falling[piece, x, 1] = down0, down1
    cuda.syncthreads()
    if not inside or start >= stop:
        return
    pieces = (n + length - 1) // length
    low0, high0 = _beginnings(rising, falling, table, mode, 0, pieces, periodic, low, high)
    low1, high1 = _beginnings(rising, falling, table, mode, 1, pieces, periodic, low, high)
    y0 = real(_handed_up(rising, table, mode, 0, low0, piece))
    y1 = real(_handed_up(rising, table, mode, 1, low1, piece))
    at = first
    for _ in range(start, stop):
        re, im = spectrum[at], spectrum[at + one]
        y0 = rho0 * y0 + (c * re - s * im)
        y1 = rho1 * y1 + c * im + s * re
        spectrum[at], spectrum[at + one] = y0, y1
        at += row
    w0 = _handed_down(falling, table, mode, 0, high0, piece, pieces)
    w1 = _handed_down(falling, table, mode, 1, high1, piece, pieces)
    z0, z1 = real(table[SUM, mode, 0] * (y0 + w0)), real(table[SUM, mode, 1] * (y1 + w1))
    scale0, scale1 = -rho0 * real(per_ny), -rho1 * real(per_ny)
    for back in range(stop - start):
        at -= row
        if back > 0:
            z0 = rho0 * z0 + spectrum[at]
            z1 = rho1 * z1 + spectrum[at + one]
        x0, x1 = scale0 * z0, scale1 * z1
        spectrum[at], spectrum[at + one] = c * x0 + s * x1, c * x1 - s * x0
