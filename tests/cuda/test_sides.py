"""Sweeps over the sides of the box, of all kinds, on both backends."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numba import config
from numpy.typing import NDArray

from flowsim import Grid, Sides
from flowsim.backend import load_backend
from flowsim.grid import GHOSTS as G
from flowsim.kernels.far_field import CIRCULATION, DEPARTED
from flowsim.kernels.layout import CLOCK_COLUMNS, DT, RATIO, VISCOSITY
from flowsim.kernels.records import Box, Clock, Fields

KINDS = ("inflow", "outflow", "open", "slip", "no_slip", "far_field")


def boxes() -> Iterator[tuple[str, str, str, str]]:
    """Sides left, right, bottom and top: every kind against every other across the box, and every kind beside it."""
    for n, one in enumerate(KINDS):
        for m, other in enumerate(KINDS):
            beside = KINDS[(n + m) % 6], KINDS[(n + 2 * m + 1) % 6]
            across = beside if "open" not in beside or beside == ("open", "open") else ("slip", one)
            if "open" in across and across != ("open", "open"):
                across = ("open", "open")
            yield one, other, *across
    for kind in KINDS:
        yield "periodic", "periodic", kind, kind
        yield kind, kind, "periodic", "periodic"
    yield "periodic", "periodic", "inflow", "outflow"
    yield "open", "outflow", "periodic", "periodic"
    yield "periodic", "periodic", "periodic", "periodic"


FIELDS = ("u", "v", "new_u", "new_v", "rate_u", "rate_v")
BOXES = sorted(set(boxes()))


@pytest.fixture
def in_any_order(dtype: str) -> Iterator[None]:
    """Let the simulator run the blocks in a random order, in double precision."""
    if config.ENABLE_CUDASIM and dtype == "float64":
        from simulator import shuffled

        with shuffled(7):
            yield
    else:
        yield


class Flows:
    """Three flows of random velocity on one backend, of which the second takes no part."""

    def __init__(
        self, backend: str, box: tuple[str, ...], dtype: str, shape: tuple[int, int]
    ) -> None:
        sides, (nx, ny) = Sides(*box), shape
        self.sweeps = load_backend(backend)
        self.device = self.sweeps.Device()
        rng, padded = np.random.default_rng(7), (3, nx + 2 * G, ny + 2 * G)
        self.active = self.device.array(np.array([True, False, True]))
        self.sides = self.device.array(sides.kinds())
        clock = np.zeros((3, CLOCK_COLUMNS))
        clock[:, DT], clock[:, RATIO], clock[:, VISCOSITY] = (0.01, 0.02, 0.03), 0.9, 0.1
        self.clock = self.device.array(clock)
        fields = {name: rng.normal(size=padded) for name in FIELDS}
        fields["p"], fields["given"] = (
            rng.normal(size=(3, nx, ny)),
            rng.normal(size=(3, 4, 2, max(padded))),
        )
        # the last face of a ring is the first one, which the sweep over ghost points brings about
        for name, ends in (("u", (not sides.periodic[0], 0)), ("v", (0, not sides.periodic[1]))):
            beyond = np.ones(padded[1:], bool)
            beyond[G : G + nx + ends[0], G : G + ny + ends[1]] = False
            fields[name][:, beyond] = np.nan
        self.fields = {
            name: self.device.array(field.astype(dtype)) for name, field in fields.items()
        }

    def records(self, h: float) -> tuple[Fields, Clock, Box]:
        """Return what the sweeps take; there are no bodies."""
        f, array = self.fields, self.device.array
        nothing = array(np.zeros((2, 3, 0, 0)))
        fields = Fields(*(f[name] for name in FIELDS), f["p"], f["p"], nothing, nothing)
        clock = Clock(self.clock, array(np.zeros(3, np.int64)), array(np.zeros((3, 3), np.bool_)))
        stream = array(np.array([1.0, 0.1]))
        return fields, clock, Box(h, self.sides, f["given"], stream, array(np.zeros(2)))

    def seen(self) -> dict[str, NDArray[Any]]:
        return {name: np.array(self.device.to_host(field)) for name, field in self.fields.items()}


def assert_same(flows: list[Flows], before: dict[str, NDArray[Any]], eps: float) -> None:
    """Both backends give the same but for rounding, and leave the second flow bit for bit."""
    cpu, gpu = flows[0].seen(), flows[1].seen()
    for name, expected in cpu.items():
        np.testing.assert_allclose(gpu[name], expected, rtol=0, atol=200 * eps, err_msg=name)
        np.testing.assert_array_equal(gpu[name][1], before[name][1], name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("box", BOXES, ids="-".join)
@pytest.mark.usefixtures("in_any_order")
def test_sides(box: tuple[str, ...], dtype: str) -> None:
    """Ghost points, open sides, and all others.

    All ghost points are NaN before and none is afterwards: none is computed from one that is written later.
    """
    flows = [Flows(backend, box, dtype, (12, 10)) for backend in ("cpu", "cuda")]
    before, eps = flows[1].seen(), float(np.finfo(dtype).eps)
    for it in flows:
        it.sweeps.fill_ghosts(it.active, *it.records(0.25)[::2])
    assert_same(flows, before, eps)
    filled = flows[1].seen()
    assert np.isfinite(filled["u"][::2, 1:]).all()
    assert np.isfinite(filled["v"][::2, :, 1:]).all()
    for it in flows:
        it.sweeps.predict_open_sides(it.active, *it.records(0.25))
        it.sweeps.update_sides(it.active, *it.records(0.25))
    assert_same(flows, before, eps)


@pytest.mark.parametrize("shape", [(12, 10), (10, 26)])
@pytest.mark.parametrize("spacing", [2, 3])
@pytest.mark.parametrize(
    "box",
    [
        ("far_field", "outflow", "far_field", "far_field"),
        ("far_field", "far_field", "far_field", "outflow"),
        ("far_field", "far_field", "slip", "far_field"),
    ],
    ids="-".join,
)
def test_far_field(box: tuple[str, ...], spacing: int, shape: tuple[int, int]) -> None:
    """Velocities induced by the vorticity, with blocks cut off by the box and several pieces of a side."""
    flows = [Flows(backend, box, "float64", shape) for backend in ("cpu", "cuda")]
    before = flows[1].seen()
    departed = []
    for it in flows:
        room = it.device.far_field(3, Grid(*shape, 0.25), spacing, np.float64)
        fields, time, sides = it.records(0.25)
        # what has left moves on, and after the second time another block begins
        for dt in (0.01, 1.8, 1.8):
            time.columns[:, DT] = dt
            it.sweeps.far_field(it.active, fields, time, sides, True, spacing, room)
            fields.u[...] += 0.1 * fields.v
        departed.append(it.device.to_host(room.vortices)[:, :, -DEPARTED:])
    assert_same(flows, before | {"u": flows[0].seen()["u"]}, float(np.finfo(np.float64).eps))
    np.testing.assert_allclose(departed[1], departed[0], rtol=0, atol=1e-11)
    if "outflow" in box:
        assert np.count_nonzero(departed[0][0, CIRCULATION]) == 2
