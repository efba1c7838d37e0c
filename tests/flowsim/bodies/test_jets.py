"""Jets through surfaces: mass balance, momentum, forces, ramps, batches, restarts, and what is refused."""

import math

import numpy as np
import pytest

from flowsim import Disk, Ellipse, Grid, Jet, Sides, Simulation, polygon
from flowsim.bodies.jets import tabulate_jets
from flowsim.grid import GHOSTS as G
from flowsim.io import read_restart, write_restart
from flowsim.kernels.jets import jet_frame, jet_height, jet_source, jet_velocity

TOP, BOTTOM = (Jet(angle=s * np.pi / 2, width=np.radians(10)) for s in (1, -1))
SQUARE = polygon([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)], center=(2.0, 2.0))


def flow(cells=16, jets=(TOP, BOTTOM), bodies=None, sides=None, **options):
    grid = Grid(4 * cells, 4 * cells, 1 / cells)
    bodies = [Disk(center=(2.013, 2.007))] if bodies is None else bodies
    options = {"viscosity": 0.01, "dtype": "float64", "stream": (0.0, 0.0)} | options
    return Simulation(grid, sides or Sides.all("open"), bodies, jets=jets, **options)


def outflow(sim, b=0, low=1.25, high=2.75):
    """Flux out of a square, from the velocities on its faces."""
    i, j, h = round(low / sim.grid.h), round(high / sim.grid.h), sim.grid.h
    u, v = (sim.to_host(f[b])[G:, G:].astype(np.float64) for f in (sim.u, sim.v))
    return h * ((u[j, i:j] - u[i, i:j]).sum() + (v[i:j, j] - v[i:j, i]).sum())


@pytest.mark.parametrize(
    ("body", "jet"),
    [
        (Disk(center=(2.013, 2.007)), TOP),
        (Disk(center=(1.97, 2.04), angle=0.7), Jet(angle=0.3, width=1.0, profile="parabolic")),
        (SQUARE, Jet(point=(0.45, 0.5), width=0.1, profile="parabolic")),
        (Disk(motion=lambda t: (2 + 0.2 * t, 2.0, t, 0.2, 0.0, 1.0)), TOP),
    ],
)
def test_flow_rate_leaves_every_box_around_the_body_exactly(body, jet):
    """For slots of any width in cells and any position in the grid; in single precision to round-off."""
    for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
        sim = flow(bodies=[body], jets=[jet], dtype=dtype)
        sim.set_jet_flow_rates([0.1])
        sim.advance(0.1)
        assert outflow(sim) == pytest.approx(0.1, abs=tolerance)
        assert outflow(sim, low=0.5, high=3.5) == pytest.approx(0.1, abs=tolerance)
        assert sim.max_divergence().max() < 1e3 * tolerance


def test_balanced_pair_has_no_net_flux_and_net_flux_leaves_at_outflow():
    sides = Sides("inflow", "outflow", "slip", "slip")
    sim = flow(sides=sides, stream=(1.0, 0.0), batch=2)
    sim.set_jet_flow_rates([[0.1, -0.1], [0.1, 0.05]], over=0.05)
    sim.advance(0.2)
    assert abs(outflow(sim, 0)) < 1e-13
    assert outflow(sim, 1) == pytest.approx(0.15, abs=1e-13)
    for b, net in enumerate((0.0, 0.15)):
        left, right = (sim.u[b, i, G:-G].mean() * 4 for i in (G, -G - 1))
        assert right - left == pytest.approx(net, abs=1e-12)
    assert sim.max_divergence().max() < 1e-11


@pytest.mark.parametrize("profile", ["cosine", "parabolic"])
def test_velocity_profile_in_a_resolved_slot(profile):
    """Radial, at its peak Q pi / 2 w R or 3 Q / 2 w R, and no velocity beside it or deep inside."""
    jet, h = Jet(angle=0.4, width=0.8, profile=profile), 1 / 256
    places, kinds = tabulate_jets([jet], [Disk()], h)
    table = type("Table", (), {"places": places, "kinds": kinds})
    frame = jet_frame(table, 0, 0.0, 0.0, 1.0, 0.0)

    def velocity(theta, r):
        x, y = r * math.cos(theta), r * math.sin(theta)
        return np.array([jet_velocity(frame, along_x, x, y, h) for along_x in (True, False)])

    for theta in np.linspace(-0.1, 0.9, 21):
        s = (theta - 0.4) / 0.4
        shape = {"cosine": np.pi / 2 * np.cos(np.pi / 2 * s), "parabolic": 1.5 * (1 - s * s)}
        expected = shape[profile] / (0.8 * 0.5) if abs(s) < 1 else 0.0
        radial = expected * np.array([math.cos(theta), math.sin(theta)])
        np.testing.assert_allclose(velocity(theta, 0.5), radial, atol=0.02 * 4.0)
        np.testing.assert_allclose(velocity(theta, 0.5 - 4 * h), 0.0)
    assert jet_height(frame, 0.0, 0.6) == pytest.approx(0.1)


