"""Case files of `flowsim simulate`: what they build, their error messages, and the resulting forces."""

import csv
import math
import re
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest

from coupling.errors import ConfigError
from coupling.simulation.case import load_case
from coupling.simulation.files import SimulationFiles
from coupling.simulation.simulate import Output, simulate

DOCS = Path(__file__).parents[3] / "docs" / "simulate.md"
CASE = "{nx: 64, ny: 48, h: 0.0625, reynolds: 50, bodies: [BODY]}"


def case_of(tmp_path, body: str, *overrides: str):
    (tmp_path / "case.yaml").write_text(CASE.replace("BODY", body))
    return load_case(str(tmp_path / "case.yaml"), list(overrides))


def forces(folder: Path) -> dict[str, np.ndarray]:
    with (folder / "forces.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_the_example_of_the_docs_runs(tmp_path):
    (tmp_path / "tank.yaml").write_text(
        re.search(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)[1]
    )
    simulation = load_case(str(tmp_path / "tank.yaml"), ["bodies.2.density=0.8"])
    assert [type(body).__name__ for body in simulation.bodies] == [
        "Disk", "HalfDisk", "Ellipse", "SignedDistance", "Union"
    ]  # fmt: skip
    assert simulation.bodies[2].density == 0.8
    assert simulation.sides.bottom_velocity == 1.0
    ending = simulate(simulation, 0.5, Output(tmp_path / "out", frames=4, snapshots=1))
    assert "finished after" in ending.why
    table = forces(tmp_path / "out")
    documented = re.findall(
        r"`(\w+)`", DOCS.read_text().partition("`forces.csv` has")[2].partition("\n\nForces")[0]
    )
    names = [name for name in documented if name not in ("time", "dt", "nan", "body0_x")]
    assert list(table) == ["time", "dt", *(f"body{k}_{name}" for k in range(5) for name in names)]
    for k in range(5):
        assert np.isfinite(table[f"body{k}_force_x"]).all()
    # the polygon: half a unit of time speeds it up to -0.2, while it goes up by a fifth in a quarter of its period
    time, late = table["time"][-1], table["time"][-1] - 0.5
    assert 0 <= late < table["dt"][-1]
    assert table["body3_x"][-1] == pytest.approx(4.6 - 0.2 * (0.25 + late), abs=1e-4)
    assert table["body3_y"][-1] == pytest.approx(3.0 + 0.2 * math.sin(math.pi * time), abs=1e-4)
    assert table["body3_velocity_x"][-1] == pytest.approx(-0.2, abs=1e-4)
    assert table["body0_angle"][-1] == pytest.approx(2.0 * time)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [[], ["reynolds=200", "bodies.2.density=0.8"]], ids=["tank", "light"]
)
def test_the_example_of_the_docs_runs_to_its_end(tmp_path, words):
    text = DOCS.read_text()
    (tmp_path / "tank.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    told = " ".join(["tank.yaml", *words])
    assert f"flowsim simulate {told} " in text
    simulation = load_case(str(tmp_path / "tank.yaml"), words)
    ending = simulate(
        simulation, 10.0, Output(tmp_path / "out", frames=2, snapshots=1, control_volumes=False)
    )
    assert ending.complete, ending.why
    assert np.isfinite(forces(tmp_path / "out")["body4_x"]).all()


def test_shapes_have_the_expected_area_and_centre(tmp_path):
    """Areas are computed by hand; the centre is that of the solid cells."""
    bodies = {
        "{shape: disk, center: [2, 1.5], diameter: 0.8}": (math.pi * 0.16, (2, 1.5)),
        "{shape: half_disk, center: [2, 1.5], angle: 1.5707963}": (math.pi / 8, (2, 1.5 - 2 / (3 * math.pi))),
        "{shape: ellipse, center: [2, 1.5], aspect: 0.5, angle: 1}": (math.pi / 8, (2, 1.5)),
        "{shape: polygon, center: [2, 1.5], angle: 3.141593, corners: [[0, 0], [1, 0], [0, 1]]}": (0.5, (5 / 3, 7 / 6)),
        "{shape: union, center: [2, 1.5], angle: 1.5707963, parts: [{shape: disk, center: [0.5, 0]}, "
        "{shape: polygon, center: [-0.5, 0], corners: [[-0.5, -0.5], [0, -0.5], [0, 0.5], [-0.5, 0.5]]}]}": (
            math.pi / 4 + 0.5, (2, 1.5 + (0.5 * math.pi / 4 - 0.75 * 0.5) / (math.pi / 4 + 0.5))
        ),
    }  # fmt: skip
    for body, (area, centre) in bodies.items():
        simulation = case_of(tmp_path, body)
        assert simulation.bodies[0].area == pytest.approx(area, rel=2e-3), body
        solid = simulation.solid()[0]
        x, y = simulation.grid.centres()
        found = (solid * x).sum() / solid.sum(), (solid * y).sum() / solid.sum()
        assert found == pytest.approx(centre, abs=0.01), body


def test_motions_start_from_the_position_of_the_body(tmp_path):
    """Where a body is at time 1, worked out by hand."""
    place = "shape: ellipse, center: [2, 1.5], angle: 0.25"
    motions = {
        "{kind: oscillation, amplitude: 0.5, period: 4}": (2.5, 1.5, 0.25),
        "{kind: oscillation, amplitude: 0.5, period: 8, direction: 1.5707963, phase: 0.78539816}": (
            2,
            2,
            0.25,
        ),
        "{kind: oscillation, amplitude: 0, period: 4, pitch: 0.3}": (2, 1.5, 0.55),
        "{kind: rotation, rate: -2}": (2, 1.5, -1.75),
        "{kind: ramp, velocity: [0.4, -0.2], duration: 0.5}": (2.3, 1.35, 0.25),
        "{kind: ramp, velocity: [0.4, 0], duration: 2, smooth: false}": (2.1, 1.5, 0.25),
        "[{kind: ramp, velocity: [0.4, 0], duration: 1}, {kind: rotation, rate: 1}]": (
            2.2,
            1.5,
            1.25,
        ),
        "fixed": (2, 1.5, 0.25),
    }
    for motion, (x, y, angle) in motions.items():
        simulation = case_of(tmp_path, f"{{{place}, motion: {motion}}}")
        simulation.advance(1.0)
        state = simulation.body_state
        assert [*state.position[0, 0], state.angle[0, 0]] == pytest.approx(
            [x, y, angle], abs=1e-6
        ), motion


def test_a_heavy_free_body_falls_and_a_light_one_rises(tmp_path):
    for density, sign in ((3.0, -1), (0.5, 1)):
        body = "{shape: polygon, center: [2, 1.5], corners: [[-0.4, -0.3], [0.4, -0.3], [0, 0.4]], motion: free}"
        words = (f"bodies.0.density={density}", "gravity=[0, -1]", "stream=[0, 0]")
        simulation = case_of(tmp_path, body, *words)
        simulation.advance(0.3)
        assert simulation.body_state.velocity[0, 0, 1] * sign > 0.03


@pytest.mark.parametrize(("word", "sentence"), [
    ("bodies=[{shape: square}]",
     "bodies.0.shape = 'square': allowed are 'disk', 'half_disk', 'ellipse', 'polygon', 'union'"),
    ("bodies=[{center: [1, 1]}]", "key 'bodies.0.shape' is missing"),
    ("bodies=[{shape: disk}]", "key 'bodies.0.center' is missing"),
    ("bodies.0.diametre=1", "unknown key 'bodies.0.diametre': did you mean 'bodies.0.diameter'?"),
    ("bodies.0.aspect=1",
     "unknown key 'bodies.0.aspect': allowed are density, motion, held, springs, temperature, center, angle, shape"),
    ("bodies.0.diameter=-1", "bodies.0.diameter = -1: input should be greater than 0"),
    ("h=0", "h = 0: input should be greater than 0"),
    ("h=.nan", "h = nan: input should be a finite number"),
    ("sides={top: no_slip, top_velocity: .nan}", "sides.top_velocity = nan: input should be a finite number"),
    ("bodies.0.density=0", "bodies.0.density = 0: input should be greater than 0"),
    ("bodies.0.center=[9, 1]", "bodies.0.center = [9, 1]: not in the box of 4 x 3"),
    ("bodies.0.center=1", "bodies.0.center = 1: must be a list"),
    ("bodies.1.density=1", "'1' must be the number of an entry, 0 to 0"),
    ("bodies.0.motion=swim",
     "bodies.0.motion.kind = 'swim': allowed are 'fixed', 'free', 'oscillation', 'rotation', 'ramp'"),
    ("bodies.0.motion=rotation", "key 'bodies.0.motion.rate' is missing"),
    ("bodies.0.motion={kind: rotation, rate: .nan}", "bodies.0.motion.rate = nan: input should be a finite number"),
    ("bodies.0.motion={kind: ramp, speed: 1}",
     "unknown key 'bodies.0.motion.speed': allowed are kind, velocity, duration, smooth"),
    ("bodies.0.motion=[{kind: oscillation, amplitude: 1, period: -1}]",
     "bodies.0.motion.0.period = -1: input should be greater"),
    ("bodies.0.motion=[free, {kind: rotation, rate: 1}]", "only oscillation, rotation, ramp can be added"),
    ("bodies.0.motion=[]", "bodies.0.motion = []: must have at least 1 entries"),
    ("bodies=[{shape: union, center: [1, 1], parts: []}]", "bodies.0.parts = []: must have at least 1 entries"),
    ("bodies=[{shape: union, center: [1, 1], parts: [{shape: disk, center: [0, 0], density: 2}]}]",
     "unknown key 'bodies.0.parts.0.density': allowed are center, angle, shape, diameter"),
    ("bodies=[{shape: polygon, center: [1, 1], corners: [[0, 0], [1, 1]]}]", "must have at least 3 entries"),
    ("bodies=[{shape: polygon, center: [1, 1], corners: [[0, 0], [1, 1], [2, 2]]}]", "bodies.0: corners = "),
    ("bodies={shape: disk}", "bodies: must be a list"),
    ("gravity=-1", "gravity = -1: must be a list"),
    ("gravity=[0]", "key 'gravity.1' is missing"),
    ("temperature={}", "key 'temperature.diffusivity' is missing"),
    ("temperature={diffusivity: 0}", "temperature.diffusivity = 0: input should be greater than 0"),
    ("temperature={diffusivity: 1, side: {}}", "unknown key 'temperature.side': did you mean 'temperature.sides'?"),
    ("temperature={diffusivity: 1, sides: {top: .nan}}", "temperature.sides.top = nan: input should be"),
    ("temperature={diffusivity: 1, fluxes: {left: 1}}", "only walls let a given flux in, but the left side is inflow"),
    ("temperature={diffusivity: 1, sides: {top: [1, 2]}}", "temperature: the value of the top side is of shape (2,)"),
    ("bodies.0.temperature=1", "bodies.0.temperature needs the key temperature.diffusivity"),
    ("sides.topp=slip", "unknown key 'sides.topp': did you mean 'sides.top'?"),
    ("sides.top=glass", "sides.top = 'glass': input should be 'inflow', 'outflow'"),
    ("sides.top_velocity=1", "top_velocity = 1.0: only a no_slip side can move, this one is slip"),
])  # fmt: skip
def test_errors_name_key_value_and_allowed_values(tmp_path, word, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)) as caught:
        case_of(tmp_path, "{shape: disk, center: [2, 1.5]}", word)
    assert "\n" not in str(caught.value)


