"""Blockage and thickness, as ``describe()`` tells them."""

import numpy as np
import pytest

from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, SignedDistance, Simulation, Union, polygon
from flowsim.bodies.resolution import blockage, thickness

PERIODIC = Sides("inflow", "outflow", "periodic", "periodic")


def flow(
    *bodies, sides: Sides | None = None, stream: tuple[float, float] = (1.0, 0.0), h: float = 1 / 8
) -> Simulation:
    """Bodies in a box of 8 x 6 D."""
    return Simulation(
        Grid(round(8 / h), round(6 / h), h), sides, bodies, viscosity=0.01, stream=stream
    )


@pytest.mark.parametrize(("bodies", "share"), [
    ([], 0.0),
    ([Disk(center=(2, 3))], 1 / 6),
    ([Disk(center=(2, 1.5)), Disk(center=(2, 4.5))], 2 / 6),  # a column
    ([Disk(center=(2, 1.5)), Disk(center=(2.6, 4.5))], 2 / 6),  # a section cuts both
    ([Disk(center=(2, 3)), Disk(center=(5, 3))], 1 / 6),  # one behind the other
    ([Disk(center=(2, 1.5)), Disk(center=(5, 4.5))], 1 / 6),  # no section cuts both
    ([Disk(center=(2, 2.8)), Disk(center=(2.2, 3.2))], 1.4 / 6),  # projections overlap
    ([Disk(center=(2, 0.2))], 0.7 / 6),  # only what lies in the box
    ([Ellipse(center=(2, 3), aspect=0.2)], 0.2 / 6),
    ([Ellipse(center=(2, 3), aspect=0.2, angle=np.pi / 2)], 1 / 6),
    ([Ellipse(center=(2, 3), aspect=0.2, angle=np.pi / 6)], np.hypot(0.5, 0.2 * np.sqrt(0.75)) / 6),
    ([HalfDisk(center=(2, 3), angle=np.pi / 2)], 0.5 / 6),
])  # fmt: skip
def test_blockage_is_the_covered_share_of_a_cross_section(bodies, share: float) -> None:
    assert blockage(flow(*bodies))[0] == pytest.approx(share, abs=1e-4)


def test_blockage_across_a_periodic_side_and_of_a_stream_along_y() -> None:
    assert blockage(flow(Disk(center=(2, 0.2)), sides=PERIODIC))[0] == pytest.approx(
        1 / 6, abs=1e-4
    )
    pair = Disk(center=(2, 3)), Disk(center=(5, 3))
    assert blockage(flow(*pair, sides=Sides.all("open"), stream=(0.0, 1.0)))[0] == pytest.approx(
        2 / 8, abs=1e-4
    )


def test_blockage_follows_the_bodies() -> None:
    sim = flow(Disk(center=(2, 1.5)), Disk(center=(5, 4.5), motion="free"))
    sim.body_state.position[0, 1] = (2.0, 4.5)
    assert blockage(sim)[0] == pytest.approx(2 / 6, abs=1e-4)


@pytest.mark.parametrize(("body", "thick"), [
    (Disk(diameter=0.8), 0.8),
    (HalfDisk(diameter=0.8), 0.4),
    (Ellipse(major=1.0, aspect=0.2), 0.2),
    (Ellipse(major=0.5, aspect=3.0), 0.5),
    (polygon([(-0.5, -0.1), (0.5, -0.1), (0.5, 0.1), (-0.5, 0.1)]), 0.2),
    (polygon([(0, 0), (3, 0), (0, 4)]), 2.0),  # the incircle of a triangle of sides 3, 4, 5
    (SignedDistance(function=lambda x, y: np.hypot(x, y) - 0.3, reach=0.5), 0.6),
    (Union(parts=[Disk(), Ellipse(center=(1.0, 0.0), major=1.0, aspect=0.05)]), 0.05),
])  # fmt: skip
def test_thickness_is_the_largest_circle_inside(body, thick: float) -> None:
    assert thickness(body) == pytest.approx(thick, rel=0.01)


def test_describe_tells_what_is_thin() -> None:
    sim = flow(Disk(center=(2, 1.5)), Ellipse(center=(2, 4.5), aspect=0.2, angle=np.pi / 2))
    first, *others = sim.describe().splitlines()
    assert "D/h = 8, bodies 8, 1.6 cells thick, blockage 33.3 %" in first
    assert others == ["body 1 is only 1.6 cells thick: below 4 it leaks, and its forces are rough"]
    assert flow(Disk(center=(2, 3))).describe().count("\n") == 0
