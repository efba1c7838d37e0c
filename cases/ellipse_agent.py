"""The controlled body of the wake and swimmer tasks: a free ellipse with force, torque and four flow sensors."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from cases.actuators import Push
from cases.loads import FloatArray
from cases.options import FlowOptions
from cases.sensors import Motion, Sensor, Skin
from flowsim import Ellipse

ASPECT_RATIO = 0.2
"""Ratio of the minor to the major axis of the agent's body; the major axis is the unit of length."""


class EllipseOptions(FlowOptions):
    """Options of a task whose agent applies force and torque to an ellipse."""

    force_scale: float = Field(0.5, gt=0.0, description="force of a unit action, in rho U^2 D")
    torque_scale: float = Field(0.05, gt=0.0, description="torque of a unit action, in rho U^2 D^2")
    sensor_offset: float = Field(
        0.05, ge=0.0, le=0.5, description="distance of the sensors from the surface"
    )


def ellipse(center: tuple[float, float]) -> Ellipse:
    """Return the ellipse, which has the density of the fluid."""
    return Ellipse(major=1.0, aspect=ASPECT_RATIO, center=center, motion="free", density=1.0)


def vertices(offset: float = 0.0) -> FloatArray:
    """Return the ends of both axes, moved outwards by `offset`, in the frame of the body, shape (4, 2).

    The order is front (the end of the major axis at +x for angle 0), top, rear, bottom.
    """
    major, minor = 0.5 + offset, 0.5 * ASPECT_RATIO + offset
    return np.array([(major, 0.0), (0.0, minor), (-major, 0.0), (0.0, -minor)])


def push(body: int, options: EllipseOptions) -> Push:
    """Return the actuator of the three action components: force along x and y, and torque."""
    return Push([body], options.force_scale, options.torque_scale)


def own_state(body: int, options: EllipseOptions) -> list[Sensor]:
    """Return sensors of angle, velocity (2), angular velocity and the flow past the ends of the axes (8)."""
    return [Motion([body]), Skin([body], vertices(), vertices(options.sensor_offset))]


def effort(commands: FloatArray) -> FloatArray:
    """Return |a|^2 of commands, shape (B, 3)."""
    a0, a1, a2 = commands.T
    return np.asarray(a0 * a0 + a1 * a1 + a2 * a2)
