"""Blockage and thickness, as ``describe()`` reports them."""

import re

import numpy as np
import pytest

from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, SignedDistance, Simulation, Union, polygon
from flowsim.bodies.foils import naca
from flowsim.bodies.resolution import blockage, sharpest_edge, thickness, thin_edge

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
def test_blockage_is_the_covered_fraction_of_a_cross_section(bodies, share: float) -> None:
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


WEDGE = polygon([(-0.5, 0.0), (0.5, -0.2), (0.5, 0.2)], center=(2, 3))  # 22.6 degrees at its tip


def test_thin_part_of_a_wedge_and_an_ellipse() -> None:
    """The inscribed circle of diameter t at a tip of angle a begins t (1 / sin(a / 2) - 1) / 2 from the tip."""
    half = np.arctan(0.2)
    for t in (0.05, 0.1, 0.2):
        assert thin_edge(WEDGE, t) == pytest.approx(0.5 * t * (1 / np.sin(half) - 1), abs=0.006)
    # in an ellipse the circle of radius r stands at x with r = b sqrt(1 - x^2 / (a^2 - b^2))
    r = 0.07
    x = np.sqrt((0.25 - 0.01) * (1 - (r / 0.1) ** 2))
    assert thin_edge(Ellipse(aspect=0.2), 2 * r) == pytest.approx(0.5 - x - r, abs=0.006)
    assert thin_edge(Disk(), 0.5) == pytest.approx(0.0, abs=0.006)
    assert thin_edge(Disk(), 1.5) == np.inf
    pair = Union(parts=[Disk(), Ellipse(center=(1.0, 0.0), aspect=0.2)])
    assert thin_edge(pair, 2 * r) == pytest.approx(0.5 - x - r, abs=0.006)


@pytest.mark.parametrize(("body", "degrees"), [
    (WEDGE, 2 * np.degrees(np.arctan(0.2))),
    (polygon([(-0.5, -0.3), (0.5, -0.3), (0.5, 0.3), (-0.5, 0.3)]), 90.0),
    (polygon([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (0.0, -0.4), (-0.5, 0.5)]), np.degrees(np.arctan(0.5 / 0.9))),
    (HalfDisk(), 90.0),
])  # fmt: skip
def test_the_sharpest_edge(body, degrees: float) -> None:
    """The notch of the third shape is sharper than a right angle, but does not count as an edge."""
    assert np.degrees(sharpest_edge(body)) == pytest.approx(degrees, abs=6.0)


def test_a_round_body_has_no_edge() -> None:
    assert np.degrees(sharpest_edge(Disk())) > 150


def test_describe_reports_thin_parts() -> None:
    *_, thin = flow(WEDGE, h=1 / 32).describe().splitlines()
    assert re.fullmatch(
        r"body 0 is thinner than 4 cells over the last 0\.2[56] D \(8\.\d cells\) before its sharpest edge "
        r"\(about 25 degrees\): below 4 it leaks, and its forces are rough",
        thin,
    )
    sim = flow(Disk(center=(2, 1.5)), Ellipse(center=(2, 4.5), aspect=0.2, angle=np.pi / 2))
    first, *others = sim.describe().splitlines()
    assert "D/h = 8, bodies 8, 1.6 cells thick, blockage 33.3 %" in first
    assert others == ["body 1 is only 1.6 cells thick: below 4 it leaks, and its forces are rough"]
    assert flow(Disk(center=(2, 3))).describe().count("\n") == 0
    *_, nowhere = flow(HalfDisk(center=(2, 3)), h=1 / 8).describe().splitlines()
    assert nowhere.startswith("body 0 is nowhere more than 4 cells thick: below 4 it leaks")


def test_a_naca_foil_has_its_thickness_area_and_edge() -> None:
    """Thickest at 0.3 chords; the area is the integral of its thickness, 0.6848 t with the closed trailing edge."""
    corners = naca(0.12, pivot=0.25)
    assert corners[:, 0].min() == pytest.approx(-0.25)
    assert corners[:, 0].max() == pytest.approx(0.75)
    assert 2 * corners[:, 1].max() == pytest.approx(0.12, rel=1e-3)
    assert corners[corners[:, 1].argmax(), 0] == pytest.approx(0.05, abs=0.02)
    assert tuple(corners[0]) == (0.75, 0.0)
    c = (0.2969 / 1.5, -0.1260 / 2, -0.3516 / 3, 0.2843 / 4, -0.1036 / 5)
    x, y = corners.T
    area = 0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)
    assert area == pytest.approx(2 * 5 * 0.12 * sum(c), rel=2e-3)
    assert np.degrees(sharpest_edge(polygon(corners.tolist()))) == pytest.approx(17.0, abs=4.0)
    for options in ({"thickness": 0.0}, {"points": 2}):
        with pytest.raises(ValueError, match=next(iter(options))):
            naca(**options)
