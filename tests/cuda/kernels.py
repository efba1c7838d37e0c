"""The kernels of the CUDA backend."""

import importlib
import pkgutil
from typing import Any


def all_kernels() -> dict[Any, str]:
    """Return every kernel that is a variable of a module, and the name of that; systems_kernel makes more."""
    from flowsim.backend import cuda
    from flowsim.backend.cuda.launching import Kernel

    names = [module.name for module in pkgutil.iter_modules(cuda.__path__, f"{cuda.__name__}.")]
    parts = [part for name in names for part in vars(importlib.import_module(name)).items()]
    return {part: name for name, part in parts if isinstance(part, Kernel)}
