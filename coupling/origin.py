"""What a result comes from: machine, versions, commit."""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

__all__ = ["DISTRIBUTION", "flowsim_version", "machine", "provenance"]

DISTRIBUTION = "flowsim-rl"
"""What pip calls us: the name flowsim belongs to another project there."""

_PACKAGES = ("numpy", "torch", "gymnasium", "pyzmq", "numba", "scipy", "mujoco")


def machine() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "blas": sorted(
            {f"{of['internal_api']} {of['version']} {of['architecture']}" for of in _blas()}
        ),
        **_gpu(),
    }


def _gpu() -> dict[str, Any]:
    """Name the device that this process has used, if it has used one."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not cupy.cuda.is_available():
        return {}
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return {"gpu": properties["name"].decode(), "cupy": cupy.__version__}


def _blas() -> list[dict[str, Any]]:
    """Tell which kernels NumPy's matrix products run on: the same CPU is half as fast with the wrong ones."""
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    return [of for of in threadpool_info() if of["user_api"] == "blas" and "architecture" in of]


def provenance() -> dict[str, Any]:
    """Return what produces a result: commit, Python, machine and versions."""
    return {
        "commit": _git_commit(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": {"flowsim": _version(DISTRIBUTION)}
        | {name: _version(name) for name in _PACKAGES},
    }


def flowsim_version() -> str:
    """Return the version of the installed package; a copy that was never installed has none."""
    return _version(DISTRIBUTION) or "(not installed, so without a version)"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """Return the commit of the checkout that this package lies in, marked when it was changed.

    Kept results may change: a script that measures several things in turn writes them.
    The variable FLOWSIM_COMMIT names the commit of a copy without a history of its own.
    """
    if named := os.environ.get("FLOWSIM_COMMIT"):
        return named
    try:
        commit = _git("rev-parse", "HEAD").strip()
        changed = _git(
            "diff", "--name-only", "HEAD", "--", ":/", ":(top,exclude)benchmarks/results"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}-dirty" if changed else commit


def _git(*words: str) -> str:
    """Return what git says in the folder of this package."""
    answer = subprocess.run(
        ["git", *words],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return answer.stdout
