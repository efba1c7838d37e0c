"""The examples run as they stand, each in a fresh process and a folder of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[2]


def run(folder: Path, name: str, *words: str) -> str:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    }
    command = [sys.executable, str(ROOT / "examples" / name), *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(said: str) -> dict[str, list[str]]:
    """Return the words of each row of the table of an evaluation, by its controller."""
    _, _, table = said.partition("controller")
    lines = [line.split("│") for line in table.splitlines() if line.startswith("│")]
    # a row without a controller continues the cells of the one before
    return {line[1].strip(): " ".join(line[2:]).split() for line in lines if line[1].strip()}


@pytest.mark.parametrize("algorithm", ["sac", "ppo"])
def test_stable_baselines3_trains(tmp_path, algorithm):
    pytest.importorskip("stable_baselines3")
    said = run(tmp_path, "with_stable_baselines3.py", algorithm, "--steps", "200")
    assert rows(said).keys() == {"trained", "zero", "random", "pd"}
    assert (tmp_path / f"DCylinderWake-{algorithm}.zip").exists()


@pytest.mark.slow  # develops a wake
def test_stable_baselines3_and_torchrl_train_on_a_drag_reduction_task(tmp_path):
    pytest.importorskip("stable_baselines3")
    task = ("--task", "RotatingCylinder", "--preset", "quick")
    shown = {"zero", "random", "constant_spin", "harmonic", "feedback"}
    for script, steps in (
        ("stable_baselines3", ("sac", "--steps", "110")),
        ("torchrl", ("--steps", "500")),
    ):
        pytest.importorskip(script)
        said = run(tmp_path, f"with_{script}.py", *steps, *task, "--episodes", "2")
        assert rows(said).keys() == {"trained", *shown}
        *_, net_power, plus_minus, rms = rows(said)["zero"]
        assert plus_minus == "+-"
        assert 1.3 < float(net_power) < 1.45
        assert 0.0 < float(rms) < 0.1


def test_torchrl_trains(tmp_path):
    pytest.importorskip("torchrl")
    said = run(tmp_path, "with_torchrl.py", "--steps", "1000")
    assert said.count("500 actions") == 2
    assert rows(said).keys() == {"trained", "zero", "random", "pd"}


def test_gymnasium_searches_and_films(tmp_path):
    pytest.importorskip("moviepy")
    said = run(tmp_path, "with_gymnasium.py", "--flows", "3", "--episodes", "2")
    assert "the best of 3 random gains" in said
    assert rows(said).keys() == {"best", "zero", "random", "pd"}
    assert (tmp_path / "videos" / "rl-video-episode-0.mp4").stat().st_size > 1000


@pytest.mark.slow
def test_optuna_searches(tmp_path):
    optuna = pytest.importorskip("optuna")
    said = run(tmp_path, "with_optuna.py", "--trials", "3", "--steps", "600")
    assert optuna.__version__
    returns = {
        folder.name: json.loads((folder / "evaluation.json").read_text())["after"]["mean_return"]
        for folder in (tmp_path / "runs" / "optuna").iterdir()
    }
    assert returns.keys() == {"trial-0", "trial-1", "trial-2"}
    best = max(returns, key=lambda name: returns[name])
    number = best.removeprefix("trial-")
    assert f"best of 3: trial {number}, return {returns[best]:.3f}" in said
    rates = {
        yaml.safe_load((tmp_path / "runs" / "optuna" / name / "config.yaml").read_text())["agent"][
            "learning_rate"
        ]
        for name in returns
    }
    assert len(rates) == 3, "each trial has settings of its own"


@pytest.mark.slow
def test_ppo_in_one_file_runs_on_a_batch_of_flows(tmp_path):
    said = run(tmp_path, "ppo_one_file.py", "--steps", "64", "--envs", "2", "--length", "16")
    assert said.splitlines()[-1].startswith("64 steps")


@pytest.mark.slow
def test_ppo_in_one_file_learns(tmp_path):
    """The costs of bringing a point to the origin fall to a fifth."""
    words = ["--env", "flowsim/LinearQuadratic-v0", "--steps", "12000", "--length", "128"]
    said = run(tmp_path, "ppo_one_file.py", *words).splitlines()
    returns = [float(line.rpartition(" ")[2]) for line in said]
    assert np.isfinite(returns).all()
    assert returns[-1] > 0.2 * returns[0]
