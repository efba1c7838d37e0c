"""Bodies with held degrees of freedom, springs and dampers: exact solutions, restarts, stability, invalid input."""

from typing import Any

import numpy as np
import pytest
from scipy.special import kve

from flowsim import Body, Disk, Ellipse, Grid, HalfDisk, Sides, Simulation, Spring, polygon
from flowsim.bodies.swimmers import carangiform

HEAVY = 1000.0


def still(body: Body, cells: int = 12, **options: Any) -> Simulation:
    """A body in still fluid, in a box of 4 x 4."""
    sides = options.pop("sides", Sides.all("slip"))
    options = {"viscosity": 0.01, "stream": (0.0, 0.0), "dtype": "float64"} | options
    return Simulation(Grid(4 * cells, 4 * cells, 1 / cells), sides, [body], **options)


def stokes_oscillator(
    time: float, density: float, stiffness: float, damping: float, viscosity: float
) -> float:
    """Place over first place of a sprung disk released from rest in fluid: unsteady Stokes flow, any density.

    (A s (rho + 1 + 4 K_1(z)/(z K_0(z))) + c + k/s) V = -k/s with z = R sqrt(s/nu), as for the disk that falls in
    ``flowsim validate --case added-mass``, inverted on Talbot's contour (Abate and Valko 2004).
    """
    terms = 48
    angle = np.arange(1, terms) * np.pi / terms
    cot = 1 / np.tan(angle)
    s = np.concatenate([[2 * terms / 5], 0.4 * terms * angle * (cot + 1j)]) / time
    weight = np.concatenate([[0.5], 1 + 1j * angle * (1 + cot**2) - 1j * cot]) * np.exp(s * time)
    z = 0.5 * np.sqrt(s / viscosity)
    mass = np.pi / 4 * (density + 1 + 4 * kve(1, z) / (z * kve(0, z)))
    place = (1 - stiffness / s / (mass * s + damping + stiffness / s)) / s
    return float(0.4 / time * (weight * place).real.sum())


@pytest.mark.slow
@pytest.mark.parametrize(("density", "damping"), [(0.5, 0.0), (2.0, 0.0), (2.0, 1.0), (10.0, 2.0)])
def test_sprung_disk_in_still_fluid_follows_the_exact_solution(
    density: float, damping: float
) -> None:
    """Its added mass and its boundary layer set period and decay; it moves a fiftieth of its diameter."""
    stiffness = (density + 1) * np.pi / 4 * np.pi**2  # a period of about 2
    spring = Spring(stiffness=stiffness, damping=damping, rest=1.98)
    disk = Disk(
        center=(2.003, 2.0), density=density, motion="free", held=("x",), springs={"y": spring}
    )
    sim = still(disk, cells=32, sides=Sides.all("far_field"), dtype="float32")
    for time in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0):
        sim.advance(time - float(sim.time[0]))
        found = (sim.body_state.position[0, 0, 1] - 1.98) / 0.02
        expected = stokes_oscillator(time, density, stiffness, damping, 0.01)
        assert found == pytest.approx(expected, abs=0.03), time


def test_a_heavy_body_on_springs_follows_cosines_along_every_degree_of_freedom() -> None:
    """Without losing amplitude over two periods: the trapezoidal rule adds no damping."""
    body = Ellipse(
        center=(2.0, 2.0),
        aspect=0.5,
        angle=0.3,
        density=HEAVY,
        motion="free",
        springs={
            "x": Spring(stiffness=HEAVY * 16, rest=1.96),
            "y": Spring(stiffness=HEAVY * 9, rest=2.05),
            "angle": Spring(stiffness=HEAVY * 0.2, rest=0.2),
        },
    )
    sim = still(body, viscosity=0.05)  # for a short step: a hundredth of the shortest period
    rates = np.sqrt(HEAVY * np.array([16, 9, 0.2]) / [body.mass, body.mass, body.inertia])
    rest = np.array([1.96, 2.05, 0.2])
    start = np.array([2.0, 2.0, 0.3])
    for time in (0.7, 1.6, 3.0):
        sim.advance(time - float(sim.time[0]))
        now = np.append(sim.body_state.position[0, 0], sim.body_state.angle[0, 0])
        exact = rest + (start - rest) * np.cos(rates * time)
        np.testing.assert_allclose(now, exact, atol=0.04 * 0.1)


