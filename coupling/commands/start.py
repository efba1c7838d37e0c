"""Entry point of the command `flowsim`, which a Ctrl-C during the imports ends without a traceback.

Until the command line is loaded and can report an interruption, SIGINT ends the process as by default.
"""

import os
import signal
import sys

__all__ = ["main"]


def _open_closed_streams() -> None:
    """Open the null device where stdin, stdout or stderr is closed, as by ``flowsim ... <&- >&- 2>&-``.

    Otherwise, the next file or socket would take its number, which child processes would read from or print into.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def main() -> None:
    """Import the command line and run the command of ``sys.argv``."""
    _open_closed_streams()
    # a process that was started to ignore SIGINT, in the background of a script, keeps ignoring it
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from coupling.commands.cli import main as run

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
