"""Bodies as arrays for the sweeps: a table of their properties, and their state and loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies.mounts import DEGREES_OF_FREEDOM, Spring, freedom_of
from flowsim.bodies.shapes import Body, mesh
from flowsim.bodies.swimmers import POINTS, Swimmer
from flowsim.kernels.distances import Shape
from flowsim.kernels.layout import (
    ANGLE,
    APPLIED_TORQUE,
    APPLIED_X,
    FLUID_ACCELERATION,
    FLUID_MOTION,
    FORCE_X,
    IMPULSE_TORQUE,
    IMPULSE_X,
    SPIN,
    SPIN_RATE,
    SPIN_TARGET,
    TORQUE,
    VX,
    WORK,
    X,
)
from flowsim.kernels.midline import MIDLINE_COLUMNS, NODE_COLUMNS, WAVE_COLUMNS

FloatArray = NDArray[np.float64]
SUPPORT_ANGLES = 256


class Contact(IntFlag):
    """What a body touches, as a sum of these flags."""

    NONE = 0
    BOX = 1
    BODY = 2


TOUCHES_BOX, TOUCHES_BODY = int(Contact.BOX), int(Contact.BODY)


class BodyTable(NamedTuple):
    """Properties of the K bodies as arrays for the sweeps.

    Attributes
    ----------
    traits, kinds : (K, 10) float64, (K, 4) int64
        See :mod:`flowsim.kernels.layout`.
    order : (K,) int64
        Indices of the bodies: fixed and driven ones first, then free ones from heavy to light.
    support : (K, n) float64
        Extent from the reference point in n directions.
    distances : (m,) float64
        Concatenated tables of signed distances.
    nodes, waves : (K, M, 6), (K, 7) float64
        Properties of bodies that bend: see :mod:`flowsim.kernels.midline`. Empty if there are none, like the next two.
    midlines, boxes : (B, K, M, 9), (B, K, 4) float64
        Current shape of the midlines, and bounding boxes x0, x1, y0, y1; written by the sweeps.
    """

    traits: FloatArray
    kinds: NDArray[np.int64]
    order: NDArray[np.int64]
    support: FloatArray
    distances: FloatArray
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
        freedom = np.array(
            [freedom_of(body.motion, body.held, body.springs) for body in bodies], np.int64
        )
        free = freedom > 0
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
        excess = density - 1.0
        inertia_lag = lag * second * np.minimum(3.0 * _reaction_to_rotation(area, second), 1.0)
        masses = (excess * area, excess * second, area, second, lag * area, inertia_lag)
        shapes = np.array([body.shape for body in bodies], np.int64)
        return cls(
            traits=np.column_stack([axes, centroid, *masses]),
            kinds=np.column_stack([shapes, freedom, starts, sides]),
            order=np.argsort(-heaviness, kind="stable"),
            support=np.array([_support(body) for body in bodies]).reshape(count, SUPPORT_ANGLES),
            distances=np.concatenate([*tables, np.zeros(1)]),
            nodes=nodes[:bent, :points],
            waves=waves[:bent],
            midlines=np.zeros((batch, bent, points, MIDLINE_COLUMNS)),
            boxes=np.zeros((batch, bent, 4)),
        )


def springs_of(bodies: Sequence[Body]) -> FloatArray:
    """Return stiffness, damping and rest position of the springs of K bodies along x, y and angle, (3, K, 3)."""
    table = np.zeros((3, len(bodies), len(DEGREES_OF_FREEDOM)))
    for k, body in enumerate(bodies):
        for d, (name, start) in enumerate(
            zip(DEGREES_OF_FREEDOM, (*body.center, body.angle), strict=True)
        ):
            spring = body.springs.get(name, Spring())
            rest = start if spring.rest is None else spring.rest
            table[:, k, d] = spring.stiffness, spring.damping, rest
    return table


def _reaction_to_rotation(area: FloatArray, second: FloatArray) -> FloatArray:
    """Return I_a / (I_f + I_a), the added over the total moment of inertia, for ellipses of given area and moment."""
    product = area / np.pi
    squares = np.maximum(4.0 * second / area, 2.0 * product)
    ratio = (squares**2 - 4.0 * product**2) / (2.0 * product * squares)
    return ratio / (1.0 + ratio)


def _support(body: Body) -> FloatArray:
    """Return the extent of a rigid body from its reference point in SUPPORT_ANGLES directions; 0 for a swimmer."""
    if isinstance(body, Swimmer):
        return np.zeros(SUPPORT_ANGLES)
    x, y, _ = mesh(max(body.semi_axes), 256)
    distance = body.distance(x, y)
    inside = distance < 0
    x, y, distance = x[inside], y[inside], distance[inside]
    angle = np.arange(SUPPORT_ANGLES) * (2 * np.pi / SUPPORT_ANGLES)
    # the disk of radius |d| about an interior point belongs to the body
    return np.array([(x * np.cos(a) + y * np.sin(a) - distance).max() for a in angle])


@dataclass
class BodyState:
    """State and loads of the K bodies of B simulations, as plain arrays that the user may write to.

    Attributes
    ----------
    position, velocity : (B, K, 2)
    angle, angular_velocity : (B, K)
    applied_force : (B, K, 2)
        Force on a free body, in units of rho U^2 D.
    applied_torque : (B, K)
        Torque on a free body about its centre of mass, in units of rho U^2 D^2; the applied force also acts there.
    target_angular_velocity, angular_acceleration : (B, K)
        For a fixed body: the angular velocity about its reference point that it approaches, and how fast, which may be
        infinite. With an acceleration of zero it keeps the angular velocity and the angle that it has.
    force, torque : (B, K, 2), (B, K)
        Force and torque of the fluid on the body in the last step, from penalty and momentum inside; read-only.
    impulse : (B, K, 3)
        Time integral of force and torque since it was last set to zero.
    work : (B, K)
        Work of the fluid on the body, by force and torque, since it was last set to zero.
    fluid_motion, fluid_acceleration : (B, K, 3)
        Velocity (u, v, omega) of the fluid inside a free body lighter than the fluid, and its rate; read-only.
    contact : (B, K) int8
        Sum of :class:`Contact`: 1 for the box, 2 for another body, 0 for neither; read-only.
    """

    position: NDArray[np.float64]
    angle: NDArray[np.float64]
    velocity: NDArray[np.float64]
    angular_velocity: NDArray[np.float64]
    applied_force: NDArray[np.float64]
    applied_torque: NDArray[np.float64]
    target_angular_velocity: NDArray[np.float64]
    angular_acceleration: NDArray[np.float64]
    force: NDArray[np.float64] = field(repr=False)
    torque: NDArray[np.float64] = field(repr=False)
    impulse: NDArray[np.float64] = field(repr=False)
    work: NDArray[np.float64] = field(repr=False)
    fluid_motion: NDArray[np.float64] = field(repr=False)
    fluid_acceleration: NDArray[np.float64] = field(repr=False)
    contact: NDArray[np.int8] = field(repr=False)

    @classmethod
    def of(cls, states: FloatArray, contact: NDArray[np.int8]) -> BodyState:
        """Return views of the columns of states (B, K, 42)."""
        return cls(
            position=states[..., X:ANGLE],
            angle=states[..., ANGLE],
            velocity=states[..., VX:SPIN],
            angular_velocity=states[..., SPIN],
            applied_force=states[..., APPLIED_X:APPLIED_TORQUE],
            applied_torque=states[..., APPLIED_TORQUE],
            target_angular_velocity=states[..., SPIN_TARGET],
            angular_acceleration=states[..., SPIN_RATE],
            force=states[..., FORCE_X:TORQUE],
            torque=states[..., TORQUE],
            impulse=states[..., IMPULSE_X : IMPULSE_TORQUE + 1],
            work=states[..., WORK],
            fluid_motion=states[..., FLUID_MOTION : FLUID_MOTION + 3],
            fluid_acceleration=states[..., FLUID_ACCELERATION : FLUID_ACCELERATION + 3],
            contact=contact,
        )
