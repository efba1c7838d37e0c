"""Bodies as the sweeps see them: a table of what they are, and arrays of where they are and what acts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntFlag
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies import Body, mesh
from flowsim.distances import Shape
from flowsim.midlines import MIDLINE_COLUMNS, NODE_COLUMNS, WAVE_COLUMNS
from flowsim.swimmers import POINTS, Swimmer

FloatArray = NDArray[np.float64]
SUPPORT_ANGLES = 256


class Contact(IntFlag):
    """What a body touches: the sum of these."""

    NONE = 0
    BOX = 1
    BODY = 2


TOUCHES_BOX, TOUCHES_BODY = int(Contact.BOX), int(Contact.BODY)


class BodyTable(NamedTuple):
    """What the sweeps know about the K bodies; arrays of leading length K unless said otherwise.

    ``mass`` and ``inertia`` are the excess over the displaced fluid, ``fluid_mass`` and ``fluid_inertia``; moments of
    inertia and ``centroid`` belong to the centre of mass. ``mass_lag`` and ``inertia_lag`` are the parts that follow
    the fluid (docs/bodies.md), zero unless a body is lighter than the fluid. ``order`` lists the bodies from the
    least movable to the lightest. ``support`` (K, n) is the extent from the reference point in n directions. Body k's
    table of distances is ``distances[starts[k]:]``, ``sides[k]`` entries square.

    What bodies that bend are is in ``nodes`` (K, M, 6) and ``waves`` (K, 7), how they are bent now in ``midlines``
    (B, K, M, 9), and x0, x1, y0, y1 of a box about them in ``boxes`` (B, K, 4), which the sweeps write: see
    :mod:`flowsim.midlines`. Without any the axes after B are empty.
    """

    shapes: NDArray[np.int64]
    axes: FloatArray
    centroid: FloatArray
    free: NDArray[np.bool_]
    mass: FloatArray
    inertia: FloatArray
    fluid_mass: FloatArray
    fluid_inertia: FloatArray
    mass_lag: FloatArray
    inertia_lag: FloatArray
    order: NDArray[np.int64]
    support: FloatArray
    distances: FloatArray
    starts: NDArray[np.int64]
    sides: NDArray[np.int64]
    nodes: FloatArray
    waves: FloatArray
    midlines: FloatArray
    boxes: FloatArray

    @classmethod
    def of(cls, bodies: Sequence[Body], h: float, batch: int = 1) -> BodyTable:
        """Tabulate bodies for a grid of spacing h and a batch of simulations."""
        count = len(bodies)
        axes = np.array([body.semi_axes for body in bodies], np.float64).reshape(count, 2)
        centroid = np.array([body.centroid for body in bodies], np.float64).reshape(count, 2)
        free = np.array([body.motion == "free" for body in bodies], bool)
        density = np.array([body.density for body in bodies], np.float64)
        area = np.array([body.area for body in bodies], np.float64)
        second = np.array([body.second_moment for body in bodies], np.float64) - area * (
            centroid**2
        ).sum(axis=1)
        lag = np.where(free, np.maximum(1.0 - density, 0.0), 0.0)
        heaviness = np.where(free, density * area, np.inf)
        tables: list[FloatArray] = []
        starts, sides = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for k, body in enumerate(bodies):
            if body.shape == Shape.TABLE:
                starts[k], sides[k] = (
                    sum(table.size for table in tables),
                    int(np.ceil(8 * axes[k, 0] / h)) + 2,
                )
                line = np.linspace(-axes[k, 0], axes[k, 0], sides[k])
                tables.append(body.distance(*np.meshgrid(line, line, indexing="ij")).ravel())
            if isinstance(body, Swimmer):
                strip = body.strip(h)
                starts[k], sides[k] = sum(table.size for table in tables), strip.shape[1]
                tables.append(strip.ravel())
        bending = any(isinstance(body, Swimmer) for body in bodies)
        nodes, waves = np.zeros((count, POINTS, NODE_COLUMNS)), np.zeros((count, WAVE_COLUMNS))
        for k, body in enumerate(bodies):
            if isinstance(body, Swimmer):
                nodes[k], waves[k] = body.nodes, body.wave(h)
        points = POINTS if bending else 0
        bent = count if bending else 0
        return cls(
            np.array([body.shape for body in bodies], np.int64), axes, centroid, free,
            (density - 1.0) * area, (density - 1.0) * second, area, second,
            lag * area, lag * second * np.minimum(3.0 * _reaction_to_rotation(area, second), 1.0),
            np.argsort(-heaviness, kind="stable"),
            np.array([_support(body) for body in bodies]).reshape(count, SUPPORT_ANGLES),
            np.concatenate([*tables, np.zeros(1)]), starts, sides, nodes[:bent, :points], waves[:bent],
            np.zeros((batch, bent, points, MIDLINE_COLUMNS)), np.zeros((batch, bent, 4)),
        )  # fmt: skip


def _reaction_to_rotation(area: FloatArray, second: FloatArray) -> FloatArray:
    """Return I_a / (I_f + I_a), the added over the total moment of inertia, of ellipses of given area and moment."""
    product = area / np.pi
    squares = np.maximum(4.0 * second / area, 2.0 * product)
    ratio = (squares**2 - 4.0 * product**2) / (2.0 * product * squares)
    return ratio / (1.0 + ratio)


def _support(body: Body) -> FloatArray:
    """Return how far a body extends from its reference point in SUPPORT_ANGLES directions, if it keeps its shape."""
    if isinstance(body, Swimmer):
        return np.zeros(SUPPORT_ANGLES)
    x, y, _ = mesh(max(body.semi_axes), 256)
    distance = body.distance(x, y)
    inside = distance < 0
    x, y, distance = x[inside], y[inside], distance[inside]
    angle = np.arange(SUPPORT_ANGLES) * (2 * np.pi / SUPPORT_ANGLES)
    # the disk of radius |d| about an inner point belongs to the body
    return np.array([(x * np.cos(a) + y * np.sin(a) - distance).max() for a in angle])


@dataclass
class BodyState:
    """Where the K bodies of B simulations are and what acts on them; plain arrays that a user may write into.

    Attributes
    ----------
    position, velocity : (B, K, 2)
    angle, angular_velocity : (B, K)
    applied_force : (B, K, 2)
        Force on a free body, in units of rho U^2 D.
    applied_torque : (B, K)
        Torque on a free body about its centre of mass, in units of rho U^2 D^2; the applied force acts there, too.
    force, torque : (B, K, 2), (B, K)
        What the fluid did to the body in the last step, by the penalty and the momentum inside; read only.
    impulse : (B, K, 3)
        Integral over time of force and torque, since it was last set to zero.
    fluid_motion, fluid_acceleration : (B, K, 3)
        Velocity (u, v, omega) of the fluid under a free body lighter than the fluid, and its rate; read only.
    contact : (B, K) int8
        Sum of :class:`Contact`: 1 for the box, 2 for another body, 0 for neither; read only.
    """

    position: NDArray[np.float64]
    angle: NDArray[np.float64]
    velocity: NDArray[np.float64]
    angular_velocity: NDArray[np.float64]
    applied_force: NDArray[np.float64]
    applied_torque: NDArray[np.float64]
    force: NDArray[np.float64] = field(repr=False)
    torque: NDArray[np.float64] = field(repr=False)
    impulse: NDArray[np.float64] = field(repr=False)
    fluid_motion: NDArray[np.float64] = field(repr=False)
    fluid_acceleration: NDArray[np.float64] = field(repr=False)
    contact: NDArray[np.int8] = field(repr=False)

    @staticmethod
    def layout(batch: int, bodies: int) -> dict[str, tuple[tuple[int, ...], type]]:
        """Return shape and type of every array."""
        sizes = {
            "angle": (),
            "angular_velocity": (),
            "applied_torque": (),
            "torque": (),
            "contact": (),
        } | dict.fromkeys(("impulse", "fluid_motion", "fluid_acceleration"), (3,))
        return {
            item.name: (
                (batch, bodies, *sizes.get(item.name, (2,))),
                np.int8 if item.name == "contact" else np.float64,
            )
            for item in fields(BodyState)
        }