def test_both_measures_of_force_and_power_agree(tmp_path):
    body = "{shape: disk, center: [1.8, 1.5], motion: {kind: oscillation, amplitude: 0.1, period: 2, pitch: 0.5}}"
    simulate(case_of(tmp_path, body), 2.0, Output(tmp_path / "out", frames=2, snapshots=1))
    table = forces(tmp_path / "out")
    late = table["time"] > 1.0
    for name, tolerance in (("force_x", 0.02), ("torque", 0.1), ("power", 0.02)):
        penalty, balance = table[f"body0_{name}"][late], table[f"body0_balance_{name}"][late]
        assert np.abs(penalty - balance).mean() < tolerance * np.abs(penalty).max(), name
    work = np.sum(table["body0_power"] * table["dt"])
    pieces = np.diff(table["body0_x"], prepend=1.8) * table["body0_force_x"]
    pieces += np.diff(table["body0_angle"], prepend=0.0) * table["body0_torque"]
    assert work == pytest.approx(pieces.sum(), rel=0.02)  # force and torque times motion


def test_unmeasurable_balance_force_is_nan_and_can_be_left_out(tmp_path):
    near = case_of(tmp_path, "{shape: disk, center: [2, 0.6]}")
    simulate(near, 0.1, Output(tmp_path / "near", frames=1, snapshots=1))
    table = forces(tmp_path / "near")
    assert all(
        np.isnan(table[f"body0_balance_{name}"]).all()
        for name in ("force_x", "force_y", "torque", "power")
    )
    assert np.isfinite(table["body0_force_x"]).all()
    without = case_of(tmp_path, "{shape: disk, center: [2, 0.6]}")
    simulate(
        without, 0.1, Output(tmp_path / "without", frames=1, snapshots=1, control_volumes=False)
    )
    bare = forces(tmp_path / "without")
    assert set(table) - set(bare) == {
        f"body0_balance_{name}" for name in ("force_x", "force_y", "torque", "power")
    }
    assert np.array_equal(bare["body0_force_x"], table["body0_force_x"])  # no effect on the flow


