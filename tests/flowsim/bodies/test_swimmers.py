"""Bodies that bend: their momentum, their distance, and that they swim."""

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, Simulation
from flowsim.bodies import swimmers
from flowsim.bodies import table as body_table
from flowsim.bodies.swimmers import Swimmer, anguilliform, carangiform, slender
from flowsim.bodies.table import BodyTable
from flowsim.kernels.body_geometry import body_distance
from flowsim.kernels.midline import (
    AGE,
    BEND_RATE,
    COS,
    ENERGY,
    FORM_COLUMNS,
    GAIT_COLUMNS,
    HALF_WIDTH,
    INERTIA,
    PHASE,
    RATE,
    RATE_BEFORE,
    SIN,
    TURN,
    TURN_BEFORE,
    TWIST,
    U,
    V,
    X,
    Y,
    bend,
    deformation_velocity,
    nearest,
)

FISH = {"eel": anguilliform(), "fish": carangiform(half_width=lambda s: 1.5 * slender(s))}


def bent(body: Swimmer, phase: float = 0.3, turn: float = 0.2, h: float = 1 / 64) -> tuple:
    """Bend a body that has grown to its full wave."""
    table = BodyTable.of([body], h)
    gait, form = np.zeros(GAIT_COLUMNS), np.zeros(FORM_COLUMNS)
    gait[PHASE], gait[AGE], gait[RATE_BEFORE], gait[RATE] = phase, 2.0, 1.0, 1.0
    gait[TURN_BEFORE] = gait[TURN] = turn
    line = table.midlines[0, 0]
    bend(table.nodes[0], table.waves[0], gait, form, line, 0.0, 0.0)
    return table, gait, form, line


