"""Size of bodies relative to the box and the cells: blockage, thickness and thin edges."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from flowsim.bodies.shapes import Body, Disk, Ellipse, HalfDisk, Union
from flowsim.bodies.swimmers import Swimmer

if TYPE_CHECKING:
    from flowsim.backend.state import State

FloatArray = NDArray[np.float64]

FEWEST_CELLS = 4
"""Cells across a body below which its surface does not act as a wall
(:func:`flowsim.kernels.rigid.diffusion_at_surface`)."""


POINTS = 401
"""Points along each side of the raster that is searched for thin parts of a body."""


@functools.singledispatch
def thickness(body: Body) -> float:
    """Return the diameter of the largest circle that fits into a body; for a union, into its thinnest part.

    It is the diameter of a disk, the minor axis of an ellipse, and half the diameter of a half disk.
    """
    reach, x, y, deepest = max(body.semi_axes), 0.0, 0.0, 0.0
    for _ in range(3):  # zoom in on the deepest point
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


def thin_edge(body: Body, thickness: float) -> float:
    """Return the length of the part of a body, near an edge, that is thinner than ``thickness``, in units of D.

    It is the largest distance of a point of the body from the circles of this diameter t that fit into it. For a foil
    this is the part ahead of the trailing edge; for a wedge of angle a it is t (1 / sin(a / 2) - 1) / 2. It is infinite
    for a body that is thinner everywhere; for a union it is the largest value of its parts.
    """
    if isinstance(body, Union):
        return max(thin_edge(part, thickness) for part in body.parts)
    if isinstance(body, Swimmer):
        return 0.0
    reach = max(body.semi_axes)
    line = np.linspace(-1.02 * reach, 1.02 * reach, POINTS)
    inside = body.distance(*np.meshgrid(line, line, indexing="ij")) < 0
    spacing = line[1] - line[0]
    # the distance function of a body may be exact only near its surface
    centres = distance_transform_edt(inside, sampling=spacing) >= 0.5 * thickness
    if not centres.any():
        return np.inf
    away = distance_transform_edt(~centres, sampling=spacing)
    return max(float(away[inside].max()) - 0.5 * thickness, 0.0)


def sharpest_edge(body: Body) -> float:
    """Return the smallest angle between the two sides of an edge of a body, in radians; pi without edges.

    The sides are measured over a tenth of the radius of the body, so an edge with a smaller rounding also counts.
    """
    if isinstance(body, Union):
        return min(sharpest_edge(part) for part in body.parts)
    smallest, near = np.pi, 0.1 * max(body.semi_axes)
    for curve in body.surface:
        closed = np.concatenate([curve, curve[:1]])
        along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
        sides = []
        for shift in (-near, near):
            at = (along[:-1] + shift) % along[-1]
            sides.append(
                np.stack([np.interp(at, along, line) for line in closed.T], axis=-1) - curve
            )
        inside = body.distance(*(curve + 0.5 * sum(sides)).T) < 0
        before, after = sides
        cosine = (before * after).sum(axis=-1) / (np.hypot(*before.T) * np.hypot(*after.T))
        angles = np.arccos(np.clip(cosine, -1.0, 1.0))[inside]
        smallest = min(smallest, float(angles.min(initial=np.pi)))
    return smallest


def edge_in_words(body: Body) -> str:
    """Return a phrase that names the end of a thin part of a body."""
    degrees = np.degrees(sharpest_edge(body))
    return (
        f"its sharpest edge (about {5 * round(degrees / 5)} degrees)"
        if degrees < 88
        else "its tips"
    )


def blockage(flow: State) -> FloatArray:
    """Return the largest fraction of a cross-section of the box that bodies cover at present; shape (B,).

    A cross-section is normal to the larger component of the stream. It is covered by the union of the projected extents
    of all bodies that it cuts: two disks of diameter D cover 2 D one above the other, and D one behind the other.
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
        # bodies outside the box cover nothing
        end = flow.grid.size[along]
        extents = [(low, high) for low, high in extents if low[along] < end and high[along] > 0]
    across, length = 1 - along, flow.grid.size[1 - along]
    largest = 0.0
    # the set of bodies that are cut grows only where a body begins
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
    """Return the lower left and upper right corner of the bounding box of a body."""
    c, s = np.cos(angle), np.sin(angle)
    points = np.concatenate(body.surface) @ np.array([[c, s], [-s, c]])
    return position + points.min(axis=0), position + points.max(axis=0)


def _union_within(pieces: list[tuple[float, float]], length: float) -> float:
    """Return the length of the part of [0, length] that the pieces cover."""
    covered, end = 0.0, 0.0
    for low, high in sorted(pieces):
        low, high = max(low, end), min(high, length)
        if high > low:
            covered, end = covered + high - low, high
    return covered
