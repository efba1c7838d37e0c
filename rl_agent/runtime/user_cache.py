"""Where what was computed once is kept, for its owner alone, and compiled functions whose damage is noticed.

flowsim and rl_agent have this file in the same words, because neither imports the other; a test compares the two.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

__all__ = ["COMPILED", "KEPT", "cache_folder", "cached", "settle"]

KEPT = ("FLOWSIM_CACHE",)
"""Environment variables that say where the cache is, the first one first."""
COMPILED = ("NUMBA_CACHE_DIR", *KEPT)
"""Those for compiled functions."""

_OTHERS_WRITE = 0o022


def settle() -> None:
    """Find out where the caches are, so that processes that are started now share what is used for the usual place."""
    for variables in (COMPILED, KEPT):
        _base(variables)


def cache_folder(part: str, variables: tuple[str, ...] = KEPT) -> Path:
    """Return a folder of the cache that can be written to, and by nobody but its owner.

    Where the cache cannot be used, it is in a folder of this process and those that it starts, which goes with it; that
    is said once. What others could write to is removed: compiled functions are code.

    Parameters
    ----------
    part
        Path within the cache.
    variables
        As :data:`KEPT`.

    Raises
    ------
    OSError
        When there is no temporary folder either; the sentence names FLOWSIM_CACHE.
    """
    folder = _base(variables)
    for name in Path(part).parts:
        folder /= name
        try:
            _make_private(folder)
        except OSError as error:
            folder = _instead_of(folder, error, variables) / part
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            break
    return folder


def _base(variables: tuple[str, ...]) -> Path:
    """Return the folder of the whole cache, which can be written to; others may, too, but not in its parts."""
    chosen = next(filter(None, map(os.environ.get, variables)), None)
    base = Path(
        os.path.abspath(os.path.expanduser(chosen or platformdirs.user_cache_dir("flowsim")))
    )
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(
            dir=base
        ):  # the mode does not tell of a file system that only reads
            pass
    except OSError as error:
        return _instead_of(base, error, variables)
    return base


def _make_private(folder: Path) -> None:
    """Make a folder of mode 0700, or make sure that it is one of this user that nobody else could write to."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        return
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(0, "it is no folder", str(folder))
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise PermissionError(0, "it belongs to somebody else", str(folder))
    if status.st_mode & _OTHERS_WRITE:
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)


def _instead_of(folder: Path, error: OSError, variables: tuple[str, ...]) -> Path:
    """Return a folder of this process instead of one that cannot be used, and say so."""
    try:
        instead = tempfile.mkdtemp(prefix="flowsim-")
    except OSError:
        raise OSError(
            error.errno,
            f"neither the cache ({error.strerror}) nor a temporary folder can be written to; "
            "FLOWSIM_CACHE=FOLDER names another place",
            str(folder),
        ) from error
    # that which named the folder, or the one that names one from here on
    os.environ[next(filter(os.environ.get, variables), variables[-1])] = instead
    atexit.register(_remove, instead, os.getpid())
    print(
        f"flowsim: the cache {folder} cannot be used ({error.strerror}); what is compiled and computed once is kept in "
        f"{instead} until this process ends. FLOWSIM_CACHE=FOLDER names a place that lasts",
        file=sys.stderr,
        flush=True,
    )
    return Path(instead)


def _remove(folder: str, process: int) -> None:
    """Remove a folder, but not in a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def cached(function: Callable[..., Any], folder: Path, **options: Any) -> Any:
    """Compile a function that Python calls, with numba's options, and keep it in a folder."""
    import numba

    compiled = numba.njit(**options)(function)
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        compiled.enable_caching()
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
    file = compiled._cache._cache_file
    compiled._cache._cache_file = _checked_file()(
        file._cache_path, file._index_name.removesuffix(".nbi"), file._source_stamp
    )
    return compiled


@functools.cache
def _checked_file() -> Any:
    """Return the class that does so; numba is imported late, because a command needs the folder before that."""
    from numba.core import caching

    class CheckedFile(caching.IndexDataCacheFile):
        """numba's file of compiled functions with a checksum; what is damaged is as if it were not there."""

        def _dump(self, obj: Any) -> bytes:
            content: bytes = super()._dump(obj)
            return zlib.crc32(content).to_bytes(4, "little") + content

        def _save_index(self, overloads: Any) -> None:
            with self._open_for_write(self._index_path) as file:
                file.write(self._dump((self._version, self._source_stamp, overloads)))

        def _load_index(self) -> Any:
            try:
                version, stamp, overloads = _checked(Path(self._index_path))
            except OSError:
                return {}
            return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

        def _load_data(self, name: str) -> Any:
            return _checked(Path(self._data_path(name)))

        def save(self, key: Any, data: Any) -> None:
            with suppress(OSError):  # on a full disk the function serves this process
                super().save(key, data)

    return CheckedFile


def _checked(path: Path) -> Any:
    """Read what was written with a checksum.

    Raises
    ------
    OSError
        When it is not there, or not what was written.
    """
    content = path.read_bytes()
    if zlib.crc32(content[4:]).to_bytes(4, "little") != content[:4]:
        raise OSError(f"{path} is damaged")
    return pickle.loads(memoryview(content)[4:])
