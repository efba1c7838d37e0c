"""Film files, read back."""

import os
import subprocess
import sys

import imageio.v3 as imageio
import numpy as np
import pytest
from PIL import Image, ImageSequence

from flowsim.render import fields, films


def test_films_are_read_back(tmp_path):
    frames = [np.full((60, 80, 3), 20 * n, np.uint8) for n in range(10)]
    films.write_mp4(tmp_path / "new" / "film.mp4", iter(frames), fps=10)
    read = imageio.imread(tmp_path / "new" / "film.mp4")
    assert read.shape == (10, 60, 80, 3)
    np.testing.assert_allclose(read.mean(axis=(1, 2, 3)), 20 * np.arange(10), atol=6)
    films.write_gif(tmp_path / "film.gif", frames, fps=10)
    assert imageio.imread(tmp_path / "film.gif").shape[1:] == (60, 80, 3)
    films.write_webp(tmp_path / "film.webp", frames, fps=10)
    read = np.array(
        [
            frame.convert("RGB")
            for frame in ImageSequence.Iterator(Image.open(tmp_path / "film.webp"))
        ]
    )
    assert read.shape == (10, 60, 80, 3)
    np.testing.assert_allclose(read.mean(axis=(1, 2, 3)), 20 * np.arange(10), atol=6)


def test_failed_film_leaves_nothing(tmp_path):
    def frames():
        yield np.zeros((60, 80, 3), np.uint8)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        films.write_mp4(tmp_path / "film.mp4", frames())
    for write in (films.write_mp4, films.write_gif, films.write_webp):
        with pytest.raises(ValueError, match="no frames"):
            write(tmp_path / "film.gif", [])
    assert not list(tmp_path.iterdir())


def test_both_films_take_the_same_time(tmp_path):
    frames = np.zeros((400, 60, 80, 3), np.uint8)
    frames[range(400), np.arange(400) // 80 * 10, np.arange(400) % 80] = 255  # a dot that moves
    mp4, gif = tmp_path / "film.mp4", tmp_path / "film.gif"
    films.write_films(iter(frames), mp4=mp4, gif=gif, fps=20)
    assert len(imageio.imread(mp4)) == 400
    read = imageio.imread(gif)
    assert 100 < len(read) <= 200
    seconds = len(read) * imageio.immeta(gif, index=0)["duration"] / 1000
    assert seconds == pytest.approx(400 / 20, rel=0.02)
    films.write_films(frames[:3], gif=tmp_path / "alone.gif")
    assert {file.name for file in tmp_path.iterdir()} == {"film.mp4", "film.gif", "alone.gif"}


def test_gif_shrinks_until_it_fits(tmp_path):
    noise = np.random.default_rng(0)
    frames = [noise.integers(0, 255, (120, 160, 3), np.uint8) for _ in range(24)]
    films.write_gif(tmp_path / "film.gif", frames, max_bytes=100_000)
    assert (tmp_path / "film.gif").stat().st_size <= 100_000
    with pytest.raises(ValueError, match="does not fit"):
        films.write_gif(tmp_path / "none.gif", frames, max_bytes=100)
    assert not (tmp_path / "none.gif").exists()


@pytest.mark.parametrize(
    ("kind", "colours", "step"),
    [("mp4", 200, 10), ("gif", 45, 30), ("webp", 150, 15), ("png", 500, 4)],
)
def test_a_ramp_of_vorticity_keeps_its_colours(tmp_path, kind, colours, step):
    """White stays white, both ends stay dark, and between them there are no bands."""
    ramp = np.tile(np.linspace(-8.0, 8.0, 600)[:, None], (1, 300))
    picture = np.asarray(fields.field_picture(fields.Scene(ramp, (2.0, 1.0)), 600))
    file = tmp_path / f"film.{kind}"
    films.write_films([picture] * 4, **{kind: file})
    read = imageio.imread(file)
    row = (read[-1] if read.ndim == 4 else read)[150, 1:-1, :3].astype(int)
    assert len(np.unique(row, axis=0)) >= colours
    assert np.abs(np.diff(row[2:-2], axis=0)).max() <= step
    assert np.abs(row - picture[150, 1:-1])[2:-2].mean() < 4
    assert row[296:302].min() >= 250


def test_the_film_says_how_its_colours_are_coded(tmp_path):
    films.write_mp4(tmp_path / "film.mp4", [np.full((60, 80, 3), (200, 40, 30), np.uint8)] * 3)
    assert "bt709" in str(imageio.immeta(tmp_path / "film.mp4", plugin="FFMPEG")["pix_fmt"])
    np.testing.assert_allclose(
        imageio.imread(tmp_path / "film.mp4")[1].mean(axis=(0, 1)), (200, 40, 30), atol=4
    )


def test_pictures_need_no_display(tmp_path):
    """Also where matplotlib is told to open windows and cannot."""
    code = (
        "import numpy as np; from pathlib import Path; from flowsim.render import fields, films;"
        "scene = fields.Scene(np.zeros((8, 4)), (2.0, 1.0)); caption = fields.Caption(0.0, title='t', action=(0.0,));"
        "films.write_films([fields.draw_panel(scene, caption)], png=Path('film.png'))"
    )
    environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name} | {
        "MPLBACKEND": "TkAgg"
    }
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=600
    )
    assert (tmp_path / "film.png").exists()
