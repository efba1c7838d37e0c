"""Files of a run folder: private to its owner and written atomically; tables that a resumed run continues.

Anyone who knows the number of a session can impersonate its worker, and the checkpoint, the experience log and the
outboxes contain such numbers. Therefore a run folder has mode 0700 and its files 0600, regardless of the umask.
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
    "follow_umask",
    "make_folders",
    "make_private",
    "private_opener",
    "read_json",
    "refuse_foreign",
    "refuse_unwritable",
    "reporting_damage",
    "write_atomically",
]

_OTHERS = 0o077  # permission bits of group and others
_OTHERS_WRITE = 0o022


def expand_path(text: str) -> str:
    """Expand ``~`` and ``$VARIABLES`` in a path, for words that the shell did not expand.

    Raises
    ------
    ValueError
        For a variable that is not set.
    """
    if "$" in text and not os.path.lexists(text):  # it may be the name of an existing file
        text = os.path.expandvars(text)
        if unset := re.search(r"\$(\w+|\{[^}]*\})", text):
            raise ValueError(f"the variable {unset[0]} is not set")
    return os.path.expanduser(text)


def private_opener(name: str, flags: int) -> int:
    """Open a file for :func:`open` so that a new one has mode 0600, and never through a symbolic link."""
    return os.open(name, flags | os.O_NOFOLLOW, 0o600)


def make_folders(folder: Path) -> None:
    """Create a folder and missing parents that no other user can write to, regardless of the umask."""
    for each in (*reversed(folder.parents), folder):
        each.mkdir(mode=0o755, exist_ok=True)


def refuse_foreign(folder: Path) -> None:
    """Raise an error if other users could have written to a folder; call it before anything in it is used.

    Raises
    ------
    RunError
        If the folder or anything in it belongs to another user, or others could write to it.
    """
    may_enter = stat.S_IMODE(folder.stat().st_mode) & 0o011
    for path in (folder, *_below(folder)):
        found = path.lstat()
        if found.st_uid != os.geteuid():
            raise RunError(
                f"{path} belongs to another user (uid {found.st_uid}): a run's settings and environment are code, so "
                "only its owner can continue it"
            )
        if found.st_mode & _OTHERS_WRITE and (may_enter or path == folder):
            remedy = shlex.join(["chmod", "-R", "go-w", str(folder)])
            raise RunError(
                f"other users can write to {path} (mode {stat.S_IMODE(found.st_mode):04o}), so its contents may not "
                f"be yours; if you are sure that they are, run `{remedy}` and try again"
            )


def make_private(folder: Path) -> int:
    """Remove the permissions of all other users from a folder and everything in it.

    Returns
    -------
    int
        Previous permissions of others for the folder itself: the lowest six bits of its mode.

    Raises
    ------
    OSError
        If something in it belongs to another user.
    """
    before = stat.S_IMODE(folder.stat().st_mode) & _OTHERS
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~_OTHERS)  # first: nobody enters meanwhile
    for path in _below(folder):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    return before


def follow_umask(folder: Path) -> None:
    """Give the files in a folder the mode of the umask, as other programs create them."""
    umask = os.umask(_OTHERS)  # it can only be read by setting it
    os.umask(umask)
    for file in folder.iterdir():
        file.chmod(0o666 & ~umask)


def _below(folder: Path) -> Iterator[Path]:
    """Yield all files and folders below a folder, except symbolic links."""
    for root, folders, files in os.walk(folder):
        yield from (
            path for name in (*folders, *files) if not (path := Path(root, name)).is_symlink()
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 under a temporary name and rename it, so that a reader never sees part of it.

    Raises
    ------
    OSError
        If it cannot be written; the temporary file is removed then.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.unlink(missing_ok=True)  # left by a kill, or a link placed by somebody
        with open(beside, "xb", opener=private_opener) as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Report a file as damaged if its content cannot be interpreted.

    Raises
    ------
    RunError
        For the exceptions that Python raises when a value is missing, of the wrong type or out of range.
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
        If the file contains anything else.
    """
    with reporting_damage(path):
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise TypeError("it is not a JSON object")
        return content


def refuse_unwritable(key: str, path: Path, *, is_folder: bool = False) -> None:
    """Raise an error if nothing can be written to a path; call it before any work is done.

    Parameters
    ----------
    key
        The setting or option that names the path.
    path
        The path; it need not exist yet, but its first existing parent must be writable.
    is_folder
        Whether the path is to be a folder.

    Raises
    ------
    ConfigError
        If it is not writable; the message names the folder and the reason.
    """
    folder = path.absolute() if is_folder else path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise ConfigError(f"{key} = {path}: {folder} is a file, not a folder")
    try:  # the mode does not show what root may do, nor a read-only file system
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{key} = {path}: the folder {folder} cannot be written to ({error.strerror})"
        ) from error


class Table:
    """CSV file to which rows are appended and whose last rows can be removed again.

    Parameters
    ----------
    path
        The file; it is created with the first row.
    wanted
        Required columns; a file without them counts as damaged.
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
        """Return all complete rows; an incomplete last line, left by a full disk or a kill, is skipped.

        Parameters
        ----------
        damaged
            List to which the numbers of damaged lines are appended; these lines are left out.

        Raises
        ------
        RunError
            If a line is damaged and ``damaged`` is None.
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
        """Copy the file, so that damaged lines are not lost, and return the path of the copy."""
        copy = self.path.with_name(f"{self.path.name}.damaged")
        write_atomically(copy, self.path.read_bytes())
        return copy

    def replace(self, rows: list[dict[str, str]]) -> None:
        """Keep only these rows; a resumed run removes those that it will write again."""
        if self.path.exists():
            self._rewrite(rows)

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._columns)
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path, text.getvalue().encode())


def _is_number(word: str, needed: bool) -> bool:
    """Return whether a cell is a number; one that is not needed may be empty, if its column was added later."""
    try:
        number = float(word or "nan")
    except ValueError:
        return False
    return math.isfinite(number) or not needed
