"""ParaView files read by VTK, and restarts that continue bit for bit."""

import copy
import dataclasses
import functools
import pickle

import h5py
import numpy as np
import pytest
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOHDF import vtkHDFReader

from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, Simulation, Union, polygon
from flowsim.bodies.motions import added, oscillation, ramp, rotation
from flowsim.io import FieldSeries, pack_fields, read_restart, write_fields, write_restart
from flowsim.measure.fields import q_criterion, streamfunction
from flowsim.render.quantities import choose

GRID = Grid(24, 16, 0.25)


def simulation(**changes) -> Simulation:
    swimmer = Ellipse(center=(1.7, 2.1), angle=0.3, motion="free", density=2.0)
    setup = {"grid": GRID, "sides": Sides(), "bodies": [swimmer], "viscosity": 0.02, "batch": 1}
    return Simulation(**(setup | changes))


def open_with_vtk(path) -> vtkHDFReader:
    reader = vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    return reader


def check_image(image, flow: Simulation, b: int) -> None:
    """Compare an image with the flow, cell by cell at the position that VTK gives."""
    assert image.GetClassName() == "vtkImageData"
    assert image.GetExtent() == (0, GRID.nx, 0, GRID.ny, 0, 1)
    assert image.GetSpacing() == (GRID.h,) * 3
    assert image.GetOrigin() == (0.0, 0.0, 0.0)
    data = image.GetCellData()
    read = {
        name: vtk_to_numpy(data.GetArray(name))
        for name in ("velocity", "vorticity", "pressure", "solid")
    }
    velocity, vorticity, solid = flow.velocity_at_centres()[b], flow.vorticity()[b], flow.solid()[b]
    for cell in range(image.GetNumberOfCells()):
        left, right, bottom, top, *_ = image.GetCell(cell).GetBounds()
        i, j = int((left + right) / 2 / GRID.h), int((bottom + top) / 2 / GRID.h)
        assert read["velocity"][cell].tolist() == [*velocity[i, j], 0.0]
        assert read["vorticity"][cell] == vorticity[i, j]
        assert read["pressure"][cell] == flow.pressure[b, i, j]
        assert read["solid"][cell] == flow.dtype.type(solid[i, j])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vtk_reads_every_value_at_its_position(tmp_path, dtype):
    flow = simulation(dtype=dtype, batch=2, viscosity=[0.02, 0.05])
    flow.advance_steps(5)
    write_fields(str(tmp_path / "one.vtkhdf"), flow, b=1)
    reader = open_with_vtk(tmp_path / "one.vtkhdf")
    reader.Update()
    check_image(reader.GetOutput(), flow, b=1)
    assert [file.name for file in tmp_path.iterdir()] == ["one.vtkhdf"]


def test_additional_fields_are_written_on_request(tmp_path):
    flow, more = simulation(), choose("vorticity,q,streamfunction,speed")
    flow.advance_steps(5)
    write_fields(tmp_path / "one.vtkhdf", flow, more=more)
    reader = open_with_vtk(tmp_path / "one.vtkhdf")
    reader.Update()
    data = reader.GetOutput().GetCellData()
    names = {data.GetArrayName(n) for n in range(data.GetNumberOfArrays())}
    assert names == {"velocity", "vorticity", "pressure", "solid", "q", "streamfunction"}
    series = FieldSeries(tmp_path / "fields.vtkhdf", GRID, flow.dtype, more=more)
    series.append(flow.time[0], pack_fields(flow, more=more))
    with h5py.File(tmp_path / "fields.vtkhdf") as file:
        for name, field in (("q", q_criterion), ("streamfunction", streamfunction)):
            expected = field(flow).T.astype(flow.dtype)
            read = vtk_to_numpy(data.GetArray(name)).reshape(GRID.ny, GRID.nx)
            np.testing.assert_array_equal(read, expected)
            np.testing.assert_array_equal(file[f"VTKHDF/CellData/{name}"][0, 0], expected)


