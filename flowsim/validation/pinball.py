"""Three cylinders in a triangle that points upstream: the fluidic pinball, without control."""

from __future__ import annotations

import numpy as np

from flowsim.bodies import Disk
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.validation.cylinder import CHANNEL, shedding_values
from flowsim.validation.result import (
    Curve,
    Effort,
    Picture,
    Plot,
    Result,
    Setup,
    compare,
    follow,
)

BOX, FRONT = (26.0, 12.0), (6.0, 6.0)
"""Box and front cylinder of HydroGym's mesh, used for the published values; the blockage is 21 %."""

VALUES = {
    30: ((4.583, 4.630), (0.081, 0.083), 120.0, 80.0),
    100: ((3.685, 3.841), (0.1110, 0.1112), 200.0, 120.0),
}
"""Reynolds number: C_D of all cylinders, Strouhal number, duration, and initial time to discard, in D/U.

At Re 30 the values are those of HydroGym and of an independent solver on its mesh, where the far wake still oscillates
after an impulsive start; at Re 100 those of HydroGym's solver, of an independent one, and of Holm (2020).
"""


def disturbed_pinball(reynolds_number: int, cells: int, effort: Effort) -> Simulation:
    """Return the initial flow, with a sideways perturbation behind the lower cylinder."""
    x, y = FRONT
    rear = x + 0.75 * np.sqrt(3.0)
    centers = [(x, y), (rear, y + 0.75), (rear, y - 0.75)]
    grid = Grid(round(BOX[0] * cells), round(BOX[1] * cells), 1 / cells)
    bodies = [Disk(center=center) for center in centers]
    sim = Simulation(grid, CHANNEL, bodies, viscosity=1 / reynolds_number, **effort.solver)
    vx, vy = sim.grid.v_faces()
    sim.add_velocity(0, 0.0, 0.3 * np.exp(-4.0 * ((vx - rear - 1.0) ** 2 + (vy - y + 0.75) ** 2)))
    sim.settle()
    return sim


def pinball(reynolds_number: int, effort: Effort) -> Result:
    """Compare the drag of all cylinders and the Strouhal number of their lift."""
    drags, strouhals, duration, after = VALUES[reynolds_number]
    sim = disturbed_pinball(reynolds_number, effort.choose(24, 12), effort)

    def forces(sim: Simulation) -> tuple[float, float]:
        x, y = 2.0 * sim.body_state.force[0].sum(axis=0)
        return float(x), float(y)

    history = follow(sim, duration, effort, forces)
    drag, _, strouhal = shedding_values(history, after)
    setup, tolerance = Setup.of(sim), effort.choose(0.03, 0.05)
    source = "HydroGym, an independent solver on its mesh, and Holm (2020)"
    rows = [
        compare("C_D of all cylinders over whole periods", drag, drags, tolerance, setup, source),
        compare("Strouhal number of the lift", strouhal, strouhals, 0.03, setup, source),
    ]
    curves = [
        Curve.of("C_D", history[::12, 0], history[::12, 1]),
        Curve.of("C_L", history[::12, 0], history[::12, 2]),
    ]
    labels = "time, in D/U", "coefficients of drag and lift of all cylinders"
    (x, y), plots = FRONT, [Plot("forces", *labels, curves, y_limits=(-1.0, 6.0))]
    window = (x - 2, x + 12, y - 4, y + 4)
    return Result(rows, plots, [Picture.of("wake", sim, window, limit=4.0)])
