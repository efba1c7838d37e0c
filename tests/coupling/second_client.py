"""A second client, written from PROTOCOL.md alone: it imports nothing of flowsim, and no NumPy.

    python tests/coupling/second_client.py CONNECTION SLOT ENVIRONMENTS OUTBOX JOURNAL [MINOR]

It speaks version 1.0, or 1.1 with an axis of agents, of which there is one in each of its environments.
It hosts environments whose rewards say which episode and step they belong to, and writes a journal of each, as
oracle.py does, so that audit.py can compare what the learner holds with what was stepped. It is one file, as a
client is that somebody writes elsewhere.
"""

import contextlib
import json
import math
import os
import random
import re
import secrets
import socket
import stat
import struct
import sys
import threading
import time
import zlib
from pathlib import Path

import msgpack
import zmq

HEADER = struct.Struct("<4sBBBBIIQQQIIQII")
FIELDS = ("session", "sequence", "acknowledgement", "first", "environments", "clock", "epoch")
LONGEST_BODY = 67_108_864
NAMES = (
    "", "HELLO", "WELCOME", "REJECT", "RESET", "STEP", "ACTION",
    "HEARTBEAT", "PAUSE", "ERROR", "GOODBYE", "STATUS", "STATUS_REPLY",
)  # fmt: skip
ARRAYS = ("RESET", "STEP", "ACTION")
LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


class RefusedError(ValueError):
    """A frame that breaks the protocol."""


class EndedError(Exception):
    """The worker is to end, with this exit code."""

    def __init__(self, reason, code):
        super().__init__(reason)
        self.code = code


def insist(holds, what):
    if not holds:
        raise RefusedError(what)


# --- frames -------------------------------------------------------------------------------------------------


def write(kind, body, minor=0, **fields):
    """Return a frame."""
    known = [fields.pop(name, 0) for name in FIELDS]
    assert not fields, fields
    head = HEADER.pack(b"FSIM", 1, minor, NAMES.index(kind), 0, len(body), 0, *known, 0)
    checksum = struct.pack("<I", zlib.crc32(head + body))
    return head[:12] + checksum + head[16:] + body


def read(frame):
    """Return type, header and body of a frame."""
    insist(len(frame) >= HEADER.size, "it is shorter than a header")
    magic, major, _, number, flags, length, checksum, *fields, reserved = HEADER.unpack_from(frame)
    insist(magic == b"FSIM", "another magic")
    insist(major == 1 or number == NAMES.index("REJECT"), "another major version")
    insist(length <= LONGEST_BODY and len(frame) == HEADER.size + length, "its length")
    insist(checksum == zlib.crc32(frame[:12] + bytes(4) + frame[16:]), "its checksum")
    insist(not flags and not reserved, "flags that mean nothing")
    insist(0 < number < len(NAMES), "an unknown type")
    kind, header = NAMES[number], dict(zip(FIELDS, fields, strict=True))
    if kind in ARRAYS:
        insist(
            header["session"] and header["sequence"] and 1 <= header["environments"] <= 65_536,
            "its order",
        )
    else:
        insist(kind == "ERROR" or not header["sequence"], "a sequence without meaning")
        insist(not (header["first"] or header["environments"]), "environments without meaning")
    insist(
        kind in ("ACTION", "PAUSE") or not header["acknowledgement"],
        "an acknowledgement without meaning",
    )
    return kind, header, frame[HEADER.size :]


# --- maps ---------------------------------------------------------------------------------------------------


def is_int(value, least=0, below=2**63):
    return type(value) is int and least <= value < below


def is_float(value, least=0.0, most=1e9):
    return type(value) in (int, float) and math.isfinite(value) and least <= value <= most


def is_text(value, longest):
    control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
    return type(value) is str and len(value) <= longest and not control.search(value)


def is_list(value, each, most=65_536):
    return type(value) is list and 1 <= len(value) <= most and all(map(each, value))


def is_bound(value):
    return is_float(value, -LARGEST, LARGEST)


def is_reason(value):
    return is_text(value, 4096)


def is_period(value):
    return is_float(value) and value > 0


def is_delay(value):
    return is_float(value, most=1e15)


