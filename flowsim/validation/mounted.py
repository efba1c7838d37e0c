"""Bodies on springs: vortex-induced vibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.bodies import Disk
from flowsim.bodies.mounts import Spring
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.validation.cylinder import STREAM
from flowsim.validation.result import (
    Curve,
    DivergedError,
    Effort,
    Picture,
    Plot,
    Result,
    Row,
    Setup,
    compare,
)

FloatArray = NDArray[np.float64]

MASS = 2.0
"""Mass of the cylinder over rho D^2."""
VELOCITIES = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
PEAK, LOCKED_IN = 0.53, (4.0, 7.0)
"""Published values: largest amplitude over D, and first and last reduced velocity of lock-in."""
LARGE = 0.3
"""Amplitude over D above which a cylinder counts as locked in."""


def sprung_cylinder(
    velocities: FloatArray, cells: int, size: tuple[float, float], effort: Effort
) -> Simulation:
    """Return one flow for each reduced velocity U / (f D), where f = sqrt(k / m) / (2 pi) is without fluid; Re 150."""
    disk = Disk(
        center=(size[0] / 3 + 0.01, size[1] / 2),
        density=MASS / (np.pi / 4),
        motion="free",
        held=("x", "angle"),
        springs={"y": Spring()},
    )
    nx, ny = (round(length * cells / 2) * 2 for length in size)
    sim = Simulation(
        Grid(nx, ny, 1 / cells),
        STREAM,
        [disk],
        viscosity=1 / 150,
        batch=len(velocities),
        perturbation=0.5,
        **effort.solver,
    )
    sim.spring_stiffness[:, 0, 1] = MASS * (2 * np.pi / velocities) ** 2
    return sim


def vortex_induced(effort: Effort) -> Result:
    """Compare the vibration across the stream of an undamped cylinder on a spring at several reduced velocities."""
    velocities = np.array(effort.choose(VELOCITIES, (4.0, 5.0)))
    cells, size, duration = effort.choose((24, (20, 12), 150.0), (12, (16, 8), 70.0))
    sim = sprung_cylinder(velocities, cells, size, effort)
    t, y = _swing(sim, duration, effort)
    late = t > duration - 40.0
    amplitude = 0.5 * (y[late].max(axis=0) - y[late].min(axis=0))
    setup = Setup.of(sim)
    source = "Ahn and Kallinderis (2006), Borazjani and Sotiropoulos (2009)"
    rows = [
        compare(
            "largest amplitude over D",
            float(amplitude.max()),
            PEAK,
            effort.choose(0.1, 0.15),
            setup,
            source,
        )
    ]
    if not effort.quick:
        rows += _lock_in(velocities, amplitude, setup, source)
    curves = [
        Curve.of("ours", velocities, amplitude, points=True),
        Curve.of("published maximum", LOCKED_IN, [PEAK] * 2),
    ]
    histories = [
        Curve.of(f"reduced velocity {velocity:g}", t[late], y[late, number])
        for number, velocity in enumerate(velocities)
        if velocity in (4.0, 5.0)
    ]
    x0, y0 = size[0] / 3, size[1] / 2
    return Result(
        rows,
        [
            Plot("amplitude", "reduced velocity U / (f D)", "amplitude over D", curves),
            Plot("history", "time, in D/U", "y, in D", histories),
        ],
        [Picture.of("swinging", sim, (x0 - 2, x0 + 10, y0 - 3, y0 + 3), 4.0)],
    )


def _swing(sim: Simulation, duration: float, effort: Effort) -> tuple[FloatArray, FloatArray]:
    """Return times, and the y positions of the cylinders relative to the middle of the box."""
    time, places, middle = [], [], sim.grid.size[1] / 2
    while float(sim.time.min()) < duration - 1e-9:
        sim.advance(0.1)
        if sim.diverged.any():
            raise DivergedError("the flow around a sprung cylinder blew up")
        time.append(float(sim.time[0]))
        places.append(sim.body_state.position[:, 0, 1] - middle)
        effort.progress(time[-1] / duration)
    return np.array(time), np.array(places)


def _lock_in(velocities: FloatArray, amplitude: FloatArray, setup: Setup, source: str) -> list[Row]:
    """Compare the ends of lock-in, and the amplitude at the first one, where our cylinder shows beating."""
    first = float(amplitude[velocities == LOCKED_IN[0]][0])
    locked = velocities[amplitude > LARGE]
    found = {"first": (locked.min(), LOCKED_IN[0]), "last": (locked.max(), LOCKED_IN[1])}
    return [
        compare("amplitude over D, reduced velocity 4", first, PEAK, 0.25, setup, source),
        *(
            compare(
                f"{end} reduced velocity with more than {LARGE} D",
                float(value),
                published,
                0.0,
                setup,
                source,
            )
            for end, (value, published) in found.items()
        ),
    ]
