"""Flows with heat transfer: side-heated square cavity, convection between plates, hot cylinder."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.temperature import Temperature
from flowsim.bodies import Disk
from flowsim.boundary import Sides
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid
from flowsim.measure.heat import nusselt_number, volume_nusselt_number
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
PLATES = Sides("periodic", "periodic", "no_slip", "no_slip")
PRANDTL = 0.71
SIDE_HEATED = {
    1000: (1.118, 3.649, 3.697),
    10_000: (2.243, 16.178, 19.617),
    100_000: (4.519, 34.73, 68.59),
    1_000_000: (8.800, 64.63, 219.36),
}
"""Nusselt number, largest u on the vertical and v on the horizontal centreline, in kappa/L, by de Vahl Davis."""
_BENCHMARK, _EXACT = "de Vahl Davis (1983)", "linear stability"
_CYLINDER = "Bharti et al. (2007)"
_KTH = "Vignon et al. (2023), code"
CRITICAL = 1707.76
CRITICAL_WAVE = 3.117
PROBES = 2.6726
"""Nusselt number of Vignon et al. without control, at the probes of :func:`probe_nusselt_number`."""


def free_fall(rayleigh: float, prandtl: float) -> tuple[float, float]:
    """Return viscosity and diffusivity in units of the height and of the free-fall velocity sqrt(beta g DT H)."""
    return float(np.sqrt(prandtl / rayleigh)), float(1.0 / np.sqrt(prandtl * rayleigh))


def side_heated(rayleigh: int, effort: Effort) -> Result:
    """Compare Nusselt number and largest velocities in a square with a hot, a cold and two insulated sides."""
    published = SIDE_HEATED[rayleigh]
    fine = rayleigh >= 100_000
    full = (64, 96, 128) if rayleigh > 100_000 else (32, 64, 96) if fine else (16, 32, 64)
    sizes = effort.choose(full, (32, 48) if fine else (16, 32))
    seen: list[FloatArray] = []
    for index, n in enumerate(sizes):
        nu, kappa = free_fall(rayleigh, PRANDTL)
        heat = Temperature(
            kappa,
            sides={"left": 1.0, "right": 0.0},
            buoyancy=(0.0, 1.0),
            reference=0.5,
            initial=0.5,
        )
        sim = Simulation(
            Grid(n, n, 1 / n),
            Sides.all("no_slip"),
            viscosity=nu,
            stream=(0.0, 0.0),
            dtype="float64",
            temperature=heat,
            **effort.solver,
        )
        part = effort.part(index, len(sizes))
        duration = 20.0 + 0.4 / kappa  # the slowest mode decays by diffusion
        for m in range(10):
            advance(sim, duration / 10)
            part.progress((m + 1) / 10)
        seen.append(_benchmark_values(sim))
    setup = Setup.of(sim)
    names = ("Nusselt number of the hot side", "largest u L/kappa", "largest v L/kappa")
    tolerances = effort.choose((0.01, 0.01, 0.01), (0.04, 0.04, 0.04))
    rows = [
        compare(name, float(value), reference, allowed, setup, _BENCHMARK)
        for name, value, reference, allowed in zip(
            names, seen[-1], published, tolerances, strict=True
        )
    ]
    cold = float(nusselt_number(sim, "right")[0])
    rows.append(
        compare(
            "Nusselt number of the cold side over it",
            cold / seen[-1][0],
            1.0,
            1e-4,
            setup,
            "balance",
        )
    )
    curve = Curve.of(
        "error of the Nusselt number",
        1 / np.array(sizes),
        [abs(s[0] / published[0] - 1) for s in seen],
        points=True,
    )
    return Result(rows, [Plot("convergence", "1/n", "relative error", [curve], logarithmic=True)])


def _benchmark_values(sim: Simulation) -> FloatArray:
    """Return the Nusselt number, the largest u on the vertical and v on the horizontal centreline, in kappa/L."""
    velocity, middle, kappa = sim.velocity_at_centres(0), sim.grid.nx // 2, sim.diffusivity[0]
    u = 0.5 * (velocity[middle - 1, :, 0] + velocity[middle, :, 0])
    v = 0.5 * (velocity[:, middle - 1, 1] + velocity[:, middle, 1])
    return np.array([nusselt_number(sim, "left")[0], _peak(u) / kappa, _peak(v) / kappa])


def _peak(f: FloatArray) -> float:
    """Return the interpolated maximum, by a parabola through the largest value and its neighbours."""
    n = int(np.argmax(f))
    low, here, high = (float(value) for value in f[n - 1 : n + 2])
    return here + (high - low) ** 2 / (8 * (2 * here - low - high))


def onset(effort: Effort) -> Result:
    """Compute the critical Rayleigh and wave number of convection between plates from growth rates around them."""
    cells = effort.choose(48, 16)
    wide = np.array(
        [1.75, 1.875, 2.0, 2.125, 2.25]
    )  # lengths of the box over its height, each with one pair of convection cells
    critical, waves, curves = [], [], []
    tried = np.array([1600.0, 1700.0, 1800.0])
    for index, ratio in enumerate(wide):
        sim = _plates(round(ratio * cells), cells, tried, effort)
        growth = _growth_rates(sim)
        critical.append(float(np.interp(0.0, growth, tried)))
        waves.append(2 * np.pi * cells / sim.grid.nx)
        curves.append(Curve.of(f"wave number {waves[-1]:.3f}", tried, growth, points=True))
        effort.progress((index + 1) / len(wide))
    fit = np.polyfit(np.array(waves) - CRITICAL_WAVE, critical, 4)
    near = np.linspace(-0.3, 0.3, 601)
    values = np.polyval(fit, near)
    least = int(np.argmin(values))
    setup, tolerance = Setup.of(sim), effort.choose(0.005, 0.02)
    rows = [
        compare(
            "critical Rayleigh number", float(values[least]), CRITICAL, tolerance, setup, _EXACT
        ),
        compare(
            "critical wave number", CRITICAL_WAVE + near[least], CRITICAL_WAVE, 0.01, setup, _EXACT
        ),
    ]
    return Result(rows, [Plot("growth", "Ra", "growth rate H^2/kappa", curves)])


def _plates(nx: int, ny: int, rayleigh: FloatArray, effort: Effort) -> Simulation:
    """Return flows with a weak pair of convection cells at several Rayleigh numbers, Pr 1; the height is 1."""
    kappa = 1 / np.sqrt(rayleigh)
    h = 1 / ny

    def begin(x: FloatArray, y: FloatArray) -> FloatArray:
        return 1 - y + 1e-4 * np.cos(2 * np.pi * x / (nx * h)) * np.sin(np.pi * y)

    heat = Temperature(
        kappa, sides={"bottom": 1.0, "top": 0.0}, buoyancy=(0.0, 1.0), reference=0.5, initial=begin
    )
    return Simulation(
        Grid(nx, ny, h),
        PLATES,
        viscosity=kappa,
        batch=len(rayleigh),
        stream=(0.0, 0.0),
        dtype="float64",
        temperature=heat,
        **effort.solver,
    )


def _growth_rates(sim: Simulation) -> FloatArray:
    """Return the growth rate of the largest upward velocity of each flow, in units of kappa/H^2."""
    seen = []
    for _ in range(2):
        advance(sim, 20.0)  # half a diffusion time, in which all other modes decay
        v = sim.to_host(sim.v)[:, G:-G, G:-G]
        seen.append(np.log(np.abs(v).max(axis=(1, 2))))
    return np.asarray((seen[1] - seen[0]) / 20.0 / sim.diffusivity)


def rayleigh_benard(effort: Effort) -> Result:
    """Compare Nusselt numbers at walls, volume and probes for the box of Vignon et al., with two pairs of cells."""
    cells = effort.choose(64, 32)
    sim = vignon(cells, effort)
    for n in range(20):
        advance(sim, 10.0)
        effort.progress((n + 1) / 20)
    setup, wall = Setup.of(sim), float(nusselt_number(sim, "bottom")[0])
    top, volume = nusselt_number(sim, "top")[0], volume_nusselt_number(sim, "bottom")[0]
    rows = [
        compare(
            "Nusselt number by their probes",
            probe_nusselt_number(sim),
            PROBES,
            effort.choose(0.03, 0.05),
            setup,
            _KTH,
        ),
        compare(
            "of the top over that of the bottom", float(top) / wall, 1.0, 1e-3, setup, "balance"
        ),
        compare(
            "of the volume over that of the bottom",
            float(volume) / wall,
            1.0,
            3e-3,
            setup,
            "balance",
        ),
    ]
    return Result(rows, [], [Picture.of("cells", sim, limit=3.0)])


def vignon(cells: int, effort: Effort) -> Simulation:
    """Return the box of Vignon et al., 2 pi by 2, Pr 0.7, at Ra 1e4 for half the height: 8e4 for the full height."""
    nx, h = 2 * round(np.pi * cells / 2), 2 / cells
    nu, kappa = free_fall(1e4, 0.7)

    def begin(x: FloatArray, y: FloatArray) -> FloatArray:
        return 2 - y / 2 + 0.1 * np.cos(4 * np.pi * x / (nx * h)) * np.sin(np.pi * y / 2)

    heat = Temperature(
        kappa, sides={"bottom": 2.0, "top": 1.0}, buoyancy=(0.0, 1.0), reference=1.5, initial=begin
    )
    return Simulation(
        Grid(nx, cells, h),
        PLATES,
        viscosity=nu,
        stream=(0.0, 0.0),
        temperature=heat,
        **effort.solver,
    )


def probe_nusselt_number(sim: Simulation) -> float:
    """Return the Nusselt number as estimated in the code of Vignon et al., from 8 x 32 of its collocation points.

    The points are close to the plates, where v T is small, so the estimate is far below the flux through the plates.
    """
    length, kappa = sim.grid.size[0], float(sim.diffusivity[0])
    heights = 1 + np.cos(np.pi * (np.arange(64) + 0.5) / 64)[::8]
    points = np.array([(x, y) for y in heights for x in np.arange(0, 96, 3) * length / 96])
    t = sim.sample_temperature(points)[0].reshape(8, 32)
    v = sim.sample_velocity(points)[0, :, 1].reshape(8, 32)
    slope = np.gradient(t.mean(axis=1)).mean()
    return float(((v * t).mean() - kappa * slope) / (kappa * 0.5))


def hot_cylinder(effort: Effort) -> Result:
    """Compare the Nusselt number of an isothermal cylinder in a stream, Pr 0.7: first order at its surface."""
    published = {20: 2.4653, 40: 3.2825}
    cells = effort.choose(24, 12)
    reynolds = np.array(list(published), np.float64)
    sim = Simulation(
        Grid(16 * cells, 8 * cells, 1 / cells),
        bodies=[Disk(center=(4.0, 4.0))],
        viscosity=1 / reynolds,
        batch=len(reynolds),
        temperature=Temperature(1 / (0.7 * reynolds), bodies={0: 1.0}),
        **effort.solver,
    )
    for n in range(20):
        advance(sim, 2.0)
        effort.progress((n + 1) / 20)
    setup, allowed = Setup.of(sim), effort.choose(0.04, 0.08)
    found = _heat_of_body(sim, (3.0, 6.0, 3.0, 5.0)) / (np.pi * sim.diffusivity)
    rows: list[Row] = [
        compare(
            f"Nusselt number at Re {number}",
            float(value),
            reference,
            allowed,
            setup,
            _CYLINDER,
        )
        for (number, reference), value in zip(published.items(), found, strict=True)
    ]
    return Result(rows)


def _heat_of_body(sim: Simulation, window: tuple[float, float, float, float]) -> FloatArray:
    """Return the temperature flux (B,) out of a rectangle x0, x1, y0, y1."""
    h = sim.grid.h
    i0, i1, j0, j1 = (round(edge / h) for edge in window)
    u, v, t = (
        sim.to_host(f)[:, G:-G, G:-G].astype(np.float64) for f in (sim.u, sim.v, sim.temperature)
    )
    kappa = sim.diffusivity[:, None]
    total = np.zeros(sim.batch)
    for velocity, field, ends, (low, high) in (
        (u, t, (i0, i1), (j0, j1)),
        (v.swapaxes(1, 2), t.swapaxes(1, 2), (j0, j1), (i0, i1)),
    ):
        for sign, end in zip((-1, 1), ends, strict=True):
            one, other = field[:, end - 1, low:high], field[:, end, low:high]
            flux = velocity[:, end, low:high] * 0.5 * (one + other) - kappa * (other - one) / h
            total += sign * h * flux.sum(axis=1)
    return total
