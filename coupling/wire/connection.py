"""The file with which a worker finds its learner: ``connection.json`` in the run folder."""

import hashlib
import json
import os
import shlex
import stat
import struct
from pathlib import Path
from typing import Any

import msgspec
from zmq.utils import z85

from coupling.errors import ConfigError
from coupling.files import write_atomically

__all__ = ["Connection", "read_connection", "task_hash", "write_connection"]


class Connection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address and task of the learner.

    Attributes
    ----------
    endpoint
        ZeroMQ address of the learner's ROUTER.
    run
        Name of the run, for messages.
    env, env_options
        The task that a worker creates.
    patience
        Seconds after which a worker that finds no learner gives up.
    environments
        Number of environments of each worker, by its slot.
    server_key, public_key, secret_key
        Z85 text: the learner's public key and the workers' own pair; empty without encryption.
    task_hash
        Result of :func:`task_hash`, for workers that cannot compute it; computed unless given.
    """

    endpoint: str
    run: str
    env: str
    env_options: dict[str, Any]
    patience: float
    environments: list[int] = []
    server_key: str = ""
    public_key: str = ""
    secret_key: str = ""
    task_hash: str = ""

    def __post_init__(self) -> None:
        if not self.task_hash:
            msgspec.structs.force_setattr(self, "task_hash", task_hash(self.env, self.env_options))

    def __repr__(self) -> str:
        # without the keys, because it may end up in a log
        return f"Connection({self.run!r} at {self.endpoint})"

    def environments_at(self, slot: int | None) -> int:
        """Return the number of environments of a worker.

        Parameters
        ----------
        slot
            Number of the worker; None for any, if all have the same number.

        Raises
        ------
        ConfigError
            If there is no such worker, or the slot is needed because the numbers differ.
        """
        counts = self.environments
        if slot is None and len(set(counts)) != 1:
            raise ConfigError(
                f"the workers of run {self.run} host {', '.join(map(str, sorted(set(counts))))} environments; give "
                "--slot N or --environments K"
            )
        if slot is not None and not 0 <= slot < len(counts):
            raise ConfigError(f"--slot {slot}: run {self.run} has workers 0 to {len(counts) - 1}")
        return counts[slot or 0]


def task_hash(env: str, env_options: dict[str, Any]) -> str:
    """Return a hash with which both sides check that they have the same task."""
    text = json.dumps([env, env_options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_connection(path: Path, connection: Connection) -> None:
    """Write the connection file with mode 0600."""
    write_atomically(path, msgspec.json.encode(connection))


def read_connection(path: Path) -> Connection:
    """Read a connection file.

    Raises
    ------
    ValueError
        If it is not a valid connection file, or contains keys and others can read it.
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        content = file.read()
    try:
        connection = msgspec.json.decode(content, type=Connection)
    except ValueError as error:  # text that is not UTF-8 does not raise a DecodeError
        raise ValueError(f"{path} is not a connection file: {error}") from error
    keys = [connection.server_key, connection.public_key, connection.secret_key]
    if any(keys):
        if not all(map(_is_key, keys)):
            raise ValueError(
                f"{path} is not a connection file: its three keys must be Z85 text of 40 characters"
            )
        if mode & 0o077:
            remedy = shlex.join(["chmod", "600", str(path)])
            raise ValueError(
                f"{path} contains keys, and other users may read it (mode {mode:04o}); restrict it to yourself: "
                f"{remedy}"
            )
    return connection


def _is_key(text: str) -> bool:
    try:
        return len(z85.decode(text.encode())) == 32
    except (KeyError, ValueError, struct.error):
        return False
