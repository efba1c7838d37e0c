"""Time limit of the actions of an evaluation, whose environments run in the process of the run."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from coupling.errors import RunError
from coupling.evaluation.pool import AT_ONCE
from coupling.run.screen import reporting_stalls
from coupling.settings.config import RunConfig
from coupling.worker.env_registry import is_flow

__all__ = ["FIRST_LOOK", "limiting_actions"]

FIRST_LOOK = 60.0
"""Seconds allowed for creating an environment, in addition to ``workers.step_timeout`` for its first step."""


class _TooLong(KeyboardInterrupt):
    """Raised in a step that takes too long.

    The guard of the environment would handle any other exception as a failure of this step alone.
    """


@contextlib.contextmanager
def limiting_actions(
    config: RunConfig, episodes: int, say: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Report that no action of an evaluation finishes, and end it after a time limit.

    The limit follows from ``workers.step_timeout``, which holds for the environments of a worker: an evaluation steps
    more of them, one after the other, and creates them for each controller. A flow reports its compilation and its
    development itself, so its limit begins with the first action.

    Parameters
    ----------
    config
        The run.
    episodes
        Number of episodes of the evaluation.
    say
        Function that shows a line.

    Yields
    ------
    callable
        To be called after each action.

    Raises
    ------
    RunError
        If an action takes too long. A step that does not return to Python's interpreter cannot be interrupted.
    """
    steps = max(1.0, min(episodes, AT_ONCE) / min(config.workers.agents_of_each()))
    limit = FIRST_LOOK + config.workers.step_timeout * steps
    what = f"no action of env = {config.env!r} has finished"

    def end(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    flow = is_flow(config.env)
    timer, handler = signal.setitimer(signal.ITIMER_REAL, 0.0), signal.signal(signal.SIGALRM, end)
    try:
        with (
            contextlib.nullcontext(lambda: None) if flow else reporting_stalls(what, say)
        ) as happened:

            def acted() -> None:
                happened()
                signal.setitimer(signal.ITIMER_REAL, limit)

            if not flow:
                acted()
            yield acted
    except _TooLong:
        raise RunError(
            f"the evaluation was ended: {what} for {limit:g} s; a larger workers.step_timeout, the time limit of a "
            "step, extends this"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
