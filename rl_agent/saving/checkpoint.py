"""Checkpoint files: one NumPy archive of arrays and JSON, written atomically.

The archive is an uncompressed zip, whose members have CRC-32 checksums that are verified on reading; no
pickle is written or read. A checkpoint is written to a temporary file in the same folder, which is flushed to
the disk and then renamed: the old checkpoint remains until the new one is complete. Its mode is 0600, because the
notes may be confidential, such as the numbers of a service's sessions.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rl_agent.config.registry import NotImportedError
from rl_agent.runtime.device import DeviceError

__all__ = ["CheckpointError", "made_from", "read_checkpoint", "write_checkpoint"]

FORMAT = "flowsim-agent"
VERSION = 2
META = "meta"

Arrays = dict[str, npt.NDArray[Any]]


class CheckpointError(Exception):
    """Raised if a checkpoint is damaged, or a file is not a checkpoint of this package."""


def write_checkpoint(path: Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Write ``arrays`` and the JSON-serialisable ``meta`` to ``path``, replacing an older file only when complete.

    Raises
    ------
    OSError
        If the disk is full or the folder cannot be written; the older file is then unchanged and
        no temporary file remains.
    """
    path = Path(path)
    text = json.dumps({"format": FORMAT, "version": VERSION, **meta})
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        # left behind by a killed process, or a link placed there by someone else
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=_private_opener) as file:
            np.savez(
                file, allow_pickle=False, **{META: np.frombuffer(text.encode(), np.uint8)}, **arrays
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # it names the temporary file, or none
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


def read_checkpoint(
    path: Path, wanted: Callable[[str], bool] = lambda name: True
) -> tuple[Arrays, dict[str, Any]]:
    """Read the arrays whose names are ``wanted`` and the JSON part of a checkpoint.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    CheckpointError
        If the file is truncated, damaged, not a checkpoint, or of another version.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if META + ".npy" not in archive.namelist():
                raise CheckpointError(f"{path} is not a checkpoint of a learner")
            meta = json.loads(_member(archive, META).tobytes().decode())
            if not isinstance(meta, dict):
                raise ValueError("its notes are no JSON object")
            _check_version(path, meta)
            names = (name.removesuffix(".npy") for name in archive.namelist())
            return {
                name: _member(archive, name) for name in names if name != META and wanted(name)
            }, meta
    except (CheckpointError, OSError):
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds for a flipped bit
        raise CheckpointError(f"checkpoint {path} is damaged: {error}") from error


@contextmanager
def made_from(path: Path) -> Iterator[None]:
    """Convert errors of creating a learner or policy from an intact checkpoint with inconsistent contents.

    Raises
    ------
    CheckpointError
        If the contents are inconsistent.
    """
    try:
        yield
    except DeviceError:
        raise
    except NotImportedError as error:
        raise CheckpointError(f"checkpoint {path}: {error}") from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
    ) as error:
        raise CheckpointError(f"checkpoint {path} does not fit together: {error!r}") from error


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    entry = archive.getinfo(name + ".npy")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    with archive.open(entry) as file:
        _check_size(name, file, entry.file_size)
    # zipfile checks the CRC only when reading to the end
    with archive.open(entry) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read():
            raise ValueError(f"{name} is longer than its header says")
    return array


def _check_size(name: str, file: IO[bytes], size: int) -> None:
    """Check the size in an array's header against its data, before memory is allocated for it.

    Raises
    ------
    ValueError
        If the header claims more data than there is.
    """
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = read_header[np.lib.format.read_magic(file)](file)
    needed = math.prod(shape) * dtype.itemsize
    if needed > size:
        raise ValueError(f"{name} needs {needed} bytes, but there are {size}")


def _check_version(path: Path, meta: dict[str, Any]) -> None:
    if meta.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of a learner")
    if meta.get("version") != VERSION:
        raise CheckpointError(
            f"checkpoint {path} has format version {meta.get('version')}, this program reads {VERSION}"
        )


def _private_opener(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW, 0o600)


def _flush_folder(folder: Path) -> None:
    """Flush a folder to the disk, which makes a renaming durable (POSIX stores it in the folder)."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
