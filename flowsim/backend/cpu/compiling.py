"""Compilation and calls of the sweeps."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit
from numba.core import types
from numba.extending import register_jitable
from numpy.typing import NDArray

from flowsim.backend.cpu.arguments import packed, unpacking
from flowsim.backend.cpu.object_code import Need, address
from flowsim.backend.jit_cache import OPTIONS

ENCLOSED = OPTIONS | {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
"""Options of functions that only other compiled functions call."""
ENTRY = types.void(*[types.int64] * 4, types.voidptr)
"""Signature of every sweep: the numbers of a :class:`Task` and the address of its arguments."""


class Task(NamedTuple):
    """The work of one call of a sweep: simulation, block of its rows, number of blocks, and worker.

    Workers are numbered from zero; no two work at the same time with the same number, so that each has its own work
    arrays.
    """

    b: int
    block: int
    blocks: int
    worker: int


class Call(NamedTuple):
    """A sweep with its arguments, except for the task.

    Attributes
    ----------
    sweep : Sweep
    active : (B,) bool
        The simulations that take part.
    arguments : tuple
        Kept alive, because the words only hold their addresses.
    words : (n,) int64
        See :mod:`flowsim.backend.cpu.arguments`.
    """

    sweep: Sweep
    active: NDArray[np.bool_]
    arguments: tuple[Any, ...]
    words: NDArray[np.int64]

    @property
    def need(self) -> Need:
        """The function that has to be compiled for it."""
        return Need(
            self.sweep.__module__, self.sweep.name, tuple(map(numba.typeof, self.arguments))
        )

    def run(self, task: Task) -> None:
        """Run one task of the call."""
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4, ctypes.c_void_p)
        prototype(address(self.need))(*task, self.words.ctypes.data)


class Sweep:
    """A function of a :class:`Task` and arguments, compiled for the types that it is called with.

    Called from Python with the flags of the simulations that take part instead of the task, it sweeps over each of them
    in turn. In sweeps that are ``divided``, several threads can take blocks of the rows of one simulation.
    """

    def __init__(self, function: Callable[..., None], divided: bool) -> None:
        functools.update_wrapper(self, function)
        self.name, self.divided = function.__name__, divided
        self._function = register_jitable(**ENCLOSED)(function)

    def __call__(self, active: NDArray[np.bool_], *arguments: Any) -> None:
        """Run the sweep or, inside :func:`recording`, record the call."""
        call = Call(self, active, arguments, packed(arguments))
        if _recorded is not None:
            _recorded.append(call)
        else:
            for b in np.flatnonzero(active):
                call.run(Task(int(b), 0, 1, 0))

    def entry(self, kinds: tuple[types.Type, ...]) -> tuple[Callable[..., None], Any]:
        """Return the function to compile for arguments of these types, and its signature."""
        function, unpacked = self._function, unpacking(kinds)

        def enter(b: int, block: int, blocks: int, worker: int, words: Any) -> None:
            function(Task(b, block, blocks, worker), *unpacked(words))

        return enter, ENTRY


_recorded: list[Call] | None = None


@contextmanager
def recording() -> Iterator[list[Call]]:
    """Record the calls of sweeps instead of running them."""
    global _recorded
    _recorded = []
    try:
        yield _recorded
    finally:
        _recorded = None


def sweep(function: Callable[..., None]) -> Sweep:
    """Compile a sweep over one simulation that is run by a single thread."""
    return Sweep(function, divided=False)


def divided(function: Callable[..., None]) -> Sweep:
    """Compile a sweep over a block of the rows of one simulation."""
    return Sweep(function, divided=True)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a part of a sweep into each sweep that calls it; called from Python, it is not compiled."""
    return register_jitable(**OPTIONS, no_cfunc_wrapper=True)(function)


def row_loop(function: Callable[..., Any]) -> Any:
    """Compile a loop over a row by itself: as part of a sweep LLVM may not see that it can be vectorized."""
    return njit(**ENCLOSED)(function)


@inner
def rows_of(task: Task, first: int, last: int) -> tuple[int, int]:
    """Return the block of rows [start, stop) of [first, last) that belongs to a task."""
    rows = last - first
    return (
        first + rows * task.block // task.blocks,
        first + rows * (task.block + 1) // task.blocks,
    )
