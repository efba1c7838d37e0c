"""Options of films, from the command line to the frames, and the text beside the frames."""

import json
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from shell import command

from cases.baselines import ZeroController
from coupling.commands.options import shown
from coupling.film import agent_film
from coupling.film import flow_film as film
from coupling.run.folder import RunFolder
from flowsim.render import flow
from flowsim.render.quantities import SPEED

COARSE = "env_options.cells_per_diameter=8"
CASE = """\
nx: 32
ny: 16
h: 0.125
reynolds: 50
bodies: [{shape: disk, center: [1.5, 1.0], motion: {kind: ramp, velocity: [0.5, 0.0], duration: 0.1}}]
"""


ACTIONS = {"RayleighBenard": 10, "DCylinderWake": 3}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def pictures(folder):
    return [imageio.imread(file) for file in sorted(Path(folder).glob("*.png"))]


def test_agent_film_follows_the_agent_and_shows_several_fields(monkeypatch, capsys):
    drawn, draw = [], film.draw_panel

    def noted(scene, caption, width, *, others=(), **options):
        drawn.append([scene, *others])
        return draw(scene, caption, width, others=others, **options)

    monkeypatch.setattr(film, "draw_panel", noted)
    short = ["--actions", "1", "--episodes", "1", "--frames-per-action", "2", "--fps", "2"]
    look = ["--fields", "vorticity,speed", "--range", "6"]
    films, shown = {}, {}
    for name, more in {"whole": [], "near": ["--follow"]}.items():
        Path(name).mkdir()
        words = ["render", "wake", COARSE, "-o", f"{name}/%02d.png", *short, *look, *more]
        code, _, err = command(words, monkeypatch, capsys)
        assert code == 0, err
        films[name], shown[name] = pictures(name), [*drawn]
        drawn.clear()
    # the initial state, two frames of the action, and 1.5 seconds of the held last frame
    assert [len(each) for each in films.values()] == [1 + 2 + 3] * 2
    whole, near = (each[2].astype(int) for each in films.values())
    assert whole.shape == near.shape
    assert np.abs(whole - near).mean() > 0.5
    for scenes in (scenes for panels in shown.values() for scenes in panels):
        fields = [(scene.quantity.name, scene.quantity.limit) for scene in scenes]
        # a range without a name applies to the first field only
        assert fields == [("vorticity", 6.0), ("speed", SPEED.limit)]
    assert {scene.view for scenes in shown["whole"] for scene in scenes} == {None}
    assert None not in {scene.view for scenes in shown["near"] for scene in scenes}


@pytest.mark.parametrize(
    ("env", "options", "words", "expected"),
    [
        ("RayleighBenard", {"cells_per_height": 16}, [], [("temperature", 1.0)]),
        ("RayleighBenard", {"cells_per_height": 16}, ["0.5"], [("temperature", 0.5)]),
        ("RayleighBenard", {"cells_per_height": 16}, ["speed=3,q=2"], [("speed", 3.0), ("q", 2.0)]),
        ("DCylinderWake", {"preset": "sketch", "start": "impulsive"}, [], [("vorticity", 8.0)]),
        ("DCylinderWake", {"preset": "sketch", "start": "impulsive"}, ["2"], [("vorticity", 2.0)]),
    ],
)
def test_film_shows_the_fields_of_the_task_by_default(monkeypatch, env, options, words, expected):
    drawn, draw = [], film.draw_panel

    def noted(scene, caption, width, *, others=(), **kept):
        drawn.append([(each.quantity.name, each.quantity.limit) for each in (scene, *others)])
        return draw(scene, caption, width, others=others, **kept)

    monkeypatch.setattr(film, "draw_panel", noted)
    look = shown(None, *(words or [None]))
    film.render_film(
        {"zero": ZeroController(ACTIONS[env])}, "film.gif", env=f"cases:flowsim/{env}-v0", env_options=options,
        actions=1, frames_per_action=1, **look,
    )  # fmt: skip
    assert drawn
    assert all(each == expected for each in drawn)


