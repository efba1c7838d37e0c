"""Temperature against exact solutions: conduction, decay of modes, advection, heat balance, buoyancy, bodies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowsim import (
    Disk,
    Grid,
    Jet,
    Sides,
    Simulation,
    Temperature,
    nusselt_number,
    side_heat_flux,
    volume_nusselt_number,
)
from flowsim.grid import GHOSTS as G
from flowsim.io import read_restart, write_restart
from flowsim.validation.convection import side_heated
from flowsim.validation.result import Effort

PLATES = Sides("periodic", "periodic", "no_slip", "no_slip")


def at_rest(nx: int, ny: int, sides: Sides, heat: Temperature, **options: Any) -> Simulation:
    given = {"viscosity": 0.05, "stream": (0.0, 0.0), "dtype": "float64"} | options
    return Simulation(Grid(nx, ny, 1 / ny), sides, temperature=heat, **given)


def test_conduction_between_plates_is_linear_to_round_off() -> None:
    """Exactly so on any grid, and the flux is kappa DT / H at both plates."""
    heat = Temperature(0.1, sides={"bottom": 2.0, "top": 0.5}, initial=1.0)
    sim = at_rest(8, 8, PLATES, heat)
    sim.advance(40.0)
    _, y = sim.grid.centres()
    np.testing.assert_allclose(sim.temperature_at_centres(0), 2.0 - 1.5 * y, atol=1e-12)
    np.testing.assert_allclose(side_heat_flux(sim, "bottom"), 0.15, atol=1e-12)
    np.testing.assert_allclose(side_heat_flux(sim, "top"), -0.15, atol=1e-12)
    assert nusselt_number(sim, "bottom") == pytest.approx(1.0, abs=1e-12)
    assert volume_nusselt_number(sim, "top") == pytest.approx(1.0, abs=1e-12)


def test_given_flux_heats_the_box_at_its_rate() -> None:
    heat = Temperature(0.1, fluxes={"left": 0.3, "top": np.linspace(0.0, 0.2, 8)})
    sim = at_rest(8, 8, Sides.all("no_slip"), heat)
    sim.advance(0.7)
    gained = sim.temperature_at_centres(0).mean()
    assert gained == pytest.approx(0.7 * (0.3 + 0.1), rel=1e-12)
    np.testing.assert_allclose(side_heat_flux(sim, "left"), 0.3, atol=1e-12)
    np.testing.assert_allclose(side_heat_flux(sim, "right"), 0.0, atol=1e-12)


@pytest.mark.parametrize("integrator", ["ab2", "euler"])
def test_a_mode_decays_at_its_rate_at_second_order(integrator: str) -> None:
    """sin(pi y) between cold plates, cos(pi x) between insulated walls: exp(-2 pi^2 kappa t)."""
    errors = []
    for n in (16, 32):
        heat = Temperature(
            0.02,
            sides={"bottom": 0.0, "top": 0.0},
            initial=lambda x, y: np.cos(np.pi * x) * np.sin(np.pi * y),
        )
        sim = at_rest(n, n, Sides.all("no_slip"), heat, integrator=integrator)
        x, y = sim.grid.centres()
        sim.advance(2.0)
        exact = np.exp(-2 * np.pi**2 * 0.02 * 2.0) * np.cos(np.pi * x) * np.sin(np.pi * y)
        errors.append(np.abs(sim.temperature_at_centres(0) - exact).max())
    assert errors[0] < 0.01
    assert np.log2(errors[0] / errors[1]) > 1.8


def test_advection_is_second_order_or_better() -> None:
    errors = []
    for n in (32, 64):
        heat = Temperature(1e-9, initial=lambda x, y: np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y))
        sim = Simulation(Grid(n, n, 1 / n), Sides.all("periodic"), viscosity=0.01, stream=(1.0, 0.5),
                         dtype="float64", temperature=heat)  # fmt: skip
        sim.advance(1.0)
        x, y = sim.grid.centres()
        exact = np.sin(2 * np.pi * (x - 1.0)) * np.cos(2 * np.pi * (y - 0.5))
        errors.append(np.abs(sim.temperature_at_centres(0) - exact).max())
    assert errors[1] < 0.01
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_front_overshoots_little_and_heat_is_conserved() -> None:
    """A step of 1 without diffusion: third-order upwinding overshoots by less than a tenth and conserves the sum."""
    heat = Temperature(1e-9, initial=lambda x, y: np.where((x > 0.3) & (x < 0.7), 1.0, 0.0))
    sim = Simulation(Grid(64, 8, 1 / 64), Sides.all("periodic"), viscosity=0.01, dtype="float64",
                     temperature=heat)  # fmt: skip
    before = sim.temperature_at_centres(0)
    sim.advance(1.0)
    after = sim.temperature_at_centres(0)
    assert after.min() > -0.1
    assert after.max() < 1.1
    assert after.sum() == pytest.approx(before.sum(), rel=1e-13)


def test_a_uniform_temperature_stays_in_any_flow() -> None:
    heat = Temperature(
        0.02, sides={"left": 0.7, "top": 0.7, "bottom": 0.7, "right": 0.7}, initial=0.7
    )
    sim = Simulation(Grid(32, 16, 1 / 8), bodies=[Disk(center=(1.5, 1.0))], viscosity=0.02,
                     dtype="float64", temperature=heat)  # fmt: skip
    sim.advance(1.0)
    np.testing.assert_allclose(sim.temperature_at_centres(0), 0.7, atol=1e-12)


def test_open_side_inflow_has_its_temperature_and_outflow_that_of_the_box() -> None:
    heat = Temperature(0.01, sides={"left": 1.0})
    sim = Simulation(Grid(32, 8, 1 / 8), Sides("inflow", "outflow", "slip", "slip"), viscosity=0.02,
                     dtype="float64", temperature=heat)  # fmt: skip
    sim.advance(12.0)
    np.testing.assert_allclose(sim.temperature_at_centres(0), 1.0, atol=1e-6)


def test_uniform_buoyancy_is_balanced_by_pressure_or_accelerates_periodic_box() -> None:
    closed = at_rest(8, 8, Sides.all("no_slip"), Temperature(0.1, buoyancy=(0.0, 2.0), initial=0.5))
    closed.advance(0.5)
    assert np.abs(closed.velocity_at_centres(0)).max() < 1e-12
    gradient = np.diff(closed.to_host(closed.pressure)[0], axis=1) * 8
    assert gradient == pytest.approx(1.0, abs=1e-9)
    heat = Temperature(0.1, buoyancy=(0.4, 2.0), reference=0.2, initial=0.5)
    free = at_rest(8, 8, Sides.all("periodic"), heat)
    free.advance(0.5)
    assert free.velocity_at_centres(0) == pytest.approx(
        np.broadcast_to((0.06, 0.3), (8, 8, 2)), abs=1e-12
    )


def test_internal_waves_have_the_exact_frequency() -> None:
    """T = y + T', an infinitesimal wave: omega = N |k_x| / |k| with N^2 = g beta dT/dy; here 1 / sqrt(2)."""
    n = 32

    def begin(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y + 1e-4 * np.cos(np.pi * x) * np.sin(np.pi * y)

    heat = Temperature(1e-9, sides={"bottom": 0.0, "top": 1.0}, buoyancy=(0.0, 1.0), initial=begin)
    sim = at_rest(n, n, Sides.all("slip"), heat, viscosity=1e-9)
    x, y = sim.grid.centres()
    mode = np.cos(np.pi * x) * np.sin(np.pi * y)
    for _ in range(8):
        sim.advance(np.sqrt(2.0) * np.pi / 4)
        wave = ((sim.temperature_at_centres(0) - y) * mode).mean() / (mode**2).mean() / 1e-4
        assert wave == pytest.approx(np.cos(sim.time[0] / np.sqrt(2.0)), abs=0.02)


def test_steady_convection_balances_heat_fluxes() -> None:
    """The square with a hot side at Ra 1e3: fluxes balance to round-off, the Nusselt number agrees to 1 %."""
    rows = side_heated(1000, Effort(quick=True)).rows
    assert rows[0].error < 0.01
    assert rows[3].error < 1e-9


def test_disks_keep_their_temperatures() -> None:
    """A disk at T = 1 and one at T = 0: both keep their temperature, and no value lies outside of 0 to 1."""
    heat = Temperature(1.0, bodies={0: 1.0, 1: 0.0})
    ring = Disk(center=(1.5, 1.5), diameter=0.6)
    outside = [Disk(center=(c, 1.5), diameter=0.4) for c in (0.35,)]
    sim = Simulation(Grid(48, 48, 1 / 16), Sides.all("no_slip"), [ring, *outside], viscosity=0.1,
                     stream=(0.0, 0.0), dtype="float64", temperature=heat)  # fmt: skip
    sim.advance(0.2)
    t = sim.temperature_at_centres(0)
    assert t[24, 24] == pytest.approx(1.0, abs=1e-3)
    assert t[5, 24] == pytest.approx(0.0, abs=1e-3)
    assert ((t > -1e-9) & (t < 1 + 1e-9)).all()


def test_conduction_from_a_disk_in_a_square_matches_the_shape_factor() -> None:
    """S = 2 pi / ln(1.08 w / d) for a disk of diameter d in a square of width w, Incropera et al., table 4.1."""
    names, width, diameter = ("left", "right", "bottom", "top"), 3.0, 0.6
    exact, errors = 2 * np.pi / np.log(1.08 * width / diameter), []
    for n in (16, 24):
        heat = Temperature(1.0, bodies={0: 1.0}, sides=dict.fromkeys(names, 0.0))
        disk = Disk(center=(width / 2, width / 2), diameter=diameter)
        sim = Simulation(Grid(3 * n, 3 * n, 1 / n), Sides.all("no_slip"), [disk], viscosity=0.1,
                         stream=(0.0, 0.0), dtype="float64", temperature=heat)  # fmt: skip
        sim.advance(3.0)  # the slowest mode has decayed to 0.1 %
        flux = -sum(side_heat_flux(sim, name).sum() for name in names) / n
        errors.append(abs(flux / exact - 1.0))
    assert errors[0] < 0.06
    assert errors[1] < 0.8 * errors[0]  # first order


def rolls(batch: int = 1, which: slice = slice(None), **options: Any) -> Simulation:
    walls = np.random.default_rng(0).uniform(0.5, 1.5, (3, 24))[which]
    begin = np.random.default_rng(1).uniform(0.0, 1.0, (3, 24, 12))[which]
    heat = Temperature(
        np.array([0.02, 0.03, 0.05])[which],
        sides={"bottom": walls, "top": 0.0},
        buoyancy=np.array([(0.0, 1.0), (0.2, 1.0), (0.0, 2.0)])[which],
        initial=begin,
    )
    given = {"viscosity": 0.02, "stream": (0.0, 0.0)} | options
    return Simulation(Grid(24, 12, 1 / 12), PLATES, batch=batch, temperature=heat, **given)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batch_equals_single_flows_bit_for_bit(dtype: str) -> None:
    together = rolls(3, dtype=dtype)
    together.advance(2.0)
    for b in range(3):
        alone = rolls(1, slice(b, b + 1), dtype=dtype, threads=1 + b % 2)
        alone.advance(2.0)
        for name, array in alone.get_state(0).items():
            np.testing.assert_array_equal(together.get_state(b)[name], array, err_msg=name)


def test_restart_continues_bit_for_bit(tmp_path: Path) -> None:
    first, second = rolls(3), rolls(3)
    first.set_side_temperature("bottom", np.linspace(0.0, 1.0, 24), np.array([True, False, True]))
    first.diffusivity[1] = 0.04
    first.advance(1.0)
    write_restart(tmp_path / "restart.h5", first)
    read_restart(tmp_path / "restart.h5", second)
    for sim in (first, second):
        sim.advance(0.7)
    for b in range(3):
        for name, array in first.get_state(b).items():
            np.testing.assert_array_equal(second.get_state(b)[name], array, err_msg=name)
    with pytest.raises(ValueError, match=r"temperature\.buoyancy"):
        read_restart(
            tmp_path / "restart.h5",
            Simulation(Grid(24, 12, 1 / 12), PLATES, viscosity=0.02, batch=3, stream=(0.0, 0.0),
                       temperature=Temperature(0.02)),
        )  # fmt: skip


def test_reset_restores_the_initial_temperatures() -> None:
    sim = rolls(3)
    sim.advance(0.5)
    before = sim.get_state(1)
    sim.set_side_temperature("top", 3.0)
    sim.buoyancy[:] = 7.0
    sim.advance(0.3)
    sim.reset()
    sim.advance(0.5)
    for name, array in sim.get_state(1).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_sides_change_between_steps_without_compiling() -> None:
    sim = at_rest(8, 8, PLATES, Temperature(0.5, sides={"bottom": 0.0, "top": 0.0}))
    sim.set_side_temperature("bottom", 1.0)
    sim.advance(20.0)
    np.testing.assert_allclose(side_heat_flux(sim, "bottom"), 0.5, atol=1e-9)
    np.testing.assert_array_equal(sim.side_temperature("bottom"), 1.0)


def test_passive_temperature_does_not_change_the_flow() -> None:
    flows = [
        Simulation(Grid(32, 16, 1 / 8), bodies=[Disk(center=(1.5, 1.0))], viscosity=0.02, temperature=heat)
        for heat in (None, Temperature(0.01, bodies={0: 1.0}))
    ]  # fmt: skip
    for sim in flows:
        sim.advance(1.0)
    plain, warm = (sim.get_state(0) for sim in flows)
    for name, array in plain.items():
        np.testing.assert_array_equal(warm[name], array, err_msg=name)


def test_sampling_of_a_temperature_that_was_set() -> None:
    sim = at_rest(8, 8, PLATES, Temperature(0.1))
    x, y = sim.grid.centres()
    sim.set_temperature(0, 2 * x - y)
    points = np.random.default_rng(0).uniform(0.1, 0.9, (20, 2))
    np.testing.assert_allclose(sim.sample_temperature(points)[0], 2 * points[:, 0] - points[:, 1])
    assert sim.to_host(sim.temperature)[0, G + 3, G + 2] == pytest.approx(2 * x[3, 2] - y[3, 2])


@pytest.mark.parametrize(
    ("heat", "words"),
    [
        ({"diffusivity": 0.0}, "diffusivity = 0.0, but it must be positive"),
        ({"diffusivity": "much"}, "diffusivity is 'much', but must be a finite number"),
        ({"sides": {"botom": 1.0}}, "there is no side 'botom', but left, right, bottom, top"),
        ({"sides": {"left": 1.0}}, "the left side is periodic"),
        ({"sides": {"top": 1.0}, "fluxes": {"top": 1.0}}, "a temperature or a flux, not both"),
        ({"sides": {"top": np.zeros(5)}}, r"of the top side is of shape \(5,\), but must be"),
        ({"sides": {"top": np.nan}}, "the value of the top side is nan"),
        ({"buoyancy": (1.0,)}, "temperature: buoyancy = .* must be two finite numbers"),
        ({"initial": np.zeros((3, 3))}, r"initial is of shape \(3, 3\)"),
        ({"bodies": {0: 1.0}}, "there is no body 0, there are 0"),
        ({"reference": np.zeros(2)}, "reference is of shape"),
    ],
)
def test_bad_temperatures_are_refused(heat: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        at_rest(8, 8, PLATES, Temperature(**({"diffusivity": 0.1} | heat)))


def test_unsupported_uses_of_temperature_are_refused() -> None:
    with pytest.raises(ValueError, match="only walls let a given flux in"):
        Simulation(
            Grid(16, 8, 0.2), viscosity=0.1, temperature=Temperature(0.1, fluxes={"right": 1})
        )
    with pytest.raises(ValueError, match="cannot have jets"):
        Simulation(Grid(32, 32, 0.1), bodies=[Disk(center=(1.6, 1.6))], viscosity=0.1,
                   jets=[Jet(angle=0.0, width=0.3)], temperature=Temperature(0.1))  # fmt: skip
    cold = Simulation(Grid(8, 8, 0.2), PLATES, viscosity=0.1, stream=(0.0, 0.0))
    with pytest.raises(ValueError, match="this flow has no temperature"):
        cold.set_temperature(0, 1.0)
    for measure in (side_heat_flux, nusselt_number, volume_nusselt_number):
        with pytest.raises(ValueError, match="this flow has no temperature"):
            measure(cold, "bottom")
    sim = at_rest(8, 8, PLATES, Temperature(0.1, sides={"bottom": 1.0}))
    with pytest.raises(ValueError, match="two opposite sides with given temperatures"):
        nusselt_number(sim, "bottom")
    with pytest.raises(ValueError, match="only a side that is not periodic"):
        sim.set_side_temperature("left", 1.0)
    with pytest.raises(ValueError, match="only a side that is not periodic"):
        sim.side_temperature("left")
    for use in (
        sim.side_temperature,
        lambda side: sim.set_side_temperature(side, 1.0),
        lambda side: sim.set_inflow(side, "parabolic"),
        lambda side: side_heat_flux(sim, side),
        lambda side: nusselt_number(sim, side),
    ):
        with pytest.raises(ValueError, match="side = 'up': the sides are left, right, bottom, top"):
            use("up")
    with pytest.raises(ValueError, match="control volumes do not count the buoyancy"):
        sim.measure_control_volumes()
