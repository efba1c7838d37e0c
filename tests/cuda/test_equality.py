"""The same case on both backends."""

import numpy as np
import pytest

from flowsim import (
    Disk,
    Ellipse,
    Grid,
    HalfDisk,
    Jet,
    Sides,
    SignedDistance,
    Simulation,
    Spring,
    Temperature,
)
from flowsim.bodies.swimmers import anguilliform, carangiform, slender

CASES = {
    "wake": (
        Sides(bottom="slip", top="slip"),
        [
            HalfDisk(center=(1.2, 1.5)),
            Ellipse(center=(2.3, 1.6), angle=0.3, aspect=0.5, motion="free"),
        ],
        {},
    ),
    "periodic, light, falling": (
        Sides.all("periodic"),
        [Disk(center=(0.2, 1.5), motion="free", density=0.4)],
        {"gravity": (0.0, -1.0)},
    ),
    "open, any shape": (
        Sides(bottom="open", top="open"),
        [SignedDistance(function=lambda x, y: np.hypot(x, y) - 0.5, reach=0.6, center=(1.6, 1.4))],
        {"integrator": "euler"},
    ),
    "open all around, driven": (
        Sides.all("open"),
        [Disk(motion=lambda t: (1.6, 1.5 - 0.5 * t, 0.0, 0.0, -0.5, 0.0))],
        {"stream": (0.3, 0.2)},
    ),
    "open along a periodic box": (
        Sides("periodic", "periodic", "open", "open"),
        [Disk(center=(0.2, 1.5), motion="free", density=3.0)],
        {"gravity": (0.0, -1.0), "stream": (0.5, 0.0)},
    ),
    "far field, driven": (
        Sides("far_field", "outflow", "far_field", "far_field"),
        [Disk(motion=lambda t: (1.6, 1.5 + 0.1 * np.sin(t), 0.2 * t, 0.0, 0.1 * np.cos(t), 0.2))],
        {},
    ),
    "on springs, held, light": (
        Sides(bottom="slip", top="slip"),
        [
            Disk(
                center=(1.2, 1.5),
                motion="free",
                density=0.4,
                held=("x", "angle"),
                springs={"y": Spring(stiffness=20.0, damping=0.5, rest=1.4)},
            ),
            HalfDisk(
                center=(2.4, 1.4),
                angle=0.4,
                motion="free",
                density=3.0,
                held=("x", "y"),
                springs={"angle": Spring(stiffness=2.0)},
            ),
        ],
        {"gravity": (0.0, -1.0)},
    ),
    "swimmers that meet": (
        Sides.all("periodic"),
        [
            carangiform(
                center=(1.5, 1.4),
                length=0.8,
                half_width=lambda s: 3 * slender(s),
                ramp=0.1,
                phase=0.2,
            ),
            anguilliform(
                center=(1.6, 1.1),
                length=0.8,
                half_width=lambda s: 3 * slender(s),
                ramp=0.1,
                angle=0.8,
            ),
        ],
        {"stream": (0.0, 0.0)},
    ),
    "channel, perturbed": (
        Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic"),
        [Disk(center=(1.2, 1.4))],
        {"perturbation": 0.5},
    ),
    "jets": (
        Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic"),
        [Disk(center=(x, 1.5), diameter=2.6) for x in (1.6, 1.7, 1.8)],
        {"jets": [Jet(body=2, angle=0.7, width=0.6), Jet(point=(0.0, 1.3), width=0.5)]},
    ),
    "jets all around": (
        Sides("periodic", "periodic", "open", "open"),
        [Disk(center=(0.2, 1.5), diameter=2.6, motion="free", density=2.0)],
        {"jets": [Jet(angle=3.0, width=0.6, profile="parabolic")], "stream": (0.5, 0.0)},
    ),
    "driven by a force": (
        Sides("periodic", "periodic", "no_slip", "no_slip"),
        [Disk(center=(1.6, 1.5), motion="free")],
        {
            "body_force": [(0.3, 0.1), (0.0, 0.2)],
            "mean_velocity": [(None, None), (0.8, None)],
            "force_field": lambda x, y: (0.1 * np.sin(y), 0.2 * np.cos(x)),
        },
    ),
    "driven by its mean velocity": (
        Sides.all("periodic"),
        [Disk(center=(1.6, 1.5))],
        {"mean_velocity": (0.5, 0.1), "stream": (0.4, 0.0)},
    ),
    "convection": (
        Sides("periodic", "periodic", "no_slip", "no_slip"),
        [Disk(center=(0.2, 1.5), diameter=1.2), Disk(center=(2.0, 1.4))],
        {
            "stream": (0.3, 0.0),
            "temperature": Temperature(
                diffusivity=[0.03, 0.06],
                sides={"bottom": 1.0},
                fluxes={"top": 0.2},
                buoyancy=(0.3, 1.0),
                reference=0.2,
                initial=lambda x, y: np.sin(y) * np.cos(2 * x),
                bodies={0: 2.0},
            ),
        },
    ),
    "warm, open": (
        Sides("inflow", "outflow", "open", "open"),
        [Disk(center=(1.6, 1.5), motion="free")],
        {
            "temperature": Temperature(
                diffusivity=0.05, sides={"left": 0.4, "top": 1.0}, buoyancy=(0.1, 0.5), initial=0.3
            )
        },
    ),
    "cavity": (
        Sides("no_slip", "no_slip", "no_slip", "no_slip", top_velocity=1.0),
        [],
        {"stream": (0.0, 0.0)},
    ),
}
FIELDS = ("u", "v", "pressure", "temperature")


