"""Fuzz the protocol: send malformed frames through the decoder, and to a real server over real sockets.

    python benchmarks/service/fuzz_protocol.py  # a million frames, 50,000 of them over sockets
    python benchmarks/service/fuzz_protocol.py --frames 20000 --by-sockets 2000

Valid frames of all kinds, of protocol 1.0 and 1.1, of environments with one agent and with several, are changed at
random positions, fields and lengths. Half of them get a correct checksum, so that only later checks can reject them.
The test fails if anything other than a counted rejection happens, if a refused frame is not answered by exactly one
REJECT or ERROR (except for repetitions, whose bodies are not read again), if the learner receives a number that was in
no valid frame, if a regular worker is no longer served, or if the process keeps growing. Half of the frames sent over
sockets attack a run with one agent per environment, the other half one with several. Writes
benchmarks/results/coupling/fuzz.json: rejections by reason, machine, versions and commit.

Frames, their mutations, the recording learner and both tests are in one file, so that a new kind of mutation is
classified where it is made.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import zmq

from coupling.bench.service import NullLearner
from coupling.origin import machine, provenance
from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.wire import protocol
from coupling.wire.bodies import read_body
from coupling.wire.protocol import HEADER_SIZE, Header, Hello, Kind, ProtocolError, Step
from rl_agent.rollout.open_episodes import Decision

RESULT = Path(__file__).resolve().parents[1] / "results" / "coupling" / "fuzz.json"
WORKERS, ENVIRONMENTS, SIZE, ACTIONS = 4, 2, 3, 3
AGENTS = (1, 3)
"""Agents per environment of the attacked runs."""
SERVERS = ("server", "server_of_several_agents")
"""Names of the results of these runs."""
AT_ONCE = 32
"""Number of attackers connected at the same time; each sends one frame."""
WAIT = 10.0
"""Seconds to wait for a required answer."""
LARGEST_GROWTH = 300.0
"""Largest allowed growth of the server's process, in MiB."""

# --- changed frames ---------------------------------------------------------------------------------------

