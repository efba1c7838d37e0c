"""Film files, read back."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

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


def test_mp4_and_gif_have_the_same_duration(tmp_path):
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
def test_vorticity_ramp_keeps_its_colours(tmp_path, kind, colours, step):
    """White stays white, both ends stay dark, and there are no bands between them."""
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


def test_film_states_its_colour_space(tmp_path):
    films.write_mp4(tmp_path / "film.mp4", [np.full((60, 80, 3), (200, 40, 30), np.uint8)] * 3)
    assert "bt709" in str(imageio.immeta(tmp_path / "film.mp4", plugin="FFMPEG")["pix_fmt"])
    np.testing.assert_allclose(
        imageio.imread(tmp_path / "film.mp4")[1].mean(axis=(0, 1)), (200, 40, 30), atol=4
    )


@pytest.mark.parametrize("name", ["film.mp4", "film.gif", "film.webp", "film.png", "film-%d.png"])
def test_unwritable_folder_is_reported_before_the_first_frame(name):
    drawn = []

    def frames():
        drawn.append(0)
        yield np.zeros((60, 80, 3), np.uint8)

    file = Path("/proc") / name
    with pytest.raises(OSError, match=str(file)) as told:
        films.write_films(frames(), **{file.suffix[1:]: file})
    assert told.value.filename == str(file)
    assert "\n" not in str(told.value)
    assert not drawn


def _write_where(tmp_path, limit="pass", **environment):
    """Write a film in another process, and return the number and the text of the error."""
    code = (
        f"import json, resource, numpy as np; from flowsim.render import films; {limit}\n"
        "noise = np.random.default_rng(0).integers(0, 255, (20, 240, 320, 3), np.uint8)\n"
        "try: films.write_films(noise, mp4=films.Path('film.mp4'))\n"
        "except OSError as error: print(json.dumps([error.errno, error.strerror, error.filename]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | environment,
        check=True, timeout=600, capture_output=True, text=True,
    )  # fmt: skip
    assert not done.stderr
    assert not list(tmp_path.glob("*film*"))
    return json.loads(done.stdout)


def test_film_above_the_file_size_limit_is_an_error(tmp_path):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    assert _write_where(tmp_path, limit) == [errno.EFBIG, "File too large", "film.mp4"]


@pytest.mark.parametrize(
    ("words", "number", "said"),
    [
        ("Error writing trailer: No space left on device", errno.ENOSPC, "No space left on device"),
        ("Unknown encoder 'libx264'", errno.EIO, "ffmpeg cannot write it (Unknown encoder 'libx264')"),
    ],
)  # fmt: skip
def test_ffmpeg_error_is_reported_in_one_line(tmp_path, words, number, said):
    """Also if it fails after the last frame, as with a disk that is full when it closes the file."""
    failing = tmp_path / "ffmpeg"
    failing.write_text(
        f'#!/bin/sh\ncat > /dev/null\necho "a line" >&2\necho "{words}" >&2\nexit 1\n'
    )
    failing.chmod(0o755)
    told = _write_where(tmp_path, IMAGEIO_FFMPEG_EXE=str(failing))
    assert told == [number, said, "film.mp4"]


def test_pictures_need_no_display(tmp_path):
    """Also if matplotlib is configured for a window backend that cannot open."""
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
