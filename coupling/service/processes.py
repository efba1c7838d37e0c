"""Whether a worker's process runs, where it is on this machine: it tells more than silence does."""

import os
import socket
from pathlib import Path

__all__ = ["is_seen", "runs"]


def is_seen(pid: int, host: str) -> bool:
    """Tell whether a process that says it has this number is on this machine, where it can be looked at."""
    return pid > 0 and host == socket.gethostname() and _state(pid) != ""


def runs(pid: int) -> bool:
    """Tell whether a process is there, and neither stopped nor dead."""
    return _state(pid) not in ("", "T", "Z", "X")


def _state(pid: int) -> str:
    """Return the letter of a process's state as Linux has it, R where it cannot be had; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError, ValueError):
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:  # somebody else's
        return "R"
    except (OSError, OverflowError):
        return ""
    return "R"
