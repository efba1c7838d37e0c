"""Steady flows and the growth of small disturbances, against linear theory."""

import numpy as np
import pytest

from flowsim import Disk, Grid, Recorder, Sides, Simulation, Temperature, base_flow, leading_modes
from flowsim.bodies.swimmers import carangiform
from flowsim.grid import GHOSTS as G
from flowsim.stability.damping import SelectiveFrequencyDamping

NU, WAVE = 0.25, 0.5
"""Of the Kolmogorov flow below: its viscosity, and the wave number of its box along x."""


def kolmogorov(stream: float = 0.0, n: int = 32, push: float = 0.0, **options) -> Simulation:
    """Return Kolmogorov flow, sin(y) along x driven by NU sin(y), in a stream, with a wave across it."""
    grid = Grid(2 * n, n, 2 * np.pi / n)
    given = {"viscosity": NU, "dtype": "float64"} | options
    sim = Simulation(
        grid,
        Sides.all("periodic"),
        stream=(stream, 0.0),
        force_field=lambda x, y: (NU * np.sin(y), 0 * x),
        **given,
    )
    for b in range(sim.batch):
        sim.add_velocity(b, np.sin(grid.u_faces()[1]), push * np.sin(WAVE * grid.v_faces()[0]))
    return sim


def growth_of_kolmogorov_flow(nu: float, wave: float, modes: int = 24) -> float:
    """Return the growth rate of exp(i wave x) times a Fourier series in y about sin(y) (Meshalkin and Sinai 1961).

    dw/dt = -i wave sin(y) (1 - 1/k^2) w - nu k^2 w for the vorticity w of wave numbers k = (wave, n).
    """
    squares = wave**2 + np.arange(-modes, modes + 1) ** 2.0
    sine = (np.eye(2 * modes + 1, k=-1) - np.eye(2 * modes + 1, k=1)) / 2j
    matrix = -1j * wave * sine @ np.diag(1 - 1 / squares) - nu * np.diag(squares)
    return float(np.linalg.eigvals(matrix).real.max())


def free_plates(rayleigh: float, prandtl: float = 0.7, n: int = 24) -> tuple[Simulation, float]:
    """Return conduction between plates without friction, and the growth of its first wave (Rayleigh 1916)."""
    nu, kappa = np.sqrt(prandtl / rayleigh), 1 / np.sqrt(prandtl * rayleigh)
    heat = Temperature(
        kappa, {"bottom": 1.0, "top": 0.0}, buoyancy=(0, 1), initial=lambda x, y: 1 - y
    )
    sim = Simulation(Grid(3 * n, n, 1 / n), Sides("periodic", "periodic", "slip", "slip"), viscosity=nu,
                     stream=(0, 0), temperature=heat, dtype="float64")  # fmt: skip
    wave = 2 * np.pi / 3
    square = wave**2 + np.pi**2
    # (s + nu k^2) (s + kappa k^2) = wave^2 / k^2
    rates = np.roots([1, (nu + kappa) * square, nu * kappa * square**2 - wave**2 / square])
    return sim, float(rates.max())


def test_small_vortices_decay_as_stokes_flow() -> None:
    """In still fluid between walls without friction, at -nu k^2."""
    sim = Simulation(Grid(48, 32, np.pi / 32), Sides.all("slip"), viscosity=[0.02, 0.04], batch=2,
                     stream=(0, 0), dtype="float64")  # fmt: skip
    modes = leading_modes(sim, 3, interval=4.0, tolerance=1e-7)
    squares = np.array([(m / 1.5) ** 2 + n**2 for m, n in ((1, 1), (2, 1), (1, 2))])
    for b, nu in enumerate((0.02, 0.04)):
        assert modes.growth_rate[b] == pytest.approx(-nu * squares, rel=0.005)
    assert np.abs(modes.frequency).max() < 1e-6


def test_swimmer_has_no_steady_flow_even_if_it_is_held() -> None:
    for motion in ("free", "fixed"):
        fish = carangiform(center=(1.5, 1.0), motion=motion)
        sim = Simulation(Grid(48, 32, 1 / 16), bodies=[fish], viscosity=0.1)
        for find in (base_flow, leading_modes):
            with pytest.raises(ValueError, match="so the flow has no steady state"):
                find(sim)


