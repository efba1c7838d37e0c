"""Telling a person how long something takes, while it takes it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["meanwhile"]


@contextmanager
def meanwhile(tell: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function in a thread of its own until the block is over, which the event that it is given says."""
    over = threading.Event()
    telling = threading.Thread(target=tell, args=(over,), daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()
