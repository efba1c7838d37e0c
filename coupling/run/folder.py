"""The folder of a run: what lies where, who may write in it, and how it is begun and found again."""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from cases.sentences import did_you_mean, nearest
from coupling.errors import ConfigError, RunError
from coupling.files import Table, make_folders, private_opener, refuse_foreign, write_atomically
from coupling.origin import provenance
from coupling.settings.config import RunConfig, dump_config, load_config
from coupling.worker.window import FLOW_FILE, REQUEST_FILE

__all__ = ["RunFolder", "episodes_table", "statistics_table"]

_SEAL = b"# crc32 %08x of the lines below, written by flowsim\n"


class RunFolder:
    """Paths and bookkeeping of one run.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.checkpoint = path / "checkpoint.npz"
        self.connection = path / "connection.json"
        self.status = path / "status.json"
        self.starts = path / "starts.jsonl"
        self.evaluation = path / "evaluation.json"
        self.selection = path / "selection.json"
        self.candidates = path / "candidates"
        self.statistics = path / "statistics.csv"
        self.episodes = path / "episodes.csv"
        self.tensorboard = path / "tensorboard"
        self.workers = path / "workers"
        self.experience = path / "experience"
        self.watch = path / REQUEST_FILE
        self.flow = path / FLOW_FILE
        self._lock: IO[str] | None = None

    @property
    def resume_line(self) -> str:
        """The command that goes on with the run, as a shell takes it."""
        return shlex.join(["flowsim", "resume", str(self.path)])

    @classmethod
    def choose(cls, config: RunConfig, preset: str) -> "RunFolder":
        """Return the folder that a new run will have: the one named, or the first free ``PRESET-N``.

        Raises
        ------
        ConfigError
            When the named one exists.
        """
        runs = Path(config.run.folder)
        if config.run.name is not None:
            path = runs / config.run.name
            if path.exists():
                raise ConfigError(
                    f"run.name = {config.run.name!r}: the folder {path} exists already; choose another name, "
                    f"or continue it with `{cls(path).resume_line}`"
                )
            return cls(path)
        return cls(
            next(path for n in range(1, 10**9) if not (path := runs / f"{preset}-{n}").exists())
        )

    @classmethod
    def find(cls, path: Path, also: Iterable[str] = ()) -> "RunFolder":
        """Return an existing run's folder.

        Parameters
        ----------
        path
            The folder.
        also
            Names that may be meant where it is not there.

        Raises
        ------
        ConfigError
            When there is none.
        """
        folder = cls(path)
        if not folder.config_file.is_file():
            what = "is no run folder (it has no config.yaml)" if path.is_dir() else "does not exist"
            if folder.checkpoint.is_file():
                what = "has a policy but no config.yaml, which names its task"
            near = [
                run.parent
                for place in (path.parent, path.parent / "runs")
                for run in sorted(place.glob("*/config.yaml"))
            ]
            meant = nearest(path.name, [run.name for run in near] + list(also))
            found = next((str(run) for run in near if run.name == meant), meant)
            instead = did_you_mean(found, "give the folder of a run, such as runs/NAME")
            raise ConfigError(f"run {path} {what}; {instead}")
        return folder

    def create(self, config: RunConfig, first_files: Callable[[], None]) -> None:
        """Make the folder, its owner's alone, with its configuration and first checkpoint, or leave nothing behind.

        Parameters
        ----------
        config
            The resolved configuration.
        first_files
            Writes what else belongs into a folder that can be resumed.
        """
        make_folders(self.path.parent)
        self.path.mkdir(mode=0o700)
        try:
            self.write_config(config)
            self.lock()
            first_files()
        except BaseException:
            self.unlock()
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    @classmethod
    def find_own(cls, path: Path) -> "RunFolder":
        """Return the folder of a run to go on with: nobody else can have put anything there.

        Raises
        ------
        ConfigError
            When there is none.
        RunError
            When others own something in it, or could write to it.
        """
        folder = cls.find(path)
        refuse_foreign(folder.path)
        return folder

    def write_config(self, config: RunConfig) -> None:
        """Write the resolved configuration, with a checksum in its first line."""
        text = dump_config(config).encode()
        write_atomically(self.config_file, _SEAL % zlib.crc32(text) + text)

    def config(self) -> RunConfig:
        """Read the resolved configuration; no code that it names is imported (:mod:`coupling.run.trust`).

        Raises
        ------
        RunError
            When it is not what was written.
        ConfigError
            When it is none.
        """
        self.config_text()
        return load_config(str(self.config_file), imports=False)

    def config_text(self) -> bytes:
        """Read what stands below the checksum of the configuration, if it has one.

        Raises
        ------
        RunError
            When it is not what was written.
        """
        content = self.config_file.read_bytes()
        first, _, rest = content.partition(b"\n")
        if not first.startswith(_SEAL[:8]):
            return content
        if first + b"\n" != _SEAL % zlib.crc32(rest):
            raise RunError(
                f"{self.config_file} is not what flowsim wrote: it is damaged, or was changed by hand; "
                "if you changed it, remove its first line"
            )
        return rest

    def lock(self) -> None:
        """Make sure that no other process trains in this folder; the system frees the lock of a dead one.

        Raises
        ------
        RunError
            When another process holds it.
        """
        lock = os.fdopen(private_opener(str(self.path / ".lock"), os.O_RDWR | os.O_CREAT), "r+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise RunError(
                f"run {self.path} is being trained by another process; stop that one first"
            ) from error
        self._lock = lock

    def unlock(self) -> None:
        """Let another process train in this folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def note_start(self, environment_steps: int, *, draws_itself: bool, launcher: str) -> int:
        """Append what is started, with which versions, to ``starts.jsonl``.

        Parameters
        ----------
        environment_steps
            Those of the learner so far.
        draws_itself
            Whether the environment can be filmed.
        launcher
            Who starts the workers.

        Returns
        -------
        int
            How often the run had been started before.
        """
        before = self.starts.read_bytes() if self.starts.exists() else b""
        epoch = len(before.splitlines())
        start: dict[str, Any] = {
            "epoch": epoch,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "environment_steps": environment_steps,
            "draws_itself": draws_itself,
            "launcher": launcher,
            "pid": os.getpid(),
            **provenance(),
        }
        with open(self.starts, "a", opener=private_opener) as file:
            torn = not before.endswith(b"\n") and before != b""
            file.write("\n" * torn + json.dumps(start) + "\n")
        return epoch

    def draws_itself(self) -> bool:
        """Tell whether the run's environment can be filmed, as its last start noted; nothing of it is imported."""
        return self._last_start().get("draws_itself") is True

    def launcher_before(self) -> str:
        """Return who started the workers of the last start, as that noted; nothing where it is not known."""
        return str(self._last_start().get("launcher", ""))

    def _last_start(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, IndexError, RecursionError):
            last = json.loads(self.starts.read_text(encoding="utf-8").splitlines()[-1])
            return last if isinstance(last, dict) else {}
        return {}


def statistics_table(folder: RunFolder) -> Table:
    """Return the table of the learner's numbers."""
    return Table(folder.statistics, "environment_steps", "seconds")


def episodes_table(folder: RunFolder) -> Table:
    """Return the table of finished episodes."""
    return Table(folder.episodes, "environment_steps", "return", "length")