REASON = {"reason": is_reason}
MAPS = {
    "HELLO": {
        "versions": lambda v: (
            is_list(v, lambda one: is_int(one, 0, 256), 2) and len(v) == 2 and v[0] <= v[1]
        ),
        "incarnation": lambda v: is_int(v, 1),
        "slot": lambda v: v is None or is_int(v, 0, 65_536),
        "pid": is_int,
        "host": lambda v: is_text(v, 255),
        "environments": lambda v: is_int(v, 1, 65_537),
        "observation_size": lambda v: is_int(v, 1, 65_537),
        "action_low": lambda v: is_list(v, is_bound),
        "action_high": lambda v: is_list(v, is_bound),
        "task_hash": lambda v: is_text(v, 255),
        "recovered": lambda v: type(v) is bytes and len(v) <= HEADER.size + LONGEST_BODY,
    },
    "WELCOME": {
        "version": lambda v: is_int(v, 0, 256),
        "session": lambda v: is_int(v, 1),
        "slot": lambda v: is_int(v, 0, 65_536),
        "first_agent": is_int,
        "seeds": lambda v: is_list(v, is_int),
        "heartbeat": is_period,
        "patience": is_period,
    },
    "REJECT": REASON,
    "HEARTBEAT": {
        "steps": is_int,
        "step_seconds": is_float,
        "delay_p50_us": is_delay,
        "delay_p99_us": is_delay,
        "resends": is_int,
        "failures": is_int,
        "failure": lambda v: is_text(v, 1000),
    },
    "PAUSE": REASON,
    "ERROR": REASON,
    "GOODBYE": REASON,
    "STATUS": {},
    "STATUS_REPLY": {"json": lambda v: type(v) is str},
}
SINCE_1_1 = {"agents_per_env": lambda v: is_int(v, 1, 65_537)}
MAY_BE_LEFT_OUT = {"recovered": b"", "resends": 0, "failures": 0, "failure": ""}


def keys_of(kind, minor):
    """Return the keys of a map, each with what tells whether its value is right."""
    return MAPS[kind] | (SINCE_1_1 if minor and kind in ("HELLO", "WELCOME") else {})


def write_map(kind, content, minor=0):
    """Return the body of a message that is a map; the keys in the order of the document."""
    return msgpack.packb({key: content[key] for key in keys_of(kind, minor)})


def each_once(pairs):
    insist(len(dict(pairs)) == len(pairs), "a key stands twice")
    return dict(pairs)


def read_map(kind, body, minor=0):
    """Return the map, with what was left out."""
    try:
        content = msgpack.unpackb(body, object_pairs_hook=each_once)
    except (ValueError, msgpack.UnpackException) as error:
        raise RefusedError(f"no msgpack: {error}") from error
    insist(type(content) is dict, "no map")
    content = {key: value for key, value in MAY_BE_LEFT_OUT.items() if key in MAPS[kind]} | content
    insist(content.keys() == keys_of(kind, minor).keys(), "its keys")
    for key, is_right in keys_of(kind, minor).items():
        insist(is_right(content[key]), key)
    if kind == "HELLO":
        low, high = content["action_low"], content["action_high"]
        insist(
            len(low) == len(high) and all(a <= b for a, b in zip(low, high, strict=True)),
            "its bounds",
        )
    return content


# --- arrays -------------------------------------------------------------------------------------------------


def pack(letter, rows):
    flat = [number for row in rows for number in row]
    return struct.pack(f"<{len(flat)}{letter}", *flat)


def unpack(body, count, size):
    """Return ``count`` rows of ``size`` finite floats."""
    insist(len(body) == 4 * count * size, "its length")
    flat = struct.unpack(f"<{count * size}f", body)
    insist(all(map(math.isfinite, flat)), "a number that is not finite")
    return [list(flat[row * size : (row + 1) * size]) for row in range(count)]


def write_step(rewards, observations, final, status, agent_ended=()):
    floats = pack("d", [rewards]) + pack("f", observations) + pack("f", final)
    return floats + bytes(agent_ended) + bytes(status)


def read_step(body, count, size):
    """Return rewards, observations, final observations and status."""
    insist(len(body) >= count * (9 + 4 * size), "its length")
    status = list(body[len(body) - count :])
    insist(all(one in (0, 1, 2, 3, 5, 6, 7, 8) for one in status), "its status")
    rewards = list(struct.unpack_from(f"<{count}d", body))
    insist(all(abs(reward) <= LARGEST for reward in rewards), "a reward")
    insist(
        not any(reward for reward, one in zip(rewards, status, strict=True) if one == 8),
        "a reward of none",
    )
    ended = sum(bool(one & 3) for one in status)
    rows = unpack(body[8 * count : len(body) - count], count + ended, size)
    return rewards, rows[:count], rows[count:], status


