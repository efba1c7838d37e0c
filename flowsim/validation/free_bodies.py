"""Free bodies, and bodies that are driven through the fluid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import kve

from flowsim.bodies import Disk
from flowsim.boundary import Sides
from flowsim.simulation import Simulation
from flowsim.validation.cylinder import CHANNEL, STILL, STREAM, Box, disturb_wake
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

BOXES: dict[str, tuple[Box, Box]] = {
    "added-mass": (Box((6, 6), (3.003, 3.0), 96, STILL), Box((6, 6), (3.003, 3.0), 32, STILL)),
    "sedimenting": (Box((20, 12), (6.01, 6.0), 24, STREAM), Box((16, 8), (5.01, 4.0), 10, STREAM)),
    "frames": (Box((16, 12), (9.003, 6.0), 32, CHANNEL), Box((12, 8), (7.003, 4.0), 16, CHANNEL)),
}
"""(full, quick) of every case."""


def _box(name: str, effort: Effort) -> Box:
    return effort.choose(*BOXES[name])


RELEASE_VISCOSITY = 1e-4
RELEASE_TIMES = 0.05, 0.1
"""Times between which the acceleration is measured: a disk lighter than the fluid takes a few steps to start."""


def released_disk(density: float, box: Box, effort: Effort) -> tuple[FloatArray, Simulation]:
    """Record time and speed of a disk of a given relative density released from rest; g is 1, along y."""
    disk = Disk(center=box.center, density=density, motion="free")
    sim = box.simulation(disk, effort, viscosity=RELEASE_VISCOSITY, stream=(0.0, 0.0))
    sim.body_state.applied_force[0, 0] = (0.0, (density - 1) * disk.area)
    speed = [(0.0, 0.0)]
    for time in RELEASE_TIMES:
        seen = follow(
            sim, time - speed[-1][0], effort, lambda sim: (float(sim.body_state.velocity[0, 0, 1]),)
        )
        speed += [(float(t), float(v)) for t, v in seen]
    return np.array(speed), sim


def exact_release(density: float, time: float, terms: int = 32) -> float:
    """Return the speed over g of a disk soon after release: added mass and growing boundary layer.

    It is the Laplace transform of the unsteady Stokes solution, s V (rho + 1 + 4 K_1(z) / (z K_0(z))) = (rho - 1) / s
    with z = R sqrt(s / nu), inverted on Talbot's contour (Abate and Valko 2004). Without viscosity it is
    V = t (rho - 1)/(rho + 1).
    """
    angle = np.arange(1, terms) * np.pi / terms
    cot = 1 / np.tan(angle)
    s = np.concatenate([[2 * terms / 5], 0.4 * terms * angle * (cot + 1j)]) / time
    weight = np.concatenate([[0.5], 1 + 1j * angle * (1 + cot**2) - 1j * cot]) * np.exp(s * time)
    z = 0.5 * np.sqrt(s / RELEASE_VISCOSITY)
    speed = (density - 1) / s**2 / (density + 1 + 4 * kve(1, z) / (z * kve(0, z)))
    return float(0.4 / time * (weight * speed).real.sum())


def added_mass(effort: Effort) -> Result:
    """Compare disks with density ratios from 0.1 to 1000: a = g (rho_s - 1)/(rho_s + 1), minus friction."""
    box, rows, found, plots = _box("added-mass", effort), [], [], []
    densities = (0.1, 0.5, 2.0, 10.0, 100.0, 1000.0)
    early, late = RELEASE_TIMES
    for index, density in enumerate(densities):
        history, sim = released_disk(density, box, effort.part(index, len(densities)))
        speed = np.interp(RELEASE_TIMES, history[:, 0], history[:, 1])
        found.append(float(speed[1] - speed[0]) / (late - early))
        exact = (exact_release(density, late) - exact_release(density, early)) / (late - early)
        rows.append(
            compare(
                f"acceleration over g, density ratio {density:g}",
                found[-1],
                exact,
                effort.choose(0.02, 0.1),
                Setup.of(sim),
                "exact: added mass and boundary layer at short times",
            )
        )
        if index == 0:
            t = np.linspace(0.005, late, 20)
            curves = [
                Curve.of("ours", history[:, 0], history[:, 1]),
                Curve.of("exact", t, [exact_release(density, time) for time in t]),
                Curve.of("without viscosity", t, t * (density - 1) / (density + 1)),
            ]
            plots.append(Plot(f"start-{density:g}", "time", "speed over g", curves))
    many = np.geomspace(0.1, 1000, 100)
    curves = [
        Curve.of("(rho - 1)/(rho + 1)", np.log10(many), (many - 1) / (many + 1)),
        Curve.of("ours", np.log10(densities), found, points=True),
    ]
    plots.append(Plot("acceleration", "log10 of the density ratio", "acceleration over g", curves))
    return Result(rows, plots)


GALILEO = 138.4
"""sqrt((rho_s - 1) g D^3)/nu of Namkoong et al.: D 5 mm, nu 8e-7 m^2/s, density ratio 1.01, g 9.8 m/s^2."""


def sedimenting(effort: Effort) -> Result:
    """Compare the fall of a disk 1 % heavier than water, in a frame that moves at the published terminal speed.

    Units are D and sqrt((rho_s - 1) g D), so the weight of the disk in water is pi/4. The x axis points up, and the
    water comes from below, that is from the left.
    """
    box, published = _box("sedimenting", effort), 156.0
    terminal = published / GALILEO
    disk = Disk(center=box.center, density=1.01, motion="free")
    sim = box.simulation(disk, effort, viscosity=1 / GALILEO, stream=(terminal, 0.0))
    sim.body_state.applied_force[0, 0] = (-disk.area, 0.0)
    disturb_wake(sim)
    duration = effort.choose(80.0, 50.0)

    def look(sim: Simulation) -> tuple[float, float, float, float]:
        (x, y), (u, v) = sim.body_state.position[0, 0], sim.body_state.velocity[0, 0]
        return float(u), float(v), float(x), float(y)

    history = follow(sim, duration, effort, look)
    late = history[history[:, 0] > 0.6 * duration]
    falling = terminal - (late[-1, 3] - late[0, 3]) / (late[-1, 0] - late[0, 0])
    setup, source = Setup.of(sim), "Namkoong, Yoo and Choi (2008)"
    tolerance = effort.choose(0.03, 0.1)
    rows = [
        compare(
            "mean terminal Reynolds number", falling * GALILEO, published, tolerance, setup, source
        )
    ]
    curves = [
        Curve.of("ours", history[::10, 0], (terminal - history[::10, 1]) * GALILEO),
        Curve.of("published mean", [0.0, duration], [published] * 2),
    ]
    x, y = sim.body_state.position[0, 0]
    picture = Picture.of("falling-left", sim, (x - 2, x + 10, y - 3, y + 3))
    return Result(
        rows,
        [Plot("speed", "t, in sqrt(D / ((rho_s - 1) g))", "Reynolds number", curves)],
        [picture],
    )


def frames(effort: Effort) -> Result:
    """Compare the drag of a disk in a stream with that of the same disk driven through still water, Re 100."""
    box, duration = _box("frames", effort), 3.0
    x0, y0 = box.center

    def motion(t: float) -> tuple[float, float, float, float, float, float]:
        return x0 - t, y0, 0.0, -1.0, 0.0, 0.0

    still = Box(box.size, box.center, box.cells, Sides("inflow", "open", "slip", "slip"))
    runs = (
        (box, Disk(center=box.center), (1.0, 0.0)),
        (still, Disk(center=box.center, motion=motion), (0.0, 0.0)),
    )
    histories = []
    for index, (where, disk, stream) in enumerate(runs):
        sim = where.simulation(disk, effort, viscosity=1 / 100, stream=stream)
        seen = follow(
            sim,
            duration,
            effort.part(index, 2),
            lambda sim: (2 * float(sim.body_state.force[0, 0, 0]),),
        )
        histories.append(seen)
        if index == 0:
            setup = Setup.of(sim)
    means = [_block_means(seen[:, 0], seen[:, 1], duration) for seen in histories]
    differences = np.abs(means[1][1] - means[0][1]) / means[0][1]
    row = Row(
        "largest difference of C_D, means over 0.25 D/U",
        float(differences.max()),
        0.0,
        "the same flow in two frames",
        float(differences.max()),
        effort.choose(0.02, 0.03),
        "relative to the fixed disk's",
        setup,
    )
    curves = [
        Curve.of(label, seen[:, 0], seen[:, 1])
        for label, seen in zip(
            ("in a stream", "moving through still water"), histories, strict=True
        )
    ]
    return Result(
        [row], [Plot("drag", "time, in D/U", "drag coefficient", curves, y_limits=(0.5, 3.0))]
    )


def _block_means(
    time: FloatArray, values: FloatArray, duration: float
) -> tuple[FloatArray, FloatArray]:
    """Return means over blocks of 0.25 D/U from t = 0.5 on, since the drag is singular at the start."""
    edges = np.arange(0.5, duration + 1e-9, 0.25)
    which = np.digitize(time, edges)
    means = np.array([values[which == n].mean() for n in range(1, len(edges))])
    return edges[:-1] + 0.125, means
