"""The two kinds of failure that a person at the command line is told about in one sentence."""

import errno
from pathlib import Path

__all__ = ["FULL", "ConfigError", "RunError", "describe_os_error"]


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the operating system answers when there is no room on the disk."""


class ConfigError(ValueError):
    """Bad input: the sentence names the key, the value and what is allowed (exit code 2)."""


class RunError(RuntimeError):
    """A run that cannot go on for a reason outside its configuration (exit code 1)."""


def describe_os_error(error: OSError, folder: Path | None = None) -> str:
    """Give the sentence for a failed file operation, with a full disk named as such.

    Parameters
    ----------
    error
        What the operating system answered.
    folder
        The run folder that was written to.

    Returns
    -------
    str
        One sentence.
    """
    if error.errno in FULL:
        where = f"in the run folder {folder}" if folder else "on the disk"
        return f"no space left {where}: {error.strerror}"
    return f"{error.strerror or error}: {error.filename or folder}"
