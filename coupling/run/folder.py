"""The folder of a run: its layout, permissions and lock, and how it is created and found."""

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

from cases.error_messages import did_you_mean, nearest
from coupling.errors import ConfigError, RunError
from coupling.files import (
    Table,
    make_folders,
    private_opener,
    read_json,
    refuse_foreign,
    write_atomically,
)
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
        """Command that resumes the run, quoted for a shell."""
        return shlex.join(["flowsim", "resume", str(self.path)])

    @classmethod
    def choose(cls, config: RunConfig, preset: str) -> "RunFolder":
        """Return the folder of a new run: the one named in ``config``, or the first free ``PRESET-N``.

        Raises
        ------
        ConfigError
            If the named folder exists.
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
        """Return the folder of an existing run.

        Parameters
        ----------
        path
            The folder.
        also
            Names to suggest if it does not exist.

        Raises
        ------
        ConfigError
            If there is none.
        """
        folder = cls(path)
        if not folder.config_file.is_file():
            what = "does not exist" if not path.exists() else "is not a folder"
            if path.is_dir():
                what = "is not a run folder (it has no config.yaml)"
            if folder.checkpoint.is_file():
                what = "has a policy but no config.yaml, which names its task"
            near = [
                run.parent
                for place in (path.parent, path.parent / "runs")
                for run in sorted(place.glob("*/config.yaml"))
                if run.parent != path
            ]
            meant = nearest(path.name, [run.name for run in near] + list(also))
            found = next((str(run) for run in near if run.name == meant), meant)
            instead = did_you_mean(found, "give the folder of a run, such as runs/NAME")
            raise ConfigError(f"run {path} {what}; {instead}")
        return folder

    def create(self, config: RunConfig, first_files: Callable[[], None]) -> None:
        """Create the private folder with its configuration and first checkpoint, or leave nothing behind.

        Parameters
        ----------
        config
            The resolved configuration.
        first_files
            Writes the other files that a resumable folder needs.
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
        """Return the folder of a run to continue, to which no other user can have written.

        Raises
        ------
        ConfigError
            If there is none.
        RunError
            If others own something in it, or could write to it.
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
            If its checksum does not match.
        ConfigError
            If it is not a valid configuration.
        """
        self.config_text()
        return load_config(str(self.config_file), imports=False)

    def config_text(self) -> bytes:
        """Read the text of the configuration, below its checksum if it has one.

        Raises
        ------
        RunError
            If the checksum does not match.
        """
        content = self.config_file.read_bytes()
        first, _, rest = content.partition(b"\n")
        if not first.startswith(_SEAL[:8]):
            return content
        if first + b"\n" != _SEAL % zlib.crc32(rest):
            raise RunError(
                f"{self.config_file} differs from what flowsim wrote: it is damaged or was edited by hand; if you "
                "edited it, remove its first line"
            )
        return rest

    def lock(self) -> None:
        """Lock the folder against training by another process; the system frees the lock of a dead process.

        Raises
        ------
        RunError
            If another process holds the lock.
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
        """Release the lock of the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def note_start(self, environment_steps: int, *, draws_itself: bool, launcher: str) -> int:
        """Append a record of this start, with versions, to ``starts.jsonl``.

        Parameters
        ----------
        environment_steps
            Environment steps of the learner so far.
        draws_itself
            Whether the environment can be filmed.
        launcher
            Name of the launcher.

        Returns
        -------
        int
            Number of earlier starts of the run.
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

    def forget_results(self) -> None:
        """Delete the choice and the evaluation of the trained policy; the evaluation before the training stays.

        Raises
        ------
        RunError
            If the file of the evaluation is damaged.
        """
        self.selection.unlink(missing_ok=True)
        if self.evaluation.exists():
            kept = {key: one for key, one in read_json(self.evaluation).items() if key == "before"}
            write_atomically(self.evaluation, json.dumps(kept, indent=1).encode())

    def draws_itself(self) -> bool:
        """Return whether the run's environment can be filmed, as noted at its last start; nothing of it is imported."""
        return self._last_start().get("draws_itself") is True

    def launcher_before(self) -> str:
        """Return the launcher noted at the last start, or an empty string if unknown."""
        return str(self._last_start().get("launcher", ""))

    def _last_start(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, IndexError, RecursionError):
            last = json.loads(self.starts.read_text(encoding="utf-8").splitlines()[-1])
            return last if isinstance(last, dict) else {}
        return {}


def statistics_table(folder: RunFolder) -> Table:
    """Return the table of the learner's statistics."""
    return Table(folder.statistics, "environment_steps", "seconds")


def episodes_table(folder: RunFolder) -> Table:
    """Return the table of finished episodes."""
    return Table(folder.episodes, "environment_steps", "return", "length")
