"""The share of every face in the window of a body that belongs to that body."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from flowsim.backend.cpu.compiling import inner, row_loop
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import (
    body_distance,
    claimed_by_others,
    share_at_surface,
    wrapped,
)
from flowsim.kernels.cell import mask, penalized_share
from flowsim.kernels.distances import TABLE, signed_distance
from flowsim.kernels.layout import ANGLE, AXIS_A, AXIS_B, SHAPE, SIDE, START
from flowsim.kernels.midline import bends, midline_distance
from flowsim.kernels.records import Bodies, Box

Array = Any


class Place(NamedTuple):
    """Angle of body k of simulation n, and the result of :func:`flowsim.kernels.body_geometry.locate_body`."""

    n: int
    k: int
    angle: float
    where: Any


@inner
def _distances_when_bent(
    out: Array, count: int, midlines: Any, bodies: Any, n: int, k: int, first: Any, turn: Any
) -> None:
    """Do what :func:`_distances` does for a body with a midline."""
    if midlines is not None:
        (rx, ry, h), (cos, sin) = first, turn
        nodes, waves, line, table = (
            bodies.nodes[k],
            bodies.waves[k],
            midlines[n, k],
            bodies.distances,
        )
        half, start, side = bodies.traits[k, AXIS_B], bodies.kinds[k, START], bodies.kinds[k, SIDE]
        for j in range(count):
            y = ry + j * h
            x, y = cos * rx + sin * y, cos * y - sin * rx
            out[j] = midline_distance(nodes, waves, line, half, table, start, side, x, y)


@row_loop
def _distances(out: Array, count: int, bodies: Any, n: int, k: int, first: Any, turn: Any) -> None:
    """Write the distances of the points of a row from body k of simulation n.

    ``first`` is the first point relative to the body, and the spacing along y; ``turn`` is the cosine and sine of the
    body's angle.
    """
    (rx, ry, h), (cos, sin) = first, turn
    shape, a, b = bodies.kinds[k, SHAPE], bodies.traits[k, AXIS_A], bodies.traits[k, AXIS_B]
    if bends(bodies.midlines, bodies, k):
        _distances_when_bent(out, count, bodies.midlines, bodies, n, k, first, turn)
        return
    if shape == TABLE:
        for j in range(count):
            out[j] = body_distance(bodies, n, k, rx, ry + j * h, cos, sin)
        return
    for j in range(count):
        y = ry + j * h
        out[j] = signed_distance(shape, a, b, cos * rx + sin * y, cos * y - sin * rx)


@row_loop
def _solid_shares(share: Array, distances: Array, n: int, h: float, grip: Any) -> None:
    """Write the penalised share of the solid part of the cells of a row."""
    for j in range(n):
        share[j] = penalized_share(mask(np.float64(distances[j]), h), grip)


@inner
def write_shares(
    share: Array,
    along_x: bool,
    place: Place,
    bodies: Any,
    h: float,
    grip: Any,
    diffusion: float,
    rows: Array,
) -> None:
    """Write the penalised share of every face of u (``along_x``) or v in the window of a body.

    ``rows`` is scratch memory for the distances of three rows, each a point longer than the window at both ends.
    """
    n, k, angle = place.n, place.k, place.angle
    x, y, _, _, (i0, i1, j0, j1) = place.where
    dx, dy = (0.0, 0.5) if along_x else (0.5, 0.0)
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    turn, count = (math.cos(angle), math.sin(angle)), j1 - j0 + 2
    ry = (j0 - 1 + dy) * h - y
    for i in range(i0 - 1, i1 + 1):
        first_point = ((i + dx) * h - x, ry, h)
        _distances(rows[(i + 1 - i0) % 3], count, bodies, n, k, first_point, turn)
        if i <= i0:
            continue
        line = share[wrapped(i - 1, nx) + G]
        west, here, east = rows[(i - 1 - i0) % 3], rows[(i - i0) % 3], rows[(i + 1 - i0) % 3]
        for piece in range(-1, 2):  # pieces of a window that crosses a periodic side
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                out, row = line[first - piece * ny + G :], here[first - j0 + 1 :]
                _solid_shares(out, row, last - first, h, grip)
        for j in range(1, count - 1) if diffusion > 0.0 else range(0):
            distance = np.float64(here[j])
            if 0.0 < distance < h:
                beside = (
                    np.float64(west[j]),
                    np.float64(east[j]),
                    np.float64(here[j - 1]),
                    np.float64(here[j + 1]),
                )
                line[wrapped(j + j0 - 1, ny) + G] = share_at_surface(
                    distance, beside, along_x, h, grip, diffusion
                )


@inner
def resolve_overlap(
    share: Array,
    along_x: bool,
    place: Place,
    rank: int,
    bodies: Bodies,
    box: Box,
    grip: Any,
) -> None:
    """Reduce the shares of the body of a rank by what less movable bodies claim, and note what it touches."""
    n, table, h, sides = place.n, bodies.table, box.h, box.sides
    states, contact = bodies.state[n], bodies.contact[n]
    x, y, _, _, (i0, i1, j0, j1) = place.where
    dx, dy = (0.0, 0.5) if along_x else (0.5, 0.0)
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    k = table.order[rank]
    cos, sin = math.cos(states[k, ANGLE]), math.sin(states[k, ANGLE])
    bent = bends(table.midlines, table, k)
    for i in range(i0, i1):
        px, f = (i + dx) * h, wrapped(i, nx) + G
        for j in range(j0, j1):
            g = wrapped(j, ny) + G
            if bent and share[f, g] == 0.0:
                continue  # a bending body covers little of its box
            py = (j + dy) * h
            own = body_distance(table, n, k, px - x, py - y, cos, sin)
            claimed = claimed_by_others(
                n, rank, table, px, py, own, states, h, nx, ny, sides, contact
            )
            if claimed > 0.0:
                share[f, g] = min(share[f, g], penalized_share(max(1.0 - claimed, 0.0), grip))
