"""Supervision of a run's workers: detects, reports and restarts those that die, hang, are silent or fail."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from coupling.errors import RunError, printable
from coupling.launch.failure_window import Alike, FailureWindow, kind_of
from coupling.launch.launcher import Launcher
from coupling.service.server import UNLEARNABLE, Server
from coupling.settings.config import WorkerSettings

__all__ = ["Supervisor"]

# minimum of seconds for a new process, however short the steps of its environments are
_CONNECT_WITHIN = 60.0
_SHOWN = 20  # deaths and warnings in the status
_REFUSED_STEPS = 10  # of each agent on average, without one that can be learned from


class Supervisor:
    """Supervisor of the workers of a run.

    Parameters
    ----------
    server
        The service, which has the connected workers and their messages.
    launcher
        The launcher, which starts and ends processes.
    workers
        Settings: number of workers, and which failures are tolerated.
    say
        Function that shows a message to the user.

    Attributes
    ----------
    deaths, warnings
        The last ones: ``time``, and ``slot`` and ``reason`` or ``text``.
    """

    def __init__(
        self,
        server: Server,
        launcher: Launcher,
        workers: WorkerSettings,
        say: Callable[[str], None],
    ) -> None:
        self._server, self._launcher, self._workers, self._say = server, launcher, workers, say
        self.deaths: deque[dict[str, Any]] = deque(maxlen=_SHOWN)
        self.warnings: deque[dict[str, Any]] = deque(maxlen=_SHOWN)
        self._waiting_told = ""
        self._alone_since = time.monotonic()
        self._refusals_told = 0
        self._failures = {
            slot: FailureWindow(workers.restarts) for slot in range(workers.processes)
        }
        self._failures_told: dict[int, int] = {}
        self._kinds_told: set[str] = set()
        self._alike = {slot: Alike() for slot in range(workers.processes)}
        self._ended_before = dict.fromkeys(range(workers.processes), 0)

    def look(self) -> None:
        """Detect workers that died, hang or are silent, report the reasons, and have them restarted."""
        for slot, reason in self._server.errors:
            self._warn(f"worker {slot} cannot continue: {reason}")
        self._server.errors.clear()
        for slot, reason in self._server.farewells:
            self._say(f"worker {slot} left: {reason}")
        self._server.farewells.clear()
        for warning in self._server.warnings:
            self._warn(warning)
        self._server.warnings.clear()
        for refusal in self._server.refusals[self._refusals_told :]:
            self._say(refusal)
        self._refusals_told = len(self._server.refusals)
        for slot, reason in self._server.liveness.lost():
            self._launcher.kill(slot, reason)
            self._server.liveness.drop(slot)
        limit = max(_CONNECT_WITHIN, self._workers.step_timeout)
        for slot in range(self._workers.processes):
            if self._launcher.running_for(slot) > limit and not self._server.liveness.connected(
                slot
            ):
                self._launcher.kill(slot, f"it had not connected after {limit:g} s")
        for death in self._launcher.supervise():
            self._server.liveness.drop(death.slot)
            self._failures_told.pop(death.slot, None)
            self.deaths.append({"time": time.time(), "slot": death.slot, "reason": str(death)})
            self._say(str(death))
        self._wait_for_workers()
        self._stop_if_unlearnable()
        for worker in self._server.liveness.summaries():
            self._note_failures(worker["slot"], worker["failures"], printable(worker["failure"]))
        self._server.close_forgotten()

    def _warn(self, what: str) -> None:
        """Report a problem, and keep it for the status."""
        self.warnings.append({"time": time.time(), "text": what})
        self._say(f"warning: {what}")

    def _wait_for_workers(self) -> None:
        """Report what workers that are not connected yet wait for.

        Raises
        ------
        RunError
            If there has been no worker at all for ``workers.wait`` seconds.
        """
        now, workers, waits_for = time.monotonic(), self._workers, self._launcher.waits_for()
        if waits_for and waits_for != self._waiting_told:
            self._say(waits_for)
        self._waiting_told = waits_for
        if any(self._server.liveness.connected(slot) for slot in range(workers.processes)):
            self._alone_since = now
        elif now - self._alone_since > workers.wait:
            raise RunError(
                f"no worker was connected for workers.wait = {workers.wait:g} s"
                + (f": the run was {waits_for}" if waits_for else "")
            )

    def _stop_if_unlearnable(self) -> None:
        """Stop a run whose task sends nothing but steps that cannot be learned from.

        Raises
        ------
        RunError
            If this was so for the first ten steps of each agent.
        """
        exchange = self._server.exchange
        refused, agents = exchange.counts.unlearnable, exchange.agent_steps
        if refused >= _REFUSED_STEPS * len(agents) and not agents.any():
            raise RunError(
                f"none of the first {refused} environment steps can be learned from: {UNLEARNABLE}"
            )

    def _note_failures(self, slot: int, failures: int, latest: str) -> None:
        """Report environments that failed and restarted; too many failures stop the run.

        Raises
        ------
        RunError
            If there are more failures than ``workers.restarts`` within ten minutes and more than episodes that ended
            normally in that time, or the same failure repeats while no episode of the run ends otherwise.
        """
        new = failures - self._failures_told.get(slot, 0)
        if new <= 0:
            return
        self._failures_told[slot] = failures
        failure_window, alike = self._failures[slot], self._alike[slot]
        failure_window.note(new, time.monotonic())
        ended, before = self._server.exchange.ended_episodes, self._ended_before.get(slot, 0)
        self._ended_before[slot] = ended
        if ended - before >= new:
            failure_window.forget()
        if failure_window.exceeded:
            raise RunError(
                f"environments of worker {slot} failed {failure_window}; the last failure: {latest}"
            )
        if alike.note(latest, fresh=ended > before):
            raise RunError(
                f"environments of worker {slot} failed {alike.count} times in the same way, and no episode ended "
                f"without a failure in between: {latest}"
            )
        if kind_of(latest) not in self._kinds_told:
            self._kinds_told.add(kind_of(latest))
            self._say(f"worker {slot}: an environment failed and is restarted: {latest}")
