"""Vorticity pictures and film files."""

import imageio.v3 as imageio
import numpy as np
import pytest

from flowsim import Ellipse, HalfDisk, viz


def scene(vorticity, **changes):
    return viz.Scene(vorticity=vorticity, size=(2.0, 1.0), **changes)


def test_colours_tell_the_sense_of_rotation():
    """Anticlockwise is red, clockwise is blue, still water light; y points up."""
    vorticity = np.zeros((40, 20))
    vorticity[:20, 10:] = 5.0
    vorticity[20:, :10] = -5.0
    picture = np.asarray(viz.vorticity_picture(scene(vorticity), 200)).astype(int)
    assert picture.shape == (100, 200, 3)
    red, blue, still = picture[25, 50], picture[75, 150], picture[25, 150]
    assert red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50
    assert still.min() > 200


def test_range_is_fixed_and_not_a_number_is_survived():
    vorticity = np.full((8, 4), 1e9)
    vorticity[0, 0] = np.nan
    brightest = np.asarray(viz.vorticity_picture(scene(vorticity), 64))
    limit = np.asarray(viz.vorticity_picture(scene(np.full((8, 4), viz.VORTICITY_LIMIT)), 64))
    np.testing.assert_array_equal(brightest[:8, -8:], limit[:8, -8:])


def test_outlines_are_the_bodies():
    around = viz.outline(Ellipse(major=2.0, aspect=0.5), np.array([1.0, 2.0]), np.pi / 2)
    np.testing.assert_allclose((around - (1.0, 2.0)) ** 2 @ (1 / 0.25, 1.0), 1.0, atol=1e-12)
    half = viz.outline(HalfDisk(diameter=1.0), np.array([0.0, 0.0]), 0.0)
    assert half[:, 0].max() == pytest.approx(0.0)
    assert half[:, 0].min() == pytest.approx(-0.5, abs=1e-3)
    np.testing.assert_allclose(np.hypot(*half.T), 0.5)


def test_body_covers_its_place_and_no_more():
    body = viz.Outline(viz.outline(Ellipse(major=1.0, aspect=0.4), np.array([1.0, 0.5]), 0.0), agent=True)
    bare = np.asarray(viz.vorticity_picture(scene(np.zeros((40, 20))), 400)).astype(int)
    drawn = np.asarray(viz.vorticity_picture(scene(np.zeros((40, 20)), outlines=[body]), 400))
    changed = (np.abs(drawn.astype(int) - bare).sum(axis=2) > 60).sum() / 200.0**2
    assert changed == pytest.approx(np.pi * 0.5 * 0.2, rel=0.15)  # and its outline


def test_panel_has_even_sides_and_a_caption():
    caption = viz.Caption(time=1.0, episode_return=-2.0, action=(0.5, -1.0, 0.0), title="trained", note="left the box")
    panel = viz.draw_panel(scene(np.zeros((40, 20))), caption, width=322)
    assert panel.dtype == np.uint8
    assert panel.shape[0] % 2 == panel.shape[1] % 2 == 0
    assert (panel[:14] < 100).any()  # ink


def test_films_are_read_back(tmp_path):
    frames = [np.full((60, 80, 3), 20 * n, np.uint8) for n in range(10)]
    viz.write_mp4(tmp_path / "new" / "film.mp4", iter(frames), fps=10)
    film = imageio.imread(tmp_path / "new" / "film.mp4")
    assert film.shape == (10, 60, 80, 3)
    np.testing.assert_allclose(film.mean(axis=(1, 2, 3)), 20 * np.arange(10), atol=6)
    viz.write_gif(tmp_path / "film.gif", frames, fps=10)
    assert imageio.imread(tmp_path / "film.gif").shape[1:] == (60, 80, 3)


def test_failed_film_leaves_nothing(tmp_path):
    def frames():
        yield np.zeros((60, 80, 3), np.uint8)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        viz.write_mp4(tmp_path / "film.mp4", frames())
    for write in (viz.write_mp4, viz.write_gif):
        with pytest.raises(ValueError, match="no frames"):
            write(tmp_path / "film.gif", [])
    assert not list(tmp_path.iterdir())


def test_gif_shrinks_until_it_fits(tmp_path):
    noise = np.random.default_rng(0)
    frames = [noise.integers(0, 255, (120, 160, 3), np.uint8) for _ in range(24)]
    viz.write_gif(tmp_path / "film.gif", frames, max_bytes=100_000)
    assert (tmp_path / "film.gif").stat().st_size <= 100_000
    with pytest.raises(ValueError, match="does not fit"):
        viz.write_gif(tmp_path / "none.gif", frames, max_bytes=100)
    assert not (tmp_path / "none.gif").exists()
