"""Bodies that swim by bending."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies.swimmers import anguilliform
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.validation.result import (
    Curve,
    Effort,
    Picture,
    Plot,
    Result,
    Row,
    Setup,
    compare,
    follow,
)

FloatArray = NDArray[np.float64]

VISCOSITY = 1.4e-4
"""Viscosity for the eel, in L^2/T; with its published speed Re = 0.54/1.4e-4 = 3857."""
PUBLISHED = 0.54
"""Mean speed of the two-dimensional eel in L/T. The full texts of the papers were not available: it follows from the
Reynolds number of 3857 and the viscosity that Gazzola et al. (2011) quote for it."""
SIDES = 8, 4
"""Size of the box, in L."""


def pool(cells: int, effort: Effort, dtype: str = "float32") -> Simulation:
    """Return still water with an eel at rest that will swim to the right."""
    grid = Grid(SIDES[0] * cells, SIDES[1] * cells, 1 / cells)
    eel = anguilliform(center=(1.003, 0.5 * SIDES[1]))
    return Simulation(
        grid,
        Sides.all("slip"),
        [eel],
        viscosity=VISCOSITY,
        stream=(0.0, 0.0),
        dtype=dtype,
        **effort.solver,
    )


def eel(effort: Effort) -> Result:
    """Compare the mean speed in the last period of an eel that swims from rest, on successively finer grids."""
    periods = effort.choose(12, 6)
    found, curves = [], []
    resolutions = effort.choose((48, 96, 192), (16, 32))
    for index, cells in enumerate(resolutions):
        sim = pool(cells, effort.part(index, len(resolutions)))
        seen = follow(sim, float(periods), effort.part(index, len(resolutions)), _place)
        times = np.arange(periods + 1.0)
        x, y = (
            np.interp(times, np.append(0.0, seen[:, 0]), np.append(start, seen[:, column]))
            for column, start in ((1, 1.003), (2, 0.5 * SIDES[1]))
        )
        speed = np.hypot(np.diff(x), np.diff(y))
        found.append(float(speed[-1]))
        curves.append(Curve.of(f"{cells} cells per L", times[1:] - 0.5, speed))
    setup, source = Setup.of(sim), "Kern and Koumoutsakos (2006), Gazzola et al. (2011)"
    curves.append(Curve.of("published", [0.0, float(periods)], [PUBLISHED] * 2))
    rows = [
        compare(
            "mean speed in the last period, L/T",
            found[-1],
            PUBLISHED,
            effort.choose(0.12, 0.7),
            setup,
            source,
        )
    ]
    change = abs(found[-1] - found[-2]) / found[-1]
    name = f"change of the speed from {resolutions[-2]} to {resolutions[-1]} cells per L"
    rows.append(
        Row(
            name,
            change,
            0.0,
            "convergence",
            change,
            effort.choose(0.15, 0.7),
            "relative to the finest",
            setup,
        )
    )
    x0, y0 = sim.body_state.position[0, 0]
    picture = Picture.of("eel", sim, (max(x0 - 3.0, 0.0), x0 + 1.0, y0 - 1.0, y0 + 1.0))
    return Result(rows, [Plot("speed", "time, in periods T", "speed, in L/T", curves)], [picture])


def _place(sim: Simulation) -> tuple[float, float]:
    x, y = sim.body_state.position[0, 0]
    return float(x), float(y)


def balance(effort: Effort) -> Result:
    """Compare the force on a swimming eel by the penalty with the momentum balance of a control volume around it."""
    sim = pool(effort.choose(128, 32), effort, "float64")
    sim.advance(0.75)
    volumes = sim.measure_control_volumes()

    def look(sim: Simulation) -> tuple[float, ...]:
        state = sim.body_state
        return (
            *map(float, state.force[0, 0]),
            float(state.torque[0, 0]),
            *map(float, volumes.force[0, 0]),
            float(volumes.torque[0, 0]),
        )

    seen = follow(sim, effort.choose(1.0, 0.25), effort, look)
    penalty, volume = seen[:, 1:4], seen[:, 4:7]
    gap = np.sqrt(((penalty - volume) ** 2).mean(axis=0))
    size = np.sqrt((volume**2).mean(axis=0))
    setup, rows = Setup.of(sim), []
    for name, error in (
        ("force", np.hypot(*gap[:2]) / np.hypot(*size[:2])),
        ("torque", gap[2] / size[2]),
    ):
        rows.append(
            Row(
                f"{name}, root mean square difference of the two measures",
                float(error),
                0.0,
                "two measures of one thing",
                float(error),
                effort.choose(0.02, 0.03),
                "relative to the control volume's",
                setup,
            )
        )
    labels = (("penalty", 2), ("control volume", 5))
    curves = [Curve.of(label, seen[:, 0], seen[:, column]) for label, column in labels]
    return Result(
        rows, [Plot("lateral-force", "time, in periods T", "lateral force, in rho L^3/T^2", curves)]
    )
