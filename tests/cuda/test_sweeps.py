"""Sweeps over all cells against the CPU's, on grids that no number of rows and threads divides."""

import numpy as np
import pytest

from flowsim import Grid, Sides, Simulation

SIDES = {
    "periodic": Sides.all("periodic"),
    "open": Sides.all("open"),
    "walls": Sides.all("no_slip"),
    "through": Sides("inflow", "outflow", "open", "open"),
    "round": Sides("periodic", "periodic", "slip", "no_slip"),
}
FIELDS = ("u", "v", "_new_u", "_new_v", "_rate_u", "_rate_v", "pressure", "_phi")


def filled(sides: Sides, nx: int, ny: int, dtype: str, backend: str) -> Simulation:
    """Return a batch of three, its fields full of random numbers, whose second simulation is not active."""
    sim = Simulation(Grid(nx, ny, 0.1), sides, viscosity=[0.02, 0.03, 0.05], batch=3, dtype=dtype, backend=backend,
                     stream=(0.0, 0.0))  # fmt: skip
    rng = np.random.default_rng(nx)
    for name in FIELDS:
        field = getattr(sim, name)
        field[...] = sim._device.array(rng.normal(size=field.shape).astype(dtype))
    sim.dt[:], sim._speed[:] = [0.01, 0.02, 0.03], 7.0
    sim._running[:] = [True, False, True]
    sim.diverged[:] = [False, True, False]
    sim._device.send_state()
    return sim


def in_order(phi: np.ndarray, sim: Simulation) -> np.ndarray:
    """Return the potential as the sweeps of the device keep it, from that of the CPU."""
    ny = phi.shape[2]
    kept = phi * np.where(sim.sides.held[2] & (np.arange(ny) % 2 == 1), -1.0, 1.0).astype(phi.dtype)
    order = np.arange(ny) if sim.sides.periodic[1] else \
        [j // 2 if j % 2 == 0 else ny - 1 - j // 2 for j in range(ny)]  # fmt: skip
    rows = np.empty_like(phi)
    rows[:, :, order] = kept
    return rows


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sides", SIDES)
def test_sweeps_are_the_same_where_rows_are_left_over(
    sides: str, dtype: str, tiny: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nx, ny = (14, 10) if tiny else (518, 258)
    sims = [filled(SIDES[sides], nx, ny, dtype, backend) for backend in ("cpu", "cuda")]
    before = [{name: sim.to_host(getattr(sim, name)[1]).copy() for name in FIELDS} for sim in sims]
    ahead = {}
    for sim in sims:
        s, active = sim._near, sim._near.flags[0]
        now, new = (sim.u, sim.v), (sim._new_u, sim._new_v)
        sim._predict(active)
        sim._sweeps.divergence(active, *new, sim._phi, s.sides)
        ahead[sim.backend] = sim.to_host(sim._phi).copy()
        if sim.backend == "cuda":
            solver = sim._pressure_solver
            monkeypatch.setattr(solver, "solve", lambda *_: None)
            solver.solve_divergence(active, *new, sim._phi, s.sides)
            expected = in_order(ahead["cuda"], sim)[[0, 2]]
            np.testing.assert_array_equal(sim.to_host(sim._phi)[[0, 2]], expected)
            sim._phi[...] = sim._device.array(in_order(ahead["cpu"], sim))
        sim._sweeps.correct(active, *new, *now, sim._phi, sim.pressure, s.sides, s.clock,
                            sim.grid.h, True, sim._speeds)  # fmt: skip
        sim._sweeps.find_speed(active, sim._speeds, s.clock, s.flags)
        sim._device.fetch_state()
    cpu, cuda = sims
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(ahead["cuda"][[0, 2]], ahead["cpu"][[0, 2]], atol=100 * tolerance)
    for name in FIELDS[:-1]:
        expected, got = cpu.to_host(getattr(cpu, name)), cuda.to_host(getattr(cuda, name))
        np.testing.assert_allclose(
            got[[0, 2]], expected[[0, 2]], atol=100 * tolerance, err_msg=name
        )
        np.testing.assert_array_equal(got[1], before[1][name], err_msg=name)
    np.testing.assert_allclose(cuda._speed, cpu._speed, rtol=tolerance)
    assert cuda._speed[1] == 7.0
    np.testing.assert_array_equal(cuda.diverged, [False, True, False])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_velocity_is_noticed_wherever_it_is(bad: float, dtype: str, tiny: bool) -> None:
    """In the last cell and in the first, with other cells after and before it; and it is over with the next sweep."""
    nx, ny = (14, 10) if tiny else (518, 258)
    sim = filled(SIDES["periodic"], nx, ny, dtype, "cuda")
    s, active, velocity = sim._near, sim._near.flags[0], (sim.u, sim.v)
    new, phi = (sim._new_u, sim._new_v), sim._phi
    phi[...] = 0
    arguments = (
        *new,
        *velocity,
        phi,
        sim.pressure,
        s.sides,
        s.clock,
        sim.grid.h,
        False,
        sim._speeds,
    )
    for where in ((0, 2, 2), (2, nx + 1, ny + 1)):
        good = float(new[0][where])
        for value in (bad, good):
            new[0][where] = value
            sim._sweeps.correct(active, *arguments)
            sim._sweeps.find_speed(active, sim._speeds, s.clock, s.flags)
            sim._device.fetch_state()
            gone = np.zeros(3, bool)
            gone[where[0]] = not np.isfinite(value)
            np.testing.assert_array_equal(np.isinf(sim._speed), gone)
            np.testing.assert_array_equal(sim.diverged, gone | [False, True, False])
