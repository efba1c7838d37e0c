"""The learner's side of the service: one thread that serves everybody who waits, then learns a little.

A Python thread of gradient steps beside the socket would hold every answer up by the interpreter's switch
interval, so one thread alternates: :meth:`Server.turn` answers all waiting agents in one batched inference
and does one gradient step if one is due.

What comes in is judged by the ledger, written to the experience log, and only then given to the learner; an action
is drawn, written to the log, and only then issued and sent. A learner that is killed anywhere in between is rebuilt by
:meth:`Server.replay`, through the same methods.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np
import zmq

from coupling.service.experience import Answered, Closed, ExperienceLog, Opened, Record, Taken, decision_of
from coupling.service.ledger import Entry, Ledger, OrderError, Verdict
from coupling.service.sessions import Counts, Message, Session
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
    Step,
    Welcome,
    decode,
    decode_control,
    decode_observations,
    decode_step,
    encode,
    encode_control,
)
from coupling.wire.security import Guard, Keys

__all__ = ["Counts", "Learning", "Server", "Session", "Terms"]

_MESSAGES_A_TURN = 4096  # a peer that floods the socket cannot keep the learner from learning
_REMEMBERED_OFFENDERS = 65536
_LATE_COPIES = 3  # of messages of a session, which a network may make
_MESSAGES_OF_A_PEER = 32  # in its queues: a peer that floods them, or reads nothing, does not fill the memory


class Server:
    """The service of one learner.

    Parameters
    ----------
    learner
        What learns.
    endpoint
        ZeroMQ address to bind; ``tcp://127.0.0.1:*`` takes a free port.
    terms
        What every worker has to agree to.
    limit
        Environment steps after which no more actions are given.
    log
        Where everything is written before it counts; a segment of it must have begun before the first turn.
    keys
        Encrypt, and let in only who has the workers' key; None does neither, which loopback alone allows.
    clock
        Tells the seconds by which silence and slowness are judged.

    Attributes
    ----------
    endpoint
        The address that was bound.
    counts
        What happened.
    agent_steps
        Outcomes received from each agent, int64 (agents,).
    errors, farewells
        Workers that said that they cannot go on, and those that left, with the reason.
    warnings
        What is wrong with a session, once for each; a sentence that names the worker.
    report
        JSON text that answers STATUS.

    Raises
    ------
    ConfigError
        When other machines reach the endpoint and there are no keys.
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
        self._learner, self._terms, self._limit, self._log = learner, terms, limit, log
        self._clock = clock
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)
        self._socket.set(zmq.MAXMSGSIZE, terms.longest_frame)
        self._socket.set(zmq.RCVHWM, _MESSAGES_OF_A_PEER)
        self._socket.set(zmq.SNDHWM, _MESSAGES_OF_A_PEER)
        self._socket.set(zmq.LINGER, 1000)  # so that GOODBYE leaves
        self._guard = Guard(self._socket, endpoint, keys)
        self.endpoint = self._guard.bind(len(terms.agents_of_each), clock)
        self._ledger = Ledger()
        self._sessions: dict[int, Session] = {}
        self._offenders: OrderedDict[bytes, None] = OrderedDict()
        self._last_agent = np.cumsum([0, *terms.agents_of_each])
        self.agent_steps = np.zeros(self._last_agent[-1], np.int64)
        self.counts = Counts()
        self.ended_episodes = 0  # by themselves, not by a failure
        self.errors: list[tuple[int, str]] = []
        self.farewells: list[tuple[int, str]] = []
        self.warnings: list[str] = []
        self.report = "{}"
        self._looked = self._clock()

    # --- the turn -----------------------------------------------------------------------------------------

    def turn(self, wait: float = 0.1) -> None:
        """Serve everybody who waits, then do one gradient step if one is due.

        Parameters
        ----------
        wait
            Seconds to wait for a message when there is nothing to learn.
        """
        self._receive(0 if self._learner.updates_due() else int(1000 * wait))
        self._answer()
        if self._learner.updates_due():
            self._learner.update()

    @property
    def finished(self) -> bool:
        """Whether the limit is reached, all outcomes are in and no gradient step is owed."""
        return (
            self._learner.environment_steps >= self._limit
            and not any(entry.acting for entry in self._ledger)
            and not self._learner.updates_due()
        )

    def _receive(self, milliseconds: int) -> None:
        """Take in all messages that are there, waiting for the first one."""
        taken: list[Message] = []
        if milliseconds:
            self._socket.poll(milliseconds)
        self._guard.attend()
        for _ in range(_MESSAGES_A_TURN):
            try:
                route, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._hear(route, frames, taken)
        self._take_in(taken)

    def _hear(self, route: bytes, frames: list[bytes], taken: list[Message]) -> None:
        """Handle one message; a violation is counted, answered with its reason, and its sender heard no more."""
        if route in self._offenders:
            self.counts.unheard += 1
            return
        try:
            if len(frames) != 1:
                raise ProtocolError(f"a message has {len(frames)} frames, one is allowed")
            header, body = decode(frames[0])
            if header.kind in (Kind.RESET, Kind.STEP):
                self._order(route, header, frames[0], body, taken)
                return
            message = decode_control(header, body)
            if isinstance(message, Hello):
                self._take_in(taken)  # they may be of the process whose place this one takes
                taken.clear()
                self._hello(route, message)
            elif isinstance(message, Status):
                self._send(route, encode_control(StatusReply(self.report), epoch=self._terms.epoch))
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
                self._warn(self._sessions[error.header.session], f"sent a message that breaks the order: {error}")
                self._send_error(route, error.header, str(error))
            else:
                self._send(route, encode_control(Reject(str(error)), epoch=self._terms.epoch))

    def _order(self, route: bytes, header: Header, frame: bytes, body: bytes, taken: list[Message]) -> None:
        """Do with a RESET or STEP what the ledger says."""
        session = self._found(route, header)
        if session is None:
            return
        verdict = self._ledger.judge(header)
        if verdict in (Verdict.FORK, Verdict.LATE):  # the worker is still answered where it was heard
            self._contest(route, session, header, verdict)
            return
        if verdict is Verdict.TAKE:
            message = Message(frame, header, self._outcome(header, body))
            self._ledger.take(header)
            session.routes = [route]
            taken.append(message)
            return
        session.came_by(route)
        if verdict is Verdict.REPEAT:
            self.counts.repeats += 1
            self._send(route, session.entry.answer)
        else:
            self.counts.pauses += 1
            self._take_in(taken)  # what is paused has to be safe
            taken.clear()
            self._log.flush()
            pause = Pause("the learner has it; learning must catch up before the next action")
            ids = {"session": header.session, "acknowledgement": header.sequence, "epoch": self._terms.epoch}
            self._send(route, encode_control(pause, **ids))

    def _contest(self, route: bytes, session: Session, header: Header, verdict: Verdict) -> None:
        """Tell the sender at once that its message is not what the session holds, and the run if it is no late copy."""
        name = f"{header.kind.name} {header.sequence}"
        if verdict is Verdict.FORK:
            self.counts.forks += 1
            what = f"{name} came, but another message had been taken in under its number"
            self._warn(session, f"{what}: another process speaks for its session")
        else:
            self.counts.stale += 1
            session.late += 1
            what = f"{name} came after a later message of its session had been taken in"
            if session.late == _LATE_COPIES:
                self._warn(session, f"{what}, {_LATE_COPIES} times by now: it is behind what its session holds")
        reason = f"{what}; if this worker sent no other one, another process speaks for its session, which cannot go on"
        self._send_error(route, header, reason)

    def _warn(self, session: Session, what: str) -> None:
        """Tell the run that something is wrong with a session, once."""
        if not session.warned:
            session.warned = True
            who = f" (process {session.pid} on {session.host})" if session.pid else ""
            self.warnings.append(f"worker {session.entry.slot}{who}: {what}")

    def _send_error(self, route: bytes, header: Header, reason: str) -> None:
        ids = {"session": header.session, "sequence": header.sequence, "epoch": self._terms.epoch}
        self._send(route, encode_control(Error(reason), **ids))

    def _found(self, route: bytes, header: Header) -> Session | None:
        """Return the session of a message, with its sign of life noted; refuse a message of an unknown one."""
        session = self._sessions.get(header.session)
        if session is None or session.over:
            self.counts.strangers += 1
            reason = "this session is not known: another process has taken its place, or the learner has begun anew"
            if session is not None:
                reason = "this session is over: its worker has said that it leaves"
            self._send(route, encode_control(Reject(reason), session=header.session, epoch=self._terms.epoch))
            return None
        session.seen, session.alive = self._clock(), True
        return session

    def _sign_of_life(self, route: bytes, header: Header, message: Heartbeat | Error | Goodbye) -> None:
        session = self._found(route, header)
        if session is None:
            return
        if isinstance(message, Heartbeat):
            session.life = message
            self._send(route, encode_control(message, session=header.session, epoch=self._terms.epoch))
            return
        session.alive, session.over, session.kept_until = False, True, 0.0
        told = self.errors if isinstance(message, Error) else self.farewells
        told.append((session.entry.slot, message.reason))

    # --- joining ------------------------------------------------------------------------------------------

    def _hello(self, route: bytes, hello: Hello) -> None:
        """Open a session, or say why not, or that a sign of life of who has the place is waited for."""
        known = self._ledger.of_incarnation(hello.incarnation)
        if known is not None and not self._sessions[known.session].over:  # said again before the answer arrived
            session = self._sessions[known.session]
            session.came_by(route)
            session.seen, session.alive = self._clock(), True
            self._welcome(session, route)
            return
        slot = self._place_for(hello) if hello.slot is None else hello.slot
        has_closed = known is not None or self._ledger.has_closed(hello.incarnation)  # this was long on its way
        reason = (
            "its session is over, or another process has taken its place"
            if has_closed
            else self._terms.refusal(hello, slot)
        )
        if reason:
            self._send(route, encode_control(Reject(reason), epoch=self._terms.epoch))
            return
        assert slot is not None
        before = self._ledger.of_slot(slot)
        if before is not None:
            holder = self._sessions[before.session]
            if _session_of(hello.recovered) != before.session:  # who has the outbox of a process proves that it is dead
                if holder.alive:
                    self._challenge(holder, route)
                    return
                if self._is_kept(slot):
                    left = holder.kept_until - self._clock()
                    why = f"the learner was started just now, and keeps the place of worker {slot} for {left:.1f} s"
                    self._send(route, encode_control(Pause(why), epoch=self._terms.epoch))
                    return
            self._recover(hello.recovered, {before.session})
            self._close(before.session)
        first = int(self._last_agent[slot])
        opened = Opened(secrets.randbits(63) | 1, hello.incarnation, slot, first, hello.environments)
        self._log.append(opened)
        session = self._open(opened)
        session.came_by(route)
        session.pid, session.host, session.alive = hello.pid, hello.host, True
        self._welcome(session, route)

    def _challenge(self, holder: Session, route: bytes) -> None:
        """Refuse a newcomer once the holder of its place has given a sign of life well after its first HELLO.

        What the holder sent before it died may still be on its way when the newcomer is there. Until that is known, the
        newcomer is told what it waits for.
        """
        now, name = self._clock(), f"worker {holder.entry.slot}"
        answer: Pause | Reject = Pause(
            f"{name} is connected already; it is given up if it keeps silent for {self._terms.dead_after:g} s"
        )
        if now - holder.challenged > 2 * self._terms.dead_after:
            holder.challenged = now
        elif holder.seen > holder.challenged + self._terms.heartbeat:
            answer = Reject(f"{name} is connected already")
        self._send(route, encode_control(answer, epoch=self._terms.epoch))

    def _recover(self, frame: bytes, sessions: Container[int]) -> None:
        """Take in the last message of one of these dead sessions, unless it came already."""
        if not frame:
            return
        try:
            header, body = decode(frame)
            if header.kind not in (Kind.RESET, Kind.STEP) or header.session not in sessions:
                return
            verdict = self._ledger.judge(header)
            if verdict is Verdict.FORK:
                self.counts.forks += 1
                session = self._sessions[header.session]
                self._warn(session, f"its {header.kind.name} {header.sequence} is not what was taken in for it before")
            if verdict is not Verdict.TAKE:
                return
            message = Message(frame, header, self._outcome(header, body))
        except ProtocolError:
            self.counts.violations += 1
            return
        self._ledger.take(header)
        self._take_in([message])
        self.counts.recovered += 1

    def _welcome(self, session: Session, route: bytes) -> None:
        terms, entry = self._terms, session.entry
        seeds = [terms.seed_of(int(agent), entry.number) for agent in session.agents]
        names = VERSION[0], entry.session, entry.slot, entry.first_agent
        welcome = Welcome(*names, seeds, terms.heartbeat, terms.patience)
        self._log.flush()
        self._send(route, encode_control(welcome, session=entry.session, epoch=terms.epoch))

    def _place_for(self, hello: Hello) -> int | None:
        """Return the place of the process whose last message a worker brings, or else the first that is free."""
        for entry in self._ledger:
            if entry.environments == hello.environments and _session_of(hello.recovered) == entry.session:
                return entry.slot
        each = enumerate(self._terms.agents_of_each)
        free = [slot for slot, count in each if count == hello.environments and not self.connected(slot)]
        return min(free, key=self._is_kept, default=None)

    def _is_kept(self, slot: int) -> bool:
        """Tell whether a place is kept for a worker that may find the restarted learner soon."""
        entry = self._ledger.of_slot(slot)
        return entry is not None and self._clock() < self._sessions[entry.session].kept_until

    # --- what counts, live and in a replay ------------------------------------------------------------------

    def _open(self, opened: Opened) -> Session:
        entry = self._ledger.open(
            opened.session, opened.incarnation, opened.slot, opened.first_agent, opened.environments
        )
        session = self._sessions[entry.session] = self._new_session(entry)
        return session

    def _new_session(self, entry: Entry) -> Session:
        now = self._clock()
        return Session(entry, seen=now, busy_since=now)

    def _close(self, number: int) -> None:
        """End a session for good; its open episodes stay as truncated."""
        self._log.append(Closed(number))
        self._end(number)

    def _end(self, number: int) -> None:
        session = self._sessions.pop(number)
        self._ledger.close(number)
        if session.entry.sequence:
            self._learner.abandon(session.agents)

    def _take_in(self, messages: list[Message]) -> None:
        """Make messages safe, then hand them to the learner."""
        if messages:
            self._log.append(Taken([message.frame for message in messages]))
            self._apply(messages)

    def _apply(self, messages: list[Message]) -> None:
        steps: list[tuple[Session, Step]] = []
        for _, header, outcome in messages:
            session = self._sessions[header.session]
            if isinstance(outcome, Step):
                steps.append((session, outcome))
            else:
                self._learner.begin(session.agents, outcome)
        if steps:
            self._observe(steps)

    def _outcome(self, header: Header, body: bytes) -> np.ndarray | Step:
        count = self._ledger[header.session].environments
        read = decode_step if header.kind is Kind.STEP else decode_observations
        return read(body, count, self._terms.observation_size)

    def _observe(self, steps: list[tuple[Session, Step]]) -> None:
        """Hand the outcomes of all workers that reported to the learner at once."""
        agents = np.concatenate([session.agents for session, _ in steps])
        ended = np.concatenate([step.ended for _, step in steps])
        failed = np.concatenate([step.failed for _, step in steps])
        first = np.concatenate([step.observations for _, step in steps])
        resulting = first
        if ended.any():
            resulting = first.copy()
            resulting[ended] = np.concatenate([step.final for _, step in steps])
        came = ~failed
        self.ended_episodes += int(ended.sum())
        self._learner.observe(
            agents[came],
            np.concatenate([step.rewards for _, step in steps])[came],
            np.concatenate([step.terminated for _, step in steps])[came],
            np.concatenate([step.truncated for _, step in steps])[came],
            resulting[came],
        )
        if failed.any():
            self._learner.abandon(agents[failed])
            self.counts.failed += int(failed.sum())
        anew = ended | failed
        if anew.any():
            self._learner.begin(agents[anew], first[anew])
            self.counts.diverged += int(sum(step.diverged.sum() for _, step in steps))
        self.agent_steps[agents[came]] += 1

    def _answer(self) -> None:
        """Give an action to all agents that wait, with one inference, unless learning lags behind."""
        waiting = [session for session in self._sessions.values() if session.entry.waiting and session.alive]
        if not waiting or not self._learner.may_act():
            return
        out = sum(entry.environments for entry in self._ledger if entry.acting)
        room = self._limit - self._learner.environment_steps - out
        chosen = []
        for session in waiting:
            if room > 0:
                chosen.append(session)
                room -= len(session.agents)
        if not chosen:
            return
        decision = self._learner.decide(np.concatenate([session.agents for session in chosen]))
        numbers = [session.entry.session for session in chosen]
        answered = Answered.of(numbers, self._terms.epoch, self._learner.gradient_steps, decision)
        self._log.append(answered)
        self._log.flush()
        self._issue(numbers, np.asarray(self._learner.issue(decision), "<f4"), self._terms.epoch)
        self.counts.batches += 1
        for session in chosen:
            self.counts.round_trips += len(session.agents)
            session.busy_since = self._clock()
            self._send_to(session, session.entry.answer)

    def _issue(self, sessions: list[int], actions: np.ndarray, epoch: int) -> None:
        """Note the ACTION of each session in the ledger; the actions of all stand one below the other."""
        begin = 0
        for number in sessions:
            entry = self._ledger[number]
            end = begin + entry.environments
            header = Header(
                Kind.ACTION,
                session=number,
                sequence=entry.sequence,
                acknowledgement=entry.sequence,
                environments=entry.environments,
                epoch=epoch,
            )
            self._ledger.answer(number, encode(header, actions[begin:end].tobytes()))
            begin = end

    def _send_to(self, session: Session, frame: bytes) -> None:
        """Send by each connection that brought the session's last message.

        After the learner was away, copies that came by several are read in no fixed order, and all but one are dead.
        """
        for route in session.routes:
            self._send(route, frame)

    def _send(self, route: bytes, frame: bytes) -> None:
        """Send without waiting; a peer that has gone is found by its silence."""
        try:
            self._socket.send_multipart((route, frame), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise

    # --- going on after a checkpoint ------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """Return what a checkpoint has to hold of the service."""
        return {"ledger": self._ledger.save(), "agent_steps": self.agent_steps.tolist()}

    def restore(self, notes: dict[str, Any]) -> None:
        """Take over the result of :meth:`notes`, before the first turn."""
        self._ledger.restore(notes["ledger"])
        self.agent_steps[:] = notes["agent_steps"]
        self._sessions = {entry.session: self._new_session(entry) for entry in self._ledger}

    def replay(self, records: Iterable[Record]) -> int:
        """Do again what the log says was done since the checkpoint; gradient steps are done as they become due.

        The workers may live, and find this learner soon: until they are heard, or known to be dead, their places are
        kept for a while.

        Returns
        -------
        int
            Environment steps that came back.
        """
        before = self._learner.environment_steps
        for record in records:
            if isinstance(record, Opened):
                self._open(record)
            elif isinstance(record, Taken):
                read = [(frame, *decode(frame)) for frame in record.frames]
                for _, header, _ in read:
                    self._ledger.take(header)
                self._apply([Message(frame, header, self._outcome(header, body)) for frame, header, body in read])
            elif isinstance(record, Answered):
                while not self._learner.may_act():
                    self._learner.update()
                actions = np.asarray(self._learner.issue(decision_of(record)), "<f4")
                self._issue(record.sessions, actions, record.epoch)
            else:
                self._end(record.session)
        for session in self._sessions.values():
            session.kept_until = self._clock() + 2 * self._terms.dead_after
        return self._learner.environment_steps - before

    def retire(self, outboxes: Iterable[bytes]) -> None:
        """End all sessions, with the last messages of their processes: the agents are given to other workers."""
        for frame in outboxes:
            self._recover(frame, self._sessions)
        for number in list(self._sessions):
            self._close(number)

    def fits(self) -> bool:
        """Tell whether the open sessions are of workers with the agents that this run's have."""
        split = [(int(self._last_agent[slot]), count) for slot, count in enumerate(self._terms.agents_of_each)]
        return all(
            entry.slot < len(split) and (entry.first_agent, entry.environments) == split[entry.slot]
            for entry in self._ledger
        )

    # --- supervision --------------------------------------------------------------------------------------

    def lost(self) -> list[tuple[int, str]]:
        """Return the workers that are silent or too slow, with the reason; call it right after a turn."""
        now = self._clock()
        away, self._looked = now - self._looked, now
        if away > self._terms.heartbeat:  # this process was stopped, or busy: nobody could be heard meanwhile
            for session in self._sessions.values():
                session.seen = min(now, session.seen + away)
                session.busy_since = min(now, session.busy_since + away)
        lost = []
        for session in self._sessions.values():
            slot, silence, busy = session.entry.slot, now - session.seen, now - session.busy_since
            if not session.alive:
                continue
            if silence > self._terms.dead_after:
                lost.append((slot, f"no sign of life for {silence:.1f} s"))
            elif not session.entry.waiting and busy > self._terms.step_timeout:
                limit = self._terms.step_timeout
                lost.append((slot, f"an environment step took longer than step_timeout = {limit:g} s"))
        return lost

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

    def close_forgotten(self) -> None:
        """Close the sessions of dead workers for which no successor came within ``patience``."""
        now = self._clock()
        for session in list(self._sessions.values()):
            if not session.alive and now - session.seen > self._terms.patience:
                self._close(session.entry.session)

    def close(self, reason: str) -> None:
        """Say GOODBYE to every worker and close the socket."""
        for session in self._sessions.values():
            farewell = encode_control(Goodbye(reason), session=session.entry.session, epoch=self._terms.epoch)
            self._send_to(session, farewell)
        self._guard.close()
        self._socket.close()
        self._context.term()

    @property
    def accepted(self) -> int:
        """How many connections came."""
        return self._guard.accepted

    @property
    def refused(self) -> int:
        """How many peers did not get through the handshake."""
        return self._guard.refused

    @property
    def refusals(self) -> list[str]:
        """Why peers were refused, one sentence for each reason."""
        return self._guard.refusals

    def delays(self) -> tuple[float, float]:
        """Return median and 99th percentile of the added delay in microseconds, averaged over the workers."""
        lives = [session.life for session in self._sessions.values() if session.alive]
        middle, tail = np.mean([(life.delay_p50_us, life.delay_p99_us) for life in lives], axis=0)
        return float(middle), float(tail)

    def workers(self) -> list[dict[str, Any]]:
        """Return what is known of each worker that is there, for the status."""
        now, there = self._clock(), [session for session in self._sessions.values() if session.alive]
        return [
            session.summary(now) | {"starts": self._ledger.starts[session.entry.slot]}
            for session in sorted(there, key=lambda session: session.entry.slot)
        ]


def _session_of(frame: bytes) -> int | None:
    try:
        return decode(frame)[0].session
    except ProtocolError:
        return None
