"""Films are written whole, can be read back, and say how episodes ended."""

import imageio.v3 as imageio
import numpy as np
import pytest

from cases.baselines import PD, ZeroController
from cases.film import render_film
from flowsim import viz

OPTIONS = {"cells_per_diameter": 8, "start": "impulsive"}


def test_film_in_both_formats(tmp_path):
    files = [tmp_path / "film.mp4", tmp_path / "film.gif"]
    endings = render_film(
        {"one": ZeroController(), "two": ZeroController()},
        files,
        env_options=OPTIONS,
        actions=12,
        frames_per_action=2,
        width=320,
    )
    assert [ending.title for ending in endings] == ["one", "two"]
    assert [ending.episode_return for ending in endings] == [-100.0, -100.0]  # the same start, the same end
    assert all(ending.lost for ending in endings)
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


def test_every_start_is_one_that_the_environment_has(tmp_path, make):
    """A batch of starts gives, for each seed, what a single environment gives; what is lost is marked."""
    seeds = [3, 0, 11, 5]
    endings = render_film(
        {"agent": PD["flowsim/DCylinderWake-v0"], "no control": ZeroController()},
        [tmp_path / "film.png", tmp_path / "film.mp4"],
        env_options=OPTIONS | {"episode_actions": 6},
        seeds=seeds,
        frames_per_action=1,
        width=320,
        tally=[("of all", "1 of 9")],
    )
    assert [ending.title for ending in endings] == [
        "agent: start 1",
        "start 2",
        "start 3",
        "start 4",
        "no control: start 1",
    ]
    controllers = [PD["flowsim/DCylinderWake-v0"]] * 4 + [ZeroController()]
    for ending, seed, controller in zip(endings, [*seeds, seeds[0]], controllers, strict=True):
        env, over, total = make(**OPTIONS, episode_actions=6), False, 0.0
        observation, _ = env.reset(seed=seed)
        while not over:
            observation, reward, terminated, truncated, _ = env.step(controller(observation[None])[0])
            total, over = total + reward, terminated or truncated
        assert (ending.lost, ending.actions) == (terminated, env.episodes.actions_done[0])
        assert ending.episode_return == pytest.approx(total)
    assert {ending.lost for ending in endings} == {True, False}
    picture = imageio.imread(tmp_path / "film.png").astype(int)
    red, green = ((picture == colour).all(axis=2).sum() for colour in (viz._LOST, viz._HELD))
    assert red > 1000
    assert green > 1000
    film = imageio.imread(tmp_path / "film.mp4")
    assert film.shape[1:] == (picture.shape[0] // 2 * 2, picture.shape[1], 3)


@pytest.mark.parametrize(
    ("paths", "changes", "words"),
    [
        ("film.avi", {}, "'.avi'"),
        (["a.gif", "b.gif"], {}, "at most one"),
        ("nowhere/a.gif", {}, "there is no folder nowhere"),
        ("/proc/a.gif", {}, "cannot be written to /proc"),
        (".gif/", {}, "suffix ''"),
        ("film.gif", {"actions": 0}, "actions is 0"),
        ("film.gif", {"frames_per_action": -1}, "frames_per_action is -1"),
        ("film.gif", {"width": 333}, "width is 333"),
        ("film.gif", {"controllers": {}}, "no controllers"),
        ("film.gif", {"seeds": []}, "no starts"),
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
