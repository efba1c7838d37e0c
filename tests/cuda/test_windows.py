"""Windows of bodies in many blocks: which bodies are independent, and which are processed in turn."""

import numpy as np
import pytest
from test_equality import assert_equal

from flowsim import Disk, Ellipse, Grid, Sides, Simulation
from flowsim.backend.cuda.windows import LEVEL
from flowsim.bodies.swimmers import carangiform, slender
from flowsim.boundary import Side
from flowsim.kernels.body_geometry import ranges_meet

WIDE = Grid(34, 12, 0.3)
BODIES = [
    Disk(center=(0.1, 1.8), motion="free", density=2.0),  # across a periodic side
    Disk(center=(4.0, 1.7), motion="free", density=2.0),
    Disk(center=(4.6, 2.2), motion="free", density=1.5),  # overlaps the one before
    Disk(center=(5.4, 1.6), motion="free", density=0.5),  # touches that one alone
    Ellipse(center=(7.9, 1.6), angle=0.3, aspect=0.5),
]


def pair(bodies: list) -> list[Simulation]:
    return [
        Simulation(WIDE, Sides.all("periodic"), bodies, viscosity=[0.02, 0.05],
                   batch=2, dtype="float64", backend=backend, gravity=(0.1, -0.3))
        for backend in ("cpu", "cuda")
    ]  # fmt: skip


@pytest.mark.parametrize("side", [Side.PERIODIC, Side.OUTFLOW])
def test_ranges_meet_if_they_share_a_face(side: Side) -> None:
    """Compare with sets of faces, for all ranges of at most seven cells."""
    n = 7
    ranges = [(a, b) for a in range(-n, n + 1) for b in range(a, min(a + n, 2 * n) + 1)]
    if side != Side.PERIODIC:
        ranges = [(a, b) for a, b in ranges if a >= 0 and b <= n]
    for a0, a1 in ranges:
        for b0, b1 in ranges:
            one, other = ({i % n for i in range(*r)} for r in ((a0, a1), (b0, b1)))
            if one and other:
                assert ranges_meet(a0, a1, b0, b1, n, int(side)) == bool(one & other)


def test_separate_and_overlapping_bodies() -> None:
    """Five bodies of one simulation, two of them alone and three in turn, as on the CPU."""
    cpu, cuda = pair(BODIES)
    for sim in (cpu, cuda):
        sim.advance_steps(2)
    levels = cuda.to_host(cuda._device_state.room.windows)[0, :, LEVEL]
    # the first of a group goes with those that are alone
    assert list(np.minimum(levels, 2)) == [0, 0, 1, 2, 0]
    assert_equal(cpu, cuda, 1e-10)
    np.testing.assert_array_equal(cuda.body_state.contact, cpu.body_state.contact)
    assert list(cpu.body_state.contact[0]) == [0, 2, 2, 2, 0]


def test_inactive_simulation_is_unchanged() -> None:
    cpu, cuda = pair(BODIES)
    before = cuda.get_state(1)
    for sim in (cpu, cuda):
        sim.advance(0.01, active=np.array([True, False]))
    for name, value in cuda.get_state(1).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    np.testing.assert_allclose(cuda.get_state(0)["u"], cpu.get_state(0)["u"], atol=1e-10)


def test_separate_swimmers() -> None:
    """Swimmers whose windows do not meet go through the launches of many blocks, with the work of their deformation."""

    def swimmer(x: float) -> object:
        return carangiform(
            center=(x, 1.8), length=1.0, half_width=lambda s: 3 * slender(s), ramp=0.1
        )

    cpu, cuda = pair([swimmer(2.5), swimmer(7.0)])
    for sim in (cpu, cuda):
        sim.advance_steps(2)
    assert not cuda.to_host(cuda._device_state.room.windows)[..., LEVEL].any()
    assert_equal(cpu, cuda, 1e-10)
    assert np.abs(cpu.form).max() > 0
    np.testing.assert_allclose(cuda.form, cpu.form, atol=1e-9)
