"""Input that `Simulation` refuses, reports or recomputes instead of accepting it silently."""

import numpy as np
import pytest

from flowsim import (
    Disk,
    Ellipse,
    FieldStatistics,
    Grid,
    Jet,
    Recorder,
    Sides,
    Simulation,
    Spring,
    Temperature,
    Union,
    polygon,
    surface_loads,
)
from flowsim.bodies.motions import oscillation, ramp
from flowsim.bodies.resolution import blockage
from flowsim.bodies.swimmers import carangiform
from flowsim.render.flow import picture

GRID = Grid(64, 64, 1 / 16)
CHANNEL = Sides("inflow", "outflow", "no_slip", "no_slip")
STEP = polygon([(-2, -1), (2, -1), (2, 1), (-2, 1)], center=(1, 1))


def make(bodies=(), sides=None, **options):
    return Simulation(GRID, sides, bodies, **({"viscosity": 0.01} | options))


@pytest.mark.parametrize(
    ("bodies", "options", "words"),
    [
        ([Disk(center=(9.0, 2.0))], {}, "body 0 is at x = 9, outside the box of 4 x 4"),
        ([STEP], {"sides": CHANNEL}, "covers a part of the left side"),
        ([Disk(motion=lambda t: (1.5 + 0.5 * t, 2, 0, 0, 0, 0))], {}, "derivative of its position"),
        ([Disk(motion=lambda t: (1.5, 2.0, 0.0))], {}, "must be six finite numbers"),
        ([Disk(motion=lambda t: 1.5)], {}, "motion at time 0 is 1.5, but must be six finite"),
        ([Disk(motion=lambda t: "abcdef")], {}, "is 'abcdef', but must be six finite numbers"),
        (
            [Disk(motion=lambda t: (2, 2, 0, 0, 0, 0) if t < 1 else (2, 2, 0))],
            {},
            r"motion at time .* is \(2, 2, 0\), but must be six finite",
        ),
        ([], {"stream": (-1.0, 0.0)}, "enters through the right side, which is outflow"),
        ([], {"stream": (np.nan, 0.0)}, "stream = "),
        ([], {"gravity": (0.0, [1, 2, 3])}, "gravity = "),
        ([], {"viscosity": [0.01, 0.02]}, r"viscosity has the shape \(2,\)"),
        ([], {"viscosity": "thin"}, "viscosity = 'thin': it must be a number"),
        ([], {"viscosity": 0.0}, "viscosity = 0: it must be positive and finite"),
        ([Disk(center=(2, 2))], {"sensors": [(10**6, (0, 0))]}, "sensor 0 is on body 1000000, but"),
        ([Disk(center=(2, 2))], {"sensors": [(0, (0, 0)), (-1, (0, 0))]}, "sensor 1 is on body -1"),
        ([Disk(center=(2, 2))], {"sensors": [(0.5, (0, 0))]}, "sensor 0 is on body 0.5"),
        ([Disk(center=(2, 2))], {"sensors": [(0, (np.nan, 0))]}, "sensor 0 is at .*two finite"),
        ([Disk(center=(2, 2))], {"sensors": [(0, 1.0)]}, "sensor 0 is at 1.0, but"),
        ([Disk(center=(2, 2))], {"sensors": [0]}, "sensor 0 is 0, but must be a body's number"),
        ([], {"sensors": [(0, (0, 0))]}, "sensor 0 is on body 0, but there are 0 bodies"),
        ([], {"perturbation": np.inf}, "perturbation"),
        ([], {"perturbation": "much"}, "perturbation"),
        ([], {"stream": 1.0}, "stream = 1.0: it must be two finite numbers"),
        ([], {"gravity": 1.0}, "gravity = 1.0: it must be two finite numbers"),
        ([], {"batch": 2.5}, "batch = 2.5"),
        ([], {"batch": "3"}, "batch = '3'"),
        ([], {"threads": 1.5}, "threads = 1.5"),
        ([], {"cfl": "0.5"}, "cfl = '0.5'"),
        ([], {"penalty": None}, "penalty = None"),
        ([], {"sides": "open"}, "sides = 'open': it must be a Sides"),
        (Disk(center=(2.0, 2.0)), {}, "it must be a list of bodies"),
        (None, {}, "bodies = None: it must be a list of bodies"),
        (["disk"], {}, "body 0 is 'disk': it must be a body"),
        ([Disk(center=(2, 2))], {"jets": Jet(angle=0.0, width=0.5)}, "it must be a list of jets"),
        ([], {"temperature": 0.5}, "temperature = 0.5: it must be a Temperature"),
        ([], {"force_field": lambda x, y: None}, "force_field must return two components"),
        ([], {"integrator": ["ab2"]}, "integrator = "),
        (
            [],
            {
                "sides": Sides.all("periodic"),
                "body_force": (9.0, 0.0),
                "mean_velocity": (1.0, None),
            },
            "body_force and mean_velocity are both given along x",
        ),
    ],
)
def test_invalid_simulations_are_refused(bodies, options, words):
    with pytest.raises(ValueError, match=words):
        make(bodies, **options)


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: Grid(64, 64, "1/16"), "h = '1/16': the grid spacing must be positive"),
        (lambda: Sides(bottom="no_slip", bottom_velocity=np.nan), "bottom_velocity = nan"),
        (lambda: Sides(bottom="no_slip", bottom_velocity="1"), "bottom_velocity = '1'"),
        (lambda: Disk(center=(1.0, 2.0, 3.0)), "it must be two finite numbers, x and y"),
        (lambda: Disk(center=2.0), "it must be two finite numbers, x and y"),
        (lambda: Disk(center=("2", 2.0)), "it must be two finite numbers, x and y"),
        (lambda: Disk(center=(np.nan, 2.0)), "it must be two finite numbers, x and y"),
        (lambda: Disk(angle=np.inf), "angle = inf: it must be a finite number"),
        (lambda: Disk(angle="up"), "angle = 'up': it must be a finite number"),
        (lambda: Disk(diameter="1"), "diameter = '1': the size of a body must be positive"),
        (lambda: Ellipse(aspect=None), "aspect = None: the size of a body must be positive"),
        (lambda: polygon("abc"), "corners = 'abc': a polygon needs"),
        (
            lambda: Union(parts=[Disk(), Disk(center=(1.0, 0.0), density=3.0)]),
            "parts: a Disk has a density or motion of its own",
        ),
        (lambda: Union(parts=Disk()), "parts = Disk"),
        (lambda: Disk(density="1"), "the density of a body must be positive"),
        (lambda: Disk(motion=None), 'motion = None: a body is "fixed", "free" or driven'),
        (lambda: Union(parts=[carangiform()]), "parts: a Swimmer is not a rigid body"),
        (lambda: Union(parts=[1]), "parts: a int is not a rigid body"),
        (lambda: Jet(point=(1.0, 2.0, 3.0), width=0.1), r"the place of a jet is \(1.0, 2.0, 3.0\)"),
        (
            lambda: Jet(angle="up", width=0.1),
            r"the place of a jet is \('up',\), but must be finite",
        ),
        (lambda: Temperature(0.01, bodies=[1]), r"bodies = \[1\], but must be a mapping"),
        (lambda: Temperature(0.01, sides="left"), "sides = 'left', but must be a mapping"),
        (lambda: Temperature(0.01, fluxes=None), "fluxes = None, but must be a mapping"),
        (lambda: Jet(angle=0.0, width="1"), "width = '1': the width of this jet must be between"),
    ],
)
def test_invalid_parts_are_refused(make_it, words):
    with pytest.raises(ValueError, match=words):
        make_it()


