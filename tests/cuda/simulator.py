"""numba's simulator of a GPU without its polling: most of its time is spent asking every thread whether it waits.

Here the threads of a block tell when they come to a barrier or end; the order of what they do is as open as before.
"""

import threading

import numpy as np
from numba.cuda.simulator.kernel import BlockManager, BlockThread

__all__ = ["wait_in_place_of_polling"]

_run_thread = BlockThread.run


def wait_in_place_of_polling() -> None:
    """Change the simulator of this process."""
    BlockManager.run, BlockThread.run, BlockThread.syncthreads = (
        _run_block,
        _run_and_tell,
        _wait_for_all,
    )


def _run_block(self, grid_point, *arguments):
    self.stopped = threading.Semaphore(0)  # released by each thread that waits or has ended
    points = np.ndindex(*self._block_dim)
    threads = [
        BlockThread(lambda: self._f(*arguments), self, grid_point, point, self._debug)
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


def _run_and_tell(self):
    _run_thread(self)
    self._manager.stopped.release()


def _wait_for_all(self):
    self.syncthreads_blocked = True
    self._manager.stopped.release()
    self.syncthreads_event.wait()
    self.syncthreads_event.clear()
    if self.abort:
        raise RuntimeError("another thread of the block has failed")
