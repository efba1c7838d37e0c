"""Bodies: shapes, motions, light and heavy free bodies, contact."""

import dataclasses

import numpy as np
import pytest

from flowsim import (
    Contact,
    Disk,
    Ellipse,
    Grid,
    HalfDisk,
    Sides,
    SignedDistance,
    Simulation,
    Union,
    polygon,
)
from flowsim.bodies.motions import added, oscillation, ramp, rotation
from flowsim.kernels.cell import surface_share


@pytest.mark.parametrize("distance", [0.1, 0.3, 0.9])
def test_linear_profile_at_a_wall_between_grid_points_is_preserved(distance) -> None:
    """Diffuse u = d once, with the point beyond the wall at rest like the body, then penalise: nothing changes."""
    diffusion, depth = 0.07, 1.0 - distance
    diffused = distance + diffusion * ((distance + 1.0) - 2.0 * distance + 0.0)
    assert diffused * (1.0 - surface_share(distance, depth, diffusion, 1.0)) == pytest.approx(
        distance
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("body", [
    Ellipse(center=(0.05, 2.0), major=1.5, aspect=0.7, angle=0.4),
    HalfDisk(center=(2.0, 3.98), angle=-1.1),
    Union(center=(1.0, 0.2), parts=[Disk(diameter=1.2), Disk(center=(0.9, 0.3))]),
])  # fmt: skip
def test_solid_fractions_of_faces_follow_from_distances(body, dtype) -> None:
    """Each face's fraction follows from distances at it and its four neighbours, in the box and its eight images."""
    n, h, nu = 64, 1 / 16, 0.01
    sim = tank(body, sides="periodic", dtype=dtype, viscosity=nu, cfl=0.25)
    sim.advance_steps(1)
    lambda_dt, diffusion = sim.penalty * sim.dt[0], nu * sim.dt[0] / h**2
    # the step is shorter than the longest stable one of CFL 0.5, so that shares are those of a rate
    steps = sim.dt[0] / min(0.5 * h, 0.9 / (4 / 3 / h + 8 * nu / h**2))
    assert steps < 0.75

    def rate(chi):
        return 1 / (1 + (1 - chi) / np.maximum(chi * steps, 1e-300))

    cos, sin = np.cos(body.angle), np.sin(body.angle)

    def distance(x, y):
        images = [
            (x - body.center[0] - 4 * i, y - body.center[1] - 4 * j)
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
        ]
        return np.min(
            [body.distance(cos * rx + sin * ry, cos * ry - sin * rx) for rx, ry in images], axis=0
        )

    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    shares = sim._device_state.fields.shares
    for share, dx, dy in ((shares[0], 0.0, 0.5), (shares[1], 0.5, 0.0)):
        d, west, east, south, north = (
            distance((i + dx + a) * h, (j + dy + b) * h)
            for a, b in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
        )
        held = rate(np.clip(0.5 - d / h, 0, 1)) * lambda_dt / (1 + lambda_dt)
        depth = sum(-np.minimum(next_to, 0) for next_to in (west, east, south, north))
        normal = (east - west, north - south)[dy == 0.0] ** 2 / (
            (east - west) ** 2 + (north - south) ** 2 + 1e-30
        )
        wall = np.minimum(diffusion * depth / (d + diffusion * depth + 1e-30), rate(0.5))
        facing = rate(normal * np.clip(0.5 - d / h, 0, 1)) * lambda_dt / (1 + lambda_dt)
        expected = np.where((d > 0) & (d < h), np.maximum(wall, facing), held)
        inner = sim.to_host(share)[0, 2 : n + 2, 2 : n + 2]
        tabulated = isinstance(body, Union)
        np.testing.assert_allclose(
            inner, expected, atol=0.035 if tabulated else 2e-4 if dtype == "float32" else 1e-9
        )


def square(x, y):
    qx, qy = np.abs(x) - 0.5, np.abs(y) - 0.25
    return np.hypot(np.maximum(qx, 0), np.maximum(qy, 0)) + np.minimum(np.maximum(qx, qy), 0)


def tank(*bodies, cells: int = 64, h: float = 1 / 16, sides: str = "slip", **options) -> Simulation:
    options = {"viscosity": 0.01, "stream": (0.0, 0.0), "dtype": "float64"} | options
    return Simulation(Grid(cells, cells, h), Sides.all(sides), bodies, **options)


@pytest.mark.parametrize(("body", "area", "centroid", "second_moment"), [
    (SignedDistance(function=square, reach=0.7), 0.5, (0, 0), 0.5 * (1 + 0.25) / 12),
    (polygon([(-0.5, -0.25), (1, -0.25), (-0.5, 0.5)]), 9 / 16, (0, 0), (1.5**3 * 0.75 + 1.5 * 0.75**3) / 36),
    (Union(parts=[Disk(center=(1, 0.5))]), np.pi / 4, (1, 0.5), np.pi / 4 * (1 / 8 + 1.25)),
    (Union(parts=[HalfDisk(angle=np.pi / 2)]), np.pi / 8, (0, -2 / (3 * np.pi)), np.pi / 64),
    (Union(parts=[Disk(center=(-1, 0)), Disk(center=(1, 0))]), np.pi / 2, (0, 0), np.pi / 2 * (1 / 8 + 1)),
])  # fmt: skip
def test_masses_from_the_distance(body, area, centroid, second_moment) -> None:
    assert body.area == pytest.approx(area, rel=1e-3)
    assert body.centroid == pytest.approx(centroid, abs=1e-3)
    assert body.second_moment == pytest.approx(second_moment, rel=2e-3)
    placed = type(body)(**(vars_of(body) | {"center": (2.0, 2.0), "angle": 0.4}))
    assert tank(placed, cells=128, h=1 / 32).solid().sum() / 32**2 == pytest.approx(area, rel=0.01)


def test_distance_from_a_polygon() -> None:
    rectangle = [(-0.5, -0.25), (0.5, -0.25), (0.5, 0.25), (-0.5, 0.25)]
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 1000))
    for corners in (rectangle, rectangle[::-1]):
        np.testing.assert_allclose(polygon(corners).distance(x, y), square(x, y), atol=1e-12)
    # an arrowhead has a corner that looks inwards; distances by hand
    arrow = polygon([(0.0, 0.0), (-1.0, 1.0), (1.0, 0.0), (-1.0, -1.0)])
    points = np.array([(-0.5, 0.0), (0.5, 0.0), (2.0, 0.0), (-1.0, 2.0), (0.1, 0.0)])
    exact = [np.sqrt(0.125), -0.5 / np.sqrt(5), 1.0, 1.0, -0.1]
    np.testing.assert_allclose(arrow.distance(*points.T), exact, atol=1e-12)
    assert arrow.area == pytest.approx(1.0, rel=1e-3)


