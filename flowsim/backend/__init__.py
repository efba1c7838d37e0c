"""Where arrays live and how the stencils are swept over them."""

from __future__ import annotations

from types import ModuleType


def load_backend(name: str, threads: int) -> ModuleType:
    """Return the module of sweeps called ``name``, set to use ``threads`` threads.

    Raises
    ------
    ValueError
        For an unknown name or a number of threads that cannot be had.
    """
    if name != "cpu":
        raise ValueError(f'backend = {name!r}: the only backend so far is "cpu"')
    from flowsim.backend import cpu

    cpu.use_threads(threads)
    return cpu
