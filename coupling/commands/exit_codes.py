"""Exit codes of commands, also for signals and closed pipes, and one-sentence messages for invalid input."""

import contextlib
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer

from coupling.errors import FULL, describe_os_error
from coupling.signals import deaf_streams, discard, interrupting

__all__ = ["exit_code", "run_to_end"]

# some versions of typer use click's exceptions, others their own; this base class exists in both
_format_warning = warnings.formatwarning
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run_to_end(app: typer.Typer) -> NoReturn:
    """Run the command of ``sys.argv`` and leave the process with its exit code."""
    warnings.formatwarning = _in_one_line
    try:
        with interrupting():
            code = exit_code(app, sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, SystemExit) as ending:
        # typer and rich raise SystemExit on a closed pipe
        cause = ending.__context__ if isinstance(ending, SystemExit) else ending
        if isinstance(cause, BrokenPipeError):
            code = _end_without_reader()
        elif isinstance(cause, OSError) and cause.errno in FULL:
            code = _end_on_full_disk(cause)
        else:
            raise
    sys.exit(code)


def _in_one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Format a FutureWarning, which is meant for users of commands, in one line, and others as Python does."""
    if issubclass(category, FutureWarning):
        return f"warning: {message}\n"
    return _format_warning(message, category, filename, lineno, line)


def exit_code(app: typer.Typer, words: Sequence[str]) -> int:
    """Run a command and return its exit code; invalid input is reported in one sentence."""
    try:
        return app(args=list(words), prog_name="flowsim", standalone_mode=False) or 0
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            print(error)
        else:
            print(f"flowsim: {_refusal(error, words)}", file=sys.stderr)
        return 2


def _end_without_reader() -> int:
    """Discard streams without a reader, so that Python's last flush does not fail, and return the exit code.

    This is the code that shells report for SIGPIPE. The signal itself stays ignored, as Python's documentation
    advises: it would also end a learner whose worker disconnects.
    """
    for stream in deaf_streams():
        discard(stream)
    return 128 + signal.SIGPIPE


def _end_on_full_disk(error: OSError) -> int:
    """Report a full disk, discard stdout so that Python's last flush does not fail, and return the exit code."""
    print(f"flowsim: {describe_os_error(error)}", file=sys.stderr)
    discard(sys.stdout)
    return 1


def _refusal(error: Any, words: Sequence[str]) -> str:
    """Return in one sentence what typer would print in a box of several lines."""
    text = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    # invalid values are reported by pydantic, which gives the value
    refused: list[Any] = getattr(error.__cause__, "errors", list)()
    if refused:
        given, why = refused[0]["input"], text.partition(": ")[2]
        # name an option as it was typed, or else by its first long name
        names = [name for name in error.param.opts if name.startswith("--")] or error.param.opts
        key = next((name for name in names if name in words), names[0])
        text = f"{key}: {why}" if repr(given) in why else f"{key} = {given}: {_begun_small(why)}"
    text = text.replace(". Did you mean", ": did you mean").replace(". Choose from:", ": one of")
    if meant := _setting_meant(getattr(error, "option_name", ""), words):
        text = f"no such option: {error.option_name}: did you mean {meant}?"
    # a missing value is reported without a context; flowsim itself has no options with values, so the command is
    # the first word
    named = [word for word in words[:1] if not word.startswith("-")]
    command = error.ctx.command_path if error.ctx else " ".join(["flowsim", *named])
    return _begun_small(text) + ("" if text.endswith("?") else f"; see `{command} --help`")


def _setting_meant(option: str, words: Sequence[str]) -> str | None:
    """Return the ``key=value`` word that an unknown option stands for, if it does: ``--steps 2000``."""
    command, *others = words or [""]
    if not option or command not in ("train", "resume", "serve", "evaluate", "render", "simulate"):
        return None
    from coupling.settings.suggestions import meant_by_option

    # as --steps 2000 or --steps=2000
    given = next((word for word in others if word.split("=")[0] == option), option)
    after = others[others.index(given) + 1 :] if given in others else []
    value = given.partition("=")[2] or next(iter(after), None)
    models: list[Any] = []
    with contextlib.suppress(ModuleNotFoundError):  # the solver alone is installed, without runs
        if command in ("train", "resume", "serve"):
            from coupling.settings.config import RunConfig

            models = [RunConfig]
        elif command == "simulate" and any(Path(word).is_file() for word in others):
            from coupling.simulation.case import CaseConfig

            models = [CaseConfig]
    return meant_by_option(option, value, models)


def _begun_small(text: str) -> str:
    return text[0].lower() + text[1:]