def test_disturbances_are_not_measured() -> None:
    sim = kolmogorov()
    recorder = Recorder(sim, probes=[(1.0, 2.0)])
    volumes = sim.measure_control_volumes()
    sim.advance(0.5)
    rows = recorder.rows()
    leading_modes(sim, interval=1.0, vectors=2)
    np.testing.assert_array_equal(recorder.rows(), rows)
    assert sim.control_volumes is volumes
    sim.advance(0.5)
    assert (np.diff(recorder.time[0]) > 0.0).all()
    assert recorder.time[0, -1] == pytest.approx(1.0)


def test_growth_of_kolmogorov_flow_matches_linear_theory() -> None:
    """A stream rotates the phase of the modes and changes nothing else."""
    exact = growth_of_kolmogorov_flow(NU, WAVE)
    assert exact > 0.05
    for stream in (0.0, 1.5):
        sim = kolmogorov(stream)
        before = sim.get_state(0)
        modes = leading_modes(sim, tolerance=1e-5)
        assert modes.error[0, 0] < 1e-5
        assert modes.growth_rate[0, 0] == pytest.approx(exact, rel=0.02)
        assert 2 * np.pi * modes.frequency[0, 0] == pytest.approx(WAVE * stream, rel=0.02, abs=1e-6)
        for name, values in before.items():
            np.testing.assert_array_equal(sim.get_state(0)[name], values, err_msg=name)


def test_flow_disturbed_by_a_mode_evolves_as_the_mode_predicts() -> None:
    sim = kolmogorov(1.5)
    base_flow(sim)
    modes = leading_modes(sim, tolerance=1e-5)
    steady, growth = np.array(sim.u), modes.growth_rate[0, 0] + 2j * np.pi * modes.frequency[0, 0]
    sim.add_velocity(0, 1e-4 * modes.u[0, 0].real, 1e-4 * modes.v[0, 0].real)
    sim.advance(3.0)
    inside = slice(G, -G)
    expected = 1e-4 * (modes.u[0, 0] * np.exp(3.0 * growth)).real[inside, inside]
    got = (sim.u - steady)[0, inside, inside]
    assert np.abs(got - expected).max() < 0.01 * np.abs(expected).max()


@pytest.mark.parametrize("rayleigh", [800.0, 2000.0])
def test_growth_of_convection_between_free_plates_matches_rayleigh(rayleigh: float) -> None:
    """The onset is at 27 pi^4 / 4 = 657.5, for a wave of another length."""
    sim, exact = free_plates(rayleigh)
    modes = leading_modes(sim, tolerance=1e-5)
    assert modes.growth_rate[0, 0] == pytest.approx(exact, rel=0.02)
    assert modes.temperature is not None
    # one roll from plate to plate, warm where it rises
    assert np.abs(modes.temperature[0, 0]).argmax() % sim.grid.ny in (11, 12)


def test_unstable_steady_flow_is_found() -> None:
    """A stream makes the instability of Kolmogorov flow oscillatory; the steady flow is still sin(y)."""
    sim, left_alone = (kolmogorov(1.5, push=0.1, batch=2) for _ in range(2))
    _, y = sim.grid.u_faces()
    exact = 1.5 + np.sin(y)
    left_alone.advance(60.0)
    found = base_flow(sim)
    assert found.converged.all()
    assert (found.change < 1e-7).all()
    error = [np.abs(flow.u[:, G:-G, G:-G] - exact[G:-G, G:-G]).max() for flow in (sim, left_alone)]
    assert error[0] < 0.01 < 0.3 < error[1]
    # without damping it stays steady
    before = np.array(sim.u)
    sim.advance(1.0)
    assert np.abs(sim.u - before)[:, G:-G, G:-G].max() < 1e-5


def test_steady_flow_in_a_batch_equals_that_of_a_single_flow() -> None:
    """Bit for bit, on two threads."""
    together = kolmogorov(
        1.5, n=16, viscosity=[NU, 0.2], batch=2, push=0.1, dtype="float32", threads=2
    )
    found = base_flow(together, tolerance=1e-4)
    assert found.converged.all()
    assert found.duration[0] != found.duration[1]
    for b, nu in enumerate((NU, 0.2)):
        alone = kolmogorov(1.5, n=16, viscosity=nu, push=0.1, dtype="float32")
        alone_found = base_flow(alone, tolerance=1e-4)
        assert alone_found.duration[0] == found.duration[b]
        np.testing.assert_array_equal(alone.u[0], together.u[b])


