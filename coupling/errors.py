"""The two kinds of failure that a person at the command line is told about in one sentence."""

import errno

__all__ = ["ConfigError", "RunError", "describe_os_error"]


class ConfigError(ValueError):
    """Bad input: the sentence names the key, the value and what is allowed (exit code 2)."""


class RunError(RuntimeError):
    """A run that cannot go on for a reason outside its configuration (exit code 1)."""


def describe_os_error(error: OSError) -> str:
    """Give the sentence for a failed file operation, with a full disk named as such.

    Parameters
    ----------
    error
        What the operating system answered.

    Returns
    -------
    str
        One sentence.
    """
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left in the run folder{where}: {error.strerror}"
    return f"{error.strerror or error}{where}"
