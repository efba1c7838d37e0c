"""Termination of a worker's process with the process that started it."""

import ctypes
import os
import signal
import sys

__all__ = ["PARENT_VARIABLE", "die_with_parent", "parent_is_gone"]

PARENT_VARIABLE = "FLOWSIM_PARENT"
"""Environment variable with the ID of the process that started a worker; not set for a worker started by hand."""


def die_with_parent() -> None:
    """Arrange that this process is killed when the process that started it dies for any reason.

    Linux does this (``PR_SET_PDEATHSIG``); elsewhere, the heartbeat thread checks for the parent. A worker started by
    hand is independent.
    """
    if PARENT_VARIABLE not in os.environ:
        return
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent_is_gone():  # it died before the line above
        os._exit(1)


def parent_is_gone() -> bool:
    """Return whether the process in ``PARENT_VARIABLE`` is no longer this one's parent."""
    return os.environ.get(PARENT_VARIABLE, str(os.getppid())) != str(os.getppid())
