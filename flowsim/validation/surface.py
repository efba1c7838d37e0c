"""Loads along the surface of a cylinder."""

from __future__ import annotations

import numpy as np

from flowsim.bodies import Disk
from flowsim.measure.surface import SurfaceLoads, surface_loads
from flowsim.validation.cylinder import box_of
from flowsim.validation.result import Curve, Effort, Plot, Result, Row, Setup, advance, compare

_SOURCE = "Dennis and Chang (1970)"
_SEPARATION = (53.5, 53.8)
"""Degrees from the rear; the lower end is the experiment of Coutanceau and Bouard (1977)."""


def separation_angles(loads: SurfaceLoads) -> tuple[float, float]:
    """Return the first separation above and below the rear of a disk, in degrees from the rear; NaN without one."""
    x, y = (loads.separation() - loads.center).T
    angle = np.degrees(np.arctan2(y, x))
    above, below = angle[angle > 0], -angle[angle < 0]
    return float(above.max() if len(above) else np.nan), float(
        below.max() if len(below) else np.nan
    )


def surface(effort: Effort) -> Result:
    """Compare stagnation and base pressure, separation, and integrated force at Re 40."""
    finest, duration = box_of("steady-40", effort), effort.choose(30.0, 20.0)
    cells = [finest.cells // 2, finest.cells]
    found = []
    for index, n in enumerate(cells):
        part = effort.part(index, len(cells))
        sim = finest.finer(n).simulation(Disk(center=finest.center), part, viscosity=1 / 40)
        advance(sim, duration)
        found.append((sim, surface_loads(sim)))
    rows: list[Row] = []
    for n, (sim, loads) in zip(cells, found, strict=True):
        setup, note = Setup.of(sim), f", {n} cells per D"
        front, rear = (
            float(np.interp(a, loads.angle, loads.pressure_coefficient, period=2 * np.pi))
            for a in (np.pi, 0.0)
        )
        coarse = n < finest.cells
        tolerance = effort.choose(0.15 if coarse else 0.05, 0.25)
        rows += [
            compare(f"C_p at the front{note}", front, 1.144, tolerance, setup, _SOURCE),
            compare(f"C_p at the rear{note}", rear, -0.509, tolerance, setup, _SOURCE),
        ]
        angles = float(np.mean(separation_angles(loads)))
        name = f"separation, degrees from the rear{note}"
        rows.append(compare(name, angles, _SEPARATION, tolerance, setup, _SOURCE))
        friction = 2 * float(loads.friction_force[0])
        rows.append(compare(f"friction drag{note}", friction, 0.524, tolerance, setup, _SOURCE))
        drag = 2 * float(sim.body_state.force[0, 0, 0])
        rows.append(
            compare(
                f"C_D from the loads{note}",
                2 * float(loads.force[0]),
                drag,
                effort.choose(0.04 if coarse else 0.02, 0.06),
                setup,
                "C_D from the penalty, the same flow",
            )
        )
    return Result(rows, _plots(cells, [loads for _, loads in found]))


def _plots(cells: list[int], found: list[SurfaceLoads]) -> list[Plot]:
    plots = []
    for name, label in (
        ("pressure_coefficient", "pressure coefficient"),
        ("friction_coefficient", "skin friction coefficient"),
    ):
        curves = []
        for n, loads in zip(cells, found, strict=True):
            order = np.argsort(loads.angle)
            curves.append(
                Curve.of(
                    f"{n} cells per D",
                    np.degrees(loads.angle[order]),
                    getattr(loads, name)[order],
                )
            )
        plots.append(
            Plot(name.split("_")[0], "degrees from the rear, anticlockwise", label, curves)
        )
    return plots
