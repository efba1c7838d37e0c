"""Progress reports during long operations."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["meanwhile"]


@contextmanager
def meanwhile(tell: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function in a thread while the block runs; the event passed to it is set when the block ends."""
    over = threading.Event()
    telling = threading.Thread(target=tell, args=(over,), daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()
