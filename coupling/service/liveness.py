"""Which workers are there: signs of life, silence and slowness, and which places are reserved; no socket here."""

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
    """The processes behind the open sessions of a ledger, as the learner hears them.

    Parameters
    ----------
    ledger
        The open sessions.
    terms
        How long a worker may be silent, busy or away.
    clock
        Tells the seconds.
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
        """Take in who a session has just begun with; it is not heard yet."""
        now = self._clock()
        session = self._sessions[entry.session] = Session(entry, seen=now, busy_since=now)
        return session

    def end(self, number: int) -> None:
        """Forget a session."""
        del self._sessions[number]

    def begin_anew(self, *, kept: bool) -> None:
        """Take the sessions of the ledger for silent, after it was restored or replayed.

        Their workers may live, and find this learner soon: until they are heard, or known to be dead, their places are
        ``kept`` for a while.
        """
        self._sessions = {}
        for entry in self._ledger:
            session = self.begin(entry)
            session.kept_until = self._clock() + 2 * self._terms.dead_after if kept else 0.0

    def heard(self, number: int) -> Session | None:
        """Note a sign of life of a session, and return it; None for one that is unknown or over."""
        session = self._sessions.get(number)
        if session is None or session.over:
            return None
        session.seen, session.alive = self._clock(), True
        return session

    def connected(self, slot: int) -> bool:
        """Tell whether a worker is there."""
        entry = self._ledger.of_slot(slot)
        return entry is not None and self._sessions[entry.session].alive

    def drop(self, slot: int) -> None:
        """Note that a worker is dead; its open episodes wait for the last step that its successor may bring."""
        entry = self._ledger.of_slot(slot)
        if entry is not None:
            session = self._sessions[entry.session]
            session.alive, session.kept_until = False, 0.0

    def keeps(self, slot: int) -> float:
        """Return for how many seconds a place is kept for a worker that may find the restarted learner soon."""
        entry = self._ledger.of_slot(slot)
        return (
            0.0
            if entry is None
            else max(0.0, self._sessions[entry.session].kept_until - self._clock())
        )

    def challenge(self, holder: Session) -> Pause | Reject:
        """Refuse a newcomer once the holder of its place has given a sign of life well after its first HELLO.

        What the holder sent before it died may still be on its way when the newcomer is there. Until that is known, the
        newcomer is told what it waits for.
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
        """Tell whether a worker that is silent may do nothing but step: that may hold all of its process's threads.

        Where its process can be looked at, that tells. Elsewhere a step is assumed to run until another process claims
        the worker's place and hears nothing of it for a while.
        """
        if session.entry.waiting:
            return False
        if session.seen_here:
            return runs(session.pid)
        claimed = self._clock() - session.challenged
        return session.challenged < session.seen or claimed <= self._terms.dead_after

    def lost(self) -> list[tuple[int, str]]:
        """Return the workers that are silent or too slow, with the reason; call it right after a turn."""
        now = self._clock()
        away, self._looked = now - self._looked, now
        # this process was stopped, or busy: nobody could be heard meanwhile
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
                limit = self._terms.step_timeout
                lost.append(
                    (slot, f"an environment step took longer than step_timeout = {limit:g} s")
                )
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
        """Return the sessions whose workers live, or may live and find this learner soon."""
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
        """Return what is known of each worker that is there, for the status."""
        now, there = self._clock(), [session for session in self if session.alive]
        return [
            session.summary(now) | {"starts": self._ledger.starts[session.entry.slot]}
            for session in sorted(there, key=lambda session: session.entry.slot)
        ]
