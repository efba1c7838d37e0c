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

from flowsim.backend import user_cache
from flowsim.backend.sources import digest_of, sources_of

# NaN must stay visible, so the two flags that assume it away are left out
FAST = {"contract", "reassoc", "nsz", "arcp"}
OPTIONS: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}
"""How every sweep is compiled."""

CALLED = OPTIONS | {"no_cfunc_wrapper": True}
"""Options of what Python calls."""


@functools.cache
def cache_folder() -> Path:
    """Return a folder that changes with the sources and the processor.

    numba looks for changes in the file of the compiled function alone, not in those of the functions that it calls.
    """
    digest = hashlib.sha256(digest_of(sources_of("flowsim.backend.cpu")))
    digest.update(f"{numba.__version__} {llvmlite.binding.get_host_cpu_name()} ".encode())
    digest.update(str(os.environ.get("NUMBA_CPU_FEATURES")).encode())
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