@pytest.mark.parametrize(
    "shown", [["--fields", "speed", "--range", "1.25"], ["--range", "speed=1.25"]], ids=len
)
def test_simulation_film_shows_requested_fields(monkeypatch, capsys, shown):
    drawn, draw = [], flow.draw_panel

    def noted(scene, caption, width, **options):
        drawn.append((scene, caption))
        return draw(scene, caption, width, **options)

    monkeypatch.setattr(flow, "draw_panel", noted)
    Path("tank.yaml").write_text(CASE)
    words = ["simulate", "tank.yaml", "--time", "0.5", "--frames", "2", "-o", "tank"]
    code, _, err = command([*words, "--follow", "0", *shown], monkeypatch, capsys)
    assert code == 0, err
    assert {file.name for file in Path("tank").glob("*.[mg]*[4f]")} >= {"speed.mp4", "speed.gif"}
    assert not Path("tank/vorticity.mp4").exists()
    late = np.array([caption.time for _, caption in drawn]) - [0.0, 0.25, 0.5]
    assert ((late >= 0.0) & (late < 0.035)).all(), "the first step at or after each time"
    assert {caption.title for _, caption in drawn} == {"tank   Re = 50"}
    assert {(scene.quantity.name, scene.quantity.limit) for scene, _ in drawn} == {("speed", 1.25)}
    # half of the box in each direction, around the disk that moves
    views = np.array([scene.view for scene, _ in drawn])
    assert views[:, 1] - views[:, 0] == pytest.approx(2.0)
    assert views[0] == pytest.approx([0.5, 2.5, 0.5, 1.5])
    moved = np.diff(views[:, 0])
    assert (moved > 0.05).all()


def test_a_film_of_convection_shows_the_temperature_unless_told_otherwise(monkeypatch, capsys):
    words = ["simulate", "rayleigh_benard/quick", "--time", "0.02", "--frames", "1", "-o", "box"]
    code, _, err = command(words, monkeypatch, capsys)
    assert code == 0, err
    assert Path("box/temperature.mp4").exists()
    assert not Path("box/vorticity.mp4").exists()


def test_tally_counts_all_episodes_of_the_evaluation(tmp_path):
    """The tally gives the survival rate of evaluation.json in episodes, for the kind of actions filmed."""
    folder = RunFolder(tmp_path)
    assert agent_film._evaluation_lines(folder, ["zero"], deterministic=True) == []
    after = {
        "episodes": 48,
        "survival": 45 / 48,
        "baselines": {"zero": {"episodes": 48, "survival": 0.0}},
    }
    folder.evaluation.write_text(
        json.dumps({"after": after, "drawing": {"episodes": 48, "survival": 41 / 48}})
    )
    expected = [("evaluation: trained agent", "45 of 48"), ("evaluation: no control", "0 of 48")]
    assert agent_film._evaluation_lines(folder, ["zero"], deterministic=True) == expected
    assert agent_film._evaluation_lines(folder, [], deterministic=False) == [
        ("evaluation: trained agent", "41 of 48")
    ]
    folder.evaluation.write_text(json.dumps({"after": after}))
    assert agent_film._evaluation_lines(folder, ["zero"], deterministic=True) == expected
    assert agent_film._evaluation_lines(folder, [], deterministic=False) == []


def test_tally_shows_the_last_measure_even_if_small(tmp_path):
    folder = RunFolder(tmp_path)
    after, zero = (
        {"measures": {"rate": {"mean": 1.0}, "energy": {"mean": mean}}}
        for mean in (8.513e-4, 1.2345)
    )
    folder.evaluation.write_text(
        json.dumps({"after": after | {"baselines": {"zero": zero}}, "drawing": after})
    )
    expected = [("evaluation: trained agent", "0.0008513"), ("evaluation: no control", "1.234")]
    assert agent_film._evaluation_lines(folder, ["zero"], deterministic=True) == expected