def test_source_sums_to_the_flow_rate_and_lies_under_the_surface():
    h = 1 / 16
    for jet, body in ((TOP, Disk()), (Jet(point=(0.45, 0.5), width=0.1), SQUARE)):
        places, kinds = tabulate_jets([jet], [body], h)
        table = type("Table", (), {"places": places, "kinds": kinds})
        frame = jet_frame(table, 0, 2.013, 2.007, math.cos(0.3), math.sin(0.3))
        cells = [(i, j, jet_source(frame, i, j, h)) for i in range(64) for j in range(64)]
        assert sum(s for _, _, s in cells) * h == pytest.approx(1.0, abs=1e-13)
        for i, j, source in cells:
            height = jet_height(frame, (i + 0.5) * h, (j + 0.5) * h)
            assert abs(source) < 1e-12 or -4 * h < height < 0


def test_both_force_measures_include_the_jet_momentum():
    """For steady and ramped jets on a spinning body; also the torque."""
    sim = flow(
        24, jets=[TOP, Jet(angle=0.5, width=np.radians(20))], bodies=[Disk(center=(2.0, 2.0))]
    )
    state = sim.body_state
    state.target_angular_velocity[:], state.angular_acceleration[:] = 0.5, np.inf
    volumes = sim.measure_control_volumes()
    sim.set_jet_flow_rates([0.1, -0.05], over=0.25)
    sim.advance(0.1)
    for _ in range(3):
        scale = np.abs(state.force[0, 0]).max()
        np.testing.assert_allclose(volumes.force[0, 0], state.force[0, 0], atol=0.03 * scale)
        np.testing.assert_allclose(volumes.torque[0, 0], state.torque[0, 0], atol=0.03 * scale)
        sim.advance(0.15)


def test_momentum_of_box_and_body_equals_that_of_the_jets():
    """Momentum of the fluid plus the impulse on the body is that of the jets under the surface, to round-off."""
    jets = [TOP, Jet(angle=np.pi, width=0.4, profile="parabolic")]
    sim = flow(sides=Sides.all("periodic"), jets=jets)
    for rate in (0.1, 0.02):
        sim.set_jet_flow_rates([rate, -rate], over=0.1)
        sim.advance(0.15)
        given = [
            f[0, G:-G, G:-G].sum() * sim.grid.h**2 + sim.body_state.impulse[0, 0, d]
            for d, f in enumerate((sim.u, sim.v))
        ]
        np.testing.assert_allclose(given, sim.jet_momentum[0, :, :2].sum(axis=0), atol=1e-12)
        assert np.abs(sim.body_state.impulse[0, 0, :2]).min() > 1e-3


