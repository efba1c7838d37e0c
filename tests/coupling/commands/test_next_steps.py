"""Every "next:" line that a command prints is run: it is accepted, and does what it says."""

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from shell import GUARD, wait_until

from coupling.commands import next_steps
from coupling.commands.next_steps import RunState, stem_of
from coupling.errors import ConfigError, RunError
from coupling.files import refuse_foreign
from coupling.launch.manual import ManualLauncher
from coupling.run.folder import RunFolder
from coupling.run.status import write_status
from coupling.settings.config import RunConfig, load_config
from coupling.wire.connection import Connection, read_connection, write_connection
from coupling.worker.environments import describe_task
from rl_agent.learner import Learner

ENDLESS = {
    "flowsim train": "run folder",
    "flowsim resume": "resuming",
    "flowsim watch": "http://",
    "flowsim bench": "measuring ",
}
"""What these commands say as soon as they have taken their words; they are then interrupted."""
FILMS = {"flowsim render": " --actions 2 --episodes 1"}
VIEWERS = ("paraview", "xdg-open")


class Follower:
    """Runs the hints that commands end with, and the hints of these commands, each one once.

    A simulation can be continued without end, so hints of the third level are not run.
    """

    def __init__(self, shell) -> None:
        self._shell, self.followed = shell, []
        tools = shell.folder / "tools"
        tools.mkdir()
        scripts = {"flowsim": f'exec {sys.executable} -m coupling.commands.cli "$@"'}
        scripts |= dict.fromkeys(VIEWERS, 'test -s "$1"')  # there is something to look at
        for name, line in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{line}\n")
            (tools / name).chmod(0o755)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        self._environment = shell.environment | {"PATH": path}

    def follow(self, said: str, depth: int = 2) -> list[str]:
        """Run the hints in the output of a command, and the hints of these; return the first ones."""
        lines = lines_of(said)
        for line in lines:
            if line not in self.followed:
                self.followed.append(line)
                then = self._run(line)
                if depth > 1:
                    self.follow(then, depth - 1)
        return lines

    def _run(self, line: str) -> str:
        begin = " ".join(line.rpartition("&& ")[2].split()[:2])
        endless = ENDLESS | ({"flowsim evaluate": "waiting for"} if "balls" in line else {})
        # the flow of the shipped agent takes minutes until its wake has developed
        coarse = " env_options.start=impulsive" if line.startswith("flowsim render wake ") else ""
        file = self._shell.folder / "said"
        with file.open("w") as said:
            process = subprocess.Popen(
                ["bash", "-c", line + FILMS.get(begin, "") + coarse], cwd=self._shell.folder,
                env=self._environment, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        self._shell.started.append(process)
        if begin in endless:
            wait_until(lambda: endless[begin] in file.read_text() or process.poll() is not None)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        code = process.wait(2 * GUARD)
        said = file.read_text()
        # what diverged may diverge again
        assert code in ((0, 130) if begin in endless else (0, 1) if "diverged" in said else (0,)), (
            line,
            said,
        )
        return said


def lines_of(said: str) -> list[str]:
    """Return the commands of the closing lines."""
    return re.findall(r"^(?:next: |  or: )(.*?)   \(.*\)$", said, re.M)


@pytest.fixture
def follower(shell):
    return Follower(shell)


def ended(done, code=0) -> str:
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.slow
def test_hints_of_a_run_that_ended_are_accepted(shell, follower):
    name = "runs/run"
    first = follower.follow(ended(shell.run("train", shell.preset(), "run.steps=300")))
    assert first == [
        f"flowsim evaluate {name}",
        f"flowsim plot {name} -o run.png",
        f"flowsim resume {name} run.steps=600",
    ]
    status = shell.run("status", name)
    assert lines_of(status.stdout)  # of the resumed one, which was interrupted
    follower.follow(status.stdout)
    follower.follow(ended(shell.run("report", name, "-o", "page.html")))
    assert any(line.startswith("xdg-open") for line in follower.followed)


@pytest.mark.slow
def test_hints_of_an_evaluated_run_do_not_propose_evaluation(shell, follower):
    words = ["env=flowsim/LinearQuadratic-v0", "run.evaluate_episodes=2", "run.name=evaluated"]
    words += [
        "run.steps=300",
        "agent.learning_starts=100",
        "workers.agents=2",
        "workers.processes=1",
    ]
    said = ended(shell.run("train", *words))
    first = follower.follow(said)
    assert not any(line.startswith("flowsim evaluate") for line in first)
    assert not any(
        line.startswith("flowsim evaluate")
        for line in lines_of(shell.run("status", "runs/evaluated").stdout)
    )


@pytest.mark.slow
def test_hints_of_a_flow_are_accepted(shell, follower):
    options = {"cells_per_diameter": 8, "start": "impulsive", "episode_actions": 3}
    preset = shell.preset(
        env="flowsim/DCylinderWake-v0", env_options=options,
        workers={"agents": 1, "processes": 1}, run={"steps": 30}, agent={"learning_starts": 20},
    )  # fmt: skip
    first = follower.follow(ended(shell.run("train", preset)))
    assert "flowsim render runs/run -o run.mp4" in first
    changed = "env_options.cells_per_diameter=10"
    said = ended(shell.run("evaluate", "runs/run", changed, "--episodes", "1"))
    assert follower.follow(said) == [f"flowsim render runs/run {changed} -o run.mp4"]


@pytest.mark.slow
def test_hints_of_an_external_run_are_accepted(shell, follower, monkeypatch):
    """The hints after its training; an evaluation would need a program outside Python."""
    monkeypatch.chdir(shell.folder)
    spaces = "{observation_size: 4, action_low: [-1.0], action_high: [1.0]}"
    config = load_config(
        None,
        ["env=flowsim/External-v0", f"env_options={spaces}", "run.name=balls", "run.steps=100",
         "workers.launcher=none", "workers.agents=1", "workers.processes=1", "agent.hidden=[8]"],
    )  # fmt: skip
    task = describe_task(config.env, config.env_options)
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=1, seed=0)
    folder = RunFolder(Path("runs/balls"))
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    folder.episodes.write_text("environment_steps,return,length\n10,1.0,10\n20,2.0,10\n")
    write_status(folder.status, status_of("finished"))
    first = follower.follow(ended(shell.run("status", "runs/balls")))
    assert first == [
        "flowsim evaluate runs/balls",
        "flowsim plot runs/balls -o balls.png",
        "flowsim resume runs/balls run.steps=200",
    ]


