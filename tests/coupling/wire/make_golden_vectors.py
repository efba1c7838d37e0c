"""Write ``coupling/wire/golden_vectors.json``: frames that the tests of every client share.

    python tests/coupling/wire/make_golden_vectors.py

The frames follow from PROTOCOL.md alone: this script uses ``struct``, ``zlib`` and the library ``msgpack`` and imports
nothing of the implementation, so that a slip there cannot hide here. In the JSON, bytes are text ``hex:...`` and
``canonical`` says that an encoder writes exactly this frame; a frame that is not canonical leaves optional keys out,
and a decoder has to read it all the same. The frames under ``malformed`` have to be refused by everybody.

Those are frames of version 1.0, which every client has to know. Frames of version 1.1, in which arrays have an axis of
agents, stand under ``vectors_1_1`` and ``malformed_1_1``.
"""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import msgpack

FILE = Path(__file__).parents[3] / "coupling" / "wire" / "golden_vectors.json"
KINDS = (
    "HELLO", "WELCOME", "REJECT", "RESET", "STEP", "ACTION",
    "HEARTBEAT", "PAUSE", "ERROR", "GOODBYE", "STATUS", "STATUS_REPLY",
)  # fmt: skip

SESSION = 0x0102030405060708
CLOCK = 0x1122334455667788
HELLO = {
    "versions": [1, 1],
    "incarnation": 0x7FEDCBA987654321,
    "slot": 3,
    "pid": 70000,
    "host": "wörker-3",
    "environments": 2,
    "observation_size": 3,
    "action_low": [-1.0, 0.0],
    "action_high": [1.0, 0.5],
    "task_hash": "0123456789abcdef",
    "recovered": b"",
}
WELCOME = {
    "version": 1,
    "session": SESSION,
    "slot": 3,
    "first_agent": 6,
    "seeds": [7, 4000000000],
    "heartbeat": 1.0,
    "patience": 600.0,
}
HEARTBEAT = {
    "steps": 300,
    "step_seconds": 0.25,
    "delay_p50_us": 130.5,
    "delay_p99_us": 2048.0,
    "resends": 2,
    "failures": 1,
    "failure": "the pressure did not converge",
}
OBSERVATIONS = [[0.5, -1.5, 2.0], [0.0, 0.25, -8.0]]
AGENTS = 2
OF_AGENTS = [[[0.5, -1.5, 2.0], [0.0, 0.25, -8.0]], [[1.0, 1.25, 1.5], [-1.0, -2.0, -3.0]]]
STEP_OF_AGENTS = {
    "rewards": [[1.5, -0.1], [0.0, 0.75]],
    "observations": OF_AGENTS,
    "final": [],
    "agent_ended": [[0, 0], [1, 0]],
    "status": [0, 0],
}
STEP = {"rewards": [1.5, -0.1], "observations": OBSERVATIONS, "final": [], "status": [0, 0]}


def checksummed(head: bytes, body: bytes) -> bytes:
    """Return the frame of a header whose checksum is zero and a body."""
    return head[:12] + struct.pack("<I", zlib.crc32(head + body)) + head[16:] + body


def frame(kind: str, body: bytes, header: dict[str, int], **changes: Any) -> bytes:
    """Return a frame; ``changes`` break its header."""
    given = {
        "magic": b"FSIM",
        "major": 1,
        "minor": 0,
        "type": KINDS.index(kind) + 1,
        "flags": 0,
        "length": len(body),
    }
    given |= {
        "session": 0,
        "sequence": 0,
        "acknowledgement": 0,
        "first": 0,
        "environments": 0,
        "clock": 0,
        "epoch": 0,
    }
    given |= header | {"reserved": 0} | changes
    names = (
        "session",
        "sequence",
        "acknowledgement",
        "first",
        "environments",
        "clock",
        "epoch",
        "reserved",
    )
    head = given["magic"]
    head += struct.pack(
        "<BBBBII", *(given[name] for name in ("major", "minor", "type", "flags", "length")), 0
    )
    head += struct.pack("<QQQIIQII", *(given[name] for name in names))
    return checksummed(head, body)


def floats(rows: list[list[float]], code: str = "f") -> bytes:
    """Return little-endian floats, row by row."""
    return b"".join(struct.pack(f"<{len(row)}{code}", *row) for row in rows)


def rows_of(array: list[Any]) -> list[list[float]]:
    """Return the rows of an array of one axis or more."""
    if array and isinstance(array[0], list):
        nested = [rows_of(part) for part in array]
        return [row for rows in nested for row in rows]
    return [array]


