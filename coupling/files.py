"""Files of a run folder that are either whole or not there, and tables that a resumed run goes on with."""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError

__all__ = ["Table", "refuse_unwritable", "write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 beside ``path`` and rename it, so that a reader never sees half of it.

    Raises
    ------
    OSError
        When it cannot be written; nothing is left beside the old file then.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def refuse_unwritable(key: str, path: Path, *, is_folder: bool = False) -> None:
    """Refuse a path that nothing can be written to, before any work is done for it.

    Parameters
    ----------
    key
        The setting or option that names it.
    path
        It need not exist yet: what has to be writable is the first parent that does.
    is_folder
        Whether it is to be a folder itself.

    Raises
    ------
    ConfigError
        With the folder, and why.
    """
    folder = path.absolute() if is_folder else path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise ConfigError(f"{key} = {path}: {folder} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{key} = {path}: the folder {folder} cannot be written to")


class Table:
    """A CSV file that grows by rows and whose last rows can be taken back.

    Parameters
    ----------
    path
        The file; it is made with the first row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []
        if path.exists():
            with path.open(newline="") as file:
                self._columns = next(csv.reader(file), [])

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows, all or none; a new column is added to the whole file."""
        new = [key for row in rows for key in row if key not in self._columns]
        if new:
            self._columns += list(dict.fromkeys(new))
            self._rewrite(self.read())
        before = self.path.stat().st_size
        try:
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, self._columns).writerows(rows)
        except OSError:
            os.truncate(self.path, before)
            raise

    def read(self) -> list[dict[str, str]]:
        """Return all whole rows; a torn last line, left by a full disk or a kill, is not one."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            whole = [line for line in file if line.endswith("\n")]
        reader = csv.reader(whole)
        header = next(reader, [])
        return [dict(zip(header, row, strict=True)) for row in reader if len(row) == len(header)]

    def replace(self, rows: list[dict[str, str]]) -> None:
        """Keep these rows only: a resumed run takes back what it will write again."""
        if self.path.exists():
            self._rewrite(rows)

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        beside = self.path.with_name(f".{self.path.name}.new")
        try:
            with beside.open("w", newline="") as file:
                writer = csv.DictWriter(file, self._columns)
                writer.writeheader()
                writer.writerows(rows)
            beside.replace(self.path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
