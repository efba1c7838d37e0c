"""Evaluation of a task outside Python: its programs connect to the service of a run, whose policy only acts.

This module is in :mod:`coupling.run` because it serves a run's folder; the episodes and their returns are in
:mod:`coupling.evaluation.acting`.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError, RunError
from coupling.evaluation.acting import CONTROLLERS, Acting
from coupling.evaluation.pool import MOST_ACTIONS
from coupling.launch.manual import ManualLauncher
from coupling.run.folder import RunFolder
from coupling.run.policies import load_policy
from coupling.run.screen import Screen
from coupling.run.serving import terms_of, write_connection_of
from coupling.run.supervisor import Supervisor
from coupling.service.experience import ExperienceLog
from coupling.service.server import Server
from coupling.settings.config import RunConfig
from coupling.wire.address import endpoint_to_bind
from coupling.wire.security import Keys
from coupling.worker.environments import describe_task
from rl_agent.rollout.seeds import Purpose, episode_seed

__all__ = ["evaluate_external"]

_SUPERVISE_EVERY = 0.2  # seconds
_FAREWELL = 12.0  # seconds: a program that has lost its learner reconnects within ten
_NO_LIMIT = 2**62


def evaluate_external(
    folder: RunFolder,
    config: RunConfig,
    screen: Screen,
    *,
    episodes: int,
    deterministic: bool,
    seed: int,
    max_actions: int | None = None,
) -> dict[str, Any]:
    """Let programs connect, act for them, and evaluate as :func:`coupling.evaluation.evaluate.evaluate_with_baselines`.

    The connection file is that of the run, so the run must not be training at the same time.

    Parameters
    ----------
    folder
        Folder of the run.
    config
        Settings of the run, with the options of the evaluated task.
    screen
        Display of the progress.
    episodes
        Number of episodes of each controller.
    deterministic
        Whether the policy acts with its mean.
    seed
        Seed of the initial conditions: environment i starts with the seed ``episode_seed(EVALUATION, seed, i)``.
    max_actions
        Maximum length of an episode in actions. None: ``env_options.episode_steps``, or without it the default of
        :class:`coupling.evaluation.pool.EvaluationPool`.

    Raises
    ------
    ConfigError
        For fewer episodes than there are environments.
    RunError
        If no program connects in time, the programs fail repeatedly, or an episode is longer than allowed, since only
        its program can end it.
    """
    workers = config.workers.model_copy(update={"launcher": "none"})
    layout, task = workers.agents_of_each(), describe_task(config.env, config.env_options)
    if episodes < sum(layout):
        raise ConfigError(
            f"--episodes {episodes}: the run's programs have {sum(layout)} environments, and each plays at least one "
            "episode"
        )
    acting = Acting(
        load_policy(folder), sum(layout), episodes, deterministic=deterministic, seed=seed
    )
    terms = terms_of(
        config,
        task,
        config.env_options,
        lambda agent, session: episode_seed(Purpose.EVALUATION, seed, agent, session),
    )
    endpoint = endpoint_to_bind(workers.transport, workers.bind)
    keys = Keys.draw() if workers.are_encrypted else None
    with contextlib.ExitStack() as stack:
        folder.lock()
        stack.callback(folder.unlock)
        log = ExperienceLog(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(log.close)
        log.begin(0)
        server = Server(acting, endpoint, terms, _NO_LIMIT, log, keys)
        stack.callback(lambda: server.close("the evaluation is over", _FAREWELL))
        write_connection_of(folder, config, config.env_options, server.endpoint, keys)
        stack.callback(lambda: folder.connection.unlink(missing_ok=True))
        launcher = ManualLauncher(folder.connection, layout, external=True)
        supervisor = Supervisor(server, launcher, workers, screen.say)
        screen.say(
            f"the first episode of each environment has a held-out seed (evaluation seed {seed}); its program chooses "
            "the later ones"
        )
        bound = max_actions or task.episode_steps or MOST_ACTIONS
        _play(server, supervisor, acting, screen, len(CONTROLLERS) * episodes, bound)
    found = {name: evaluation.summary() for name, evaluation in acting.evaluations().items()}
    return {"task": config.env} | found.pop("agent") | {"baselines": found}


def _play(
    server: Server,
    supervisor: Supervisor,
    acting: Acting,
    screen: Screen,
    episodes: int,
    bound: int,
) -> None:
    """Serve until all episodes are over."""
    supervise = time.monotonic()
    while not acting.is_over:
        server.turn()
        if acting.longest > bound:
            raise RunError(
                f"an episode is longer than {bound} actions, the limit of an evaluation (--max-actions), and only its "
                "program can end it"
            )
        if time.monotonic() >= supervise:
            supervise = time.monotonic() + _SUPERVISE_EVERY
            supervisor.look()
            screen.evaluating("programs", acting.over, episodes, int(acting.actions.max()))
