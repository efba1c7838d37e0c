"""The experience log: what the learner took in and answered since its last checkpoint, safe before it is acted on.

A checkpoint and the log behind it are the whole run. The log is a folder of numbered segments; each checkpoint begins
a new one and names it. A record is its length, its CRC-32 and a msgpack array. An end that was torn by a kill or a
power failure is recognised, told and cut off: nobody was answered for what it held. Torn is what runs to the end of the
file; where whole records follow, the log is damaged, and only an explicit word gives up what lies behind.
"""

import contextlib
import json
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from coupling.errors import FULL, RunError
from coupling.files import private_opener, write_atomically
from coupling.wire.protocol import Kind, ProtocolError, decode
from rl_agent.rollout.open_episodes import Decision

__all__ = [
    "Answered",
    "Closed",
    "ExperienceLog",
    "Opened",
    "Record",
    "Taken",
    "decision_of",
    "keep_trying",
]

_HEAD = struct.Struct("<II")  # length and CRC-32 of the map
_TRY_EVERY = 1.0  # seconds

WhenFull = Callable[[OSError, float], None]
"""Takes an error and the seconds waited so far: says that the disk is full, and raises to give up."""


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """A worker joined."""

    session: int
    incarnation: int
    slot: int
    first_agent: int
    environments: int


class Taken(msgspec.Struct, frozen=True, tag="taken", array_like=True):
    """RESET and STEP messages came, as they travelled."""

    frames: list[bytes]


class Answered(msgspec.Struct, frozen=True, tag="answered", array_like=True):
    """Actions were drawn for the workers of sessions: the fields of a decision, row by row, and the random state.

    Attributes
    ----------
    sessions
        Whose agents were answered, in the order of the rows.
    epoch, policy_version
        How often the run had been started before, and the gradient steps behind the policy.
    agents, action, mean, std, value, state, noise
        int64 and float32 arrays.
    random
        JSON text.
    """

    sessions: list[int]
    epoch: int
    # nothing here reads it: it is part of the file, and tells whoever reads the log which policy acted
    policy_version: int
    agents: bytes
    action: bytes
    mean: bytes
    std: bytes
    value: bytes
    state: bytes
    noise: bytes
    random: bytes

    @classmethod
    def of(
        cls, sessions: list[int], epoch: int, policy_version: int, decision: Decision
    ) -> "Answered":
        """Make the record of a decision."""
        d = decision
        arrays = (d.agents, d.action, d.mean, d.std, d.value, d.state, d.noise)
        agents, action, mean, std, value, state, noise = (
            np.ascontiguousarray(array).tobytes() for array in arrays
        )
        random = json.dumps(d.random).encode()
        return cls(
            sessions, epoch, policy_version, agents, action, mean, std, value, state, noise, random
        )


class Closed(msgspec.Struct, frozen=True, tag="closed", array_like=True):
    """A session ended; its open episodes stay as truncated."""

    session: int


Record = Opened | Taken | Answered | Closed
_DECODER = msgspec.msgpack.Decoder(Record, strict=True)
# how the array of a record begins: its length in one byte, and the tag with its own length in one byte
_BEGINNING = re.compile(rb"[\x90-\x9f](?:\xa6opened|\xa5taken|\xa8answered|\xa6closed)")


def decision_of(record: Answered) -> Decision:
    """Return the decision that a record was made of."""
    agents = np.frombuffer(record.agents, np.int64)
    rows = len(agents)
    parts = (record.action, record.mean, record.std, record.state, record.noise)
    action, mean, std, state, noise = (
        np.frombuffer(part, np.float32).reshape(rows, -1) for part in parts
    )
    value = np.frombuffer(record.value, np.float32)
    return Decision(agents, action, mean, std, value, state, noise, json.loads(record.random))


