"""Recorders and field statistics against the simulation's own values step by step, and brute force."""

import builtins
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from flowsim import (
    Disk,
    Ellipse,
    FieldStatistics,
    Grid,
    Recorder,
    Sides,
    Simulation,
    Temperature,
    nusselt_number,
    side_heat_flux,
)
from flowsim.io import read_restart, write_restart
from flowsim.measure.surface import stream_pressure

PROBES = [(5.0, 2.2), (0.02, 3.97), (7.99, 1.0)]
VISCOSITY = [1 / 100, 1 / 40]


def wake(**options) -> Simulation:
    bodies = [Disk(center=(2.01, 2.0)), Ellipse(center=(5.0, 2.3), aspect=0.5, motion="free")]
    options = {"viscosity": VISCOSITY, "batch": 2} | options
    return Simulation(Grid(64, 32, 1 / 8), Sides(), bodies, **options)


def step_by_step(sim: Simulation, duration: float) -> list[dict[str, np.ndarray]]:
    """Advance, and record both flows after every step; NaN if one has not taken it."""
    seen = []

    def watch(sim: Simulation) -> np.ndarray:
        state = sim.body_state
        seen.append(
            {
                "b": sim.steps.copy(),
                "time": sim.time.copy(),
                "dt": sim.dt.copy(),
                "force": state.force.copy(),
                "torque": state.torque.copy(),
                "power": sim.power().copy(),
                "position": state.position.copy(),
                "probe_velocity": sim.sample_velocity(np.broadcast_to(PROBES, (2, 3, 2))),
                "probe_pressure": sim.sample_pressure(PROBES)
                - np.array([[stream_pressure(sim, b)] for b in range(2)]),
            }
        )
        return np.zeros(2, bool)

    sim.advance(duration, stop=watch)
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_recorder_sees_every_step_and_does_not_change_the_flow(dtype):
    sim, other = wake(dtype=dtype), wake(dtype=dtype)
    seen = step_by_step(other, 1.5)
    recorder = Recorder(sim, probes=PROBES)
    sim.advance(1.5)
    for flow in (sim, other):
        flow.fill_ghosts()
    for name, values in other.get_state(1).items():
        np.testing.assert_array_equal(sim.get_state(1)[name], values, err_msg=name)
    for b in range(2):
        steps = int(sim.steps[b])
        assert recorder.step[b, :steps].tolist() == list(range(1, steps + 1))
        assert np.isnan(recorder.time[b, steps:]).all()
        for name in seen[0].keys() - {"b"}:
            expected = np.array([moment[name][b] for moment in seen])[:steps]
            np.testing.assert_allclose(
                getattr(recorder, name)[b, :steps], expected, rtol=1e-6, atol=1e-6, err_msg=name
            )
    assert np.ptp(sim.steps) > 0  # each flow of the batch has its own steps


