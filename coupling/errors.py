"""The two kinds of failure that commands report in one sentence, and the text of these sentences."""

import contextlib
import errno
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "FULL",
    "ConfigError",
    "RunError",
    "describe_failure",
    "describe_missing",
    "describe_os_error",
    "ignoring_raised",
    "is_theirs",
    "printable",
    "printable_lines",
]

_OURS = [
    f"{Path(__file__).parents[1] / name}{os.sep}"
    for name in ("coupling", "cases", "flowsim", "rl_agent")
]
_NOT_THEIRS = (*_OURS, sysconfig.get_path("stdlib"), "site-packages", "<frozen")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of the operating system for a disk without space."""


class ConfigError(ValueError):
    """Invalid input; the message names the key, the value and what is allowed (exit code 2)."""


class RunError(RuntimeError):
    """Failure of a run for a reason outside its configuration (exit code 1)."""


def _their_frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not any(place in frame.filename for place in _NOT_THEIRS)]


def is_theirs(error: BaseException) -> bool:
    """Return whether the traceback of an exception contains the user's own code, not only flowsim and libraries."""
    return bool(_their_frames(error))


@contextlib.contextmanager
def ignoring_raised() -> Iterator[None]:
    """Ignore any exception of the user's code, but not an interruption.

    It may be no ``Exception``: ``sys.exit`` raises another kind, and so do panics of packages written in Rust.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass


# C0 except tab, DEL, C1, lone surrogates, and characters that break lines or change the text direction
_DRIVES_A_TERMINAL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def printable(text: object) -> str:
    r"""Return text from a file or a peer as one line without terminal control characters: ESC becomes ``\x1b``."""
    return _DRIVES_A_TERMINAL.sub(
        lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text)
    )


def printable_lines(text: str) -> str:
    """Apply :func:`printable` to each line of a message, which may quote files or peers."""
    return "\n".join(map(printable, text.split("\n")))


def describe_failure(error: BaseException) -> str:
    """Return an exception as one line, with the place in the user's code where it was raised."""
    text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    theirs = _their_frames(error)
    if not theirs:
        return text
    return (
        f"{text} ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno}, in {theirs[-1].name})"
    )


_EXTRA = {
    **dict.fromkeys(("torch", "gymnasium", "zmq", "msgspec", "tensorboard", "jinja2", "prometheus_client"), "rl"),
    "mujoco": "mujoco", "ray": "ray", "submitit": "slurm", "stable_baselines3": "sb3",
    **dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), "onnx"),
    **dict.fromkeys(("jax", "jax_cfd"), "bench"), "cupy": "cuda12 or cuda13",
}  # fmt: skip
"""The extra of flowsim that installs each module; two extras if it depends on the machine."""


def describe_missing(error: ModuleNotFoundError) -> str:
    """Return the message for a missing module that an extra installs; other missing modules are bugs and are raised.

    Raises
    ------
    ModuleNotFoundError
        For a module that no extra installs.
    """
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRA:
        raise error
    extra = _EXTRA[name]
    lines = " or ".join(f"pip install 'flowsim-rl[{each}]'" for each in extra.split(" or "))
    return f"this needs the package {name}, which the extra {extra} installs: {lines}"


def describe_os_error(error: OSError, folder: Path | None = None) -> str:
    """Return the message for a failed file operation; a full disk is named as such.

    Parameters
    ----------
    error
        The error of the operating system.
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
    place = error.filename or folder
    return f"{error.strerror or error}" + (f": {place}" if place else "")
