"""The file by which a worker finds its learner: ``connection.json`` in the run folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from coupling.files import write_atomically

__all__ = ["Connection", "read_connection", "task_hash", "write_connection"]


class Connection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the learner listens and which task it learns.

    Attributes
    ----------
    endpoint
        ZeroMQ address of the learner's ROUTER.
    run
        Name of the run, for messages.
    env, env_options
        The task that a worker makes.
    patience
        Seconds after which a worker that finds no learner gives up.
    task_hash
        What :func:`task_hash` gives for the task, unless given: for workers that cannot compute it.
    """

    endpoint: str
    run: str
    env: str
    env_options: dict[str, Any]
    patience: float
    task_hash: str = ""

    def __post_init__(self) -> None:
        if not self.task_hash:
            msgspec.structs.force_setattr(self, "task_hash", task_hash(self.env, self.env_options))


def task_hash(env: str, env_options: dict[str, Any]) -> str:
    """Return a hash by which both sides know that they mean the same task."""
    text = json.dumps([env, env_options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_connection(path: Path, connection: Connection) -> None:
    """Write the file with mode 0600."""
    write_atomically(path, msgspec.json.encode(connection))


def read_connection(path: Path) -> Connection:
    """Read the file.

    Raises
    ------
    ValueError
        When it is not what :func:`write_connection` writes.
    OSError
        When it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Connection)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is no connection file: {error}") from error
