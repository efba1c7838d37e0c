"""The commands that a new user types first, and what commands print at their end."""

import errno
import os
import re
import signal
import subprocess
import typing
from importlib import metadata
from pathlib import Path

import gymnasium
import pytest
import typer
from shell import GUARD, complaint

from cases.baselines import ZeroController
from coupling.bench import service as bench
from coupling.commands import cli, next_steps, options
from coupling.evaluation.evaluate import evaluate, evaluate_with_baselines
from coupling.run.agents import describe_agents
from coupling.run.screen import ConsoleScreen
from coupling.settings.content import shipped_presets
from coupling.settings.presets import describe_presets
from coupling.worker.env_registry import draws_itself

COMMANDS = typer.main.get_command(cli.app).commands
STATUS = {
    "environment_steps": 0, "steps_planned": 1_000_000, "steps_per_second": 1234.5, "updates_per_second": 1234.5,
    "mean_return": None, "mean_length": None, "recent_age_steps": None, "state": "training", "absent": [],
}  # fmt: skip


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process; gives exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["flowsim", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out = capsys.readouterr()
        return caught.value.code, out.out, out.err

    return run


def test_version(command):
    assert command("--version") == (0, f"flowsim {metadata.version('flowsim-rl')}\n", "")


def test_presets_are_listed_with_descriptions(command):
    code, out, _ = command("presets")
    assert code == 0
    for name in shipped_presets():
        (row,) = [line for line in out.splitlines() if f" {name} " in line and "│" in line]
        assert len(row.split("│")[3].split()) > 3, "a sentence says what it is"
    assert "next: flowsim train" in out


@pytest.mark.parametrize(
    ("listed", "describe", "left_out"),
    [
        ("presets", describe_presets, {"env"}),
        ("agents", describe_agents, {"seed", "episodes", "steps", "learner"}),
    ],
)
def test_list_fits_into_80_columns_without_truncation(
    command, monkeypatch, listed, describe, left_out
):
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    _, out, _ = command(listed)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.partition("next:")[0]).splitlines()
    assert max(map(len, lines)) <= 80
    rows: list[list[list[str]]] = []
    for line in lines:
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            if cells[0]:
                rows.append([])
            rows[-1].append(cells)
    told = [" ".join(" ".join(cells).split()) for row in rows for cells in zip(*row, strict=True)]
    expected = [
        str(value) for row in describe() for key, value in row.items() if key not in left_out
    ]
    assert told == expected
    assert max(map(len, rows)) <= 3
    assert all(name in lines[-1] for name in left_out), "what is left out is told"


def test_train_without_arguments_lists_the_presets(command):
    code, out, err = command("train")
    assert code == 2
    assert set(re.findall(r"[a-z_]+/[a-z_0-9]+", out)) == set(shipped_presets())
    assert err.count("\n") == 1
    assert "no preset given" in err


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "bench nonsense",
            r"part: .*'nonsense'.* 'solver', 'tasks', .*; see `flowsim bench --help`",
        ),
        ("render wake --actions 0", r"--actions.* 0.* 1.*; see `flowsim render --help`"),
        ("rendr wake", r"no such command 'rendr': did you mean 'render'\?"),
        ("nothing", r"no such command 'nothing'; see `flowsim --help`"),
        (
            "render wake --otput x",
            r"no such option: --otput.*--output.*; see `flowsim render --help`",
        ),
        ("status", r"missing argument 'RUN'; see `flowsim status --help`"),
        ("status x --json --prometheus", r"--json and --prometheus are two formats of .*"),
        ("bench", r"missing argument 'part': one of solver, .*; see `flowsim bench --help`"),
        ("train x --steps 2000", r"no such option: --steps: did you mean run\.steps=2000\?"),
        ("train x --learning-rate=1e-4", r".*did you mean agent\.learning_rate=1e-4\?"),
        ("train --env CartPole-v1", r".*did you mean env=CartPole-v1\?"),
        ("resume x --agents 4", r".*did you mean workers\.agents=4\?"),
        ("evaluate wake --reynolds 50", r".*did you mean env_options\.reynolds=50\?"),
        ("simulate x --cells-per-diameter 8", r".*mean env_options\.cells_per_diameter=8\?"),
        ("render wake --fps", r"option '--fps' requires an argument; see `flowsim render --help`"),
    ],
)
def test_bad_arguments_give_a_one_line_error(command, line, sentence):
    code, out, err = command(*line.split())
    assert (code, out) == (2, "")
    assert re.fullmatch(f"flowsim: {sentence}\n", err)


