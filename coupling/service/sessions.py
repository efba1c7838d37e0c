"""What the server keeps of each worker, and what it counts."""

from dataclasses import dataclass, field
from typing import Any

from coupling.service.ledger import Entry
from coupling.wire.protocol import Heartbeat

__all__ = ["Counts", "Session"]

# of a session: a worker makes a new connection each ten seconds or so that nobody answers it
_ROUTES = 64


@dataclass
class Counts:
    """What the service has seen since it began.

    Attributes
    ----------
    round_trips, batches
        Actions given, and in how many batched inferences.
    diverged, failed
        Episodes that ended because their simulation blew up, or because their environment failed.
    unlearnable
        Steps that were not taken for transitions, since they hold what cannot be learned from.
    repeats, pauses, stale
        Messages that came again: answered as before, not answered yet, and outdated.
    forks
        Messages whose number another message had: two processes speak for one session.
    recovered
        Messages of dead workers that their successors brought.
    strangers
        Messages of sessions that are not known.
    violations, unheard
        Frames that broke the protocol; later frames of those who sent them, and of those who ask STATUS too often.
    """

    round_trips: int = 0
    batches: int = 0
    diverged: int = 0
    failed: int = 0
    unlearnable: int = 0
    repeats: int = 0
    pauses: int = 0
    stale: int = 0
    forks: int = 0
    recovered: int = 0
    strangers: int = 0
    violations: int = 0
    unheard: int = 0


@dataclass
class Session:
    """One process of a worker as the learner sees it, from its HELLO to that of its successor."""

    entry: Entry
    seen: float  # when it last gave a sign of life, by the server's clock
    busy_since: float  # when it last got something to do
    # by which its last message, and copies of it, came
    routes: list[bytes] = field(default_factory=list)
    pid: int = 0
    host: str = ""
    seen_here: bool = False  # whether its process is one of this machine, which can be looked at
    alive: bool = False
    over: bool = (
        # its worker said GOODBYE or ERROR: it can say no more, but its successor may bring its last
        # message
        False
    )
    late: int = 0  # messages that came after a later one
    warned: bool = False  # whether the run was told that something is wrong with it
    challenged: float = float("-inf")  # when another process first claimed the slot
    # when the place stops being kept for a worker that the learner before had
    kept_until: float = 0.0
    life: Heartbeat = field(default_factory=lambda: Heartbeat(0, 0.0, 0.0, 0.0))

    def came_by(self, route: bytes) -> None:
        """Note a connection that brought its last message or a copy of it; nobody can tell which one still stands."""
        if route not in self.routes:
            self.routes = [*self.routes[1 - _ROUTES :], route]

    def summary(self, now: float) -> dict[str, Any]:
        """Return what is known of it at a time of the server's clock, for the status."""
        life = self.life
        return {
            "slot": self.entry.slot,
            "pid": self.pid,
            "host": self.host,
            "agents": self.entry.agents.tolist(),
            "last_sign_of_life_seconds": round(now - self.seen, 3),
            "steps": life.steps,
            "step_seconds": round(life.step_seconds, 3),
            "delay_p50_us": round(life.delay_p50_us, 1),
            "delay_p99_us": round(life.delay_p99_us, 1),
            "resends": life.resends,
            "failures": life.failures,
            "failure": life.failure,
        }
