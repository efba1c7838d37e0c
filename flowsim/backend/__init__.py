"""Where arrays live and how the stencils are swept over them."""

from __future__ import annotations

import importlib
from types import ModuleType

BACKENDS = ("cpu", "cuda")


def load_backend(name: str) -> ModuleType:
    """Return the module of sweeps called ``name``.

    Raises
    ------
    ValueError
        For an unknown name.
    RuntimeError
        Where there is no CUDA device, or no CuPy to use it.
    """
    if name not in BACKENDS:
        raise ValueError(f'backend = {name!r}: the backends are "cpu" and "cuda"')
    return importlib.import_module(f"flowsim.backend.{name}")


def cuda_is_there() -> bool:
    """Return whether the CUDA backend can be used here."""
    try:
        load_backend("cuda").Device()
    except RuntimeError:
        return False
    return True
