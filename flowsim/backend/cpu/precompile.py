"""Compilation ahead of the first call: what a simulation needs, once, in processes on all cores.

numba compiles a function when it is first called, one after the other and in every process that calls it. Here the
missing functions are compiled beforehand and in parallel, by processes that store their object code in a folder
(:mod:`flowsim.backend.cpu.object_code`), from which this process and all later ones load them.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import filelock

from flowsim.backend.cpu.object_code import CACHE_FOLDER, Need, keep

LONGEST_FIRST = (
    "claim",
    "transform",
    "fill_ghosts",
    "far_field",
    "predict",
    "update_sides",
    "solve_systems",
    "correct",
    "sense",
)
TELL_EVERY = 5.0
LOCK_TIMEOUT = 1800.0
FUNCTION_TIMEOUT = 600.0  # a function takes seconds, or a minute on a very busy machine
_CHILD = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from flowsim.backend.cpu.precompile import compile_from_stdin; compile_from_stdin()"
)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tell(text: str) -> None:
    """Print a progress message to stderr."""
    print(f"flowsim: {text}", file=sys.stderr, flush=True)


def compile_ahead(
    needs: Sequence[Need],
    say: Callable[[str], None] = tell,
    *,
    limit: float = FUNCTION_TIMEOUT,
    command: Sequence[str] | None = None,
) -> None:
    """Compile what is not in the cache yet, with progress messages; several processes may call this at once.

    If the cache cannot be written, or the compiling processes cannot be started or do not answer, functions are
    compiled when they are first called.

    Parameters
    ----------
    needs
        Functions that will be called.
    say
        Called with each progress message.
    limit
        Seconds that a process may take for one function before it is killed.
    command
        Command of the compiling processes, which read needs from stdin and answer each with a line; by default
        :func:`compile_from_stdin`.
    """
    if not _missing(needs):
        return
    lock = filelock.FileLock(CACHE_FOLDER / "compiling.lock", timeout=LOCK_TIMEOUT)
    with suppress(OSError, filelock.Timeout):
        CACHE_FOLDER.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            say("another process compiles the solver: waiting for it")
            lock.acquire()
        try:
            if missing := _missing(needs):
                _compile_in_processes(missing, say, limit, command or _compiler())
        finally:
            lock.release()


def _missing(needs: Sequence[Need]) -> list[Need]:
    missing = [need for need in dict.fromkeys(needs) if not need.is_kept()]
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    return sorted(missing, key=lambda need: rank.get(need.name, len(rank)))


def _compiler() -> list[str]:
    return [sys.executable, "-P", "-c", _CHILD, str(Path(__file__).parents[3]), *sys.path]


def _compile_in_processes(
    needs: list[Need], say: Callable[[str], None], limit: float, command: Sequence[str]
) -> None:
    """Compile in as many processes as there are cores."""
    processes = min(len(needs), cores())
    say(
        f"compiling the solver, once on this machine: {len(needs)} functions in {processes} processes"
    )
    began = time.monotonic()
    todo: SimpleQueue[Need] = SimpleQueue()
    done: SimpleQueue[Need] = SimpleQueue()
    for need in needs:
        todo.put(need)
    finished = threading.Event()

    def report_periodically() -> None:
        while not finished.wait(TELL_EVERY):
            so_far = (
                f"{done.qsize()} of {len(needs)} functions after {time.monotonic() - began:.0f} s"
            )
            say(f"compiling the solver: {so_far}")

    tenders = [
        threading.Thread(target=_tend, args=(todo, done, say, limit, command), daemon=True)
        for _ in range(processes)
    ]
    for thread in (*tenders, threading.Thread(target=report_periodically, daemon=True)):
        thread.start()
    try:
        for tender in tenders:
            tender.join()  # each of its waits has a limit
    finally:
        finished.set()
    all_done = done.qsize() == len(needs)
    what = "the solver" if all_done else f"{done.qsize()} of {len(needs)} functions of the solver"
    say(f"compiled {what} in {time.monotonic() - began:.0f} s")


def _tend(
    todo: SimpleQueue[Need],
    done: SimpleQueue[Need],
    say: Callable[[str], None],
    limit: float,
    command: Sequence[str],
) -> None:
    """Send one process its functions, one at a time; what cannot be compiled raises its error when it is called."""
    with (
        suppress(OSError),
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"NUMBA_CACHE_DIR": str(CACHE_FOLDER.parents[1])},
            stderr=subprocess.DEVNULL,
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(Empty, BrokenPipeError):
            while True:
                need = todo.get_nowait()
                late = f"{need.name} is not compiled after {limit:g} s: its first call will do it"
                with _killed_after(limit, child, partial(say, late)):
                    pickle.dump(need, child.stdin)
                    child.stdin.flush()
                    if not child.stdout.readline():
                        break
                done.put(need)
        with _killed_after(limit, child, lambda: None), suppress(BrokenPipeError):
            child.stdin.close()
            child.wait()


@contextmanager
def _killed_after(
    limit: float, child: subprocess.Popen[bytes], why: Callable[[], None]
) -> Iterator[None]:
    """Kill a process if the context takes longer than ``limit`` seconds; the context then finds its pipes closed."""

    def kill() -> None:
        try:
            why()
        finally:
            child.kill()

    timer = threading.Timer(limit, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def compile_from_stdin() -> None:
    """Compile the functions named on stdin, one after the other, and print a line to stdout for each."""
    with suppress(EOFError), _little_garbage():
        while True:
            need: Need = pickle.load(sys.stdin.buffer)
            keep(need)
            print(need.name, flush=True)


@contextmanager
def _little_garbage() -> Iterator[None]:
    """Disable garbage collection: it takes a twentieth of the time, and the compiler leaves little garbage."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()
