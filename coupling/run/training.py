"""The part of a run in which workers simulate and the learner learns, and what is recorded during it.

It is one class in one file, because the start, the loop and the end of a run use the same few parts.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from coupling.errors import RunError, describe_os_error
from coupling.launch import make_launcher
from coupling.launch.prewarm import PrewarmedWorkers
from coupling.run.folder import RunFolder
from coupling.run.log import RunLog, Speedometer
from coupling.run.screen import Screen
from coupling.run.selection import Candidates
from coupling.run.serving import terms_of, write_connection_of
from coupling.run.status import status_of, steps_after_warm_up, write_status
from coupling.run.supervisor import Supervisor
from coupling.service.experience import ExperienceLog, keep_trying
from coupling.service.server import Server
from coupling.settings.config import RunConfig
from coupling.settings.external import EXTERNAL
from coupling.signals import Interrupted, Signals
from coupling.wire.address import endpoint_to_bind
from coupling.wire.security import Keys
from coupling.worker.environments import Task
from coupling.worker.outbox import read_outbox
from rl_agent.learner import Learner
from rl_agent.replay.refer import FarWatch
from rl_agent.rollout.seeds import Purpose, episode_seed

__all__ = ["Training"]

_SUPERVISE_EVERY = 0.2  # seconds
_STATUS_EVERY = 1.0
_FAREWELL = 12.0  # seconds: a worker that has lost its learner reconnects within ten
_SAID_AFTER = 1.0


class Training:
    """The part of a run in which workers simulate and the learner learns."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        task: Task,
        learner: Learner,
        screen: Screen,
        signals: Signals,
        prewarmed: PrewarmedWorkers | None = None,
        *,
        discard_damaged: bool = False,
    ) -> None:
        self._folder, self._config, self._learner = folder, config, learner
        self._screen, self._signals, self._discard_damaged = screen, signals, discard_damaged
        # local workers die with their learner, so another launcher need not wait for them
        self._are_gone = folder.launcher_before() == "local" and config.workers.launcher != "local"
        self._epoch = folder.note_start(
            learner.environment_steps,
            draws_itself=task.draws_itself,
            launcher=config.workers.launcher,
        )
        self._log = RunLog(
            folder, learner.environment_steps, learner.episodes, config.run.steps, screen.say
        )
        self._experience = ExperienceLog(
            folder.experience, fsync=config.run.durability == "fsync", when_full=self._when_full
        )
        workers, seed = config.workers, config.run.seed
        terms = terms_of(
            config,
            task,
            config.options_in_training,
            # an agent may have belonged to another worker before the run was resumed
            lambda agent, session: episode_seed(
                Purpose.TRAINING, seed, agent, session, self._epoch
            ),
            epoch=self._epoch,
            synchronous=workers.is_synchronous,
        )
        endpoint = endpoint_to_bind(workers.transport, workers.bind)
        self._keys = Keys.draw() if workers.are_encrypted else None
        self._server = Server(
            learner, endpoint, terms, config.run.steps, self._experience, self._keys
        )
        self._launcher = make_launcher(
            workers,
            folder.connection,
            folder.workers,
            external=config.env == EXTERNAL,
            prewarmed=prewarmed,
        )
        self._supervisor = Supervisor(self._server, self._launcher, workers, screen.say)
        self._speed = Speedometer()
        self._far = FarWatch(config.agent, config.run.steps)
        # log segment after the last checkpoint, and the environment steps of the checkpoint
        self._kept = self._learner.notes.get("segment", 0), self._learner.environment_steps
        self._candidates = Candidates(folder, config.run)
        self._unwritten: list[dict[str, Any]] = []

    def carry_out(self) -> None:
        """Train to the last step and write the last checkpoint; end the workers in any case."""
        state, farewell = "failed", "the learner failed"
        try:
            with self._signals.deferred():
                self._recover()
                self._launch()
                self._until_finished_or_noted()
                self._checkpoint()
        except Exception as error:
            if not (isinstance(error, FloatingPointError) or self._learner.algorithm.has_diverged):
                raise
            raise self._went_back() from error
        else:
            stopped = self._signals.noted and not self._server.exchange.finished
            state, farewell = (
                ("stopped", "the run was stopped")
                if stopped
                else ("finished", "the run is finished")
            )
        finally:
            self._end(state, farewell)
        if self._signals.noted:
            raise Interrupted(
                f"stopped at {self._learner.environment_steps} environment steps with a checkpoint; "
                f"continue with `{self._folder.resume_line}`",
                self._signals.noted,
            )
        self._screen.say(self._last_line())

    def _went_back(self) -> RunError:
        """Set aside the log since the last checkpoint, which ends in a diverged learner; return the error to raise."""
        segment, steps = self._kept
        since = self._learner.environment_steps - steps
        self._experience.begin_again(segment)
        where = f"the checkpoint of {steps} environment steps"
        return RunError(
            f"learning has diverged: the policy is no longer finite after {self._learner.environment_steps} "
            f"environment steps; `{self._folder.resume_line}` continues from {where}, without the {since} steps since "
            "then (kept as experience/*.diverged); if it diverges again, begin a new run with a smaller "
            "agent.learning_rate"
        )

    def _end(self, state: str, farewell: str) -> None:
        """End the workers and record how the training ended.

        This is done even if the folder is full, gone or no longer writable, and such an error does not replace the
        reason for the end.
        """
        with contextlib.suppress(OSError):
            self._folder.connection.unlink(missing_ok=True)  # nothing listens there any more
        try:
            with self._signals.deferred():
                self._bid_farewell(farewell, 0.0 if state == "failed" else _FAREWELL)
        finally:
            with self._signals.deferred():
                self._launcher.stop()
        with contextlib.suppress(OSError):
            self._screen.progress(self._write_status(state))
        with contextlib.suppress(OSError):
            self._experience.close()
        with contextlib.suppress(OSError):
            self._log.close(finished=state == "finished")

    def _recover(self) -> None:
        """Replay the experience log beyond the checkpoint, and write the result as the next checkpoint."""
        notes, came_back = self._learner.notes, 0
        if notes:  # empty before the first start
            self._server.restore(notes)
            records = self._experience.records_since(
                notes["segment"], self._screen.say, discard_damaged=self._discard_damaged
            )
            came_back = self._server.replay(records)
        self._segment = max([0, *self._experience.segments()])
        if came_back:
            steps = self._learner.environment_steps
            self._screen.say(
                f"continuing at {steps} environment steps, {came_back} of them from the experience log"
            )
        self._checkpoint()
        self._folder.forget_results()  # they belong to a shorter training
        self._candidates.begin(self._learner.environment_steps)
        if self._are_gone or not self._server.exchange.fits():
            outboxes = {path.with_suffix("") for path in self._folder.workers.glob("outbox-*.?")}
            self._server.retire(map(read_outbox, sorted(outboxes)))

    def _launch(self) -> None:
        workers, options = self._config.workers, self._config.options_in_training
        write_connection_of(self._folder, self._config, options, self._server.endpoint, self._keys)
        if workers.launcher == "local":
            for slot in range(workers.processes):
                self._server.liveness.drop(slot)  # the workers of the previous learner died with it
        self._launcher.start()

    def _when_full(self, error: OSError, waited: float) -> None:
        """Report once that the disk is full; give up after ``workers.patience``, or when asked to stop."""
        patience = self._config.workers.patience
        if not waited:
            what = describe_os_error(error, self._folder.path)
            self._screen.say(
                f"{what}; the run waits up to {patience:g} s for free space; no transition is lost"
            )
        if self._signals.noted:
            raise Interrupted(
                f"stopped while the disk was full; continue with `{self._folder.resume_line}`",
                self._signals.noted,
            )
        if waited > patience:
            raise error

    def _write(self, action: Callable[[], object]) -> None:
        """Run an action that writes into the run folder, waiting while the disk is full."""
        keep_trying(action, self._when_full)

    def _bid_farewell(self, reason: str, patience: float) -> None:
        """Dismiss the workers, with a message if some of them take long."""
        said = False

        def say_once(passed: float) -> None:
            nonlocal said
            if passed > _SAID_AFTER and not said:
                said = True
                self._screen.say(
                    f"waiting up to {patience:g} s for workers that are late or in a long step, to tell them that "
                    f"{reason}"
                )

        self._server.close(reason, patience, say_once)

    def _until_finished_or_noted(self) -> None:
        checkpoint = status = supervise = time.monotonic()
        while not (self._server.exchange.finished or self._signals.noted):
            self._server.turn()
            if self._log.due(self._learner.environment_steps):
                self._write(self._write_statistics)
            if self._candidates.are_due(self._learner.environment_steps) and self._has_settled():
                self._write(lambda: self._candidates.keep(self._learner))
            now = time.monotonic()
            if now >= supervise:
                supervise = now + _SUPERVISE_EVERY
                self._supervisor.look()
            if now >= status:
                status = now + _STATUS_EVERY
                self._write(self._write_episodes)
                self._write(lambda: self._screen.progress(self._write_status("training")))
            if now >= checkpoint and not self._server.exchange.is_pending:
                self._checkpoint()
                checkpoint = time.monotonic() + self._config.run.checkpoint_every
        self._supervisor.look()

    def _has_settled(self) -> bool:
        """Return whether the policy may be kept as a candidate: if synchronous, only when no gradient step is due."""
        return not self._config.workers.is_synchronous or not self._learner.updates_due()

    def _checkpoint(self) -> None:
        """Write the tables up to this step and the matching checkpoint, and begin a new log segment.

        Raises
        ------
        FloatingPointError
            If the learner has diverged; the previous checkpoint is kept.
        """
        self._server.exchange.hand_over()
        if self._learner.algorithm.has_diverged:
            raise FloatingPointError("a weight is no longer finite")
        self._write(self._write_episodes)
        self._segment += 1
        self._write(lambda: self._experience.begin(self._segment))
        self._learner.notes = self._server.exchange.notes() | {"segment": self._segment}
        self._write(lambda: self._learner.save(self._folder.checkpoint))
        self._kept = self._segment, self._learner.environment_steps
        self._experience.forget_before(self._segment)

    def _write_episodes(self) -> None:
        self._unwritten += [
            {
                "environment_steps": episode.step,
                "agent": episode.agent,
                "return": episode.episode_return,
                "length": episode.length,
                "terminated": int(episode.terminated),
            }
            for episode in self._learner.finished_episodes()
        ]
        self._log.episodes(self._unwritten)
        self._unwritten = []

    def _write_statistics(self) -> None:
        steps, updates = self._learner.environment_steps, self._learner.gradient_steps
        rates = self._speed.rates(steps, updates, self._server.counts.round_trips)
        numbers = self._learner.statistics()
        if warning := self._far.note(steps, numbers["far_fraction"]):
            self._server.warnings.append(warning)
        self._log.statistics(
            numbers
            | {
                "environment_steps": steps,
                "gradient_steps": updates,
                "steps_per_second": round(rates.environment_steps, 2),
                "updates_per_second": round(rates.gradient_steps, 2),
                "diverged": self._server.counts.diverged,
                "worker_restarts": self._launcher.restarts,
            }
        )

    def _write_status(self, state: str) -> dict[str, Any]:
        learner, server = self._learner, self._server
        rates = self._speed.rates(
            learner.environment_steps, learner.gradient_steps, server.counts.round_trips
        )
        status = status_of(
            self._folder.path.name, state, self._epoch, self._config, learner, server, rates,
            self._log, self._launcher.restarts,
        ) | {
            "deaths": list(self._supervisor.deaths),
            "warnings": list(self._supervisor.warnings),
        }  # fmt: skip
        server.report = write_status(self._folder.status, status)
        return status

    def _last_line(self) -> str:
        learner = self._learner
        warm, updates = steps_after_warm_up(learner), learner.gradient_steps
        agents = int((self._server.exchange.agent_steps > 0).sum())
        ratio = (
            f"{warm} / {updates} = {warm / updates:g}" if updates else "no gradient step was due"
        )
        return (
            f"finished: {learner.environment_steps} environment steps from {agents} distinct "
            f"agent{'s' * (agents != 1)}, {updates} gradient steps; environment steps per gradient step after "
            f"warm-up: {ratio} (F = {self._config.agent.steps_per_gradient:g}){_failed(self._server.counts.failed)}"
        )


def _failed(episodes: int) -> str:
    return f"; {episodes} episodes ended because their environment failed" if episodes else ""
