"""Operations on the rows of a velocity in the window of a body: moments, penalty, deformation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowsim.backend.cpu.compiling import inner, row_loop
from flowsim.backend.cpu.room import MOMENTS
from flowsim.backend.cpu.shares import Place
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import wrapped
from flowsim.kernels.midline import deformation_velocity

Array = Any


@row_loop
def _add_moments(values: Array, shares: Array, n: int, r: float, step: float) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a row; r is the lever arm of the first entry."""
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        w, g, arm = np.float64(shares[j]), np.float64(values[j]), r + j * step
        s0 += w
        s1 += w * arm
        s2 += w * arm * arm
        p0 += w * g
        p1 += w * arm * g
    return s0, s1, s2, p0, p1


@inner
def note_moments(
    f: Array, share: Array, along_x: bool, place: Place, h: float, sums: Array
) -> None:
    """Write the sums of w, w r, w r^2, w f, w r f over rows, r being the lever arm of f about the centre of mass.

    f is u (``along_x``) or v, and ``sums`` (rows, ...) has the rows of ``place``.
    """
    _, _, xc, yc, (i0, i1, j0, j1) = place.where
    centre, first_column = (yc, 0) if along_x else (xc, MOMENTS)
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
        for piece in range(-1, 2):
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                k, r = first - piece * ny + G, ((first if along_x else i) + 0.5) * h - centre
                step = h if along_x else 0.0
                a0, a1, a2, b0, b1 = _add_moments(values[k:], shares[k:], last - first, r, step)
                s0, s1, s2, p0, p1 = s0 + a0, s1 + a1, s2 + a2, p0 + b0, p1 + b1
        row = sums[i - i0, first_column:]
        row[0], row[1], row[2], row[3], row[4] = s0, s1, s2, p0, p1


@inner
def total_moments(sums: Array, first: int, rows: int, h: float) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a window from those over its rows."""
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(rows):
        row = sums[i, first:]
        s0, s1, s2 = s0 + row[0], s1 + row[1], s2 + row[2]
        p0, p1 = p0 + row[3], p1 + row[4]
    area = h * h
    return s0 * area, s1 * area, s2 * area, p0 * area, p1 * area


@row_loop
def _impose_on_row(values: Array, shares: Array, n: int, target: float, growth: float) -> None:
    """Penalise a row towards a target that grows linearly along it."""
    real = values.dtype.type
    for j in range(n):
        values[j] += shares[j] * (real(target + growth * j) - values[j])


@inner
def impose(
    f: Array, share: Array, along_x: bool, place: Place, h: float, base: float, turn: float
) -> None:
    """Penalise f towards base + turn r inside a window; r is the lever arm of f about the centre of mass."""
    _, _, xc, yc, (i0, i1, j0, j1) = place.where
    centre = yc if along_x else xc
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    growth = turn * h if along_x else 0.0
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for piece in range(-1, 2):
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                k, r = first - piece * ny + G, ((first if along_x else i) + 0.5) * h - centre
                _impose_on_row(values[k:], shares[k:], last - first, base + turn * r, growth)


@inner
def deform(
    f: Array,
    share: Array,
    drift: Array,
    along_x: bool,
    place: Place,
    midlines: Any,
    bodies: Any,
    h: float,
) -> None:
    """Subtract the deformation velocity from f under a body, so that the rest is to move as a rigid body."""
    if midlines is None:
        return
    x, y, _, _, (i0, i1, j0, j1) = place.where
    nodes, line = bodies.nodes[place.k], midlines[place.n, place.k]
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    dx, dy = (0.0, 0.5) if along_x else (0.5, 0.0)
    cos, sin = math.cos(place.angle), math.sin(place.angle)
    for i in range(i0, i1):
        a = wrapped(i, nx) + G
        for j in range(j0, j1):
            b = wrapped(j, ny) + G
            if share[a, b] > 0.0:
                rx, ry = (i + dx) * h - x, (j + dy) * h - y
                u, v = deformation_velocity(nodes, line, rx, ry, cos, sin)
                drift[a, b] = u if along_x else v
                f[a, b] -= drift[a, b]


@inner
def restore(
    f: Array,
    share: Array,
    drift: Array,
    along_x: bool,
    place: Place,
    h: float,
    motion: tuple[float, float],
    work: Array,
) -> None:
    """Penalise f towards base + turn r, given as ``motion``, undo :func:`deform`, and write the work of that per row.

    The work is not multiplied by the area of a cell.
    """
    base, turn = motion
    _, _, xc, yc, (i0, i1, j0, j1) = place.where
    centre = yc if along_x else xc
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    real = f.dtype.type
    for i in range(i0, i1):
        a, done = wrapped(i, nx) + G, 0.0
        for j in range(j0, j1):
            b = wrapped(j, ny) + G
            if share[a, b] > 0.0:
                gap = real(base + turn * (((j if along_x else i) + 0.5) * h - centre)) - f[a, b]
                done += np.float64(share[a, b]) * drift[a, b] * gap
                f[a, b] += share[a, b] * gap + drift[a, b]
        work[i - i0] = done
