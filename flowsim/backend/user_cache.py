"""Private cache folder of the user, and a numba cache of compiled functions with checksums.

flowsim and rl_agent have identical copies of this file, because neither imports the other; a test compares them.
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
"""Environment variables for the location of the cache, in order of precedence."""
COMPILED = ("NUMBA_CACHE_DIR", *KEPT)
"""Environment variables for the location of compiled functions."""

_OTHERS_WRITE = 0o022


def settle() -> None:
    """Determine the cache folders, so that processes started from now on share a substitute for an unusable cache."""
    for variables in (COMPILED, KEPT):
        _base(variables)


def cache_folder(part: str, variables: tuple[str, ...] = KEPT) -> Path:
    """Return a folder of the cache that is writable by its owner only.

    If the cache cannot be used, the folder is in a temporary folder of this process and its child processes, which is
    removed at exit; a message says so once. A folder that others could write to is deleted first, because compiled
    functions are code.

    Parameters
    ----------
    part
        Path within the cache.
    variables
        Environment variables for the location, such as :data:`KEPT`.

    Raises
    ------
    OSError
        If there is no temporary folder either; the message names FLOWSIM_CACHE.
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
    """Return the root folder of the cache, which is writable; others may write to it, but not to its subfolders."""
    chosen = next(filter(None, map(os.environ.get, variables)), None)
    base = Path(
        os.path.abspath(os.path.expanduser(chosen or platformdirs.user_cache_dir("flowsim")))
    )
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):  # the mode does not show a read-only file system
            pass
    except OSError as error:
        return _instead_of(base, error, variables)
    return base


def _make_private(folder: Path) -> None:
    """Create a folder of mode 0700, or check that it belongs to this user and is not writable by others."""
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
    """Return a temporary folder of this process instead of an unusable one, and print a message."""
    try:
        instead = tempfile.mkdtemp(prefix="flowsim-")
    except OSError:
        raise OSError(
            error.errno,
            f"neither the cache ({error.strerror}) nor a temporary folder can be written to; "
            "FLOWSIM_CACHE=FOLDER names another place",
            str(folder),
        ) from error
    # the variable that named the folder, or else the last one
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
    """Remove a folder, but not in a fork of the process that created it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def cached(function: Callable[..., Any], folder: Path, **options: Any) -> Any:
    """Compile a function with numba options, and cache it in a folder."""
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
    """Return the class of the cache files; numba is imported late, because commands need the folder before."""
    from numba.core import caching

    class CheckedFile(caching.IndexDataCacheFile):
        """numba's cache file with a checksum; a damaged file is treated as missing."""

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
            with suppress(OSError):  # on a full disk the function is used without caching
                super().save(key, data)

    return CheckedFile


def _checked(path: Path) -> Any:
    """Read a file written with a checksum.

    Raises
    ------
    OSError
        If the file is missing or damaged.
    """
    content = path.read_bytes()
    if zlib.crc32(content[4:]).to_bytes(4, "little") != content[:4]:
        raise OSError(f"{path} is damaged")
    return pickle.loads(memoryview(content)[4:])
