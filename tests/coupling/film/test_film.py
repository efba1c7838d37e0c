"""Films are written whole, can be read back, and say how episodes ended."""

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

from cases.baselines import PD, ConstantController, ZeroController
from coupling.film import flow_film as film
from coupling.film.flow_film import render_film
from flowsim.render import fields, scene
from flowsim.render.fields import draw_panel
from flowsim.render.quantities import choose

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
    # the same start, the same end
    assert [ending.episode_return for ending in endings] == [-100.0, -100.0]
    assert all(ending.failed for ending in endings)
    mp4, gif = (imageio.imread(file) for file in files)
    assert mp4.shape[0] > 30
    assert mp4.shape[2] == gif.shape[2] == 320
    assert (mp4[0].astype(int) - mp4[-1]).std() > 1.0
    assert files[1].stat().st_size < 1_500_000
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_panels_of_square_boxes_are_side_by_side(tmp_path):
    render_film(
        {"a": ZeroController(), "b": ZeroController()},
        tmp_path / "film.gif",
        env="flowsim/EllipticalSwimmer-v0",
        env_options={"cells_per_diameter": 8},
        actions=1,
        width=160,
    )
    shape = imageio.imread(tmp_path / "film.gif").shape
    assert shape[2] == 160 + 4 + 160


def test_filmed_episodes_equal_those_of_the_environment(tmp_path):
    """For each seed, the batch equals a single environment; failures are marked."""
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
        "agent: episode 1",
        "episode 2",
        "episode 3",
        "episode 4",
        "no control: episode 1",
    ]
    controllers = [PD["flowsim/DCylinderWake-v0"]] * 4 + [ZeroController()]
    for ending, seed, controller in zip(endings, [*seeds, seeds[0]], controllers, strict=True):
        env = gymnasium.make("flowsim/DCylinderWake-v0", **OPTIONS, episode_actions=6).unwrapped
        over, total = False, 0.0
        observation, _ = env.reset(seed=seed)
        while not over:
            observation, reward, terminated, truncated, _ = env.step(
                controller(observation[None])[0]
            )
            total, over = total + reward, terminated or truncated
        assert (ending.failed, ending.actions) == (terminated, env.episodes.actions_done[0])
        assert ending.episode_return == pytest.approx(total)
    assert {ending.failed for ending in endings} == {True, False}
    picture = imageio.imread(tmp_path / "film.png").astype(int)
    red, green = (
        (picture == colour).all(axis=2).sum() for colour in (fields._FAILED, fields._SURVIVED)
    )
    assert red > 1000
    assert green > 1000
    film = imageio.imread(tmp_path / "film.mp4")
    assert film.shape[1:] == (picture.shape[0] // 2 * 2, picture.shape[1], 3)


@pytest.mark.parametrize(
    ("paths", "changes", "words"),
    [
        ("film.avi", {}, "'.avi'"),
        (["a.gif", "b.gif"], {}, "at most one"),
        ("/proc/nowhere/a.gif", {}, "cannot be written to /proc/nowhere: No such file"),
        ("/proc/a.gif", {}, "cannot be written to /proc"),
        (".gif/", {}, "suffix ''"),
        ("film.gif", {"actions": 0}, "actions is 0"),
        ("film.gif", {"frames_per_action": -1}, "frames_per_action is -1"),
        ("film.gif", {"width": 333}, "width is 333"),
        ("film.gif", {"controllers": {}}, "no controllers"),
        ("film.gif", {"seeds": []}, "no seeds"),
        ("film.gif", {"limit": 0.0}, "limit is 0.0"),
        ("film.gif", {"limit": float("nan")}, "limit is nan"),
        ("film-%04d.gif", {}, "only a series of PNG images is numbered"),
        ("film-%s.png", {}, "only a series of PNG images is numbered"),
        ("film.gif", {"env": "CartPole-v1", "env_options": {}}, "'CartPole-v1' is not a flow task"),
        (
            "film.gif",
            {"env": "parallel:meadow", "env_options": {}},
            "'parallel:meadow' is not a flow task",
        ),
    ],
)
def test_bad_requests_write_nothing(tmp_path, monkeypatch, paths, changes, words):
    monkeypatch.chdir(tmp_path)
    arguments = {
        "controllers": {"zero": ZeroController()},
        "paths": paths,
        "env_options": OPTIONS,
    } | changes
    with pytest.raises(ValueError, match=words):
        render_film(**arguments)
    assert not list(tmp_path.iterdir())


def test_watching_does_not_change_the_flow():
    """Observations are the same with and without a film."""
    env, watched = (
        gymnasium.make("flowsim/DCylinderWake-v0", cells_per_diameter=8).unwrapped for _ in range(2)
    )
    seen = []
    watched.episodes.watch = lambda simulation: seen.append(simulation.vorticity().max())
    np.testing.assert_array_equal(env.reset(seed=0)[0], watched.reset(seed=0)[0])
    for _ in range(3):
        np.testing.assert_array_equal(env.step(np.zeros(3))[0], watched.step(np.zeros(3))[0])
    assert len(seen) > 10


def test_frames_are_evenly_spaced_and_captioned_with_their_time(tmp_path, monkeypatch):
    """Every frame shows the solver step nearest to its time; frames at decisions are exact."""
    seen, drawn = [], draw_panel

    def draw(scene, caption, *words, **named):
        seen.append(caption)
        return drawn(scene, caption, *words, **named)

    monkeypatch.setattr(film, "draw_panel", draw)
    push, env = PD["flowsim/DCylinderWake-v0"], {"cells_per_diameter": 8}
    render_film(
        {"pd": push}, tmp_path / "film.png", env_options=env, actions=3, frames_per_action=6
    )
    times = np.array([caption.time for caption in seen[:-1]])  # the last frame is held
    np.testing.assert_allclose(times[::6], [0.0, 1.0, 2.0, 3.0], atol=1e-12)
    off = times - np.arange(1 + 3 * 6) / 6
    assert 0.0 < np.abs(off).max() <= 0.5 * 0.5 / 8, "half of a step at CFL 0.5 and 8 cells per D"
    made = gymnasium.make("flowsim/DCylinderWake-v0", **env).unwrapped
    observation, _ = made.reset(seed=0)
    steps, began = [], made.task.simulation.time[0]
    made.episodes.watch = lambda simulation: steps.append(simulation.time[0] - began)
    for _ in range(3):
        observation = made.step(push(observation[None])[0])[0]
    assert set(times[1:]) <= set(steps), "the solver's steps without filming"


def test_the_camera_keeps_the_agent_in_the_middle(tmp_path):
    """The agent's colour stays around the middle of every frame, and wanders without the camera."""
    env = "flowsim/EllipticalSwimmer-v0"
    options = {
        "env": env,
        "env_options": {"cells_per_diameter": 8},
        "actions": 4,
        "frames_per_action": 2,
    }
    middles = {}
    for follow in (True, False):
        series = tmp_path / f"{follow}-%02d.png"
        render_film({"pd": PD[env]}, series, follow=follow, width=320, **options)
        pictures = [
            imageio.imread(file)[24:344] for file in sorted(tmp_path.glob(f"{follow}-*.png"))
        ]
        places = [
            np.argwhere((picture == scene.AGENT).all(axis=2)).mean(axis=0) for picture in pictures
        ]
        middles[follow] = np.abs(np.array(places) - 160).max(axis=1)
    assert middles[True].max() < 6
    assert middles[False].max() > 20


def test_image_series_replaces_a_longer_one(tmp_path):
    for actions in (3, 1):
        render_film(
            {"zero": ZeroController()},
            tmp_path / "%03d.png",
            env_options=OPTIONS,
            actions=actions,
            width=160,
            fps=2,
        )
    # the initial state, five frames of the action, and three of the end
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"{n:03d}.png" for n in range(1, 10)
    ]


