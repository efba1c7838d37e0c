"""Provenance of a result: machine, versions, commit."""

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
"""Name of the distribution on PyPI, where ``flowsim`` is another project."""

_PACKAGES = ("numpy", "torch", "gymnasium", "pyzmq", "numba", "scipy", "mujoco")


def machine() -> dict[str, Any]:
    """Return a description of this machine: CPU, cores, system, Python, BLAS and GPU."""
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
    """Return the GPU and the CuPy version if this process has imported CuPy, else an empty dict."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not cupy.cuda.is_available():
        return {}
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return {"gpu": properties["name"].decode(), "cupy": cupy.__version__}


def _blas() -> list[dict[str, Any]]:
    """Return the kernels of NumPy's matrix products: the same CPU is half as fast with the wrong ones."""
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    return [of for of in threadpool_info() if of["user_api"] == "blas" and "architecture" in of]


def provenance() -> dict[str, Any]:
    """Return the provenance of a result: commit, Python, machine and versions."""
    return {
        "commit": _git_commit(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": {"flowsim": _version(DISTRIBUTION)}
        | {name: _version(name) for name in _PACKAGES},
    }


def flowsim_version() -> str:
    """Return the version of the installed package, or a note that it is not installed."""
    return _version(DISTRIBUTION) or "(not installed, so without a version)"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """Return the commit of the checkout that contains this package, marked ``-dirty`` if files differ from it.

    Changes in ``benchmarks/results`` are ignored, because a script that measures several things in turn writes there.
    The variable FLOWSIM_COMMIT gives the commit of a copy without a git history.
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
    """Return the output of a git command in the folder of this package."""
    answer = subprocess.run(
        ["git", *words],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return answer.stdout
