"""A run from its configuration to its evaluation: starting, resuming and carrying it out."""

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from coupling.errors import ConfigError, RunError, describe_os_error
from coupling.evaluation.evaluate import (
    SAMPLED,
    PolicyController,
    evaluate,
    evaluate_with_baselines,
)
from coupling.evaluation.pool import EvaluationPool
from coupling.files import make_private, read_json, refuse_unwritable, write_atomically
from coupling.launch import check_launcher
from coupling.launch.prewarm import PrewarmedWorkers
from coupling.run.action_limit import FIRST_LOOK, limiting_actions
from coupling.run.folder import RunFolder
from coupling.run.log import log_evaluation
from coupling.run.policies import describe_unusable, refuse_policy_alone
from coupling.run.screen import Screen, reporting_if_slow
from coupling.run.selection import choose_policy, kept_policies
from coupling.run.serving import refuse_too_large
from coupling.run.training import Training
from coupling.run.trust import note_training
from coupling.run.warmup import run_warmup
from coupling.settings import EXTERNAL
from coupling.settings.config import RunConfig, fitted, with_overrides
from coupling.settings.content import folder_name
from coupling.settings.unread import unread_settings
from coupling.signals import Interrupted, Signals, number_of
from coupling.worker.env_registry import PARALLEL, is_flow
from coupling.worker.environments import Task, describe_task
from rl_agent.config.defaults import warnings_of
from rl_agent.learner import Learner
from rl_agent.rollout.seeds import EVALUATION_SEED
from rl_agent.runtime.device import DeviceError
from rl_agent.saving.checkpoint import CheckpointError

__all__ = ["is_complete", "resume", "train"]

_LIKELY_SPACES = Box(-1.0, 1.0, (3,), np.float32), Box(-1.0, 1.0, (2,), np.float32)
"""Spaces for compiling before the task is known: compilation depends on their kinds, not on their sizes."""


