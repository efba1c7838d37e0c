"""How large bodies are beside the box and the cells: blockage and thickness."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies.shapes import Body, Disk, Ellipse, HalfDisk, Union
from flowsim.bodies.swimmers import Swimmer

if TYPE_CHECKING:
    from flowsim.backend.state import State

FloatArray = NDArray[np.float64]

FEWEST_CELLS = 4
"""Cells across a body below which its surface is no wall (:func:`flowsim.kernels.rigid.diffusion_at_surface`)."""


@functools.singledispatch
def thickness(body: Body) -> float:
    """Return the diameter of the largest circle that fits into a body; that of its thinnest part for a union.

    It is the diameter of a disk, the minor axis of an ellipse, and half of the diameter of a half disk.
    """
    reach, x, y, deepest = max(body.semi_axes), 0.0, 0.0, 0.0
    for _ in range(3):  # ever closer around the deepest point
        line = np.linspace(-reach, reach, 201)
        xs, ys = np.meshgrid(x + line, y + line, indexing="ij")
        depth = -body.distance(xs, ys)
        at = np.unravel_index(depth.argmax(), depth.shape)
        x, y, deepest, reach = float(xs[at]), float(ys[at]), float(depth[at]), reach / 50
    return 2.0 * deepest


@thickness.register
def _(body: Disk) -> float:
    return body.diameter


@thickness.register
def _(body: HalfDisk) -> float:
    return body.diameter / 2


@thickness.register
def _(body: Ellipse) -> float:
    return 2 * min(body.semi_axes)


@thickness.register
def _(body: Swimmer) -> float:
    return 2 * body.semi_axes[1]


@thickness.register
def _(body: Union) -> float:
    return min(thickness(part) for part in body.parts)


def blockage(flow: State) -> FloatArray:
    """Return the largest share of a cross-section of the box that bodies cover, where they are now; shape (B,).

    A cross-section lies across the stream: along y, or along x where the stream is rather along y. What counts in it is
    the union of the extents, projected on it, of all bodies that it cuts: two disks of diameter D one above the other
    cover 2 D, one behind the other D.
    """
    along = 1 if abs(flow.stream[1]) > abs(flow.stream[0]) else 0
    shares = [_covered(flow, b, along) / flow.grid.size[1 - along] for b in range(flow.batch)]
    return np.array(shares)


def _covered(flow: State, b: int, along: int) -> float:
    state = flow.body_state
    extents = [
        extent_of(body, state.position[b, k], float(state.angle[b, k]))
        for k, body in enumerate(flow.bodies)
    ]
    if not flow.sides.periodic[along]:
        # what has left the box covers nothing
        end = flow.grid.size[along]
        extents = [(low, high) for low, high in extents if low[along] < end and high[along] > 0]
    across, length = 1 - along, flow.grid.size[1 - along]
    largest = 0.0
    # more bodies than before are cut only where one begins
    for first, _ in extents:
        cut = [(low, high) for low, high in extents if low[along] <= first[along] < high[along]]
        pieces = [(float(low[across]), float(high[across])) for low, high in cut]
        if flow.sides.periodic[across]:
            pieces += [
                (low + shift, high + shift) for low, high in pieces for shift in (-length, length)
            ]
        largest = max(largest, _union_within(pieces, length))
    return largest


def extent_of(body: Body, position: FloatArray, angle: float) -> tuple[FloatArray, FloatArray]:
    """Return the lower left and the upper right corner of the smallest box around a body."""
    c, s = np.cos(angle), np.sin(angle)
    points = np.concatenate(body.surface) @ np.array([[c, s], [-s, c]])
    return position + points.min(axis=0), position + points.max(axis=0)


def _union_within(pieces: list[tuple[float, float]], length: float) -> float:
    """Return how much of [0, length] the pieces cover."""
    covered, end = 0.0, 0.0
    for low, high in sorted(pieces):
        low, high = max(low, end), min(high, length)
        if high > low:
            covered, end = covered + high - low, high
    return covered