INTERESTING = (
    0,
    1,
    2,
    127,
    128,
    255,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
FIELDS = {
    4: "<B",
    5: "<B",
    6: "<B",
    7: "<B",
    8: "<I",
    12: "<I",
    16: "<Q",
    24: "<Q",
    32: "<Q",
    40: "<I",
    44: "<I",
    48: "<Q",
}
FIELDS |= {56: "<I", 60: "<I"}
NAN, INFINITE = float("nan"), float("inf")
ODD_NUMBERS: tuple[Any, ...] = (
    -1,
    0,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    -0.0,
    1e308,
    NAN,
    INFINITE,
    -INFINITE,
)
ODD_THINGS: tuple[Any, ...] = (
    None,
    True,
    "",
    "\x1b[2J",
    "x" * 300,
    "x" * 5000,
    b"",
    b"FSIM",
    {},
    {"a": {"b": {}}},
)
ODD_LISTS: tuple[Any, ...] = ([], [0] * 5, [[[[]]]], [NAN] * 2, [-1, 2**63])
ODD_VALUES = ODD_NUMBERS + ODD_THINGS + ODD_LISTS
ODD_FLOATS = (NAN, INFINITE, -INFINITE, 3.4e38, -3.4e38, 1e39, 1e308, 1e-45, -0.0)


def mended(frame: bytes) -> bytes:
    """Return the frame with corrected length and checksum."""
    if len(frame) < HEADER_SIZE:
        return frame
    head = frame[:8] + struct.pack("<II", len(frame) - HEADER_SIZE, 0) + frame[16:]
    return head[:12] + struct.pack("<I", zlib.crc32(head)) + head[16:]


def changed(rng: random.Random, frame: bytes) -> bytes:
    """Apply one to three mutations to a valid frame, and correct its length and checksum half of the time."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        frame = rng.choice(CHANGES)(rng, frame)
    return mended(frame) if rng.random() < 0.5 else frame


def _flip(rng: random.Random, frame: bytes) -> bytes:
    if not frame:
        return frame
    at = rng.randrange(len(frame))
    return frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1 :]


def _cut(rng: random.Random, frame: bytes) -> bytes:
    return frame[: rng.randrange(len(frame) + 1)]


def _splice(rng: random.Random, frame: bytes) -> bytes:
    """Duplicate or drop a piece of the frame, or replace it with random bytes."""
    a, b = sorted((rng.randrange(len(frame) + 1), rng.randrange(len(frame) + 1)))
    return (
        frame[:a]
        + rng.choice((frame[a:b] * 2, b"", rng.randbytes(rng.randrange(1, 40))))
        + frame[b:]
    )


def _header_field(rng: random.Random, frame: bytes) -> bytes:
    at = rng.choice(list(FIELDS))
    value = rng.choice((rng.choice(INTERESTING), rng.randrange(20), rng.getrandbits(64)))
    packed = struct.pack("<Q", value)[: struct.calcsize(FIELDS[at])]
    return frame[:at] + packed + frame[at + len(packed) :] if len(frame) >= HEADER_SIZE else frame


def _map_value(rng: random.Random, frame: bytes) -> bytes:
    """Replace a value of a map with an unusual one, or add or drop a key."""
    try:
        content = msgspec.msgpack.decode(frame[HEADER_SIZE:])
    except (ValueError, RecursionError):
        return frame
    if not isinstance(content, dict):
        return frame
    key = rng.choice([*content, "reason", "extra"])
    if rng.random() < 0.2:
        content.pop(key, None)
    else:
        content[key] = rng.choice(ODD_VALUES)
    return frame[:HEADER_SIZE] + msgspec.msgpack.encode(content)


def _number(rng: random.Random, frame: bytes) -> bytes:
    """Write an unusual float into the body."""
    layout = rng.choice(("<f", "<d"))
    size = struct.calcsize(layout)
    if len(frame) < HEADER_SIZE + size:
        return frame
    at = HEADER_SIZE + size * rng.randrange((len(frame) - HEADER_SIZE) // size)
    with np.errstate(over="ignore"):
        packed = np.array(
            rng.choice(ODD_FLOATS), layout[1:].replace("f", "<f4").replace("d", "<f8")
        ).tobytes()
    return frame[:at] + packed + frame[at + size :]


def _status(rng: random.Random, frame: bytes) -> bytes:
    """Replace the last byte, which is a status in a STEP frame."""
    return frame[:-1] + bytes([rng.randrange(256)]) if len(frame) > HEADER_SIZE else frame


def _noise(rng: random.Random, frame: bytes) -> bytes:
    keep = rng.choice((0, 4, 8, HEADER_SIZE))
    return frame[:keep] + rng.randbytes(rng.randrange(200))


def _nested(rng: random.Random, frame: bytes) -> bytes:
    return frame[:HEADER_SIZE] + rng.choice(
        (b"\x91", b"\x81\xa1a", b"\xdd\xff\xff\xff\xff")
    ) * rng.randrange(1, 3000)


CHANGES = (
    _flip,
    _flip,
    _cut,
    _splice,
    _header_field,
    _header_field,
    _map_value,
    _map_value,
    _number,
    _status,
    _noise,
    _nested,
)

# --- valid frames -----------------------------------------------------------------------------------------


class Numbers:
    """Source of unique floats, so that each one identifies the frame that contained it."""

    def __init__(self) -> None:
        self._next = 0

    def rows(self, *shape: int) -> np.ndarray:
        """Return f32 (*shape, SIZE)."""
        count = math.prod(shape) * SIZE
        values = np.arange(self._next, self._next + count, dtype="<f4")
        self._next = (self._next + count) % 2**24  # up to here integers are exact in f32
        return values.reshape(*shape, SIZE)


class Form(NamedTuple):
    """Form of a worker's messages: agents per environment, and the minor version of the protocol."""

    agents: int
    minor: int

    @property
    def axis(self) -> tuple[int, ...]:
        """Shape of the agent axis, which arrays of version 1.1 have."""
        return (self.agents,) if self.minor else ()


def any_form(rng: random.Random, agents: int) -> Form:
    """Return a random valid form for a number of agents: several agents require version 1.1."""
    return Form(agents, 1 if agents > 1 else rng.randrange(2))


def valid_frames(
    rng: random.Random, numbers: Numbers, session: int, sequence: int, form: Form
) -> dict[Kind, bytes]:
    """Return a valid frame of each kind for a worker at this point of its session."""
    rows = numbers.rows(ENVIRONMENTS, *form.axis)
    ended = np.array([rng.random() < 0.2 for _ in range(ENVIRONMENTS)])
    no, final = np.zeros(ENVIRONMENTS, bool), numbers.rows(int(ended.sum()), *form.axis)
    gone = np.broadcast_to(ended[:, None], (ENVIRONMENTS, form.agents)) if form.minor else None
    step = Step(rows[..., 0].astype(float), rows, ended, no, no, no, final, gone)
    arrays = {
        Kind.RESET: rows.tobytes(),
        Kind.STEP: protocol.encode_step(step),
        Kind.ACTION: rows[..., :ACTIONS].tobytes(),
    }
    frames = {
        kind: protocol.encode(
            Header(
                kind,
                session=session,
                sequence=sequence,
                environments=ENVIRONMENTS,
                minor=form.minor,
            ),
            body,
        )
        for kind, body in arrays.items()
    }
    together: Any = form.agents if form.minor else msgspec.UNSET
    maps = (
        hello(
            rng,
            form,
            slot=rng.randrange(WORKERS),
            recovered=frames[Kind.STEP] if rng.random() < 0.5 else b"",
        ),
        protocol.Welcome(1, session or 1, 0, 0, [1] * ENVIRONMENTS, 1.0, 600.0, together),
        protocol.Reject("because"),
        protocol.Heartbeat(sequence, 0.5, 100.0, 200.0, 1, 2, "it failed"),
        protocol.Pause("learning must catch up"),
        protocol.Error("it cannot go on"),
        protocol.Goodbye("it was told to end"),
        protocol.Status(),
        protocol.StatusReply("{}"),
    )
    for body in maps:
        has_session = not isinstance(body, Hello | protocol.Status | protocol.StatusReply)
        frame = protocol.encode_control(body, session=session if has_session else 0)
        frames[protocol.decode(frame)[0].kind] = frame
    return frames


def hello(rng: random.Random, form: Form, slot: int, recovered: bytes = b"") -> Hello:
    """Return the HELLO of a new worker process."""
    bounds = [-1.0] * ACTIONS, [1.0] * ACTIONS
    return Hello(
        (1, 1),
        rng.getrandbits(62) + 1,
        slot,
        1,
        "host",
        ENVIRONMENTS,
        SIZE,
        *bounds,
        "task",
        recovered,
        form.agents if form.minor else msgspec.UNSET,
    )


def read(frame: bytes, agents: int) -> Any:
    """Decode a frame completely, for a run with ``agents`` agents per environment."""
    header, body = protocol.decode(frame)
    if mended(frame) != frame:
        raise SystemExit(f"a frame with a wrong length or checksum was accepted: {frame.hex()}")
    match header.kind:
        case Kind.STEP | Kind.RESET:
            return read_body(replace(header, environments=ENVIRONMENTS), body, SIZE, agents)
        case Kind.ACTION:
            axis = (agents,) if header.minor else ()
            return protocol.decode_actions(body, ENVIRONMENTS, *axis, ACTIONS)
        case _:
            return protocol.decode_control(header, body)


def reason_of(sentence: str) -> str:
    """Return a rejection's message without the parts that differ from frame to frame."""
    sentence = re.sub(
        r"begins with b.*, not with", "begins with …, not with", sentence, flags=re.DOTALL
    )
    sentence = re.sub(r"unknown field .*", "unknown field …", sentence, flags=re.DOTALL)
    sentence = re.sub(r"can't decode bytes? .*", "can't decode …", sentence, flags=re.DOTALL)
    sentence = re.sub(
        r"its actions lie in .* not within",
        "its actions lie in … not within",
        sentence,
        flags=re.DOTALL,
    )
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", sentence)


# --- the decoder ------------------------------------------------------------------------------------------


def fuzz_decoder(rng: random.Random, count: int) -> dict[str, Any]:
    """Send frames through the decoder; any exception other than ProtocolError ends the script."""
    numbers, reasons, valid = Numbers(), Counter[str](), Counter[str]()
    frames: list[bytes] = []
    began = time.perf_counter()
    for done in range(count):
        if done % 256 == 0:
            form = any_form(rng, rng.choice(AGENTS))
            session, sequence = rng.getrandbits(62) + 1, rng.randrange(1, 9)
            frames = list(valid_frames(rng, numbers, session, sequence, form).values())
        frame = changed(rng, rng.choice(frames))
        try:
            valid[type(read(frame, form.agents)).__name__] += 1
        except ProtocolError as error:
            reasons[reason_of(str(error))] += 1
        if done and done % 100_000 == 0:
            print(
                f"decoder: {done} of {count} frames, {time.perf_counter() - began:.0f} s",
                file=sys.stderr,
            )
    return {
        "frames": count,
        "rejected": reasons.total(),
        "valid": dict(valid.most_common()),
        "rejections": dict(reasons.most_common()),
        "seconds": round(time.perf_counter() - began, 1),
    }


# --- the server -------------------------------------------------------------------------------------------


class Recorder(NullLearner):
    """A learner that only records the rows it receives, and returns zero actions."""

    def __init__(self, agents: int) -> None:
        super().__init__()
        self.told: set[bytes] = set()
        self._agents = agents

    def decide(self, agents: np.ndarray) -> Decision:
        """Return zero actions, with an agent axis if there are several agents."""
        if self._agents == 1:
            return super().decide(agents)
        zeros = np.zeros((len(agents), self._agents, ACTIONS), np.float32)
        return replace(super().decide(agents), action=zeros)

    def begin(self, agents: np.ndarray, observations: np.ndarray) -> None:
        """Record the rows."""
        self._note(observations.reshape(-1, SIZE))

    def observe(
        self,
        agents: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        observations: np.ndarray,
        agent_ended: np.ndarray | None = None,
    ) -> None:
        """Record the rows and rewards."""
        self._note(observations.reshape(-1, SIZE))
        self._note(np.asarray(rewards, "<f8").reshape(-1))
        super().observe(agents, rewards, terminated, truncated, observations)

    def _note(self, rows: np.ndarray) -> None:
        if not np.isfinite(rows.astype(np.float32)).all():
            raise SystemExit(f"the learner was told {rows}")
        self.told.update(row.tobytes() for row in rows)


class Siege:
    """A server with regular workers in its slots, and attackers that know their sessions."""

    def __init__(self, rng: random.Random, folder: Path, agents: int) -> None:
        self._rng, self._numbers, self._agents = rng, Numbers(), agents
        self.learner = Recorder(agents)
        sizes = [ENVIRONMENTS] * WORKERS, SIZE, [-1.0] * ACTIONS, [1.0] * ACTIONS
        terms = Terms(
            *sizes, "task", lambda agent, start: agent, dead_after=0.2, agents_per_env=agents
        )
        log = ExperienceLog(folder)
        log.begin(0)
        self.server = Server(self.learner, "tcp://127.0.0.1:*", terms, 2**62, log)
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, 4096)
        self.said: set[bytes] = set()  # rows that were in a valid frame
        # frame that the next process of a worker claims to have recovered, by slot
        self._left: dict[int, bytes] = {}
        self.reasons: Counter[str] = Counter()
        self.sent = self.refused = self.valid = self.contested = self.lives = (
            self.honest_messages
        ) = 0

    def turn(self) -> None:
        """Serve for one turn and drop silent workers, as a run does."""
        self.server.turn(0.001)
        for slot, _ in self.server.liveness.lost():
            self.server.liveness.drop(slot)

    def dealer(self) -> zmq.Socket[bytes]:
        """Return a new connection to the server."""
        socket = self.context.socket(zmq.DEALER)
        socket.linger = 0
        socket.connect(self.server.endpoint)
        return socket

    def note(self, frame: bytes) -> bool:
        """Record the rows of a frame if it is valid; return whether it is."""
        try:
            body = read(frame, self._agents)
        except ProtocolError:
            return False
        if isinstance(body, Hello) and body.recovered:
            self.note(body.recovered)
        if isinstance(body, Step):
            self.said.update(
                row.tobytes()
                for rows in (body.observations, body.final)
                for row in rows.reshape(-1, SIZE)
            )
            self.said.update(reward.tobytes() for reward in body.rewards.reshape(-1))
        elif protocol.decode(frame)[0].kind is Kind.RESET:
            self.said.update(row.tobytes() for row in body.reshape(-1, SIZE))
        return True

    def ask(self, socket: zmq.Socket[bytes], frame: bytes, wanted: Kind) -> Header:
        """Send a frame of a regular worker and wait for the required answer."""
        self.note(frame)
        until, again = time.monotonic() + WAIT, 0.0
        while time.monotonic() < until:
            if time.monotonic() > again:  # resend, as a worker does
                socket.send(frame)
                again = time.monotonic() + 1.0
            self.turn()
            while socket.poll(1):
                header, _ = protocol.decode(socket.recv())
                if header.kind is wanted:
                    return header
        raise SystemExit(f"an honest worker got no {wanted.name} within {WAIT:g} s")

    def live(self) -> None:
        """Join in place of the previous worker, step while under attack, and leave with a frame in the outbox."""
        slot, form = self._rng.randrange(WORKERS), any_form(self._rng, self._agents)
        with self.dealer() as socket:
            greeting = hello(self._rng, form, slot, recovered=self._left.pop(slot, b""))
            session = self.ask(socket, protocol.encode_control(greeting), Kind.WELCOME).session
            self.lives += 1
            valid: list[bytes] = []
            for sequence in range(1, self._rng.randrange(2, 8)):
                frames = valid_frames(self._rng, self._numbers, session, sequence, form)
                self.ask(socket, frames[Kind.RESET if sequence == 1 else Kind.STEP], Kind.ACTION)
                self.honest_messages += 1
                valid += self.attack(session, sequence)
            self._harvest(valid, None)
            socket.send(protocol.encode_control(protocol.Goodbye("done"), session=session))
            # the reply shows that the GOODBYE has arrived
            self.ask(socket, protocol.encode_control(protocol.Status()), Kind.STATUS_REPLY)
            last = valid_frames(self._rng, self._numbers, session, sequence + 1, form)
            # only STEP and RESET may be recovered: a HELLO with any other frame is refused
            self._left[slot] = self._rng.choice((last[Kind.STEP], last[Kind.RESET]))

    def attack(self, session: int, sequence: int) -> list[bytes]:
        """Send mutated frames, each over its own connection; return those that are still valid.

        Valid ones are sent at the end of the session, because the server may accept one as the worker's next message.
        """
        valid: list[bytes] = []
        invalid: list[bytes] = []
        for _ in range(AT_ONCE):
            near = self._rng.choice((sequence, sequence + 1, sequence + 1, sequence + 2))
            frames = valid_frames(
                self._rng,
                self._numbers,
                self._rng.choice((session, session, session, 7)),
                near,
                any_form(self._rng, self._agents),
            )
            frame = changed(self._rng, self._rng.choice(list(frames.values())))
            (valid if self.note(frame) else invalid).append(frame)
        self.sent += AT_ONCE
        self.valid += len(valid)
        before = self.server.counts.violations
        fates = [fate(frame, session, sequence) for frame in invalid]
        self._harvest(invalid, [1] * len(invalid))
        if self.server.counts.violations - before != fates.count("violation"):
            raise SystemExit(
                f"{dict(Counter(fates))}, but {self.server.counts.violations - before} were counted"
            )
        self.contested += fates.count("contested")
        return valid

    def _harvest(self, frames: list[bytes], owed: list[int] | None) -> None:
        """Send frames and count the refusals by reason; check the number of refusals of each frame if it is known."""
        sockets = [self.dealer() for _ in frames]
        for socket, frame in zip(sockets, frames, strict=True):
            socket.send(frame)
        answers: list[list[Any]] = [[] for _ in frames]
        until = time.monotonic() + WAIT
        quiet = 0
        while quiet < 5 and time.monotonic() < until:
            self.turn()
            quiet += 1
            for socket, heard in zip(sockets, answers, strict=True):
                while socket.poll(0):
                    heard.append(read(socket.recv(), self._agents))
                    quiet = 0
            if owed and any(
                len(heard) < number for heard, number in zip(answers, owed, strict=True)
            ):
                quiet = 0
        for socket in sockets:
            socket.close()
        refusals = [
            [a for a in heard if isinstance(a, protocol.Reject | protocol.Error)]
            for heard in answers
        ]
        if owed and [len(heard) for heard in refusals] != owed:
            raise SystemExit(
                f"refused frames got these refusals within {WAIT:g} s: {list(zip(owed, refusals, strict=True))}"
            )
        self.refused += sum(map(len, refusals))
        self.reasons.update(reason_of(refusal.reason) for heard in refusals for refusal in heard)


