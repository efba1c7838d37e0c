"""The controlled body of the wake and of the swimmer: a free ellipse, pushed and turned, with four flow sensors."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from cases.actuators import Push
from cases.loads import FloatArray
from cases.options import FlowOptions
from cases.sensors import Motion, Sensor, Skin
from flowsim import Ellipse

ASPECT_RATIO = 0.2
"""Minor over major axis of the agent's body; the major axis is the unit of length."""


class EllipseOptions(FlowOptions):
    """Options of a task in which an ellipse is pushed and turned."""

    force_scale: float = Field(0.5, gt=0.0, description="force of a unit action, in rho U^2 D")
    torque_scale: float = Field(0.05, gt=0.0, description="torque of a unit action, in rho U^2 D^2")
    sensor_offset: float = Field(
        0.05, ge=0.0, le=0.5, description="distance of the sensors from the surface"
    )


def ellipse(center: tuple[float, float]) -> Ellipse:
    """Return the body, which has the density of the fluid."""
    return Ellipse(major=1.0, aspect=ASPECT_RATIO, center=center, motion="free", density=1.0)


def vertices(offset: float = 0.0) -> FloatArray:
    """Return the ends of both axes, moved outwards by `offset`, in the frame of the body, shape (4, 2).

    In the order front (end of the major axis at +x for angle 0), top, rear, bottom.
    """
    major, minor = 0.5 + offset, 0.5 * ASPECT_RATIO + offset
    return np.array([(major, 0.0), (0.0, minor), (-major, 0.0), (0.0, -minor)])


def push(body: int, options: EllipseOptions) -> Push:
    """Return what the three numbers of an action do: force along x and y, and torque."""
    return Push([body], options.force_scale, options.torque_scale)


def own_state(body: int, options: EllipseOptions) -> list[Sensor]:
    """Return angle, velocity (2), angular velocity, and the flow past the skin at the ends of the axes (8)."""
    return [Motion([body]), Skin([body], vertices(), vertices(options.sensor_offset))]


def effort(commands: FloatArray) -> FloatArray:
    """Return |a|^2 of commands (B, 3)."""
    a0, a1, a2 = commands.T
    return np.asarray(a0 * a0 + a1 * a1 + a2 * a2)
