"""Messages that all commands share: what starts, why it failed, and what to do next."""

import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import typer

from coupling.commands import next_steps
from coupling.errors import (
    ConfigError,
    RunError,
    describe_failure,
    describe_missing,
    describe_os_error,
    is_theirs,
    printable,
    printable_lines,
)
from coupling.meanwhile import meanwhile
from coupling.signals import deaf_streams, interruption_behind, number_of

__all__ = ["begin", "loading", "print_next", "reporting_errors", "reserving_stdout"]

P = ParamSpec("P")
R = TypeVar("R")


def reporting_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Report expected failures in one sentence on stderr, with exit code 2, 1, or 128 plus the signal."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ConfigError as error:
            code, sentence = 2, f"flowsim: {error}"
        except RunError as error:
            code, sentence = 1, f"flowsim: {error}"
        except KeyboardInterrupt as interruption:
            code, sentence = _interrupted(interruption)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and deaf_streams():
                raise  # `flowsim ... | head`, which main ends quietly
            code, sentence = 1, f"flowsim: {describe_os_error(error)}"
        except ImportError as error:
            behind = interruption_behind(error)
            if behind is not None:
                code, sentence = _interrupted(behind)
            elif isinstance(error, ModuleNotFoundError):
                code, sentence = 2, f"flowsim: {describe_missing(error)}"
            elif is_theirs(error):
                code, sentence = 1, f"flowsim: {describe_failure(error)}"
            else:
                raise
        except MemoryError as error:
            code, sentence = 1, f"flowsim: not enough memory: {describe_failure(error)}"
        except Exception as error:
            if not is_theirs(error):  # a bug in flowsim
                raise
            code, sentence = 1, f"flowsim: {describe_failure(error)}"
        print(printable_lines(sentence), file=sys.stderr)
        raise typer.Exit(code)

    return wrapper


def _interrupted(interruption: KeyboardInterrupt) -> tuple[int, str]:
    """Return the exit code and the message after a signal."""
    number = number_of(interruption)
    how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    return 128 + number, f"flowsim: {interruption if str(interruption) else how}"


@contextlib.contextmanager
def reserving_stdout() -> Iterator[None]:
    """Send to stderr what an environment or a library prints to stdout, which is reserved for the result.

    Output of Python and, through the file descriptor, of compiled code and of child processes is redirected.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def begin(what: str) -> None:
    """Print what starts; called before the imports, which take seconds the first time."""
    print(f"flowsim: {what}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def loading(what: str, tick: float = 0.5) -> Iterator[None]:
    """Print what is being loaded and, on a terminal, the elapsed time."""
    begin(f"loading {what}")
    with _counting(tick) if sys.stderr.isatty() else contextlib.nullcontext():
        # loaded modules are never garbage: collecting among them, now and at exit, takes a sixth of the time
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _counting(tick: float) -> Iterator[None]:
    """Show the elapsed time."""
    began = time.monotonic()

    def count(over: threading.Event) -> None:
        while not over.wait(tick):  # other output overwrites this line
            print(
                f"flowsim: loading, {time.monotonic() - began:.0f} s",
                end="\r",
                file=sys.stderr,
                flush=True,
            )

    try:
        with meanwhile(count):
            yield
    finally:
        print("\x1b[2K", end="\r", file=sys.stderr, flush=True)


def print_next(commands: list[tuple[str, str]], trust: bool = False) -> None:
    """Print the suggested next commands, one per line."""
    commands = next_steps.trusting(commands) if trust else commands
    for number, (command, why) in enumerate(commands):
        print(f"{'next: ' if number == 0 else '  or: '}{printable(command)}   ({why})")
