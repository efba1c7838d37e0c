"""numba's GPU simulator without polling, in which it spends most of its time.

Here the threads of a block report when they reach a barrier or end; their order is as undefined as before.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
from numba.cuda.simulator import kernel
from numba.cuda.simulator.kernel import BlockManager, BlockThread

__all__ = ["shuffled", "wait_in_place_of_polling"]

_shuffle = None


class Thread(BlockThread):
    """A thread of a block that reports when it waits or has ended, and counts the barriers it has passed."""

    def __init__(self, function, manager, block, *rest) -> None:
        super().__init__(function, manager, block, *rest)
        self.block, self.barriers = block, 0

    def run(self) -> None:
        """Run the kernel."""
        super().run()
        self._manager.stopped.release()

    def syncthreads(self) -> None:
        """Wait for the other threads of the block."""
        self.syncthreads_blocked = True
        self._manager.stopped.release()
        self.syncthreads_event.wait()
        self.syncthreads_event.clear()
        if self.abort:
            raise RuntimeError("another thread of the block has failed")
        self.barriers += 1


def wait_in_place_of_polling() -> None:
    """Change the simulator of this process."""
    BlockManager.run = _run_block


def _run_block(self, grid_point, *arguments):
    self.stopped = threading.Semaphore(0)  # released by each thread that waits or has ended
    points = list(np.ndindex(*self._block_dim))
    if _shuffle is not None:
        _shuffle(points)
    threads = [
        Thread(lambda: self._f(*arguments), self, grid_point, point, self._debug)
        for point in points
    ]
    for thread in threads:
        thread.start()
    while threads:
        for _ in threads:
            self.stopped.acquire()
        failed = [thread.exception for thread in threads if thread.exception]
        threads = [thread for thread in threads if thread.syncthreads_blocked]
        for thread in threads:
            thread.abort = bool(failed)
            thread.syncthreads_blocked = False
            thread.syncthreads_event.set()
        if failed:
            error, traceback = failed[0]
            raise error.with_traceback(traceback)


@contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Run blocks one after the other in a random order, and begin the threads of each in one.

    A device promises no order of blocks. Blocks that run at once are not simulated.
    """
    global _shuffle
    before, numpy, shuffle = _shuffle, kernel.np, random.Random(seed).shuffle

    def blocks(*shape: int) -> list[tuple[int, ...]]:
        points = list(np.ndindex(*shape))
        shuffle(points)
        return points

    kernel.np, _shuffle = SimpleNamespace(**vars(np) | {"ndindex": blocks}), shuffle
    try:
        yield
    finally:
        kernel.np, _shuffle = numpy, before