@pytest.mark.parametrize("name", FISH)
def test_deformation_has_no_momentum_and_the_stored_inertia_and_energy(name: str) -> None:
    """Summed over fine squares inside the body."""
    table, _, form, line = bent(FISH[name])
    n = 72
    x = (np.arange(n) + 0.5) / n * 1.2 - 0.6
    y = (np.arange(n // 2) + 0.5) / n * 1.2 - 0.3
    sums = np.zeros(7)
    for a in x:
        for b in y:
            share = min(max(0.5 - body_distance(table, 0, 0, a, b, 1.0, 0.0) * n / 1.2, 0.0), 1.0)
            if share > 0.0:
                u, v = deformation_velocity(table.nodes[0], line, a, b, 1.0, 0.0)
                sums += share * np.array(
                    [1, u, v, a * v - b * u, a * a + b * b, 0.5 * (u * u + v * v), np.hypot(u, v)]
                )
    sums *= (1.2 / n) ** 2
    area, pu, pv, spin, inertia, energy, speed = sums
    assert area == pytest.approx(FISH[name].area, rel=0.02)
    assert max(abs(pu), abs(pv)) < 0.02 * speed
    assert abs(spin) < 0.02 * np.sqrt(inertia * 2 * energy)
    assert inertia == pytest.approx(form[INERTIA], rel=0.03)
    assert energy == pytest.approx(form[ENERGY], rel=0.05)


def test_velocities_are_the_derivatives_of_positions() -> None:
    """For a turning body between two times, including the rotation that keeps the angular momentum zero."""
    fish, dt = FISH["fish"], 1e-4
    table, gait, form, line = bent(fish, turn=0.1)
    gait[TURN] = 0.5
    gait[5] = 0.7  # the time that the turn takes
    bend(table.nodes[0], table.waves[0], gait, form, line, 0.0, dt)
    before = line.copy()
    bend(table.nodes[0], table.waves[0], gait, form, line, dt, dt)
    rate = (line[:, [X, Y]] - before[:, [X, Y]]) / dt
    np.testing.assert_allclose(0.5 * (line[:, [U, V]] + before[:, [U, V]]), rate, atol=1e-4)
    assert abs(gait[TWIST]) > 0.0


def test_field_inside_is_divergence_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the midline's resolution; a strip whose cross-sections just turn has a divergence of kappa_t d."""
    for module in (body_table, swimmers):
        monkeypatch.setattr(module, "POINTS", 257)
    table, _, _, line = bent(carangiform(half_width=lambda s: 1.5 * slender(s)))
    step, found, without = 0.003, [], []
    for i in range(48, 208, 16):
        for d in (0.5 * table.nodes[0, i, HALF_WIDTH], -0.5 * table.nodes[0, i, HALF_WIDTH]):
            x, y = line[i, X] - d * line[i, SIN], line[i, Y] + d * line[i, COS]
            east, west = (
                deformation_velocity(table.nodes[0], line, x + e, y, 1.0, 0.0)[0]
                for e in (step, -step)
            )
            north, south = (
                deformation_velocity(table.nodes[0], line, x, y + e, 1.0, 0.0)[1]
                for e in (step, -step)
            )
            found.append((east - west + north - south) / (2 * step))
            without.append(line[i, BEND_RATE] * d)
    assert np.linalg.norm(found) < 0.2 * np.linalg.norm(without)


def test_nearest_point_and_distance_match_a_fine_search() -> None:
    table, _, _, line = bent(FISH["fish"])
    fine = np.linspace(0, 1, 50)
    dense = np.concatenate(
        [
            line[i, [X, Y]] + fine[:, None] * (line[i + 1, [X, Y]] - line[i, [X, Y]])
            for i in range(64)
        ]
    )
    w = table.nodes[0, :, HALF_WIDTH]
    edges = np.concatenate(
        [
            line[:, [X, Y]] + s * w[:, None] * np.stack([-line[:, SIN], line[:, COS]], 1)
            for s in (1, -1)
        ]
    )
    for x, y in np.random.default_rng(0).uniform((-0.6, -0.2), (0.6, 0.2), (60, 2)):
        _, place, lateral = nearest(line, x, y, np.inf)
        true = np.hypot(*(dense - (x, y)).T).min()
        if 0 <= place <= 1:
            assert abs(lateral) == pytest.approx(true, abs=2e-3)
        outside = body_distance(table, 0, 0, x, y, 1.0, 0.0)
        if 0.01 < outside < 0.03:
            assert outside == pytest.approx(np.hypot(*(edges - (x, y)).T).min(), abs=8e-3)


def pool(body, cells: int = 24, **options) -> Simulation:
    grid = Grid(2 * cells, cells + cells % 2, 1 / cells)
    return Simulation(
        grid, Sides.all("periodic"), [body], viscosity=1e-3, stream=(0.0, 0.0), **options
    )


def test_fish_swims_forward_and_turns() -> None:
    ways = []
    for turn in (0.0, 0.4):
        sim = pool(carangiform(center=(1.0, 0.5)))
        sim.steer(0, 0, turn=turn, period=1.0, over=0.5)
        sim.advance(2.0)
        ways.append(
            (
                *(sim.body_state.position[0, 0] - (1.0, 0.5)),
                sim.body_state.angle[0, 0] + sim.gait[0, 0, TWIST],
            )
        )
    assert ways[0][0] > 0.1
    assert abs(ways[0][1]) < 0.1
    assert ways[1][2] > ways[0][2] + 0.3  # anticlockwise


def test_total_momentum_of_water_and_fish_is_conserved() -> None:
    """In a periodic box nothing else exchanges momentum."""
    sim = pool(carangiform(center=(1.0, 0.5)), dtype="float64")
    sim.advance(0.5)
    inner = slice(2, -2)
    for field in (sim.u, sim.v):
        assert abs(field[0, inner, inner].sum()) < 1e-6 * np.abs(field[0, inner, inner]).sum()


def test_surface_bounds_the_solid_and_restored_state_continues() -> None:
    sim = pool(carangiform(center=(1.0, 0.5), half_width=lambda s: 2 * slender(s)), dtype="float64")
    sim.advance(0.3)
    x, y = sim.surface(0, 0).T
    area = 0.5 * abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum())
    assert sim.solid().sum() * sim.grid.h**2 == pytest.approx(area, rel=0.03)
    state = sim.get_state()
    sim.advance(0.1)
    end = sim.body_state.position[0, 0].copy()
    sim.set_state(0, state)
    sim.advance(0.1)
    np.testing.assert_array_equal(sim.body_state.position[0, 0], end)


def test_invalid_swimmers_are_refused() -> None:
    with pytest.raises(ValueError, match="density = 2"):
        carangiform(density=2.0)
    with pytest.raises(ValueError, match="period = 0"):
        carangiform(period=0.0)
    with pytest.raises(ValueError, match="half_width"):
        carangiform(half_width=lambda s: s)
    sim = Simulation(
        Grid(16, 16, 0.1), bodies=[Disk(center=(0.8, 0.8), diameter=0.4)], viscosity=0.1
    )
    with pytest.raises(ValueError, match="does not swim"):
        sim.steer(0, 0, turn=0.0, period=1.0, over=1.0)
