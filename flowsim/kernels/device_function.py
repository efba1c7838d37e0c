"""Decorator of functions that every backend compiles into its sweeps or kernels."""

from typing import Any

from numba.extending import register_jitable

device_function: Any = register_jitable(no_cfunc_wrapper=True)
"""No C wrappers: nothing calls these functions from C, and the wrappers took a tenth of the time to compile."""
