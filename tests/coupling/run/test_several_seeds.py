"""Several seeds of one training: by one command, as one curve, in one table."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from shell import command, wait_until

from coupling.errors import ConfigError
from coupling.files import Table
from coupling.film.curves import plot_runs
from coupling.run import several
from coupling.run.aggregate import interquartile_mean, interval, name_of, seeds_of_each
from coupling.run.folder import RunFolder
from coupling.run.several import parse_seeds, train_each
from coupling.settings.config import dump_config, load_config
from coupling.signals import Interrupted

WORDS = ["env=flowsim/LinearQuadratic-v0", "run.steps=400", "workers.agents=2", "workers.processes=1"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-4", [0, 1, 2, 3, 4]), ("0,3,7", [0, 3, 7]), ("5", [5]), ("8-9, 1", [8, 9, 1])],
)
def test_seeds_are_numbers_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "give numbers or ranges"),
        ("a-b", "give numbers or ranges"),
        ("1,,2", "give numbers or ranges"),
        ("-3", "give numbers or ranges"),
        ("4-2", "4-2 is empty"),
        ("0-2,1", "seed 1 appears twice"),
        ("0-1000", "at most 1000"),
        ("9223372036854775808", "a seed is at most 9223372036854775807"),
    ],
)
def test_invalid_seeds_are_refused(text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_seeds(text)


def test_the_interquartile_mean_is_that_of_the_middle_half():
    scores = np.random.default_rng(0).normal(size=(8, 3))
    np.testing.assert_allclose(
        interquartile_mean(scores, axis=0), np.sort(scores, axis=0)[2:6].mean(axis=0)
    )
    np.testing.assert_allclose(
        interquartile_mean(scores, axis=0), scipy.stats.trim_mean(scores, 0.25, axis=0)
    )
    assert interquartile_mean(np.array([1.0, 2.0, 9.0])) == 4.0  # nothing is left out of three


def test_interval_is_that_of_a_bootstrap_stratified_by_task():
    rng = np.random.default_rng(1)
    strata = [rng.normal(0.0, 1.0, 6), rng.normal(20.0, 3.0, 9)]
    found = []
    for _ in range(20_000):
        drawn = np.concatenate([rng.choice(each, len(each)) for each in strata])
        middle = np.sort(drawn)[3:12]  # int(15 / 4) on each side
        found.append(middle.mean())
    np.testing.assert_allclose(interval(strata), np.quantile(found, (0.025, 0.975)), atol=0.4)
    one = strata[1]
    peer = scipy.stats.bootstrap(
        (one,),
        lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=2,
    ).confidence_interval
    np.testing.assert_allclose(interval([one]), (peer.low, peer.high), atol=0.2)


def folder_of(path, *words, returns=(1.0,), evaluation=None):
    """A run's folder as a training leaves it."""
    path.mkdir(parents=True)
    folder = RunFolder(path)
    config = load_config(None, [*WORDS, *words, f"run.name={path.name}", f"run.folder={path.parent}"])  # fmt: skip
    folder.config_file.write_text(dump_config(config))
    Table(folder.episodes).append(
        [
            {"environment_steps": 10 * n, "agent": 0, "return": value, "length": 10, "terminated": 0}
            for n, value in enumerate(returns, 1)
        ]
    )  # fmt: skip
    if evaluation is not None:
        evaluated = {"mean_return": evaluation, "ci95": [0, 1]}
        folder.evaluation.write_text(json.dumps({"after": evaluated}))
    return folder


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path):
    seeds = [folder_of(tmp_path / f"a-seed{seed}", f"run.seed={seed}") for seed in (0, 3)]
    other = folder_of(tmp_path / "b", "agent.gamma=0.5")
    longer = folder_of(tmp_path / "c", "run.steps=500")
    assert seeds_of_each([seeds[0], other, seeds[1], longer]) == [seeds, [other], [longer]]
    assert name_of(seeds) == "a, 2 seeds"
    assert name_of([other]) == "b"


def test_a_table_has_the_interquartile_mean_of_each_groups_returns(tmp_path):
    from coupling.pages.report import over_seeds

    values = [1.0, 2.0, 3.0, 40.0]
    folders = [
        folder_of(tmp_path / f"a-seed{s}", f"run.seed={s}", returns=[v, v], evaluation=10 * v)
        for s, v in enumerate(values)
    ]
    alone = folder_of(tmp_path / "b", "agent.gamma=0.5")
    rows = over_seeds([*folders, alone])["rows"]
    assert [row[:3] for row in rows] == [
        ["a, 4 seeds", "last 100 training episodes", "2.5"],
        ["a, 4 seeds", "evaluation, agent", "25"],
    ]
    assert rows[0][4] == "1, 2, 3, 40"
    low, high = interval([np.array(values)])
    assert rows[0][3] == f"[{low:.4g}, {high:.4g}]"