def pair(name: str, dtype: str, tiny: bool) -> list[Simulation]:
    sides, bodies, options = CASES[name]
    n = 1 if tiny else 8
    sensors = [(len(bodies) - 1, (0.6, 0.1))] if bodies else []
    return [
        Simulation(Grid(12 * n, 10 * n, 0.3 / n), sides, bodies, viscosity=[0.02, 0.05], batch=2, dtype=dtype,
                   backend=backend, sensors=sensors, **options)
        for backend in ("cpu", "cuda")
    ]  # fmt: skip


def assert_equal(cpu: Simulation, cuda: Simulation, tolerance: float) -> None:
    for sim in (cpu, cuda):
        sim.fill_ghosts()
    for name in FIELDS if cpu.heat is not None else FIELDS[:3]:
        for b in range(2):
            expected, got = cpu.get_state(b)[name], cuda.get_state(b)[name]
            # the pressure undoes the rounding of velocities within a step, and the last is a fifth of the others
            bound = 5 * tolerance if name == "pressure" and cpu.dtype == np.float32 else tolerance
            assert np.abs(expected - got).max() <= bound * np.abs(expected).max(), name
    for name, expected in vars(cpu.body_state).items():
        got = getattr(cuda.body_state, name)
        assert np.abs(expected - got).max(initial=0.0) <= tolerance * max(
            np.abs(expected).max(initial=0.0), 1.0
        ), name
    np.testing.assert_array_equal(cuda.steps, cpu.steps)
    np.testing.assert_allclose(cuda.time, cpu.time, rtol=tolerance)
    if cpu.is_forced:
        np.testing.assert_allclose(cuda.body_force, cpu.body_force, atol=1e3 * tolerance)
    np.testing.assert_allclose(cuda.sensed, cpu.sensed, atol=tolerance)
    np.testing.assert_allclose(cuda.jet_momentum, cpu.jet_momentum, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float64") for name in CASES]
    + [
        ("wake", "float32"),
        *(pytest.param(name, "float32", marks=pytest.mark.gpu) for name in CASES if name != "wake"),
    ],
)
def test_steps_are_the_same(name: str, dtype: str, tiny: bool) -> None:
    """Fields to 1e-10 in double and 1e-4 in single precision, after two steps in the simulator and 100 on a GPU.

    Then one of the batch goes on alone. The pressure in single precision to 5e-4: two runs on the CPU that begin a
    rounding apart differ by up to 2e-4.
    """
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    sims = pair(name, dtype, tiny)
    for sim in sims:
        sim.body_state.applied_force[1, :] = (0.1, 0.2)
        # of those that are held
        sim.body_state.target_angular_velocity[0, :] = 0.3
        sim.body_state.angular_acceleration[0, :] = 5.0
        sim.target_jet_flow_rates[:], sim.jet_ramp_rates[:] = 0.2, [[1.0], [np.inf]]
        sim.advance_steps(2 if tiny else 100)
        sim.advance(0.001, active=np.array([True, False]))
    assert_equal(*sims, tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["wake", "far field, driven", "swimmers that meet"])
def test_run_repeats_bit_for_bit(name: str, tiny: bool) -> None:
    """Sums over many blocks are added up in a fixed order, whichever block ends first."""
    states = []
    for _ in range(2):
        _, sim = pair(name, "float32", tiny)
        sim.advance_steps(60)
        states.append(sim.get_state(1))
    for field, first in states[0].items():
        np.testing.assert_array_equal(states[1][field], first, err_msg=field)


def test_sampled_fields_are_the_same(tiny: bool) -> None:
    """Vorticity, solid fractions, velocities at points: kernels of one backend, sweeps of the other."""
    cpu, cuda = pair("wake", "float64", tiny)
    for sim in (cpu, cuda):
        u, v = sim.grid.u_faces(), sim.grid.v_faces()
        sim.set_velocity(0, 1 + u[1] ** 2, 0.3 * v[0])
    points = np.random.default_rng(0).uniform(-0.2, 4.0, size=(2, 5, 2))
    np.testing.assert_allclose(
        cuda.sample_velocity(points), cpu.sample_velocity(points), atol=1e-12
    )
    np.testing.assert_allclose(cuda.vorticity(), cpu.vorticity(), atol=1e-10)
    np.testing.assert_allclose(cuda.solid(), cpu.solid(), atol=1e-12)
    np.testing.assert_allclose(cuda.max_divergence(), cpu.max_divergence(), atol=1e-10)
