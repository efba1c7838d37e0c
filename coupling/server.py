"""The learner's side of the service: one thread that serves everybody who waits, then learns a little.

A Python thread of gradient steps beside the socket would hold every answer up by the interpreter's switch
interval, so one thread alternates: :meth:`Server.turn` answers all waiting agents in one batched inference
and does one gradient step if one is due.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import zmq

from coupling.protocol import (
    HEADER_SIZE,
    MAX_BODY,
    Error,
    Goodbye,
    Header,
    Heartbeat,
    Hello,
    Kind,
    ProtocolError,
    Reject,
    Step,
    Welcome,
    decode,
    decode_control,
    decode_observations,
    decode_step,
    encode,
    encode_control,
)

__all__ = ["Learning", "Server", "Session", "Terms"]

_MESSAGES_A_TURN = 4096  # a peer that floods the socket cannot keep the learner from learning


class Learning(Protocol):
    """The part of :class:`rl_agent.learner.Learner` that the service needs."""

    @property
    def environment_steps(self) -> int:
        """Actions whose outcome was observed."""

    @property
    def gradient_steps(self) -> int:
        """Updates done."""

    def begin(self, agents: np.ndarray, observations: np.ndarray) -> None:
        """Take the first observations of new episodes."""

    def act(self, agents: np.ndarray) -> np.ndarray:
        """Draw an action for each agent's current observation."""

    def observe(
        self,
        agents: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        observations: np.ndarray,
    ) -> None:
        """Take the outcomes of the last actions."""

    def abandon(self, agents: np.ndarray) -> None:
        """Keep the open episodes as truncated: their worker died."""

    def updates_due(self) -> int:
        """Gradient steps owed now."""

    def update(self) -> None:
        """Do one gradient step."""

    def may_act(self) -> bool:
        """Tell whether learning keeps up with acting."""


@dataclass(frozen=True)
class Terms:
    """What the service agrees on with every worker.

    Attributes
    ----------
    agents_of_each
        Number of environments of each worker; agents are numbered through in this order.
    observation_size, action_size
        Floats in an observation and in an action.
    task_hash
        Hash of the task and its options.
    seed_of
        Seed of an agent's environment, from the agent and how often its worker had been started.
    step_timeout
        Seconds that an environment step, or the start of a worker, may take.
    heartbeat, dead_after, patience
        Seconds between signs of life; of silence after which a worker is dead; after which a worker gives up.
    epoch
        How often the run had been started before.
    """

    agents_of_each: Sequence[int]
    observation_size: int
    action_size: int
    task_hash: str
    seed_of: Callable[[int, int], int]
    step_timeout: float = 300.0
    heartbeat: float = 1.0
    dead_after: float = 5.0
    patience: float = 600.0
    epoch: int = 0