def status_of(state: str) -> dict:
    return {
        "run": "balls", "state": state, "environment_steps": 100, "steps_planned": 100, "gradient_steps": 0,
        "steps_after_warm_up": 0, "ratio": None, "env_steps_per_gradient_step": 1.0, "episodes": 2, "mean_return": 1.5,
        "mean_length": 10.0, "steps_per_second": 0.0, "updates_per_second": 0.0, "round_trips_per_second": 0.0,
        "batch_size": None, "restarts": 0, "refused": 0, "agents": {}, "workers": [], "absent": [], "deaths": [],
        "warnings": [], "epoch": 0, "recovered": 0, "lost": 0, "cut": 0, "diverged": 0,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_hints_of_an_unfinished_run_are_accepted(shell, follower, number):
    training = shell.start("train", shell.preset(run={"steps": 10**7}))
    wait_until(lambda: shell.status().get("environment_steps", 0) > 300)
    assert follower.follow(shell.run("status", "runs/run").stdout) == ["flowsim watch runs/run"]
    training.send_signal(number)
    training.communicate(timeout=GUARD)
    first = follower.follow(shell.run("status", "runs/run").stdout)
    assert first == ["flowsim resume runs/run"]


CASE = "{nx: 64, ny: 32, h: 0.125, reynolds: 40, bodies: [BODY]}"


@pytest.mark.slow
def test_hints_of_a_simulation_are_accepted(shell, follower):
    case = shell.folder / "a case.yaml"
    disk = "{shape: disk, center: [2.0, 2.0]}"
    case.write_text(CASE.replace("BODY", disk))
    words = ["simulate", case.name, "reynolds=50", "--time", "0.5", "--frames", "3", "-o", "an out"]
    first = follower.follow(ended(shell.run(*words, "--no-control-volumes", "--follow", "0")))
    assert first[0].startswith("flowsim simulate 'a case.yaml' reynolds=50 --time 1 -o 'an out'")
    assert any("--time 2 " in line for line in follower.followed), "the hint of the hint"


@pytest.mark.slow
def test_hints_of_a_simulation_that_ended_early_do_not_continue_it(shell, follower):
    case = shell.folder / "case.yaml"
    ramp = "{kind: ramp, velocity: [-20, 0], duration: 0.1}"
    case.write_text(CASE.replace("BODY", f"{{shape: disk, center: [2.0, 2.0], motion: {ramp}}}"))
    said = ended(shell.run("simulate", "case.yaml", "--time", "1", "-o", "left"))
    assert "left the box" in said
    assert follower.follow(said) == ["paraview left/fields.vtkhdf"]
    falling = "{shape: disk, center: [2.0, 2.0], density: 2, motion: free}"
    case.write_text(CASE.replace("BODY", falling))
    words = ["simulate", "case.yaml", "gravity=[0, -1e8]", "--time", "1", "-o", "blown"]
    said = ended(shell.run(*words), code=1)
    assert "the simulation diverged" in said
    first = follower.follow(said)
    assert [line for line in first if "restart" in line] == []
    assert first[1].startswith("flowsim simulate case.yaml 'gravity=[0, -1e8]' cfl=0.25 --time 1 ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["presets", "agents", "init my_flow", "init my_task --kind gymnasium",
     "validate --quick --case taylor-green -o checked"],
)  # fmt: skip
def test_hints_of_other_commands_are_accepted(shell, follower, words):
    assert follower.follow(ended(shell.run(*words.split())))