def body_of(kind: str, body: dict[str, Any]) -> bytes:
    """Return the bytes of a body."""
    if kind == "RESET":
        return floats(rows_of(body["observations"]))
    if kind == "ACTION":
        return floats(rows_of(body["actions"]))
    if kind == "STEP":
        rows = floats(rows_of(body["rewards"]), "d")
        rows += floats(rows_of(body["observations"])) + floats(rows_of(body["final"]))
        flags = b"".join(map(bytes, body.get("agent_ended", ())))
        return rows + flags + bytes(body["status"])
    return msgpack.packb(body, use_bin_type=True)


def vector(
    name: str,
    kind: str,
    body: dict[str, Any],
    *,
    canonical: bool = True,
    minor: int = 0,
    **header: int,
) -> dict[str, Any]:
    """Return an entry: what the frame says, and the frame."""
    shown = {
        key: f"hex:{value.hex()}" if isinstance(value, bytes) else value
        for key, value in body.items()
    }
    fields = {
        "sequence": 0,
        "session": 0,
        "acknowledgement": 0,
        "first": 0,
        "environments": 0,
        "clock": 0,
        "epoch": 0,
    }
    return {
        "name": name,
        "type": kind,
        "header": dict(sorted((fields | header | ({"minor": minor} if minor else {})).items())),
        "body": shown,
        "canonical": canonical,
        "hex": frame(kind, body_of(kind, body), header, minor=minor).hex(),
    }


