"""State of the workers: heartbeats, silence, slowness and reserved slots; uses no socket."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from coupling.service.ledger import Entry, Ledger
from coupling.service.processes import runs
from coupling.service.sessions import Session
from coupling.service.terms import Terms
from coupling.wire.protocol import Pause, Reject

__all__ = ["Liveness"]


class Liveness:
    """State of the processes behind the open sessions of a ledger, from the messages that the learner received.

    Parameters
    ----------
    ledger
        The open sessions.
    terms
        How long a worker may be silent, busy or disconnected.
    clock
        Function that returns the time in seconds.
    """

    def __init__(self, ledger: Ledger, terms: Terms, clock: Callable[[], float]) -> None:
        self._ledger, self._terms, self._clock = ledger, terms, clock
        self._sessions: dict[int, Session] = {}
        self._looked = clock()

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def __contains__(self, number: object) -> bool:
        return number in self._sessions

    def __getitem__(self, number: int) -> Session:
        return self._sessions[number]

    def begin(self, entry: Entry) -> Session:
        """Add a session that has just been opened and whose process has not been heard yet."""
        now = self._clock()
        session = self._sessions[entry.session] = Session(entry, seen=now, busy_since=now)
        return session

    def end(self, number: int) -> None:
        """Forget a session."""
        del self._sessions[number]

    def restart(self, *, kept: bool) -> None:
        """Mark all sessions of the ledger as silent, after it was restored or replayed.

        Their workers may be alive and find this learner soon. If ``kept``, their slots are reserved for a while, until
        they are heard or known to be dead.
        """
        self._sessions = {}
        for entry in self._ledger:
            session = self.begin(entry)
            session.kept_until = self._clock() + 2 * self._terms.dead_after if kept else 0.0

    def heard(self, number: int) -> Session | None:
        """Record a sign of life of a session and return it; None if it is unknown or over."""
        session = self._sessions.get(number)
        if session is None or session.over:
            return None
        session.seen, session.alive = self._clock(), True
        return session

    def connected(self, slot: int) -> bool:
        """Return whether a worker is connected."""
        entry = self._ledger.of_slot(slot)
        return entry is not None and self._sessions[entry.session].alive

    def drop(self, slot: int) -> None:
        """Record that a worker is dead; its open episodes wait for the last step, which its successor may bring."""
        entry = self._ledger.of_slot(slot)
        if entry is not None:
            session = self._sessions[entry.session]
            session.alive, session.kept_until = False, 0.0

    def keeps(self, slot: int) -> float:
        """Return for how many seconds a slot is reserved for a worker that may find the restarted learner soon."""
        entry = self._ledger.of_slot(slot)
        return (
            0.0
            if entry is None
            else max(0.0, self._sessions[entry.session].kept_until - self._clock())
        )

    def challenge(self, holder: Session) -> Pause | Reject:
        """Reject a newcomer once the holder of its slot has given a sign of life well after the newcomer's first HELLO.

        Messages that the holder sent before it died may still arrive after the newcomer. Until it is clear whether the
        holder is alive, the newcomer gets a PAUSE that says what it waits for.
        """
        now, name = self._clock(), f"worker {holder.entry.slot}"
        if now - holder.challenged > 2 * self._terms.dead_after:
            holder.challenged = now
        elif holder.seen > holder.challenged + self._terms.heartbeat:
            return Reject(f"{name} is connected already")
        return Pause(
            f"{name} is connected already; it is given up if it keeps silent for {self._terms.dead_after:g} s"
        )

    def _may_be_in_a_step(self, session: Session) -> bool:
        """Return whether a silent worker may be in an environment step, which may block all threads of its process.

        If the process is on this machine, its state decides. Otherwise, a step is assumed to run until another process
        has claimed the worker's slot and nothing is heard of the worker for a while.
        """
        if session.entry.waiting:
            return False
        if session.seen_here:
            return runs(session.pid)
        claimed = self._clock() - session.challenged
        return session.challenged < session.seen or claimed <= self._terms.dead_after

    def lost(self) -> list[tuple[int, str]]:
        """Return the workers that are silent or too slow, with the reasons; call it right after a turn."""
        now = self._clock()
        away, self._looked = now - self._looked, now
        # this process was stopped or busy and could not hear anybody
        if away > self._terms.heartbeat:
            for session in self:
                session.seen = min(now, session.seen + away)
                session.busy_since = min(now, session.busy_since + away)
        lost = []
        for session in self:
            slot, silence, busy = session.entry.slot, now - session.seen, now - session.busy_since
            if not session.alive:
                continue
            if silence > self._terms.dead_after and not self._may_be_in_a_step(session):
                lost.append((slot, f"no sign of life for {silence:.1f} s"))
            elif not session.entry.waiting and busy > self._terms.step_timeout:
                what = "an environment step" if session.entry.sequence else "the first reset"
                limit = self._terms.step_timeout
                lost.append((slot, f"{what} took longer than workers.step_timeout = {limit:g} s"))
        return lost

    def forgotten(self) -> list[int]:
        """Return the sessions of dead workers for which no successor came within ``patience``."""
        now = self._clock()
        return [
            each.entry.session
            for each in self
            if not each.alive and now - each.seen > self._terms.patience
        ]

    def awaited(self) -> set[int]:
        """Return the sessions whose workers are alive, or may be alive and find this learner soon."""
        now = self._clock()
        return {
            each.entry.session
            for each in self
            if not each.over and (each.alive or each.kept_until > now)
        }

    def delays(self) -> tuple[float, float]:
        """Return median and 99th percentile of the added delay in microseconds, averaged over the workers."""
        lives = [session.life for session in self if session.alive]
        middle, tail = np.mean([(life.delay_p50_us, life.delay_p99_us) for life in lives], axis=0)
        return float(middle), float(tail)

    def summaries(self) -> list[dict[str, Any]]:
        """Return a summary of each connected worker, for the status."""
        now, there = self._clock(), [session for session in self if session.alive]
        return [
            session.summary(now) | {"starts": self._ledger.starts[session.entry.slot]}
            for session in sorted(there, key=lambda session: session.entry.slot)
        ]
