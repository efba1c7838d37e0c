"""How the sweeps are compiled, cached and spread over threads."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import numba
import platformdirs
from numba import njit
from numba.extending import register_jitable

import flowsim

# NaN must stay visible, so the two flags that assume it away are left out
FAST = {"contract", "reassoc", "nsz", "arcp"}
SHARED = (
    "grid",
    "boundary",
    "columns",
    "ghosts",
    "distances",
    "midlines",
    "body_arrays",
    "shared",
    "stencils",
    "rigid",
    "stepping",
    "vortices",
    "mass_balance",
    "whereabouts",
)
"""Modules of flowsim whose functions are compiled into the sweeps."""
OPTIONS: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}
"""How every sweep is compiled."""

ENCLOSED = OPTIONS | {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
"""Options of what only other compiled functions call."""
CALLED = OPTIONS | {"cache": True, "no_cfunc_wrapper": True}
"""Options of what Python calls."""


def _cache_folder() -> Path:
    """Return a folder that changes with the sources and the processor.

    numba looks for changes in the file of the compiled function alone, not in those of the functions that it calls.
    """
    root = Path(flowsim.__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    digest.update(
        f"{llvmlite.binding.get_host_cpu_name()} {os.environ.get('NUMBA_CPU_FEATURES')}".encode()
    )
    for source in sorted(
        [*(root / f"{name}.py" for name in SHARED), *Path(__file__).parent.glob("*.py")]
    ):
        digest.update(source.read_bytes())
    base = (
        os.environ.get("NUMBA_CACHE_DIR")
        or os.environ.get("FLOWSIM_CACHE")
        or platformdirs.user_cache_dir("flowsim")
    )
    place = Path("compiled") / digest.hexdigest()[:16]
    folder = Path(base) / place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return folder if writable else _folder_of_this_process() / place


def _folder_of_this_process() -> Path:
    """Return a folder that processes started by this one share, and that goes with it."""
    folder, process = tempfile.mkdtemp(prefix="flowsim-"), os.getpid()
    os.environ["NUMBA_CACHE_DIR"] = folder

    def remove() -> None:
        if os.getpid() == process:  # not in a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


CACHE_FOLDER = _cache_folder()


def _cached(function: Callable[..., Any], folder: Path, **options: Any) -> Any:
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        return njit(**CALLED | options)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


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
        self.serial = self.parallel = _cached(function, CACHE_FOLDER)
        # in another folder: numba's name of a cached function does not tell the two forms apart
        if parallel:
            self.parallel = _cached(function, CACHE_FOLDER / "parallel", parallel=True)
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


def at_once(function: Callable[..., Any]) -> Any:
    """Compile what Python calls and needs the result of, also while needs are noted."""
    return _cached(function, CACHE_FOLDER)


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
