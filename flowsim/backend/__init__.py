"""Backends: where the arrays of a flow are stored and how sweeps run over them."""

from __future__ import annotations

import importlib
from types import ModuleType

BACKENDS = ("cpu", "cuda")


def load_backend(name: str) -> ModuleType:
    """Return the backend module called ``name``.

    Raises
    ------
    ValueError
        For an unknown name.
    RuntimeError
        If there is no CUDA device, or CuPy is missing.
    """
    if name not in BACKENDS:
        raise ValueError(f'backend = {name!r}: the backends are "cpu" and "cuda"')
    return importlib.import_module(f"flowsim.backend.{name}")


def cuda_is_available() -> bool:
    """Return whether the CUDA backend can be used here."""
    try:
        load_backend("cuda").Device()
    except RuntimeError:
        return False
    return True
