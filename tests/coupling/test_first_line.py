"""Every command says what it does before it imports what takes seconds."""

import subprocess
import sys

import pytest

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
from coupling.cli import main
main()
"""


def start(words, folder):
    return subprocess.run(
        [sys.executable, "-c", CODE, *words], cwd=folder, capture_output=True, text=True, timeout=240, check=False
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
    "words", [["--help"], ["--version"], ["train", "--help"], ["presets"], ["status", "runs/none"]]
)
def test_what_is_quick_imports_nothing_heavy(words, tmp_path):
    ended = start(words, tmp_path)
    assert "heavy import" not in ended.stderr
    assert ended.stdout or ended.stderr