# --- the worker ---------------------------------------------------------------------------------------------


class Connection:
    """A DEALER to where the connection file says that the learner is."""

    def __init__(self, context, path):
        self.context, self.path, self.file, self.socket = context, path, None, None
        self.renew()

    def renew(self):
        try:
            mode, content = (
                stat.S_IMODE(self.path.stat().st_mode),
                json.loads(self.path.read_text("utf-8")),
            )
            keys = [content.get(key, "") for key in ("server_key", "public_key", "secret_key")]
            if any(keys) and mode & 0o077:
                raise EndedError(f"others may read {self.path}", 1)
            self.file = content
        except (OSError, ValueError) as error:
            if self.file is None:
                raise EndedError(f"{self.path}: {error}", 1) from error
            keys = [self.file.get(key, "") for key in ("server_key", "public_key", "secret_key")]
        if self.socket is not None:
            self.socket.close(0)
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 1000
        if any(keys):
            (
                self.socket.curve_serverkey,
                self.socket.curve_publickey,
                self.socket.curve_secretkey,
            ) = (key.encode() for key in keys)
        self.socket.connect(self.file["endpoint"])

    def send(self, frame):
        with contextlib.suppress(zmq.Again):  # lost, as any message may be
            self.socket.send(frame, zmq.NOBLOCK)

    def hear(self, seconds):
        """Return the next frame, or None."""
        return self.socket.recv() if self.socket.poll(max(0, int(1000 * seconds))) else None


class Worker:
    """One process of a worker; ``ask`` gives a RESET or STEP and returns the actions."""

    def __init__(self, path, slot, environments, observation_size, low, high, outbox, minor=0):
        self.minor, self.context, self.path = minor, zmq.Context(), path
        self.line = Connection(self.context, path)
        self.environments, self.action_size, self.outbox = environments, len(low), outbox
        self.session = self.sequence = self.steps = self.resends = 0
        self.patience, self.heard = self.line.file["patience"], time.monotonic()
        to_f32 = [
            list(struct.unpack(f"<{len(row)}f", struct.pack(f"<{len(row)}f", *row)))
            for row in (low, high)
        ]
        hello = {
            "versions": [1, 1],
            "incarnation": secrets.randbits(62) + 1,
            "slot": slot,
            "pid": os.getpid(),
            "host": socket.gethostname()[:255],
            "environments": environments,
            "observation_size": observation_size,
            "action_low": to_f32[0],
            "action_high": to_f32[1],
            "task_hash": self.line.file["task_hash"],
            "recovered": outbox.read_bytes() if outbox.exists() else b"",
            "agents_per_env": 1,
        }
        said = write("HELLO", write_map("HELLO", hello, minor), minor)
        welcome = self._until_answered(said, "WELCOME", 0.1)
        self.session, self.patience = welcome["session"], welcome["patience"]
        self.seeds, self.heartbeat = welcome["seeds"], welcome["heartbeat"]
        insist(len(self.seeds) == environments, "its seeds")
        threading.Thread(target=self._beat, daemon=True).start()

    def ask(self, kind, body):
        self.sequence += 1
        order = {
            "session": self.session,
            "sequence": self.sequence,
            "environments": self.environments,
        }
        frame = write(kind, body, self.minor, clock=time.monotonic_ns(), **order)
        beside = self.outbox.with_suffix(".beside")
        beside.write_bytes(frame)
        beside.replace(self.outbox)
        self.steps += kind == "STEP"
        return self._until_answered(frame, "ACTION", 1.0)

    def say(self, kind, reason):
        self.line.send(write(kind, write_map(kind, {"reason": reason}), session=self.session))
        time.sleep(0.5)  # it leaves by a thread of ZeroMQ

    def _until_answered(self, frame, answer, wait):
        """Send a message again and again until its answer comes; returns the map, or the actions."""
        self.line.send(frame)
        repetitions, until, concerned = 0, time.monotonic() + wait, time.monotonic()
        while True:
            came = self.line.hear(until - time.monotonic())
            if came is None:
                last = concerned if answer == "ACTION" else self.heard
                if time.monotonic() - min(last, self.heard) > self.patience:
                    raise EndedError(f"no learner answered for {self.patience} s", 1)
                repetitions += 1
                if (answer == "ACTION" and repetitions > 1) or (answer == "WELCOME" and wait > 1.0):
                    self.line.renew()
                self.resends += answer == "ACTION"
                self.line.send(frame)
                wait = min(10.0, 2 * wait) * random.uniform(0.8, 1.0)
                until = time.monotonic() + wait
                continue
            self.heard = time.monotonic()
            kind, header, body = read(came)
            if kind == "ACTION":
                if (answer, header["acknowledgement"]) == ("ACTION", self.sequence):
                    insist(header["environments"] == self.environments, "its environments")
                    return unpack(body, self.environments, self.action_size)
                continue
            content = read_map(kind, body, self.minor)
            if kind == "ERROR" and 0 < header["sequence"] < self.sequence:
                continue  # about a late copy
            if kind == "ERROR" and self.session:
                self.say("ERROR", content["reason"])
            if kind in ("REJECT", "ERROR"):
                raise EndedError(f"{kind}: {content['reason']}", 1)
            if kind == "GOODBYE":
                if self.session:
                    self.say("GOODBYE", "the learner said so")
                raise EndedError(content["reason"], 0)
            if kind == "WELCOME" and answer == "WELCOME":
                return content
            # 0 before the RESET: of a HELLO
            if kind == "PAUSE" and header["acknowledgement"] == self.sequence:
                print(f"PAUSE {self.sequence}", flush=True)
                concerned = time.monotonic()
                until = concerned + (10.0 if self.sequence else 1.0)

    def _beat(self):
        """Give signs of life over a second connection; a new one after three without an answer."""
        line, missed = Connection(self.context, self.path), 0
        while True:
            life = {
                "steps": self.steps,
                "step_seconds": 0.0,
                "delay_p50_us": 0.0,
                "delay_p99_us": 0.0,
            }
            life |= {"resends": self.resends, "failures": 0, "failure": ""}
            line.send(write("HEARTBEAT", write_map("HEARTBEAT", life), session=self.session))
            until = time.monotonic() + self.heartbeat
            heard = False
            while time.monotonic() < until:
                heard |= line.hear(until - time.monotonic()) is not None
            if heard:
                missed, self.heard = 0, time.monotonic()
            else:
                missed += 1
            if missed == 3:
                missed = 0
                line.renew()


