"""The controlled body of both tasks: a free ellipse, pushed and turned, with a flow sensor at each vertex."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flowsim import Simulation

FloatArray = npt.NDArray[np.float64]

ASPECT_RATIO = 0.2
"""Minor over major axis of the agent's body; the major axis is the unit of length."""

# An agent that met a numerical blow-up still has to hand out an observation that lies in its space.
VELOCITY_LIMIT = 50.0
ANGULAR_VELOCITY_LIMIT = 200.0


def wrap_angle(angle: FloatArray) -> FloatArray:
    """Return the angle in (-pi, pi]."""
    return angle - 2.0 * np.pi * np.ceil((angle - np.pi) / (2.0 * np.pi))


def vertices(position: FloatArray, angle: FloatArray, offset: float = 0.0) -> FloatArray:
    """Return the ends of both axes, moved outwards by `offset`.

    Parameters
    ----------
    position, angle : shapes (B, 2) and (B,)
        Centre and angle of the ellipses.
    offset : float
        Distance from the surface, in D.

    Returns
    -------
    shape (B, 4, 2)
        In the order front (end of the major axis at +x for angle 0), top, rear, bottom.
    """
    major, minor = 0.5 + offset, 0.5 * ASPECT_RATIO + offset
    axis = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    normal = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    arms = np.stack([major * axis, minor * normal, -major * axis, -minor * normal], axis=1)
    return position[:, None, :] + arms


def sensors(body: int, offset: float) -> list[tuple[int, tuple[float, float]]]:
    """Return the sensors of a body: points `offset` outside its vertices, in its own frame.

    On the surface itself no slip makes the difference between the velocities of flow and surface vanish.
    """
    points = vertices(np.zeros((1, 2)), np.zeros(1), offset)[0]
    return [(body, (float(x), float(y))) for x, y in points]


def sensed_velocity(simulation: Simulation, body: int) -> FloatArray:
    """Return the flow velocity relative to the moving surface at the four vertices of a body.

    The flow is that at the sensors, the velocity of the surface, V + omega x r, that of the vertices. Axes of the box;
    shape (B, 4, 2), in U.
    """
    state = simulation.body_state
    # Contiguous copies: numpy may compute cosines of a strided array in another way, with other last bits.
    angle = state.angle[:, body].copy()
    arm = vertices(np.zeros((len(angle), 2)), angle)
    omega = state.angular_velocity[:, body, None]
    surface = state.velocity[:, body, None, :] + np.stack(
        [-omega * arm[..., 1], omega * arm[..., 0]], axis=-1
    )
    return simulation.sensed - surface


def body_observation(
    simulation: Simulation, body: int, relative_position: FloatArray
) -> FloatArray:
    """Return position (2), angle, velocity (2), spin and sensors (8), shape (B, 14), in D and U."""
    state = simulation.body_state
    batch = relative_position.shape[0]
    return np.concatenate(
        [
            relative_position,
            wrap_angle(state.angle[:, body])[:, None],
            state.velocity[:, body],
            state.angular_velocity[:, body, None],
            sensed_velocity(simulation, body).reshape(batch, 8),
        ],
        axis=1,
    )


def observation_limits(position_limit: float) -> npt.NDArray[np.float32]:
    """Return the upper bounds of the 14 observations; the lower ones are their negatives."""
    limits = [
        position_limit,
        position_limit,
        np.pi,
        *[VELOCITY_LIMIT] * 2,
        ANGULAR_VELOCITY_LIMIT,
        *[VELOCITY_LIMIT] * 8,
    ]
    return np.asarray(limits, dtype=np.float32)
