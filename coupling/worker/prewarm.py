"""A worker that is started before there is a learner to connect to; see ``coupling/launch/prewarm.py``.

It does not import the settings of runs, which would take a third of its start.
"""

import contextlib
import json
import os
import pickle
import sys
from typing import IO, Any

from coupling.files import private_opener
from coupling.worker.env_registry import load_task
from coupling.worker.environments import describe_task, make_vector
from coupling.worker.parent import die_with_parent
from coupling.worker.process import Made, main

__all__ = ["stand_by"]


def stand_by() -> None:
    """Run such a process: create the environments given on stdin, then become the worker given on stdin."""
    die_with_parent()
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # output of environments must not go into the answer
        orders = _next_order()
        load_task(orders["env"])
        if orders["describes"]:
            _describe(orders, answer)
    vector = None
    with contextlib.suppress(BaseException):  # the worker tries again and reports the error
        vector = make_vector(orders["env"], orders["env_options"], orders["environments"])
    told = _next_order()
    with (
        open(told["stderr"], "ab", opener=private_opener) as stderr,
        open(os.devnull, "rb") as nothing,
    ):
        os.dup2(stderr.fileno(), 1)
        os.dup2(stderr.fileno(), 2)
        os.dup2(nothing.fileno(), 0)
    made = (
        None
        if vector is None
        else Made(orders["env"], orders["env_options"], orders["environments"], vector)
    )
    sys.exit(main(told["words"], made))


def _next_order() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:  # the run does not start
        os._exit(0)
    order: dict[str, Any] = json.loads(line)
    return order


def _describe(orders: dict[str, Any], answer: IO[bytes]) -> None:
    """Send the description of the task; None if this fails, since the learner then tries and reports the error."""
    task = None
    # a Ctrl-C does not reach this process, so a KeyboardInterrupt is raised by the environment
    with contextlib.suppress(BaseException):
        task = describe_task(orders["env"], orders["env_options"])
    with contextlib.suppress(BrokenPipeError):
        answer.write(pickle.dumps(task))
