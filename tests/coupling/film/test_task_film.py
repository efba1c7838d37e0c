"""Films of tasks with their own rendering: their panels, when these freeze, and what cannot be filmed."""

from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from shell import HERE, command

from coupling.run.folder import RunFolder
from coupling.run.trust import note_training
from coupling.settings.config import load_config
from coupling.worker.environments import describe_task, make_single
from rl_agent.learner import Learner
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed


def a_run(env: str, name: str = "one") -> RunFolder:
    """Make an untrained run in the current folder."""
    case = f"env: {env}\nagent: {{hidden: [8]}}\nworkers: {{agents: 1, processes: 1}}\nrun: {{name: {name}}}\n"
    Path(f"{name}.yaml").write_text(case)
    config = load_config(f"{name}.yaml")
    task = describe_task(config.env, config.env_options)
    spaces = task.observation_space, task.action_space
    learner = Learner(config.agent, *spaces, agents=1, seed=0, agents_per_env=task.agents_per_env)
    folder = RunFolder(Path(name))
    folder.create(config, lambda: learner.save(folder.checkpoint))
    note_training(config.env)
    folder.unlock()
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def length_of(start: int) -> int:
    """Return how long the episode of a start of the evaluation is."""
    env = make_single("drawn:Drawn-v0", {})
    env.reset(seed=episode_seed(Purpose.EVALUATION, EVALUATION_SEED, start))
    return env.unwrapped.length


def colours(picture: np.ndarray, starts: int) -> list[tuple[int, int, int]]:
    """Return the colour in the middle of each panel: two large ones of 480 x 360, then small ones in threes."""
    centres = [(28 + 180, 240), (28 + 180, 484 + 240)]
    below = 28 + 360 + 28 + 4  # both strips and the gap
    small = 318  # three in the width of two large ones
    for n in range(starts - 1):
        height = 24 + round(small * 30 / 40) + 24
        row, column = divmod(n, 3)
        centres.append(
            (below + row * (height + 5) + height // 2, column * (small + 4) + small // 2)
        )
    return [tuple(int(part) for part in picture[y, x]) for y, x in centres]


def test_every_panel_shows_its_own_episode_and_freezes_at_its_end(monkeypatch, capsys):
    a_run("drawn:Drawn-v0")
    words = ["render", "one", "-o", "p-%02d.png", "--starts", "4", "--fps", "1"]
    code, out, _ = command(words, monkeypatch, capsys)
    assert code == 0
    lengths = [length_of(start) for start in range(4)]
    assert len(set(lengths)) > 1, "the seeds do not tell episodes apart"
    lines = dict(line.split(": return ") for line in out.splitlines() if ": return" in line)
    titles = [
        "trained agent: episode 1",
        "episode 2",
        "episode 3",
        "episode 4",
        "no control: episode 1",
    ]
    for title, length in zip(titles, [*lengths, lengths[0]], strict=True):
        how = "terminated" if length == 2 else "truncated"
        assert lines[title] == f"{length}.00, {length} actions, {how}"
    panels = [lengths[0], lengths[0], *lengths[1:]]  # the large ones first
    files = sorted(Path().glob("p-*.png"))
    assert len(files) == 1 + max(lengths) + 2  # start, actions, held last frame
    for step, file in enumerate(files):
        expected = [(10 * (1 + min(step, length)), 10 * length, 200) for length in panels]
        assert colours(imageio.imread(file), 4) == expected


def test_film_has_the_frame_rate_and_colours_of_the_task(monkeypatch, capsys):
    a_run("drawn:Drawn-v0")
    code, _, _ = command(["render", "one", "--starts", "1", "--actions", "3"], monkeypatch, capsys)
    assert code == 0
    assert imageio.immeta("one.mp4")["fps"] == 7
    seen = imageio.imread("one.gif")[0]
    assert abs(seen[28 + 180, 240].astype(int) - (10, 10 * length_of(0), 200)).max() <= 4


def test_all_frames_of_an_action_are_shown(monkeypatch, capsys):
    a_run("drawn:DrawnInPieces-v0")
    words = ["render", "one", "-o", "p-%02d.png", "--starts", "1", "--actions", "2", "--fps", "1"]
    assert command(words, monkeypatch, capsys)[0] == 0
    reds = [colours(imageio.imread(file), 1)[0][0] for file in sorted(Path().glob("p-*.png"))]
    assert reds == [10, *range(20, 80, 10), 70, 70]


def test_multi_agent_task_with_discrete_actions_is_filmed(monkeypatch, capsys):
    meadow = HERE / "meadow.py"
    Path("seen_meadow.py").write_text(
        meadow.read_text().replace("parallel_env = Meadow", "")
        + """
class SeenMeadow(Meadow):
    metadata = {"render_modes": ["rgb_array"]}
    def __init__(self, render_mode=None, **options):
        super().__init__(discrete=True, **options)
    def render(self):
        return np.full((20, 20, 3), 50 + 10 * self.step_number, np.uint8)
parallel_env = SeenMeadow
"""
    )
    a_run("parallel:seen_meadow")
    words = ["render", "one", "-o", "end.png", "--starts", "1", "--beside", "random"]
    code, out, _ = command(words, monkeypatch, capsys)
    assert code == 0
    assert "10 actions, truncated" in out
    assert tuple(imageio.imread("end.png")[28 + 240, 240]) == (150, 150, 150)


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("drawn:Unseen-v0", [], "cannot render images"),
        ("drawn:Drawn-v0", ["env_options.fails=grey"], "returned uint8 of shape (30, 40)"),
        ("drawn:Drawn-v0", ["env_options.fails=nothing"], "returned uint8 of shape (0, 40, 3)"),
        (
            "drawn:Drawn-v0",
            ["env_options.fails=growing"],
            "returned images of 30 x 40 and 32 x 40 pixels, but a film needs one size",
        ),
        ("drawn:Hasty-v0", [], "render_fps of its metadata is 'fast', but must be a positive"),
        ("drawn:Rapid-v0", [], "is 2000, but must be a positive number of at most 1000; --fps"),
        (
            "drawn:Drawn-v0",
            ["env_options.fails=step"],
            "its step() raised ArithmeticError: no such",
        ),
        ("drawn:Drawn-v0", ["env_options.wings=2"], "env_options.wings is no option"),
        ("drawn:Drawn-v0", ["--follow"], "--follow is only for films of flows"),
        ("drawn:Drawn-v0", ["--fields", "speed"], "--fields is only for films of flows"),
        (
            "drawn:Drawn-v0",
            ["--frames-per-action", "2"],
            "--frames-per-action is only for films of flows",
        ),
        ("drawn:Drawn-v0", ["--beside", "pd"], "--baseline pd: the baselines of"),
    ],
)
def test_task_that_cannot_be_filmed_is_reported(monkeypatch, capsys, env, options, words):
    a_run(env)
    before = sorted(Path().iterdir())
    code, _, err = command(["render", "one", *options], monkeypatch, capsys)
    assert code in (1, 2)
    assert words in err.splitlines()[-1]
    assert sorted(Path().iterdir()) == before
