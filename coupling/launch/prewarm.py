"""Workers that are started before there is anything to connect to, while the learner is loaded beside them.

A process that hosts environments takes as long to begin as the learner: it imports Gymnasium and the solver, has
compiled what is not yet, and makes its environments. So a run starts one first, with nothing but the task, which tells
what the learner has to know of it; the others start when it has, so that they do not take the cores from the two. Each
becomes a worker when the launcher has a connection file for it. What such a process does is in
``coupling/worker/prewarm.py``.
"""

import contextlib
import json
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from coupling.errors import ConfigError
from coupling.launch.launcher import worker_environment
from coupling.settings.config import RunConfig
from coupling.settings.external import EXTERNAL
from coupling.worker.environments import Task

__all__ = ["Standby"]

_CODE = "from coupling.worker.prewarm import stand_by; stand_by()"


class Standby:
    """Processes that make ready to be the workers of a run. Use it as a context: what was not taken is ended.

    Parameters
    ----------
    config
        The run. Only workers of the launcher ``local`` are started ahead.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        if config.workers.launcher == "local" and config.env != EXTERNAL:
            self._start(0)

    def _start(self, slot: int) -> None:
        config, workers = self._config, self._config.workers
        self._processes[slot] = process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE],
            env=worker_environment(workers.threads, workers.devices, slot),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if slot == 0 else subprocess.DEVNULL,
            stderr=None if slot == 0 else subprocess.DEVNULL,  # one of them tells what is compiled
            # a Ctrl-C at the terminal is for the learner, which ends its workers
            start_new_session=True,
        )
        _tell(process, {"env": config.env, "env_options": config.options_in_training,
                        "environments": workers.agents_of_each()[slot], "describes": slot == 0})  # fmt: skip

    def __enter__(self) -> "Standby":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes = {}

    def task(self, seconds: float | None = None) -> Task | None:
        """Return what the first process says of the task; None if it cannot, or not within so many seconds.

        Raises
        ------
        ConfigError
            When the task has ended the process, as it would end that of the run.
        """
        first = self._processes.get(0)
        if first is None or first.stdout is None or first.stdout.closed:
            return None
        if not select.select([first.stdout], [], [], seconds)[0]:
            return None
        task: Task | None = None
        # the caller finds out why, by itself
        with first.stdout as said, contextlib.suppress(pickle.UnpicklingError, ImportError):
            try:
                task = pickle.load(said)
            except EOFError as error:
                if how := _end_of(first):
                    raise ConfigError(
                        f"env = {self._config.env!r} ended its process ({how}) when it was made, reset or stepped "
                        "for the first time"
                    ) from error
        for slot in range(1, len(self._config.workers.agents_of_each()) if task else 1):
            self._start(slot)  # what they need is compiled, and said to be, by the first
        return task

    @property
    def is_busy(self) -> bool:
        """Whether the first process has still to say what the task is."""
        first = self._processes.get(0)
        return first is not None and first.stdout is not None and not first.stdout.closed

    def take(
        self, slot: int, command: Sequence[str], stderr: Path
    ) -> "subprocess.Popen[bytes] | None":
        """Make the process of a slot its worker, as if it had been started by this command; None if there is none."""
        process = self._processes.pop(slot, None)
        if process is None:
            return None
        if process.poll() is not None or not _tell(
            process,
            {"words": list(command[command.index("coupling.worker") + 1 :]), "stderr": str(stderr)},
        ):
            process.kill()
            process.wait()
            return None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        return process


def _end_of(process: "subprocess.Popen[bytes]") -> str:
    """Return how a process has ended that was not told to; empty if somebody killed it, or it goes on."""
    try:
        code = process.wait(timeout=10.0)
    except subprocess.TimeoutExpired:
        return ""
    if code in (-signal.SIGKILL, -signal.SIGTERM):
        return ""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _tell(process: "subprocess.Popen[bytes]", message: dict[str, Any]) -> bool:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:  # it has died
        return False
    return True
