"""How the sweeps are compiled, cached and spread over threads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba import njit

import flowsim

# NaN must stay visible, so the two flags that assume it away are left out
FAST = {"contract", "reassoc", "nsz", "arcp"}
SHARED = ("grid", "boundary", "bodies", "stencils", "rigid", "stepping", "vortices")
"""Modules of flowsim whose functions are compiled into the sweeps."""
OPTIONS: dict[str, Any] = {"cache": True, "fastmath": FAST, "nogil": True, "error_model": "numpy"}


def _cache_folder() -> str:
    """Return a folder that changes with the sources.

    numba looks for changes in the file of the compiled function alone, not in those of the functions that it calls.
    """
    root = Path(flowsim.__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted([*(root / f"{name}.py" for name in SHARED), *Path(__file__).parent.glob("*.py")]):
        digest.update(source.read_bytes())
    base = (
        os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("FLOWSIM_CACHE") or platformdirs.user_cache_dir("flowsim")
    )
    return str(Path(base) / "compiled" / digest.hexdigest()[:16])


_CACHE_FOLDER = _cache_folder()


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = _CACHE_FOLDER  # type: ignore[attr-defined]
    try:
        return njit(**OPTIONS, **options)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def sweep(function: Callable[..., Any]) -> Any:
    """Compile a sweep over the whole batch, parallel over simulations or blocks of rows."""
    return _compiled(function, parallel=True)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a part of a sweep."""
    return _compiled(function)


@inner
def rows_of(task: int, blocks: int, first: int, last: int) -> tuple[int, int]:
    """Return the block of rows [start, stop) of [first, last) that belongs to a task."""
    block = task % blocks
    rows = last - first
    return first + rows * block // blocks, first + rows * (block + 1) // blocks


def most_threads() -> int:
    """Return the number of threads that numba was started with."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def use_threads(threads: int) -> None:
    """Set the number of threads of the sweeps of this process.

    Raises
    ------
    ValueError
        When numba was started with fewer.
    """
    if not 1 <= threads <= most_threads():
        raise ValueError(
            f"threads = {threads!r}: this process can use 1 to {most_threads()} threads (NUMBA_NUM_THREADS)"
        )
    numba.set_num_threads(threads)
