"""Entry point of the command `flowsim`, which a Ctrl-C during the imports ends without a traceback.

Until the command line is loaded and can report an interruption, SIGINT ends the process as by default.
"""

import signal

__all__ = ["main"]


def main() -> None:
    """Import the command line and run the command of ``sys.argv``."""
    # a process that was started to ignore SIGINT, in the background of a script, keeps ignoring it
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from coupling.commands.cli import main as run

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
