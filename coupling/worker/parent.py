"""A worker's process does not outlive the one that started it."""

import ctypes
import os
import signal
import sys

__all__ = ["PARENT_VARIABLE", "die_with_parent", "parent_is_gone"]

PARENT_VARIABLE = "FLOWSIM_PARENT"
"""Names the process that started a worker; a worker started by hand has none."""


def die_with_parent() -> None:
    """Arrange that this process is killed when the one that started it dies, however it dies.

    Linux does it (``PR_SET_PDEATHSIG``); elsewhere the heartbeat thread looks for the parent. A worker
    started by hand is on its own.
    """
    if PARENT_VARIABLE not in os.environ:
        return
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent_is_gone():  # it died before the line above
        os._exit(1)


def parent_is_gone() -> bool:
    """Tell whether the process named in the environment is no longer this one's parent."""
    return os.environ.get(PARENT_VARIABLE, str(os.getppid())) != str(os.getppid())