class Trainings:
    """A stand-in for the trainings of a process: notes them, and leaves folders as a training does."""

    def __init__(self, folder, monkeypatch, stop_at=None):
        self.folder, self.stop_at, self.done, self.told = folder, stop_at, [], []
        self.complete = set()
        monkeypatch.setattr(several, "is_complete", lambda folder: folder.path in self.complete)

    def begin(self, words):
        config = load_config(None, words)
        path = self.folder / config.run.name
        path.mkdir(parents=True)
        RunFolder(path).config_file.write_text(dump_config(config))
        self._carry_on("begin", path)

    def resume(self, path):
        self._carry_on("resume", path)

    def _carry_on(self, how, path):
        self.done.append((how, path.name, RunFolder(path).config().run.seed))
        if len(self.done) == self.stop_at:
            raise Interrupted(f"stopped; continue with `flowsim resume {path}`")
        self.complete.add(path)

    def train(self, seeds, *words):
        words = [*WORDS, f"run.folder={self.folder}", *words]
        return train_each(None, words, seeds, self.begin, self.resume, self.told.append)


def test_each_seed_is_a_run_and_the_same_command_resumes(tmp_path, monkeypatch):
    trainings = Trainings(tmp_path / "runs", monkeypatch, stop_at=2)
    with pytest.raises(Interrupted, match=r"flowsim resume .*x-seed3`; run the same command .*run.name=x"):  # fmt: skip
        trainings.train([0, 3, 7], "run.name=x")
    folders = trainings.train([0, 3, 7], "run.name=x")
    assert trainings.done == [
        ("begin", "x-seed0", 0),
        ("begin", "x-seed3", 3),
        ("resume", "x-seed3", 3),
        ("begin", "x-seed7", 7),
    ]
    assert [folder.path.name for folder in folders] == ["x-seed0", "x-seed3", "x-seed7"]
    assert any("x-seed0 is finished already" in line for line in trainings.told)


def test_without_a_name_the_first_free_one_is_taken(tmp_path, monkeypatch):
    trainings = Trainings(tmp_path / "runs", monkeypatch)
    first, second = trainings.train([0, 1]), trainings.train([1, 2])
    names = [[folder.path.name for folder in each] for each in (first, second)]
    base = names[0][0].removesuffix("-1-seed0")
    assert names == [[f"{base}-1-seed0", f"{base}-1-seed1"], [f"{base}-2-seed1", f"{base}-2-seed2"]]


@pytest.mark.parametrize("name", [".hidden", "-dash", "x" * 120, "ä", "a b(1)", "..."])
def test_name_of_any_preset_file_gives_a_valid_run_name(tmp_path, monkeypatch, name):
    preset = tmp_path / f"{name}.yaml"
    preset.write_text(f"env: {WORDS[0].partition('=')[2]}\nrun: {{folder: {tmp_path / 'runs'}}}\n")
    trainings = Trainings(tmp_path / "runs", monkeypatch)

    def begin(words):
        load_config(str(preset), words)  # refuses an invalid name
        trainings.begin([*WORDS, *words])

    train_each(str(preset), [], [10**18], begin, trainings.resume, trainings.told.append)
    assert len(trainings.done) == 1


def test_commands_that_run_at_the_same_time_take_different_names(tmp_path, monkeypatch):
    """The second one begins before any run folder exists, and shares a seed that the first one trains later."""
    trainings, begun = Trainings(tmp_path / "runs", monkeypatch), []

    def begin(words):
        if not begun:
            begun.append(True)
            begun.append(trainings.train([1, 2]))
        trainings.begin(words)

    words = [*WORDS, f"run.folder={tmp_path / 'runs'}"]
    first = train_each(None, words, [0, 1], begin, trainings.resume, trainings.told.append)
    base = first[0].path.name.removesuffix("-1-seed0")
    assert [folder.path.name for folder in first] == [f"{base}-1-seed0", f"{base}-1-seed1"]
    assert [folder.path.name for folder in begun[1]] == [f"{base}-2-seed1", f"{base}-2-seed2"]
    assert len(list((tmp_path / "runs").iterdir())) == 4  # no lock is left


