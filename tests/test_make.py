"""`make test` fails if any part fails, and its last line names the part; the tools are stand-ins."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAND_IN = """#!/bin/sh
echo "$0 $*" >> {calls}
case "$0 $* ${{NUMBA_ENABLE_CUDASIM-}}" in {red}) echo "told to fail"; exit 1 ;; esac
case "$*" in -c*) ;; *) echo "3 passed in 0.01s" ;; esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


def make(folder, red, *words):
    """Run a target with tools that fail where their name, their arguments and the simulator's switch fit ``red``."""
    (folder / "bin").mkdir()
    for name in ("ruff", "mypy", "python"):
        (folder / "bin" / name).write_text(STAND_IN.format(calls=folder / "calls", red=red))
        (folder / "bin" / name).chmod(0o755)
    (folder / ".installed").touch()
    places = [
        f"VENV={folder}",
        f"BIN={folder / 'bin'}",
        f"CHECKS={folder / 'build' / 'checks.log'}",
    ]
    variables = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("MAKE", "NUMBA_ENABLE"))
    }
    done = subprocess.run(
        ["make", *words, *places],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done, [line for line in done.stdout.splitlines() if line]


def test_success_prints_test_counts_and_a_summary_line(tmp_path):
    done, lines = make(tmp_path, "nothing", "test")
    assert done.returncode == 0
    assert lines == [
        "3 passed in 0.01s",
        "lint, types and the kernels in the simulator of a GPU are fine: 3 passed in 0.01s",
    ]


@pytest.mark.parametrize(
    ("red", "says"),
    [
        ("*ruff\\ check*", "lint failed"),
        ("*ruff\\ format*", "lint failed"),
        ("*mypy*", "mypy failed"),
        ("*tests/cuda*\\ 1", "the tests in the simulator of a GPU failed"),
        ("*not\\ cluster*", "the tests ended with 1"),
    ],
)
def test_last_line_names_the_failure(tmp_path, red, says):
    done, lines = make(tmp_path, red, "test")
    assert done.returncode != 0
    assert "told to fail" in lines
    assert lines[-1].startswith("make test: RED, ")
    assert says in lines[-1]


def test_every_failure_is_named(tmp_path):
    done, lines = make(tmp_path, "*mypy*|*not\\ cluster*", "test")
    assert done.returncode != 0
    assert [line.partition(": see")[0] for line in lines[-2:]] == [
        "make test: RED, mypy failed",
        "make test: RED, the tests ended with 1",
    ]


def test_dry_run_runs_nothing(tmp_path):
    done, _ = make(tmp_path, "nothing", "-n", "test")
    assert done.returncode == 0
    assert not (tmp_path / "calls").exists()