# --- the environments -----------------------------------------------------------------------------------------

ENTRY = struct.Struct("<IIBd2f")  # episode, step, flags, reward, action: of audit.py's journals
PROCESS = secrets.token_hex(4)


class Oracle:
    """An environment that counts: observations (episode, step, name, name), rewards 1000 episode + step."""

    def __init__(self, seed, journal):
        self.random, self.episode = random.Random(seed), 0
        self.name = [secrets.randbits(24), secrets.randbits(24)]
        path = journal / f"{PROCESS}-{self.name[0]:06x}{self.name[1]:06x}.steps"
        self.journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.begin()

    def begin(self):
        self.episode, self.count, self.last = self.episode + 1, 0, self.random.randint(3, 29)

    def observation(self):
        return [self.episode, self.count, *self.name]

    def step(self, action):
        """Return reward, observation, final observations (one or none) and status."""
        clipped = [min(1.0, max(-1.0, number)) for number in action]
        self.count += 1
        status = 0 if self.count < self.last else 1 + self.last % 2
        reward = 1000.0 * self.episode + self.count
        os.write(self.journal, ENTRY.pack(self.episode, self.count, status, reward, *clipped))
        final = [self.observation()] if status else []
        if status:
            self.begin()
        return reward, self.observation(), final, status


def main(connection, slot, environments, outbox, journal, minor="0"):
    """Host oracles until the learner says GOODBYE; returns the exit code."""
    slot, minor = None if slot == "any" else int(slot), int(minor)
    sizes = int(environments), 4, [-1.0, -1.0], [1.0, 1.0]
    try:
        worker = Worker(Path(connection), slot, *sizes, Path(outbox), minor)
        oracles = [Oracle(seed, Path(journal)) for seed in worker.seeds]
        kind, body = "RESET", pack("f", [oracle.observation() for oracle in oracles])
        while True:
            actions = worker.ask(kind, body)
            outcomes = [
                oracle.step(action) for oracle, action in zip(oracles, actions, strict=True)
            ]
            rewards, observations, final, status = zip(*outcomes, strict=True)
            gone = [one & 1 for one in status] if minor else ()
            final = [row for rows in final for row in rows]
            kind, body = "STEP", write_step(rewards, observations, final, status, gone)
    except EndedError as ended:
        print(ended, flush=True)
        return ended.code
    except RefusedError as refused:
        print(f"the learner broke the protocol: {refused}", flush=True)
        return 1


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread of it may be about to say something
