"""What `Simulation` refuses, says and derives again instead of taking it without a word."""

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, Simulation, polygon
from flowsim.bodies.motions import oscillation, ramp
from flowsim.bodies.resolution import blockage

GRID = Grid(64, 64, 1 / 16)
CHANNEL = Sides("inflow", "outflow", "no_slip", "no_slip")
STEP = polygon([(-2, -1), (2, -1), (2, 1), (-2, 1)], center=(1, 1))


def make(bodies=(), sides=None, **options):
    return Simulation(GRID, sides, bodies, **({"viscosity": 0.01} | options))


@pytest.mark.parametrize(
    ("bodies", "options", "words"),
    [
        ([Disk(center=(9.0, 2.0))], {}, "body 0 is at x = 9, outside the box of 4 x 4"),
        ([Disk(center=(np.nan, 2.0))], {}, "must be finite"),
        ([Disk(center=(2.0, 2.0), angle=np.inf)], {}, "must be finite"),
        ([STEP], {"sides": CHANNEL}, "covers a part of the left side"),
        ([Disk(motion=lambda t: (1.5 + 0.5 * t, 2, 0, 0, 0, 0))], {}, "derivative of its position"),
        ([Disk(motion=lambda t: (1.5, 2.0, 0.0))], {}, "returns 3 numbers"),
        ([Disk(motion=lambda t: 1.5)], {}, "must return"),
        ([], {"stream": (-1.0, 0.0)}, "enters through the right side, which is outflow"),
        ([], {"stream": (np.nan, 0.0)}, "stream = "),
        ([], {"gravity": (0.0, [1, 2, 3])}, "gravity = "),
        ([], {"viscosity": [0.01, 0.02]}, r"viscosity has the shape \(2,\)"),
        ([], {"perturbation": np.inf}, "perturbation"),
    ],
)
def test_refused(bodies, options, words):
    with pytest.raises(ValueError, match=words):
        make(bodies, **options)


def test_light_free_bodies_that_overlap_are_refused():
    heavy = Disk(center=(2.0, 2.0), density=2.0, motion="free")
    light = Disk(center=(2.3, 2.2), density=0.5, motion="free")
    with pytest.raises(ValueError, match="bodies 0 and 1 overlap, and body 1"):
        make([heavy, light], sides=Sides.all("no_slip"), stream=(0.0, 0.0))
    apart = Disk(center=(3.2, 2.2), density=0.5, motion="free")
    make([heavy, apart], sides=Sides.all("no_slip"), stream=(0.0, 0.0))


def test_motions_of_the_library_and_with_a_kink_are_taken():
    make([Disk(motion=oscillation((2.0, 2.0), 0.2, 2.0, pitch=0.3))])
    make([Disk(motion=ramp((2.0, 2.0), (0.2, 0.0), 0.57, smooth=False))])


def test_describe_knows_the_viscous_limit_and_warns_of_a_leak():
    body = Disk(center=(2.0, 2.0))
    slow = Simulation(GRID, CHANNEL, [body], viscosity=100.0)
    (dt,) = (float(word) for word in slow.describe().split("dt <= ")[1].split(" ")[:1])
    slow.step()
    assert dt == pytest.approx(slow.dt[0], rel=0.05)
    assert "of the flow leaks through bodies; penalty = " in slow.describe()
    assert "leaks through" not in make([body]).describe()
    driven = make([Disk(center=(3.0, 3.0), motion=oscillation((2.0, 2.0), 0.2, 2.0))])
    assert "body 0 is driven: it starts at (2, 2)" in driven.describe()


def test_a_body_that_left_the_box_blocks_nothing():
    sim = make([Disk(center=(2.0, 2.0))])
    assert blockage(sim)[0] == pytest.approx(0.25, rel=0.01)
    sim.body_state.position[0, 0] = 9.0, 2.0
    assert blockage(sim)[0] == 0.0


def test_after_set_velocity_step_and_history_are_those_of_the_new_flow():
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
