"""Every command prints what it does before it imports slow modules."""

import os
import re
import subprocess
import sys

import pytest
from shell import GUARD, ROOT

from coupling.commands.console import loading

HEAVY = ["torch", "numba", "scipy", "matplotlib", "h5py", "mujoco"]  # half a second and more

# an interpreter in which the first heavy import ends the process, and says so
CODE = f"""
import importlib.abc, os, sys

class Gate(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {HEAVY}:
            sys.stdout.flush()
            print("heavy import:", name, file=sys.stderr, flush=True)
            os._exit(9)

sys.meta_path.insert(0, Gate())
from coupling.commands.cli import main
main()
"""


def start(words, folder):
    return subprocess.run(
        [sys.executable, "-c", CODE, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["train", "d_cylinder_wake/quick"],
        ["train", "classic/cartpole"],
        ["resume", "runs/none"],
        ["serve", "d_cylinder_wake/quick"],
        ["worker", "--connect", "connection.json"],
        ["evaluate", "runs/none"],
        ["render", "runs/none"],
        ["simulate", "d_cylinder_wake/quick"],
        ["plot", "runs/none"],
        ["report", "runs/none"],
        ["watch", "runs/none"],
        ["validate", "--quick"],
        ["bench", "solver", "--json"],
    ],
    ids=" ".join,
)
def test_the_first_line_comes_before_heavy_imports(words, tmp_path):
    ended = start(words, tmp_path)
    assert ended.stdout == ""
    assert ended.stderr.startswith("flowsim: ")
    assert not ended.stderr.startswith("flowsim: heavy")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["train", "--help"],
        ["presets"],
        ["agents"],
        ["status", "runs/none"],
        ["init", "my_task"],
    ],
    ids=" ".join,
)
def test_quick_commands_import_nothing_heavy(words, tmp_path):
    ended = start(words, tmp_path)
    assert "heavy import" not in ended.stderr
    assert ended.stdout or ended.stderr


def test_terminal_shows_loading_seconds_and_clears_them(monkeypatch):
    ours, theirs = os.openpty()
    with open(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        with loading("something heavy", tick=0.001):
            seen = ""
            while not re.search(r"flowsim: loading, \d+ s\r", seen):  # or the test hangs
                seen += os.read(ours, 1000).decode()
        assert seen.startswith("flowsim: loading something heavy\r\n")
        after = os.read(ours, 100_000).decode()
    assert after.endswith("\x1b[2K\r")
    os.close(ours)


def test_loading_seconds_are_shown_only_on_a_terminal(capsys):
    with loading("something heavy", tick=0.0):
        pass
    assert capsys.readouterr().err == "flowsim: loading something heavy\n"


CLOSED = """
import os, socket, sys
from coupling.commands import start
start._open_closed_streams()
other = socket.socket()
assert other.fileno() > 2
print("out"), print("err", file=sys.stderr), sys.stdin.read()
sys.stdout.flush(), sys.stderr.flush()
done = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "echo out && echo err >&2 && cat")
open("done", "w").write(str(done))
"""


def test_streams_that_are_closed_become_the_null_device(tmp_path):
    (tmp_path / "closed.py").write_text(CLOSED)
    line = f"{sys.executable} closed.py <&- >&- 2>&-"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, timeout=GUARD)
    assert ended.returncode == 0
    assert (tmp_path / "done").read_text() == "0"
