"""The server of the learner: one thread that answers all waiting workers, then does a gradient step if one is due.

With gradient steps in a second Python thread, every answer would be delayed by the interpreter's switch interval.
Therefore one thread alternates: :meth:`Server.turn` answers all waiting agents in one batched inference and does one
gradient step if one is due.

The server owns the socket and implements the protocol. :mod:`coupling.service.exchange` makes each message count
exactly once, and :mod:`coupling.service.liveness` tracks which workers are alive. The rest is one class in one file,
with one method for each kind of message, because all of them use the same sessions and the same socket.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from typing import Any

import zmq

from coupling.errors import printable
from coupling.service.exchange import Exchange
from coupling.service.experience import ExperienceLog, Record
from coupling.service.ledger import OrderError, Verdict
from coupling.service.liveness import Liveness
from coupling.service.processes import is_seen
from coupling.service.sessions import Counts, Session
from coupling.service.status_limiter import StatusLimiter
from coupling.service.terms import Learning, Terms
from coupling.wire.protocol import (
    VERSION,
    Error,
    Goodbye,
    Header,
    Heartbeat,
    Hello,
    Kind,
    Pause,
    ProtocolError,
    Reject,
    Status,
    StatusReply,
    Welcome,
    decode,
    decode_control,
    encode_control,
    minor_of,
)
from coupling.wire.security import Guard, Keys
from rl_agent.normalization.states import FARTHEST, LARGEST_NUMBER

__all__ = ["UNLEARNABLE", "Counts", "Learning", "Server", "Session", "Terms"]

_MESSAGES_A_TURN = 4096  # so that a peer that floods the socket cannot stop the learning
_REMEMBERED_OFFENDERS = 65536
_MOMENT = 20  # milliseconds
_LATE_COPIES = 3  # of messages of a session, which a network may produce
UNLEARNABLE = (
    f"a number is beyond {LARGEST_NUMBER:g}, an observation beyond {FARTHEST:g} standard deviations, or an image "
    "(agent.network = conv) is not of whole numbers from 0 to 255"
)
"""Why a step cannot be learned from."""
# length of its queues, so that a peer that floods them or reads nothing does not fill the memory
_MESSAGES_OF_A_PEER = 32


class Server:
    """The service of one learner.

    Parameters
    ----------
    learner
        The learner.
    endpoint
        ZeroMQ address to bind; ``tcp://127.0.0.1:*`` takes a free port.
    terms
        Terms that every worker has to agree to.
    limit
        Environment steps after which no more actions are given.
    log
        Experience log, to which everything is written before it takes effect; a segment must have begun before the
        first turn.
    keys
        Keys for encryption and authentication of the workers; None disables both, which only loopback allows.
    clock
        Function that returns the time in seconds, used to measure silence and slowness.

    Attributes
    ----------
    endpoint
        The address that was bound.
    exchange
        The exchange of messages with the workers.
    liveness
        State of the workers.
    counts
        Counters of the service.
    errors, farewells
        Workers that reported that they cannot continue, and workers that left, with the reason.
    warnings
        Problems with sessions, one for each; a sentence that names the worker.
    report
        JSON text of the answer to STATUS.

    Raises
    ------
    ConfigError
        If other machines can reach the endpoint and there are no keys.
    """

    def __init__(
        self,
        learner: Learning,
        endpoint: str,
        terms: Terms,
        limit: int,
        log: ExperienceLog,
        keys: Keys | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._learner, self._terms, self._clock = learner, terms, clock
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)
        self._socket.set(zmq.MAXMSGSIZE, terms.longest_frame)
        self._socket.set(zmq.RCVHWM, _MESSAGES_OF_A_PEER)
        self._socket.set(zmq.SNDHWM, _MESSAGES_OF_A_PEER)
        self._socket.set(zmq.LINGER, 1000)  # so that GOODBYE is sent
        self._guard = Guard(self._socket, endpoint, keys)
        self.endpoint = self._guard.bind(len(terms.agents_of_each), clock)
        self.exchange = Exchange(
            learner,
            log,
            terms.agents_of_each,
            terms.observation_size,
            limit,
            synchronous=terms.synchronous,
            agents_per_env=terms.agents_per_env,
        )
        self.liveness = Liveness(self.exchange.ledger, terms, clock)
        self._offenders: OrderedDict[bytes, None] = OrderedDict()
        self._status_limiter = StatusLimiter(clock)
        self.errors: list[tuple[int, str]] = []
        self.farewells: list[tuple[int, str]] = []
        self.warnings: list[str] = []
        self.report = "{}"

    # --- the turn -----------------------------------------------------------------------------------------

    def turn(self, wait: float = 0.1) -> None:
        """Answer all waiting workers, then do one gradient step if one is due.

        Parameters
        ----------
        wait
            Seconds to wait for a message when there is nothing to learn.
        """
        is_busy = self._learner.updates_due() or self.exchange.is_ready
        self._receive(0 if is_busy else int(1000 * wait))
        self._answer()
        if self._learner.updates_due():
            self._learner.update()

    @property
    def counts(self) -> Counts:
        """Counters of the service."""
        return self.exchange.counts

    def _receive(self, milliseconds: int) -> None:
        """Handle all messages that have arrived, waiting for the first one."""
        if milliseconds:
            self._socket.poll(milliseconds)
        self._guard.attend()
        for _ in range(_MESSAGES_A_TURN):
            try:
                route, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._handle(route, frames)
        self.exchange.settle()
        for number in self.exchange.complaints:
            if number in self.liveness:
                self._warn(
                    self.liveness[number],
                    f"sent a step that cannot be learned from: {UNLEARNABLE}; its episode ends at the step before",
                )
        self.exchange.complaints.clear()

    def _handle(self, route: bytes, frames: list[bytes]) -> None:
        """Handle one message; a violation is counted and answered with its reason, and its sender is then ignored."""
        if self._status_limiter.ignores(route) or route in self._offenders:
            self.counts.unheard += 1
            return
        minor = 0
        try:
            if len(frames) != 1:
                raise ProtocolError(f"a message has {len(frames)} frames, one is allowed")
            header, body = decode(frames[0])
            minor = header.minor
            if header.kind in (Kind.RESET, Kind.STEP):
                self._handle_step(route, header, frames[0], body)
                return
            message = decode_control(header, body)
            if isinstance(message, Hello):
                self.exchange.settle()  # accepted messages may be of the process that this one replaces
                self._hello(route, message)
            elif isinstance(message, Status):
                self._answer_status(route)
            elif isinstance(message, Heartbeat | Error | Goodbye):
                self._sign_of_life(route, header, message)
            else:
                raise ProtocolError(f"{header.kind.name} is not for the learner")
        except ProtocolError as error:
            self.counts.violations += 1
            self._offenders[route] = None
            if len(self._offenders) > _REMEMBERED_OFFENDERS:
                self._offenders.popitem(last=False)
            if isinstance(error, OrderError):
                self._warn(
                    self.liveness[error.header.session],
                    f"sent a message that breaks the order: {error}",
                )
                self._send_error(route, error.header, str(error))
            else:
                self._reject(route, str(error), minor)

    def _answer_status(self, route: bytes) -> None:
        """Answer STATUS, unless there are so many requests that answering would slow the learning."""
        if self._status_limiter.admits(route):
            self._send(route, encode_control(StatusReply(self.report), epoch=self._terms.epoch))
        else:
            self.counts.unheard += 1

    def _handle_step(self, route: bytes, header: Header, frame: bytes, body: bytes) -> None:
        """Handle a RESET or STEP according to the ledger."""
        session = self._session_or_reject(route, header)
        if session is None:
            return
        verdict = self.exchange.ledger.classify(header)
        # the worker is still answered over the connection by which it was heard
        if verdict in (Verdict.FORK, Verdict.LATE):
            self._answer_conflict(route, session, header, verdict)
            return
        if verdict is Verdict.TAKE:
            self.exchange.accept(frame, header, body)
            session.routes = [route]
            return
        session.came_by(route)
        if verdict is Verdict.REPEAT:
            self.counts.repeats += 1
            self._send(route, session.entry.answer)
        else:
            self.counts.pauses += 1
            self.exchange.settle()
            self.exchange.flush()  # PAUSE says that the message is safe
            pause = Pause("the learner has it; learning must catch up before the next action")
            ids = {
                "session": header.session,
                "acknowledgement": header.sequence,
                "epoch": self._terms.epoch,
            }
            self._send(route, encode_control(pause, **ids))

    def _answer_conflict(
        self, route: bytes, session: Session, header: Header, verdict: Verdict
    ) -> None:
        """Tell the sender that its message contradicts the session, and warn the run unless it is a late copy."""
        name = f"{header.kind.name} {header.sequence}"
        if verdict is Verdict.FORK:
            self.counts.forks += 1
            what = f"{name} came, but another message had been accepted under its number"
            self._warn(session, f"{what}: another process uses its session")
        else:
            self.counts.stale += 1
            session.late += 1
            what = f"{name} came after a later message of its session had been accepted"
            if session.late == _LATE_COPIES:
                self._warn(
                    session,
                    f"{what}, {_LATE_COPIES} times by now: it is behind its session",
                )
        reason = f"{what}; if this worker sent no other one, another process uses its session, which has to end"
        self._send_error(route, header, reason)

    def _warn(self, session: Session, what: str) -> None:
        """Warn the run of a problem with a session, once per session."""
        if not session.warned:
            session.warned = True
            who = f" (process {session.pid} on {session.host})" if session.pid else ""
            self.warnings.append(f"worker {session.entry.slot}{who}: {what}")

    def _send_error(self, route: bytes, header: Header, reason: str) -> None:
        ids = {"session": header.session, "sequence": header.sequence, "epoch": self._terms.epoch}
        self._send(route, encode_control(Error(reason), **ids))

    def _session_or_reject(self, route: bytes, header: Header) -> Session | None:
        """Return the session of a message and record its sign of life; refuse a message of an unknown session."""
        session = self.liveness.heard(header.session)
        if session is None:
            self.counts.strangers += 1
            reason = "this session is not known: another process has taken its place, or the learner has started again"
            if header.session in self.liveness:
                reason = "this session is over: its worker has said that it leaves"
            self._send(
                route,
                encode_control(Reject(reason), session=header.session, epoch=self._terms.epoch),
            )
        return session

    def _sign_of_life(
        self, route: bytes, header: Header, message: Heartbeat | Error | Goodbye
    ) -> None:
        session = self._session_or_reject(route, header)
        if session is None:
            return
        if isinstance(message, Heartbeat):
            session.life = message
            self._send(
                route, encode_control(message, session=header.session, epoch=self._terms.epoch)
            )
            return
        session.alive, session.over, session.kept_until = False, True, 0.0
        told = self.errors if isinstance(message, Error) else self.farewells
        told.append((session.entry.slot, printable(message.reason)))

    # --- joining ------------------------------------------------------------------------------------------

    def _hello(self, route: bytes, hello: Hello) -> None:
        """Open a session, reject it with a reason, or let it wait for a sign of life of the holder of the slot.

        Raises
        ------
        ProtocolError
            If its recovered frame is not a RESET or STEP.
        """
        if hello.recovered and decode(hello.recovered)[0].kind not in (Kind.RESET, Kind.STEP):
            raise ProtocolError("what is recovered is neither RESET nor STEP")
        ledger = self.exchange.ledger
        known = ledger.of_incarnation(hello.incarnation)
        if known is not None and (
            session := self.liveness.heard(known.session)
        ):  # HELLO was repeated before the answer arrived
            session.came_by(route)
            self._welcome(session, route, hello)
            return
        slot = self._place_for(hello) if hello.slot is None else hello.slot
        # this HELLO arrived late
        has_closed = known is not None or ledger.has_closed(hello.incarnation)
        reason = (
            "its session is over, or another process has taken its place"
            if has_closed
            else self._terms.refusal(hello, slot)
        )
        if reason:
            self._reject(route, reason, minor_of(hello))
            return
        assert slot is not None
        before = ledger.of_slot(slot)
        if before is not None:
            holder = self.liveness[before.session]
            # a process that has the outbox of another proves that the other is dead
            if _session_of(hello.recovered) != before.session:
                answer: Pause | Reject | None = None
                if holder.alive:
                    answer = self.liveness.challenge(holder)
                elif left := self.liveness.keeps(slot):
                    answer = Pause(
                        f"the learner has just started, and reserves the place of worker {slot} for {left:.1f} s"
                    )
                if answer is not None:
                    self._send(route, encode_control(answer, epoch=self._terms.epoch))
                    return
            self._recover(hello.recovered, {before.session})
            self._close(before.session)
        session = self.liveness.begin(
            self.exchange.open(hello.incarnation, slot, hello.environments)
        )
        session.came_by(route)
        session.pid, session.host, session.alive = hello.pid, printable(hello.host), True
        session.seen_here = is_seen(hello.pid, hello.host)
        self._welcome(session, route, hello)

    def _reject(self, route: bytes, reason: str, minor: int) -> None:
        """Refuse a message; the minor version of the answer tells the worker which version this learner speaks."""
        frame = encode_control(
            Reject(reason), epoch=self._terms.epoch, minor=min(minor, VERSION[1])
        )
        self._send(route, frame)

    def _recover(self, frame: bytes, sessions: Container[int]) -> None:
        """Accept the last message of one of these dead sessions, unless it arrived before."""
        if not frame:
            return
        try:
            header, body = decode(frame)
            if header.kind not in (Kind.RESET, Kind.STEP) or header.session not in sessions:
                return
            verdict = self.exchange.ledger.classify(header)
            if verdict is Verdict.FORK:
                self.counts.forks += 1
                session = self.liveness[header.session]
                self._warn(
                    session,
                    f"its {header.kind.name} {header.sequence} differs from the one accepted before",
                )
            if verdict is not Verdict.TAKE:
                return
            self.exchange.accept(frame, header, body)
        except ProtocolError:
            self.counts.violations += 1
            return
        self.exchange.settle()
        self.counts.recovered += 1

    def _welcome(self, session: Session, route: bytes, hello: Hello) -> None:
        terms, entry = self._terms, session.entry
        seeds = [terms.seed_of(int(agent), entry.number) for agent in entry.agents]
        names = VERSION[0], entry.session, entry.slot, entry.first_agent
        times = terms.heartbeat, terms.patience
        welcome = Welcome(*names, seeds, *times, agents_per_env=hello.agents_per_env)
        self.exchange.flush()
        self._send(route, encode_control(welcome, session=entry.session, epoch=terms.epoch))

    def _place_for(self, hello: Hello) -> int | None:
        """Return the slot of the process whose last message a worker brings, or else the first free slot."""
        for entry in self.exchange.ledger:
            if (
                entry.environments == hello.environments
                and _session_of(hello.recovered) == entry.session
            ):
                return entry.slot
        each = enumerate(self._terms.agents_of_each)
        free = [
            slot
            for slot, count in each
            if count == hello.environments and not self.liveness.connected(slot)
        ]
        return min(free, key=lambda slot: self.liveness.keeps(slot) > 0, default=None)

    def _close(self, number: int) -> None:
        self.exchange.close(number)
        self.liveness.end(number)

    # --- answering ------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        """Answer all connected workers that wait."""
        waiting = [
            session.entry for session in self.liveness if session.entry.waiting and session.alive
        ]
        for entry in self.exchange.answer(waiting, self._terms.epoch):
            session = self.liveness[entry.session]
            session.busy_since = self._clock()
            self._send_to(session, entry.answer)

    def _send_to(self, session: Session, frame: bytes) -> bool:
        """Send over each connection that brought the session's last message; return whether one of them exists.

        After the learner was away, copies from several connections are read in no fixed order, and all connections but
        one are dead.
        """
        reached = [
            self._send(route, frame) for route in session.routes
        ]  # all of them, not the first
        return any(reached)

    def _send(self, route: bytes, frame: bytes) -> bool:
        """Send without waiting; return whether the connection exists. A peer that left is detected by its silence."""
        try:
            self._socket.send_multipart((route, frame), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            return False
        return True

    # --- continuing after a checkpoint ------------------------------------------------------------------------

    def restore(self, notes: dict[str, Any]) -> None:
        """Restore the state of the exchange from a checkpoint, before the first turn."""
        self.exchange.restore(notes)
        self.liveness.restart(kept=False)

    def replay(self, records: Iterable[Record]) -> int:
        """Replay the log since the checkpoint.

        Returns
        -------
        int
            Number of recovered environment steps.
        """
        try:
            return self.exchange.replay(records)
        finally:  # also if the log is damaged: the status of the failed run lists the sessions
            self.liveness.restart(kept=True)

    def retire(self, outboxes: Iterable[bytes]) -> None:
        """Close all sessions after accepting their last messages, so that their agents can go to other workers."""
        for frame in outboxes:
            self._recover(frame, self.liveness)
        for session in list(self.liveness):
            self._close(session.entry.session)

    def close_forgotten(self) -> None:
        """Close the sessions of dead workers for which no successor came in time."""
        for number in self.liveness.forgotten():
            self._close(number)

    def close(
        self,
        reason: str,
        patience: float = 0.0,
        waiting: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """Send GOODBYE to every worker and close the socket.

        Parameters
        ----------
        reason
            Text of the GOODBYE.
        patience
            Maximum of seconds to wait for workers that this learner has not heard yet, which are told when they send
            something, and, for a quarter of that time, for workers that were told and do not answer, because a message
            over a connection that its worker is just giving up is lost.
        waiting
            Called repeatedly during the wait, with the seconds passed.
        """
        if self._socket.closed:
            return
        told: set[int] = set()
        gone: set[int] = set()
        for session in self.liveness:
            if self._send_to(session, self._goodbye(reason, session.entry.session)):
                told.add(session.entry.session)
        began = self._clock()
        while (passed := self._clock() - began) < patience:
            left = self.liveness.awaited() - gone
            if not left or (left <= told and passed >= patience / 4):
                break
            waiting(passed)
            kind, spoke = self._dismiss(reason)
            if kind in (Kind.GOODBYE, Kind.ERROR):
                gone |= spoke
            elif kind is not Kind.HEARTBEAT:  # a heartbeat thread may not act on a GOODBYE
                told |= spoke
        self._guard.close()
        self._socket.close()
        self._context.term()

    def _dismiss(self, reason: str) -> tuple[Kind | None, set[int]]:
        """Send GOODBYE to the worker whose message arrives within a moment, over the same connection.

        Returns
        -------
        Kind or None
            Kind of its message; a worker that leaves is not answered.
        set of int
            Its session; empty if no message of a worker arrived.
        """
        self._socket.poll(_MOMENT)
        self._guard.attend()
        try:
            route, frame, *_ = self._socket.recv_multipart(zmq.NOBLOCK)
            header, _ = decode(frame)
        except (zmq.Again, ProtocolError):
            return None, set()
        if header.session not in self.liveness and header.kind is not Kind.HELLO:
            return None, set()
        if header.kind in (Kind.GOODBYE, Kind.ERROR) or self._send(
            route, self._goodbye(reason, header.session)
        ):
            return header.kind, {header.session}
        return None, set()

    def _goodbye(self, reason: str, session: int) -> bytes:
        return encode_control(Goodbye(reason), session=session, epoch=self._terms.epoch)

    @property
    def accepted(self) -> int:
        """Number of connections accepted."""
        return self._guard.accepted

    @property
    def refused(self) -> int:
        """Number of peers whose handshake failed."""
        return self._guard.refused

    @property
    def refusals(self) -> list[str]:
        """Why peers were refused, one sentence for each reason."""
        return self._guard.refusals


def _session_of(frame: bytes) -> int | None:
    try:
        return decode(frame)[0].session
    except ProtocolError:
        return None
