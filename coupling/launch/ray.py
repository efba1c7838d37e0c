"""Workers on a Ray cluster: each one is a process that a detached actor keeps on some node.

Ray only places the actors and restarts them when they or their nodes die; the data path stays ZeroMQ. The learner
sends each actor the content of the connection file, which the actor writes with mode 0600 into a folder of its own and
which is not part of the state that Ray keeps of the actor. An actor that has not been asked for a report for
``workers.patience`` seconds has lost its learner; it ends its worker and itself and removes its folder. A learner that
is resumed before that finds the actors by name and takes over their running workers.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coupling.errors import RunError
from coupling.files import write_atomically
from coupling.launch.launcher import (
    Death,
    MendingLauncher,
    Place,
    describe_exit,
    last_stderr_lines,
    size_of,
    start_worker,
    worker_command,
    worker_environment,
)
from coupling.settings.config import WorkerSettings
from coupling.signals import ENDING
from coupling.wire.address import BIND_HINT, is_loopback

__all__ = ["Host", "RayLauncher", "Report"]

_REPORT_EVERY = 1.0  # seconds
_PLACED_WITHIN = 5.0  # seconds after which an actor without a place is reported
_ANSWER_WITHIN = 30.0  # seconds that the cluster may take to end its actors


@dataclass(frozen=True)
class Report:
    """State of a worker, as reported by its actor.

    Attributes
    ----------
    node, pid
        Host name and process ID of the worker; pid is 0 if the actor has started none since its own start.
    seconds
        How long the worker has been running.
    ended
        Exit code or signal, empty while it runs.
    words
        The last lines of its stderr, once it has ended.
    """

    node: str
    pid: int
    seconds: float
    ended: str
    words: str


class Host:
    """Actor that keeps one worker process on its node.

    Parameters
    ----------
    name
        Name of the actor and of its folder, so that an actor restarted on the same node finds the folder.
    slot, environments, threads
        Number of the worker, number of its environments, and its threads.
    outbox
        Whether the worker has an outbox, in the actor's folder.
    patience
        Seconds without a learner after which the actor ends itself.
    """

    def __init__(
        self, name: str, slot: int, environments: int, threads: int, outbox: bool, patience: float
    ) -> None:
        self._folder = _private_folder(name)
        self._connection, self._stderr = self._folder / "connection.json", self._folder / "stderr"
        self._outbox = self._folder / "outbox" if outbox else None
        self._slot, self._environments, self._threads, self._patience = (
            slot,
            environments,
            threads,
            patience,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._heard = time.monotonic()
        self._said_before = 0
        threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def host(self, connection: bytes) -> Report:
        """Write the connection file, in which a running worker finds its new learner; start one if none is running."""
        write_atomically(self._connection, connection)
        if self._process is None or self._process.poll() is not None:
            self._said_before = size_of(self._stderr)
            command = worker_command(self._connection, self._slot, self._environments, self._outbox)
            self._process = start_worker(
                command, worker_environment(self._threads), self._stderr, session=False
            )
            self._started = time.monotonic()
        return self.report()

    def report(self) -> Report:
        """Return the state of the worker."""
        now = self._heard = time.monotonic()
        node, process = socket.gethostname(), self._process
        if process is None:
            return Report(node, 0, 0.0, "its actor was started again", "")
        code = process.poll()
        if code is None:
            return Report(node, process.pid, now - self._started, "", "")
        return Report(
            node,
            process.pid,
            0.0,
            describe_exit(code),
            last_stderr_lines(self._stderr, self._said_before),
        )

    def end(self, patience: float) -> None:
        """Wait for the worker, which has been told to end, kill it if it does not, and remove all files."""
        if self._process is not None:
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _watch(self) -> None:
        """End everything when no learner has asked for a report for too long."""
        import ray

        while time.monotonic() - self._heard < self._patience:
            time.sleep(min(1.0, self._patience / 4))
        self.end(0.0)
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _private_folder(name: str) -> Path:
    """Create a folder that only this user can read, or use the existing one."""
    folder = Path(tempfile.gettempdir()) / f"flowsim-{name}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if (
        not folder.is_dir()
        or folder.is_symlink()
        or found.st_uid != os.getuid()
        or found.st_mode & 0o077
    ):
        raise PermissionError(f"{folder} already exists, and other users may be able to read it")
    return folder


@dataclass
class _Place(Place):
    """State of a worker slot, in which ``worker`` is the actor."""

    call: Any = None  # pending answer of the actor
    next_report: float = 0.0
    asked: float = 0.0  # time since which the actor has not answered
    report: Report | None = None


class RayLauncher(MendingLauncher[_Place]):
    """Launcher that keeps one detached actor for each worker.

    Parameters
    ----------
    workers
        The settings.
    connection
        The ``connection.json`` of the learner.
    folder
        Folder for the name by which a resumed run finds its actors.

    Raises
    ------
    RunError
        If there is no such cluster, or its other nodes could not reach the learner.
    """

    def __init__(self, workers: WorkerSettings, connection: Path, folder: Path) -> None:
        with _signal_handlers_kept():  # Ray installs its own handler of SIGTERM
            import ray

            self._ray = ray
            self._joined_here = not ray.is_initialized()
            if self._joined_here:
                try:
                    _connect_once(workers.ray.address)
                    ray.init(
                        address=workers.ray.address, log_to_driver=False, logging_level="ERROR"
                    )
                except (OSError, RuntimeError, ValueError) as error:
                    raise RunError(
                        f"workers.ray.address = {workers.ray.address!r}: there is no Ray cluster to join "
                        f"({' '.join(str(error).split())}); `ray start --head` starts one"
                    ) from error
        self._workers, self._connection = workers, connection
        self._counts = workers.agents_of_each()
        super().__init__([_Place() for _ in self._counts], workers.restarts)
        self._namespace = _name_of_run(folder)
        addresses = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        others = addresses - {ray.util.get_node_ip_address()}
        if others and is_loopback(workers.bind):
            raise RunError(
                f"workers.bind = {workers.bind} can be reached from this machine only, but the Ray cluster has other "
                f"nodes ({', '.join(sorted(others)[:3])}); give an address that they can reach, such as {BIND_HINT}"
            )

    def start(self) -> None:
        """Create or take over every actor, and end those of this run that are no longer needed."""
        for name in self._existing_names() - {
            self._name(slot) for slot in range(len(self._places))
        }:
            self._ray.kill(self._ray.get_actor(name, self._namespace))
        self._begin(range(len(self._places)))

    def _name(self, slot: int) -> str:
        """Return the name of an actor, which depends on the settings that it was created with."""
        workers = self._workers
        made_for = (
            self._counts[slot],
            workers.threads,
            workers.outbox,
            workers.patience,
            workers.ray,
        )
        return f"{slot}-{hashlib.sha256(repr(made_for).encode()).hexdigest()[:8]}"

    def _existing_names(self) -> set[str]:
        actors = self._ray.util.list_named_actors(all_namespaces=True)
        return {actor["name"] for actor in actors if actor["namespace"] == self._namespace}

    def _begin(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._spawn(slot)

    def _spawn(self, slot: int) -> None:
        place, name, workers = self._places[slot], self._name(slot), self._workers
        place.killed_for, place.report, place.asked = "", None, time.monotonic()
        actor = self._ray.remote(Host).options(
            name=name,
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=workers.restarts,
            num_cpus=workers.ray.cpus,
            num_gpus=workers.ray.gpus,
            scheduling_strategy="SPREAD",
        )
        place.worker = actor.remote(
            f"{self._namespace}-{name}",
            slot,
            self._counts[slot],
            workers.threads,
            workers.outbox,
            workers.patience,
        )
        self._ask(place)

    def _ask(self, place: _Place) -> None:
        """Ask an actor to host its worker or, if it does, for a report."""
        if place.report is None:
            place.call = place.worker.host.remote(self._connection.read_bytes())
        else:
            place.call = place.worker.report.remote()

    def _look_at(self, slot: int, place: _Place) -> Death | None:
        if place.call is not None:
            return self._hear(slot, place) if self._ray.wait([place.call], timeout=0)[0] else None
        if time.monotonic() >= place.next_report:
            self._ask(place)
        return None

    def _hear(self, slot: int, place: _Place) -> Death | None:
        """Process the answer of an actor."""
        ended, words = "", None
        try:
            place.report = report = self._ray.get(place.call)
            ended, words = report.ended, report.words
        except self._ray.exceptions.ActorUnavailableError:
            if place.report is not None:  # otherwise Ray is just restarting the actor
                ended = "its actor has died, or its node cannot be reached"
        except self._ray.exceptions.RayError as error:
            ended, words = "its actor is gone", _quote(str(error))
        place.call, place.next_report = None, time.monotonic() + _REPORT_EVERY
        if not ended:
            return None
        place.report = None
        return self._bury(slot, ended, words)

    def running_for(self, slot: int) -> float:
        """Return the seconds since the worker was started, 0 if it is not running or not placed yet."""
        report = self._places[slot].report
        return report.seconds if report is not None else 0.0

    def kill(self, slot: int, reason: str) -> None:
        """Kill a worker that hangs and its actor, which Ray restarts; :meth:`supervise` returns the death."""
        place = self._places[slot]
        if place.worker is not None and not place.killed_for:
            place.killed_for = reason
            self._ray.kill(place.worker, no_restart=False)

    def waits_for(self) -> str:
        """Return how many actors Ray has not placed yet, and what they need."""
        late = time.monotonic() - _PLACED_WITHIN
        asked = (
            place.asked
            for place in self._places
            if place.worker is not None and place.report is None
        )
        waiting = sum(since < late for since in asked)
        if not waiting:
            return ""
        return (
            f"waiting for Ray to place {waiting} of {len(self._places)} workers, each on a node with "
            f"{self._workers.ray.cpus:g} CPUs and {self._workers.ray.gpus:g} GPUs free (`ray status` shows the "
            "resources)"
        )

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, kill those that do not, and end all actors of the run."""
        ends = [
            place.worker.end.remote(patience) for place in self._places if place.worker is not None
        ]
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=patience + 1.0)
        self._close()
        until = time.monotonic() + _ANSWER_WITHIN
        while (names := self._existing_names()) and time.monotonic() < until:
            for name in names:
                with contextlib.suppress(ValueError):  # it has ended meanwhile
                    self._ray.kill(self._ray.get_actor(name, self._namespace))
            time.sleep(0.1)
        if self._joined_here:
            self._ray.shutdown()
        if names:
            raise RunError(
                f"Ray did not end the actors {', '.join(sorted(names))} of {self._namespace} when asked to"
            )


@contextlib.contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Restore the signal handlers that a library replaces."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _quote(text: str) -> str:
    """Return the end of Ray's output without colours, marked as a quotation."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).strip().splitlines()
    return "\n".join(f"  | {line}" for line in lines[-12:])


def _connect_once(address: str) -> None:
    """Connect to a cluster and disconnect, because Ray itself would try for minutes if nothing listens there."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=5.0).close()


def _name_of_run(folder: Path) -> str:
    """Return a unique name, stored in the run's folder so that it is the same after a resume."""
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / "ray-namespace"
    if not file.exists():
        write_atomically(file, f"flowsim-{secrets.token_hex(8)}".encode())
    return file.read_text()