@pytest.mark.slow
def test_the_hint_of_a_new_solver_in_c_is_accepted(shell, follower, c_tools):
    assert follower.follow(ended(shell.run("init", "my_solver", "--kind", "c")))


RUN = RunState(Path("runs/run"), "flowsim/Reach-v0", 100, False, True, 0, False)


def test_every_hint_is_a_command_of_flowsim_or_a_viewer(tmp_path):
    """Hints that take minutes are not run, but compared with the expected commands."""
    every = [
        next_steps.after_bench("solver", True), next_steps.after_bench("solver", False),
        next_steps.after_hosting(tmp_path / "connection.json"), next_steps.after_watching(tmp_path, False),
    ]  # fmt: skip
    assert every[2:] == [[], []], "there is nothing to look at"
    assert [line for group in every for line, _ in group] == [
        "flowsim bench solver --full --json > solver.json", "flowsim bench solver --full"
    ]  # fmt: skip
    runs = [Path("runs/a-seed0"), Path("runs/a-seed1")]
    assert [line for line, _ in next_steps.after_seeds(runs)] == [
        "flowsim plot runs/a-seed0 runs/a-seed1 -o curves.png",
        "flowsim report runs/a-seed0 runs/a-seed1 -o report.html",
    ]


@pytest.mark.parametrize(
    ("state", "running", "run", "expected"),
    [
        ("training", True, RUN, ["flowsim watch runs/run"]),
        ("died", False, RUN, ["flowsim resume runs/run"]),
        ("failed", True, RUN, ["flowsim resume runs/run"]),  # its process id now belongs to another process
        ("finished", False, replace(RUN, lacks_evaluation=True), ["flowsim resume runs/run"]),
        ("finished", True, replace(RUN, lacks_evaluation=True), ["flowsim watch runs/run"]),
        ("finished", False, replace(RUN, evaluated_episodes=48),
         ["flowsim plot runs/run -o run.png", "flowsim resume runs/run run.steps=200"]),
        ("finished", False, replace(RUN, evaluated_episodes=48, has_episodes=False),
         ["flowsim resume runs/run run.steps=200"]),
    ],
)  # fmt: skip
def test_hints_depend_on_the_state_of_a_run(state, running, run, expected):
    assert [line for line, _ in next_steps.after_status(run, state, running)] == expected


