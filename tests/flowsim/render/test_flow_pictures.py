"""Pictures and films of a simulation from Python."""

import math

import imageio.v3 as imageio
import numpy as np
import pytest

from flowsim import Disk, Grid, Recorder, Sides, Simulation, Temperature
from flowsim.bodies.swimmers import carangiform
from flowsim.render.fields import AGENT, outlines
from flowsim.render.flow import film, parameters, picture


def wake(**options) -> Simulation:
    options = {"viscosity": 1 / 100} | options
    return Simulation(Grid(64, 32, 1 / 8), bodies=[Disk(center=(2.01, 2.0))], **options)


def test_film_has_a_frame_per_interval_and_does_not_change_the_flow(tmp_path):
    sim, other = (
        wake(viscosity=[1 / 100, 1 / 40], batch=2),
        wake(viscosity=[1 / 100, 1 / 40], batch=2),
    )
    recorder = Recorder(sim, every=0.5)
    path = film(sim, tmp_path / "b.mp4", 1.0, every=0.05, b=1, fields="speed,q", width=320)
    other.advance(1.0)
    for flow in (sim, other):
        flow.fill_ghosts()
    for b in range(2):
        for name, values in other.get_state(b).items():
            np.testing.assert_array_equal(sim.get_state(b)[name], values, err_msg=name)
    assert len(imageio.imread(path)) == 21
    assert recorder.time.shape == (2, 2)
    assert [file.name for file in tmp_path.iterdir()] == ["b.mp4"]


def test_picture_stacks_fields_and_shows_bodies(tmp_path):
    sim = wake()
    sim.advance(1.0)
    one = imageio.imread(picture(sim, tmp_path / "one.png", width=320))
    two = imageio.imread(
        picture(sim, tmp_path / "two.png", fields="vorticity,divergence", width=320)
    )
    assert one.shape[1:] == two.shape[1:] == (320, 3)
    assert two.shape[0] > 1.7 * one.shape[0]
    assert (one < 100).all(axis=-1).any()


def bent_fish(x: float) -> Simulation:
    sim = Simulation(
        Grid(48, 32, 1 / 16),
        Sides.all("periodic"),
        [carangiform(center=(x, 1.0))],
        viscosity=1e-2,
        stream=(0.0, 0.0),
    )
    sim.steer(0, 0, turn=0.8, period=1.0, over=0.3)
    sim.advance(0.8)
    return sim


def test_swimmer_is_drawn_bent(tmp_path):
    """The middle of its pixels in each column is the current midline."""
    sim = bent_fish(1.5)
    drawn = imageio.imread(picture(sim, tmp_path / "fish.png", fields="divergence", width=960))
    fish = np.abs(drawn.astype(int) - AGENT).max(axis=-1) < 20
    scale = 960 / sim.grid.size[0]
    x, y = sim.midline(0, 0)[12:36, :2].T  # neither the round head nor the thin tail
    columns = (x * scale).astype(int)
    rows = np.array([np.flatnonzero(fish[:, column]).mean() for column in columns])
    assert np.ptp(y) > 0.1
    np.testing.assert_allclose((rows - rows.mean()) / scale, y.mean() - y, atol=0.01)


def test_swimmer_that_crosses_a_periodic_side_is_drawn_at_both():
    sim = bent_fish(0.2)
    shown = outlines(sim, 0, agents=[0])
    points = np.concatenate([shape.points for shape in shown])
    inside = points[((points >= 0.0) & (points < sim.grid.size)).all(axis=1)]
    surface = np.mod(sim.surface(0, 0), sim.grid.size)
    assert len(shown) == 2
    np.testing.assert_allclose(np.sort(inside, axis=0), np.sort(surface, axis=0), atol=1e-12)


def test_film_of_a_diverging_flow_ends_with_a_note(tmp_path):
    sim = wake()
    sim.set_velocity(0, 1e12 * np.ones(sim.grid.padded_shape), np.zeros(sim.grid.padded_shape))
    film(sim, tmp_path / "%02d.png", 1.0, every=0.5, width=320)
    assert sim.diverged[0]
    first, last = (imageio.imread(path) for path in sorted(tmp_path.iterdir()))
    assert (first[:30] != last[:30]).any()  # the title


def test_film_stops_flows_at_their_fences(tmp_path):
    filmed, advanced = wake(batch=2), wake(batch=2)
    for sim in (filmed, advanced):
        sim.fences[0, 0] = (5.0, 6.0, 0.0, 4.0)  # noticed after the first step
    film(filmed, tmp_path / "%02d.png", 0.2, every=0.1, width=320)
    assert advanced.advance(0.2).tolist() == [True, False]
    np.testing.assert_array_equal(filmed.steps, advanced.steps)
    np.testing.assert_array_equal(filmed.time, advanced.time)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("a.avi", {}, "a film is a .mp4, .gif or .webp"),
        ("a.mp4", {"fields": "q,vortices"}, "fields is 'q,vortices'"),
        ("a.mp4", {"every": 0.0}, "every = 0.0: it must be positive"),
        ("a.mp4", {"b": 1}, "b = 1: the batch has 1 flows"),
        ("a.mp4", {"follow": 1}, "follow = 1: there are 1 bodies"),
        ("a.mp4", {"ranges": "q=1"}, "of what is shown"),
    ],
)
def test_invalid_film_options_are_refused_before_the_first_step(tmp_path, name, options, why):
    sim = wake()
    with pytest.raises(ValueError, match=why):
        film(sim, tmp_path / name, 1.0, **options)
    assert sim.steps[0] == 0
    with pytest.raises(ValueError, match=r"a picture is a \.png file"):
        picture(sim, tmp_path / "a.jpg")


def test_titles_name_the_rayleigh_and_prandtl_numbers_of_a_buoyant_flow():
    plates = Sides("periodic", "periodic", "no_slip", "no_slip")
    heat = {"diffusivity": 1.0 / math.sqrt(0.7 * 8e4), "sides": {"bottom": 1.0, "top": 0.0}}
    common = {"viscosity": math.sqrt(0.7 / 8e4), "dtype": "float64"}
    grid = Grid(16, 8, 1 / 8)
    buoyant = Simulation(
        grid, plates, temperature=Temperature(**heat, buoyancy=(0.0, 1.0)), **common
    )
    assert parameters(buoyant, 0) == "Ra = 8e+04, Pr = 0.7"
    passive = Simulation(grid, plates, temperature=Temperature(**heat), **common)
    assert parameters(passive, 0) == f"Re = {1 / common['viscosity']:.4g}"
