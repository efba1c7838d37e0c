"""The pressure solver: real Fourier transforms along y (cuFFT), systems along x by two recursions.

Between walls the cosine transform of a row is the Fourier transform of the row in the order of
:func:`flowsim.backend.cuda.flow.place_along_y`, turned by w_m = exp(-i pi m / 2 n): real and minus imaginary part of
the m-th entry are modes m and n - m (Makhoul 1980). The sweeps on either side of the transforms do the ordering and
the turning. Between open sides odd entries change their sign, too, which makes sine modes of them.

What is left for a mode is phi[i-1] - (rho + 1/rho) phi[i] + phi[i+1] = r[i] with 0 < rho < 1, and

    phi = -rho / ((1 - rho S^-1)(1 - rho S)) r,   S r[i] = r[i+1],

in a row that goes on evenly beyond walls, oddly beyond open sides, or around: a recursion upwards, y[i] = rho y[i-1]
+ r[i], and one downwards, z[i] = rho z[i+1] + y[i]. Both need no tables of pivots, and their beginnings follow from
sums over the row. A row is cut into pieces that as many threads take at once: each finds what it would hand on if it
began with nothing, then what it is handed, since rho^length is all that a piece does to what comes in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from flowsim.backend.cuda.device import Device, Transform
from flowsim.backend.cuda.flow import cell_index, cell_outflow, place_along_y, sign_along_y
from flowsim.backend.cuda.launching import SIMULATED, TILE, Kernel, cell_blocks
from flowsim.backend.poisson import eigenvalues
from flowsim.kernels.cell import line_of_constants

Array = Any
MODES, PIECES = (2, 4) if SIMULATED else (16, 32)
"""Modes and pieces of each row that one block takes."""
RHO, PER_PIECE, PER_LAST, PER_ROW, CLOSURE, SUM = range(6)
"""Columns of the table of a mode: rho, rho^length for the lengths of a piece, of the last one and of the row, one over
one minus rho^(period), and 1 / (1 - rho^2). A row that is even beyond one end and odd beyond the other changes its sign
after twice its length: then it is one over one plus rho^(2 n)."""


def system_tables(
    nx: int, ny: int, periodic: tuple[bool, bool], held: tuple[bool, bool, bool, bool], pieces: int
) -> tuple[NDArray[np.float64], int]:
    """Return the tables (ny // 2 + 1, 2, 6) of both modes of every entry of a spectrum, and the length of a piece.

    The mode of no variation along y has no recursion; its entries are zero.
    """
    m = np.arange(ny // 2 + 1)
    modes = np.stack([m, m if periodic[1] else ny - m], axis=1)
    s = 0.5 * eigenvalues(modes, ny, periodic[1], held[2])
    rho = 1.0 / (1.0 + s + np.sqrt(s * (2.0 + s)))
    length = -(-nx // pieces)
    last = nx - (-(-nx // length) - 1) * length
    period, sign = nx if periodic[0] else 2 * nx, 1 if held[0] == held[1] else -1
    table = np.zeros((*rho.shape, 6))
    singular = s == 0.0
    safe = np.where(singular, 0.5, rho)
    for column, values in (
        (RHO, safe),
        (PER_PIECE, safe**length),
        (PER_LAST, safe**last),
        (PER_ROW, safe**nx),
        (CLOSURE, 1.0 / (1.0 - sign * safe**period)),
        (SUM, 1.0 / (1.0 - safe**2)),
    ):
        table[..., column] = np.where(singular, 0.0, values)
    return table, length


@Kernel
def _transformable_divergence(
    active: Array, u: Array, v: Array, d: Array, nx: int, ny: int, sides: Array
) -> None:
    j, i, b = cuda.grid(3)
    if i < nx and j < ny and active[b]:
        sign = u.dtype.type(sign_along_y(j, sides))
        d[cell_index(b, i, place_along_y(j, ny, sides), nx, ny)] = sign * cell_outflow(
            u, v, b, i, j, nx, ny, sides
        )


@cuda.jit(device=True)
def _handed_up(sums: Array, table: Array, mode: int, part: int, start: float, piece: int) -> float:
    """Return what the recursion upwards hands to a piece."""
    value = start
    for before in range(piece):
        value = table[mode, part, PER_PIECE] * value + sums[before, cuda.threadIdx.x, part]
    return value


@cuda.jit(device=True)
def _handed_down(
    sums: Array, table: Array, mode: int, part: int, start: float, piece: int, pieces: int
) -> float:
    """Return what the sum over all that lies above, w[i] = rho (w[i+1] + r[i+1]), is at the end of a piece."""
    value = start
    for after in range(pieces - 1, piece, -1):
        per = table[mode, part, PER_LAST if after == pieces - 1 else PER_PIECE]
        value = per * value + table[mode, part, RHO] * sums[after, cuda.threadIdx.x, part]
    return value


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
    """Return what the recursion upwards and the sum over all above begin with, at either end of the row.

    ``low`` and ``high`` are 1 where the row goes on evenly and -1 where oddly.
    """
    up, down = 0.0, 0.0
    for piece in range(pieces):
        per = table[mode, part, PER_LAST if piece == pieces - 1 else PER_PIECE]
        up = per * up + rising[piece, cuda.threadIdx.x, part]
    for piece in range(pieces - 1, -1, -1):
        per = table[mode, part, PER_LAST if piece == pieces - 1 else PER_PIECE]
        down = per * down + falling[piece, cuda.threadIdx.x, part]
    rho, row, closure = (
        table[mode, part, RHO],
        table[mode, part, PER_ROW],
        table[mode, part, CLOSURE],
    )
    if periodic:
        return closure * up, rho * closure * down
    return closure * low * (down + high * row * up), rho * closure * high * (up + low * row * down)


@cuda.jit(device=True)
def _solve_mode_zero(
    spectrum: Array,
    first: Any,
    row: Any,
    start: int,
    stop: int,
    length: int,
    n: int,
    periodic: bool,
    held_low: bool,
    held_high: bool,
    scale: float,
    sums: Array,
) -> None:
    """Solve phi[i-1] - 2 phi[i] + phi[i+1] = r[i] by two summations; phi is of zero mean if held nowhere.

    It is written times ``scale``. ``first`` is where this piece begins, from ``start`` to ``stop``. ``sums``
    (pieces, ., 2) is room for what the threads tell each other; all threads of a block come along.
    """
    piece = cuda.threadIdx.y
    mine = cuda.threadIdx.x == 0
    slope, rise = 0.0, 0.0
    at = first
    if mine:
        for _ in range(start, stop):
            slope += float(spectrum[at])
            rise += slope
            at += row
        sums[piece, 0, 0], sums[piece, 0, 1] = slope, rise
    cuda.syncthreads()
    mean = 0.0
    free = not (held_low or held_high)
    if free:
        for other in range(cuda.blockDim.y):
            mean += sums[other, 0, 0]
        mean /= n
    # slope and value at the beginning of this piece, and the mean slope of the whole row
    slope, value, here_slope, here = 0.0, 0.0, 0.0, 0.0
    for other in range(cuda.blockDim.y):
        if other == piece:
            here_slope, here = slope, value
        count = min((other + 1) * length, n) - min(other * length, n)
        value += count * slope + sums[other, 0, 1] - mean * 0.5 * count * (count + 1)
        slope += sums[other, 0, 0] - mean * count
    tilt, offset = line_of_constants(slope, value, n, periodic, held_low, held_high)
    here += offset
    cuda.syncthreads()
    total = 0.0
    if mine:
        running, phi, at = here_slope, here + tilt * start, first
        for _ in range(start, stop):
            total += phi
            running += float(spectrum[at]) - mean
            phi += running + tilt
            at += row
        sums[piece, 0, 0] = total
    cuda.syncthreads()
    if mine:
        total = 0.0
        if free:
            for other in range(cuda.blockDim.y):
                total += sums[other, 0, 0]
        real = spectrum.dtype.type
        running, phi, at = here_slope, here + tilt * start - total / n, first
        for _ in range(start, stop):
            r = float(spectrum[at])
            spectrum[at], spectrum[at + np.uint64(1)] = real(scale * phi), real(0)
            running += r - mean
            phi += running + tilt
            at += row


@Kernel
def _solve_systems(
    active: Array,
    spectrum: Array,
    n: int,
    modes: int,
    table: Array,
    turns: Array,
    length: int,
    periodic: bool,
    constant: bool,
    held_low: bool,
    held_high: bool,
    sign: float,
    per_ny: float,
) -> None:
    b, piece, x = cuda.blockIdx.y, cuda.threadIdx.y, cuda.threadIdx.x
    if not active[b]:
        return
    rising = cuda.shared.array((PIECES, MODES, 2), np.float64)
    falling = cuda.shared.array((PIECES, MODES, 2), np.float64)
    start, stop = min(piece * length, n), min((piece + 1) * length, n)
    one, row = np.uint64(1), np.uint64(modes * 2)
    if constant and cuda.blockIdx.x == cuda.gridDim.x - 1:
        first = np.uint64((b * n + start) * modes * 2)
        _solve_mode_zero(
            spectrum,
            first,
            row,
            start,
            stop,
            length,
            n,
            periodic,
            held_low,
            held_high,
            per_ny,
            rising,
        )
        return
    mode = cuda.blockIdx.x * MODES + x + (1 if constant else 0)
    low, high = -1.0 if held_low else 1.0, -1.0 if held_high else 1.0
    inside = mode < modes
    real = spectrum.dtype.type
    turn = real(sign)
    first = np.uint64(((b * n + start) * modes + mode) * 2)
    if inside:
        rho0, rho1 = real(table[mode, 0, RHO]), real(table[mode, 1, RHO])
        c, s = real(turns[mode, 0]), real(turns[mode, 1])
        up0, up1, down0, down1, p0, p1 = real(0), real(0), real(0), real(0), real(1), real(1)
        at = first
        for _ in range(start, stop):
            re, im = spectrum[at], spectrum[at + one]
            at += row
            r0, r1 = c * re - s * im, turn * (c * im + s * re)
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
        y1 = rho1 * y1 + turn * (c * im + s * re)
        spectrum[at], spectrum[at + one] = y0, y1
        at += row
    w0 = _handed_down(falling, table, mode, 0, high0, piece, pieces)
    w1 = _handed_down(falling, table, mode, 1, high1, piece, pieces)
    z0, z1 = real(table[mode, 0, SUM] * (y0 + w0)), real(table[mode, 1, SUM] * (y1 + w1))
    scale0, scale1 = -rho0 * real(per_ny), -rho1 * real(per_ny) * turn
    for back in range(stop - start):
        at -= row
        if back > 0:
            z0 = rho0 * z0 + spectrum[at]
            z1 = rho1 * z1 + spectrum[at + one]
        x0, x1 = scale0 * z0, scale1 * z1
        spectrum[at], spectrum[at + one] = c * x0 + s * x1, c * x1 - s * x0


class PressureSolver:
    """Solves lap phi = d on unit spacing for the simulations of a batch.

    Parameters
    ----------
    nx, ny : int
        Cells of the grid.
    periodic : (bool, bool)
        Whether the box is periodic in x and in y.
    held : (bool, bool, bool, bool)
        Whether phi is zero on the left, right, bottom and top side; bottom and top alike.
    dtype : numpy.dtype
    batch : int
    device : Device
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        periodic: tuple[bool, bool],
        held: tuple[bool, bool, bool, bool],
        dtype: np.dtype,
        batch: int,
        device: Device,
    ) -> None:
        table, length = system_tables(nx, ny, periodic, held, PIECES)
        angle = -0.5 * np.pi * np.arange(ny // 2 + 1) / ny * (not periodic[1])
        turns = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        tables, sign = (device.array(table), device.array(turns)), 1.0 if periodic[1] else -1.0
        self._constant = not held[2]  # whether mode 0 does not vary along y
        self._systems = (*tables, length, periodic[0], self._constant, *held[:2], sign)
        self._transform = Transform(batch, nx, ny, dtype)

    def solve_divergence(
        self, active: Array, blocks: int, u: Array, v: Array, phi: Array, sides: Array
    ) -> None:
        """Write to ``phi`` the potential whose gradient, on unit spacing, has the divergence of u and v.

        Its rows are in the order of :func:`flowsim.backend.cuda.flow.place_along_y`.
        """
        batch, nx, ny = phi.shape
        flat = [field.reshape(-1) for field in (u, v, phi)]
        _transformable_divergence.launch(
            cell_blocks(nx, ny, batch), (*TILE, 1), active, *flat, nx, ny, sides
        )
        self.solve(active, phi)

    def solve(self, active: Array, d: Array) -> None:
        """Replace ``d`` in that order, and of the signs of :func:`flowsim.backend.cuda.flow.sign_along_y`, by phi."""
        batch, _, ny = d.shape
        spectrum = self._transform.forward(d)
        modes = spectrum.shape[2]
        alone = 1 if self._constant else 0  # mode 0 has blocks of its own
        groups = -(-(modes - alone) // MODES) + alone
        rows, nx = spectrum.reshape(-1), d.shape[1]
        _solve_systems.launch(
            (groups, batch), (MODES, PIECES), active, rows, nx, modes, *self._systems, 1.0 / ny
        )
        self._transform.backward(d)
