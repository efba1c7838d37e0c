"""`flowsim` run in a folder of its own, and what it says and leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from coupling.commands import cli

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ORACLE = "oracle:test/Oracle-v0"
RESULT = {
    "mean_return": 1.0,
    "ci95": [0.5, 1.5],
    "mean_length": 9.0,
    "survival": 0.5,
    "episodes": 4,
}
"""What an evaluation came to, as it is kept in a file."""
GUARD = 300.0  # seconds, against a hang only: no test may depend on how fast or busy the machine is


def interrupt_after(started: subprocess.Popen, beginning: str) -> None:
    """Interrupt a command once it has written a line with this beginning; it must end as on Ctrl-C."""
    said = []
    for line in started.stderr:
        said.append(line)
        if line.startswith(beginning):
            break
    else:
        pytest.fail("".join(said))
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=120)
    assert (started.returncode, err.splitlines()[-1]) == (130, "flowsim: interrupted")


class Shell:
    """Runs `flowsim` in a folder of its own, as a person would, and leaves no process behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen] = []
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
            "OMP_NUM_THREADS": "1",
        }

    def preset(self, *, env=ORACLE, agent=None, workers=None, run=None, env_options=None) -> str:
        content = {
            "env": env,
            "env_options": env_options or {},
            "agent": {"learning_starts": 200, "buffer_size": 4096, "batch_size": 16, "hidden": [8]}
            | (agent or {}),
            # a worker that pauses for a while does not count as dead, unless a test says so
            "workers": {"processes": 2, "agents": 4, "dead_after": 120.0} | (workers or {}),
            "run": {"steps": 1000, "name": "run"} | (run or {}),
        }
        (self.folder / "preset.yaml").write_text(yaml.safe_dump(content))
        return "preset.yaml"

    def meeting(self) -> dict:
        """Options of an environment with which two workers begin together."""
        folder = self.folder / "meeting"
        folder.mkdir()
        return {"meeting": str(folder)}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "coupling.commands.cli", *words]

    def run(self, *words: str, **kwargs) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=2 * GUARD, **kwargs,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen:
        process = subprocess.Popen(
            self.command(*words), cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    @property
    def run_folder(self) -> Path:
        return self.folder / "runs" / "run"

    def status(self) -> dict:
        file = self.run_folder / "status.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()


def command(words, monkeypatch, capsys):
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.setattr("sys.argv", ["flowsim", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    out = capsys.readouterr()
    return caught.value.code, out.out, out.err


def complaint(stderr: str) -> str:
    """Return the one-line error of a command that stops early, without the lines about loading and waiting."""
    begun, *said = stderr.strip().splitlines()
    assert begun.startswith("flowsim: loading "), stderr
    complaints = [
        line
        for line in said
        if not line.startswith(
            ("compiling the learner", "waiting for the first reset", "flowsim: compil")
        )
    ]
    assert len(complaints) == 1, stderr
    return complaints[0]


def wait_until(condition, seconds: float = GUARD):
    """Wait for a condition and return what it gave; fail loudly when it takes too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if answer := condition():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s in vain for {condition}")


def workers_of(run: Path) -> list[psutil.Process]:
    """All living worker processes of a run folder, whoever their parent is.

    Everything is asked through ``process_iter``, which answers None of a process that ends meanwhile:
    a zombie still has a number, but neither a command line nor a folder.
    """
    return [
        process
        for process in psutil.process_iter(["cmdline", "status", "cwd"])
        if any(
            "coupling.worker" in word or "stand_by" in word
            for word in process.info["cmdline"] or []
        )
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and process.info["cwd"] == str(run.parents[1])
    ]
