"""Measurements on the device against those on the CPU."""

import numpy as np
import pytest

from flowsim import Disk, FieldStatistics, Grid, Recorder, Sides, Simulation, Temperature


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_recorders_and_statistics_are_the_same(dtype: str, tiny: bool, monkeypatch) -> None:
    """Also if the rows do not fit and flows wait for the host, and with other steps than those of the other flow."""
    monkeypatch.setattr("flowsim.measure.recorder.ROOM", 3)
    n = 1 if tiny else 8
    found = []
    for backend in ("cpu", "cuda"):
        sim = Simulation(Grid(12 * n, 10 * n, 0.3 / n), Sides(), [Disk(center=(1.2, 1.5))], viscosity=[0.02, 0.2],
                         batch=2, dtype=dtype, backend=backend)  # fmt: skip
        probes = [(2.0, 1.0), (3.55, 2.99), (0.01, 0.3)]
        every, rare = Recorder(sim, probes=probes), Recorder(sim, every=0.2 / n)
        statistics = FieldStatistics(sim, every=0.2 / n)
        sim.advance(0.55 / n)
        sim.advance_steps(2)
        sim.step()
        found.append((sim, every, rare, statistics))
    (cpu, *expected), (cuda, *got) = found
    np.testing.assert_array_equal(cuda.steps, cpu.steps)
    # pressure undoes the rounding of velocities within a step (docs/decisions/gpu.md)
    tolerance = 1e-10 if dtype == "float64" else 5e-4
    for mine, theirs in zip(got[:2], expected[:2], strict=True):
        for b in range(2):
            assert mine.rows(b).shape == theirs.rows(b).shape
            np.testing.assert_allclose(mine.rows(b), theirs.rows(b), atol=tolerance)
    assert np.ptp([len(got[0].rows(b)) for b in range(2)]) > 0 or not tiny
    for name, values in expected[2].arrays().items():
        np.testing.assert_allclose(got[2].arrays()[name], values, atol=10 * tolerance, err_msg=name)


def test_temperature_is_recorded_the_same(tiny: bool) -> None:
    n = 8 if tiny else 32
    found = []
    for backend in ("cpu", "cuda"):
        heat = Temperature([0.1, 0.2], {"left": 1.0}, {"top": 0.3}, initial=lambda x, y: x * y)
        sim = Simulation(Grid(2 * n, n, 1 / n), Sides("no_slip", "outflow", "no_slip", "no_slip"), viscosity=0.1,
                         batch=2, stream=(0, 0), temperature=heat, dtype="float64", backend=backend)  # fmt: skip
        recorder, statistics = (
            Recorder(sim, probes=[(0.3, 0.4), (1.7, 0.6)]),
            FieldStatistics(sim, every=1e-3),
        )
        sim.advance_steps(2)
        found.append((*map(recorder.rows, range(2)), statistics.mean_temperature))
    for cpu, cuda in zip(*found, strict=True):
        np.testing.assert_allclose(cuda, cpu, rtol=0, atol=1e-10)


def test_measuring_changes_nothing(tiny: bool) -> None:
    n = 1 if tiny else 8
    plain, measured = (
        Simulation(Grid(12 * n, 10 * n, 0.3 / n), Sides(), [Disk(center=(1.2, 1.5))], viscosity=0.02, backend="cuda")
        for _ in range(2)
    )  # fmt: skip
    recorder = Recorder(measured, every=0.1 / n, probes=[(2.0, 1.0)])
    FieldStatistics(measured, every=0.25 / n)
    for sim in (plain, measured):
        sim.advance(0.5 / n)
        sim.fill_ghosts()
    assert len(recorder.rows()) >= 3
    for name, values in plain.get_state(0).items():
        np.testing.assert_array_equal(measured.get_state(0)[name], values, err_msg=name)