def test_interval_rows_are_first_step_at_or_after_and_means_exact():
    sim = wake()
    every, rare, third = Recorder(sim), Recorder(sim, every=0.25), Recorder(sim, steps=3)
    sim.advance(2.0)
    for b in range(2):
        time = every.time[b][np.isfinite(every.time[b])]
        first = [int(np.flatnonzero(time >= due - 1e-9)[0]) for due in 0.25 * np.arange(1, 9)]
        found = rare.time[b][np.isfinite(rare.time[b])]
        np.testing.assert_array_equal(found, time[first])
        np.testing.assert_allclose(rare.interval[b, :8], np.diff([0.0, *found]))
        ends = np.array([0, *(np.array(first) + 1)])
        for row, (start, stop) in enumerate(pairwise(ends)):
            weights = every.dt[b, start:stop]
            for name, mean in (("force", "mean_force"), ("power", "mean_power")):
                expected = np.average(getattr(every, name)[b, start:stop], axis=0, weights=weights)
                np.testing.assert_allclose(getattr(rare, mean)[b, row], expected, atol=1e-12)
        kept = third.step[b][np.isfinite(third.step[b])]
        assert kept.tolist() == list(range(3, int(sim.steps[b]) + 1, 3))
    # all rows together: the impulse that the simulation itself adds up
    total = np.nansum(rare.mean_force * rare.interval[..., None, None], axis=1)
    np.testing.assert_allclose(total, sim.body_state.impulse[..., :2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("way", ["advance", "advance_steps", "step", "driven", "threads"])
def test_rows_do_not_depend_on_how_the_flow_is_advanced(way, monkeypatch):
    """Also if the rows do not fit and the flows have to wait for the host."""
    monkeypatch.setattr("flowsim.measure.recorder.ROOM", 7)
    options = {"threads": 2} if way == "threads" else {}
    if way == "driven":
        still = Disk(motion=lambda t: (2.01, 2.0, 0.0, 0.0, 0.0, 0.0))
        sim = Simulation(Grid(64, 32, 1 / 8), Sides(), [still], viscosity=VISCOSITY, batch=2)
    else:
        sim = wake(**options)
    recorder, statistics = Recorder(sim), FieldStatistics(sim, every=0.1)
    if way == "advance_steps":
        sim.advance_steps(20)
    elif way == "step":
        for _ in range(20):
            sim.step()
    else:
        sim.advance(0.7)
    for b in range(2):
        steps = int(sim.steps[b])
        assert recorder.rows(b)[:, 2].tolist() == list(range(1, steps + 1))
        assert recorder.time[b, steps - 1] == sim.time[b]
    assert steps >= 20
    assert (statistics.samples == np.floor(sim.time / 0.1 + 1e-9)).all()


def test_statistics_match_the_sampled_fields():
    sim, other = wake(dtype="float64"), wake(dtype="float64")
    statistics = FieldStatistics(sim, every=0.3, start=0.5)
    sim.advance(2.0)
    fields: list[list[np.ndarray]] = [[], []]
    weights: list[list[float]] = [[], []]
    due, since = [0.8, 0.8], [0.0, 0.0]

    def watch(flow: Simulation) -> np.ndarray:
        for b in range(2):
            if flow.steps[b] == len(times[b]):
                continue
            times[b].append(flow.time[b])
            if flow.time[b] - flow.dt[b] >= 0.5 - 1e-9:
                since[b] += flow.dt[b]
            if flow.time[b] >= due[b] - 1e-9:
                p = flow.pressure[b] - stream_pressure(flow, b)
                fields[b].append(np.concatenate([flow.velocity_at_centres(b), p[..., None]], -1))
                weights[b].append(since[b])
                due[b], since[b] = due[b] + 0.3, 0.0
        return np.zeros(2, bool)

    times: list[list[float]] = [[], []]
    other.advance(2.0, stop=watch)
    for b in range(2):
        assert statistics.samples[b] == len(weights[b]) == 5
        assert statistics.duration[b] == pytest.approx(sum(weights[b]))
        mean = np.average(fields[b], axis=0, weights=weights[b])
        np.testing.assert_allclose(statistics.mean_velocity[b], mean[..., :2], atol=1e-12)
        np.testing.assert_allclose(statistics.mean_pressure[b], mean[..., 2], atol=1e-12)
        away = np.array(fields[b]) - mean
        products = np.average(away[..., :, None] * away[..., None, :], axis=0, weights=weights[b])
        np.testing.assert_allclose(statistics.covariance[b], products[..., :2, :2], atol=1e-12)
        rms = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
        np.testing.assert_allclose(statistics.rms_velocity[b], rms[..., :2], atol=1e-10)
        np.testing.assert_allclose(statistics.rms_pressure[b], rms[..., 2], atol=1e-10)


def test_reset_flow_is_recorded_from_its_start():
    sim = wake()
    recorder = Recorder(sim, every=0.2)
    sim.advance(0.5)
    sim.reset(np.array([True, False]))
    sim.advance(0.5)
    again, on = recorder.rows(0)[:, 0], recorder.rows(1)[:, 0]
    assert (np.diff(on) > 0).all()
    np.testing.assert_array_equal(again[2:], again[:2])
    assert recorder.rows(0)[2, 3] == again[0]  # the mean does not reach back beyond the reset


def test_stopped_recorder_keeps_its_rows():
    sim = wake()
    with Recorder(sim) as recorder:
        sim.advance(0.2)
    rows = len(recorder.rows(0))
    sim.advance(0.2)
    assert len(recorder.rows(0)) == rows > 0
    assert sim.instruments == []
    recorder.clear()
    assert recorder.time.shape == (2, 0)


def test_saved_files_contain_the_records(tmp_path):
    xarray = pytest.importorskip("xarray", reason="needs flowsim-rl[xarray]")
    sim = wake()
    recorder, statistics = Recorder(sim, probes=PROBES), FieldStatistics(sim, every=0.05)
    sim.advance(0.3)
    recorder.save(tmp_path / "rows.npz")
    with np.load(tmp_path / "rows.npz") as there:
        np.testing.assert_array_equal(there["mean_force"], recorder.mean_force)
    recorder.save(tmp_path / "rows.nc")
    with xarray.open_dataset(tmp_path / "rows.nc") as there:
        assert there.force.dims == ("flow", "row", "body", "axis")
        np.testing.assert_array_equal(there.probe_pressure, recorder.probe_pressure)
        np.testing.assert_array_equal(there.probes, PROBES)
    statistics.save(tmp_path / "fields.nc")
    with xarray.open_dataset(tmp_path / "fields.nc") as there:
        point = there.mean_velocity.sel(x=3.1, y=2.2, method="nearest")[1]
        np.testing.assert_array_equal(point, statistics.mean_velocity[1, 24, 17])
    recorder.save(tmp_path / "a new folder" / "rows.csv")
    header, first, *_ = (tmp_path / "a new folder" / "rows.csv").read_text().splitlines()
    names = header.split(",")
    row = dict(zip(names, map(float, first.split(",")), strict=True))
    assert names[:3] == ["flow", "time", "dt"]
    assert row["body1_force_y"] == pytest.approx(recorder.force[0, 0, 1, 1], rel=1e-8)
    assert row["probe2_pressure"] == pytest.approx(recorder.probe_pressure[0, 0, 2], rel=1e-8)


def test_invalid_options_are_refused_in_one_sentence(tmp_path, monkeypatch):
    sim = wake()
    for options, why in (
        ({"every": 0.1, "steps": 2}, "give one of the two"),
        ({"every": 0.0}, "every = 0.0"),
        ({"steps": 0}, "steps = 0"),
        ({"start": np.nan}, "start = nan"),
        ({"probes": [(9.0, 1.0)]}, r"probe 0 = \(9, 1\): not in the box of 8 x 4"),
        ({"probes": [1.0, 2.0, 3.0]}, r"shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=why):
            Recorder(sim, **options)
    assert sim.instruments == []
    recorder = Recorder(sim)
    with pytest.raises(ValueError, match=r"npz, .csv, .nc"):
        recorder.save(tmp_path / "rows.txt")
    real = builtins.__import__

    def without(name, *arguments):
        if name.startswith(("xarray", "h5netcdf")):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RuntimeError, match=r"install flowsim-rl\[xarray\]"):
        recorder.save(tmp_path / "rows.nc")


# --- temperature -----------------------------------------------------------------------------------------------------


def warm_box(**options) -> Simulation:
    """Return a box with a warm, a cold and an insulated side, an open one, and a wind."""
    heat = Temperature(
        [0.05, 0.1],
        {"left": 0.5, "bottom": np.linspace(1, 2, 24)},
        {"top": 0.2},
        buoyancy=(0, 0.5),
        initial=lambda x, y: x * y,
    )
    sides = Sides("inflow", "outflow", "no_slip", "no_slip")
    return Simulation(Grid(24, 16, 1 / 8), sides, viscosity=0.05, batch=2, temperature=heat, dtype="float64",
                      **options)  # fmt: skip


def test_probe_temperatures_and_side_heat_match_the_flow() -> None:
    """As the simulation gives them after every step."""
    sim, points = warm_box(), [(0.3, 0.4), (1.7, 1.1), (2.99, 0.01)]
    recorder = Recorder(sim, probes=points)
    expected = []
    for _ in range(5):
        sim.advance_steps(1)
        fluxes = [
            side_heat_flux(sim, side).mean(axis=1) for side in ("left", "right", "bottom", "top")
        ]
        expected.append((sim.sample_temperature(points), np.stack(fluxes, axis=-1)))
    probes, fluxes = (np.stack(part, axis=1) for part in zip(*expected, strict=True))
    assert recorder.probe_temperature == pytest.approx(probes, abs=1e-14)
    assert recorder.heat_flux == pytest.approx(fluxes, abs=1e-13)
    assert recorder.heat_flux[0, :, 3] == pytest.approx(0.2)
    assert recorder.columns()[-7:] == [
        *(f"heat_flux_{side}" for side in ("left", "right", "bottom", "top")),
        *(f"probe{m}_temperature" for m in range(3)),
    ]
    # what stood in a row before stands where it was
    assert recorder.probe_pressure.shape == (2, 5, 3)
    assert recorder.time[0, -1] == sim.time[0]


def test_recorded_nusselt_number_matches_the_instantaneous_one() -> None:
    heat = Temperature(0.02, {"bottom": 1.0, "top": 0.0}, initial=lambda x, y: (1 - y) ** 3)
    sim = Simulation(Grid(16, 16, 1 / 16), Sides("periodic", "periodic", "no_slip", "no_slip"), viscosity=0.05,
                     stream=(0, 0), temperature=heat)  # fmt: skip
    recorder = Recorder(sim, every=1.0)
    seen = []
    for _ in range(4):
        sim.advance(1.0)
        seen.append(nusselt_number(sim, "bottom")[0])
    assert recorder.nusselt_number("bottom")[0] == pytest.approx(seen, rel=1e-6)
    assert np.isnan(recorder.heat_flux[..., :2]).all()
    assert seen[0] > seen[-1] > 1
    with pytest.raises(ValueError, match="side = 'left'"):
        recorder.nusselt_number("left")


def test_mean_and_fluctuations_of_the_temperature() -> None:
    """Against the mean over snapshots, each with the weight of its interval."""
    sim = warm_box()
    statistics = FieldStatistics(sim, every=0.05)
    fields, times = [], [0.0]
    for _ in range(6):
        sim.advance(0.05)
        velocity = sim.velocity_at_centres()
        fields.append(np.concatenate([velocity, sim.temperature_at_centres()[..., None]], axis=-1))
        times.append(sim.time[0])
    weights = np.diff(times)
    mean = np.average(fields, axis=0, weights=weights)
    away = np.stack(fields) - mean
    products = np.average(away * away[..., 2:], axis=0, weights=weights)
    assert statistics.mean_temperature == pytest.approx(mean[..., 2], abs=1e-13)
    assert statistics.rms_temperature**2 == pytest.approx(products[..., 2], abs=1e-13)
    assert statistics.heat_covariance == pytest.approx(products[..., :2], abs=1e-13)


def test_temperature_records_are_saved_and_continue(tmp_path: Path) -> None:
    sim = warm_box()
    recorder = Recorder(sim, every=0.1, probes=[(1.0, 1.0)])
    statistics = FieldStatistics(sim, every=0.1)
    sim.advance(0.3)
    state, kept = recorder.get_state(), statistics.get_state()
    with np.load(recorder.save(tmp_path / "record.npz")) as file:
        np.testing.assert_array_equal(file["probe_temperature"], recorder.probe_temperature)
    with np.load(statistics.save(tmp_path / "statistics.npz")) as file:
        np.testing.assert_array_equal(file["mean_temperature"], statistics.mean_temperature)
    sim.advance(0.2)
    expected = recorder.probe_temperature
    assert recorder.fits(state)
    assert statistics.fits(kept)
    recorder.set_state(state)
    statistics.set_state(kept)
    assert recorder.probe_temperature == pytest.approx(expected[:, :3])
    cold = Simulation(Grid(16, 16, 0.1), viscosity=0.1)
    with pytest.raises(ValueError, match="this flow has no temperature"):
        _ = Recorder(cold).heat_flux
    assert "heat_flux" not in Recorder(cold).arrays()
    assert "mean_temperature" not in FieldStatistics(cold).arrays()


@pytest.mark.parametrize("every", [None, 0.1])
def test_measurements_continue_after_a_reset_to_a_time_before_their_start(every):
    sim = wake()
    sim.advance(1.0)
    recorder, statistics = Recorder(sim, every=every), FieldStatistics(sim, every=0.1)
    given = Recorder(sim, every=every, start=1.0)
    sim.advance(0.5)
    rows = [len(recorder.rows(b)) for b in range(2)]
    samples = statistics.samples.copy()
    later = len(given.rows(0))
    sim.reset()
    sim.advance(0.5)
    for b in range(2):
        again = recorder.rows(b)[rows[b] :]
        assert len(again) == (5 if every else int(sim.steps[b]))
        np.testing.assert_allclose(again[0, 0], every or again[0, 1], atol=0.06)
    assert (statistics.samples == samples + 5).all()
    assert len(given.rows(0)) == later, "a start that was given holds after a reset, too"
    sim.advance(1.0)
    assert len(given.rows(0)) > later


@pytest.mark.parametrize(
    ("theirs", "ours", "continues"),
    [
        (0.2, 0.2, True),
        (0.2, 0.6, False),
        (0.2, None, True),
        (2.0, None, False),
        (None, 0.2, False),
    ],
)
def test_instruments_with_another_start_do_not_continue(
    tmp_path: Path, theirs: float | None, ours: float | None, continues: bool
) -> None:
    def box(start: float | None) -> Simulation:
        sim = Simulation(Grid(16, 16, 0.1), viscosity=0.1)
        Recorder(sim, every=0.1, start=start)
        FieldStatistics(sim, every=0.1, start=start)
        return sim

    first, again = box(theirs), box(ours)
    first.advance(0.5)
    write_restart(tmp_path / "restart.h5", first)
    read_restart(tmp_path / "restart.h5", again)
    recorder, statistics = again.instruments
    assert isinstance(recorder, Recorder)
    assert isinstance(statistics, FieldStatistics)
    assert (len(recorder.rows()) > 0) == (statistics.samples[0] > 0) == continues
    again.advance(0.5)
    assert recorder.rows()[0, 0] >= (ours or 0.0) + 0.1
