"""Commands on flows: films, the solver alone, and the benchmark of the service."""

import csv
import json

import gymnasium as gym
import imageio.v3 as imageio
import numpy as np
import pytest
import torch
import typer
from shell import command, complaint, interrupt_after
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkIOHDF import vtkHDFReader

from coupling.bench.service import bench_coupling
from coupling.commands import cli
from coupling.commands.options import preset_or_word
from coupling.errors import ConfigError
from coupling.run.folder import RunFolder
from coupling.run.status import write_status
from coupling.settings.config import load_config
from coupling.simulation.case import load_case
from coupling.simulation.files import parse_size
from coupling.simulation.simulate import Output, simulate
from coupling.worker.environments import describe_task
from flowsim.backend import cuda_is_available
from rl_agent.learner import Learner
from rl_agent.policy import Policy

WITHOUT_A_GPU = pytest.mark.skipif(cuda_is_available(), reason="there is a GPU")
DISK = """
nx: 64
ny: 32
h: 0.125
reynolds: 40
bodies:
  - {shape: disk, center: [2.0, 2.0]}
"""
WAKE = """
env: flowsim/DCylinderWake-v0
env_options: {cells_per_diameter: 8, start: impulsive, start_range: narrow}
agent: {network: lstm, hidden: [8]}
workers: {agents: 1, processes: 1}
run: {name: wake}
"""


def vtk_times(path) -> list[float]:
    reader = vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    return list(reader.GetOutputInformation(0).Get(vtkStreamingDemandDrivenPipeline.TIME_STEPS()))