def fate(frame: bytes, session: int, sequence: int) -> str:
    """Return how a server must classify an invalid frame, given the session and its last answered message."""
    try:
        header, _ = protocol.decode(frame)
    except ProtocolError:
        return "violation"
    if header.kind not in (Kind.RESET, Kind.STEP):
        return "violation"
    if header.session != session:
        return "stranger"
    again = (header.kind is Kind.RESET) == (header.sequence == 1) and header.sequence <= sequence
    return (
        "contested"
        if again and (header.first, header.environments) == (0, ENVIRONMENTS)
        else "violation"
    )


def memory() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def fuzz_server(rng: random.Random, count: int, agents: int) -> dict[str, Any]:
    """Send frames to a real server over real sockets, between the messages of regular workers.

    ``agents`` is the number of agents per environment of its run.
    """
    with tempfile.TemporaryDirectory(prefix="flowsim-fuzz-") as folder:
        siege = Siege(rng, Path(folder), agents)
        began, told, grown = time.perf_counter(), 0.0, 0.0
        first = 0.0
        while siege.sent < count:
            siege.live()
            invented = siege.learner.told - siege.said
            if invented:
                raise SystemExit(
                    f"the learner was told {len(invented)} numbers that stood in no valid frame"
                )
            if not first and siege.sent > count // 10:
                first = memory()  # caches and buffers are full by now
            grown = memory() - first if first else 0.0
            if grown > LARGEST_GROWTH:
                raise SystemExit(f"the process grew by {grown:.0f} MiB")
            if time.perf_counter() - told > 20:
                told = time.perf_counter()
                print(
                    f"server: {siege.sent} of {count} frames, {told - began:.0f} s", file=sys.stderr
                )
        siege.live()  # a regular worker is still served
        result = {
            "frames": siege.sent,
            "connections": siege.sent + siege.lives,
            "valid": siege.valid,
            "contested": siege.contested,
            "refused": siege.refused,
            "honest_lives": siege.lives,
            "honest_messages": siege.honest_messages,
            "rows_told_to_the_learner": len(siege.learner.told),
            "rows_of_no_valid_frame": len(siege.learner.told - siege.said),
            "counts": vars(siege.server.counts),
            "grown_mib_after_the_first_tenth": round(grown, 1),
            "rejections": dict(siege.reasons.most_common()),
            "seconds": round(time.perf_counter() - began, 1),
        }
        siege.server.close("the siege is over")
        siege.context.destroy(linger=0)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument(
        "--by-sockets", type=int, default=50_000, help="how many of them go through the server"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    result = {
        "seed": arguments.seed,
        **provenance(),
        "machine": machine(),
        "decoder": fuzz_decoder(rng, arguments.frames - arguments.by_sockets),
    }
    for agents, name in zip(AGENTS, SERVERS, strict=True):
        result[name] = fuzz_server(rng, arguments.by_sockets // len(AGENTS), agents)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{arguments.frames} frames, no accident; {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
