"""The unstable steady flow past a cylinder, and the growth rate of its shedding mode."""

from __future__ import annotations

import numpy as np

from flowsim.bodies import Disk
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.stability.base_flow import base_flow
from flowsim.stability.modes import leading_modes
from flowsim.validation.cylinder import STREAM, wake_length
from flowsim.validation.result import (
    DivergedError,
    Effort,
    Picture,
    Result,
    Row,
    Setup,
    compare,
)

BOX = Sides("inflow", "outflow", "slip", "slip")
_UNBOUNDED = (
    "unbounded: Fornberg (1980), Dennis & Chang (1970); finite volumes (chandc/PICT-Python)"
)
_FINITE_ELEMENTS = "finite elements in the same box (williamjussiau/FlowControl, 6461be3)"
_CRITICAL = "Jackson (1987), Giannetti & Luchini (2007), Kumar & Mittal (2006)"
AROUND = (44.0, 50.0)
"""Reynolds numbers between which the growth rate changes sign."""


def growth(effort: Effort) -> Result:
    """Compare drag and wake length of the steady flow at Re 100, growth rate and frequency, and the onset of growth."""
    steady, bounded, critical = (effort.part(n, 3) for n in range(3))
    rows = _steady_flow(steady)
    sim = _simulation(
        effort.choose((30, 20), (24, 12)), effort.choose(20, 8), BOX, (100.0,), effort
    )
    _settle(sim, bounded)
    mode = leading_modes(sim, tolerance=1e-3)
    omega = 2 * np.pi * float(mode.frequency[0, 0])
    setup, allowed = Setup.of(sim), effort.choose((0.02, 0.02), (0.05, 0.05))
    growth_rate = float(mode.growth_rate[0, 0])
    rows += [
        compare("growth rate at Re 100", growth_rate, 0.1326, allowed[0], setup, _FINITE_ELEMENTS),
        compare("2 pi x frequency at Re 100", omega, 0.7700, allowed[1], setup, _FINITE_ELEMENTS),
    ]
    x, y = sim.bodies[0].center
    window = (x - 2, x + 18, y - 3, y + 3)
    pictures = [Picture.of("base-flow", sim, window, limit=4.0)]
    sim.set_velocity(0, mode.u[0, 0].real, mode.v[0, 0].real)
    pictures.append(Picture.of("mode", sim, window, limit=3.0))
    return Result(rows + _onset(critical), pictures=pictures)


def _steady_flow(effort: Effort) -> list[Row]:
    sim = _simulation(
        effort.choose((30, 20), (24, 12)), effort.choose(16, 8), STREAM, (100.0,), effort
    )
    _settle(sim, effort)
    drag, setup = 2 * float(sim.body_state.force[0, 0, 0]), Setup.of(sim)
    allowed = effort.choose((0.02, 0.05), (0.05, 0.15))
    return [
        compare(
            "C_D of the steady flow at Re 100", drag, (1.056, 1.077), allowed[0], setup, _UNBOUNDED
        ),
        compare("its wake length", wake_length(sim, 12.0), 6.55, allowed[1], setup, _UNBOUNDED),
    ]


def _onset(effort: Effort) -> list[Row]:
    """Compare the Reynolds number of zero growth rate, by linear interpolation between two."""
    sim = _simulation(
        effort.choose((30, 20), (20, 10)), effort.choose(12, 8), STREAM, AROUND, effort
    )
    _settle(sim, effort)
    modes = leading_modes(sim, tolerance=3e-4)
    low, high = modes.growth_rate[:, 0]
    critical = AROUND[0] - low * (AROUND[1] - AROUND[0]) / (high - low)
    allowed, setup = effort.choose(0.02, 0.02), Setup.of(sim)
    return [compare("critical Reynolds number", critical, (46.6, 47.2), allowed, setup, _CRITICAL)]


def _simulation(
    size: tuple[int, int], cells: int, sides: Sides, reynolds: tuple[float, ...], effort: Effort
) -> Simulation:
    """Return flows around a cylinder at a third of the length of a box, in float64, at several Reynolds numbers."""
    length, height = size
    return Simulation(
        Grid(length * cells, height * cells, 1 / cells),
        sides,
        [Disk(center=(round(length / 3) + 0.01, height / 2))],
        viscosity=[1 / number for number in reynolds],
        batch=len(reynolds),
        dtype="float64",
        **effort.solver,
    )


def _settle(sim: Simulation, effort: Effort) -> None:
    found = base_flow(sim, tolerance=1e-5, duration=600.0)
    effort.progress(1.0)
    if not found.converged.all():
        raise DivergedError(f"the flow did not become steady in {found.duration.max():.0f} D/U")
