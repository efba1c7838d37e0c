"""What TensorBoard and other experiment trackers record of a run."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shell import GUARD
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from coupling.commands import run_command

ROOT = Path(__file__).parents[3]
TRAINING = [
    "env=flowsim/LinearQuadratic-v0", "run.name=tracked", "run.steps=2000", "run.evaluate_episodes=2",
    "agent.learning_starts=100", "agent.hidden=[8]", "workers.agents=2", "workers.processes=1",
]  # fmt: skip


@pytest.mark.slow
def test_tensorboard_has_evaluations_and_hyperparameters(shell):
    done = shell.run("train", *TRAINING)
    assert done.returncode == 0, done.stderr
    run = shell.folder / "runs" / "tracked"
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    evaluated = json.loads((run / "evaluation.json").read_text())
    for tag, result in (("evaluation", "after"), ("baseline_zero", None)):
        of = evaluated["after"] if result else evaluated["after"]["baselines"]["zero"]
        for number in ("mean_return", "mean_length", "survival"):
            last = events.Scalars(f"{tag}/{number}")[-1]
            assert (last.step, last.value) == (2000, pytest.approx(of[number], rel=1e-6))
    first = events.Scalars("evaluation/mean_return")[0]
    assert (first.step, first.value) == (0, pytest.approx(evaluated["before"]["mean_return"]))
    assert all(point.value < 0 for point in events.Scalars("episodes/return")), "costs"
    told = events.PluginTagToContent("hparams")
    start = HParamsPluginData.FromString(told["_hparams_/session_start_info"]).session_start_info
    assert start.hparams["env"].string_value == "flowsim/LinearQuadratic-v0"
    assert start.hparams["agent.learning_starts"].number_value == 100
    assert start.hparams["workers.outbox"].bool_value is True
    end = HParamsPluginData.FromString(told["_hparams_/session_end_info"]).session_end_info
    assert end.status == 1  # STATUS_SUCCESS
    experiment = HParamsPluginData.FromString(told["_hparams_/experiment"]).experiment
    assert "evaluation/mean_return" in [info.name.tag for info in experiment.metric_infos]


def snippet(heading: str) -> str:
    """Return the code that the FAQ has for a question."""
    _, _, answer = (ROOT / "docs" / "faq.md").read_text().partition(f"**{heading}**")
    return re.search(r"```python\n(.*?)```", answer, re.S)[1]


def run_snippet(shell, heading: str, **environment: str) -> subprocess.CompletedProcess:
    file = shell.folder / "tracked.py"
    file.write_text(snippet(heading))
    return subprocess.run(
        [sys.executable, str(file), *TRAINING], cwd=shell.folder, capture_output=True, text=True,
        env=shell.environment | environment, timeout=2 * GUARD,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="needs wandb")
def test_the_snippet_for_wandb_tracks_a_run_that_succeeds(shell):
    done = run_snippet(shell, "Weights & Biases?", WANDB_MODE="offline")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (record,) = (shell.folder / "wandb").glob("offline-run-*/run-*.wandb")
    content = record.read_bytes()
    for tag in (b"evaluation/mean_return", b"gradient_steps"):
        assert tag in content
    assert exit_code_of(record) == 0
    failed = run_snippet(shell, "Weights & Biases?", WANDB_MODE="offline")
    assert failed.returncode == 2, "the run is there already"
    assert "Traceback" not in failed.stderr
    (second,) = set((shell.folder / "wandb").glob("offline-run-*/run-*.wandb")) - {record}
    assert exit_code_of(second) == 2


def exit_code_of(file: Path) -> int:
    """Return the exit code in what wandb keeps of a run: a log as LevelDB's, whose records are messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, message = file.read_bytes(), 7, b""  # behind the header of the file
    block, head, whole_or_last = 32768, 7, (1, 4)
    while place + head <= len(content):
        if block - place % block < head:  # padding at the end of a block
            place += block - place % block
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        message += content[place + head : place + head + length]
        place += head + length
        if kind in whole_or_last:
            record, message = Record.FromString(message), b""
            if record.WhichOneof("record_type") == "exit":
                return record.exit.exit_code
    raise AssertionError(f"{file} has no end")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs mlflow")
def test_the_snippet_for_mlflow_has_settings_curves_and_evaluation(shell):
    store = f"sqlite:///{shell.folder / 'mlflow.db'}"
    done = run_snippet(shell, "MLflow?", MLFLOW_TRACKING_URI=store)
    assert done.returncode == 0, done.stderr
    import mlflow

    client = mlflow.MlflowClient(store)
    (run,) = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert run.info.status == "FINISHED"
    assert run.data.params["agent.learning_starts"] == "100"
    evaluated = json.loads(
        (shell.folder / "runs" / run.info.run_name / "evaluation.json").read_text()
    )
    assert run.data.metrics["mean_return"] == pytest.approx(evaluated["after"]["mean_return"])
    history = client.get_metric_history(run.info.run_id, "gradient_steps")
    assert [point.step for point in history] == [1000, 2000]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["presets", "--json"], 0), (["status", "nowhere"], 2), (["nonsense"], 2), (["--version"], 0)],
)
def test_run_command_returns_the_exit_code(words, code, capsys):
    assert run_command(words) == code
    assert os.getpid()
    assert bool(capsys.readouterr().err) == bool(code)