def test_vorticity_in_the_file_is_the_curl_of_the_velocity(tmp_path):
    flow = simulation(bodies=[], sides=Sides.all("periodic"), stream=(0.0, 0.0), dtype="float64")
    k = 2 * np.pi / np.array(GRID.size)
    (xu, yu), (xv, yv) = GRID.u_faces(), GRID.v_faces()
    flow.u[0], flow.v[0] = np.cos(k[1] * yu) + 0 * xu, np.sin(k[0] * xv) + 0 * yv
    write_fields(tmp_path / "waves.vtkhdf", flow)
    reader = open_with_vtk(tmp_path / "waves.vtkhdf")
    reader.Update()
    read = vtk_to_numpy(reader.GetOutput().GetCellData().GetArray("vorticity")).reshape(
        GRID.ny, GRID.nx
    )
    x, y = GRID.centres()
    exact = k[0] * np.cos(k[0] * x) + k[1] * np.sin(k[1] * y)
    # second order, 16 cells a wave
    assert np.abs(read - exact.T).max() < 0.05 * np.abs(exact).max()


def test_vtk_reads_all_times_of_a_series_from_one_file(tmp_path, monkeypatch):
    flow, kept = simulation(), []
    series = FieldSeries(str(tmp_path / "fields.vtkhdf"), GRID, flow.dtype)
    for _ in range(5):
        flow.advance(0.1)
        assert series.size_with(pack_fields(flow)) > series.size()
        series.append(flow.time[0], pack_fields(flow))
        kept.append(flow.get_state())
    monkeypatch.chdir("/")  # the parts are found beside the file, not in the working directory
    reader = open_with_vtk(tmp_path / "fields.vtkhdf")
    assert reader.GetNumberOfSteps() == 5
    for n, state in enumerate(kept):
        reader.UpdateTimeStep(state["time"])
        assert reader.GetTimeValue() == state["time"]
        flow.set_state(0, kept[n])
        check_image(reader.GetOutput(), flow, b=0)

    before = series.size()
    series.thin()
    assert series.size() < before
    resumed = FieldSeries(
        tmp_path / "fields.vtkhdf", GRID, flow.dtype, until=float(kept[2]["time"])
    )
    assert resumed.times == [kept[0]["time"], kept[2]["time"]]
    resumed.append(flow.time[0], pack_fields(flow))  # in the state of the last time
    reader = open_with_vtk(tmp_path / "fields.vtkhdf")
    assert reader.GetNumberOfSteps() == 3
    reader.UpdateTimeStep(kept[4]["time"])
    check_image(reader.GetOutput(), flow, b=0)
    assert len(list((tmp_path / "fields").iterdir())) == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_restart_continues_bit_for_bit(tmp_path, dtype):
    flow = simulation(dtype=dtype, batch=2, viscosity=[0.02, 0.05])
    flow.body_state.applied_torque[:] = 0.1
    flow.advance_steps(20)
    write_restart(str(tmp_path / "restart.h5"), flow, {"begun": 0.1})
    flow.advance_steps(20)
    fresh = simulation(dtype=dtype, batch=2)
    assert read_restart(str(tmp_path / "restart.h5"), fresh) == {"begun": 0.1}
    fresh.advance_steps(20)
    for b in range(2):
        one, other = flow.get_state(b), fresh.get_state(b)
        assert one.keys() == other.keys()
        for name in one:
            assert one[name].dtype == other[name].dtype
            assert one[name].tobytes() == other[name].tobytes(), name
    assert np.array_equal(flow.vorticity(), fresh.vorticity())


def test_restart_of_another_setup_is_refused_with_the_setting(tmp_path):
    path = tmp_path / "restart.h5"
    flow = simulation()
    write_restart(path, flow)
    grown = dataclasses.replace(flow.bodies[0], major=1.1)
    others = {
        "grid.h": {"grid": Grid(24, 16, 0.2)},
        "sides.left": {"sides": Sides(top="slip")},
        "bodies.0.major": {"bodies": [grown]},
        "batch": {"batch": 2},
        "dtype": {"dtype": "float64"},
        "integrator": {"integrator": "euler", "cfl": 0.5},
        "cfl": {"cfl": 0.4},
        "penalty": {"penalty": 1e3},
        "stream.0": {"stream": (0.5, 0.0)},
        "gravity.1": {"gravity": (0.0, -0.1)},
    }
    for key, changes in others.items():
        other = simulation(**changes)
        before = other.get_state()
        with pytest.raises(ValueError, match=f"belongs to a simulation with {key} = "):
            read_restart(path, other)
        assert all(np.array_equal(array, before[name]) for name, array in other.get_state().items())


