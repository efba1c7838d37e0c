"""Faster matrix products on CPUs that OpenBLAS does not know."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

__all__ = ["choose_kernels"]

NEEDED = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
"""What OpenBLAS's kernels for SkylakeX are made of."""


def choose_kernels(environment: MutableMapping[str, str] = os.environ, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Let OpenBLAS take its AVX-512 kernels on AMD's CPUs that have it; must come before NumPy is imported.

    OpenBLAS 0.3.31, which NumPy and SciPy bring along, takes Zen 5 for a Haswell: its products of small matrices in
    single precision are then half as fast as they could be (``docs/decisions.md``). A choice that was made already, in
    ``OPENBLAS_CORETYPE``, stays.
    """
    try:
        words = set(cpuinfo.read_text(errors="replace").split())
    except OSError:  # not Linux
        return
    if "AuthenticAMD" in words and words >= NEEDED:
        environment.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
