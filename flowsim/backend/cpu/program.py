"""Recorded sequences of sweeps, and the threads that take simulations through them."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.cpu import loops
from flowsim.backend.cpu.compiling import Call, recording
from flowsim.backend.cpu.object_code import address

CELLS_AT_ONCE = 2**19
"""Cell updates, which take a few milliseconds, after which a thread with its own simulation returns to Python."""
TURN = 0.05
"""Approximate seconds after which threads that share a simulation return to Python, where they can be interrupted."""
MOST_THREADS = 256
"""Most threads of a simulation, and of the pool of a process."""
TRIAL = 0.2
"""Fraction of a turn for which the alternative, one thread or several, is tried."""
TRY_AGAIN = 50
"""Time until the next trial, in units of a trial."""
WINS = 2
"""Consecutive successful trials after which the number of threads changes; a single one may be chance."""


class Program:
    """A sequence of sweeps, recorded when it first runs, and again when a setting has changed.

    Parameters
    ----------
    sweeps : callable
        The sequence.
    settings : callable
        Returns the numbers that it is recorded with and that may change.
    cells : int
        Number of cells of a simulation.
    threads : int
    """

    def __init__(
        self, sweeps: Callable[[], None], settings: Callable[[], Any], cells: int, threads: int
    ) -> None:
        self._sweeps, self._settings, self._threads = sweeps, settings, threads
        self.name = sweeps.__name__
        self._at_once = max(1, CELLS_AT_ONCE // cells)
        self._pace = Pace(threads)
        self._recorded_with: Any = None
        self._recorded: list[Call] = []
        self._table = np.zeros((0, 3), np.int64)

    def __call__(self) -> None:
        """Run the sequence once."""
        self.repeat(1)

    def calls(self) -> list[Call]:
        """Return the calls of the sequence."""
        settings = self._settings()
        if not self._recorded or settings != self._recorded_with:
            with recording() as calls:
                self._sweeps()
            table = [(address(c.need), c.words.ctypes.data, c.sweep.divided) for c in calls]
            self._recorded, self._table = calls, np.array(table, np.int64)
            self._recorded_with = settings
        return self._recorded

    def repeat(self, steps: int | None) -> None:
        """Run it a number of times, or until no simulation is active; inactive simulations do not advance."""
        active = self.calls()[0].active
        flows = np.flatnonzero(active).tolist()
        if self._threads > 1 and len(flows) == 1:
            self._together(flows[0], active, steps)
        else:
            self._apart(flows, active, steps)

    def _apart(self, flows: list[int], active: NDArray[np.bool_], steps: int | None) -> None:
        """Let each thread take whole simulations, one after the other."""
        endless = 2**62
        waiting = deque((b, endless if steps is None else steps) for b in flows)
        program = self._table.ctypes.data, len(self._table)
        flags, threads = active.ctypes.data, min(self._threads, len(flows))
        interrupted = threading.Event()

        def work(worker: int) -> None:
            while True:
                try:
                    b, left = waiting.popleft()
                except IndexError:
                    return
                while left > 0 and active[b] and not interrupted.is_set():
                    left -= loops.run(*program, b, worker, min(left, self._at_once), flags + b)
                    if 0 < len(waiting) < threads:  # take turns, so that all end at the same time
                        waiting.append((b, left))
                        break

        def stop() -> None:
            interrupted.set()
            waiting.clear()

        with _others(work, range(1, threads), stop):
            work(0)

    def _together(self, b: int, active: NDArray[np.bool_], steps: int | None) -> None:
        """Let threads share the rows of one simulation, as long as that is faster than one thread alone."""
        left, flag = 2**62 if steps is None else steps, active.ctypes.data + b
        program = self._table.ctypes.data, len(self._table), b
        blocks = loops.BLOCKS_A_THREAD * self._threads
        board = loops.empty_board(blocks)
        while left > 0 and active[b]:
            threads, most = self._pace.next_turn()
            most, began = min(left, most), time.perf_counter()
            if threads == 1:
                done = loops.run(*program, 0, most, flag)
            else:
                board[:] = 0
                assist = functools.partial(self._assist, (*program, blocks), board)
                close = functools.partial(board.__setitem__, loops.TICKET, loops.CLOSED)
                with _others(assist, range(1, threads), close):
                    done = loops.lead(*program, blocks, most, flag, board.ctypes.data)
            self._pace.note(threads, time.perf_counter() - began, done)
            left -= done

    def _assist(self, program: tuple[int, ...], board: NDArray[np.int64], worker: int) -> None:
        loops.assist(*program, worker, board.ctypes.data)


class Pace:
    """Choice between one thread and several for a simulation, by which was faster when both were tried.

    On a busy machine several may be slower, because the others wait for one that has no core. A trial is compared with
    all turns since the last one, and with nothing older, since the machine may have become slower for both. Turns may
    be short, if the caller asks for few steps at a time; then a trial has several.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._other = threads, 1
        self._spent, self._steps = (
            {threads: 0.0, 1: 0.0},
            {threads: 0, 1: 0},
        )  # since the last comparison
        self._step = {threads: 0.0, 1: 0.0}  # seconds per step in the last turn
        self._until_trial, self._wins = 0.5 * TURN, 0

    def next_turn(self) -> tuple[int, int]:
        """Return the number of threads for the next turn, and its number of steps."""
        threads, length = self._threads, TURN
        if self._until_trial <= 0.0:
            threads, length = self._other, TRIAL * TURN - self._spent[self._other]
        step = self._step[threads] or self._step[self._threads]
        return threads, max(1, int(length / step)) if step else 1

    def note(self, threads: int, seconds: float, steps: int) -> None:
        """Record how long steps took."""
        self._until_trial -= seconds
        self._step[threads] = seconds / steps
        self._spent[threads] += seconds
        self._steps[threads] += steps
        if threads == self._other and self._spent[threads] > 0.9 * TRIAL * TURN:
            self._compare()

    def _compare(self) -> None:
        """End a trial: compare the two, and decide on the number of threads and the time of the next trial."""
        step = {n: self._spent[n] / self._steps[n] for n in self._spent}
        self._wins = self._wins + 1 if step[self._other] < step[self._threads] else 0
        self._until_trial = 0.5 * TURN  # again after one turn
        if self._wins == 0:
            self._until_trial = TRY_AGAIN * max(TRIAL * TURN, step[self._other])
        elif self._wins == WINS:
            self._threads, self._other, self._wins = self._other, self._threads, 0
        for n in self._spent:
            self._spent[n], self._steps[n] = 0.0, 0


@contextmanager
def _others(
    work: Callable[[int], None], workers: range, stop: Callable[[], None]
) -> Iterator[None]:
    """Run workers of these numbers in other threads, if any are free, and wait for them at the end.

    On an exception ``stop`` is called first, because the workers might otherwise never end.
    """
    futures = []
    try:
        with suppress(RuntimeError):  # threads accept no more work while the interpreter shuts down
            for worker in workers:
                futures.append(_pool(os.getpid()).submit(work, worker))
        yield
    except BaseException:
        stop()
        raise
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process: a fork has none of the threads of its parent."""
    return ThreadPoolExecutor(max_workers=MOST_THREADS, thread_name_prefix="flowsim")