def test_a_heavy_body_with_a_damper_alone_slows_exponentially() -> None:
    disk = Disk(
        center=(2.0, 2.0), density=HEAVY, motion="free", springs={"x": Spring(damping=HEAVY)}
    )
    sim = still(disk)
    sim.body_state.velocity[0, 0] = (0.1, 0.0)
    sim.settle()
    sim.advance(1.0)
    expected = 0.1 * np.exp(-HEAVY / disk.mass)
    assert sim.body_state.velocity[0, 0, 0] == pytest.approx(expected, rel=0.01)


def test_a_heavy_plate_held_at_its_pivot_is_a_pendulum() -> None:
    """Its period about the fixed reference point is 2 pi sqrt(I / (M g a)); also at large angles."""
    heavy = 1e5
    plate = polygon(
        [(0.0, -0.15), (1.2, -0.15), (1.2, 0.15), (0.0, 0.15)],
        center=(1.9, 2.7),
        angle=-np.pi / 2 + 0.8,
        density=heavy,
        motion="free",
        held=("x", "y"),
    )
    sim = still(plate, gravity=(0.0, -1.0), viscosity=0.05)
    arm = plate.centroid[0]
    angle, rate, dt = 0.8, 0.0, 1e-3
    for _ in range(3000):  # d^2 angle / dt^2 = -M g a sin(angle) / I, by the midpoint rule
        middle = angle + 0.5 * dt * rate
        rate -= dt * (heavy - 1) / heavy * plate.mass * arm * np.sin(middle) / plate.inertia
        angle = middle + 0.5 * dt * rate
    sim.advance(3.0)
    state = sim.body_state
    assert state.angle[0, 0] + np.pi / 2 == pytest.approx(angle, abs=1e-3)
    assert tuple(state.position[0, 0]) == (1.9, 2.7)
    assert not state.velocity[0, 0].any()


@pytest.mark.parametrize("density", [0.3, 1.0, 3.0])
def test_held_degrees_of_freedom_stay_fixed_and_free_ones_move(density: float) -> None:
    for held in (("x",), ("y",), ("angle",), ("x", "angle"), ("x", "y"), ("y", "angle")):
        half = HalfDisk(center=(1.6, 2.07), angle=0.4, density=density, motion="free", held=held)
        sim = still(half, stream=(1.0, 0.0), sides=Sides())
        sim.body_state.applied_torque[:] = 0.05
        start = {"x": 1.6, "y": 2.07, "angle": 0.4}
        sim.advance_steps(15)
        state = sim.body_state
        now = dict(zip(start, (*state.position[0, 0], state.angle[0, 0]), strict=True))
        speed = dict(zip(start, (*state.velocity[0, 0], state.angular_velocity[0, 0]), strict=True))
        for name, value in start.items():
            assert bool(now[name] == value) is (name in held), (name, held)
            assert bool(speed[name] == 0.0) is (name in held), (name, held)


def test_held_body_has_the_force_and_torque_of_a_fixed_one() -> None:
    """For a body that can only move vertically, on a stiff spring; also if it is lighter than the fluid."""
    place = {"center": (1.6, 2.07), "angle": 0.4}
    fixed = still(HalfDisk(**place), stream=(1.0, 0.0), sides=Sides())
    fixed.advance(0.5)
    for density in (0.5, 2.0):
        held = HalfDisk(
            **place,
            density=density,
            motion="free",
            held=("x", "angle"),
            springs={"y": Spring(stiffness=1e6, damping=1e4)},
        )
        sim = still(held, stream=(1.0, 0.0), sides=Sides())
        sim.advance(0.5)
        for name in ("force", "torque"):
            mine, other = (getattr(one.body_state, name)[0, 0] for one in (sim, fixed))
            np.testing.assert_allclose(mine, other, atol=0.02, err_msg=f"{name}, {density}")


def test_light_bodies_on_springs_come_to_rest() -> None:
    """A tenth of the fluid's density, released away from the rest position in still fluid."""
    for stiffness in (0.5, 50.0, 5000.0):
        spring = Spring(stiffness=stiffness, rest=1.9)
        body = Disk(center=(2.0, 2.0), density=0.1, motion="free", springs={"y": spring})
        sim = still(body, viscosity=0.05)
        farthest = 0.0
        for _ in range(40):
            sim.advance_steps(5)
            farthest = max(farthest, abs(float(sim.body_state.position[0, 0, 1]) - 1.9))
        assert not sim.diverged[0]
        assert farthest <= 0.1, stiffness


