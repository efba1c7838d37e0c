"""How a command ends: in one sentence for what it cannot take or print, and as shells expect for signals and pipes."""

import signal
import sys
from typing import Any, NoReturn

import typer

from coupling.errors import FULL, describe_os_error
from coupling.signals import deaf_streams, discard, interrupting

__all__ = ["run_to_end"]

# typer brought click's exceptions along in some versions and its own in others; this is in both
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run_to_end(app: typer.Typer) -> NoReturn:
    """Run the command of ``sys.argv`` and leave the process with its exit code."""
    try:
        with interrupting():
            code = _run(app)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, SystemExit) as ending:
        # typer and rich answer a pipe that is closed with an exit of their own
        cause = ending.__context__ if isinstance(ending, SystemExit) else ending
        if isinstance(cause, BrokenPipeError):
            code = _end_without_reader()
        elif isinstance(cause, OSError) and cause.errno in FULL:
            code = _end_on_full_disk(cause)
        else:
            raise
    sys.exit(code)


def _run(app: typer.Typer) -> int:
    try:
        return app(prog_name="flowsim", standalone_mode=False) or 0
    except _UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # then the help is printed already
            print(f"flowsim: {_refusal(error)}", file=sys.stderr)
        return 2


def _end_without_reader() -> int:
    """Leave Python nothing to complain of when it flushes at its end, and return the exit code.

    That is the code with which shells name the end by SIGPIPE. The signal itself stays ignored, as Python's
    documentation advises: it would also end a learner whose worker hangs up.
    """
    for stream in deaf_streams():
        discard(stream)
    return 128 + signal.SIGPIPE


def _end_on_full_disk(error: OSError) -> int:
    """Say that the output has no place, leave Python nothing to flush, and return the exit code."""
    print(f"flowsim: {describe_os_error(error)}", file=sys.stderr)
    discard(sys.stdout)
    return 1


def _refusal(error: Any) -> str:
    """Say in one sentence what typer would say in a box of several lines."""
    text = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    # a value that is refused comes from pydantic, which tells it
    refused: list[Any] = getattr(error.__cause__, "errors", list)()
    if refused:
        key, given, why = error.param.opts[-1], refused[0]["input"], text.partition(": ")[2]
        text = f"{key}: {why}" if repr(given) in why else f"{key} = {given}: {_begun_small(why)}"
    text = text.replace(". Did you mean", ": did you mean").replace(". Choose from:", ": one of")
    # options without their value come without a context; flowsim's own take none, so the command is the first word
    named = [word for word in sys.argv[1:2] if not word.startswith("-")]
    command = error.ctx.command_path if error.ctx else " ".join(["flowsim", *named])
    return _begun_small(text) + ("" if text.endswith("?") else f"; see `{command} --help`")


def _begun_small(text: str) -> str:
    return text[0].lower() + text[1:]
