"""Workers that are started early, while the learner is still being loaded.

A process that hosts environments takes as long to start as the learner: it imports Gymnasium and the solver, compiles
what is not compiled yet, and creates its environments. Therefore a run first starts one such process, which needs only
the task and describes it to the learner. The others start after that, so that they do not take cores from these two.
Each becomes a worker when the launcher has a connection file for it. The code of such a process is in
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

__all__ = ["PrewarmedWorkers"]

_CODE = "from coupling.worker.prewarm import stand_by; stand_by()"


class PrewarmedWorkers:
    """Prestarted worker processes of a run. Use it as a context manager, which ends those that were not taken.

    Parameters
    ----------
    config
        The run. Only workers of the launcher ``local`` are prestarted.
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
            stderr=None if slot == 0 else subprocess.DEVNULL,  # only one reports compilation
            # a Ctrl-C at the terminal must reach only the learner, which ends its workers
            start_new_session=True,
        )
        _tell(process, {"env": config.env, "env_options": config.options_in_training,
                        "environments": workers.agents_of_each()[slot], "describes": slot == 0})  # fmt: skip

    def __enter__(self) -> "PrewarmedWorkers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes = {}

    def task(self, seconds: float | None = None) -> Task | None:
        """Return the first process's description of the task; None if it has none or needs longer than ``seconds``.

        Raises
        ------
        ConfigError
            If the task has ended the process, as it would end that of the run.
        """
        first = self._processes.get(0)
        if first is None or first.stdout is None or first.stdout.closed:
            return None
        if not select.select([first.stdout], [], [], seconds)[0]:
            return None
        task: Task | None = None
        # the caller finds the reason itself
        with first.stdout as said, contextlib.suppress(pickle.UnpicklingError, ImportError):
            try:
                task = pickle.load(said)
            except EOFError as error:
                if how := _end_of(first):
                    raise ConfigError(
                        f"env = {self._config.env!r} ended its process ({how}) while it was made, reset or stepped "
                        "for the first time"
                    ) from error
        for slot in range(1, len(self._config.workers.agents_of_each()) if task else 1):
            self._start(slot)  # the first one has compiled what they need, and reported it
        return task

    @property
    def is_busy(self) -> bool:
        """Whether the first process has not described the task yet."""
        first = self._processes.get(0)
        return first is not None and first.stdout is not None and not first.stdout.closed

    def take(
        self, slot: int, command: Sequence[str], stderr: Path
    ) -> "subprocess.Popen[bytes] | None":
        """Turn the process of a slot into its worker, as if started by this command; return None if there is none."""
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
    """Return how a process has ended; empty if it was killed by SIGKILL or SIGTERM, or is still running."""
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
