"""What the penalised bodies do: two measures of the force, the leak through a thin body, the order near a body."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies import Body, Disk, Ellipse, HalfDisk
from flowsim.forces import ControlVolumes
from flowsim.grid import Grid
from flowsim.motions import oscillation
from flowsim.simulation import Simulation
from flowsim.validation.cylinder import CHANNEL, STREAM
from flowsim.validation.result import Curve, Effort, Plot, Result, Row, Setup, advance, follow, judge

FloatArray = NDArray[np.float64]

DEFAULT_CELLS = 32
"""Cells per D of the default preset of the D-cylinder wake."""


def forces(effort: Effort) -> Result:
    """Force and torque by the penalty and by a control volume, on fixed, driven and free bodies at Re 400."""
    cells = effort.choose(DEFAULT_CELLS, 16)
    subjects: dict[str, Body] = {
        "fixed half disk": HalfDisk(center=(2.01, 2.0)),
        "driven ellipse": Ellipse(motion=oscillation((3.0, 2.01), amplitude=0.2, period=3.0, direction=np.pi / 2)),
        "free ellipse": Ellipse(center=(3.0, 2.01), angle=1.2, density=10.0, motion="free"),
    }
    rows, curves = [], []
    for index, (name, body) in enumerate(subjects.items()):
        grid = Grid(8 * cells, 4 * cells, 1 / cells)
        sim = Simulation(grid, CHANNEL, [body], viscosity=1 / 400, threads=effort.threads)
        volumes = sim.measure_control_volumes()

        def both(sim: Simulation, volumes: ControlVolumes = volumes) -> tuple[float, ...]:
            state = sim.body_state
            return *state.force[0, 0], state.torque[0, 0], *volumes.force[0, 0], volumes.torque[0, 0]

        history = follow(sim, effort.choose(6.0, 3.0), effort.part(index, len(subjects)), both)
        late = history[history[:, 0] > 0.5 * history[-1, 0]]
        penalty, balance = late[:, 1:4], late[:, 4:7]
        scale = np.sqrt((penalty[:, :2] ** 2).sum(axis=1).mean())
        mean = (penalty - balance).mean(axis=0)
        tolerance, setup = effort.choose(0.01, 0.03), Setup.of(sim)
        source = "control volume 0.25 D around the body; over the rms force, in D for the torque"
        rows += [
            judge(f"{name}: difference of the mean force", float(np.hypot(*mean[:2]) / scale), 0.0, tolerance, setup,
                  source),
            judge(f"{name}: difference of the mean torque", float(abs(mean[2]) / scale), 0.0, tolerance, setup, source),
        ]  # fmt: skip
        if name == "driven ellipse":
            curves = [
                Curve.of("penalty", history[::8, 0], history[::8, 2]),
                Curve.of("control volume", history[::8, 0], history[::8, 5]),
            ]
    return Result(rows, [Plot("driven-ellipse-lift", "t U/D", "F_y", curves, y_limits=(-2.0, 2.0))])


def leak(effort: Effort) -> Result:
    """Flow through a thin ellipse that stands across the stream at Re 400, a fifth of its length thick."""
    cells = effort.choose(DEFAULT_CELLS, 16)
    ellipse = Ellipse(center=(2.01, 2.0), angle=np.pi / 2)
    sim = Simulation(
        Grid(8 * cells, 4 * cells, 1 / cells), CHANNEL, [ellipse], viscosity=1 / 400, threads=effort.threads
    )
    worst = follow(sim, effort.choose(6.0, 3.0), effort, lambda sim: (_through(sim),))
    late = worst[worst[:, 0] > 1.0, 1]
    setup = Setup.of(sim)
    rows = [
        judge("mean speed through the ellipse over U", float(np.abs(late).mean()), 0.0, 0.01, setup, "solid: none"),
        judge("largest speed through the ellipse over U", float(np.abs(late).max()), 0.0, 0.01, setup, "solid: none"),
    ]
    curve = Curve.of("u on the major axis over U", worst[::8, 0], worst[::8, 1])
    return Result(rows, [Plot("leak", "t U/D", "u/U", [curve], y_limits=(-0.02, 0.02))])


def _through(sim: Simulation) -> float:
    """Mean of u on the inner four fifths of the major axis of the upright ellipse."""
    x, y = sim.body_state.position[0, 0]
    s = np.linspace(-0.4, 0.4, 81)
    points = np.stack([np.full_like(s, x), y + s], axis=-1)
    return float(sim.sample_velocity(points[None])[0, :, 0].mean())


def order(effort: Effort) -> Result:
    """Order of convergence of the drag of a disk, Re 20, two D/U after an impulsive start."""
    cells, ratio = effort.choose((12, 24, 48, 96), (8, 16, 32)), 2.0
    drags = []
    for index, n in enumerate(cells):
        disk = Disk(center=(2.01, 2.5))
        sim = Simulation(Grid(6 * n, 5 * n, 1 / n), STREAM, [disk], viscosity=1 / 20, threads=effort.threads)
        advance(sim, 1.95)
        history = follow(sim, 0.1, effort.part(index, len(cells)), lambda sim: (2 * sim.body_state.force[0, 0, 0],))
        drags.append(float(history[:, 1].mean()))
    values = np.array(drags)
    changes = np.abs(np.diff(values))
    observed = float(np.log(changes[0] / changes[-1]) / np.log(ratio) / (len(changes) - 1))
    limit = float(values[-1] + (values[-1] - values[-2]) / (ratio - 1))
    setup = Setup.of(sim)
    source = "at least first order near penalised bodies; subgrid positions blur it"
    rows = [
        judge("observed order of C_D in h", observed, (0.8, 4.0), 0.0, setup, source),
        Row(f"C_D at {cells[-1]} cells per D", drags[-1], None, "our own convergence", abs(drags[-1] / limit - 1),
            effort.choose(0.02, 0.05), "relative to the first-order extrapolation", setup),
    ]  # fmt: skip
    curve = Curve.of("|C_D - extrapolated|", 1 / np.array(cells), np.abs(values - limit), points=True)
    return Result(rows, [Plot("order", "h/D", "error of C_D", [curve], logarithmic=True)])
