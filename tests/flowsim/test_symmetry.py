"""A mirrored setup gives the mirrored flow to round-off, with equal steps, for any sides and bodies."""

from collections.abc import Callable

import numpy as np
import pytest

from flowsim import Disk, Ellipse, Grid, HalfDisk, Jet, Sides, Simulation
from flowsim.bodies import Body
from flowsim.grid import GHOSTS as G

SIDES = {
    "walls": Sides(bottom="slip", top="slip"),
    "channel": Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic"),
    "far field": Sides(),
    "open": Sides(bottom="open", top="open"),
    "open all around": Sides.all("open"),
    "open behind": Sides("inflow", "open", "far_field", "far_field"),
    "around": Sides("inflow", "outflow", "periodic", "periodic"),
    "a ring between walls": Sides("periodic", "periodic", "no_slip", "no_slip"),
    "periodic": Sides.all("periodic"),
}
BODIES: dict[str, Callable[[float], Body]] = {
    "held": lambda sign: Ellipse(center=(2.0, 2.0 + 0.25 * sign), aspect=0.5, angle=0.4 * sign),
    "free": lambda sign: HalfDisk(
        center=(2.0, 2.0 + 0.25 * sign), angle=0.4 * sign, density=0.8, motion="free"
    ),
}


def flow(sides: Sides, body: Body, **options) -> Simulation:
    return Simulation(
        Grid(72, 64, 1 / 16), sides, [body], viscosity=1 / 100, dtype="float64", **options
    )


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("sides", SIDES)
def test_mirrored_setup_gives_the_mirrored_flow(sides: str, body: str) -> None:
    stream = (1.0, 0.0)
    one, other = (flow(SIDES[sides], BODIES[body](sign), stream=stream) for sign in (1.0, -1.0))
    for sim in (one, other):
        sim.advance(1.0)
    np.testing.assert_array_equal(one.steps, other.steps)
    assert one.dt == pytest.approx(other.dt, rel=1e-12)
    here, there = (sim.velocity_at_centres()[0] for sim in (one, other))
    np.testing.assert_allclose(there[:, ::-1] * [1, -1], here, atol=1e-12)
    for name, sign in (("position", [1, -1]), ("force", [1, -1]), ("velocity", [1, -1])):
        first, second = (getattr(sim.body_state, name)[0, 0] for sim in (one, other))
        middle = np.array([0.0, 2.0]) if name == "position" else 0.0
        np.testing.assert_allclose((second - middle) * sign, first - middle, atol=1e-11)


@pytest.mark.parametrize(
    "sides", [name for name in SIDES if name != "open behind"] + ["from above"]
)
def test_exchanged_axes_give_the_same_flow(sides: str) -> None:
    """Exchanged axes; bottom and top are both open or neither."""
    given = SIDES.get(sides, Sides("far_field", "far_field", "outflow", "far_field"))
    stream = (1.0, 0.0) if sides in SIDES else (0.0, -1.0)
    turned = Sides(
        given.bottom, given.top, given.left, given.right, bottom_profile=given.left_profile
    )
    body = {"aspect": 0.5, "motion": "free", "density": 2.0}
    one, other = (
        Simulation(Grid(56, 56, 1 / 16), around, [Ellipse(center=center, angle=angle, **body)],
                   viscosity=1 / 100, dtype="float64", stream=towards)
        for around, center, angle, towards in (
            (given, (1.75, 1.5), 0.4, stream), (turned, (1.5, 1.75), np.pi / 2 - 0.4, stream[::-1]),
        )
    )  # fmt: skip
    for sim in (one, other):
        sim.advance(1.0)
    np.testing.assert_array_equal(one.steps, other.steps)
    here, there = (sim.velocity_at_centres()[0] for sim in (one, other))
    np.testing.assert_allclose(there.swapaxes(0, 1)[..., ::-1], here, atol=1e-12)


@pytest.mark.parametrize("sides", SIDES)
def test_a_symmetric_flow_stays_symmetric(sides: str) -> None:
    """A disk in the middle has no lift, with opposite jets, too; with single steps of any size."""
    jets = [Jet(angle=sign * 1.2, width=0.3) for sign in (1.0, -1.0)]
    sim = flow(SIDES[sides], Disk(center=(1.9, 2.0)), jets=jets)
    if sides != "a ring between walls" and sides != "periodic" and sides != "around":
        sim.set_jet_flow_rates([0.05, 0.05], over=0.3)
    sim.advance(1.5)
    u, v = (sim.to_host(field[0, G:-G, G:-G]) for field in (sim.u, sim.v))
    np.testing.assert_allclose(u, u[:, ::-1], atol=1e-12)
    assert abs(sim.body_state.force[0, 0, 1]) < 1e-11
    assert abs(sim.body_state.torque[0, 0]) < 1e-11
    assert np.abs(v).max() > 0.1