def without(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the map without some keys."""
    return {key: value for key, value in body.items() if key not in keys}


def vectors() -> list[dict[str, Any]]:
    """Return a frame of every type, and more where there are several ways to say something."""
    ended = STEP | {"final": [[9.0, 9.5, -9.0]], "status": [0, 2]}
    both = STEP | {"final": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "status": [5, 3]}
    sent = {"session": SESSION, "environments": 2, "clock": CLOCK}
    last_step = frame("STEP", body_of("STEP", ended), sent | {"sequence": 5})
    heard = {"session": SESSION, "epoch": 4}
    return [
        vector("hello", "HELLO", HELLO),
        vector("hello for any slot", "HELLO", HELLO | {"slot": None}),
        vector("hello without recovered", "HELLO", without(HELLO, "recovered"), canonical=False),
        vector("hello with recovered", "HELLO", HELLO | {"recovered": last_step}),
        vector("welcome", "WELCOME", WELCOME, **heard),
        vector("reject", "REJECT", {"reason": "worker 3 is connected already"}, epoch=4),
        vector("reset", "RESET", {"observations": OBSERVATIONS}, sequence=1, **sent),
        vector("step", "STEP", STEP, sequence=2, **sent),
        vector("step with an ended environment", "STEP", ended, sequence=3, **sent),
        vector("step with all ended, one diverged", "STEP", both, sequence=4, **sent),
        vector("step with a failed environment", "STEP", STEP | {"rewards": [1.5, 0.0], "status": [0, 8]},
               sequence=5, **sent),
        vector("action", "ACTION", {"actions": [[1.0, -2.0], [0.125, 3.5]]},
               sequence=5, acknowledgement=5, environments=2, clock=CLOCK, **heard),
        vector("heartbeat", "HEARTBEAT", HEARTBEAT, session=SESSION, clock=CLOCK),
        vector("heartbeat without what may be left out", "HEARTBEAT",
               without(HEARTBEAT, "resends", "failures", "failure"), canonical=False, session=SESSION),
        vector("pause", "PAUSE", {"reason": "the gradient steps have to catch up"}, acknowledgement=5, **heard),
        vector("pause before a session", "PAUSE", {"reason": "worker 3 is connected already"}, epoch=4),
        vector("error", "ERROR", {"reason": "the mesh is tangled"}, session=SESSION),
        vector("error about a message", "ERROR", {"reason": "STEP 5 came after a later message"}, sequence=5, **heard),
        vector("goodbye", "GOODBYE", {"reason": "the run is over"}, **heard),
        vector("goodbye of a worker", "GOODBYE", {"reason": "the worker leaves the run"}, session=SESSION),
        vector("status", "STATUS", {}),
        vector("status reply", "STATUS_REPLY", {"json": '{"state": "training", "environment_steps": 12345}'}, epoch=4),
    ]  # fmt: skip


def vectors_of_agents() -> list[dict[str, Any]]:
    """Return a frame of each type that version 1.1 has another form of."""
    ended = STEP_OF_AGENTS | {
        "final": [[[9.0, 9.5, -9.0], [8.0, 8.5, -8.0]], OF_AGENTS[0]],
        "agent_ended": [[1, 0], [1, 1]],
        "status": [2, 1],
    }
    failed = STEP_OF_AGENTS | {
        "rewards": [[1.5, -0.1], [0.0, 0.0]], "agent_ended": [[0, 1], [0, 0]], "status": [0, 8],
    }  # fmt: skip
    sent = {"session": SESSION, "environments": 2, "clock": CLOCK}
    heard = {"session": SESSION, "epoch": 4}
    bodies = [
        ("hello", "HELLO", HELLO | {"agents_per_env": AGENTS}, {}),
        ("welcome", "WELCOME", WELCOME | {"agents_per_env": AGENTS}, heard),
        ("reject", "REJECT", {"reason": "its environments have 2 agents"}, {"epoch": 4}),
        ("reset", "RESET", {"observations": OF_AGENTS}, sent | {"sequence": 1}),
        ("step", "STEP", STEP_OF_AGENTS, sent | {"sequence": 2}),
        ("step with both environments ended", "STEP", ended, sent | {"sequence": 3}),
        ("step with a failed environment", "STEP", failed, sent | {"sequence": 4}),
        ("action", "ACTION", {"actions": [[[1.0, -2.0], [0.125, 3.5]], [[0.0, 0.5], [-1.0, 2.0]]]},
         heard | {"sequence": 4, "acknowledgement": 4, "environments": 2, "clock": CLOCK}),
    ]  # fmt: skip
    return [vector(name, kind, body, minor=1, **header) for name, kind, body, header in bodies]


def malformed_of_agents() -> list[dict[str, str]]:
    """Return frames of version 1.1 that have to be refused, each for one reason."""
    sent = {"session": SESSION, "environments": 2, "sequence": 2}

    def step(minor: int = 1, **changes: Any) -> bytes:
        return frame("STEP", body_of("STEP", STEP_OF_AGENTS | changes), sent, minor=minor)

    def control(kind: str, body: dict[str, Any], minor: int = 1) -> bytes:
        header = {"session": SESSION} if kind == "WELCOME" else {}
        return frame(kind, msgpack.packb(body), header, minor=minor)

    of_agents = {"agents_per_env": AGENTS}
    action = {"session": SESSION, "environments": 2, "sequence": 1, "acknowledgement": 1}
    frames = {
        "a hello without agents": control("HELLO", HELLO),
        "a hello of 1.0 with agents": control("HELLO", HELLO | of_agents, minor=0),
        "a hello with no agents": control("HELLO", HELLO | {"agents_per_env": 0}),
        "a hello with too many agents": control("HELLO", HELLO | {"agents_per_env": 65537}),
        "a welcome without agents": control("WELCOME", WELCOME),
        "a welcome of 1.0 with agents": control("WELCOME", WELCOME | of_agents, minor=0),
        "a flag that is no flag": step(agent_ended=[[0, 2], [1, 0]]),
        "a terminated environment with an agent that goes on": step(status=[0, 1], final=OF_AGENTS[:1]),
        "an environment that goes on without agents": step(agent_ended=[[0, 0], [1, 1]]),
        "a failed environment with an agent that has ended": step(
            rewards=[[1.5, -0.1], [0.0, 0.0]], agent_ended=[[0, 0], [1, 0]], status=[0, 8]
        ),
        "a failed environment with a reward": step(agent_ended=[[0, 0], [0, 0]], status=[0, 8]),
        "a step without flags": step(agent_ended=[]),
        "a reward that is not finite": step(rewards=[[1.5, float("inf")], [0.0, 0.75]]),
        "a reset of one agent": frame("RESET", floats(OBSERVATIONS), sent | {"sequence": 1}, minor=1),
        "an action of one agent": frame("ACTION", floats([[0.0] * 2] * 2), action, minor=1),
    }  # fmt: skip
    return [{"name": name, "hex": content.hex()} for name, content in frames.items()]


def malformed() -> list[dict[str, str]]:
    """Return frames that have to be refused, each for one reason."""
    reason = msgpack.packb({"reason": "no"})
    good = frame("REJECT", reason, {})
    sizes = {"session": SESSION, "environments": 2}
    nan = floats([[1.0, float("nan")], [0.0, 0.0]])

    def control(kind: str, body: Any) -> bytes:
        return frame(
            kind, body if isinstance(body, bytes) else msgpack.packb(body), {"session": SESSION}
        )

    frames = {
        "empty": b"",
        "shorter than a header": good[:63],
        "a body cut off": good[:-1],
        "a byte too many": good + b"\0",
        "another magic": frame("REJECT", reason, {}, magic=b"FSIN"),
        "another major version": frame("ACTION", floats([[0.0] * 2] * 2), sizes, major=2),
        "a wrong checksum": good[:12] + bytes([good[12] ^ 1]) + good[13:],
        "a flipped bit in the body": good[:-1] + bytes([good[-1] ^ 1]),
        "flags": frame("REJECT", reason, {}, flags=1),
        "reserved": frame("REJECT", reason, {}, reserved=1),
        "type 0": frame("REJECT", reason, {}, type=0),
        "type 13": frame("REJECT", reason, {}, type=13),
        "a length beyond the body": frame("REJECT", reason, {}, length=len(reason) + 1),
        "a length beyond the limit": frame("REJECT", reason, {}, length=2**26 + 1),
        "no map": control("PAUSE", ["reason", "no"]),
        "an unknown key": control("PAUSE", {"reason": "no", "more": 1}),
        "a missing key": control("WELCOME", without(WELCOME, "seeds")),
        "a wrong type": control("PAUSE", {"reason": 1}),
        "a bool for an int": control("WELCOME", WELCOME | {"slot": True}),
        "a float for an int": control("WELCOME", WELCOME | {"slot": 3.0}),
        "a text in an array of ints": control("WELCOME", WELCOME | {"seeds": [7, "8"]}),
        "more after the map": control("PAUSE", reason + b"\0"),
        "a map cut off": control("PAUSE", reason[:-1]),
        "a text that is longer than the body": control("PAUSE", b"\x81\xa6reason\xdb\xff\xff\xff\xffno"),
        "an array that is longer than the body": control(
            "WELCOME", msgpack.packb(without(WELCOME, "seeds")).replace(b"\x86", b"\x87", 1)
            + b"\xa5seeds\xdd\xff\xff\xff\xff",
        ),
        "a map that is longer than the body": control("PAUSE", b"\xdf\xff\xff\xff\xff\xa6reason\xa2no"),
        "an action too short": frame("ACTION", floats([[0.0] * 2]), sizes | {"sequence": 1, "acknowledgement": 1}),
        "an action that is not finite": frame("ACTION", nan, sizes | {"sequence": 1, "acknowledgement": 1}),
        "an action without a session": frame("ACTION", floats([[0.0] * 2] * 2), {"environments": 2, "sequence": 1}),
        "an action without a sequence": frame("ACTION", floats([[0.0] * 2] * 2), sizes),
        "a pause with a sequence": frame("PAUSE", reason, {"session": SESSION, "sequence": 1}),
        "an error with environments": frame("ERROR", reason, {"session": SESSION, "sequence": 1, "environments": 2}),
        "a pause with environments": frame("PAUSE", reason, {"session": SESSION, "environments": 2}),
        "a reject with an acknowledgement": frame("REJECT", reason, {"acknowledgement": 1}),
        "a number that is negative": control("WELCOME", WELCOME | {"first_agent": -1}),
        "a number of 64 bits": control("WELCOME", WELCOME | {"first_agent": 2**63}),
        "a slot beyond all": control("WELCOME", WELCOME | {"slot": 65536}),
        "no heartbeat": control("WELCOME", WELCOME | {"heartbeat": 0.0}),
        "a time that is not finite": control("WELCOME", WELCOME | {"patience": float("inf")}),
        "a time that is no number": control("WELCOME", WELCOME | {"heartbeat": float("nan")}),
        "a time beyond all": control("WELCOME", WELCOME | {"patience": 2e9}),
        "text that is not UTF-8": control("PAUSE", b"\x81\xa6reason\xa2n\xff"),
        "text that drives a terminal": control("PAUSE", {"reason": "\x1b[31mno"}),
        "a reason beyond its length": control("PAUSE", {"reason": "n" * 4097}),
    }  # fmt: skip
    return [{"name": name, "hex": content.hex()} for name, content in frames.items()]


def text() -> str:
    """Return the file: JSON with one frame a line."""
    parts = {
        "vectors": vectors(),
        "malformed": malformed(),
        "vectors_1_1": vectors_of_agents(),
        "malformed_1_1": malformed_of_agents(),
    }
    lists = [
        f'"{name}": [\n'
        + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        + "\n]"
        for name, entries in parts.items()
    ]
    sizes = f'{{"observation_size": 3, "action_size": 2, "agents_per_env": {AGENTS}'
    return ",\n".join([sizes, *lists]) + "}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