def test_film_of_three_quantities_stacks_three_panels(tmp_path):
    shapes = []
    for names in ("vorticity", "vorticity,speed,pressure"):
        render_film(
            {"zero": ZeroController()},
            tmp_path / "film.png",
            env_options=OPTIONS,
            actions=1,
            width=320,
            quantities=choose(names),
        )
        shapes.append(imageio.imread(tmp_path / "film.png").shape)
    assert shapes[1][0] == shapes[0][0] + 2 * 160 + 2 * 3 * fields.text_size(320)


def test_film_of_a_drag_reduction_task_reports_its_measures(tmp_path):
    """The final panel shows the mean of the environment's measures over the second half of the actions."""
    env_id, options = "flowsim/RotatingCylinder-v0", {"cells_per_diameter": 4, "episode_actions": 4}
    controllers = {"spin": ConstantController((0.5,)), "no control": ZeroController(1)}
    file = tmp_path / "film.png"
    endings = render_film(controllers, file, env=env_id, env_options=options, seeds=[3, 7])
    assert file.exists()
    env = gymnasium.make(env_id, **options)
    for ending, (seed, action) in zip(endings, [(3, 0.5), (7, 0.5), (3, 0.0)], strict=True):
        env.reset(seed=seed)
        infos = [env.step(np.array([action], np.float32))[-1] for _ in range(4)]
        for name in ("C_D", "net power"):
            expected = np.mean([info["measures"][name] for info in infos[2:]])
            assert ending.measures[name] == pytest.approx(expected, rel=1e-5)
