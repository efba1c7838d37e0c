"""Compiled functions are kept in a folder, from which other processes take them."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba

from flowsim import user_cache

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
    "user_cache",
    "vortices",
    "mass_balance",
    "whereabouts",
)
"""Modules of flowsim whose functions are compiled, into the sweeps or by themselves, or that say how."""
OPTIONS: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}
"""How every sweep is compiled."""

CALLED = OPTIONS | {"no_cfunc_wrapper": True}
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
    return user_cache.cache_folder(f"compiled/{digest.hexdigest()[:16]}", user_cache.COMPILED)


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what Python calls and needs the result of, also while needs are noted.

    The folder is looked for at the first call, so that an import leaves nothing behind.
    """
    compiled = functools.cache(lambda: user_cache.cached(function, cache_folder(), **CALLED))

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return compiled()(*arguments)

    return call
