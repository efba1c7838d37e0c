"""What commands print of evaluations and of the status of a run."""

import json
import re

import pytest
from shell import command

from coupling.run.status import read_status
from coupling.run.tables import print_results, print_status

RESULT = {
    "mean_return": 1.0, "ci95": [0.5, 1.5], "mean_length": 9.0, "survival": 1.0, "episodes": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "rms", "printed"),
    [
        (1.42371, 0.0381, "1.424 +- 0.038"),
        (-0.00004, 0.1741, "0.000 +- 0.174"),
        (0.00183, 0.00062, "0.00183 +- 0.00062"),
        (-3.63e-05, 5.45e-04, "-0.000036 +- 0.000545"),
        (0.0, 0.0, "0.000 +- 0.000"),
        (1e-300, 0.0, "0.000000000 +- 0.000000000"),
    ],
)
def test_measures_have_three_digits(capsys, monkeypatch, mean, rms, printed):
    monkeypatch.setenv("COLUMNS", "200")
    print_results({"zero": RESULT | {"measures": {"energy": {"mean": mean, "rms": rms}}}}, None)
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "planned"),
    [
        (["agent.algorithm=ppo", "agent.batch_size=20", "agent.epochs=8"], 2.5),
        (["agent.algorithm=a3c", "agent.horizon=40"], 40.0),
        (["agent.algorithm=vracer", "agent.env_steps_per_gradient_step=4"], 4.0),
    ],
)
def test_status_gives_the_planned_ratio_of_the_algorithm(
    tmp_path, monkeypatch, capsys, words, planned
):
    """On-policy algorithms derive it from other settings."""
    monkeypatch.chdir(tmp_path)
    small = ["workers.processes=1", "workers.agents=2", "run.steps=100", "run.name=run"]
    train = ["train", "env=flowsim/LinearQuadratic-v0", "agent.hidden=[8]", *small, *words]
    code, _, stderr = command(train, monkeypatch, capsys)
    assert code == 0, stderr
    assert f"(F = {planned:g})" in stderr
    assert read_status(tmp_path / "runs/run/status.json")["env_steps_per_gradient_step"] == planned


def test_status_is_printed_in_words_and_fits_the_terminal(shell, capsys, monkeypatch):
    done = shell.run("train", shell.preset(run={"steps": 300}, workers={"processes": 1}))
    assert done.returncode == 0, done.stderr
    file = shell.run_folder / "status.json"
    words = {key.replace("_", " ") for key in json.loads(file.read_text()) if "_" in key}
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        print_status(read_status(file))
        lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
        assert not [line for line in lines if "_" in line]
        first = {line.strip("│ ").partition("  ")[0] for line in lines if line.startswith("│")}
        assert first & words == {"environment steps", "gradient steps"}
        assert max(map(len, lines)) <= width
        (heads,) = [line for line in lines if "process ┃" in line]
        assert ("median delay (us)" in heads) == (width == 200)