@pytest.mark.parametrize(("evaluated", "suggested"), [(0, 48), (10, 48), (48, 96), (96, 192)])
def test_the_evaluation_after_a_film_has_more_episodes_than_the_last_one(evaluated, suggested):
    [(line, _)] = next_steps.after_film(replace(RUN, evaluated_episodes=evaluated))
    assert line == f"flowsim evaluate runs/run --episodes {suggested}"


def test_names_are_quoted_for_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = replace(RUN, name=Path("my runs/$x"))
    ((line, _),) = next_steps.after_evaluation(run)
    assert line == "flowsim plot 'my runs/$x' -o '$x.png'"
    here = replace(RUN, name=Path("."))
    ((line, _),) = next_steps.after_evaluation(here)
    assert line == f"flowsim plot . -o {tmp_path.name}.png"


def test_files_made_from_a_run_are_named_after_its_folder(tmp_path, monkeypatch):
    (tmp_path / "a" / "workers").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "workers")
    assert [stem_of(Path(path)) for path in (".", "..", "../../a", "wake")] == [
        "workers", "a", "a", "wake",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ['{"after": 3}', '{"after": {"episodes": "many"}}'])
def test_damaged_evaluation_is_reported(tmp_path, content):
    folder = RunFolder(tmp_path)
    folder.write_config(load_config(None, ["env=Pendulum-v1"]))
    folder.evaluation.write_text(content)
    with pytest.raises(RunError, match=r"evaluation\.json is damaged: "):
        RunState.of(tmp_path, folder)


def test_commands_in_messages_are_quoted(tmp_path):
    run = tmp_path / "my $runs" / "x"
    run.mkdir(parents=True)
    config = RunConfig.model_validate({
        "env": "CartPole-v1", "run": {"folder": str(run.parent), "name": run.name}
    })  # fmt: skip
    keys = {"server_key": "0" * 40, "public_key": "0" * 40, "secret_key": "0" * 40}
    connection = Connection("tcp://127.0.0.1:9", "x", "CartPole-v1", {}, 1.0, **keys)
    write_connection(run / "connection.json", connection)
    (run / "connection.json").chmod(0o644)
    with pytest.raises(ConfigError) as exists:
        RunFolder.choose(config, "CartPole-v1")
    with pytest.raises(ValueError, match="chmod") as readable:
        read_connection(run / "connection.json")
    run.chmod(0o777)
    with pytest.raises(RunError) as foreign:
        refuse_foreign(run)
    waiting = ManualLauncher(run / "connection.json", [2]).waits_for()
    for told, words in (
        (str(exists.value), ["flowsim", "resume", str(run)]),
        (str(foreign.value), ["chmod", "-R", "go-w", str(run)]),
        (str(readable.value), ["chmod", "600", str(run / "connection.json")]),
        (waiting, ["flowsim", "worker", "--connect", str(run / "connection.json")]),
    ):
        assert shlex.join(words) in told


@pytest.mark.parametrize("there", [True, False])
def test_render_is_proposed_only_where_pygame_is_installed(there, monkeypatch):
    monkeypatch.setattr(
        next_steps.importlib.util, "find_spec", lambda name: object() if there else None
    )
    ((line, _),) = next_steps.after_evaluation(replace(RUN, env="CartPole-v1", draws_itself=True))
    assert line.split()[1] == ("render" if there else "plot")


def test_hints_repeat_the_trust_option():
    told = next_steps.trusting([*next_steps.after_training(RUN), *next_steps.after_plot(RUN)])
    assert [line for line, _ in told] == [
        "flowsim evaluate runs/run --trust",
        "flowsim plot runs/run -o run.png",
        "flowsim resume runs/run run.steps=200 --trust",
        "flowsim evaluate runs/run --trust",
    ]