def test_restart_of_a_flow_driven_by_another_force_is_refused(tmp_path):
    def driven(strength=0.1, **changes):
        field = {"force_field": lambda x, y: (strength * np.sin(y), 0 * x)}
        around = Sides("periodic", "periodic", "no_slip", "no_slip")
        return simulation(bodies=[], sides=around, **({"body_force": (0.1, 0.0)} | field | changes))

    path, flow = tmp_path / "restart.h5", driven()
    flow.body_force[:] = (0.3, 0.0)  # of the flow now, not of its set-up
    write_restart(path, flow)
    again = driven()
    read_restart(path, again)
    np.testing.assert_array_equal(again.body_force, [(0.3, 0.0)])
    for changes, words in (
        ({"body_force": (0.2, 0.0)}, r"body_force\.0\.0 = 0\.1, but this one has 0\.2"),
        (
            {"body_force": None, "mean_velocity": (1.0, None)},
            r"body_force\.0\.0 = 0\.1, but this one has 0\.0",
        ),
        ({"force_field": None}, "force_field = True, but this one has False"),
        ({"strength": 0.2}, "another force_field"),
    ):
        other = driven(**changes)
        with pytest.raises(ValueError, match=words):
            read_restart(path, other)
        assert not np.array_equal(other.body_force, again.body_force)


def shaken(time: float) -> tuple[float, float, float, float, float, float]:
    return 1.5, 2 + 0.1 * np.sin(time), 0.0, 0.0, 0.1 * np.cos(time), 0.0


def test_bodies_of_equal_size_but_other_kind_or_motion_differ(tmp_path):
    path = tmp_path / "restart.h5"
    write_restart(path, simulation(bodies=[Disk(motion=shaken)]))
    read_restart(path, simulation(bodies=[Disk(motion=shaken)]))
    for body in (HalfDisk(motion=shaken), Disk(center=(1.5, 2.0))):
        with pytest.raises(ValueError, match="bodies"):
            read_restart(path, simulation(bodies=[body]))


@pytest.mark.parametrize("make", [
    lambda size: [polygon([(0, 0), (size, 0), (0, 1)], center=(3, 2))],
    lambda size: [Union(parts=[polygon([(0, 0), (size, 0), (0, 1)])], center=(3, 2))],
    lambda size: [Disk(motion=oscillation((3, 2), size, 4.0))],
    lambda size: [Disk(motion=added(rotation((3, 2), 1.0), ramp((0, 0), (size, 0), 1.0)))],
    lambda size: [Disk(motion=functools.partial(lambda x, t: (x, 2, 0, 0, 0, 0), size))],
], ids=["polygon", "union", "oscillation", "sum", "partial"])  # fmt: skip
def test_bodies_with_other_arguments_differ(tmp_path, make):
    path = tmp_path / "restart.h5"
    write_restart(path, simulation(bodies=make(0.5)))
    read_restart(path, simulation(bodies=make(0.5)))  # the same, although other functions
    with pytest.raises(ValueError, match=r"with bodies\.0\.[\w.]+ = 0\.5, but this one has 0\.75"):
        read_restart(path, simulation(bodies=make(0.75)))


def test_a_damaged_restart_is_refused(tmp_path):
    path = tmp_path / "restart.h5"
    write_restart(path, simulation())
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for torn in (whole[:-1], whole[: len(whole) // 2], whole[:600], whole + b"0", bytes(flipped)):
        path.write_bytes(torn)
        with pytest.raises(ValueError, match="is damaged"):
            read_restart(path, simulation())
    for foreign in (b"", b"time,dt\n", whole[512:]):
        path.write_bytes(foreign)
        with pytest.raises(ValueError, match="not a restart file"):
            read_restart(path, simulation())


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "restart.h5"
    flow = simulation()
    write_restart(path, flow)
    old = path.read_bytes()
    flow.advance_steps(1)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_restart(path, flow)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_cannot_be_written(tmp_path):
    path = tmp_path / "missing" / "restart.h5"
    with pytest.raises(FileNotFoundError, match=f"'{path}'"):
        write_restart(path, simulation())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_simulations_are_not_copied(duplicate):
    """A shallow copy would share its fields with the original, and compiled sweeps cannot be pickled."""
    with pytest.raises(TypeError, match=r"get_state.*write_restart"):
        duplicate(simulation())
