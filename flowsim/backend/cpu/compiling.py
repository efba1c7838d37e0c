"""How the sweeps are compiled and spread over threads."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numba
from numba import njit
from numba.extending import register_jitable

from flowsim.backend.jit_cache import CALLED, OPTIONS, cache_folder
from flowsim.backend.user_cache import cached

CACHE_FOLDER = cache_folder()
ENCLOSED = OPTIONS | {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
"""Options of what only other compiled functions call."""


class Need(NamedTuple):
    """A function that Python calls, and the types that it is called with."""

    module: str
    name: str
    parallel: bool
    types: tuple[Any, ...]

    @property
    def marker(self) -> Path:
        """File that is there once the compiled function is in the cache."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return CACHE_FOLDER / f"{self.name}-{digest}.compiled"


class Sweep:
    """A compiled function that Python calls.

    Those that can be ``parallel``, over simulations or blocks of rows, have two forms. One thread takes the serial
    one, which compiles faster and starts no pool of threads, so that a forked process can use it. Only forms that are
    called are compiled.
    """

    def __init__(self, function: Callable[..., Any], parallel: bool) -> None:
        functools.update_wrapper(self, function)
        self.serial = self.parallel = cached(function, CACHE_FOLDER, **CALLED)
        # in another folder: numba's name of a cached function does not tell the two forms apart
        if parallel:
            self.parallel = cached(function, CACHE_FOLDER / "parallel", parallel=True, **CALLED)
        self.name = function.__name__

    def __call__(self, *arguments: Any) -> None:
        """Sweep, with the threads of :func:`use_threads`."""
        form = self.serial if _team.threads == 1 else self.parallel
        if _needs is None:
            form(*arguments)
        else:
            types = tuple(form.typeof_pyval(argument) for argument in arguments)
            _needs.append(Need(self.__module__, self.name, form is not self.serial, types))


_needs: list[Need] | None = None


@contextmanager
def noting_needs() -> Iterator[list[Need]]:
    """Let sweeps do nothing but note what has to be compiled for them."""
    global _needs
    _needs = []
    try:
        yield _needs
    finally:
        _needs = None


def sweep(function: Callable[..., Any]) -> Sweep:
    """Compile a sweep over the whole batch, serial or parallel over simulations or blocks of rows."""
    return Sweep(function, parallel=True)


def small(function: Callable[..., Any]) -> Sweep:
    """Compile what Python calls and is too small for threads."""
    return Sweep(function, parallel=False)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a part of a sweep, into each sweep that calls it; what Python needs of it, it does itself."""
    return register_jitable(**OPTIONS, no_cfunc_wrapper=True)(function)


def row_loop(function: Callable[..., Any]) -> Any:
    """Compile a loop over a row by itself: as part of a sweep LLVM may not see that it can be one of vectors."""
    return njit(**ENCLOSED)(function)


@inner
def rows_of(task: int, blocks: int, first: int, last: int) -> tuple[int, int]:
    """Return the block of rows [start, stop) of [first, last) that belongs to a task."""
    block = task % blocks
    rows = last - first
    return first + rows * block // blocks, first + rows * (block + 1) // blocks


class _Team:
    """The threads of this process."""

    threads = 1
    started_in: int | None = None
    """Process in which numba's pool of threads was started: a fork of it must not use the pool."""


_team = _Team()


def most_threads() -> int:
    """Return the number of threads that numba was started with."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def use_threads(threads: int) -> None:
    """Set the number of threads of the sweeps of this process.

    Raises
    ------
    ValueError
        When numba was started with fewer.
    RuntimeError
        For several threads in a process that was forked from one that had them.
    """
    if threads == _team.threads and (threads == 1 or _team.started_in == os.getpid()):
        return
    if not 1 <= threads <= most_threads():
        raise ValueError(
            f"threads = {threads!r}: this process can use 1 to {most_threads()} threads (NUMBA_NUM_THREADS)"
        )
    if threads > 1:
        if _team.started_in not in (None, os.getpid()):
            raise RuntimeError(
                f"threads = {threads!r}: this process was forked from one whose solver used threads, which do not "
                "survive that; take threads = 1, or start processes with spawn or forkserver"
            )
        numba.set_num_threads(threads)
        _team.started_in = os.getpid()
    _team.threads = threads
