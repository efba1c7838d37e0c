"""A body whose position is not finite covers nothing, and nothing outside of its arrays is accessed.

The same functions run on both backends; ``tests/cuda/test_lost_windows.py`` tests them in kernels.
"""

import math

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, SignedDistance, Simulation
from flowsim.bodies.swimmers import carangiform
from flowsim.boundary import Side
from flowsim.kernels.body_geometry import face_range, image, within

LOST = [math.nan, math.inf, -math.inf, 1e30, -1e30]


@pytest.mark.parametrize("side", [Side.PERIODIC, Side.NO_SLIP])
@pytest.mark.parametrize("x", LOST)
def test_window_of_a_body_with_nonfinite_position_is_empty(x: float, side: Side) -> None:
    low, high = face_range(within(x, 4.0, int(side)), 0.6, 0.25, 16, int(side))
    assert low == high
    assert -16 <= low <= 16
    assert not math.isfinite(image(math.nan, 1.0, 4.0, int(side)))


def test_window_of_a_body_with_nonfinite_angle_is_empty() -> None:
    assert face_range(1.0, math.nan, 0.25, 16, int(Side.PERIODIC)) == (0, 0)


@pytest.mark.parametrize("side", [Side.PERIODIC, Side.NO_SLIP])
@pytest.mark.parametrize("reach", [0.3, 0.6, 1.7, 2.5, 9.0])
def test_other_windows_are_unchanged(side: Side, reach: float) -> None:
    n, h = 16, 0.25
    for x in np.linspace(-0.5, 4.5, 101) if side != Side.PERIODIC else np.linspace(0.0, 4.0, 101):
        i0, i1 = math.floor((x - reach) / h), math.ceil((x + reach) / h) + 1
        if side == Side.PERIODIC:
            expected = max(i0, -n), min(i1, max(i0, -n) + n)
        else:
            expected = min(max(i0, 0), n), max(min(i1, n), 0)
        assert face_range(float(x), reach, h, n, int(side)) == expected


BODIES = {
    "disk": lambda: Disk(center=(1.5, 2.0), motion="free"),
    "table": lambda: SignedDistance(
        function=lambda x, y: np.hypot(x, y) - 0.5, reach=0.6, center=(1.5, 2.0), motion="free"
    ),
    "swimmer": lambda: carangiform(center=(1.5, 2.0), length=0.9),
}


def lose(sim: Simulation, value: float) -> None:
    """Make the position of the first body of simulation 0 not finite."""
    sim.body_state.position[0, 0], sim.body_state.angle[0, 0] = value, math.nan


@pytest.mark.parametrize("value", LOST[:4])
@pytest.mark.parametrize("body", BODIES)
def test_nonfinite_body_covers_nothing_and_does_not_affect_others(body: str, value: float) -> None:
    bodies = [BODIES[body](), Disk(center=(2.2, 2.1), motion="free")]
    sim = Simulation(Grid(16, 16, 0.25), Sides.all("periodic"), bodies, viscosity=0.02, batch=2,
                     dtype="float64", sensors=[(0, (0.6, 0.1))])  # fmt: skip
    lose(sim, value)
    alone = Simulation(Grid(16, 16, 0.25), Sides.all("periodic"), bodies[1:], viscosity=0.02,
                       dtype="float64")  # fmt: skip
    solid = sim.solid()
    np.testing.assert_array_equal(solid[0], alone.solid()[0])
    assert solid[1].sum() > solid[0].sum()
    sim.sense()
    sim.settle(np.array([True, False]))
    sim.advance_steps(1)
    assert np.isfinite(sim.body_state.position[0, 1]).all()
    assert np.isfinite(sim.get_state(0)["u"]).all()
