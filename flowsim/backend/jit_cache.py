"""Cache folder of compiled functions, which processes share."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba

from flowsim.backend import user_cache
from flowsim.backend.sources import digest_of, sources_of

# NaN must stay detectable, so the two flags that assume it does not occur are left out
FAST = {"contract", "reassoc", "nsz", "arcp"}
OPTIONS: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}
"""numba options of all sweeps."""

CALLED = OPTIONS | {"no_cfunc_wrapper": True}
"""Options of functions that are called from Python."""


@functools.cache
def cache_folder() -> Path:
    """Return the cache folder for the current sources and processor.

    numba only checks the file of the compiled function for changes, not those of the functions that it calls.
    """
    digest = hashlib.sha256(digest_of(sources_of("flowsim.backend.cpu")))
    digest.update(f"{numba.__version__} {llvmlite.binding.get_host_cpu_name()} ".encode())
    digest.update(str(os.environ.get("NUMBA_CPU_FEATURES")).encode())
    return user_cache.cache_folder(f"compiled/{digest.hexdigest()[:16]}", user_cache.COMPILED)


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls directly for its result, even while sweeps are being recorded.

    The cache folder is looked up on the first call, so that importing a module has no side effects.
    """
    compiled = functools.cache(lambda: user_cache.cached(function, cache_folder(), **CALLED))

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return compiled()(*arguments)

    return call
