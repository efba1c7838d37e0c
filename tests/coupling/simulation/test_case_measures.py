"""Probes, records and statistics of a case of `flowsim simulate`, and its shapes from a Python file."""

import csv
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from coupling.commands import run_command
from coupling.errors import ConfigError
from coupling.simulation.case import load_case
from coupling.simulation.simulate import Output, simulate
from flowsim import FieldStatistics, Recorder

CASE = """
nx: 64
ny: 32
h: 0.125
reynolds: 100
bodies: [{shape: disk, center: [2.0, 2.0]}]
probes: [[4.0, 2.2], [5.0, 1.8]]
record: {every: 0.2}
statistics: {start: 0.5, every: 0.25}
"""
SHAPES = """
import numpy as np
from flowsim import SignedDistance, polygon

def wedge(length=1.0, height=0.4):
    return polygon([(-length / 2, 0.0), (length / 2, -height / 2), (length / 2, height / 2)])

def ring(radius):
    return SignedDistance(function=lambda x, y: abs(np.hypot(x, y) - radius) - 0.2, reach=radius + 0.3)

def nothing():
    return [1, 2]

def stopping():
    raise SystemExit("no licence")
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    (tmp_path / "case.yaml").write_text(CASE)
    (tmp_path / "shapes.py").write_text(SHAPES)
    return tmp_path / "case.yaml"


def table(path: Path) -> dict[str, np.ndarray]:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_recording_does_not_change_the_forces(case, tmp_path):
    simulate(load_case(str(case), []), 1.5, Output(tmp_path / "with", frames=2, snapshots=1))
    words = ["probes=[]", "record=null", "statistics=null"]
    simulate(load_case(str(case), words), 1.5, Output(tmp_path / "without", frames=2, snapshots=1))
    forces = (tmp_path / "with" / "forces.csv").read_bytes()
    assert forces == (tmp_path / "without" / "forces.csv").read_bytes()
    assert not (tmp_path / "without" / "record.csv").exists()
    rows, steps = table(tmp_path / "with" / "record.csv"), table(tmp_path / "with" / "forces.csv")
    assert len(rows["time"]) == 7
    for n, time in enumerate(rows["time"]):
        first = np.flatnonzero(steps["time"] >= 0.2 * (n + 1) - 1e-6)[0]
        assert time == steps["time"][first]
        assert rows["body0_force_x"][n] == pytest.approx(steps["body0_force_x"][first], rel=1e-7)
    assert {"probe0_velocity_x", "probe1_pressure", "body0_mean_force_y"} <= set(rows)
    with np.load(tmp_path / "with" / "statistics.npz") as fields:
        assert fields["mean_velocity"].shape == (1, 64, 32, 2)
        assert fields["samples"] == 4  # from 0.5 on


def test_statistics_starting_after_the_end_are_reported_and_not_written(case, tmp_path, capsys):
    words = [str(case), "statistics.start=20", "--time", "0.5", "-o", str(tmp_path / "out")]
    assert run_command(["simulate", *words, "--frames", "1", "--snapshots", "1"]) == 0
    assert (
        "statistics.npz is not written: its first measurement is due after"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "out" / "statistics.npz").exists()
    assert (tmp_path / "out" / "record.csv").exists()


def test_infinite_time_is_refused(case, capsys):
    assert run_command(["simulate", str(case), "--time", "inf"]) == 2
    assert "--time = inf" in capsys.readouterr().err


def test_probes_alone_are_recorded_in_every_step(case):
    simulation = load_case(str(case), ["record=null", "statistics=null"])
    (recorder,) = simulation.instruments
    assert isinstance(recorder, Recorder)
    simulation.advance_steps(3)
    assert recorder.step[0].tolist() == [1, 2, 3]


def test_restarted_simulation_records_the_same_as_an_uninterrupted_one(case, tmp_path):
    simulate(load_case(str(case), []), 2.0, Output(tmp_path / "whole", frames=2, snapshots=1))
    simulate(load_case(str(case), []), 1.1, Output(tmp_path / "parts", frames=2, snapshots=1))
    said: list[str] = []
    restart = tmp_path / "parts" / "restart.h5"
    again = Output(tmp_path / "parts", frames=2, snapshots=1, restart_from=restart)
    simulate(load_case(str(case), []), 2.0, again, say=said.append)
    assert said == []
    whole, parts = ((tmp_path / name / "record.csv").read_text() for name in ("whole", "parts"))
    assert whole == parts
    with (
        np.load(tmp_path / "whole" / "statistics.npz") as expected,
        np.load(tmp_path / "parts" / "statistics.npz") as found,
    ):
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    other = load_case(str(case), ["probes=[[1, 1]]"])
    simulate(
        other,
        2.2,
        Output(tmp_path / "other", frames=2, snapshots=1, restart_from=restart),
        say=said.append,
    )
    assert len(said) == 1
    assert said[0].startswith("record.csv begins at time 2.0")
    statistics = next(it for it in other.instruments if isinstance(it, FieldStatistics))
    assert statistics.samples[0] > 5


def test_netcdf_is_written_on_request(case, tmp_path):
    xarray = pytest.importorskip("xarray", reason="needs flowsim-rl[xarray]")
    code = run_command(["simulate", str(case), "--time", "1.0", "--netcdf", "--frames", "1", "--snapshots", "1",
                        "-o", str(tmp_path / "out")])  # fmt: skip
    assert code == 0
    rows = table(tmp_path / "out" / "record.csv")
    with xarray.open_dataset(tmp_path / "out" / "record.nc") as record:
        np.testing.assert_allclose(record.probe_velocity[0, :, 1, 0], rows["probe1_velocity_x"])
    with xarray.open_dataset(tmp_path / "out" / "statistics.nc") as statistics:
        assert statistics.mean_velocity.dims == ("flow", "x", "y", "axis")
    nothing = load_case(str(case), ["probes=[]", "record=null", "statistics=null"])
    with pytest.raises(ConfigError, match="--netcdf: this case has no probes"):
        simulate(nothing, 0.5, Output(tmp_path / "nothing", netcdf=True))


def test_output_stays_below_max_size(case, tmp_path):
    limit = 3_000_000
    simulate(
        load_case(str(case), []),
        1.0,
        Output(tmp_path / "out", frames=2, snapshots=2, max_size=limit),
    )
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert {"record.csv", "statistics.npz"} <= {file.name for file in files}
    assert sum(file.stat().st_size for file in files) <= limit
    with pytest.raises(ConfigError, match=r"needs at least .* MB"):
        simulate(
            load_case(str(case), ["record.every=1e-4"]),
            10.0,
            Output(tmp_path / "a", max_size=limit),
        )
    with pytest.raises(ConfigError, match=r"--max-size needs record\.every"):
        simulate(
            load_case(str(case), ["record={steps: 2}"]), 1.0, Output(tmp_path / "b", max_size=limit)
        )


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("probes=[[9, 1]]", "probes.0 = [9, 1]: not in the box of 8 x 4"),
        ("probes=[1]", "probes.0 = 1: must be a list"),
        ("record.steps=2", "record has both every and steps; give only one of them"),
        ("record.every=0", "record.every = 0: input should be greater than 0"),
        ("record.evry=1", "unknown key 'record.evry': did you mean 'record.every'?"),
        (
            "statistics.start=-1",
            "statistics.start = -1: input should be greater than or equal to 0",
        ),
        (
            "bodies.0={shape: python, center: [2, 2], file: gone.py, function: wedge}",
            "there is no such file",
        ),
        (
            "bodies.0={shape: python, center: [2, 2], file: shapes.py, function: wdge}",
            "function = 'wdge'",
        ),
        (
            "bodies.0={shape: python, center: [2, 2], file: shapes.py, function: nothing}",
            "returns a list, but must",
        ),
        (
            "bodies.0={shape: python, center: [2, 2], file: shapes.py, function: ring, arguments: {r: 1}}",
            "ring of {folder}/shapes.py fails: TypeError: ",
        ),
        (
            "bodies.0={shape: python, center: [2, 2], file: shapes.py, function: stopping}",
            "stopping of {folder}/shapes.py fails: SystemExit: no licence",
        ),
    ],
)
def test_invalid_settings_give_a_one_line_error(case, word, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence.format(folder=case.parent))) as caught:
        load_case(str(case), [word])
    assert "\n" not in str(caught.value)


def test_python_shape_has_the_given_position_density_and_motion(case):
    body = (
        "{shape: python, file: shapes.py, function: wedge, arguments: {height: 0.8}, center: [2, 1.5], angle: 0.3, \
density: 2, motion: free}"
    )
    simulation = load_case(str(case), [f"bodies.0={body}"])
    (wedge,) = simulation.bodies
    assert wedge.area == pytest.approx(0.4, rel=1e-3)
    assert (wedge.center, wedge.angle, wedge.density, wedge.motion) == ((2, 1.5), 0.3, 2.0, "free")
    part = "{shape: python, file: shapes.py, function: ring, arguments: {radius: 0.5}, center: [0.2, 0.0]}"
    union = load_case(str(case), [f"bodies.0={{shape: union, center: [2, 1.5], parts: [{part}]}}"])
    assert union.bodies[0].area == pytest.approx(np.pi * (0.7**2 - 0.3**2), rel=0.01)


HEATED = """
nx: 16
ny: 32
h: 0.03125
reynolds: 10
stream: [0, 0]
sides: {left: periodic, right: periodic, bottom: no_slip, top: no_slip}
temperature: {diffusivity: 0.5, sides: {bottom: 2.0}, fluxes: {top: -0.25}, initial: 1.0}
probes: [[0.25, 0.25]]
record: {every: 0.5}
statistics: {start: 7.0}
"""


def test_heat_conduction_is_recorded(tmp_path):
    """Between a wall at temperature 2 and one that takes a heat flux of 0.25: T = 2 - y / 2."""
    (tmp_path / "heated.yaml").write_text(HEATED)
    simulate(
        load_case(str(tmp_path / "heated.yaml"), []),
        8.0,
        Output(tmp_path / "out", frames=2, snapshots=1),
    )
    rows = table(tmp_path / "out" / "record.csv")
    assert rows["probe0_temperature"][-1] == pytest.approx(2 - 0.25 / 2, rel=1e-3)
    assert rows["heat_flux_bottom"][-1] == pytest.approx(0.25, rel=0.01)
    assert rows["heat_flux_top"][-1] == pytest.approx(-0.25, rel=1e-6)
    assert np.isnan(rows["heat_flux_left"]).all()
    with np.load(tmp_path / "out" / "statistics.npz") as fields:
        y = (np.arange(32) + 0.5) / 32
        assert fields["mean_temperature"][0, 3] == pytest.approx(2 - y / 2, rel=1e-3)
        assert fields["rms_temperature"].max() < 1e-3
    with h5py.File(tmp_path / "out" / "fields.vtkhdf") as file:
        assert file["VTKHDF/CellData/temperature"].shape[-2:] == (32, 16)


def test_heated_body_makes_the_flow_rise(tmp_path):
    words = [
        "temperature={diffusivity: 0.05, buoyancy: [0.0, 1.0]}",
        "bodies=[{shape: disk, center: [0.25, 0.5], diameter: 0.25, temperature: 1.5}]",
        "probes=[[0.25, 0.5], [0.25, 0.75]]",
        "statistics=null",
    ]
    (tmp_path / "heated.yaml").write_text(HEATED)
    said: list[str] = []
    simulation = load_case(str(tmp_path / "heated.yaml"), words)
    simulate(simulation, 1.0, Output(tmp_path / "out", frames=2, snapshots=1), say=said.append)
    rows = table(tmp_path / "out" / "record.csv")
    assert rows["probe0_temperature"][-1] == pytest.approx(1.5, abs=1e-3)
    assert 0.05 < rows["probe1_temperature"][-1] < 1.5
    assert rows["probe1_velocity_y"][-1] > 5e-4
    assert said == ["forces.csv has one measure: control volumes do not include buoyancy"]
