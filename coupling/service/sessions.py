"""State that the server keeps of each worker, and its counters."""

from dataclasses import dataclass, field
from typing import Any

from coupling.service.ledger import Entry
from coupling.wire.protocol import Heartbeat

__all__ = ["Counts", "Session"]

# per session: a worker without an answer makes a new connection about every ten seconds
_ROUTES = 64


@dataclass
class Counts:
    """Counters of the service since it began.

    Attributes
    ----------
    round_trips, batches
        Number of actions given, and of the batched inferences for them.
    diverged, failed
        Episodes that ended because their simulation diverged, or because their environment failed.
    unlearnable
        Steps that are not used as transitions, because they cannot be learned from.
    repeats, pauses, stale
        Repeated messages: answered as before, not answered yet, and outdated.
    forks
        Messages with the number of another message: two processes use one session.
    recovered
        Messages of dead workers that their successors brought.
    strangers
        Messages of unknown sessions.
    violations, unheard
        Frames that broke the protocol; ignored frames of their senders and of peers that request STATUS too often.
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
    seen: float  # time of its last sign of life, by the server's clock
    busy_since: float  # time when it last got something to do
    # connections that brought its last message and copies of it
    routes: list[bytes] = field(default_factory=list)
    pid: int = 0
    host: str = ""
    seen_here: bool = False  # whether its process is on this machine and its state can be read
    alive: bool = False
    over: bool = (
        # its worker sent GOODBYE or ERROR: no more messages follow, but its successor may bring its
        # last one
        False
    )
    late: int = 0  # messages that arrived after a later one
    warned: bool = False  # whether the run was warned of a problem with it
    challenged: float = float("-inf")  # time when another process first claimed the slot
    # time until which the slot is reserved for a worker of the previous learner
    kept_until: float = 0.0
    life: Heartbeat = field(default_factory=lambda: Heartbeat(0, 0.0, 0.0, 0.0))

    def came_by(self, route: bytes) -> None:
        """Add a connection that brought its last message or a copy; which of them still exists is not known."""
        if route not in self.routes:
            self.routes = [*self.routes[1 - _ROUTES :], route]

    def summary(self, now: float) -> dict[str, Any]:
        """Return a summary for the status, at time ``now`` of the server's clock."""
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