def test_body_wraps_around_a_periodic_box_and_is_drawn_on_both_sides(tmp_path):
    body = "{shape: disk, center: [3, 1.5], motion: {kind: ramp, velocity: [2, 0], duration: 0.5}}"
    words = ("sides.left=periodic", "sides.right=periodic", "stream=[0, 0]")
    ending = simulate(
        case_of(tmp_path, body, *words), 0.75, Output(tmp_path / "out", frames=1, snapshots=1)
    )
    assert "finished after" in ending.why
    table = forces(tmp_path / "out")
    # half a unit of time to speed up
    assert table["body0_x"][-1] == pytest.approx(3.0 + 2.0 * (table["time"][-1] - 0.25))
    last = imageio.imread(tmp_path / "out" / "vorticity.mp4")[-1].astype(int)
    middle = len(last) // 2
    left, right = last[middle, 40], last[middle, -40]
    assert np.abs(left - right).max() < 12
    assert left.max() < 120  # the dark of a body
    walls = case_of(tmp_path, body, "stream=[0, 0]")
    ending = simulate(walls, 0.8, Output(tmp_path / "walls", frames=1, snapshots=1))
    assert "body 0 left the box" in ending.why
    assert not ending.complete


def test_two_simulations_cannot_write_into_one_folder(tmp_path):
    from flowsim import Grid, Simulation

    def flow():
        return Simulation(Grid(16, 16, 1 / 8), viscosity=0.1)

    notes = ({}, 0.0, None, None, lambda text: None)
    first = SimulationFiles(tmp_path, flow(), *notes)
    first.forces.begin(["time"])
    with pytest.raises(ConfigError, match="another `flowsim simulate` is writing"):
        SimulationFiles(tmp_path, flow(), *notes)
    with first:
        pass
    SimulationFiles(tmp_path, flow(), *notes)


def test_held_degrees_of_freedom_and_springs_are_applied(tmp_path):
    simulation = case_of(
        tmp_path,
        "{shape: disk, center: [2, 1.5], motion: free, held: [x, angle], "
        "springs: {y: {stiffness: 3.0, damping: 0.5, rest: 1.4}}}",
    )
    np.testing.assert_array_equal(simulation.spring_stiffness[0, 0], [0.0, 3.0, 0.0])
    np.testing.assert_array_equal(simulation.spring_damping[0, 0], [0.0, 0.5, 0.0])
    np.testing.assert_array_equal(simulation.spring_rest[0, 0], [2.0, 1.4, 0.0])
    simulation.advance_steps(5)
    assert simulation.body_state.position[0, 0, 0] == 2.0
    assert simulation.body_state.position[0, 0, 1] != 1.5
