"""An impulsive disturbance of a flow: an upward jet with its return flow, divergence-free on the grid."""

from __future__ import annotations

import numpy as np

from cases.loads import FloatArray
from flowsim import Grid


def vertical_jet(
    grid: Grid, center: tuple[float, float], size: float, speed: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the velocity (u, v) of the impulse on the faces of a grid, as taken by `Simulation.add_velocity`.

    v = s (1 - x^2 / l^2) exp(-r^2 / (2 l^2)) about the center. It is computed from the stream function
    -s x exp(-r^2 / (2 l^2)) by differences between the corners of cells.

    Parameters
    ----------
    grid : Grid
    center : (float, float)
        Center of the jet.
    size : float
        Length scale l.
    speed : float
        Upward speed s at the center.
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
