"""Driven flows: Kolmogorov flow, a periodic channel, and the backward-facing step of Gartling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.boundary import Sides
from flowsim.grid import GHOSTS as G
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
    advance,
    compare,
)

FloatArray = NDArray[np.float64]
LENGTH = 15.0
"""Length of the channel behind the step, in channel heights."""
_EXACT, _GARTLING = "exact solution", "Gartling (1990)"


def kolmogorov(effort: Effort) -> Result:
    """Compare velocity and order of convergence of the flow driven from rest by F sin(2 y) along x."""
    nu, force, wave, end = 0.1, 0.1, 2, 10.0
    errors = []
    sizes = effort.choose((16, 32, 64), (16, 32))
    for index, n in enumerate(sizes):
        grid = Grid(n, n, 2 * np.pi / n)
        sim = Simulation(
            grid,
            Sides.all("periodic"),
            viscosity=nu,
            stream=(0.0, 0.0),
            dtype="float64",
            force_field=lambda x, y: (force * np.sin(wave * y), 0 * x),
            **effort.solver,
        )
        advance(sim, end)
        _, y = grid.u_faces()
        largest = force / (nu * wave**2) * (1 - np.exp(-nu * wave**2 * end))
        difference = sim.to_host(sim.u[0]) - largest * np.sin(wave * y)
        errors.append(float(np.abs(difference[G:-G, G:-G]).max()) / largest)
        effort.progress((index + 1) / len(sizes))
    setup = Setup.of(sim)
    order = np.log2(errors[-2] / errors[-1])
    return Result(
        [
            compare("largest error of u over its maximum", errors[-1], 0.0, 0.02, setup, _EXACT),
            compare("order of convergence", order, (1.9, 2.5), 0.0, setup, _EXACT),
        ]
    )


def endless_channel(effort: Effort) -> Result:
    """Compare Poiseuille flows between periodic sides: with given force, and with given mean velocity."""
    cells, nu = effort.choose(32, 16), 0.1
    sim = Simulation(
        Grid(8, cells, 1 / cells),
        Sides("periodic", "periodic", "no_slip", "no_slip"),
        viscosity=nu,
        batch=2,
        dtype="float64",
        body_force=[(12 * nu, 0.0), (0.0, 0.0)],
        mean_velocity=[(None, None), (1.0, None)],
        **effort.solver,
    )
    advance(sim, 10.0)
    _, y = sim.grid.centres()
    exact = 6 * y[0] * (1 - y[0])
    given, held = (sim.velocity_at_centres(b)[0, :, 0] for b in range(2))
    setup, tolerance = Setup.of(sim), effort.choose(0.002, 0.008)
    names = ("largest error of u, given force", "largest error of u, held mean velocity")
    rows = [
        compare(name, float(np.abs(u - exact).max()), 0.0, tolerance, setup, _EXACT)
        for name, u in zip(names, (given, held), strict=True)
    ]
    force = float(sim.body_force[1, 0])
    rows += [
        compare("force that holds the mean velocity", force, 12 * nu, tolerance, setup, _EXACT),
        compare("mean velocity that is held", float(held.mean()), 1.0, 1e-6, setup, _EXACT),
    ]
    curves = [Curve.of("ours", y[0], given, points=True), Curve.of("exact", y[0], exact)]
    return Result(rows, [Plot("profile", "y / H", "u / U", curves)])


def step(effort: Effort) -> Result:
    """Compare separation and reattachment of the flow behind a step at Re 800, on two grids."""
    rows: list[Row] = []
    curves: list[Curve] = []
    duration = effort.choose(400.0, 150.0)
    sizes = effort.choose((32, 64), (16, 24))
    for index, cells in enumerate(sizes):
        sim = _step(cells, effort)
        part = effort.part(index, len(sizes))
        for n in range(20):
            advance(sim, duration / 20)
            part.progress((n + 1) / 20)
        below, above = (wall_shear(sim, side) for side in (1, -1))
        x = sim.grid.centres()[0][:, 0]
        lower, (separation, upper) = crossings(x, below)[-1:], crossings(x, above)[:2]
        setup, note = Setup.of(sim), f", {cells} cells per H"
        values = (
            ("lower reattachment over h", 2 * lower[0], 12.20),
            ("upper separation over H", separation, 4.85),
            ("upper reattachment over H", upper, 10.48),
        )
        rows += [
            compare(name + note, float(value), published, allowed, setup, _GARTLING)
            for (name, value, published), allowed in zip(values, TOLERANCES[cells], strict=True)
        ]
        curves += [Curve.of(f"below{note}", x, below), Curve.of(f"above{note}", x, above)]
    plot = Plot("shear", "x / H", "du/dn at the walls", curves, y_limits=(-4.0, 8.0))
    return Result(rows, [plot], [Picture.of("step", sim, (0.0, 12.0, 0.0, 1.0), 8.0)])


TOLERANCES = {
    16: (0.25, 0.4, 0.1),
    24: (0.12, 0.2, 0.03),
    32: (0.05, 0.1, 0.01),
    64: (0.03, 0.05, 0.01),
}
"""Tolerances of the three positions, by cells per channel height: the first two move downstream as h is halved."""


def _step(cells: int, effort: Effort) -> Simulation:
    """Return the channel behind a step of half its height; the inflow above it is a parabola of mean speed 1."""
    sim = Simulation(
        Grid(round(LENGTH * cells), cells, 1 / cells),
        Sides("inflow", "outflow", "no_slip", "no_slip"),
        viscosity=1 / 800,
        stream=(0.5, 0.0),
        **effort.solver,
    )
    sim.set_inflow("left", lambda s: 24 * np.maximum(s - 0.5, 0.0) * np.maximum(1.0 - s, 0.0))
    sim.reset()
    return sim


def wall_shear(sim: Simulation, side: int) -> FloatArray:
    """Return du/dn at the lower (1) or the upper wall (-1), by a parabola through the wall and two cells."""
    u = sim.velocity_at_centres(0)[..., 0].astype(np.float64)[:, ::side]
    shear: FloatArray = (9 * u[:, 0] - u[:, 1]) / (3 * sim.grid.h)
    return shear


def crossings(x: FloatArray, f: FloatArray) -> list[float]:
    """Return the interpolated positions where f changes sign."""
    n = np.flatnonzero(np.sign(f[:-1]) != np.sign(f[1:]))
    return [float(x[i] - f[i] * (x[i + 1] - x[i]) / (f[i + 1] - f[i])) for i in n]