def heated():
    return make(temperature=Temperature(diffusivity=0.01, buoyancy=(0.0, 1.0)))


def swimming():
    return make([carangiform(center=(2.0, 2.0))])


FACES = np.ones(GRID.padded_shape)


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda: make().advance(np.nan), "duration = nan: it must be a finite number"),
        (lambda: make().advance(np.inf), "duration = inf: it must be a finite number"),
        (lambda: make().advance("1"), "duration = '1': it must be a finite number"),
        (lambda: make().advance(None), "duration = None: it must be a finite number"),
        (
            lambda: make().advance(0.1, stop=lambda sim: None),
            "stop returned None, but must return 1 bools",
        ),
        (
            lambda: make(batch=2).advance(0.1, stop=lambda sim: np.zeros(3, bool)),
            "stop returned .*, but must return 2 bools",
        ),
        (lambda: make(batch=2).advance(0.1, stop=lambda sim: sim.time), "must return 2 bools"),
        (
            lambda: make().advance(-0.1),
            "duration = -0.1: it must be a finite number that is not negative",
        ),
        (lambda: make(batch=2).advance([0.1, -0.1]), "that is not negative"),
        (lambda: make(batch=3).advance([0.1, 0.2]), r"one for each flow, \(3,\)"),
        (lambda: make().set_velocity(0, FACES * np.nan, FACES), "u is not finite everywhere"),
        (lambda: make().add_velocity(0, 0.0, np.inf), "v is not finite everywhere"),
        (lambda: make().set_velocity(0, FACES[:3], FACES), r"u has the shape \(3, 68\), but must"),
        (lambda: heated().set_temperature(0, np.nan), "temperature is not finite everywhere"),
        (lambda: heated().set_temperature(0, FACES), r"temperature has the shape \(68, 68\)"),
        (lambda: make().sample_velocity([(np.nan, 1.0)]), "some are NaN"),
        (lambda: make().sample_pressure([1.0, 2.0]), r"points have the shape \(2,\)"),
        (lambda: Recorder(make(), steps=1.5), "steps = 1.5"),
        (lambda: Recorder(make()).strouhal_number(), "body = 0: there are 0 bodies"),
        (
            lambda: make().advance_steps(-1),
            "steps = -1: it must be an integer that is not negative",
        ),
        (lambda: make().advance_steps(1.5), "steps = 1.5: it must be an integer"),
        (lambda: make().measure_control_volumes(np.nan), "margin = nan: the margin of control"),
        (lambda: make(batch=2).reset(np.array([0, 1])), r"which = .*: it must be 2 bools"),
        (lambda: make(batch=2).reset([1]), r"which = \[1\]: it must be 2 bools, one for each flow"),
        (lambda: make(batch=2).settle(np.array([0])), "it must be 2 bools"),
        (lambda: make(batch=2).advance(0.1, [0]), r"active = \[0\]: it must be 2 bools"),
        (lambda: heated().set_side_temperature("left", 1.0, [0]), "it must be 1 bools"),
        (lambda: swimming().steer(0, 0, turn=np.nan, period=1.0, over=0.5), "turn = nan"),
        (lambda: make([Disk(center=(2.0, 2.0))]).surface(0, 0), "body 0 is a Disk, which has no"),
        (
            lambda: make([carangiform(center=(1.0, 2.0)), Disk(center=(3.0, 2.0))]).surface(0, 1),
            "body 1 is a Disk, which has no midline",
        ),
        (
            lambda: surface_loads(make([Disk(center=(2.0, 2.0))]), points=8.5),
            "points = 8.5: a surface needs a whole number of at least 8",
        ),
        (lambda: Recorder(make(), every="1"), "every = '1'"),
        (lambda: Recorder("x"), "flow = 'x': it must be a Simulation"),
        (lambda: FieldStatistics(None), "flow = None: it must be a Simulation"),
        (lambda: picture(None, "a.png"), "flow = None: it must be a Simulation"),
        (lambda: picture(make(), "a.png", fields=None), "fields is None, but must be text"),
        (lambda: picture(make(), "a.png", b="first"), "b = 'first': the batch has 1 flows"),
        (lambda: picture(make(), "a.png", follow=0.5), "follow = 0.5: there are 0 bodies"),
        (lambda: make().step(until="a"), "until = 'a': a time to end at is a number"),
        (lambda: make(batch=2).step(until=[1.0] * 3), r"one for each flow, \(2,\)"),
        (lambda: surface_loads(make()), "there are 1 flows of 0 bodies"),
        (
            lambda: surface_loads(make([Disk(center=(2.0, 2.0))]), reference_pressure=np.nan),
            "reference_pressure = nan: it must be a finite number, or a point",
        ),
    ],
)
def test_invalid_arguments_between_steps_are_refused(do, words):
    with pytest.raises(ValueError, match=words):
        do()


