"""Files of a run folder: its owner's alone, either whole or not there; tables that a resumed run goes on with.

Who knows the number of a session can speak for its worker, and the checkpoint, the experience log and the outboxes hold
such numbers. So a run folder has mode 0700 and its files 0600, whatever the umask is.
"""

import contextlib
import csv
import io
import json
import math
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError, RunError

__all__ = [
    "Table",
    "expand_path",
    "make_folders",
    "make_private",
    "making_sense_of",
    "private_opener",
    "read_json",
    "refuse_foreign",
    "refuse_unwritable",
    "write_atomically",
]

_OTHERS = 0o077  # what anybody but the owner may do
_OTHERS_WRITE = 0o022


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


def make_folders(folder: Path) -> None:
    """Make a folder that nobody else may write to, whatever the umask is, and those above it that are not there."""
    for each in (*reversed(folder.parents), folder):
        each.mkdir(mode=0o755, exist_ok=True)


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that others could have put something into, before anything of it is used.

    Raises
    ------
    RunError
        When it, or something in it, belongs to somebody else, or others could write to it.
    """
    may_enter = stat.S_IMODE(folder.stat().st_mode) & 0o011
    for path in (folder, *_below(folder)):
        found = path.lstat()
        if found.st_uid != os.geteuid():
            raise RunError(
                f"{path} belongs to another user (number {found.st_uid}): a run's settings and environment are code, "
                "so only its owner can continue it"
            )
        if found.st_mode & _OTHERS_WRITE and (may_enter or path == folder):
            remedy = shlex.join(["chmod", "-R", "go-w", str(folder)])
            raise RunError(
                f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):04o}), so what is there may not be "
                f"yours; once you are sure that it is, run `{remedy}` and try again"
            )


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


@contextlib.contextmanager
def making_sense_of(path: Path) -> Iterator[None]:
    """Say in a sentence that a file is damaged, where what was read of it makes no sense.

    Raises
    ------
    RunError
        For what Python raises when a value is missing, of another kind or out of range.
    """
    try:
        yield
    except ConfigError:
        raise
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, csv.Error
    ) as error:  # fmt: skip
        raise RunError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    RunError
        When the file holds anything else.
    """
    with making_sense_of(path):
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise TypeError("it is not a JSON object")
        return content


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
    wanted
        Columns without which it is damaged.
    """

    def __init__(self, path: Path, *wanted: str) -> None:
        self.path, self._wanted = path, set(wanted)
        self._columns: list[str] = []
        if path.exists():
            with path.open(newline="", errors="replace") as file:
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

    def read(self, damaged: list[int] | None = None) -> list[dict[str, str]]:
        """Return all whole rows; a torn last line, left by a full disk or a kill, is not one.

        Parameters
        ----------
        damaged
            Is told the numbers of the lines that are damaged, which are left out.

        Raises
        ------
        RunError
            When a line is damaged and nobody is told.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().decode(errors="replace").split("\n")
        header, *rows = (line.removesuffix("\r").split(",") for line in lines[:-1] or [""])
        if rows and not self._wanted <= set(header):
            if damaged is None:
                raise RunError(f"{self.path} is damaged in line 1")
            damaged += range(1, len(lines))
            self._columns = []
            return []
        needed = [column in self._wanted for column in header]
        whole = [len(row) == len(header) and all(map(_is_number, row, needed)) for row in rows]
        wrong = [number for number, is_whole in enumerate(whole, 2) if not is_whole]
        if wrong and damaged is None:
            raise RunError(f"{self.path} is damaged in line {wrong[0]}")
        if damaged is not None:
            damaged += wrong
        return [
            dict(zip(header, row, strict=True))
            for row, is_whole in zip(rows, whole, strict=True)
            if is_whole
        ]

    def set_aside(self) -> Path:
        """Copy the file, so that nothing of it is lost that is left out; return the copy."""
        copy = self.path.with_name(f"{self.path.name}.damaged")
        write_atomically(copy, self.path.read_bytes())
        return copy

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


def _is_number(word: str, needed: bool) -> bool:
    """Tell whether a word of a table is a number; unless it is needed also nothing, where a column came later."""
    try:
        number = float(word or "nan")
    except ValueError:
        return False
    return math.isfinite(number) or not needed