@dataclass
class Session:
    """One worker as the learner sees it, from its HELLO to its death."""

    number: int
    slot: int
    route: bytes
    hello: Hello
    agents: np.ndarray
    welcome: bytes
    seen: float
    busy_since: float  # when it last got something to do
    sequence: int = 0
    waiting: bool = False  # for an action
    acting: bool = False  # an action is out and its outcome is not in
    life: Heartbeat = field(default_factory=lambda: Heartbeat(0, 0.0, 0.0, 0.0))


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

    Attributes
    ----------
    endpoint
        The address that was bound.
    round_trips, batches
        Actions given, and in how many batched inferences.
    diverged
        Episodes that ended because their simulation blew up.
    violations
        Frames that broke the protocol.
    agent_steps
        Outcomes received from each agent, int64 (agents,).
    """

    def __init__(self, learner: Learning, endpoint: str, terms: Terms, limit: int) -> None:
        self._learner, self._terms, self._limit = learner, terms, limit
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)
        self._socket.set(zmq.MAXMSGSIZE, HEADER_SIZE + MAX_BODY)
        self._socket.set(zmq.LINGER, 1000)  # so that GOODBYE leaves
        self._socket.bind(endpoint)
        self.endpoint = self._socket.get_string(zmq.LAST_ENDPOINT)
        self._sessions: dict[int, Session] = {}  # by number
        self._starts = [0] * len(terms.agents_of_each)
        self._last_agent = np.cumsum([0, *terms.agents_of_each])
        self.agent_steps = np.zeros(self._last_agent[-1], np.int64)
        self.round_trips = self.batches = self.diverged = self.violations = 0
        self.errors: list[tuple[int, str]] = []

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
            and not any(session.acting for session in self._sessions.values())
            and not self._learner.updates_due()
        )

    def _receive(self, milliseconds: int) -> None:
        """Take in all messages that are there, waiting for the first one."""
        steps: list[tuple[Session, Step]] = []
        if milliseconds:
            self._socket.poll(milliseconds)
        for _ in range(_MESSAGES_A_TURN):
            try:
                route, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._take(route, frames, steps)
        if steps:
            self._observe(steps)

    def _take(self, route: bytes, frames: list[bytes], steps: list[tuple[Session, Step]]) -> None:
        """Handle one message; a violation is counted and answered with its reason."""
        try:
            if len(frames) != 1:
                raise ProtocolError(f"a message has {len(frames)} frames, one is allowed")
            header, body = decode(frames[0])
            if header.kind == Kind.HELLO:
                hello = decode_control(header, body)
                assert isinstance(hello, Hello)
                self._welcome(route, hello)
                return
            session = self._sessions.get(header.session)
            if session is None:
                if header.kind in (Kind.RESET, Kind.STEP):
                    raise ProtocolError(
                        "this session is not known: the learner has started anew or given the worker up"
                    )
                return
            session.seen = time.monotonic()
            if header.kind == Kind.STEP:
                self._check_order(session, header)
                steps.append((session, decode_step(body, len(session.agents), self._terms.observation_size)))
                session.acting, session.waiting = False, True
            elif header.kind == Kind.RESET:
                self._check_order(session, header)
                self._begin(session, decode_observations(body, len(session.agents), self._terms.observation_size))
            else:
                self._control(route, session, header, body)
        except ProtocolError as error:
            self.violations += 1
            self._send(route, encode_control(Reject(str(error)), epoch=self._terms.epoch))

    def _check_order(self, session: Session, header: Header) -> None:
        """Accept a RESET first, then a STEP for every ACTION, about all environments of the worker."""
        expected = Kind.STEP if session.acting else Kind.RESET
        if header.kind != expected or session.waiting or header.sequence != session.sequence + 1:
            raise ProtocolError(f"{header.kind.name} {header.sequence} came out of turn, after {session.sequence}")
        if (header.first, header.environments) != (0, len(session.agents)):
            raise ProtocolError(f"a message must speak of all {len(session.agents)} environments of the worker")
        session.sequence = header.sequence

    def _control(self, route: bytes, session: Session, header: Header, body: bytes) -> None:
        message = decode_control(header, body)
        if isinstance(message, Heartbeat):
            session.life = message
            self._send(route, encode_control(message, session=session.number, epoch=self._terms.epoch))
        elif isinstance(message, Error):
            self.errors.append((session.slot, message.reason))
        elif not isinstance(message, Goodbye):
            raise ProtocolError(f"{header.kind.name} is not for the learner")

    def _welcome(self, route: bytes, hello: Hello) -> None:
        """Open a session, or say why not."""
        terms = self._terms
        for session in self._sessions.values():
            if session.route == route:  # HELLO was said again before the answer arrived
                self._send(route, session.welcome)
                return
        reason = self._refusal(hello)
        if reason:
            self._send(route, encode_control(Reject(reason), epoch=terms.epoch))
            return
        start = self._starts[hello.slot]
        self._starts[hello.slot] += 1
        agents = np.arange(self._last_agent[hello.slot], self._last_agent[hello.slot + 1])
        number = secrets.randbits(63) + 1
        seeds = [terms.seed_of(int(agent), start) for agent in agents]
        welcome = encode_control(
            Welcome(number, int(agents[0]), seeds, terms.heartbeat, terms.patience),
            session=number,
            epoch=terms.epoch,
        )
        now = time.monotonic()
        self._sessions[number] = Session(number, hello.slot, route, hello, agents, welcome, now, now)
        self._send(route, welcome)

    def _refusal(self, hello: Hello) -> str:
        """Return why a worker cannot take part, or an empty string."""
        terms = self._terms
        if hello.task_hash != terms.task_hash:
            return "it hosts another task, or the same one with other options, than this run learns"
        sizes = (hello.observation_size, hello.action_size)
        if sizes != (terms.observation_size, terms.action_size):
            return (
                f"its observations and actions have {sizes[0]} and {sizes[1]} numbers, "
                f"this run's have {terms.observation_size} and {terms.action_size}"
            )
        if not 0 <= hello.slot < len(terms.agents_of_each):
            return f"there is no worker {hello.slot} in this run, only 0 to {len(terms.agents_of_each) - 1}"
        if hello.environments != terms.agents_of_each[hello.slot]:
            given = terms.agents_of_each[hello.slot]
            return f"it hosts {hello.environments} environments, this run gives it {given}"
        if any(session.slot == hello.slot for session in self._sessions.values()):
            return f"worker {hello.slot} is connected already"
        return ""

    # --- between messages and the learner -----------------------------------------------------------------

    def _begin(self, session: Session, observations: np.ndarray) -> None:
        self._learner.begin(session.agents, observations)
        session.waiting = True

    def _observe(self, steps: list[tuple[Session, Step]]) -> None:
        """Hand the outcomes of all workers that reported to the learner at once."""
        agents = np.concatenate([session.agents for session, _ in steps])
        ended = np.concatenate([step.ended for _, step in steps])
        first = np.concatenate([step.observations for _, step in steps])
        resulting = first
        if ended.any():
            resulting = first.copy()
            resulting[ended] = np.concatenate([step.final for _, step in steps])
        self._learner.observe(
            agents,
            np.concatenate([step.rewards for _, step in steps]),
            np.concatenate([step.terminated for _, step in steps]),
            np.concatenate([step.truncated for _, step in steps]),
            resulting,
        )
        if ended.any():
            self._learner.begin(agents[ended], first[ended])
            self.diverged += int(sum(step.diverged.sum() for _, step in steps))
        self.agent_steps[agents] += 1

    def _answer(self) -> None:
        """Give an action to all agents that wait, with one inference, unless learning lags behind."""
        waiting = [session for session in self._sessions.values() if session.waiting]
        if not waiting or not self._learner.may_act():
            return
        out = sum(len(session.agents) for session in self._sessions.values() if session.acting)
        room = self._limit - self._learner.environment_steps - out
        chosen = []
        for session in waiting:
            if room > 0:
                chosen.append(session)
                room -= len(session.agents)
        if not chosen:
            return
        actions = np.asarray(self._learner.act(np.concatenate([session.agents for session in chosen])), "<f4")
        self.batches += 1
        self.round_trips += len(actions)
        begin = 0
        for session in chosen:
            end = begin + len(session.agents)
            header = Header(
                Kind.ACTION,
                session=session.number,
                sequence=session.sequence,
                acknowledgement=session.sequence,
                environments=len(session.agents),
                clock=time.monotonic_ns(),
                epoch=self._terms.epoch,
            )
            self._send(session.route, encode(header, actions[begin:end].tobytes()))
            session.waiting, session.acting, session.busy_since = False, True, time.monotonic()
            begin = end

    def _send(self, route: bytes, frame: bytes) -> None:
        """Send without waiting; a peer that has gone is found by its silence."""
        try:
            self._socket.send_multipart((route, frame), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise

    # --- supervision --------------------------------------------------------------------------------------

    def lost(self) -> list[tuple[int, str]]:
        """Return the workers that are silent or too slow, with the reason; call it right after a turn."""
        now = time.monotonic()
        lost = []
        for session in self._sessions.values():
            silence, busy = now - session.seen, now - session.busy_since
            if silence > self._terms.dead_after:
                lost.append((session.slot, f"no sign of life for {silence:.1f} s"))
            elif not session.waiting and busy > self._terms.step_timeout:
                lost.append(
                    (
                        session.slot,
                        f"an environment step took longer than step_timeout = {self._terms.step_timeout:g} s",
                    )
                )
        return lost

    def connected(self, slot: int) -> bool:
        """Tell whether a worker has a session."""
        return any(session.slot == slot for session in self._sessions.values())

    def drop(self, slot: int) -> None:
        """End the session of a worker that has died; its open episodes stay as truncated."""
        for session in [session for session in self._sessions.values() if session.slot == slot]:
            del self._sessions[session.number]
            if session.sequence:
                self._learner.abandon(session.agents)

    def close(self, reason: str) -> None:
        """Say GOODBYE to every worker and close the socket."""
        for session in self._sessions.values():
            self._send(
                session.route,
                encode_control(Goodbye(reason), session=session.number, epoch=self._terms.epoch),
            )
        self._socket.close()
        self._context.term()

    def delays(self) -> tuple[float, float]:
        """Return median and 99th percentile of the added delay in microseconds, averaged over the workers."""
        lives = [session.life for session in self._sessions.values()]
        middle, tail = np.mean([(life.delay_p50_us, life.delay_p99_us) for life in lives], axis=0)
        return float(middle), float(tail)

    def workers(self) -> list[dict[str, Any]]:
        """Return what is known of each connected worker, for the status."""
        now = time.monotonic()
        return [
            {
                "slot": session.slot,
                "pid": session.hello.pid,
                "host": session.hello.host,
                "agents": session.agents.tolist(),
                "starts": self._starts[session.slot],
                "last_sign_of_life_seconds": round(now - session.seen, 3),
                "steps": session.life.steps,
                "step_seconds": round(session.life.step_seconds, 3),
                "delay_p50_us": round(session.life.delay_p50_us, 1),
                "delay_p99_us": round(session.life.delay_p99_us, 1),
            }
            for session in sorted(self._sessions.values(), key=lambda session: session.slot)
        ]