def test_each_flow_has_its_own_springs_and_restart_keeps_them() -> None:
    body = Disk(
        center=(1.5, 2.03), density=2.0, motion="free", held=("x", "angle"), springs={"y": Spring()}
    )
    options: dict[str, Any] = {"stream": (1.0, 0.0), "sides": Sides(), "perturbation": 0.5}
    sim = still(body, batch=3, **options)
    sim.spring_stiffness[:, 0, 1], sim.spring_damping[:, 0, 1] = (0.0, 4.0, 30.0), (0.0, 1.0, 0.0)
    sim.reset()
    sim.advance_steps(12)
    for b in range(3):
        alone = still(body, **options)
        alone.spring_stiffness[0], alone.spring_damping[0] = (
            sim.spring_stiffness[b],
            sim.spring_damping[b],
        )
        alone.advance_steps(12)
        np.testing.assert_array_equal(alone.u[0], sim.u[b])
        np.testing.assert_array_equal(alone.body_state.position[0], sim.body_state.position[b])
    assert len({float(y) for y in sim.body_state.position[:, 0, 1]}) == 3
    other = still(body, **options)
    other.set_state(0, sim.get_state(2))
    sim.advance_steps(10)
    other.advance_steps(10)
    np.testing.assert_array_equal(other.u[0], sim.u[2])
    np.testing.assert_array_equal(other.body_state.position[0], sim.body_state.position[2])


def test_spring_rest_position_is_the_start_or_as_given() -> None:
    springs = {"y": Spring(stiffness=1.0), "angle": Spring(stiffness=1.0, rest=0.5)}
    sim = still(Ellipse(center=(2.0, 1.8), angle=0.2, motion="free", springs=springs))
    np.testing.assert_array_equal(sim.spring_rest[0, 0], [2.0, 1.8, 0.5])
    np.testing.assert_array_equal(sim.spring_stiffness[0, 0], [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"held": ("z",)}, "'z' is no degree of freedom"),
        ({"held": "angle"}, "must be a tuple of names"),
        ({"held": ("x", "y", "angle")}, 'motion="fixed"'),
        ({"springs": {"roll": Spring()}}, "'roll' is no degree of freedom"),
        ({"springs": {"x": 3.0}}, "must be a Spring"),
        ({"held": ("x",), "springs": {"x": Spring()}}, "drop one"),
        ({"motion": "fixed", "held": ("x",)}, 'give it motion="free"'),
        ({"motion": "fixed", "springs": {"x": Spring()}}, 'give it motion="free"'),
    ],
)
def test_invalid_mount_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Disk(**({"motion": "free"} | options))


def test_springs_without_effect_are_refused() -> None:
    for options in ({"stiffness": -1.0}, {"damping": np.nan}, {"rest": np.inf}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Spring(**options)
    with pytest.raises(ValueError, match="no body of this simulation has springs"):
        still(Disk(center=(2.0, 2.0), motion="free")).spring_stiffness[:] = 1.0
    with pytest.raises(ValueError, match="neither held"):
        carangiform(center=(1.0, 1.0), held=("x",))


@pytest.mark.parametrize("density", [0.5, 1.0])
@pytest.mark.parametrize(
    "mount", [{"held": ("angle",)}, {"springs": {"angle": Spring(stiffness=1.0)}}]
)
def test_body_without_fluid_under_it_keeps_its_motion(
    mount: dict[str, Any], density: float
) -> None:
    body = Disk(diameter=0.6, center=(3.4, 2.0), motion="free", density=density, **mount)
    sim = Simulation(Grid(32, 32, 1 / 8), Sides(), [body], viscosity=1 / 50)
    sim.body_state.velocity[0, 0] = (1.0, 0.0)
    sim.settle()
    sim.advance(4.0)
    state = sim.body_state
    assert not sim.diverged[0]
    assert sim.time[0] == pytest.approx(4.0)
    assert state.position[0, 0, 0] > 5.0
    assert 0.1 < state.velocity[0, 0, 0] < 2.0
    assert (state.force[0, 0] == 0.0).all()
