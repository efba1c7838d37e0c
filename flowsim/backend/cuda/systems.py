"""Solution of the systems along x, one for each mode along y, with one read and one write of the spectrum.

For a mode, phi[i-1] - (rho + 1/rho) phi[i] + phi[i+1] = r[i] with 0 < rho < 1, and

    phi = -rho / ((1 - rho S^-1)(1 - rho S)) r,   S r[i] = r[i+1],

in a row that is continued evenly beyond walls, oddly beyond open sides, or periodically: a recursion upwards, y[i] =
rho y[i-1] + r[i], and one downwards, z[i] = rho z[i+1] + y[i]. Neither needs tables of pivots, and their initial values
follow from sums over the row.

A row is divided into pieces, and each thread keeps a piece of one entry of the spectrum, which is two modes, in
registers. It computes the sums of its piece, in both directions, starting from zero; a scan in shared memory turns them
into sums over all pieces up to its own, since a piece just multiplies what enters it by rho^length; then the recursions
run in registers. Rows too long for the threads of a block are solved by :mod:`flowsim.backend.cuda.long_systems`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from flowsim.backend.cuda.launching import SIMULATED, Kernel
from flowsim.backend.cuda.pairs import load_pair, store_pair
from flowsim.backend.poisson import eigenvalues
from flowsim.kernels.cell import line_of_constants

Array = Any
LENGTH = 4 if SIMULATED else 16
"""Rows per piece."""
ENTRIES = 4 if SIMULATED else 16
"""Most entries of the spectrum per block."""
THREADS = 8 if SIMULATED else 512
"""Sufficient number of threads per block: instead of more, a block takes fewer entries."""
MOST_THREADS = 32 if SIMULATED else 1024
"""Most threads per block in float32; half as many in float64, which needs registers of twice the size."""
FEW_ENTRIES = 2 if SIMULATED else 8
"""Adjacent entries that fill one memory access: a block takes more threads rather than fewer entries than these."""
RHO, PER_LAST, PER_ROW, CLOSURE, SUM, TURN, BELOW = range(7)
"""Rows of the table: rho, rho^length for the lengths of the last piece and of the row, one over one minus rho^(period),
1 / (1 - rho^2), cosine and sine of the rotation, and from BELOW on rho^(rows below a piece) for every piece. A row that
is even beyond one end and odd beyond the other changes its sign after twice its length: then CLOSURE is one over one
plus rho^(2 n)."""


def system_tables(
    nx: int, ny: int, periodic: tuple[bool, bool], held: tuple[bool, bool, bool, bool], length: int
) -> NDArray[np.float64]:
    """Return the table (., ny // 2 + 1, 2) of both modes of every entry of a spectrum, for pieces of ``length`` rows.

    The mode that is constant along y has no recursion; its entries are zero.
    """
    m = np.arange(ny // 2 + 1)
    modes = np.stack([m, m if periodic[1] else ny - m], axis=1)
    s = 0.5 * eigenvalues(modes, ny, periodic[1], held[2])
    rho = 1.0 / (1.0 + s + np.sqrt(s * (2.0 + s)))
    last = nx - (-(-nx // length) - 1) * length
    period, sign = nx if periodic[0] else 2 * nx, 1 if held[0] == held[1] else -1
    singular = s == 0.0
    safe = np.where(singular, 0.5, rho)
    angle = -0.5 * np.pi * m / ny * (not periodic[1])
    columns = safe, safe**last, safe**nx, 1.0 / (1.0 - sign * safe**period), 1.0 / (1.0 - safe**2)
    below = [safe ** (length * piece) for piece in range(max(-(-nx // length), 2))]
    turn = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    parts = [np.where(singular, 0.0, part) for part in (*columns, *below)]
    return np.stack([*parts[: len(columns)], turn, *parts[len(columns) :]])


def threads_of(length: int, entries: int, dtype: Any) -> tuple[int, int]:
    """Return the threads per block, and how many blocks fit the registers and shared memory of a multiprocessor."""
    size = np.dtype(dtype).itemsize
    most = min(MOST_THREADS * 4 // size, MOST_THREADS * LENGTH * 4 // (length * size))
    threads = min(THREADS, most) if entries > FEW_ENTRIES else most
    return threads, most // threads


def cut(n: int, dtype: Any) -> tuple[int, int] | None:
    """Return rows per piece and entries per block for rows of length n, or None if they do not fit into a block."""
    entries = ENTRIES
    while entries >= 2:
        if -(-n // LENGTH) * entries <= threads_of(LENGTH, entries, dtype)[0]:
            return LENGTH, entries
        entries //= 2
    return None


# many arguments: arrays in shared memory, and numbers, which stay in registers
@cuda.jit(device=True)
def mode_zero_beginning(
    sums: Array,
    piece: int,
    pieces: int,
    length: int,
    n: int,
    slope: float,
    rise: float,
    total: float,
    periodic: bool,
    held_low: bool,
    held_high: bool,
) -> tuple[float, float, float, float]:
    """Return the initial slope and value of a piece of the mode that is constant along y, and what each row adds.

    phi[i-1] - 2 phi[i] + phi[i+1] = r[i] is solved by two summations, slope += r[i] - mean and phi += slope + tilt; the
    tuple is slope, phi, mean, tilt, and phi has zero mean if it is held nowhere. ``slope``, ``rise`` and ``total`` are
    those of the piece started from zero: the sum of r, phi behind it and the sum of phi in it. ``sums`` (3, pieces) is
    scratch memory that the threads share; all threads of a block must call this, even those without a piece.
    """
    end = min((piece + 1) * length, n)
    reach = 1  # number of pieces included in the sums of this one
    while True:
        cuda.syncthreads()
        if piece < pieces:
            sums[0, piece], sums[1, piece], sums[2, piece] = slope, rise, total
        cuda.syncthreads()
        if reach >= pieces:
            break
        if reach <= piece < pieces:
            count = float(end - (piece - reach + 1) * length)
            before, risen = sums[0, piece - reach], sums[1, piece - reach]
            total += sums[2, piece - reach] + count * (risen + 0.5 * (count - 1.0) * before)
            rise += risen + count * before
            slope += before
        reach *= 2
    slope, rise, total = sums[0, pieces - 1], sums[1, pieces - 1], sums[2, pieces - 1]
    size, free, mean = float(n), not (held_low or held_high), 0.0
    if free:
        mean = slope / size
    slope, rise = slope - mean * size, rise - mean * 0.5 * size * (size + 1.0)
    tilt, offset = line_of_constants(slope, rise, n, periodic, held_low, held_high)
    if free:
        total -= mean * size * (size * size - 1.0) / 6.0
        offset -= total / size + 0.5 * tilt * (size - 1.0) + offset
    here = float(piece * length)
    slope, phi = -mean * here, offset + here * (tilt - mean * 0.5 * (here + 1.0))
    if 0 < piece < pieces:
        slope, phi = slope + sums[0, piece - 1], phi + sums[1, piece - 1]
    return slope, phi, mean, tilt


@cuda.jit(device=True)
def _constants(table: Array, kind: int, row: Any, entry: Any) -> tuple[float, float]:
    """Return the values of a row of the table for the modes of an entry."""
    return load_pair(table, np.uint64(entry) + np.uint64(kind) * np.uint64(row))


# one kernel: its parts are separated by barriers, and share registers
@functools.cache
def systems_kernel(length: int, entries: int, dtype: np.dtype) -> Kernel:
    """Return the kernel for pieces of ``length`` rows and blocks of ``entries`` entries of the spectrum, two or more.

    Every thread has two numbers for each row of its piece: all loops over them have constant length, so that they are
    unrolled and the arrays stay in registers.
    """
    real = dtype.type
    bounds = threads_of(length, entries, dtype)
    threads = bounds[0]
    told_size, zero_threads = 8 * threads, min(threads, THREADS)
    sums_shape = (3, zero_threads)
    zero_length = -(-(threads // entries) * length // zero_threads)

    # many arguments: arrays in shared memory, and numbers, which stay in registers
    @cuda.jit(device=True)
    def solve_mode_zero(
        spectrum: Array, first: Any, row: Any, n: int, piece: int, scale: float,
        periodic: bool, held_low: bool, held_high: bool,
    ) -> None:  # fmt: skip
        """Solve the mode that is constant along y, in double precision; the solution is multiplied by ``scale``.

        Its pieces are shorter, so that more threads take part.
        """
        sums = cuda.shared.array(sums_shape, np.float64)
        pieces = (n + zero_length - 1) // zero_length
        start = min(piece, pieces - 1) * zero_length
        count = np.int32(min(zero_length, n - start)) if piece < pieces else np.int32(0)
        first += np.uint64(start) * row
        at = first
        slope, rise, total = 0.0, 0.0, 0.0
        for k in range(zero_length):
            value = float(spectrum[at])
            if k < count:
                total += rise
                slope += value
                rise += slope
            if k + 1 < count:
                at += row
        slope, phi, mean, tilt = mode_zero_beginning(
            sums, piece, pieces, zero_length, n, slope, rise, total, periodic, held_low, held_high
        )
        at = first
        for k in range(zero_length):
            if k < count:
                value = float(spectrum[at])
                store_pair(spectrum, at, real(scale * phi), real(0))
                slope += value - mean
                phi += slope + tilt
                at += row

    # one kernel: its parts are separated by barriers, and share registers
    def _solve_systems(
        active: Array, spectrum: Array, n: int, modes: int, pieces: int, table: Array, per_ny: float,
        periodic: bool, constant: bool, held_low: bool, held_high: bool,
    ) -> None:  # fmt: skip
        b = cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y
        if b >= active.size or not active[b]:
            return
        x, piece = cuda.threadIdx.x, cuda.threadIdx.y
        row = np.uint32(2 * modes)
        if constant and cuda.blockIdx.x == 0:
            first = np.uint64(b * n * modes * 2)
            t = piece * entries + x
            solve_mode_zero(
                spectrum, first, np.uint64(row), n, t, per_ny, periodic, held_low, held_high
            )
            return
        mode = cuda.blockIdx.x * entries + x + (1 - entries if constant else 0)
        inside = mode < modes  # otherwise the thread only takes part in barriers
        if not inside:
            mode = modes - 1
        start, last = np.int32(piece * length), np.int32(pieces - 1)
        count = np.int32(min(length, n - piece * length))
        first = np.uint64(((b * n + start) * modes + mode) * 2)
        entry = np.uint32(2 * mode)

        # values of the two modes, the upward recursion, and the sum over the piece as seen from its first row
        a0, a1 = cuda.local.array(length, real), cuda.local.array(length, real)
        at = first
        for k in range(length):
            a0[k], a1[k] = load_pair(spectrum, at)
            at += np.uint64(row if k + 1 < count else 0)
        rho0, rho1 = _constants(table, RHO, row, entry)
        c, s = _constants(table, TURN, row, entry)
        scale0, scale1 = -rho0 * real(per_ny), -rho1 * real(per_ny)
        c0, s0, c1, s1 = scale0 * c, scale0 * s, scale1 * c, scale1 * s
        up0, up1, down0, down1 = real(0), real(0), real(0), real(0)
        for k in range(length):
            re, im = a0[k], a1[k]
            a0[k] = c0 * re - s0 * im if k < count else real(0)
            a1[k] = c1 * im + s1 * re if k < count else real(0)
            if k < count:
                up0, up1 = rho0 * up0 + a0[k], rho1 * up1 + a1[k]
        for back in range(length):
            k = length - 1 - back
            down0, down1 = rho0 * down0 + a0[k], rho1 * down1 + a1[k]

        # the scan: sums over 1, 2, 4, ... pieces that end, or begin, with this one; the last piece, which may be
        # shorter, keeps its own upward sum
        told = cuda.shared.array(told_size, real)
        t, reach = np.uint32(piece * entries + x), np.int32(1)
        here, there = t, np.uint32(t + 4 * threads)
        per0, per1 = _constants(table, BELOW + 1, row, entry)
        while reach < pieces:
            told[here], told[here + threads] = up0, up1
            told[here + 2 * threads], told[here + 3 * threads] = down0, down1
            cuda.syncthreads()
            if reach <= piece < last:
                other = np.uint32(here - reach * entries)
                up0 += per0 * told[other]
                up1 += per1 * told[other + threads]
            if piece + reach < pieces:
                other = np.uint32(here + reach * entries)
                down0 += per0 * told[other + 2 * threads]
                down1 += per1 * told[other + 3 * threads]
            per0, per1 = per0 * per0, per1 * per1
            here, there = there, here
            reach = np.int32(2 * reach)
        told[here], told[here + threads] = up0, up1
        told[here + 2 * threads], told[here + 3 * threads] = down0, down1
        cuda.syncthreads()

        # values that enter at the ends of the row, then values that enter this piece
        lowest = here - piece * entries
        highest = lowest + last * entries
        up0, up1 = told[highest], told[highest + threads]
        down0, down1 = told[lowest + 2 * threads], told[lowest + 3 * threads]
        below0, below1 = _constants(table, BELOW + piece, row, entry)
        above0, above1 = real(1), real(1)
        if last > 0:
            final0, final1 = _constants(table, PER_LAST, row, entry)
            up0 += final0 * told[highest - entries]
            up1 += final1 * told[highest - entries + threads]
            if piece < last:
                above0, above1 = _constants(table, BELOW + last - 1 - piece, row, entry)
                above0, above1 = above0 * final0, above1 * final1
        closure0, closure1 = _constants(table, CLOSURE, row, entry)
        y0, y1, z0, z1 = up0, up1, down0, down1
        if not periodic:
            row0, row1 = _constants(table, PER_ROW, row, entry)
            low, high = real(-1 if held_low else 1), real(-1 if held_high else 1)
            y0, y1 = low * (down0 + high * row0 * up0), low * (down1 + high * row1 * up1)
            z0, z1 = high * (up0 + low * row0 * down0), high * (up1 + low * row1 * down1)
        y0, y1 = y0 * closure0 * below0, y1 * closure1 * below1
        z0, z1 = z0 * closure0 * above0, z1 * closure1 * above1
        if piece > 0:
            y0, y1 = y0 + told[here - entries], y1 + told[here - entries + threads]
        if piece < last:
            other = here + entries
            z0, z1 = z0 + told[other + 2 * threads], z1 + told[other + 3 * threads]

        # the recursions; the downward one begins in the row above the piece
        rho0, rho1 = _constants(table, RHO, row, entry)
        for k in range(length):
            if k < count:
                y0, y1 = rho0 * y0 + a0[k], rho1 * y1 + a1[k]
            a0[k], a1[k] = y0, y1
        sum0, sum1 = _constants(table, SUM, row, entry)
        z0, z1 = sum0 * (rho0 * y0 + z0), sum1 * (rho1 * y1 + z1)
        c, s = _constants(table, TURN, row, entry)
        if inside:
            for back in range(length):
                k = length - 1 - back
                if k < count:
                    z0, z1 = rho0 * z0 + a0[k], rho1 * z1 + a1[k]
                    at = first + np.uint64(np.uint32(k) * row)
                    store_pair(spectrum, at, c * z0 + s * z1, c * z1 - s * z0)

    return Kernel(_solve_systems, launch_bounds=bounds)