@pytest.mark.parametrize(
    ("line", "meant"),
    [("evaluate wak", "wake"), ("status runs/demoo", "runs/demo"), ("plot demo -o x.png", "runs/demo"),
     ("evaluate wake cells_per_diameter=32", "env_options.cells_per_diameter=32"),
     ("train reach.py", "env=reach:Reach-v0"), ("train env=reach", "reach:Reach-v0"),
     ("train env=Hopper-v5 helthy_reward=2", "env_options.healthy_reward=2"),
     ("train classic/cartpole env_options.sutton_barto_rewards=true", "env_options.sutton_barto_reward")],
)  # fmt: skip
def test_typos_get_a_suggestion(command, tmp_path, monkeypatch, line, meant):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.py").write_text("import gymnasium\ngymnasium.register('Reach-v0', 'x:X')\n")
    run = tmp_path / "runs" / "demo"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    code, out, err = command(*line.split())
    assert (code, out) == (2, "")
    assert f"did you mean {meant!r}?" in err.splitlines()[-1]


def test_learner_that_does_not_fit_into_memory_is_a_failure(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["env=Pendulum-v1", "workers.processes=1", "workers.agents=1", "agent.hidden=[4]"]
    code, _, err = command("train", *words, "agent.buffer_size=1000000000000000")
    assert code == 1
    assert re.fullmatch(
        r"flowsim: not enough memory: .*Unable to allocate .*", err.splitlines()[-1]
    )
    assert not (tmp_path / "runs").exists()


def test_what_is_no_run_is_described_as_it_is(command, tmp_path):
    file, damaged = tmp_path / "preset.yaml", tmp_path / "runs" / "damaged"
    file.write_text("env: Pendulum-v1\n")
    (damaged / "config.yaml").mkdir(parents=True)
    for path, what in (
        (file, "is not a folder"),
        (damaged, r"is not a run folder \(it has no config.yaml\)"),
        (tmp_path / "none", "does not exist"),
    ):
        code, _, err = command("status", str(path))
        assert code == 2
        assert re.fullmatch(f"flowsim: run {path} {what}; give the folder of a run.*\n", err), err


def test_paths_are_expanded_as_in_a_shell(command, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command("init", "~/my_task", "--kind", "gymnasium")[0] == 0
    assert (tmp_path / "my_task" / "my_task.py").exists()
    code, _, err = command("status", "$HOME/none")
    assert (code, err) == (2, f"flowsim: run {tmp_path}/none does not exist; "
                           "give the folder of a run, such as runs/NAME\n")  # fmt: skip
    for name in COMMANDS:
        for key, declared in typing.get_type_hints(getattr(cli, name), include_extras=True).items():
            kind, *told = typing.get_args(declared) or [None]
            if "Path" in str(kind):
                assert told[0].callback is options.expanded, f"{name} {key} is not expanded"


@pytest.mark.parametrize(
    ("line", "both"),
    [("presets", False), ("presets --json", False), ("--help", False), ("train", True)],
)
def test_closed_pipe_ends_a_command_quietly(shell, line, both):
    """The exit code is the one shells report for a program ended by SIGPIPE, as in `yes | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            shell.command(*line.split()), cwd=shell.folder, env=shell.environment, text=True,
            stdout=writing, stderr=writing if both else subprocess.PIPE, timeout=GUARD,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.returncode == 128 + signal.SIGPIPE
    assert not done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, on which nothing fits")
@pytest.mark.parametrize("line", ["presets", "--help", "--version"])
def test_full_output_device_gives_a_one_line_error(shell, line):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            shell.command(line), cwd=shell.folder, env=shell.environment, text=True,
            stdout=full, stderr=subprocess.PIPE, timeout=GUARD,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "flowsim: no space left on the disk: No space left on device\n"


def test_other_broken_pipes_are_reported(command, monkeypatch):
    """Not every broken pipe is the command's own output."""

    def broken():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe", "a program that makes films")

    monkeypatch.setattr("coupling.settings.presets.describe_presets", broken)
    code, out, err = command("presets")
    assert (code, out) == (1, "")
    assert err == "flowsim: Broken pipe: a program that makes films\n"


def test_command_without_arguments_prints_its_help(command):
    code, out, err = command()
    assert (code, err) == (2, "")
    assert out.strip() == command("--help")[1].strip()


@pytest.mark.slow
def test_run_ends_with_its_return_and_next_steps(shell):
    done = shell.run("train", shell.preset())
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"in the last [\d,]+ steps: mean return [\d.e+-]+, mean length [\d.]+ steps, over \d+ finished episodes",
        done.stdout,
    )
    assert "next: flowsim evaluate runs/run " in done.stdout
    assert "flowsim resume runs/run run.steps=2000 " in done.stdout
    status = shell.run("status", "runs/run")
    assert "next: flowsim evaluate runs/run " in status.stdout
    picture = shell.run("plot", "runs/run", "-o", "new/curves.png")
    assert "next: flowsim evaluate runs/run " in picture.stdout


@pytest.mark.parametrize("name", ["curves.avi", "curves"])
def test_unknown_plot_format_is_refused_before_the_runs_are_read(shell, name):
    done = shell.run("plot", "no-run-at-all", "-o", name)
    assert done.returncode == 2
    assert ".png, .ps" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("env", "verb"),
    [
        ("flowsim/EllipticalSwimmer-v0", "render"),
        ("parallel:cases.swimmer_school.env", "render"),
        ("CartPole-v1", "render"),
        ("drawn:Drawn-v0", "render"),
        ("drawn:DrawnInPieces-v0", "render"),
        ("drawn:Unseen-v0", "plot"),
        ("flowsim/Reach-v0", "plot"),
        ("NoSuchTask-v0", "plot"),
        ("no_such_module:Task-v0", "plot"),
        ("parallel:no_such_module", "plot"),
        ("broken_on_import:Task-v0", "plot"),
    ],
)
def test_hint_to_film_needs_no_environment_to_be_made(env, verb, tmp_path, monkeypatch):
    (tmp_path / "broken_on_import.py").write_text("raise ArithmeticError('no')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(gymnasium, "make", lambda *words, **options: pytest.fail("it was made"))
    monkeypatch.setattr(next_steps.importlib.util, "find_spec", lambda name: name)  # pygame
    run = next_steps.RunState(tmp_path, env, 100, draws_itself(env), True, False, False)
    ((line, _),) = next_steps.after_evaluation(run)
    assert line.startswith(f"flowsim {verb} {tmp_path} ")


def test_the_progress_bar_is_one_line_of_eighty_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    returns = (None, -70.08, -1.234e-05, 123456.789)
    with ConsoleScreen() as screen:
        for done, value in zip((0, 10, 99_999, 1_000_000), returns, strict=True):
            screen.progress(
                STATUS
                | {"environment_steps": done, "mean_return": value, "mean_length": 1000.0}
                | {"recent_age_steps": done // 20}
            )
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err).replace("\r", "\n")
    frames = [line for line in text.splitlines() if "/1000000" in line]
    assert {line for line in text.splitlines() if line.strip()} == set(frames), "one line each"
    assert len({len(line) for line in frames}) == 1
    assert len(frames[0]) <= 80
    assert any("return -70.08 (last 0), length 1000" in line for line in frames)
    assert any("return 1.235e+05 (last 50k)" in line for line in frames)


def test_evaluation_reports_its_progress(capsys):
    screen = ConsoleScreen()
    evaluated = evaluate_with_baselines(
        "CartPole-v1", {}, ZeroController(1), episodes=30, seed=1,
        progress=lambda name, over, actions: screen.evaluating(name, over, 30, actions),
    )  # fmt: skip
    assert evaluated["episodes"] == 30
    assert capsys.readouterr().err.startswith("0/30 episodes, agent: action 1\n")
    seen = []
    evaluate(
        "CartPole-v1",
        {},
        ZeroController(1),
        episodes=30,
        seed=1,
        progress=lambda *told: seen.append(told),
    )
    assert [over for over, _ in seen] == sorted(over for over, _ in seen), "it never goes back"
    assert seen[-1][0] == 30


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["train", "classic/cartpole", "run.folder=taken/runs"], "run.folder"),
        (["simulate", "d_cylinder_wake/quick", "-o", "taken/here"], "--output"),
        (["validate", "--case", "taylor-green", "-o", "taken"], "--output"),
    ],
)
def test_unwritable_folder_is_reported_before_any_work(command, tmp_path, monkeypatch, words, key):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert complaint(err).startswith(f"flowsim: {key} = taken")
    assert "is a file, not a folder" in err


def test_benchmark_announces_each_row_before_measuring_it(monkeypatch):
    order: list[str] = []
    monkeypatch.setattr(
        bench, "bench_coupling", lambda **layout: order.append("measured") or layout
    )
    usual = bench.standard_rows(order.append)
    assert [text == "measured" for text in order] == [False, True] * len(usual)
    whole = bench.standard_rows(order.append, full=True)
    assert len(usual) < len(whole) / 2
    assert all(row in whole for row in usual)
