"""Long simulation with sides through which flow can leave and enter freely."""

from __future__ import annotations

import numpy as np

from flowsim.bodies import Disk
from flowsim.boundary import Sides
from flowsim.validation.cylinder import Box, shed, shedding_values
from flowsim.validation.result import Curve, Effort, Picture, Plot, Result, Row, Setup, compare

JET = Sides("inflow", "outflow", "open", "open")
BOXES = Box((30, 20), (10.01, 10.0), 16, JET), Box((16, 8), (5.01, 4.0), 10, JET)
"""Boxes of the full and the quick case."""


def open_sides(effort: Effort) -> Result:
    """Compare shedding at Re 100 between open sides for 200 D/U with published values, and early with late periods."""
    box = effort.choose(*BOXES)
    sim = box.simulation(Disk(center=box.center), effort, viscosity=1 / 100)
    duration = effort.choose(200.0, 120.0)
    history = shed(sim, duration, effort)
    half = 0.5 * duration
    drag, lift, strouhal = shedding_values(history, half)
    setup, source = Setup.of(sim), "range of published values, unbounded flow"
    tolerance = effort.choose(0.03, 0.1)
    rows = [
        compare("mean C_D over whole periods", drag, (1.32, 1.37), tolerance, setup, source),
        compare("amplitude of C_L", lift, (0.32, 0.35), 2 * tolerance, setup, source),
        compare("Strouhal number", strouhal, 0.164, tolerance, setup, source),
    ]
    middle = shedding_values(history[history[:, 0] < 0.75 * duration], half)
    end = shedding_values(history, 0.75 * duration)
    for name, before, after in zip(
        ("mean C_D", "amplitude of C_L", "Strouhal number"), middle, end, strict=True
    ):
        change = abs(after - before) / before
        rows.append(
            Row(
                f"change of {name} from the third to the last quarter",
                change,
                0.0,
                "periodic flow",
                change,
                0.01,
                "absolute",
                setup,
            )
        )
    late = history[history[:, 0] > half]
    sway = float(np.trapezoid(late[:, 2], late[:, 0]) / (late[-1, 0] - late[0, 0]))
    rows.append(Row("mean C_L", sway, 0.0, "symmetry", abs(sway), 0.02, "absolute", setup))
    curves = [
        Curve.of("C_D", history[::24, 0], history[::24, 1]),
        Curve.of("C_L", history[::24, 0], history[::24, 2]),
    ]
    plots = [
        Plot(
            "forces", "time, in D/U", "coefficients of drag and lift", curves, y_limits=(-1.0, 2.0)
        )
    ]
    x, y = box.center
    return Result(rows, plots, [Picture.of("shedding", sim, (x - 3, x + 11, y - 4, y + 4), 4.0)])
