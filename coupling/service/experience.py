"""The experience log: a write-ahead log of what the learner received and answered since its last checkpoint.

A checkpoint and the log after it are the complete state of a run. The log is a folder of numbered segments; each
checkpoint begins a new one and names it. A record consists of its length, its CRC-32 and a msgpack array. An incomplete
record at the end of a file, left by a kill or a power failure, is detected, reported and cut off: nothing in it was
answered. If complete records follow an incomplete one, the log is damaged, and the records after the damage are
discarded only on explicit request.
"""

import contextlib
import json
import os
import re
import shlex
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
_NUMBER = re.compile(r"[0-9]{8}")
"""Name of a segment; a copy that a person has made of one has another."""
_TRY_EVERY = 1.0  # seconds

WhenFull = Callable[[OSError, float], None]
"""Called with an error and the seconds waited so far: reports that the disk is full, and raises to give up."""


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """A worker joined."""

    session: int
    incarnation: int
    slot: int
    first_agent: int
    environments: int


class Taken(msgspec.Struct, frozen=True, tag="taken", array_like=True):
    """RESET and STEP messages arrived; their frames as sent."""

    frames: list[bytes]


class Answered(msgspec.Struct, frozen=True, tag="answered", array_like=True):
    """Actions were sampled for the workers of sessions: the fields of a decision, row by row, and the random state.

    Attributes
    ----------
    sessions
        Sessions whose agents were answered, in the order of the rows.
    epoch, policy_version
        Number of earlier starts of the run, and number of gradient steps of the policy.
    agents, action, mean, std, value, state, noise
        int64 and float32 arrays.
    random
        JSON text.
    """

    sessions: list[int]
    epoch: int
    # not read here; it tells readers of the log which policy acted
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
        """Create the record of a decision."""
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
    """A session ended; its open episodes are kept as truncated."""

    session: int


Record = Opened | Taken | Answered | Closed
_DECODER = msgspec.msgpack.Decoder(Record, strict=True)
# start of the array of a record: its length in one byte, and the tag with its own length in one byte
_BEGINNING = re.compile(rb"[\x90-\x9f](?:\xa6opened|\xa5taken|\xa8answered|\xa6closed)")


def decision_of(record: Answered) -> Decision:
    """Return the decision stored in a record."""
    agents = np.frombuffer(record.agents, np.int64)
    rows = len(agents)
    parts = (record.action, record.mean, record.std, record.state, record.noise)
    action, mean, std, state, noise = (
        np.frombuffer(part, np.float32).reshape(rows, -1) for part in parts
    )
    value = np.frombuffer(record.value, np.float32)
    return Decision(agents, action, mean, std, value, state, noise, json.loads(record.random))


class ExperienceLog:
    """Append-only log of records.

    Parameters
    ----------
    folder
        Folder of the segments, inside that of the run; created if it does not exist.
    fsync
        Whether :meth:`flush` waits until the disk has the records, so that a power failure loses none; otherwise they
        survive the end of any process, but not a crash of the machine.
    when_full
        As in :func:`keep_trying`; by default, a full disk is an error at once.
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
        """Return the numbers of the existing segments, in order."""
        return sorted(
            int(path.stem) for path in self._folder.glob("*.log") if _NUMBER.fullmatch(path.stem)
        )

    def begin(self, number: int) -> None:
        """Begin a new segment for later records."""
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._file = private_opener(str(self._path(number)), flags)
        self._end = 0
        if self._fsync:  # the name of the file has to be on the disk, too
            folder = os.open(self._folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def append(self, record: Record) -> None:
        """Write a record completely or not at all, waiting while the disk is full."""
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
        """With ``fsync``, wait until the disk has all records; called once per turn, about 4 ms."""
        if self._fsync and not self._synced and self._file is not None:
            os.fsync(self._file)
        self._synced = True

    def forget_before(self, number: int) -> None:
        """Remove the segments that a checkpoint has made unnecessary."""
        for segment in self.segments():
            if segment < number:
                self._path(segment).unlink()

    def begin_again(self, number: int) -> None:
        """Restart a segment; it and later ones are kept under the names ``*.diverged``."""
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
        """Read the records of a segment and all later ones; an incomplete end of the last one is cut off.

        Parameters
        ----------
        number
            Number of the first segment.
        say
            Called with messages on what is left out.
        discard_damaged
            Discard the records after a damage or a missing segment; they stay on the disk under another name.

        Raises
        ------
        RunError
            If a segment is missing, or damaged before complete records; nothing on the disk has changed then.
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
                    f"the experience log ends with {len(content) - end} bytes of an incomplete record, as after a "
                    "kill or a power failure; they are left out"
                )
                os.truncate(self._path(segment), end)  # later segments may follow
                continue
            what = f"damaged at byte {end}" if segment in there else "missing"
            where = f"{self._path(segment)} is {what}"
            lost = f"{len(behind)} whole records behind that, with {_steps_in(behind)} environment steps"
            if not discard_damaged:
                run = str(self._folder.parent)
                resume = shlex.join(["flowsim", "resume", run, "--discard-damaged"])
                raise RunError(
                    f"the experience log {where}; {lost}, would be lost. Nothing was changed: restore the log from a "
                    f"copy, or continue without them with `{resume}`"
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
    """Return the record that begins at byte ``at`` and its end; None if it is incomplete."""
    if at + _HEAD.size > len(content):
        return None
    length, checksum = _HEAD.unpack_from(content, at)
    begin = at + _HEAD.size
    record = memoryview(content)[begin : begin + length]
    if len(record) != length or zlib.crc32(record) != checksum:
        return None
    try:
        return _DECODER.decode(record), begin + length
    except msgspec.DecodeError:  # zeros are an empty record with a correct checksum
        return None


def _found_records(content: bytes) -> list[Record]:
    """Return the complete records found anywhere in ``content``, independent of earlier length fields."""
    records, end = list[Record](), 0
    for beginning in _BEGINNING.finditer(content):
        at = beginning.start() - _HEAD.size
        if at >= end and (found := _record_at(content, at)):
            record, end = found
            records.append(record)
    return records


def _steps_in(records: list[Record]) -> int:
    """Count the environment steps in records."""
    steps = 0
    for record in records:
        for frame in record.frames if isinstance(record, Taken) else ():
            with contextlib.suppress(ProtocolError):
                header, _ = decode(frame)
                steps += header.environments if header.kind is Kind.STEP else 0
    return steps


def keep_trying(action: Callable[[], object], when_full: WhenFull) -> None:
    """Run an action that writes to a disk, and repeat it every second as long as the disk is full.

    Parameters
    ----------
    action
        Function that writes everything or nothing.
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
