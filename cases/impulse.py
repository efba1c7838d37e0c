"""An impulse that disturbs a flow in no time: a jet upwards with its return flow, free of divergence on the grid."""

from __future__ import annotations

import numpy as np

from cases.loads import FloatArray
from flowsim import Grid


def vertical_jet(
    grid: Grid, center: tuple[float, float], size: float, speed: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the velocity (u, v) of the impulse on the faces of a grid, as `Simulation.add_velocity` takes it.

    v = s (1 - x^2 / l^2) exp(-r^2 / (2 l^2)) about the center, which is that of the stream function
    -s x exp(-r^2 / (2 l^2)); of this the differences between the corners of cells are taken.

    Parameters
    ----------
    grid : Grid
    center : (float, float)
        Of the jet.
    size : float
        l.
    speed : float
        s, in the middle, upwards.
    """
    h, (x0, y0) = grid.h, center

    def stream(x: FloatArray, y: FloatArray) -> FloatArray:
        square = ((x - x0) ** 2 + (y - y0) ** 2) / (2.0 * size**2)
        return np.asarray(-speed * (x - x0) * np.exp(-square))

    ux, uy = grid.u_faces()
    vx, vy = grid.v_faces()
    u = (stream(ux, uy + 0.5 * h) - stream(ux, uy - 0.5 * h)) / h
    v = -(stream(vx + 0.5 * h, vy) - stream(vx - 0.5 * h, vy)) / h
    return u, v
