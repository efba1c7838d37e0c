"""The two kinds of failure that a person at the command line is told about in one sentence."""

import errno
import os
import re
import sysconfig
import traceback
from pathlib import Path

__all__ = [
    "FULL",
    "RAISED",
    "ConfigError",
    "RunError",
    "describe_failure",
    "describe_missing",
    "describe_os_error",
    "is_theirs",
    "printable",
    "printable_lines",
]

_OURS = [
    f"{Path(__file__).parents[1] / name}{os.sep}"
    for name in ("coupling", "cases", "flowsim", "rl_agent")
]
_NOT_THEIRS = (*_OURS, sysconfig.get_path("stdlib"), "site-packages", "<frozen")

RAISED = (Exception, SystemExit)
"""What somebody's own code may raise that is about this code: a Ctrl-C is not."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the operating system answers when there is no room on the disk."""


class ConfigError(ValueError):
    """Bad input: the sentence names the key, the value and what is allowed (exit code 2)."""


class RunError(RuntimeError):
    """A run that cannot go on for a reason outside its configuration (exit code 1)."""


def _their_frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not any(place in frame.filename for place in _NOT_THEIRS)]


def is_theirs(error: BaseException) -> bool:
    """Tell whether an exception came through somebody's own code, not ours or a library's alone."""
    return bool(_their_frames(error))


# C0 but tab, DEL, C1, lone surrogates, and what breaks lines or turns their direction
_DRIVES_A_TERMINAL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def printable(text: object) -> str:
    r"""Give what came from a file or a peer as one line of text that drives no terminal: ESC becomes ``\x1b``."""
    return _DRIVES_A_TERMINAL.sub(
        lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text)
    )


def printable_lines(text: str) -> str:
    """Do the same to each line of a text of our own, which may quote others."""
    return "\n".join(map(printable, text.split("\n")))


def describe_failure(error: BaseException) -> str:
    """Give what somebody's environment raised in one line, with the place in their code where it came from."""
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
"""Which extra of flowsim brings a module; one of two if it is the machine that decides."""


def describe_missing(error: ModuleNotFoundError) -> str:
    """Give the sentence for a module that only an extra brings; other modules are bugs, and raised on.

    Raises
    ------
    ModuleNotFoundError
        For a module that no extra brings.
    """
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRA:
        raise error
    extra = _EXTRA[name]
    lines = " or ".join(f"pip install 'flowsim-rl[{each}]'" for each in extra.split(" or "))
    return f"this needs {name}, which comes with the extra {extra}: {lines}"


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