def test_simulate_writes_forces_fields_and_films(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    words = [
        "simulate",
        "disk.yaml",
        "--time",
        "2",
        "-o",
        "out",
        "--frames",
        "10",
        "--snapshots",
        "2",
    ]
    code, out, _ = command(words, monkeypatch, capsys)
    assert code == 0
    assert "finished after" in out
    with (tmp_path / "out" / "forces.csv").open() as file:
        rows = list(csv.DictReader(file))
    times = np.array([float(row["time"]) for row in rows])
    assert (np.diff(times) > 0).all()
    dt = float(rows[-1]["dt"])
    assert 2.0 <= times[-1] < 2.0 + dt  # the first step that is there
    # the stream pushes a fixed disk downstream, and by symmetry not sideways
    assert float(rows[-1]["body0_force_x"]) > 0.3
    assert abs(float(rows[-1]["body0_force_y"])) < 1e-3
    shown = vtk_times(tmp_path / "out" / "fields.vtkhdf")
    assert shown == pytest.approx([0.0, times[times >= 1.0][0], times[-1]])
    reader = vtkHDFReader()
    reader.SetFileName(str(tmp_path / "out" / "fields.vtkhdf"))
    reader.UpdateInformation()
    for n, time in enumerate((0.0, 1.0, 2.0)):
        reader.SetStep(n)
        reader.Update()
        cells = reader.GetOutput().GetCellData()
        velocity, solid = (vtk_to_numpy(cells.GetArray(name)) for name in ("velocity", "solid"))
        assert velocity.shape == (64 * 32, 3)
        inside = solid > 0.99
        assert inside.any()
        assert np.abs(velocity[inside]).max() < 0.1 or time == 0.0
    assert (tmp_path / "out" / "vorticity.mp4").stat().st_size > 1000
    assert (tmp_path / "out" / "vorticity.gif").stat().st_size > 1000


def test_simulate_restart_equals_an_uninterrupted_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)

    def run(out: str, time: int, *words: str) -> tuple[int, str]:
        plan = ["--time", str(time), "--frames", str(3 + time), "--snapshots", str(2 * time)]
        code, _, err = command(
            ["simulate", "disk.yaml", *plan, "-o", out, *words], monkeypatch, capsys
        )
        return code, err

    assert run("whole", 4)[0] == 0
    assert run("parts", 2)[0] == 0
    (tmp_path / "keep.h5").write_bytes((tmp_path / "parts" / "restart.h5").read_bytes())
    with (tmp_path / "parts" / "forces.csv").open("a+") as file:
        file.seek(0)
        reached = float(file.readlines()[-1].split(",")[0])
        # steps after the restart file, cut short by a kill
        file.write("2.21,0.1,9,9,9,9,9,9,9,9,9\n2.22,0.1,9,")
    assert run("parts", 4, "--restart-from", "parts/restart.h5")[0] == 0
    for name in ("forces.csv", "restart.h5", *(f"fields/{n:06d}.vtkhdf" for n in range(9))):
        assert (tmp_path / "whole" / name).read_bytes() == (
            tmp_path / "parts" / name
        ).read_bytes(), name
    assert {file.name for file in (tmp_path / "parts").glob("*.mp4")} == {
        "vorticity.mp4",
        f"vorticity-from-{reached:.6g}.mp4",
    }

    code, err = run("other", 1, "--restart-from", "keep.h5")
    assert (code, f"already at {reached:g} since the beginning" in err) == (2, True)
    code, err = run("other", 4, "--restart-from", "keep.h5", "ny=30")
    assert (code, "belongs to a simulation with grid.ny = 32, but this one has 30" in err) == (
        2,
        True,
    )
    code, err = run("other", 4, "--restart-from", "keep.h5", "reynolds=50")
    assert (code, "has the viscosity 0.025, but this case has 0.02" in err) == (2, True)
    code, err = run("other", 4, "--restart-from", "none.h5")
    assert (code, "No such file or directory: none.h5" in err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_output_options_do_not_change_the_flow(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    looks = [
        "--frames 2 --snapshots 1",
        "--frames 20 --snapshots 7 --fps 10",
        "--frames 200 --snapshots 60 --max-size 100MB",  # more than there are steps
        "--frames 3 --fields speed,pressure --range speed=2 --follow 0",
    ]
    tables, states = set(), set()
    for look in looks:
        words = ["simulate", "disk.yaml", "--time", "1", "-o", "out", *look.split()]
        assert command(words, monkeypatch, capsys)[0] == 0
        tables.add((tmp_path / "out" / "forces.csv").read_bytes())
        states.add((tmp_path / "out" / "restart.h5").read_bytes())
    assert len(tables) == 1
    assert len(states) == 1
    (table,) = tables
    longer = ["simulate", "disk.yaml", "--time", "1.5", "-o", "out", "--frames", "1"]
    assert command(longer, monkeypatch, capsys)[0] == 0
    assert (tmp_path / "out" / "forces.csv").read_bytes().startswith(table)


def test_simulation_film_has_the_requested_number_of_frames(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    for frames in (3, 100):  # 100 are more than there are steps
        words = ["simulate", "disk.yaml", "--time", "1", "-o", "out", "--frames", str(frames)]
        assert command(words, monkeypatch, capsys)[0] == 0
        assert len(imageio.imread(tmp_path / "out" / "vorticity.mp4")) == frames + 1


def test_simulate_stays_below_max_size(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    out, sizes, said = tmp_path / "out", [], []

    def watch(done: float) -> None:
        sizes.append(sum(file.stat().st_size for file in out.rglob("*") if file.is_file()))

    case = load_case("disk.yaml", [])
    simulate(
        case,
        40.0,
        Output(out, frames=200, snapshots=200, max_size=1_000_000),
        say=said.append,
        progress=watch,
    )
    watch(1.0)
    assert 300_000 < max(sizes) <= 1_000_000
    for name in ("fields.vtkhdf", "forces.csv"):
        assert any(name in sentence and "every other" in sentence for sentence in said)
    with (out / "forces.csv").open() as file:
        gaps = np.diff([float(row["time"]) for row in csv.DictReader(file)])
    assert len(gaps) > 200
    assert gaps.min() > 0.04  # two steps of 1/40 or more
    times = vtk_times(out / "fields.vtkhdf")
    assert len(times) > 2
    assert times[0] == 0
    # thinned but still evenly spaced, except that each comes up to a step after its time
    assert np.allclose(np.diff(times), np.diff(times).mean(), atol=gaps.max())
    assert len(list((out / "fields").iterdir())) == len(times)

    words = ["simulate", "disk.yaml", "-o", "tiny", "--max-size"]
    for size, sentence in (
        ("0.1", "needs at least 0.9"),
        ("3x", "--max-size 3x: a size is"),
        ("-1", "--max-size -1"),
    ):
        code, _, err = command([*words, size], monkeypatch, capsys)
        assert (code, sentence in err) == (2, True)
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500_000_000), ("500MB", 500_000_000), ("1.5 GiB", 1_610_612_736), ("2kB", 2000)],
)
def test_sizes_have_units(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["0", "five", "9" * 400])
def test_invalid_sizes_are_refused(text):
    with pytest.raises(ConfigError, match="a size is a number of MB"):
        parse_size(text)


@pytest.mark.parametrize("name", ["forces.csv", "fields.vtkhdf"])
def test_simulate_reports_damaged_files_of_a_restart(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    words = ["simulate", "disk.yaml", "--snapshots", "2", "--frames", "2", "-o", "out"]
    assert command([*words, "--time", "0.5"], monkeypatch, capsys)[0] == 0
    file = tmp_path / "out" / name
    header, *rest = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([header, b"edited", *rest]) if name == "forces.csv" else b"edited")
    again = [*words, "--time", "1", "--restart-from", "out/restart.h5"]
    code, _, err = command(again, monkeypatch, capsys)
    assert code == 1, err
    assert err.splitlines()[-1].startswith(f"flowsim: out/{name} is damaged: ")


def test_name_of_a_preset_file_may_contain_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert preset_or_word("gamma=0.9.yaml", ["run.seed=1"])[0] is None
    (tmp_path / "gamma=0.9.yaml").write_text("env: Pendulum-v1")
    assert preset_or_word("gamma=0.9.yaml", ["run.seed=1"]) == ("gamma=0.9.yaml", ["run.seed=1"])


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("nx=63", "nx = 63: the number of cells per side must be an even integer"),
        ("reynolds=-40", "reynolds = -40: input should be greater than 0"),
        ("reynold=4", "did you mean 'reynolds'"),
        pytest.param("backend=cuda", 'backend = "cuda": CuPy ', marks=WITHOUT_A_GPU),
    ],
)
def test_simulate_refuses_invalid_settings(tmp_path, monkeypatch, capsys, word, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    code, _, err = command(["simulate", "disk.yaml", word, "-o", "out"], monkeypatch, capsys)
    assert code == 2
    assert sentence in err
    assert not (tmp_path / "out").exists()


@WITHOUT_A_GPU
def test_training_on_a_missing_backend_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wake.yaml").write_text(WAKE)
    code, _, err = command(["train", "wake.yaml", "env_options.backend=cuda"], monkeypatch, capsys)
    assert code == 2
    assert 'backend = "cuda": CuPy ' in complaint(err)
    assert not (tmp_path / "runs").exists()


SIZED = """
import gymnasium as gym
import numpy as np

class Sized(gym.Env):
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, high=1.0, size=2, acts=1, choices=0, render_mode=None):
        self.observation_space = gym.spaces.Box(-high, high, (size,), np.float32)
        self.action_space = gym.spaces.Discrete(choices) if choices else gym.spaces.Box(-1, 1, (acts,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        return *self.reset()[:1], 0.0, False, False, {}

    def render(self):
        return np.zeros((32, 32, 3), np.uint8)

gym.register("Sized-v0", Sized, max_episode_steps=3)
"""


@pytest.fixture
def wake(tmp_path, monkeypatch):
    """The folder of an untrained run in the wake."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wake.yaml").write_text(WAKE)
    config = load_config("wake.yaml")
    task = describe_task(config.env, config.env_options)
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=1, seed=0)
    folder = RunFolder(tmp_path / "wake")
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    return folder


@pytest.mark.parametrize("verb", ["evaluate", "render"])
def test_agent_is_refused_in_a_task_with_other_spaces(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sized.py").write_text(SIZED)
    config = load_config(None, ["env=sized:Sized-v0"])
    task = describe_task(config.env, config.env_options)
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=1, seed=0)
    folder = RunFolder(tmp_path / "agent")
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    for change, sentence in (
        ("size=3", "its observations have shape (3,) with these env_options, but (2,) in training"),
        ("acts=3", "its actions have shape (3,) with these env_options, but (1,) in training"),
        ("choices=4", "its discrete actions are 4 with these env_options, but 0 in training"),
    ):  # fmt: skip
        words = [verb, "agent", f"env_options.{change}", "--trust"]
        words += ["-o", "x.png"] if verb == "render" else []
        code, _, err = command(words, monkeypatch, capsys)
        assert code == 2, err
        assert err.splitlines()[-1] == f"flowsim: env = 'sized:Sized-v0': {sentence}"


def test_json_of_an_evaluation_is_all_of_stdout(shell):
    loud = SIZED.replace(
        "return *self.reset()",
        "print('hello'); os.system('echo hello')\n        return *self.reset()",
    )
    (shell.folder / "sized.py").write_text("import os\n" + loud)
    config = load_config(None, ["env=sized:Sized-v0", "run.name=agent"])
    seen, taken = (gym.spaces.Box(-1.0, 1.0, (size,), np.float32) for size in (2, 1))
    learner = Learner(config.agent, seen, taken, agents=24, seed=0)
    folder = RunFolder(shell.folder / "agent")
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    done = shell.run("evaluate", "agent", "--trust", "--json", "--episodes", "2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["episodes"] == 2
    assert done.stderr.count("hello") > 2


@pytest.mark.slow
def test_evaluation_reports_a_hanging_environment(shell):
    still = SIZED.replace(
        "return *self.reset()", "__import__('time').sleep(1e6)\n        return *self.reset()"
    )
    (shell.folder / "sized.py").write_text(SIZED)
    trained = shell.run(
        "train",
        "env=sized:Sized-v0",
        "run.steps=8",
        "run.name=run",
        "workers.agents=1",
        "workers.processes=1",
    )
    assert trained.returncode == 0, trained.stderr
    (shell.folder / "sized.py").write_text(still)
    started = shell.start("evaluate", "runs/run", "--trust")
    interrupt_after(started, "no action of env = 'sized:Sized-v0' has finished for ")


def test_error_names_the_option_as_it_was_typed(monkeypatch, capsys):
    for name in ("--episodes", "--starts"):
        code, _, err = command(["render", "wake", name, "0"], monkeypatch, capsys)
        assert code == 2
        assert err.startswith(f"flowsim: {name} = 0: ")


def test_missing_connection_file_error_says_where_to_find_it(tmp_path, monkeypatch, capsys):
    missing = tmp_path / "connection.json"
    code, _, err = command(["worker", "--connect", str(missing)], monkeypatch, capsys)
    assert code == 2
    assert f"flowsim: --connect: {missing} does not exist; it is in the folder of a run" in err


@pytest.mark.parametrize("key", ["run.evaluate_episodes", "run.select_episodes"])
def test_too_many_episodes_are_refused(key, tmp_path, monkeypatch, capsys):
    """Such a run was once begun silently and never ended."""
    monkeypatch.chdir(tmp_path)
    words = ["train", "small/lq1", f"{key}=1e12"]
    code, _, err = command(words, monkeypatch, capsys)
    assert code == 2
    assert "input should be less than or equal to 1000000" in err


def test_agent_is_evaluated_with_changed_env_options(wake, monkeypatch, capsys):
    changes = ["env_options.episode_actions=1", "env_options.cells_per_diameter=10"]
    code, out, _ = command(
        ["evaluate", "wake", *changes, "--episodes", "2", "--json"], monkeypatch, capsys
    )
    evaluated = json.loads(out)
    assert code == 0
    assert evaluated["mean_length"] == evaluated["baselines"]["zero"]["mean_length"] == 1
    assert evaluated["env_options"]["cells_per_diameter"] == 10
    assert wake.config().env_options["cells_per_diameter"] == 8
    for word, sentence in (
        (
            "agent.gamma=0.9",
            "agent.gamma=0.9: only env_options.KEY=VALUE can be changed for a trained agent",
        ),
        ("env_options.cells=9", "env_options.cells is no option"),
        ("env_options.cells_per_diameter=0", "cells_per_diameter"),
    ):
        for words in (["evaluate", "wake", word], ["render", "wake", word]):
            code, _, err = command(words, monkeypatch, capsys)
            assert code == 2
            assert sentence in complaint(err)


def test_render_films_an_agent_and_baselines(wake, tmp_path, monkeypatch, capsys):
    code, out, _ = command(
        [
            "render",
            "wake",
            "-o",
            "of/wake/film.mp4",
            "--baseline",
            "zero",
            "--baseline",
            "pd",
            "--actions",
            "2",
            "--episodes",
            "3",
            "env_options.cells_per_diameter=9",
        ],
        monkeypatch,
        capsys,
    )
    assert code == 0
    for words in (
        "trained agent: episode 1: return",
        "episode 3: return",
        "no control: episode 1: return",
        "PD controller: ",
    ):
        assert words in out
    assert (tmp_path / "of" / "wake" / "film.mp4").stat().st_size > 1000
    assert (tmp_path / "of" / "wake" / "film.gif").stat().st_size > 1000
    monkeypatch.setattr(Policy, "load", None)  # invalid input is refused before any work
    for file, words in (
        ("film.avi", "'.avi'"),
        ("/proc/nowhere/film.mp4", "cannot be written to /proc/nowhere"),
        ("/proc/a.gif", "/proc"),
    ):
        code, _, err = command(["render", "wake", "-o", file], monkeypatch, capsys)
        assert code == 2
        assert words in complaint(err)


def test_the_benchmark_counts_every_agent_of_a_message():
    # workers report their delays every half second, unless this machine stands still
    for seconds in (2.0, 10.0, 50.0):
        row = bench_coupling(agents=4, processes=2, seconds=seconds)
        if row["p50_us"]:
            break
    assert row["agents"] == 4
    assert row["round_trips_per_second"] > 0
    assert 0 < row["p50_us"] <= row["p99_us"]


@pytest.mark.parametrize("name", typer.main.get_command(cli.app).commands)
def test_help_of_every_command_has_an_example(name, monkeypatch, capsys):
    code, out, _ = command([name, "--help"], monkeypatch, capsys)
    assert code == 0
    assert f"Example: flowsim {name} " in out


def test_status_json_is_one_object(tmp_path, monkeypatch, capsys):
    (tmp_path / "config.yaml").write_text(WAKE)
    written = json.loads(write_status(tmp_path / "status.json", {"state": "finished"}))
    code, out, _ = command(["status", str(tmp_path), "--json"], monkeypatch, capsys)
    assert code == 0
    told = json.loads(out)
    assert told.pop("age_seconds") >= 0
    assert told == written


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_missing_gpu_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.yaml").write_text("env: Pendulum-v1\nagent: {device: cuda}\n")
    code, _, error = command(["train", "task.yaml"], monkeypatch, capsys)
    assert code == 2
    assert "device = 'cuda' needs a CUDA device" in complaint(error)
    assert not (tmp_path / "runs").exists()
