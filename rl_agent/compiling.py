"""How elementwise passes are compiled."""

from __future__ import annotations

import functools
from typing import Any

from numba import njit

__all__ = ["FUSED", "compiled"]

FUSED = {"contract"}
"""What a compiler may do to their arithmetic: fuse a product and a sum, nothing else.

A compiled loop runs in vectors, or number by number at its end and wherever its arrays lie close together in
memory. With leave to reorder, the two differ in the last bit, and a training takes one of two courses by chance.
"""

compiled: Any = functools.partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
"""Compile a pass, with further options; nobody calls it from C, and a wrapper for that takes time."""
