"""Cached compiled passes notice changed callees, and need no writable folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rl_agent

COMPARED = """
import numpy as np
from rl_agent.networks.distributions import comparison
one = np.ones((1, 1), np.float32)
print(comparison.compare(one, one, 0.25 * one, 0 * one, one, True)[0][0])
"""


def run(code, folder, **environment):
    """Return the output of a fresh interpreter started in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_changing_a_callee_recompiles_a_cached_pass(tmp_path):
    package = tmp_path / "rl_agent"
    shutil.copytree(
        Path(rl_agent.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    cache = str(tmp_path / "cache")
    before = float(run(COMPARED, tmp_path, NUMBA_CACHE_DIR=cache))
    assert float(run(COMPARED, tmp_path, NUMBA_CACHE_DIR=cache)) == before
    called = package / "networks" / "distributions" / "clipped_normal.py"
    text = called.read_text()
    assert text.count("return log_ratio, ") == 1
    called.write_text(text.replace("return log_ratio, ", "return log_ratio + 1.0, "))
    assert abs(float(run(COMPARED, tmp_path, NUMBA_CACHE_DIR=cache)) - before - 1.0) < 1e-6


def test_passes_run_without_a_writable_cache(tmp_path):
    variables = {
        "NUMBA_CACHE_DIR": "/proc/nowhere",
        "FLOWSIM_CACHE": "/proc/nowhere",
        "HOME": "/proc/nowhere",
    }
    kept = f"{COMPARED}import os\nprint(os.environ['NUMBA_CACHE_DIR'])"
    _, folder = run(kept, tmp_path, **variables).splitlines()
    assert folder != "/proc/nowhere"
    assert not Path(folder).exists()
