"""Channels with a parabolic inflow: Poiseuille flow, and the benchmark of Schaefer and Turek (1996)."""

from __future__ import annotations

import numpy as np

from flowsim.bodies import Disk
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.measure.surface import surface_loads
from flowsim.simulation import Simulation
from flowsim.validation.cylinder import drag_and_lift, shedding_values
from flowsim.validation.result import (
    Curve,
    Effort,
    Plot,
    Result,
    Row,
    Setup,
    advance,
    compare,
    follow,
)

CHANNEL = Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic")
LENGTH, HEIGHT = 22.0, 4.1
"""Size of the channel of the benchmark, in D; the disk is at (2, 2), 0.05 D below the centreline."""
SHEDDING_TOLERANCES = {12: (0.1, 0.15, 0.02), 24: (0.03, 0.06, 0.01), 48: (0.01, 0.02, 0.01)}
"""Tolerances of C_D, C_L and Strouhal number by cells per D: at Re 100, halving h lowers the drag by 6 and by 2 %."""
_SOURCE = "Schaefer and Turek (1996)"


def poiseuille(effort: Effort) -> Result:
    """Compare profile and pressure gradient downstream of an inflow, at Re 20 based on the height of the channel."""
    cells, nu = effort.choose(32, 16), 0.05
    grid = Grid(6 * cells, cells, 1 / cells)
    sim = Simulation(grid, CHANNEL, viscosity=nu, dtype="float64", **effort.solver)
    # uniform initial flow with a parabolic inflow: the whole profile has to develop
    advance(sim, 10.0)
    _, y = sim.grid.centres()
    u = sim.velocity_at_centres(0)[4 * cells, :, 0]
    exact = 6 * y[0] * (1 - y[0])
    low, high = (float(sim.pressure[0, n * cells].mean()) for n in (2, 4))
    setup, source = Setup.of(sim), "exact solution"
    error = float(np.abs(u - exact).max())
    rows = [
        compare(
            "largest error of u at x = 4 H", error, 0.0, effort.choose(0.005, 0.02), setup, source
        ),
        compare("pressure gradient", (high - low) / 2, -12 * nu, 0.01, setup, source),
    ]
    curves = [Curve.of("ours", y[0], u, points=True), Curve.of("exact", y[0], exact)]
    return Result(rows, [Plot("profile", "y / H", "u / U", curves)])


def cylinder(effort: Effort) -> Result:
    """Compare drag, lift and pressure drop at Re 20 (2D-1), on two grids."""
    rows: list[Row] = []
    finest, lift_allowed = effort.choose(48, 16), effort.choose(0.5, 3.0)
    for index, cells in enumerate((finest // 2, finest)):
        sim = _simulation(cells, effort)
        advance(sim, effort.choose(25.0, 15.0))
        effort.part(index, 2).progress(1.0)
        setup, note = Setup.of(sim), f", {1 / sim.grid.h:.3g} cells per D"
        drag, lift = (2 * float(force) for force in sim.body_state.force[0, 0])
        front, rear = (
            float(np.interp(a, loads.angle, loads.pressure, period=2 * np.pi))
            for loads in [surface_loads(sim)]
            for a in (np.pi, 0.0)
        )
        fine = cells == finest and not effort.quick
        # rho U^2 is 0.04 in the units of the benchmark
        drop = 0.04 * (front - rear)
        rows += [
            compare(f"C_D{note}", drag, (5.57, 5.59), 0.01 if fine else 0.05, setup, _SOURCE),
            compare(
                f"C_L{note}", lift, (0.0104, 0.0110), 0.25 if fine else lift_allowed, setup, _SOURCE
            ),
            compare(
                f"pressure drop{note}",
                drop,
                (0.1172, 0.1176),
                0.05 if fine else 0.2,
                setup,
                _SOURCE,
            ),
        ]
    return Result(rows)


def shedding(effort: Effort) -> Result:
    """Compare largest drag and lift, and Strouhal number, at Re 100 (2D-2), on two grids."""
    rows: list[Row] = []
    curves: list[Curve] = []
    finest, duration = effort.choose(48, 24), 30.0
    for index, cells in enumerate((finest // 2, finest)):
        sim = _simulation(cells, effort.part(index, 2), viscosity=1 / 100, perturbation=0.5)
        history = follow(sim, duration, effort.part(index, 2), drag_and_lift)
        late = history[history[:, 0] > duration - 10.0]
        _, _, strouhal = shedding_values(history, duration - 10.0)
        setup, note = Setup.of(sim), f", {1 / sim.grid.h:.3g} cells per D"
        in_drag, in_lift, in_frequency = SHEDDING_TOLERANCES[cells]
        values = (
            ("largest C_D", late[:, 1].max(), (3.22, 3.24), in_drag),
            ("largest C_L", late[:, 2].max(), (0.99, 1.01), in_lift),
            ("Strouhal number", strouhal, (0.295, 0.305), in_frequency),
        )
        rows += [
            compare(name + note, float(value), published, allowed, setup, _SOURCE)
            for name, value, published, allowed in values
        ]
        curves.append(Curve.of(f"C_L{note}", history[::12, 0], history[::12, 2]))
    plot = Plot("lift", "time, in D/U", "lift coefficient", curves, y_limits=(-1.5, 1.5))
    return Result(rows, [plot])


def _simulation(
    cells: int, effort: Effort, viscosity: float = 1 / 20, perturbation: float = 0.0
) -> Simulation:
    ny = 2 * round(HEIGHT * cells / 2)
    h = HEIGHT / ny
    return Simulation(
        Grid(2 * round(LENGTH / h / 2), ny, h),
        CHANNEL,
        [Disk(center=(2.0, 2.0))],
        viscosity=viscosity,
        penalty=1e5,
        perturbation=perturbation,
        **effort.solver,
    )