@pytest.mark.parametrize("name", ["viscosity", "diffusivity", "buoyancy"])
def test_properties_set_to_nan_are_refused(name):
    sim = heated()
    getattr(sim, name)[:] = np.nan
    with pytest.raises(ValueError, match=name):
        sim.advance(0.1)


def test_mean_velocity_across_walls_that_is_written_is_refused():
    """The force that would hold it grew from step to step."""
    walls = Sides("periodic", "periodic", "no_slip", "no_slip")
    sim = make(sides=walls, stream=(0.0, 0.0), body_force=(0.0, 0.0))
    sim.target_mean_velocity[:] = (np.nan, 1.0)
    with pytest.raises(ValueError, match="along y it can be held only between periodic sides"):
        sim.advance(0.1)


@pytest.mark.parametrize("name", ["applied_force", "velocity", "spring_stiffness"])
def test_nan_in_a_body_makes_only_its_flow_diverge(name):
    body = Disk(center=(2.0, 2.0), motion="free", springs={"y": Spring(stiffness=1.0)})
    sim = make([body], batch=2)
    holder = sim if name == "spring_stiffness" else sim.body_state
    getattr(holder, name)[0] = np.nan
    sim.advance(0.1)
    assert sim.diverged.tolist() == [True, False]
    assert sim.time[1] == pytest.approx(0.1)
    assert np.isfinite(sim.body_state.force[1]).all()


