"""State of a worker's process, if it is on this machine."""

import os
import socket
from pathlib import Path

__all__ = ["is_seen", "runs"]


def is_seen(pid: int, host: str) -> bool:
    """Return whether the process with this ID and host name is on this machine and its state can be read."""
    return pid > 0 and host == socket.gethostname() and _state(pid) != ""


def runs(pid: int) -> bool:
    """Return whether a process exists and is neither stopped nor dead."""
    return _state(pid) not in ("", "T", "Z", "X")


def _state(pid: int) -> str:
    """Return Linux's letter for the state of a process, R if it is unavailable; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError, ValueError):
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's process
        return "R"
    except (OSError, OverflowError):
        return ""
    return "R"
