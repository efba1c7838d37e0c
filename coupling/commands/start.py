"""Entry point of the command `flowsim`: a Ctrl-C while Python still imports it ends it without a traceback.

Until the command line is there to say so in a sentence, the signal ends the process as the system does.
"""

import signal

__all__ = ["main"]


def main() -> None:
    """Import the command line and run the command of ``sys.argv``."""
    # a process that was started to ignore it, in the background of a script, goes on ignoring it
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from coupling.commands.cli import main as run

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