def vars_of(body) -> dict:
    return {field.name: getattr(body, field.name) for field in dataclasses.fields(body)}


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: SignedDistance(function=lambda x, y: x**2 + y**2 - 1, reach=1.5), "this one has 2"),
    (lambda: SignedDistance(function=lambda x, y: 3 * np.hypot(x, y) - 0.75, reach=1.0), "this one has 3"),
    (lambda: SignedDistance(function=lambda x, y: np.hypot(x, y) - 2.0, reach=1.0), "must be positive"),
    (lambda: SignedDistance(function=lambda x, y: np.hypot(x, y) + 1.0, reach=1.0), "negative nowhere"),
    (lambda: SignedDistance(function=lambda x, y: x * np.nan, reach=1.0), "one finite number"),
    (lambda: SignedDistance(function=lambda x, y: 1.0, reach=1.0), "one finite number"),
    (lambda: Union(parts=[]), "at least one body"),
    (lambda: polygon([(0, 0), (1, 1)]), "at least three corners"),
    (lambda: polygon([(0, 0), (1, 1), (2, 2)]), "not in line"),
    (lambda: oscillation((0, 0), 1.0, 0.0), "period = 0.0"),
    (lambda: ramp((0, 0), (1, 0), -1.0), "duration = -1.0"),
])  # fmt: skip
def test_invalid_bodies_are_refused_in_one_sentence(make, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_tabulated_ellipse_moves_as_the_built_in_one() -> None:
    given = {"center": (2.0, 2.0), "angle": 0.3, "motion": "free", "density": 2.0}
    one = tank(Ellipse(aspect=0.5, **given))
    other = tank(Union(parts=[Ellipse(aspect=0.5)], **given))
    for sim in (one, other):
        sim.body_state.applied_force[:], sim.body_state.applied_torque[:] = (0.1, 0.2), 0.02
        sim.advance(1.0)
    np.testing.assert_allclose(other.body_state.velocity, one.body_state.velocity, rtol=0.02)
    np.testing.assert_allclose(
        other.body_state.angular_velocity, one.body_state.angular_velocity, rtol=0.03
    )


def test_a_free_half_disk_moves_as_the_same_shape_about_its_centre_of_mass() -> None:
    """The motion does not depend on the reference point: the middle of the flat side or the centre of mass."""
    cx = -2 / (3 * np.pi)
    half = HalfDisk(center=(2.0, 2.0), motion="free", density=2.0)
    shifted = Union(
        parts=[HalfDisk(center=(-cx, 0.0))], center=(2.0 + cx, 2.0), motion="free", density=2.0
    )
    one, other = tank(half), tank(shifted)
    for sim in (one, other):
        sim.body_state.applied_force[:], sim.body_state.applied_torque[:] = (0.0, 0.2), 0.05
        sim.advance(1.5)
    a, b = one.body_state, other.body_state
    theta = a.angle[0, 0]
    lever = cx * np.array([np.cos(theta), np.sin(theta)])
    assert abs(theta) > 0.1
    assert b.angle[0, 0] == pytest.approx(theta, rel=0.03)
    np.testing.assert_allclose(a.position[0, 0] + lever, b.position[0, 0], atol=0.01)


@pytest.mark.parametrize("motion", [
    oscillation((1, 2), 0.5, 3.0, direction=0.7, phase=0.3, angle=0.1, pitch=0.2),
    rotation((1, 2), -0.7, angle=0.2),
    ramp((1, 2), (1.0, -0.5), 0.8),
    ramp((1, 2), (1.0, -0.5), 0.8, smooth=False),
    added(rotation((1, 2), 2.0), ramp((0, 0), (1.0, 0.0), 1.0)),
])  # fmt: skip
def test_velocities_are_the_derivatives_of_the_positions(motion) -> None:
    for t in (0.1, 0.5, 1.7):
        ahead, behind, now = (np.array(motion(t + e)) for e in (1e-5, -1e-5, 0.0))
        np.testing.assert_allclose((ahead - behind)[:3] / 2e-5, now[3:], atol=1e-6)


@pytest.mark.parametrize("density", [0.1, 0.5, 0.9, 1.1, 2.0, 10.0, 1000.0])
def test_a_disk_released_from_rest(density: float) -> None:
    """Its acceleration is g (rho - 1) / (rho + c), c = 1 in free space and 1.18 at 16 cells per D in this box.

    A cut cell takes a few hundredths of a D/U to follow a sudden motion, so the lightest body, which accelerates most,
    has 6 % more.
    """
    disk = Disk(center=(4.0, 4.0), density=density, motion="free")
    sim = tank(disk, cells=128, viscosity=1e-4, gravity=(0.0, 1.0), cfl=0.1)
    rows = []
    for _ in range(24):
        sim.step()
        rows.append((sim.time[0], sim.body_state.velocity[0, 0, 1]))
    (t, v) = np.array(rows).T
    acceleration = np.diff(v[8:]) / np.diff(t[8:])
    added_mass = (density - 1) / acceleration.mean() - density
    assert acceleration.mean() == pytest.approx((density - 1) / (density + 1.18), rel=0.07), (
        added_mass
    )
    assert np.ptp(acceleration) < 0.1 * abs(acceleration.mean())  # no oscillations


@pytest.mark.parametrize("density", [0.1, 0.4, 3.0])
@pytest.mark.parametrize("kind", [Ellipse, HalfDisk])
def test_mass_times_acceleration_is_the_force(density: float, kind) -> None:
    """To round-off in every step, and smooth for thin and light bodies."""
    body = kind(center=(2.0, 2.0), angle=0.3, density=density, motion="free")
    sim = tank(body, viscosity=1 / 200, gravity=(0.1, -0.3))
    state, gravity = sim.body_state, np.array([0.1, -0.3])
    state.applied_force[0, 0], state.applied_torque[0, 0] = (0.02, 0.01), 0.005

    def motion() -> tuple[np.ndarray, float, np.ndarray]:
        theta, omega = state.angle[0, 0], state.angular_velocity[0, 0]
        c, s = np.cos(theta), np.sin(theta)
        lever = np.array([[c, -s], [s, c]]) @ body.centroid
        return state.velocity[0, 0] + omega * np.array([-lever[1], lever[0]]), omega, lever

    changes = []
    for _ in range(60):
        v, omega, _ = motion()
        sim.step()
        new_v, new_omega, lever = motion()
        dt = sim.dt[0]
        force = state.force[0, 0] + state.applied_force[0, 0] + (body.mass - body.area) * gravity
        np.testing.assert_allclose(body.mass * (new_v - v) / dt, force, atol=1e-9)
        # about the centre of mass; the lever has turned a little since the torque was taken
        pull = (
            state.torque[0, 0] - lever[0] * state.force[0, 0, 1] + lever[1] * state.force[0, 0, 0]
        )
        inertia = body.inertia - body.mass * (lever @ lever)
        loose = 1e-9 if kind is Ellipse else 1e-3
        assert inertia * (new_omega - omega) / dt == pytest.approx(
            pull + state.applied_torque[0, 0], abs=loose
        )
        changes.append([*(new_v - v), new_omega - omega])
    changes = np.array(changes)[10:]
    shaking = (changes[1:] * changes[:-1] < 0) & (np.abs(np.diff(changes, axis=0)) > 2e-3)
    assert not shaking.any()


def test_disk_lighter_than_the_fluid_rises_smoothly() -> None:
    sim = tank(
        Disk(center=(2.0, 1.0), density=0.1, motion="free"), viscosity=1 / 50, gravity=(0.0, -0.5)
    )
    rows = []
    sim.advance(
        5.0,
        stop=lambda s: (
            rows.append(s.body_state.velocity[0, 0, 1]) or s.body_state.contact.any(axis=1)
        ),
    )
    change = np.diff(rows)[5:]
    assert len(rows) > 60
    assert np.abs(np.diff(change)).max() < 0.02
    assert rows[-1] > 0.1


@pytest.mark.parametrize("below", [None, "fixed", "free"])
def test_a_sinking_disk_meets_the_floor_or_another_body(below) -> None:
    bodies = [Disk(diameter=0.5, center=(1.0, 1.2), density=3.0, motion="free")]
    floor = 0.0
    if below:
        bodies.append(Disk(diameter=0.5, center=(1.0, 0.35), density=5.0, motion=below))
    sim = tank(*bodies, cells=64, h=1 / 32, viscosity=0.02, gravity=(0.0, -1.0), sides="no_slip")
    stopped = sim.advance(5.0, stop=lambda s: s.body_state.contact[:, 0] != 0)
    assert stopped[0]
    state = sim.body_state
    if below:
        gap = np.hypot(*(state.position[0, 0] - state.position[0, 1])) - 0.5
        floor = Contact.BODY
    else:
        gap = state.position[0, 0, 1] - 0.25
        floor = Contact.BOX
    assert state.contact[0, 0] == floor
    assert gap == pytest.approx(1 / 32, abs=0.01)
    for _ in range(200):
        sim.step()
    assert not sim.diverged.any()
    assert np.isfinite(sim.u).all()
    assert np.isfinite(np.hstack([state.force[0], state.velocity[0]])).all()


def test_crossing_a_periodic_side_does_not_change_a_body() -> None:
    sides = Sides("periodic", "periodic", "periodic", "periodic")
    runs = []
    for x, y in ((1.0, 1.0), (3.5, 3.625)):
        body = Ellipse(center=(x, y), angle=0.4, density=2.0, motion="free")
        sim = Simulation(
            Grid(64, 64, 1 / 16), sides, [body], viscosity=0.01, stream=(0.0, 0.0), dtype="float64"
        )
        sim.body_state.applied_force[:], sim.body_state.applied_torque[:] = (0.3, 0.3), 0.01
        sim.advance(2.0)
        assert not sim.body_state.contact.any()
        assert sim.solid().sum() / 256 == pytest.approx(body.area, rel=0.02)
        runs.append(
            np.array([*(sim.body_state.position[0, 0] - (x, y)), sim.body_state.angle[0, 0]])
        )
    assert runs[0][0] > 0.5
    np.testing.assert_allclose(runs[1], runs[0], atol=1e-9)


def test_restart_of_a_light_body_continues_bit_for_bit() -> None:
    first, second = (
        tank(Ellipse(center=(2, 2), density=0.2, motion="free"), gravity=(0, -1.0))
        for _ in range(2)
    )
    first.advance(0.5)
    second.set_state(0, first.get_state(0))
    first.advance(0.5)
    second.advance(0.5)
    np.testing.assert_array_equal(first.body_state.velocity, second.body_state.velocity)
    first.reset()
    assert not first.body_state.fluid_acceleration.any()


@pytest.mark.parametrize("threads", [1, 2])
def test_contact_stops_a_flow_in_the_same_step_as_a_check_after_each_step(threads: int) -> None:
    """The second of three stones falls on the first, the third on the ground; one flow checks this in a callback."""

    def stones() -> Simulation:
        bodies = [
            Disk(center=(1.0, 1.0), diameter=0.5),
            Disk(center=(1.1, 1.9), diameter=0.5, density=2.0, motion="free"),
            Disk(center=(3.0, 0.5), diameter=0.5, density=2.0, motion="free"),
        ]
        return Simulation(
            Grid(64, 48, 1 / 16),
            Sides.all("no_slip"),
            bodies,
            viscosity=0.01,
            batch=3,
            stream=(0.0, 0.0),
            gravity=(0.0, -1.0),
            threads=threads,
        )

    wanted = np.array([Contact.BOX, Contact.BODY, Contact.NONE])

    def touches(flows: Simulation) -> np.ndarray:
        return ((flows.body_state.contact & wanted[:, None]) > 0).any(axis=1)

    looked, told = stones(), stones()
    told.ending_contacts[:] = wanted[:, None]
    stopped = looked.advance(3.0, stop=touches)
    assert stopped.tolist() == [True, True, False]
    assert told.advance(3.0).tolist() == stopped.tolist()
    assert looked.steps[0] != looked.steps[1]
    for b in range(3):
        one, other = looked.get_state(b), told.get_state(b)
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)
