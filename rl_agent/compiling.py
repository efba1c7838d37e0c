"""How elementwise passes are compiled, and where they are kept."""

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

import numba
import platformdirs
from numba import njit

__all__ = ["FUSED", "cache_folder", "compiled"]

FUSED = {"contract"}
"""What a compiler may do to their arithmetic: fuse a product and a sum, nothing else.

A compiled loop runs in vectors, or number by number at its end and wherever its arrays lie close together in
memory. With leave to reorder, the two differ in the last bit, and a training takes one of two courses by chance.
"""


@functools.cache
def cache_folder() -> Path:
    """Return a folder that changes with the sources: numba looks for changes in the file of a function alone.

    Where none can be written to, it is one of this process and those that it starts, and goes with it.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    base = (
        os.environ.get("NUMBA_CACHE_DIR")
        or os.environ.get("FLOWSIM_CACHE")
        or platformdirs.user_cache_dir("flowsim")
    )
    place = Path("compiled") / f"rl_agent-{digest.hexdigest()[:16]}"
    try:
        (folder := Path(base) / place).mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    temporary = tempfile.mkdtemp(prefix="flowsim-")
    os.environ["NUMBA_CACHE_DIR"] = temporary
    atexit.register(_remove, temporary, os.getpid())
    return Path(temporary) / place


def _remove(folder: str, process: int) -> None:
    """Remove a folder, but not in a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a pass, with further options; nobody calls it from C, and a wrapper for that takes time."""
    options |= {"cache": True, "nogil": True, "no_cfunc_wrapper": True}

    def compile_(function: Callable[..., Any]) -> Any:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
        try:
            return njit(**options)(function)
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]

    return compile_
