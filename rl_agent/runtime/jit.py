"""How elementwise passes are compiled, and where they are kept."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl_agent.runtime import user_cache

__all__ = ["FUSED", "cache_folder", "compiled"]

FUSED = {"contract"}
"""What a compiler may do to their arithmetic: fuse a product and a sum, nothing else.

A compiled loop runs in vectors, or number by number at its end and wherever its arrays lie close together in
memory. With leave to reorder, the two differ in the last bit, and a training takes one of two courses by chance.
"""


@functools.cache
def cache_folder() -> Path:
    """Return a folder that changes with the sources: numba looks for changes in the file of a function alone."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    part = f"compiled/rl_agent-{digest.hexdigest()[:16]}"
    return user_cache.cache_folder(part, user_cache.COMPILED)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a pass, with further options; nobody calls it from C, and a wrapper for that takes time."""
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    return lambda function: user_cache.cached(function, cache_folder(), **options)