def train(
    config: RunConfig,
    screen: Screen,
    prewarmed: PrewarmedWorkers | None = None,
    *,
    name: str | None = None,
) -> RunFolder:
    """Start a run and carry it out.

    Parameters
    ----------
    config
        The configuration from :func:`coupling.settings.config.load_config`.
    screen
        Display of the progress.
    prewarmed
        Prestarted processes that become its workers.
    name
        Stem of the folder's name if ``run.name`` is not set; by default the name of the task.

    Returns
    -------
    RunFolder
        The folder of the finished run.

    Raises
    ------
    ConfigError
        For an invalid configuration; no folder is created then.
    RunError
        If the run cannot continue.
    Interrupted
        If it was stopped by a signal; the checkpoint has been written.
    """
    refuse_unwritable("run.folder", Path(config.run.folder), is_folder=True)
    check_launcher(config.workers)
    name = name or folder_name(config.env)
    RunFolder.choose(config, name)  # refuses a name that is taken before the task is created
    task = _prepare(config, screen, prewarmed)
    _note_training(config, screen)
    _refuse_channels_last(config, task)
    config = fitted(config, task.episode_steps)
    try:
        learner = Learner(
            config.agent,
            task.observation_space,
            task.action_space,
            agents=config.workers.agents,
            seed=config.run.seed,
            agents_per_env=task.agents_per_env,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    folder = _create_folder(config, name, learner)
    screen.say(f"run folder {folder.path}")
    for note in task.notes:
        screen.say(f"env = {config.env!r}: {note}")
    if task.episode_steps is None:
        screen.say(f"warning: env = {config.env!r} {_without_an_end(config.env)}")
    of_the_agent = warnings_of(
        config.agent,
        config.run.steps,
        task.episode_steps,
        config.workers.agents,
        discrete=not isinstance(task.action_space, Box),
        agents_per_env=task.agents_per_env,
    )
    for warning in (*of_the_agent, *unread_settings(config)):
        screen.say(f"warning: {warning}")
    _carry_through(folder, config, task, learner, screen, prewarmed)
    return folder


def _create_folder(config: RunConfig, name: str, learner: Learner) -> RunFolder:
    """Create the folder of a new run with its first checkpoint.

    Raises
    ------
    ConfigError
        If the folder named in the configuration exists.
    RunError
        If it cannot be written.
    """
    while True:
        folder = RunFolder.choose(config, name)
        with _as_run_error(folder):
            try:
                folder.create(config, lambda: learner.save(folder.checkpoint))  # noqa: B023
                return folder
            except FileExistsError:
                if not folder.path.exists():
                    raise
                # another training has just taken this name; choose the next one


def _refuse_channels_last(config: RunConfig, task: Task) -> None:
    """Raise a ConfigError for images with the channels last, which would be read as scrambled ones."""
    if config.agent.image_shape is None:
        return
    channels, height, width = config.agent.image_shape
    if (
        task.own_shape == (height, width, channels)
        and channels > 1
        and not height == width == channels
    ):
        raise ConfigError(
            f"agent.image_shape = {[channels, height, width]}, but the images of env = {config.env!r} have the shape "
            f"{task.own_shape}, with the channels last; move them to the front with "
            "gymnasium.wrappers.TransformObservation"
        )


def _without_an_end(env: str) -> str:
    """Return the warning for a task without a time limit, with a remedy."""
    said = "has no time limit: an episode that does not end by itself lasts as long as the run"
    if env == EXTERNAL:
        return f"{said}; if the program limits its episodes, give their length as env_options.episode_steps=N"
    if env.startswith(PARALLEL):
        return f"{said}; env_options.max_cycles=N limits it"
    return f"{said}; register it with max_episode_steps=N, or give env_options.max_episode_steps=N"


def resume(
    path: Path,
    overrides: list[str],
    screen: Screen,
    prewarmed: PrewarmedWorkers | None = None,
    *,
    discard_damaged: bool = False,
) -> RunFolder:
    """Continue a run from its last checkpoint.

    Parameters
    ----------
    path
        The run folder.
    overrides
        ``key=value`` for ``run.*`` except ``run.seed``, ``run.name`` and ``run.folder``, ``agent.device`` and
        ``workers.*`` except ``workers.agents``: the settings that may change in a run. ``run.select_episodes`` may not
        change once the policy has been selected, or if a finished training kept none to select from.
    screen
        Display of the progress.
    prewarmed
        Prestarted processes that become its workers.
    discard_damaged
        Continue without the records behind a damaged part of the experience log.

    Returns
    -------
    RunFolder
        The folder of the finished run.

    Raises
    ------
    ConfigError, RunError, Interrupted
        As :func:`train`; a corrupt checkpoint is a ``RunError``.
    """
    folder = RunFolder.find_own(path)
    before = folder.config()
    refuse_policy_alone(folder)
    config = with_overrides(before, overrides)
    _same_run(before, config)
    check_launcher(config.workers)
    with _as_run_error(folder):  # before the environment is imported
        if others := make_private(folder.path):
            screen.say(
                f"other users could read {folder.path} (mode 07{others:02o}), which holds the session numbers of its "
                "workers; it is now accessible to you only (0700)"
            )
    task = _prepare(config, screen, prewarmed)
    _note_training(config, screen)
    with _as_run_error(folder):
        folder.lock()
        learner = load_learner(folder, config.agent.device)
        if learner.algorithm.has_diverged:
            raise RunError(
                f"the checkpoint of {path} was written after learning had diverged, and no earlier one is kept; begin "
                "a new run with a smaller agent.learning_rate"
            )
        if _is_finished(learner, config.run.steps):
            _refuse_late_selection(folder, before, config, learner)
            if _has_nothing_to_evaluate(folder, config):
                raise ConfigError(_what_is_left(path, before, config, learner))
        folder.write_config(config)
    screen.say(
        f"resuming {folder.path} from its checkpoint at {learner.environment_steps} environment steps"
    )
    reported = set(unread_settings(before))
    for warning in (each for each in unread_settings(config) if each not in reported):
        screen.say(f"warning: {warning}")
    _carry_through(
        folder, config, task, learner, screen, prewarmed, discard_damaged=discard_damaged
    )
    return folder


def _prepare(config: RunConfig, screen: Screen, prewarmed: PrewarmedWorkers | None) -> Task:
    """Return the task, and compile the learner's functions while the prewarmed processes get ready."""
    task = prewarmed.task(seconds=1.0) if prewarmed else None
    compiles, warmed_up = "compiling the learner (once per machine)", False
    # the delay is most likely the compilation of a flow
    if task is None and prewarmed and prewarmed.is_busy:
        with reporting_if_slow(compiles, screen.say), contextlib.suppress(ValueError):
            run_warmup(config.agent, *_LIKELY_SPACES)
            warmed_up = True
        task = _first_look(config, screen, prewarmed)
    task = task or describe_task(config.env, config.options_in_training)
    refuse_too_large(config, task)
    if not (warmed_up and isinstance(task.action_space, Box)):
        # Learner reports what does not fit
        with reporting_if_slow(compiles, screen.say), contextlib.suppress(ValueError):
            run_warmup(config.agent, task.observation_space, task.action_space, task.agents_per_env)
    return task


def _first_look(config: RunConfig, screen: Screen, prewarmed: PrewarmedWorkers) -> Task | None:
    """Wait for the first process's description of the task, with a message if it takes long; None if it has none.

    Raises
    ------
    RunError
        If an environment other than a flow does not return from its first reset or step. A flow reports its progress.
    ConfigError
        If the task has ended the process.
    """
    if is_flow(config.env):
        return prewarmed.task()
    limit = FIRST_LOOK + config.workers.step_timeout
    what = f"waiting for the first reset and step of env = {config.env!r}"
    with reporting_if_slow(what, screen.say, first=10.0):
        task = prewarmed.task(seconds=limit)
    if prewarmed.is_busy:
        raise RunError(
            f"env = {config.env!r} did not finish its creation, first reset and first step within {limit:g} s; a "
            "larger workers.step_timeout, the time limit of a step, extends this"
        )
    return task


def _note_training(config: RunConfig, screen: Screen) -> None:
    """Note that the user runs this code, so that the run can be evaluated and filmed without ``--trust``."""
    if sentence := note_training(config.env, config.agent.written_name):
        screen.say(f"warning: {sentence}")


def _is_finished(learner: Learner, steps: int) -> bool:
    """Return whether all steps are done, the outcomes of all actions have arrived, and no gradient step is due."""
    return (
        learner.environment_steps >= steps
        and not learner.collector.open_episodes.is_waiting.any()
        and not learner.updates_due()
    )


def _what_is_left(path: Path, before: RunConfig, config: RunConfig, learner: Learner) -> str:
    """Return the message of a run that is complete: how to train longer and, if that was asked, evaluate it again."""
    message = (
        f"run {path} is finished: it has done {learner.environment_steps} of {config.run.steps} steps; to train "
        f"longer, give a larger number, such as {_longer(config, learner)}"
    )
    episodes = config.run.evaluate_episodes
    if episodes in (0, before.run.evaluate_episodes):
        return message
    line = shlex.join(["flowsim", "evaluate", str(path), "--episodes", str(episodes)])
    return f"{message}; to evaluate it over {episodes} episodes, run `{line}`"


def _longer(config: RunConfig, learner: Learner) -> str:
    """Return the setting of a longer training."""
    return f"run.steps={2 * max(config.run.steps, learner.environment_steps)}"


def _refuse_late_selection(
    folder: RunFolder, before: RunConfig, config: RunConfig, learner: Learner
) -> None:
    """Raise a ConfigError for a changed selection of the policy of a finished training that can no longer be made."""
    asked = config.run.select_episodes
    if asked == before.run.select_episodes:
        return
    if folder.selection.exists():
        why = "its policy has been selected"
    elif asked and not kept_policies(folder.candidates):
        why = "it kept no policies to select from"
    else:
        return
    raise ConfigError(
        f"run.select_episodes = {asked}: the training of {folder.path} is finished and {why}; "
        f"a longer one, such as {_longer(config, learner)}, selects from its last third"
    )


def is_complete(folder: RunFolder) -> bool:
    """Return whether a run has neither training nor evaluation left to do.

    Raises
    ------
    RunError, ConfigError
        As :func:`load_learner`.
    """
    config = folder.config()
    learner = load_learner(folder, "cpu")
    return _is_finished(learner, config.run.steps) and _has_nothing_to_evaluate(folder, config)


def _has_nothing_to_evaluate(folder: RunFolder, config: RunConfig) -> bool:
    """Return whether the policy is chosen and evaluated; a run may be stopped after its last checkpoint."""
    return (not config.run.select_episodes or folder.selection.exists()) and (
        not config.run.evaluate_episodes or "after" in _evaluated(folder)
    )


def _evaluated(folder: RunFolder) -> dict[str, Any]:
    """Return what has been evaluated so far."""
    if not folder.evaluation.exists():
        return {}
    return read_json(folder.evaluation)


def load_learner(folder: RunFolder, device: str | None = None) -> Learner:
    """Load the learner from a run's checkpoint, onto ``device`` if given.

    Raises
    ------
    RunError
        If the checkpoint is missing, truncated or damaged.
    ConfigError
        If this machine does not have the device.
    """
    try:
        return Learner.load(folder.checkpoint, device)
    except DeviceError as error:
        raise ConfigError(f"{error}; agent.device=cpu continues without one") from error
    except (OSError, CheckpointError) as error:
        raise RunError(describe_unusable(folder.checkpoint, error)) from error


def _same_run(before: RunConfig, after: RunConfig) -> None:
    """Raise an error for changes that a resumed run does not allow."""
    fixed: dict[str, Callable[[RunConfig], Any]] = {
        "env": lambda c: c.env,
        "env_options": lambda c: c.env_options,
        "training_options": lambda c: c.training_options,
        "agent": lambda c: c.agent.model_copy(update={"device": None}),
        "workers.agents": lambda c: c.workers.agents,
        "run.seed": lambda c: c.run.seed,
        "run.name": lambda c: c.run.name,
        "run.folder": lambda c: c.run.folder,
    }
    for key, value in fixed.items():
        if value(before) != value(after):
            raise ConfigError(
                f"{key} cannot be changed when a run is resumed; begin a new run with `flowsim train`"
            )


@contextlib.contextmanager
def _as_run_error(folder: RunFolder) -> Iterator[None]:
    """Turn an OSError into a RunError with a message for the user."""
    try:
        yield
    except OSError as error:
        raise RunError(describe_os_error(error, folder.path)) from error


def _carry_through(
    folder: RunFolder,
    config: RunConfig,
    task: Task,
    learner: Learner,
    screen: Screen,
    prewarmed: PrewarmedWorkers | None,
    *,
    discard_damaged: bool = False,
) -> None:
    """Evaluate the untrained policy, train, choose the final policy and evaluate it."""
    with contextlib.ExitStack() as stack:
        stack.callback(folder.unlock)
        stack.enter_context(_as_run_error(folder))
        stack.enter_context(_adding_resume_hint(folder))
        signals = stack.enter_context(Signals())
        evaluation = _evaluated(folder)
        if config.run.evaluate_episodes and not learner.environment_steps:
            screen.say(
                f"evaluating the untrained policy over {config.run.evaluate_episodes} episodes"
            )
            evaluation["before"] = _evaluate(config, learner, screen, deterministic=True)
            _write_evaluation(folder, evaluation, "before", learner)
        if not _is_finished(learner, config.run.steps):
            Training(
                folder, config, task, learner, screen, signals, prewarmed,
                discard_damaged=discard_damaged,
            ).carry_out()  # fmt: skip
            evaluation = _evaluated(folder)  # without that of a shorter training
        if config.run.select_episodes and not folder.selection.exists():
            choose_policy(folder, config, learner, screen)
        if config.run.evaluate_episodes:
            screen.say(
                f"evaluating the trained policy and the baselines over {config.run.evaluate_episodes} episodes each"
            )
            pool = stack.enter_context(
                EvaluationPool(
                    config.env,
                    config.env_options,
                    max_actions=config.run.evaluate_max_actions,
                )
            )
            evaluation["drawing"] = _evaluate(config, learner, screen, pool, deterministic=False)
            with _showing_progress(config, screen) as progress:
                evaluation["after"] = evaluate_with_baselines(
                    config.env,
                    config.env_options,
                    _controller(learner, deterministic=True),
                    episodes=config.run.evaluate_episodes,
                    seed=EVALUATION_SEED,
                    progress=progress,
                    pool=pool,
                )
            _write_evaluation(folder, evaluation, "after", learner)


@contextlib.contextmanager
def _adding_resume_hint(folder: RunFolder) -> Iterator[None]:
    """Give an interruption without a text, such as one during an evaluation, a message on how to continue."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        if str(interruption):
            raise
        raise Interrupted(
            f"stopped; continue with `{folder.resume_line}`", number_of(interruption)
        ) from None


@contextlib.contextmanager
def _showing_progress(
    config: RunConfig, screen: Screen
) -> Iterator[Callable[[str, int, int], None]]:
    """Limit the time of each action of an evaluation; yields a function that shows its progress."""
    episodes = config.run.evaluate_episodes
    with limiting_actions(config, episodes, screen.say) as acted:

        def progress(name: str, over: int, actions: int) -> None:
            acted()
            screen.evaluating(name, over, episodes, actions)

        yield progress


def _evaluate(
    config: RunConfig,
    learner: Learner,
    screen: Screen,
    pool: EvaluationPool | None = None,
    *,
    deterministic: bool,
) -> dict[str, Any]:
    name = "agent" if deterministic else SAMPLED
    with _showing_progress(config, screen) as progress:
        found = evaluate(
            config.env,
            config.env_options,
            _controller(learner, deterministic=deterministic),
            episodes=config.run.evaluate_episodes,
            seed=EVALUATION_SEED,
            progress=lambda over, actions: progress(name, over, actions),
            pool=pool,
            max_actions=config.run.evaluate_max_actions,
        )
    return found.summary() | {"seed": EVALUATION_SEED}


def _controller(learner: Learner, *, deterministic: bool) -> PolicyController:
    return PolicyController(learner.policy(), deterministic=deterministic, seed=EVALUATION_SEED)


def _write_evaluation(
    folder: RunFolder, evaluation: dict[str, Any], which: str, learner: Learner
) -> None:
    write_atomically(folder.evaluation, json.dumps(evaluation, indent=1).encode())
    log_evaluation(folder, evaluation[which], learner.environment_steps)
