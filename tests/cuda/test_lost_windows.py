"""A body whose position is not finite covers nothing, in kernels too; see ``flowsim/kernels/test_lost_bodies.py``."""

import math

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, SignedDistance, Simulation


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("body", ["disk", "table"])
def test_nonfinite_body_covers_nothing(body: str, value: float) -> None:
    lost = Disk(center=(1.0, 1.0), motion="free")
    if body == "table":
        lost = SignedDistance(
            function=lambda x, y: np.hypot(x, y) - 0.5, reach=0.6, center=(1.0, 1.0), motion="free"
        )
    other = Disk(center=(1.3, 1.1), motion="free")
    sides = Sides.all("periodic")
    sim = Simulation(Grid(8, 8, 0.25), sides, [lost, other], viscosity=0.02, dtype="float64",
                     sensors=[(0, (0.6, 0.1))], backend="cuda")  # fmt: skip
    alone = Simulation(Grid(8, 8, 0.25), sides, [other], viscosity=0.02, dtype="float64",
                       backend="cuda")  # fmt: skip
    sim.body_state.position[0, 0], sim.body_state.angle[0, 0] = value, math.nan
    np.testing.assert_array_equal(sim.solid(), alone.solid())
    sim.sense()
    sim.advance_steps(1)
    assert np.isfinite(sim.body_state.position[0, 1]).all()
    assert np.isfinite(sim.to_host(sim.u)).all()
