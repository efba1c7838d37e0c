"""How functions are marked that every backend compiles into its sweeps or kernels."""

from typing import Any

from numba.extending import register_jitable

device_function: Any = register_jitable(no_cfunc_wrapper=True)
"""Nobody calls them from C, and the wrappers for that took a tenth of the time to compile."""
