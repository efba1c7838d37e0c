"""Sweeps over all cells against those of the CPU, on grids not divisible by rows and threads."""

import numpy as np
import pytest

from flowsim import Grid, Sides, Simulation
from flowsim.backend import step

SIDES = {
    "periodic": Sides.all("periodic"),
    "open": Sides.all("open"),
    "walls": Sides.all("no_slip"),
    "through": Sides("inflow", "outflow", "open", "open"),
    "round": Sides("periodic", "periodic", "slip", "no_slip"),
}
FIELDS = ("u", "v", "new_u", "new_v", "rate_u", "rate_v", "pressure", "phi")


def filled(sides: Sides, nx: int, ny: int, dtype: str, backend: str) -> Simulation:
    """Return a batch of three, its fields full of random numbers, whose second simulation is not active."""
    sim = Simulation(Grid(nx, ny, 0.1), sides, viscosity=[0.02, 0.03, 0.05], batch=3, dtype=dtype, backend=backend,
                     stream=(0.0, 0.0))  # fmt: skip
    rng = np.random.default_rng(nx)
    for name in FIELDS:
        field = getattr(sim._device_state.fields, name)
        field[...] = sim._device.array(rng.normal(size=field.shape).astype(dtype))
    sim.dt[:], sim._speed[:] = [0.01, 0.02, 0.03], 7.0
    sim._running[:] = [True, False, True]
    sim.diverged[:] = [False, True, False]
    sim._device.send_state()
    return sim


def host(sim: Simulation, name: str) -> np.ndarray:
    """Return a field as an array of the host."""
    return sim.to_host(getattr(sim._device_state.fields, name))


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
def test_sweeps_are_the_same_with_leftover_rows(
    sides: str, dtype: str, tiny: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nx, ny = (14, 10) if tiny else (518, 258)
    sims = [filled(SIDES[sides], nx, ny, dtype, backend) for backend in ("cpu", "cuda")]
    states = [sim._device_state for sim in sims]
    before = [{name: host(sim, name)[1].copy() for name in FIELDS} for sim in sims]
    ahead = {}
    for sim, s in zip(sims, states, strict=True):
        f, active = s.fields, s.running
        step.predict(s)
        s.sweeps.divergence(active, f.new_u, f.new_v, f.phi, s.box.sides)
        ahead[sim.backend] = host(sim, "phi").copy()
        if sim.backend == "cuda":
            solver = s.pressure_solver
            monkeypatch.setattr(solver, "solve", lambda *_: None)
            solver.solve_divergence(active, f, s.bodies, s.box)
            expected = in_order(ahead["cuda"], sim)[[0, 2]]
            np.testing.assert_array_equal(host(sim, "phi")[[0, 2]], expected)
            f.phi[...] = sim._device.array(in_order(ahead["cpu"], sim))
        s.sweeps.correct(active, f, s.clock, s.box, True, s.speeds)
        s.sweeps.find_speed(active, f, s.clock, s.box, s.speeds)
        sim._device.fetch_state()
    cpu, cuda = sims
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(ahead["cuda"][[0, 2]], ahead["cpu"][[0, 2]], atol=100 * tolerance)
    for name in FIELDS[:-1]:
        expected, got = host(cpu, name), host(cuda, name)
        np.testing.assert_allclose(
            got[[0, 2]], expected[[0, 2]], atol=100 * tolerance, err_msg=name
        )
        np.testing.assert_array_equal(got[1], before[1][name], err_msg=name)
    np.testing.assert_allclose(cuda._speed, cpu._speed, rtol=tolerance)
    assert cuda._speed[1] == 7.0
    np.testing.assert_array_equal(cuda.diverged, [False, True, False])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_nonfinite_velocity_is_detected_anywhere(bad: float, dtype: str, tiny: bool) -> None:
    """In the last cell and in the first; the next sweep clears it."""
    nx, ny = (14, 10) if tiny else (518, 258)
    sim = filled(SIDES["periodic"], nx, ny, dtype, "cuda")
    s = sim._device_state
    f, active = s.fields, s.running
    f.phi[...] = 0
    for where in ((0, 2, 2), (2, nx + 1, ny + 1)):
        good = float(f.new_u[where])
        for value in (bad, good):
            f.new_u[where] = value
            s.sweeps.correct(active, f, s.clock, s.box, False, s.speeds)
            s.sweeps.find_speed(active, f, s.clock, s.box, s.speeds)
            sim._device.fetch_state()
            gone = np.zeros(3, bool)
            gone[where[0]] = not np.isfinite(value)
            np.testing.assert_array_equal(np.isinf(sim._speed), gone)
            np.testing.assert_array_equal(sim.diverged, gone | [False, True, False])
