"""Sweeps over the windows of jets: their velocity under the surface of their bodies, and the sources of their fluid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowsim.backend.cpu.compiling import Task, inner, sweep
from flowsim.backend.cpu.shares import Place
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import within, wrapped
from flowsim.kernels.cell import share_of_reference_step
from flowsim.kernels.jets import (
    BODY,
    FLOW_RATE,
    jet_frame,
    jet_source,
    jet_velocity,
    jet_window,
    net_flow_rate,
    note_jet,
)
from flowsim.kernels.layout import ANGLE, X, Y
from flowsim.kernels.mass_balance import balance_sides
from flowsim.kernels.records import Bodies, Box, Fields

Array = Any


@inner
def weigh_jets(
    jets: Any, place: Place, shares: Array, grip: Any, h: float, sides: Array
) -> tuple[float, float, float]:
    """Return what the jets of a body add to the sums of w f and of the moments of w f, and store their momentum."""
    px, py, turn = 0.0, 0.0, 0.0
    if jets is None:
        return px, py, turn
    n, k = place.n, place.k
    x, y, xc, yc, _ = place.where
    nx, ny = shares.shape[2] - 2 * G, shares.shape[3] - 2 * G
    cos, sin = math.cos(place.angle), math.sin(place.angle)
    for j in range(len(jets.kinds)):
        if jets.kinds[j, BODY] != k:
            continue
        jet, sx, sy, st = jets.state[n, j], 0.0, 0.0, 0.0
        mx, my, mt = 0.0, 0.0, 0.0
        if jet[FLOW_RATE] == 0.0:
            note_jet(jet, mx, my, mt)
            continue
        frame = jet_frame(jets, j, x, y, cos, sin)
        i0, i1, j0, j1 = jet_window(frame, h, nx, ny, sides)
        for i in range(i0, i1):
            a = wrapped(i, nx) + G
            for m in range(j0, j1):
                b = wrapped(m, ny) + G
                if shares[0, n, a, b] > 0.0:
                    fx, fy = i * h, (m + 0.5) * h
                    w, speed = np.float64(shares[0, n, a, b]), jet_velocity(frame, True, fx, fy, h)
                    part, solid = w * speed, share_of_reference_step(w, grip) * speed
                    sx, mx = sx + part, mx + solid
                    st, mt = st - part * (fy - yc), mt - solid * (fy - yc)
                if shares[1, n, a, b] > 0.0:
                    fx, fy = (i + 0.5) * h, m * h
                    w, speed = np.float64(shares[1, n, a, b]), jet_velocity(frame, False, fx, fy, h)
                    part, solid = w * speed, share_of_reference_step(w, grip) * speed
                    sy, my = sy + part, my + solid
                    st, mt = st + part * (fx - xc), mt + solid * (fx - xc)
        scale = h * h * jet[FLOW_RATE]
        px, py, turn = px + scale * sx, py + scale * sy, turn + scale * st
        note_jet(jet, scale * mx, scale * my, scale * mt)
    return px, py, turn


@inner
def add_jets(
    jets: Any, place: Place, u: Array, v: Array, shares: Array, h: float, sides: Array
) -> None:
    """Penalise u and v under a body towards the velocity of its jets, on top of the motion of the body."""
    if jets is None:
        return
    n, k = place.n, place.k
    x, y, _, _, _ = place.where
    nx, ny = shares.shape[2] - 2 * G, shares.shape[3] - 2 * G
    real = u.dtype.type
    cos, sin = math.cos(place.angle), math.sin(place.angle)
    for j in range(len(jets.kinds)):
        rate = jets.state[n, j, FLOW_RATE]
        if jets.kinds[j, BODY] != k or rate == 0.0:
            continue
        frame = jet_frame(jets, j, x, y, cos, sin)
        i0, i1, j0, j1 = jet_window(frame, h, nx, ny, sides)
        for i in range(i0, i1):
            a = wrapped(i, nx) + G
            for m in range(j0, j1):
                b = wrapped(m, ny) + G
                if shares[0, n, a, b] > 0.0:
                    jet = jet_velocity(frame, True, i * h, (m + 0.5) * h, h)
                    u[a, b] += shares[0, n, a, b] * real(rate * jet)
                if shares[1, n, a, b] > 0.0:
                    jet = jet_velocity(frame, False, (i + 0.5) * h, m * h, h)
                    v[a, b] += shares[1, n, a, b] * real(rate * jet)


@sweep
def subtract_sources(task: Task, d: Array, bodies: Bodies, box: Box) -> None:
    """Subtract the sources of the jets from h div u at the cell centres."""
    jets: Any = bodies.jets
    h, sides = box.h, box.sides
    n, nx, ny = task.b, d.shape[1], d.shape[2]
    real = d.dtype.type
    for j in range(len(jets.kinds)):
        rate = jets.state[n, j, FLOW_RATE]
        if rate == 0.0:
            continue
        body = bodies.state[n, jets.kinds[j, BODY]]
        x, y = within(body[X], nx * h, sides[LEFT]), within(body[Y], ny * h, sides[BOTTOM])
        frame = jet_frame(jets, j, x, y, math.cos(body[ANGLE]), math.sin(body[ANGLE]))
        i0, i1, j0, j1 = jet_window(frame, h, nx, ny, sides)
        for i in range(i0, i1):
            for m in range(j0, j1):
                d[n, wrapped(i, nx), wrapped(m, ny)] -= real(rate * jet_source(frame, i, m, h))


@sweep
def balance_jets(task: Task, fields: Fields, bodies: Bodies, box: Box) -> None:
    """Let the net flow rate of jets out through the sides, as :func:`update_sides` does with other imbalances."""
    nx, ny = fields.new_u.shape[1] - 2 * G, fields.new_u.shape[2] - 2 * G
    new = fields.new_u.reshape(-1), fields.new_v.reshape(-1)
    net = -net_flow_rate(bodies.jets, task.b) / box.h
    balance_sides(task.b, new, nx, ny, box.sides, net, 0, 1)
