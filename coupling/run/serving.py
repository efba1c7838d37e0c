"""Terms and connection file of a run for its service and workers, in training and external evaluations."""

from collections.abc import Callable
from typing import Any

from coupling.run.folder import RunFolder
from coupling.service.server import Terms
from coupling.settings.config import RunConfig
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.security import Keys
from coupling.worker.environments import Task

__all__ = ["terms_of", "write_connection_of"]


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
