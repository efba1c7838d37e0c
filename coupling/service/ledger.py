"""Record of the messages that the learner has accepted from each worker, so that each counts exactly once.

``PROTOCOL.md`` states the rules ("The learner"). This module uses neither sockets nor the learner: the server asks what
to do with a message, and records what it did. The ledger persists as long as the run: it is part of every checkpoint,
and the experience log contains the changes since then.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from coupling.wire.protocol import Header, Kind, ProtocolError

__all__ = ["Entry", "Ledger", "OrderError", "Verdict"]


_REMEMBERED_PROCESSES = 4096
# per session: their checksums distinguish a late copy from another message
_REMEMBERED_MESSAGES = 16


class OrderError(ProtocolError):
    """A message that is out of order, so that its session cannot continue.

    The text contains no numbers except the sender's own, because the sender may be somebody who has the number of the
    session and probes which sequence the learner expects.
    """

    def __init__(self, what: str, header: Header) -> None:
        super().__init__(what)
        self.header = header


class Verdict(Enum):
    """What to do with a RESET or STEP."""

    TAKE = "accept it"
    REPEAT = "send the same ACTION again"
    WAIT = "reply PAUSE: it is accepted and not answered yet"
    LATE = "reply ERROR: a later message was accepted; unless this is a late copy, two processes use the session"
    FORK = "reply ERROR: another message was accepted under its number"


@dataclass
class Entry:
    """One session: a worker's process from its HELLO to that of the next one.

    Attributes
    ----------
    session
        Number of the session.
    incarnation
        Random number that identifies the worker's process.
    slot, number
        Number of the worker, and number of its earlier sessions.
    first_agent, environments
        Agent of its first environment, and number of its environments.
    sequence
        Number of the last message accepted; 0 before the first.
    answer
        Frame of the ACTION to that message; empty while there is none.
    minor
        Minor version of that message, and so of the ACTION to it.
    checksums
        Checksums of the last messages accepted, the newest last; those of older messages are not kept.
    """

    session: int
    incarnation: int
    slot: int
    number: int
    first_agent: int
    environments: int
    sequence: int = 0
    answer: bytes = b""
    minor: int = 0
    checksums: list[int] = field(default_factory=list)

    @property
    def agents(self) -> np.ndarray:
        """Numbers of its agents."""
        return np.arange(self.first_agent, self.first_agent + self.environments)

    @property
    def waiting(self) -> bool:
        """Whether its last message has no ACTION yet."""
        return self.sequence > 0 and not self.answer

    @property
    def acting(self) -> bool:
        """Whether an ACTION was issued whose outcome has not arrived."""
        return bool(self.answer)


class Ledger:
    """The open sessions, at most one for each worker.

    Attributes
    ----------
    starts
        Number of sessions that each worker has had.
    """

    def __init__(self) -> None:
        self.starts: Counter[int] = Counter()
        self._entries: dict[int, Entry] = {}
        self._closed: deque[int] = deque(maxlen=_REMEMBERED_PROCESSES)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, session: int) -> bool:
        return session in self._entries

    def __getitem__(self, session: int) -> Entry:
        return self._entries[session]

    def of_slot(self, slot: int) -> Entry | None:
        """Return the open session of a worker."""
        return next((entry for entry in self if entry.slot == slot), None)

    def of_incarnation(self, incarnation: int) -> Entry | None:
        """Return the open session of a process."""
        return next((entry for entry in self if entry.incarnation == incarnation), None)

    def open(
        self, session: int, incarnation: int, slot: int, first_agent: int, environments: int
    ) -> Entry:
        """Open the session of a worker that has none.

        Raises
        ------
        ValueError
            If the worker has one.
        """
        if self.of_slot(slot) is not None:
            raise ValueError(f"worker {slot} has a session already")
        entry = Entry(session, incarnation, slot, self.starts[slot], first_agent, environments)
        self.starts[slot] += 1
        self._entries[session] = entry
        return entry

    def close(self, session: int) -> None:
        """Remove a session; its messages are no longer known."""
        self._closed.append(self._entries.pop(session).incarnation)

    def has_closed(self, incarnation: int) -> bool:
        """Return whether a process had a session that was closed; it cannot get another."""
        return incarnation in self._closed

    def classify(self, header: Header) -> Verdict:
        """Return what to do with a RESET or STEP of a known session, without changing anything.

        Raises
        ------
        OrderError
            If it is out of order.
        """
        entry = self[header.session]
        name = f"{header.kind.name} {header.sequence}"
        if (header.first, header.environments) != (0, entry.environments):
            raise OrderError(
                f"{name} must speak of all {entry.environments} environments of the worker", header
            )
        if (header.kind is Kind.RESET) != (header.sequence == 1):
            raise OrderError(
                f"{name}: RESET is the first message of a session, and STEP all later ones", header
            )
        if header.sequence <= entry.sequence:
            return self._classify_known(entry, header)
        if header.sequence > entry.sequence + 1 or entry.waiting:
            raise OrderError(
                f"{name} cannot come now: messages of a session are numbered without a gap, and each waits for the "
                "answer to the one before",
                header,
            )
        return Verdict.TAKE

    def _classify_known(self, entry: Entry, header: Header) -> Verdict:
        """Return what to do with a message whose number was accepted before."""
        age = entry.sequence - header.sequence
        if age < len(entry.checksums) and entry.checksums[-1 - age] != header.checksum:
            return Verdict.FORK
        if age:
            return Verdict.LATE
        return Verdict.REPEAT if entry.answer else Verdict.WAIT

    def take(self, header: Header) -> None:
        """Record that a message was accepted."""
        entry = self[header.session]
        entry.sequence, entry.answer, entry.minor = header.sequence, b"", header.minor
        entry.checksums = [*entry.checksums[1 - _REMEMBERED_MESSAGES :], header.checksum]

    def answer(self, session: int, frame: bytes) -> None:
        """Record the ACTION to the last message."""
        self[session].answer = frame

    def save(self) -> dict[str, Any]:
        """Return the state for :meth:`restore`, serializable as JSON."""
        entries = [asdict(entry) | {"answer": entry.answer.hex()} for entry in self]
        return {
            "starts": sorted(self.starts.items()),
            "entries": entries,
            "closed": list(self._closed),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the result of :meth:`save`."""
        self.starts = Counter(dict(saved["starts"]))
        entries = [
            Entry(**entry | {"answer": bytes.fromhex(entry["answer"])})
            for entry in saved["entries"]
        ]
        self._entries = {entry.session: entry for entry in entries}
        # missing in older checkpoints
        self._closed = deque(saved.get("closed", ()), _REMEMBERED_PROCESSES)
