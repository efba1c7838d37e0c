"""Compilation of numerical functions with numba, and their cache."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl_agent.runtime import user_cache

__all__ = ["FUSED", "cache_folder", "compiled"]

FUSED = {"contract"}
"""Allowed fast-math transformations: only fusing a product and a sum.

A compiled loop runs in vectors, or number by number at its end and wherever its arrays lie close together in
memory. If reordering were allowed, the two would differ in the last bit, and trainings would not be reproducible.
"""


@functools.cache
def cache_folder() -> Path:
    """Return a cache folder that depends on all sources, because numba checks only the file of a function itself."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    part = f"compiled/rl_agent-{digest.hexdigest()[:16]}"
    return user_cache.cache_folder(part, user_cache.COMPILED)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function with numba options, without the C wrapper, which takes time."""
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    return lambda function: user_cache.cached(function, cache_folder(), **options)
