"""Convergence in time with bodies: the same flow on the same grid, with repeatedly halved steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies.motions import oscillation
from flowsim.bodies.shapes import Disk
from flowsim.boundary import Sides
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.validation.result import Curve, DivergedError, Effort, Plot, Result, Setup, compare

FloatArray = NDArray[np.float64]

CELLS, DURATION, VISCOSITY = 16, 1.2, 0.02
STEPS = (0.008, 0.004, 0.002, 0.001)
KINDS = {
    "held in a stream": Disk(center=(2.013, 2.007)),
    "driven to and fro": Disk(motion=oscillation((2.013, 2.007), 0.4, 2.4)),
    "falling, density 1.5": Disk(center=(2.013, 2.307), density=1.5, motion="free"),
    "rising, density 0.5": Disk(center=(2.013, 1.5), density=0.5, motion="free"),
}
"""The disks; none is centred on a grid line."""


def time_steps(effort: Effort) -> Result:
    """Measure the order of convergence in time of the velocity, rms over the whole box, for four kinds of bodies."""
    steps = STEPS if effort.choose(True, False) else STEPS[:3]
    rows, curves = [], []
    for index, (kind, disk) in enumerate(KINDS.items()):
        fields = []
        for dt in steps:
            sim, field = _flow(disk, dt, effort)
            fields.append(field)
        changes = np.array([np.sqrt(((a - b) ** 2).mean()) for a, b in pairwise(fields)])
        order = float(np.log2(changes[-2] / changes[-1]))
        source = "first order, of the splitting into penalty and projection"
        rows.append(
            compare(f"order in time, disk {kind}", order, (0.9, 2.2), 0.0, Setup.of(sim), source)
        )
        curves.append(Curve.of(kind, np.array(steps[1:]), changes, points=True))
        effort.progress((index + 1) / len(KINDS))
    guide = np.array([steps[-1], steps[1]])
    curves.append(Curve.of("first order", guide, float(changes[0]) * guide / steps[1]))
    plot = Plot("steps", "dt U/D", "rms change of the velocity when dt is halved", curves, True)
    return Result(rows, [plot])


def _flow(disk: Disk, dt: float, effort: Effort) -> tuple[Simulation, FloatArray]:
    """Return a simulation after equal steps, and its velocity."""
    held, free = disk.motion == "fixed", disk.motion == "free"
    sim = Simulation(
        Grid(6 * CELLS, 4 * CELLS, 1 / CELLS),
        Sides() if held else Sides.all("no_slip"),
        [disk],
        viscosity=VISCOSITY,
        stream=(1.0, 0.0) if held else (0.0, 0.0),
        gravity=(0.0, -0.5) if free else (0.0, 0.0),
        dtype="float64",
        # allows all requested steps
        **effort.solver | {"cfl": 1.0},
    )
    for step in range(1, round(DURATION / dt) + 1):
        sim.advance(step * dt - float(sim.time[0]))
    if sim.diverged[0]:
        raise DivergedError(f"disk at dt = {dt} diverged")
    inner = (slice(None), slice(G, -G), slice(G, -G))
    velocity = np.stack([sim.to_host(sim.u[0]), sim.to_host(sim.v[0])])
    return sim, velocity[inner].astype(np.float64)
