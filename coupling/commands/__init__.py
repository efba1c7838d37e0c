"""The ``flowsim`` command, which can also be called from Python."""

from collections.abc import Sequence

__all__ = ["run_command"]


def run_command(words: Sequence[str]) -> int:
    """Run a command as the command line does, and return its exit code instead of leaving the process.

    Parameters
    ----------
    words
        The words after ``flowsim`` on the command line, such as ``["train", "classic/pendulum", "run.steps=1000"]``.

    Returns
    -------
    int
        0 for success, 1 for a failure, 2 for invalid input, 130 for Ctrl-C; the reason is on stderr.
    """
    from coupling.commands.cli import app
    from coupling.commands.exit_codes import exit_code

    return exit_code(app, words)
