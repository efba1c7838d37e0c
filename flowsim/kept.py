"""Compiled functions are kept in a folder, from which other processes take them."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import platformdirs
from numba import njit

# NaN must stay visible, so the two flags that assume it away are left out
FAST = {"contract", "reassoc", "nsz", "arcp"}
SHARED = (
    "grid",
    "boundary",
    "columns",
    "ghosts",
    "distances",
    "elementwise",
    "midlines",
    "body_arrays",
    "kept",
    "shared",
    "stencils",
    "rigid",
    "stepping",
    "vortices",
    "mass_balance",
    "whereabouts",
)
"""Modules of flowsim whose functions are compiled, into the sweeps or by themselves, or that say how."""
OPTIONS: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}
"""How every sweep is compiled."""

CALLED = OPTIONS | {"cache": True, "no_cfunc_wrapper": True}
"""Options of what Python calls."""


@functools.cache
def cache_folder() -> Path:
    """Return a folder that changes with the sources and the processor.

    numba looks for changes in the file of the compiled function alone, not in those of the functions that it calls.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    digest.update(
        f"{llvmlite.binding.get_host_cpu_name()} {os.environ.get('NUMBA_CPU_FEATURES')}".encode()
    )
    for source in sorted(
        [*(root / f"{name}.py" for name in SHARED), *(root / "backend" / "cpu").glob("*.py")]
    ):
        digest.update(source.read_bytes())
    base = (
        os.environ.get("NUMBA_CACHE_DIR")
        or os.environ.get("FLOWSIM_CACHE")
        or platformdirs.user_cache_dir("flowsim")
    )
    place = Path("compiled") / digest.hexdigest()[:16]
    folder = Path(base) / place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return folder if writable else _folder_of_this_process() / place


def _folder_of_this_process() -> Path:
    """Return a folder that processes started by this one share, and that goes with it."""
    folder, process = tempfile.mkdtemp(prefix="flowsim-"), os.getpid()
    os.environ["NUMBA_CACHE_DIR"] = folder

    def remove() -> None:
        if os.getpid() == process:  # not in a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


def cached(function: Callable[..., Any], folder: Path, **options: Any) -> Any:
    """Compile a function that Python calls, and keep it in a folder."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        return njit(**CALLED | options)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what Python calls and needs the result of, also while needs are noted.

    The folder is looked for at the first call, so that an import leaves nothing behind.
    """
    compiled = functools.cache(lambda: cached(function, cache_folder()))

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return compiled()(*arguments)

    return call
