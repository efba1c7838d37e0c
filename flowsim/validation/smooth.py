"""Flows without bodies that have exact solutions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.boundary import Sides
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.validation.result import Curve, Effort, Plot, Result, Row, Setup, advance, compare

FloatArray = NDArray[np.float64]


def taylor_green_flow(
    n: int,
    effort: Effort,
    integrator: str = "ab2",
    cfl: float = 0.5,
    dtype: str = "float64",
    stream: tuple[float, float] = (1.0, 0.5),
) -> tuple[Simulation, FloatArray]:
    """Simulate a Taylor-Green vortex (nu = 0.05, wave number 1) in a uniform stream to t = 0.5.

    Returns
    -------
    Simulation
    (2, n + 4, n + 4) float64
        Exact u and v at the end, with ghost points.
    """
    nu, end = 0.05, 0.5
    grid = Grid(n, n, 2 * np.pi / n)
    sim = Simulation(
        grid,
        Sides.all("periodic"),
        viscosity=nu,
        stream=stream,
        integrator=integrator,
        cfl=cfl,
        dtype=dtype,
        **effort.solver,
    )
    (ux, uy), (vx, vy) = grid.u_faces(), grid.v_faces()

    def exact(t: float) -> FloatArray:
        decay = np.exp(-2 * nu * t)
        u = stream[0] + np.cos(ux - stream[0] * t) * np.sin(uy - stream[1] * t) * decay
        v = stream[1] - np.sin(vx - stream[0] * t) * np.cos(vy - stream[1] * t) * decay
        return np.stack([u, v])

    sim.set_velocity(0, *exact(0.0))
    sim.settle()
    advance(sim, end)
    return sim, exact(end)


def _velocity(sim: Simulation) -> FloatArray:
    return np.stack([sim.to_host(sim.u[0]), sim.to_host(sim.v[0])]).astype(np.float64)


def _largest(difference: FloatArray) -> float:
    return float(np.abs(difference[:, G:-G, G:-G]).max())


def taylor_green(effort: Effort) -> Result:
    """Compare the decay of the vortex, and the orders of convergence in space and time."""
    sizes = effort.choose((16, 32, 64, 128), (16, 32, 64))
    errors = []
    for index, n in enumerate(sizes):
        sim, exact = taylor_green_flow(n, effort)
        errors.append(_largest(_velocity(sim) - exact))
        effort.progress(0.3 * (index + 1) / len(sizes))
    setup = Setup.of(sim)
    order = float(np.log2(np.array(errors[:-1]) / errors[1:]).min())
    still, _ = taylor_green_flow(sizes[-1], effort, stream=(0.0, 0.0))
    decay = float(np.abs(_velocity(still)[0, G:-G, G:-G]).max()) / float(
        np.abs(np.sin(still.grid.u_faces()[1])).max()
    )
    source = "exact solution"
    rows = [
        compare(
            "amplitude at t = 0.5 over the initial one",
            decay,
            float(np.exp(-0.05)),
            0.02,
            setup,
            source,
        ),
        compare(
            "largest error of u and v, drifting",
            errors[-1],
            0.0,
            effort.choose(5e-5, 2e-4),
            setup,
            source,
        ),
        compare(
            "order of convergence in space, smallest seen", order, (2.0, 3.0), 0.05, setup, source
        ),
    ]
    curves = [Curve.of("error on n x n cells, CFL 0.5", 1 / np.array(sizes), errors, points=True)]
    of_time, in_time = _orders_in_time(effort)
    guide = np.array([1 / sizes[-1], 1 / sizes[0]])
    curves += [*in_time, Curve.of("second order", guide, errors[0] * (guide * sizes[0]) ** 2)]
    return Result(
        rows + of_time,
        [Plot("convergence", "1/n or dt U/L", "largest error", curves, logarithmic=True)],
    )


def _orders_in_time(effort: Effort) -> tuple[list[Row], list[Curve]]:
    """Return the order of convergence in time of each integrator, and its errors."""
    rows, curves = [], []
    for integrator, cfl, expected in (("euler", 0.2, 1), ("ab2", 0.4, 2)):
        cfls = np.array([cfl, cfl / 2, cfl / 4])
        # compared with a very small step on the same grid, so that only the error in time remains
        reference, _ = taylor_green_flow(32, effort, integrator, cfl / 64)
        in_time = []
        for c in cfls:
            sim, _ = taylor_green_flow(32, effort, integrator, c)
            in_time.append(_largest(_velocity(sim) - _velocity(reference)))
        order = np.log2(in_time[-2] / in_time[-1])
        rows.append(
            compare(
                f"order of convergence in time, {integrator}",
                order,
                expected,
                0.25 / expected,
                Setup.of(sim),
                "exact solution",
            )
        )
        curves.append(
            Curve.of(
                f"error in time, {integrator}, against dt U/L", cfls / 32, in_time, points=True
            )
        )
        effort.progress(0.3 + 0.35 * expected)
    return rows, curves


def lamb_oseen_profile(
    n: int, effort: Effort
) -> tuple[Simulation, FloatArray, FloatArray, FloatArray]:
    """Simulate a Lamb-Oseen vortex in a 10 x 10 box until its age has doubled; its core width is 0.4 to 0.57.

    Returns
    -------
    Simulation, r, computed u_theta, exact u_theta
        Values along a ray within r < 1.5.
    """
    side, nu, circulation, born = 10.0, 0.01, 2 * np.pi, 4.0
    grid = Grid(n, n, side / n)
    sim = Simulation(
        grid, Sides.all("slip"), viscosity=nu, stream=(0.0, 0.0), dtype="float64", **effort.solver
    )

    def u_theta(r: FloatArray, t: float) -> FloatArray:
        profile: FloatArray = circulation / (2 * np.pi * r) * (1 - np.exp(-(r**2) / (4 * nu * t)))
        return profile

    (ux, uy), (vx, vy) = grid.u_faces(), grid.v_faces()
    centre = side / 2
    r = np.hypot(ux - centre, uy - centre) + 1e-12
    u = -u_theta(r, born) * (uy - centre) / r
    r = np.hypot(vx - centre, vy - centre) + 1e-12
    v = u_theta(r, born) * (vx - centre) / r
    u[[G, G + n]], v[:, [G, G + n]] = 0.0, 0.0  # nothing passes the walls
    sim.set_velocity(0, u, v)
    sim.settle()
    advance(sim, born)
    r = np.linspace(0.1, 1.5, 30)
    points = np.stack([centre + r, np.full_like(r, centre)], axis=-1)[None]
    return sim, r, sim.sample_velocity(points)[0, :, 1], u_theta(r, 2 * born)


def lamb_oseen(effort: Effort) -> Result:
    """Compare the velocity of a spreading vortex, and the convergence of its error."""
    errors = []
    sizes = effort.choose((64, 128, 256), (64, 128))
    for index, n in enumerate(sizes):
        sim, r, computed, exact = lamb_oseen_profile(n, effort)
        errors.append(float(np.abs(computed - exact).max() / exact.max()))
        effort.progress((index + 1) / len(sizes))
    setup, source = Setup.of(sim), "exact solution"
    # the coarsest grid has 4 cells per core radius, so the error falls faster than second order there
    rows = [
        compare("largest error of u_theta over its maximum", errors[-1], 0.0, 0.02, setup, source),
        compare(
            "order of convergence", np.log2(errors[-2] / errors[-1]), (1.8, 4.0), 0.0, setup, source
        ),
    ]
    curves = [Curve.of("exact", r, exact), Curve.of(f"{n} x {n} cells", r, computed, points=True)]
    return Result(rows, [Plot("profile", "radius", "azimuthal velocity at t = 8", curves)])
