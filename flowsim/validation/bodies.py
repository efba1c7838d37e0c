"""Penalised bodies: two measurements of the force, leak through a thin body, order of convergence near a body."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies import Body, Disk, Ellipse, HalfDisk, SignedDistance
from flowsim.bodies.motions import oscillation, rotation
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.measure.control_volumes import ControlVolumes
from flowsim.simulation import Simulation
from flowsim.validation.cylinder import CHANNEL
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

FloatArray = NDArray[np.float64]

DEFAULT_CELLS = 32
"""Cells per D of the default preset of the D-cylinder wake."""


def forces(effort: Effort) -> Result:
    """Compare force and torque by penalty and control volume, on fixed, driven and free bodies at Re 400."""
    cells = effort.choose(DEFAULT_CELLS, 16)
    subjects: dict[str, Body] = {
        "fixed half disk": HalfDisk(center=(2.01, 2.0)),
        "driven ellipse": Ellipse(
            motion=oscillation((3.0, 2.01), amplitude=0.2, period=3.0, direction=np.pi / 2)
        ),
        "free ellipse": Ellipse(center=(3.0, 2.01), angle=1.2, density=10.0, motion="free"),
    }
    rows, curves = [], []
    for index, (name, body) in enumerate(subjects.items()):
        grid = Grid(8 * cells, 4 * cells, 1 / cells)
        sim = Simulation(grid, CHANNEL, [body], viscosity=1 / 400, **effort.solver)
        volumes = sim.measure_control_volumes()

        def both(sim: Simulation, volumes: ControlVolumes = volumes) -> tuple[float, ...]:
            state = sim.body_state
            return (
                *state.force[0, 0],
                state.torque[0, 0],
                *volumes.force[0, 0],
                volumes.torque[0, 0],
            )

        history = follow(sim, effort.choose(6.0, 3.0), effort.part(index, len(subjects)), both)
        late = history[history[:, 0] > 0.5 * history[-1, 0]]
        rows += _differences(name, late, effort.choose(0.01, 0.03), Setup.of(sim))
        if name == "driven ellipse":
            curves = [
                Curve.of("penalty", history[::8, 0], history[::8, 2]),
                Curve.of("control volume", history[::8, 0], history[::8, 5]),
            ]
    return Result(
        rows,
        [
            Plot(
                "driven-ellipse-lift",
                "time, in D/U",
                "lateral force, in rho U^2 D",
                curves,
                y_limits=(-2.0, 2.0),
            )
        ],
    )


def _differences(name: str, history: FloatArray, tolerance: float, setup: Setup) -> list[Row]:
    """Compare the two measurements of force and torque, columns 1 to 3 and 4 to 6 of a history."""
    penalty, balance = history[:, 1:4], history[:, 4:7]
    scale = np.sqrt((penalty[:, :2] ** 2).sum(axis=1).mean())
    mean = (penalty - balance).mean(axis=0)
    source = "control volume 0.25 D around the body; over the rms force, in D for the torque"
    found = {"force": np.hypot(*mean[:2]) / scale, "torque": abs(mean[2]) / scale}
    return [
        compare(
            f"{name}: difference of the mean {what}", float(value), 0.0, tolerance, setup, source
        )
        for what, value in found.items()
    ]


def leak(effort: Effort) -> Result:
    """Measure the flow through a thin ellipse across the stream at Re 400; its thickness is a fifth of its length."""
    cells = effort.choose(DEFAULT_CELLS, 16)
    ellipse = Ellipse(center=(2.01, 2.0), angle=np.pi / 2)
    sim = Simulation(
        Grid(8 * cells, 4 * cells, 1 / cells),
        CHANNEL,
        [ellipse],
        viscosity=1 / 400,
        **effort.solver,
    )
    worst = follow(sim, effort.choose(6.0, 3.0), effort, lambda sim: (_through(sim),))
    late = worst[worst[:, 0] > 1.0, 1]
    setup = Setup.of(sim)
    rows = [
        compare(
            "mean speed through the ellipse over U",
            float(np.abs(late).mean()),
            0.0,
            0.01,
            setup,
            "no fluid passes through a solid",
        ),
        compare(
            "largest speed through the ellipse over U",
            float(np.abs(late).max()),
            0.0,
            0.01,
            setup,
            "no fluid passes through a solid",
        ),
    ]
    curve = Curve.of("u on the major axis over U", worst[::8, 0], worst[::8, 1])
    return Result(
        rows,
        [Plot("leak", "time, in D/U", "u/U on the major axis", [curve], y_limits=(-0.02, 0.02))],
    )


def _through(sim: Simulation) -> float:
    """Return the mean of u on the inner four fifths of the major axis of the upright ellipse."""
    x, y = sim.body_state.position[0, 0]
    s = np.linspace(-0.4, 0.4, 81)
    points = np.stack([np.full_like(s, x), y + s], axis=-1)
    return float(sim.sample_velocity(points[None])[0, :, 0].mean())


COUETTE_RADII, COUETTE_VISCOSITY, COUETTE_PENALTY = (0.5, 1.0), 0.1, 1e6
"""The ring is fixed and the surface speed of the disk is 1. With this penalty, the depth sqrt(nu / lambda) to which the
fluid moves inside a body is less than a thirtieth of the finest cell."""


def couette(
    cells: int, place: tuple[float, float], effort: Effort
) -> tuple[Simulation, float, float, float]:
    """Simulate a rotating disk in a fixed ring, whose exact solution is Couette flow, u_theta = A r + B / r.

    Parameters
    ----------
    cells : int
        Cells per D.
    place : (float, float)
        Position of the centre within its cell, from 0 to 1.
    effort : Effort

    Returns
    -------
    Simulation
    root_mean_square, largest : float
        Error of the velocity between the surfaces.
    torque : float
        Torque on the disk over the exact one.
    """
    (inner, outer), thickness, side = COUETTE_RADII, 0.2, 2.5
    nodes = 2 * round(side * cells / 2)
    grid = Grid(nodes, nodes, 1 / cells)
    x, y = ((nodes // 2 + offset) / cells for offset in place)

    def ring(x: FloatArray, y: FloatArray) -> FloatArray:
        return np.abs(np.hypot(x, y) - outer - thickness / 2) - thickness / 2

    sim = Simulation(
        grid,
        Sides.all("slip"),
        [
            Disk(diameter=2 * inner, center=(x, y), motion=rotation((x, y), 1 / inner)),
            SignedDistance(function=ring, reach=outer + thickness + 0.02, center=(x, y)),
        ],
        viscosity=COUETTE_VISCOSITY,
        stream=(0.0, 0.0),
        penalty=COUETTE_PENALTY,
        dtype="float64",
        **effort.solver,
    )
    strength = inner * outer**2 / (outer**2 - inner**2)

    def exact_over_r(r: FloatArray) -> FloatArray:
        gap: FloatArray = strength * (1 / np.maximum(r, inner) ** 2 - 1 / outer**2)
        return np.where(r < outer, gap, 0.0)

    (ux, uy), (vx, vy) = grid.u_faces(), grid.v_faces()
    r_u, r_v = np.hypot(ux - x, uy - y), np.hypot(vx - x, vy - y)
    exact_u, exact_v = -exact_over_r(r_u) * (uy - y), exact_over_r(r_v) * (vx - x)
    sim.set_velocity(0, exact_u, exact_v)
    sim.settle()
    advance(sim, 1.0)
    errors = np.concatenate(
        [
            (sim.to_host(sim.u[0]) - exact_u)[(r_u > inner) & (r_u < outer)],
            (sim.to_host(sim.v[0]) - exact_v)[(r_v > inner) & (r_v < outer)],
        ]
    )
    torque = float(sim.body_state.torque[0, 0]) / (-4 * np.pi * COUETTE_VISCOSITY * strength)
    return sim, float(np.sqrt((errors**2).mean())), float(np.abs(errors).max()), torque


def order(effort: Effort) -> Result:
    """Measure the order of convergence near bodies: Couette flow between a disk and a ring, at three grid positions."""
    cells, places = effort.choose((8, 16, 32, 64), (8, 16)), ((0.0, 0.0), (0.25, 0.1), (0.5, 0.5))
    found = np.zeros((len(cells), len(places), 3))
    for index, n in enumerate(cells):
        for where, place in enumerate(places):
            sim, *found[index, where] = couette(n, place, effort)
        effort.progress((cells[index] / cells[-1]) ** 4)
    mean_square, largest = np.sqrt((found[..., 0] ** 2).mean(axis=1)), found[..., 1].max(axis=1)
    worst = found[-1, np.abs(found[-1, :, 2] - 1).argmax(), 2]
    observed = np.log(
        np.stack([mean_square, largest])[:, 0] / np.stack([mean_square, largest])[:, -1]
    )
    observed /= np.log(cells[-1] / cells[0])
    setup, source = (
        Setup.of(sim),
        "Couette flow, exact; near penalised bodies first order is expected",
    )
    rows = [
        compare(
            "torque over the exact one, worst of three places", worst, 1.0, 0.02, setup, source
        ),
        compare(
            "order of the rms error of the velocity",
            float(observed[0]),
            (1.0, 2.5),
            0.0,
            setup,
            source,
        ),
        compare("rms error of the velocity", float(mean_square[-1]), 0.0, 0.02, setup, source),
        compare(
            "largest error of the velocity",
            float(largest[-1]),
            0.0,
            effort.choose(0.02, 0.05),
            setup,
            source,
        ),
    ]
    h = 1 / np.array(cells)
    curves = [
        Curve.of("rms error of the velocity", h, mean_square, points=True),
        Curve.of("largest error of the velocity", h, largest, points=True),
        Curve.of("error of the torque", h, np.abs(found[..., 2] - 1).max(axis=1), points=True),
        Curve.of("first order", h, largest[0] * h / h[0]),
        Curve.of("second order", h, mean_square[0] * (h / h[0]) ** 2),
    ]
    return Result(rows, [Plot("order", "cell width h/D", "error", curves, logarithmic=True)])