def test_seeds_whose_first_training_is_refused_leave_nothing(tmp_path):
    def refuse(words):
        raise ConfigError("no such environment")

    words = [*WORDS, f"run.folder={tmp_path / 'runs'}"]
    with pytest.raises(ConfigError, match="no such environment"):
        train_each(None, words, [0], refuse, refuse, print)
    assert not list(tmp_path.iterdir())


def test_run_begun_with_other_settings_is_not_resumed(tmp_path, monkeypatch):
    trainings = Trainings(tmp_path / "runs", monkeypatch)
    trainings.train([1], "run.name=x", "agent.gamma=0.9")
    with pytest.raises(ConfigError, match=r"x-seed1 was begun with agent.gamma = 0.9, not 0.8"):
        trainings.train([0, 1], "run.name=x", "agent.gamma=0.8")
    assert len(trainings.done) == 1  # nothing was trained meanwhile
    with pytest.raises(ConfigError, match=r"run.seed and --seeds both"):
        trainings.train([0, 1], "run.seed=3")


def test_message_on_other_settings_suggests_only_what_continues_the_run(tmp_path, monkeypatch):
    trainings = Trainings(tmp_path / "runs", monkeypatch)
    trainings.train([1], "run.name=x")
    path = tmp_path / "runs" / "x-seed1"

    def advice(word):
        with pytest.raises(ConfigError, match=r"x-seed1 was begun with") as caught:
            trainings.train([1], "run.name=x", word)
        return str(caught.value).partition("another run.name")[2]

    assert advice("run.steps=600") == f", or continue it with `flowsim resume {path} run.steps=600`"
    assert advice("run.steps=300") == ""
    assert advice("agent.gamma=0.8") == ""
    trainings.complete.clear()
    assert advice("agent.gamma=0.8") == f", or continue it with `flowsim resume {path}`"


def test_seeds_whose_episodes_do_not_overlap_are_drawn(tmp_path):
    early = folder_of(tmp_path / "a-seed0", "run.seed=0", returns=[1.0])
    late = folder_of(tmp_path / "a-seed1", "run.seed=1", returns=[2.0, 3.0])
    rows = late.episodes.read_text().splitlines()
    late.episodes.write_text("\n".join([rows[0], *(f"10{row}" for row in rows[1:])]) + "\n")
    plot_runs([early, late], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "output"), [(["plot"], "curves.png"), (["report"], "report.html")]
)
def test_runs_without_an_episode_are_left_out(words, output, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        folder_of(tmp_path / "runs" / f"a-seed{seed}", f"run.seed={seed}")
    for seed in (0, 2):
        Path(f"runs/a-seed{seed}/episodes.csv").unlink()
    runs = [f"runs/a-seed{seed}" for seed in range(3)]
    code, out, err = command([*words, *runs, "-o", output], monkeypatch, capsys)
    assert code == 0
    assert "flowsim: left out, without a finished episode: runs/a-seed0, runs/a-seed2\n" in err
    assert Path(output).exists()
    assert words != ["plot"] or "flowsim evaluate runs/a-seed1" in out + err
    code, _, err = command([*words, runs[0], runs[2], "-o", f"no-{output}"], monkeypatch, capsys)
    assert code == 2
    assert err.splitlines()[-1] == (
        "flowsim: no finished episode to draw in runs/a-seed0, runs/a-seed2"
    )
    assert not Path(f"no-{output}").exists()


@pytest.mark.slow
def test_command_trains_each_seed_and_resumes_after_an_interrupt(shell):
    preset = shell.preset(run={"name": "herd", "steps": 2000}, workers={"processes": 1})
    begun = shell.start("train", preset, "--seeds", "4,6")
    second = shell.folder / "runs" / "herd-seed6"
    wait_until(lambda: (second / "connection.json").exists())
    begun.send_signal(signal.SIGINT)
    said = begun.communicate(timeout=120)[1]
    assert begun.returncode == 130, said
    assert "continue with `flowsim resume" in said
    assert "run the same command again for the remaining seeds" in said
    done = shell.run("train", preset, "--seeds", "4,6")
    assert done.returncode == 0, done.stderr
    assert "herd-seed4 is finished already" in done.stderr
    assert "herd, 2 seeds" in done.stdout
    assert "next: flowsim plot runs/herd-seed4 runs/herd-seed6" in done.stdout
    for seed in (4, 6):
        folder = RunFolder.find(shell.folder / "runs" / f"herd-seed{seed}")
        assert folder.config().run.seed == seed
        assert json.loads(folder.status.read_text())["state"] == "finished"
    drawn = shell.run("plot", "runs/herd-seed4", "runs/herd-seed6", "-o", "curves.png")
    assert drawn.returncode == 0, drawn.stderr
