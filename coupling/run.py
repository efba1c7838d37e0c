"""A run from its configuration to its last checkpoint: task, learner, service, workers, logs."""

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from coupling.config import AgentConfig, RunConfig, dump_config, load_config, preset_name, with_overrides
from coupling.connection import Connection, task_hash, write_connection
from coupling.environments import Task, describe_task, episode_seed
from coupling.errors import ConfigError, RunError, describe_os_error
from coupling.evaluate import PolicyController, evaluate, evaluate_with_baselines
from coupling.files import write_atomically
from coupling.folder import RunFolder
from coupling.launch.local import LocalLauncher
from coupling.log import RunLog, Speedometer, write_status
from coupling.server import Server, Terms
from rl_agent.checkpoint import CheckpointError
from rl_agent.device import DeviceError
from rl_agent.learner import Learner

__all__ = ["Interrupted", "Screen", "resume", "train"]

_EVALUATION_SEED = 10**6  # starts that are judged are not those that are trained on
_SUPERVISE_EVERY = 0.2  # seconds
_STATUS_EVERY = 1.0


class Screen(Protocol):
    """Where a run tells a person how it goes."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def progress(self, status: dict[str, Any]) -> None:
        """Show the present status in place of the last one."""


class Interrupted(KeyboardInterrupt):
    """The run was stopped by SIGINT or SIGTERM, with a checkpoint."""


class _Signals:
    """SIGINT and SIGTERM as ``KeyboardInterrupt``, or noted for later while a message is being worked on."""

    def __init__(self) -> None:
        self.noted = False
        self._deferring = False

    def __enter__(self) -> "_Signals":
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Note the first signal in :attr:`noted`; only a second one interrupts."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._deferring or self.noted:
            raise KeyboardInterrupt
        self.noted = True


def train(preset: str, overrides: list[str], screen: Screen) -> RunFolder:
    """Begin a run and carry it through.

    Parameters
    ----------
    preset, overrides
        As :func:`coupling.config.load_config`.
    screen
        Where to show how it goes.

    Returns
    -------
    RunFolder
        The folder of the finished run.

    Raises
    ------
    ConfigError
        For a bad configuration; no folder is made then.
    RunError
        When the run cannot go on.
    Interrupted
        When it was stopped by a signal; the checkpoint is written.
    """
    config = load_config(preset, overrides)
    folder = RunFolder.choose(config, preset_name(preset))
    task = describe_task(config.env, config.env_options)
    try:
        learner = Learner(
            config.agent,
            task.observation_space,
            task.action_space,
            agents=config.workers.agents,
            seed=config.run.seed,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    with _as_run_error(folder):
        folder.create(config, lambda: learner.save(folder.checkpoint))
    screen.say(f"run folder {folder.path}")
    _carry_through(folder, config, task, learner, screen)
    return folder


def resume(path: Path, overrides: list[str], screen: Screen) -> RunFolder:
    """Go on with a run from its last checkpoint.

    Parameters
    ----------
    path
        The run folder.
    overrides
        ``key=value`` for ``run.steps``, ``run.checkpoint_every``, ``run.evaluate_episodes``, ``agent.device`` and
        ``workers.*`` except ``workers.agents``: what may change without making it another run.
    screen
        Where to show how it goes.

    Returns
    -------
    RunFolder
        The folder of the finished run.

    Raises
    ------
    ConfigError, RunError, Interrupted
        As :func:`train`; a corrupt checkpoint is a ``RunError``.
    """
    folder = RunFolder.find(path)
    before = folder.config()
    config = with_overrides(before, overrides)
    _same_run(before, config)
    task = describe_task(config.env, config.env_options)
    with _as_run_error(folder):
        folder.lock()
        learner = load_learner(folder, config.agent.device)
        if learner.environment_steps >= config.run.steps:
            raise ConfigError(
                f"run {path} is finished: it has done {learner.environment_steps} of {config.run.steps} "
                f"steps; to train longer, give more: run.steps={2 * config.run.steps}"
            )
        if overrides:
            write_atomically(folder.config_file, dump_config(config).encode())
    screen.say(f"resuming {folder.path} at {learner.environment_steps} environment steps")
    _carry_through(folder, config, task, learner, screen)
    return folder


def load_learner(folder: RunFolder, device: str | None = None) -> Learner:
    """Load the learner from a run's checkpoint, onto ``device`` if given.

    Raises
    ------
    RunError
        When the checkpoint is missing, cut off or damaged.
    ConfigError
        When this machine does not have the device.
    """
    try:
        return Learner.load(folder.checkpoint, device)
    except DeviceError as error:
        raise ConfigError(f"{error}; agent.device=cpu goes on without one") from error
    except (OSError, CheckpointError) as error:
        raise RunError(f"checkpoint {folder.checkpoint} cannot be used: {error}") from error


def _same_run(before: RunConfig, after: RunConfig) -> None:
    """Refuse changes by which a resumed run would no longer be the run that was begun."""
    fixed: dict[str, Callable[[RunConfig], Any]] = {
        "env": lambda c: c.env,
        "env_options": lambda c: c.env_options,
        "agent": lambda c: c.agent.model_copy(update={"device": None}),
        "workers.agents": lambda c: c.workers.agents,
        "run.seed": lambda c: c.run.seed,
        "run.name": lambda c: c.run.name,
        "run.folder": lambda c: c.run.folder,
    }
    for key, value in fixed.items():
        if value(before) != value(after):
            raise ConfigError(f"{key} cannot be changed when a run is resumed; begin a new run with `flowsim train`")


@contextlib.contextmanager
def _as_run_error(folder: RunFolder) -> Iterator[None]:
    """Turn a failed file operation into the sentence that a person gets."""
    try:
        yield
    except OSError as error:
        raise RunError(describe_os_error(error, folder.path)) from error


def _carry_through(folder: RunFolder, config: RunConfig, task: Task, learner: Learner, screen: Screen) -> None:
    """Judge the untrained policy, train, judge again."""
    with contextlib.ExitStack() as stack:
        stack.callback(folder.unlock)
        stack.enter_context(_as_run_error(folder))
        signals = stack.enter_context(_Signals())
        judged: dict[str, Any] = {}
        if folder.evaluation.exists():
            judged = json.loads(folder.evaluation.read_text())
        if config.run.evaluate_episodes and not learner.environment_steps:
            screen.say(f"judging the untrained policy over {config.run.evaluate_episodes} episodes")
            judged["before"] = _judge(config, learner, deterministic=True)
            _write_evaluation(folder, judged)
        _Training(folder, config, task, learner, screen, signals).carry_out()
        if config.run.evaluate_episodes:
            screen.say(
                f"judging the trained policy and the baselines over {config.run.evaluate_episodes} episodes each"
            )
            judged["drawing"] = _judge(config, learner, deterministic=False)
            judged["after"] = evaluate_with_baselines(
                config.env,
                config.env_options,
                _controller(learner, config, deterministic=True),
                episodes=config.run.evaluate_episodes,
                seed=_EVALUATION_SEED,
            )
            _write_evaluation(folder, judged)


def _judge(config: RunConfig, learner: Learner, *, deterministic: bool) -> dict[str, Any]:
    return evaluate(
        config.env,
        config.env_options,
        _controller(learner, config, deterministic=deterministic),
        episodes=config.run.evaluate_episodes,
        seed=_EVALUATION_SEED,
    ).summary()


def _controller(learner: Learner, config: RunConfig, *, deterministic: bool) -> PolicyController:
    return PolicyController(learner.policy(), deterministic=deterministic, seed=config.run.seed)


def _write_evaluation(folder: RunFolder, judged: dict[str, Any]) -> None:
    write_atomically(folder.evaluation, json.dumps(judged, indent=1).encode())


class _Training:
    """The part of a run in which workers simulate and the learner learns."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        task: Task,
        learner: Learner,
        screen: Screen,
        signals: _Signals,
    ) -> None:
        self._folder, self._config, self._learner = folder, config, learner
        self._screen, self._signals = screen, signals
        self._epoch = folder.note_start(learner.environment_steps)
        self._log = RunLog(folder, learner.environment_steps, learner.episodes)
        workers, seed, epoch = config.workers, config.run.seed, self._epoch
        terms = Terms(
            agents_of_each=workers.agents_of_each(),
            observation_size=task.observation_space.shape[0],
            action_size=task.action_size,
            task_hash=task_hash(config.env, config.env_options),
            seed_of=lambda agent, start: episode_seed(seed, agent, epoch, start),
            step_timeout=workers.step_timeout,
            heartbeat=workers.heartbeat,
            dead_after=workers.dead_after,
            patience=workers.patience,
            epoch=epoch,
        )
        endpoint = "tcp://127.0.0.1:*" if workers.transport == "tcp" else "ipc://*"
        self._server = Server(learner, endpoint, terms, config.run.steps)
        write_connection(
            folder.connection,
            Connection(
                self._server.endpoint,
                folder.path.name,
                config.env,
                config.env_options,
                terms.task_hash,
                workers.patience,
            ),
        )
        self._launcher = LocalLauncher(
            folder.connection,
            terms.agents_of_each,
            folder.workers,
            threads=workers.threads,
            devices=workers.devices,
            restarts=workers.restarts,
        )
        self._speed = Speedometer()
        self._errors_told = 0

    def carry_out(self) -> None:
        """Train to the last step, then write the last checkpoint; end the workers in any case."""
        state, farewell = "failed", "the learner failed"
        try:
            with self._signals.deferred():
                self._launcher.start()
                self._until_finished_or_noted()
                self._checkpoint()
            stopped = self._signals.noted and not self._server.finished
            state, farewell = ("stopped", "the run was stopped") if stopped else ("finished", "the run is finished")
        finally:
            self._folder.connection.unlink(missing_ok=True)  # nobody listens there any more
            self._server.close(farewell)
            self._launcher.stop()
            with contextlib.suppress(OSError):  # the reason for the failure, a full disk perhaps, is what is told
                self._screen.progress(self._write_status(state))
                self._log.close()
        if self._signals.noted:
            raise Interrupted(
                f"stopped at {self._learner.environment_steps} environment steps with a checkpoint; "
                f"go on with `flowsim resume {self._folder.path}`"
            )
        self._screen.say(self._last_line())

    def _until_finished_or_noted(self) -> None:
        checkpoint = status = supervise = time.monotonic()
        while not (self._server.finished or self._signals.noted):
            self._server.turn()
            if self._log.due(self._learner.environment_steps):
                self._write_statistics()
            now = time.monotonic()
            if now >= supervise:
                supervise = now + _SUPERVISE_EVERY
                self._supervise()
            if now >= status:
                status = now + _STATUS_EVERY
                self._write_episodes()
                self._screen.progress(self._write_status("training"))
            if now >= checkpoint:
                self._checkpoint()
                checkpoint = time.monotonic() + self._config.run.checkpoint_every

    def _supervise(self) -> None:
        """Notice workers that died, hang or keep silent; tell why, and have them started again."""
        for slot, reason in self._server.errors[self._errors_told :]:
            self._screen.say(f"worker {slot}: its environment failed: {reason}")
        self._errors_told = len(self._server.errors)
        for slot, reason in self._server.lost():
            self._launcher.kill(slot, reason)
        for slot in range(self._config.workers.processes):
            slow = self._launcher.running_for(slot) > self._config.workers.step_timeout
            if slow and not self._server.connected(slot):
                self._launcher.kill(slot, f"it had not connected after {self._config.workers.step_timeout:g} s")
        for death in self._launcher.supervise():
            self._server.drop(death.slot)
            self._screen.say(str(death))

    def _checkpoint(self) -> None:
        """Write the tables up to this step, then the checkpoint that they belong to."""
        self._write_episodes()
        self._learner.save(self._folder.checkpoint)

    def _write_episodes(self) -> None:
        self._log.episodes(
            [
                {
                    "environment_steps": episode.step,
                    "agent": episode.agent,
                    "return": episode.episode_return,
                    "length": episode.length,
                    "terminated": int(episode.terminated),
                }
                for episode in self._learner.finished_episodes()
            ]
        )

    def _write_statistics(self) -> None:
        steps, updates = self._learner.environment_steps, self._learner.gradient_steps
        rates = self._speed.rates(steps, updates, self._server.round_trips)
        self._log.statistics(
            self._learner.statistics()
            | {
                "environment_steps": steps,
                "gradient_steps": updates,
                "steps_per_second": round(rates.environment_steps, 2),
                "updates_per_second": round(rates.gradient_steps, 2),
                "diverged": self._server.diverged,
                "worker_restarts": self._launcher.restarts,
            }
        )

    def _write_status(self, state: str) -> dict[str, Any]:
        learner, server = self._learner, self._server
        steps, updates = learner.environment_steps, learner.gradient_steps
        rates = self._speed.rates(steps, updates, server.round_trips)
        mean_return, mean_length = self._log.recent_means()
        status = {
            "run": self._folder.path.name,
            "state": state,
            "epoch": self._epoch,
            "environment_steps": steps,
            "steps_planned": self._config.run.steps,
            "gradient_steps": updates,
            "steps_after_warm_up": _steps_after_warm_up(learner),
            "ratio": _steps_after_warm_up(learner) / updates if updates else None,
            "steps_per_update": self._config.agent.steps_per_update,
            "episodes": self._log.episode_count,
            "mean_return": mean_return,
            "mean_length": mean_length,
            "steps_per_second": rates.environment_steps,
            "updates_per_second": rates.gradient_steps,
            "round_trips_per_second": rates.round_trips,
            "batch_size": server.round_trips / server.batches if server.batches else None,
            "restarts": self._launcher.restarts,
            "diverged": server.diverged,
            "violations": server.violations,
            "agents": {str(agent): int(count) for agent, count in enumerate(server.agent_steps) if count},
            "workers": server.workers(),
        }
        write_status(self._folder.status, status)
        return status

    def _last_line(self) -> str:
        learner = self._learner
        warm, updates = _steps_after_warm_up(learner), learner.gradient_steps
        agents = int((self._server.agent_steps > 0).sum())
        ratio = f"{warm} / {updates} = {warm / updates:g}" if updates else "no gradient step was due"
        return (
            f"finished: {learner.environment_steps} environment steps from {agents} distinct agents, "
            f"{updates} gradient steps; steps after warm-up over gradient steps: {ratio} "
            f"(F = {_planned_ratio(self._config.agent):g})"
        )


def _planned_ratio(agent: AgentConfig) -> float:
    """Return the environment steps per gradient step that the settings ask for."""
    return agent.batch / agent.epochs if agent.algorithm == "ppo" else agent.steps_per_update


def _steps_after_warm_up(learner: Learner) -> int:
    """Return the actions issued since learning began, for which gradient steps are owed."""
    counters = learner.counters
    return counters.issued - counters.warm_up if counters.warm_up >= 0 else 0