def test_ramps_are_linear_end_at_their_targets_and_differ_per_flow():
    sim = flow(8, batch=3, bodies=[Disk(center=(2.0, 2.0))])
    sim.set_jet_flow_rates([[0.1, -0.1], [-0.05, 0.05], [0.0, 0.0]], over=0.5)
    sim.advance(0.25)
    expected = np.array([[0.05, -0.05], [-0.025, 0.025], [0.0, 0.0]])
    np.testing.assert_allclose(sim.jet_flow_rates, expected, atol=1e-14)
    sim.set_jet_flow_rates([0.0, 0.0], which=np.array([False, True, False]))
    sim.advance(0.25)
    expected = [[0.1, -0.1], [0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(sim.jet_flow_rates, expected, atol=1e-14)
    sim.reset(np.array([True, False, False]))
    assert not sim.jet_flow_rates[0].any()
    assert not sim.target_jet_flow_rates[0].any()


def test_batch_single_flows_and_single_steps_agree_bit_for_bit():
    rates = [[0.1, -0.1], [-0.07, 0.03]]
    both = flow(8, dtype="float32", batch=2, bodies=[Disk(center=(2.0, 2.0))], threads=2)
    both.set_jet_flow_rates(rates, over=0.1)
    both.advance_steps(12)
    for b in (0, 1):
        one = flow(8, dtype="float32", bodies=[Disk(center=(2.0, 2.0))])
        one.set_jet_flow_rates(rates[b], over=0.1)
        for _ in range(12):
            one.step()
        for name in ("u", "v", "pressure", "jets", "body_force"):
            np.testing.assert_array_equal(
                one.get_state(0)[name], both.get_state(b)[name], err_msg=name
            )


def test_restart_in_the_middle_of_a_ramp(tmp_path):
    sim = flow(8, bodies=[SQUARE], jets=[Jet(point=(0.3, 0.5), width=0.2)])
    sim.set_jet_flow_rates([0.1], over=0.4)
    sim.advance(0.2)
    write_restart(tmp_path / "r.h5", sim)
    again = flow(8, bodies=[SQUARE], jets=[Jet(point=(0.3, 0.5), width=0.2)])
    read_restart(tmp_path / "r.h5", again)
    for one in (sim, again):
        one.advance(0.3)
    np.testing.assert_array_equal(sim.u, again.u)
    np.testing.assert_array_equal(sim.body_state.force, again.body_state.force)
    other = flow(8, bodies=[SQUARE], jets=[Jet(point=(0.2, 0.5), width=0.2)])
    with pytest.raises(ValueError, match="jets"):
        read_restart(tmp_path / "r.h5", other)


def test_jets_with_zero_flow_rate_change_nothing():
    sims = [flow(8, jets=jets, stream=(1.0, 0.0)) for jets in ((), (TOP, BOTTOM))]
    for sim in sims:
        sim.advance(0.5)
    np.testing.assert_array_equal(sims[0].u, sims[1].u)
    np.testing.assert_array_equal(sims[0].body_state.force, sims[1].body_state.force)


@pytest.mark.parametrize(
    ("jet", "body", "words"),
    [
        (Jet(body=1, angle=0.0, width=0.1), Disk(center=(2.0, 2.0)), "there are 1 bodies"),
        (Jet(point=(0.0, 0.2), width=0.1), Disk(center=(2.0, 2.0)), "0.3 D from the surface"),
        (
            Jet(point=(0.5, 0.0), width=1.1),
            Disk(center=(2.0, 2.0)),
            "narrower than its slot of 1.1 D",
        ),
        (Jet(point=(0.4, 0.5), width=0.3), SQUARE, "narrower than its slot of 0.3 D"),
        (
            Jet(angle=1.57, width=0.1),
            Ellipse(center=(2.0, 2.0), aspect=0.2),
            "needs 4 cells of solid",
        ),
        (
            Jet(angle=0.0, width=0.1),
            Disk(center=(2.0, 2.0), motion="free", density=0.5),
            "lighter than the fluid",
        ),
    ],
)
def test_bodies_that_cannot_have_a_jet_are_refused(jet, body, words):
    with pytest.raises(ValueError, match=words):
        flow(bodies=[body], jets=[jet])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"width": 0.1}, "either an angle or a point"),
        ({"width": 0.1, "angle": 0.0, "point": (0.5, 0.0)}, "either an angle or a point"),
        ({"width": 4.0, "angle": 0.0}, "between 0 and pi"),
        ({"width": 0.0, "point": (0.5, 0.0)}, "positive"),
        ({"width": 0.1, "angle": math.nan}, "finite"),
        ({"width": 0.1, "angle": 0.0, "profile": "flat"}, "cosine or parabolic"),
    ],
)
def test_invalid_jets_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Jet(**given)


def test_invalid_flow_rates_are_refused():
    sim = flow(8, sides=Sides.all("slip"), bodies=[Disk(center=(2.0, 2.0))])
    with pytest.raises(ValueError, match="nothing can leave"):
        sim.set_jet_flow_rates([0.1, 0.0])
    sim.set_jet_flow_rates([0.1, -0.1])
    sim.advance(0.1)
    sim.jet_flow_rates[0, 0] = 0.3
    with pytest.raises(ValueError, match=r"add up to 0\.2"):
        sim.advance(0.1)
    for rates, over in (([0.1], 0.0), ([np.nan, 0.0], 0.0), ([0.1, -0.1], -1.0)):
        with pytest.raises(ValueError, match=r"jets|over"):
            sim.set_jet_flow_rates(rates, over=over)
