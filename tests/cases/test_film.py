"""Films are written whole, can be read back, and say how episodes ended."""

import imageio.v3 as imageio
import numpy as np
import pytest

from cases.baselines import ZeroController
from cases.film import render_film

OPTIONS = {"cells_per_diameter": 8, "start": "impulsive"}


def test_film_in_both_formats(tmp_path):
    files = [tmp_path / "film.mp4", tmp_path / "film.gif"]
    returns = render_film(
        {"one": ZeroController(), "two": ZeroController()},
        files,
        env_options=OPTIONS,
        actions=12,
        frames_per_action=2,
        width=320,
    )
    assert returns == {"one": -100.0, "two": -100.0}  # the same start, the same end
    mp4, gif = (imageio.imread(file) for file in files)
    assert mp4.shape[0] > 30
    assert mp4.shape[2] == gif.shape[2] == 320
    assert (mp4[0].astype(int) - mp4[-1]).std() > 1.0
    assert files[1].stat().st_size < 1_500_000
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_square_boxes_stand_side_by_side(tmp_path):
    render_film(
        {"a": ZeroController(), "b": ZeroController()},
        tmp_path / "film.gif",
        env="flowsim/EllipticalSwimmer-v0",
        env_options={"cells_per_diameter": 8},
        actions=1,
        width=160,
    )
    shape = imageio.imread(tmp_path / "film.gif").shape
    assert shape[2] > shape[1]


@pytest.mark.parametrize(
    ("paths", "changes", "words"),
    [
        ("film.avi", {}, "'.avi'"),
        (["a.gif", "b.gif"], {}, "at most one"),
        ("film.gif", {"actions": 0}, "actions is 0"),
        ("film.gif", {"frames_per_action": -1}, "frames_per_action is -1"),
        ("film.gif", {"width": 333}, "width is 333"),
        ("film.gif", {"controllers": {}}, "no controllers"),
        ("film.gif", {"env": "CartPole-v1", "env_options": {}}, "'CartPole-v1' is no flow task"),
    ],
)
def test_bad_requests_write_nothing(tmp_path, monkeypatch, paths, changes, words):
    monkeypatch.chdir(tmp_path)
    arguments = {"controllers": {"zero": ZeroController()}, "paths": paths, "env_options": OPTIONS} | changes
    with pytest.raises(ValueError, match=words):
        render_film(**arguments)
    assert not list(tmp_path.iterdir())


def test_the_picture_is_the_same_whoever_watches(make):
    """Filming does not change what happens."""
    env, watched = make(), make()
    seen = []
    watched.episodes.watch = lambda simulation: seen.append(simulation.vorticity().max())
    np.testing.assert_array_equal(env.reset(seed=0)[0], watched.reset(seed=0)[0])
    for _ in range(3):
        np.testing.assert_array_equal(env.step(np.zeros(3))[0], watched.step(np.zeros(3))[0])
    assert len(seen) > 10