def test_motion_that_becomes_nan_is_refused_at_that_time():
    def still_then_nan(t):
        return 2.0, 2.0, 0.0, 0.0, 0.0, 0.0 if t < 3.0 else np.nan

    sim = make([Disk(motion=still_then_nan)])
    with pytest.raises(ValueError, match="body 0: its motion at time 3"):
        sim.advance(4.0)


def test_light_free_bodies_that_overlap_are_refused():
    heavy = Disk(center=(2.0, 2.0), density=2.0, motion="free")
    light = Disk(center=(2.3, 2.2), density=0.5, motion="free")
    with pytest.raises(ValueError, match="bodies 0 and 1 overlap, and body 1"):
        make([heavy, light], sides=Sides.all("no_slip"), stream=(0.0, 0.0))
    apart = Disk(center=(3.2, 2.2), density=0.5, motion="free")
    make([heavy, apart], sides=Sides.all("no_slip"), stream=(0.0, 0.0))


def test_built_in_motions_and_motions_with_a_kink_are_accepted():
    make([Disk(motion=oscillation((2.0, 2.0), 0.2, 2.0, pitch=0.3))])
    make([Disk(motion=ramp((2.0, 2.0), (0.2, 0.0), 0.57, smooth=False))])


def test_describe_reports_the_viscous_limit_and_leaks():
    body = Disk(center=(2.0, 2.0))
    slow = Simulation(GRID, CHANNEL, [body], viscosity=100.0)
    (dt,) = (float(word) for word in slow.describe().split("dt <= ")[1].split(" ")[:1])
    slow.step()
    assert dt == pytest.approx(slow.dt[0], rel=0.05)
    assert "of the flow leaks through bodies; penalty = " in slow.describe()
    assert "leaks through" not in make([body]).describe()
    driven = make([Disk(center=(3.0, 3.0), motion=oscillation((2.0, 2.0), 0.2, 2.0))])
    assert "body 0 is driven: it starts at (2, 2)" in driven.describe()


def test_body_outside_the_box_has_no_blockage():
    sim = make([Disk(center=(2.0, 2.0))])
    assert blockage(sim)[0] == pytest.approx(0.25, rel=0.01)
    sim.body_state.position[0, 0] = 9.0, 2.0
    assert blockage(sim)[0] == 0.0


def test_set_velocity_resets_time_step_and_history():
    n = 32
    sim = Simulation(
        Grid(n, n, 1 / n), Sides.all("periodic"), viscosity=0.1, stream=(0.0, 0.0), dtype="float64"
    )
    x, y = (2 * np.pi * c for c in sim.grid.u_faces())
    fast = 20 * np.sin(x) * np.cos(y)
    sim.set_velocity(0, fast, np.zeros_like(fast))
    sim.step()
    assert sim.dt[0] * n * 20 <= sim.cfl * 1.01
    sim.advance(0.01)
    sim.set_velocity(0, np.full_like(fast, 0.5), np.zeros_like(fast))
    sim.step()
    np.testing.assert_allclose(sim.u[0, 2:-2, 2:-2], 0.5, atol=1e-12)


def test_points_of_samples():
    sim = make(batch=2)
    assert sim.sample_velocity([[1.0, 1.0], [2.0, 2.0], [3.0, 1.0]]).shape == (2, 3, 2)
    with pytest.raises(ValueError, match="3 simulations, but this batch has 2"):
        sim.sample_velocity(np.zeros((3, 4, 2)))
    with pytest.raises(ValueError, match=r"must be \(n, 2\)"):
        sim.sample_velocity([1.0, 2.0, 3.0])


def test_flags_may_be_a_list():
    sim = make(batch=2)
    sim.advance(0.1, [True, False])
    sim.reset([True, False])
    assert sim.time.tolist() == [0.0, 0.0]


def test_velocity_that_is_refused_leaves_the_flow_as_it_is():
    sim = make()
    before = sim.u.copy()
    for write in (sim.set_velocity, sim.add_velocity):
        with pytest.raises(ValueError, match="v has the shape"):
            write(0, 2.0, FACES[:3])
    np.testing.assert_array_equal(sim.u, before)


def test_numbers_of_any_type_give_the_same_compiled_solver():
    grid = Grid(np.int64(32), np.int32(32), np.float32(0.125))
    assert [type(value) for value in (grid.nx, grid.ny, grid.h)] == [int, int, float]
    sim = Simulation(grid, viscosity=0.01, cfl=np.float32(0.5), penalty=1000000)
    assert (type(sim.cfl), type(sim.penalty)) == (float, float)
    assert type(Grid(8, 8, 1).h) is float