class ExperienceLog:
    """A log that grows by records.

    Parameters
    ----------
    folder
        Where its segments are; made when it is not there.
    fsync
        Whether :meth:`flush` waits until the disk has the records, so that a power failure loses none; otherwise they
        are safe from the end of any process, but not from that of the machine.
    when_full
        As of :func:`keep_trying`; unless given, a full disk is an error at once.
    """

    def __init__(
        self, folder: Path, *, fsync: bool = False, when_full: WhenFull | None = None
    ) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder, self._fsync = folder, fsync
        self._when_full = when_full or _give_up
        self._file: int | None = None
        self._end = 0
        self._synced = True

    def segments(self) -> list[int]:
        """Return the numbers of the segments that are there, in order."""
        return sorted(int(path.stem) for path in self._folder.glob("*.log"))

    def begin(self, number: int) -> None:
        """Begin a new segment, which later records go to."""
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._file = private_opener(str(self._path(number)), flags)
        self._end = 0
        if self._fsync:  # the disk has to know the name of the file, too
            folder = os.open(self._folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def append(self, record: Record) -> None:
        """Write a record whole, or nothing of it; a full disk is waited for."""
        assert self._file is not None
        content = msgspec.msgpack.encode(record)
        content = _HEAD.pack(len(content), zlib.crc32(content)) + content
        keep_trying(lambda: self._write(content), self._when_full)
        self._end += len(content)
        self._synced = False

    def _write(self, content: bytes) -> None:
        assert self._file is not None
        try:
            written = os.write(self._file, content)
            while written < len(content):
                written += os.write(self._file, content[written:])
        except OSError:
            os.ftruncate(self._file, self._end)
            raise

    def flush(self) -> None:
        """With ``fsync``, wait until the disk has all records: once for all of a turn, about 4 ms."""
        if self._fsync and not self._synced and self._file is not None:
            os.fsync(self._file)
        self._synced = True

    def forget_before(self, number: int) -> None:
        """Remove the segments that a checkpoint has made unnecessary."""
        for segment in self.segments():
            if segment < number:
                self._path(segment).unlink()

    def begin_again(self, number: int) -> None:
        """Begin a segment again; what it and later ones hold is kept beside them, as ``*.diverged``."""
        self.close()
        for segment in self.segments():
            if segment >= number:
                self._path(segment).rename(self._path(segment).with_suffix(".log.diverged"))
        self.begin(number)

    def records_since(
        self,
        number: int,
        say: Callable[[str], object] = lambda text: None,
        *,
        discard_damaged: bool = False,
    ) -> Iterator[Record]:
        """Read the records of a segment and all later ones; a torn end of the last one is cut off.

        Parameters
        ----------
        number
            Of the first segment.
        say
            Told what is left out.
        discard_damaged
            Give up what lies behind a damage or a missing segment; it stays on the disk, under another name.

        Raises
        ------
        RunError
            When a segment is missing, or damaged before whole records; nothing on the disk has changed then.
        """
        there = [segment for segment in self.segments() if segment >= number]
        for segment in range(number, max([number, *there]) + 1):
            content, end = self._path(segment).read_bytes() if segment in there else b"", 0
            while found := _record_at(content, end):
                record, end = found
                yield record
            if segment in there and end == len(content):
                continue
            later = [self._path(other).read_bytes() for other in there if other > segment]
            behind = [record for part in (content[end:], *later) for record in _found_records(part)]
            if segment in there and not behind:
                say(
                    f"the experience log ends in {len(content) - end} bytes of a record that is not whole, as a kill "
                    "or a power failure leaves it: they are left out"
                )
                os.truncate(self._path(segment), end)  # later segments may follow
                continue
            what = f"damaged at byte {end}" if segment in there else "missing"
            where = f"{self._path(segment)} is {what}"
            lost = f"{len(behind)} whole records behind that, with {_steps_in(behind)} environment steps"
            if not discard_damaged:
                raise RunError(
                    f"the experience log {where}; {lost}, would be lost. Nothing was changed: bring the log back from "
                    "a copy, or continue without them with `flowsim resume RUN --discard-damaged`"
                )
            say(f"the experience log {where}; {lost}, are left out, and kept as *.damaged")
            for other in there:
                if other >= segment:
                    self._path(other).rename(self._path(other).with_suffix(".log.damaged"))
            write_atomically(self._path(segment), content[:end])
            return

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.log"

    def close(self) -> None:
        """Close the segment."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _record_at(content: bytes, at: int) -> tuple[Record, int] | None:
    """Return the record that begins at a byte and where it ends; None when it is not whole."""
    if at + _HEAD.size > len(content):
        return None
    length, checksum = _HEAD.unpack_from(content, at)
    begin = at + _HEAD.size
    record = memoryview(content)[begin : begin + length]
    if len(record) != length or zlib.crc32(record) != checksum:
        return None
    try:
        return _DECODER.decode(record), begin + length
    except msgspec.DecodeError:  # zeros are an empty record with the right checksum
        return None


def _found_records(content: bytes) -> list[Record]:
    """Return the whole records that lie anywhere in some bytes, whatever the lengths say that stand before them."""
    records, end = list[Record](), 0
    for beginning in _BEGINNING.finditer(content):
        at = beginning.start() - _HEAD.size
        if at >= end and (found := _record_at(content, at)):
            record, end = found
            records.append(record)
    return records


def _steps_in(records: list[Record]) -> int:
    """Count the environment steps that records hold."""
    steps = 0
    for record in records:
        for frame in record.frames if isinstance(record, Taken) else ():
            with contextlib.suppress(ProtocolError):
                header, _ = decode(frame)
                steps += header.environments if header.kind is Kind.STEP else 0
    return steps


def keep_trying(action: Callable[[], object], when_full: WhenFull) -> None:
    """Do what writes to a disk, again each second as long as the disk is full.

    Parameters
    ----------
    action
        Writes all of it, or nothing.
    when_full
        Called after each failure.
    """
    began = time.monotonic()
    waited = 0.0
    while True:
        try:
            action()
        except OSError as error:
            if error.errno not in FULL:
                raise
            when_full(error, waited)
            time.sleep(_TRY_EVERY)
            waited = time.monotonic() - began
        else:
            return


def _give_up(error: OSError, waited: float) -> None:
    raise error
