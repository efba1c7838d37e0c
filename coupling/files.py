"""Files of a run folder: its owner's alone, either whole or not there; tables that a resumed run goes on with.

Who knows the number of a session can speak for its worker, and the checkpoint, the experience log and the outboxes hold
such numbers. So a run folder has mode 0700 and its files 0600, whatever the umask is.
"""

import csv
import io
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError

__all__ = [
    "Table",
    "expand_path",
    "make_private",
    "private_opener",
    "refuse_unwritable",
    "write_atomically",
]

_OTHERS = 0o077  # what anybody but the owner may do


def expand_path(text: str) -> str:
    """Return a path with ``~`` and ``$VARIABLES`` as a shell expands them, which does so only where it sees them.

    Raises
    ------
    ValueError
        For a variable that is not set, which no folder shall be named after.
    """
    if "$" in text and not os.path.lexists(text):  # it may be the name of a file that is there
        text = os.path.expandvars(text)
        if unset := re.search(r"\$(\w+|\{[^}]*\})", text):
            raise ValueError(f"the variable {unset[0]} is not set")
    return os.path.expanduser(text)


def private_opener(name: str, flags: int) -> int:
    """Open a file for :func:`open` so that a new one has mode 0600, and never through a symbolic link."""
    return os.open(name, flags | os.O_NOFOLLOW, 0o600)


def make_private(folder: Path) -> int:
    """Take from everybody but the owner what they may do in a folder and all that is in it.

    Returns
    -------
    int
        What others could do in the folder itself before: the lowest six bits of its mode.

    Raises
    ------
    OSError
        When something in it belongs to somebody else.
    """
    before = stat.S_IMODE(folder.stat().st_mode) & _OTHERS
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~_OTHERS)  # first: nobody comes in meanwhile
    for path in _below(folder):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    return before


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files and folders in a folder, but no symbolic links."""
    for root, folders, files in os.walk(folder):
        yield from (
            path for name in (*folders, *files) if not (path := Path(root, name)).is_symlink()
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 beside ``path`` and rename it, so that a reader never sees half of it.

    Raises
    ------
    OSError
        When it cannot be written; nothing is left beside the old file then.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.unlink(missing_ok=True)  # what a kill left behind, or a link that somebody put there
        with open(beside, "xb", opener=private_opener) as file:
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
    try:  # what root may do, and a file system that only reads, are not seen from the mode
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{key} = {path}: the folder {folder} cannot be written to ({error.strerror})"
        ) from error


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
            with open(self.path, "a", newline="", opener=private_opener) as file:
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
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns)
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path, text.getvalue().encode())