def test_filter_and_damping_solve_their_differential_equations() -> None:
    """Uniform flow is steady by itself: u - w decays at chi + 1/Delta, while u + chi Delta w stays."""
    sim = Simulation(
        Grid(16, 16, 0.1), Sides.all("periodic"), viscosity=0.01, stream=(1, 0), dtype="float64"
    )
    chi, delta = 0.5, 2.0
    with SelectiveFrequencyDamping(sim, chi, delta) as damping:
        sim.add_velocity(0, 0.3, 0.0)
        assert damping.change()[0] == pytest.approx(0.3 / delta)
        recorder = Recorder(sim, every=0.5, probes=[(0.8, 0.8)])
        sim.advance(2.0)
    away = 0.3 * np.exp(-(chi + 1 / delta) * recorder.time[0])
    exact = 1.0 + 0.3 / (1 + chi * delta) + away * chi * delta / (1 + chi * delta)
    assert recorder.probe_velocity[0, :, 0, 0] == pytest.approx(exact, abs=1e-12)
    u = sim.u[0, 5, 5]
    sim.advance(1.0)
    assert sim.u[0, 5, 5] == u


def test_modes_of_an_unsteady_flow_are_refused() -> None:
    """The error gives the rate of change and the flow is not modified; the steady flow has modes again."""
    sim = kolmogorov(1.5, n=16)
    base_flow(sim)
    assert leading_modes(sim, interval=1.0, vectors=8).change[0] < 1e-6
    before = sim.get_state(0)
    sim.add_velocity(0, 0.0, 0.1 * np.sin(WAVE * sim.grid.v_faces()[0]))
    disturbed = np.array(sim.u)
    with pytest.raises(ValueError, match=r"flow 0 is not steady: it changes by 0\.\d+ U\^2/D"):
        leading_modes(sim)
    np.testing.assert_array_equal(sim.u, disturbed)
    sim.set_state(0, before)
    leading_modes(sim, interval=1.0, vectors=8)


def test_a_wave_that_decays_changes_at_its_rate() -> None:
    """A standing Stokes wave between walls without friction: its rms times nu k^2, over a short interval."""
    nu, amplitude = 0.01, 0.05
    sim = Simulation(
        Grid(48, 32, np.pi / 32), Sides.all("slip"), viscosity=nu, stream=(0, 0), dtype="float64"
    )
    (xu, yu), (xv, yv) = sim.grid.u_faces(), sim.grid.v_faces()
    kx, ky = 1 / 1.5, 1.0
    sim.add_velocity(
        0,
        amplitude * np.sin(kx * xu) * np.cos(ky * yu),
        -amplitude * kx / ky * np.cos(kx * xv) * np.sin(ky * yv),
    )
    square = kx**2 + ky**2
    rms = 0.5 * amplitude * np.sqrt(1 + (kx / ky) ** 2)
    modes = leading_modes(sim, interval=0.5, vectors=4)
    decay = (1 - np.exp(-0.5 * nu * square)) / 0.5
    assert modes.change[0] == pytest.approx(rms * decay, rel=0.02)


def test_flows_that_cannot_be_steady_are_refused_in_one_sentence() -> None:
    free = Simulation(
        Grid(64, 64, 1 / 16), bodies=[Disk(center=(2, 2), motion="free")], viscosity=0.1
    )
    with pytest.raises(ValueError, match="body 0 is free"):
        base_flow(free)
    with pytest.raises(ValueError, match="body 0 is free"):
        leading_modes(free)
    sim = kolmogorov(n=8)
    with pytest.raises(ValueError, match="damping = -1"):
        base_flow(sim, damping=-1.0)
    assert sim.damping is None
    with pytest.raises(ValueError, match="tolerance = 0"):
        base_flow(sim, tolerance=0.0)
    with pytest.raises(ValueError, match="interval = nan"):
        leading_modes(sim, interval=np.nan)
    with pytest.raises(ValueError, match="more vectors than modes"):
        leading_modes(sim, 5, vectors=5)
