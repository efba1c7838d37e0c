"""Storage of the last message of a worker, which outlives its process.

Two files are written in turn, so that an incomplete message after a kill leaves the previous one. Their space is
allocated when they are opened, so that a full disk is detected then, not at a step whose message must not be lost.
"""

import fcntl
import os
import struct
import zlib
from pathlib import Path

from coupling.files import private_opener

__all__ = ["Outbox", "read_outbox"]

# number of the message, its length, CRC-32 of number and message
_HEAD = struct.Struct("<QII")


def _checksum(number: int, message: bytes) -> int:
    return zlib.crc32(message, zlib.crc32(number.to_bytes(8, "little")))


def _files(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}.{turn}") for turn in (0, 1)]


def _content(file: Path) -> tuple[int, bytes]:
    """Return number and message of a file; -1 and empty if there is no complete one."""
    try:
        content = file.read_bytes()
        number, length, checksum = _HEAD.unpack_from(content)
    except (OSError, struct.error):
        return -1, b""
    message = content[_HEAD.size : _HEAD.size + length]
    whole = length > 0 and len(message) == length and _checksum(number, message) == checksum
    return (number, message) if whole else (-1, b"")


def read_outbox(path: Path) -> bytes:
    """Return the last message that was written completely, empty if there is none."""
    return max(map(_content, _files(path)))[1]


class Outbox:
    """Storage of the newest message.

    Parameters
    ----------
    path
        Path of the files, without the suffixes ``.0`` and ``.1``.
    room
        Bytes of the longest message.

    Attributes
    ----------
    recovered
        Message left by the previous process, empty if there is none.

    Raises
    ------
    ValueError
        If another process has it open.
    OSError
        If it cannot be written, or there is no space.
    """

    def __init__(self, path: Path, room: int) -> None:
        self._handles = [private_opener(str(file), os.O_RDWR | os.O_CREAT) for file in _files(path)]
        try:
            fcntl.flock(self._handles[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ValueError(f"outbox {path} is in use by another worker") from None
        self._number, self.recovered = max(map(_content, _files(path)))
        for handle in self._handles:
            os.posix_fallocate(handle, 0, _HEAD.size + room)

    def write(self, message: bytes) -> None:
        """Write a message in place of the one before the last."""
        self._number += 1
        content = _HEAD.pack(self._number, len(message), _checksum(self._number, message)) + message
        handle = self._handles[self._number % 2]
        written = 0
        while written < len(content):
            written += os.pwrite(handle, content[written:], written)

    def close(self) -> None:
        """Close the files, which are kept."""
        for handle in self._handles:
            os.close(handle)
