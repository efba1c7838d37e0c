"""Commands on flows: films, the solver alone, and the benchmark of the service."""

import csv
import json

import h5py
import numpy as np
import pytest

from coupling import cli
from coupling.bench import bench_coupling
from coupling.config import load_config
from coupling.environments import describe_task
from coupling.folder import RunFolder
from rl_agent.learner import Learner

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


def command(words, monkeypatch, capsys):
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.setattr("sys.argv", ["flowsim", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    out = capsys.readouterr()
    return caught.value.code, out.out, out.err


def test_simulate_writes_forces_fields_and_films(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    words = ["simulate", "disk.yaml", "--time", "2", "-o", "out", "--frames", "10", "--snapshots", "2"]
    code, out, _ = command(words, monkeypatch, capsys)
    assert code == 0
    assert "the time is over" in out
    with (tmp_path / "out" / "forces.csv").open() as file:
        rows = list(csv.DictReader(file))
    times = np.array([float(row["time"]) for row in rows])
    assert (np.diff(times) > 0).all()
    assert times[-1] == pytest.approx(2.0)
    # the stream pushes a fixed disk downstream, and by symmetry not sideways
    assert float(rows[-1]["body0_force_x"]) > 0.3
    assert abs(float(rows[-1]["body0_force_y"])) < 1e-3
    for n, time in enumerate((0.0, 1.0, 2.0)):
        with h5py.File(tmp_path / "out" / f"fields-{n:04d}.h5") as file:
            assert file.attrs["time"] == pytest.approx(time)
            assert file["velocity"].shape == (64, 32, 2)
            inside = file["solid"][...] > 0.99
            assert inside.any()
            assert np.abs(file["velocity"][...][inside]).max() < 0.1 or time == 0.0
    assert (tmp_path / "out" / "vorticity.mp4").stat().st_size > 1000
    assert (tmp_path / "out" / "vorticity.gif").stat().st_size > 1000


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("nx=63", "nx = 63: the number of cells per side must be an even integer"),
        ("reynolds=-40", "reynolds = -40: input should be greater than 0"),
        ("reynold=4", "did you mean 'reynolds'"),
    ],
)
def test_simulate_refuses_nonsense_in_a_sentence(tmp_path, monkeypatch, capsys, word, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk.yaml").write_text(DISK)
    code, _, err = command(["simulate", "disk.yaml", word, "-o", "out"], monkeypatch, capsys)
    assert code == 2
    assert sentence in err
    assert not (tmp_path / "out").exists()


def test_render_films_an_agent_beside_baselines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wake.yaml").write_text(WAKE)
    config = load_config("wake.yaml")
    task = describe_task(config.env, config.env_options)
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=1, seed=0)
    folder = RunFolder(tmp_path / "wake")
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    code, out, _ = command(
        ["render", "wake", "-o", "film.mp4", "--beside", "zero", "--beside", "pd", "--actions", "2"],
        monkeypatch,
        capsys,
    )
    assert code == 0
    for words in ("trained agent: return", "no control: return", "PD controller: return"):
        assert words in out
    assert (tmp_path / "film.mp4").stat().st_size > 1000
    assert (tmp_path / "film.gif").stat().st_size > 1000
    code, _, err = command(["render", "wake", "-o", "film.avi"], monkeypatch, capsys)
    assert code == 2
    assert "film.avi" in err


def test_the_benchmark_counts_every_agent_of_a_message():
    row = bench_coupling(agents=4, processes=2, seconds=2.0)  # workers report their delays every half second
    assert row["agents"] == 4
    assert row["round_trips_per_second"] > 100
    assert 0 < row["p50_us"] <= row["p99_us"]


@pytest.mark.parametrize("name", ["train", "resume", "evaluate", "render", "simulate", "bench", "status", "plot"])
def test_every_command_helps_with_an_example(name, monkeypatch, capsys):
    code, out, _ = command([name, "--help"], monkeypatch, capsys)
    assert code == 0
    assert f"Example: flowsim {name} " in out


def test_status_json_is_one_object(tmp_path, monkeypatch, capsys):
    (tmp_path / "config.yaml").write_text(WAKE)
    (tmp_path / "status.json").write_text(json.dumps({"state": "finished", "pid": 1}))
    code, out, _ = command(["status", str(tmp_path), "--json"], monkeypatch, capsys)
    assert code == 0
    assert json.loads(out) == {"state": "finished", "pid": 1}
