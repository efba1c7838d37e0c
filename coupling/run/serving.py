"""Terms and connection file of a run for its service and workers, in training and external evaluations."""

import math
from collections.abc import Callable
from typing import Any

from coupling.errors import ConfigError
from coupling.run.folder import RunFolder
from coupling.service.server import Terms
from coupling.settings.config import RunConfig
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.protocol import MAX_BODY, MAX_FLOATS, step_size
from coupling.wire.security import Keys
from coupling.worker.environments import Task

__all__ = ["refuse_too_large", "terms_of", "write_connection_of"]

_REST_OF_HELLO = 2**21
"""Bytes that are reserved for the rest of a HELLO with the last STEP, such as bounds of 65,536 actions."""


def refuse_too_large(config: RunConfig, task: Task) -> None:
    """Check that the messages of a run are not larger than the protocol allows.

    Raises
    ------
    ConfigError
        If an observation or an action has too many numbers, or a worker too many environments.
    """
    size, actions = task.observation_space.shape[0], len(task.action_bounds[0])
    for what, count in (("observation", size), ("action", actions)):
        if count > MAX_FLOATS:
            raise ConfigError(
                f"env = {config.env!r}: its {what} has {count} numbers, but at most {MAX_FLOATS} can be sent; wrap "
                "the environment to make it smaller, an image for example by gymnasium.wrappers.ResizeObservation"
            )
    workers = config.workers
    each = step_size(1, size, task.agents_per_env if task.agents_per_env > 1 else None)
    most, allowed = max(workers.agents_of_each()), (MAX_BODY - _REST_OF_HELLO) // each
    if most > allowed:
        instead = (
            f"workers.processes={math.ceil(workers.agents / allowed)} fits"
            if allowed
            else "wrap the environment to make its observations smaller"
        )
        raise ConfigError(
            f"workers.agents = {workers.agents} in workers.processes = {workers.processes} need messages of up to "
            f"{math.ceil(most * each / 2**20)} MiB, more than can be sent at once; {instead}"
        )


def terms_of(
    config: RunConfig,
    task: Task,
    env_options: dict[str, Any],
    seed_of: Callable[[int, int], int],
    *,
    epoch: int = 0,
    synchronous: bool = False,
) -> Terms:
    """Return the terms that the service of a run agrees on with its workers.

    Parameters
    ----------
    config
        Settings of the run.
    task
        Task of the run.
    env_options
        Options with which the workers create it.
    seed_of, epoch, synchronous
        As in :class:`coupling.service.terms.Terms`.
    """
    workers = config.workers
    low, high = task.action_bounds
    return Terms(
        agents_of_each=workers.agents_of_each(),
        observation_size=task.observation_space.shape[0],
        action_low=low,
        action_high=high,
        task_hash=task_hash(config.env, env_options),
        seed_of=seed_of,
        step_timeout=workers.step_timeout,
        heartbeat=workers.heartbeat,
        dead_after=workers.dead_after,
        patience=workers.patience,
        epoch=epoch,
        synchronous=synchronous,
        agents_per_env=task.agents_per_env,
    )


def write_connection_of(
    folder: RunFolder,
    config: RunConfig,
    env_options: dict[str, Any],
    endpoint: str,
    keys: Keys | None,
) -> None:
    """Write the connection file of a run, for workers that create its task with these options."""
    workers = config.workers
    connection = Connection(
        endpoint,
        folder.path.name,
        config.env,
        env_options,
        workers.patience,
        workers.agents_of_each(),
        **(keys.for_workers() if keys else {}),
    )
    write_connection(folder.connection, connection)
