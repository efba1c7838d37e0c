"""The implementation against the golden vectors, frames that were written independently of it."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from coupling.wire import protocol
from coupling.wire.protocol import Header, Kind, ProtocolError, Step

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads(
    (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(encoding="utf-8")
)
SIZE, ACTION_SIZE = GOLDEN["observation_size"], GOLDEN["action_size"]
AGENTS = GOLDEN["agents_per_env"]
ALL = GOLDEN["vectors"] + GOLDEN["vectors_1_1"]
MESSAGES = {
    kind: getattr(protocol, kind.name.title().replace("_", ""))
    for kind in Kind
    if kind not in (4, 5, 6)
}


def named(entries):
    """Return test parameters named by frame and protocol version."""
    return [pytest.param(entry, id=f"{entry['name']}, {minor_of(entry)}") for entry in entries]


def minor_of(entry):
    return "1.1" if entry in GOLDEN["vectors_1_1"] + GOLDEN["malformed_1_1"] else "1.0"


def content(vector):
    """The body as the dataclasses have it: bytes as bytes, arrays of a HELLO as tuples where they are."""
    body = {
        key: bytes.fromhex(value[4:])
        if isinstance(value, str) and value.startswith("hex:")
        else value
        for key, value in vector["body"].items()
    }
    return body | {"versions": tuple(body["versions"])} if "versions" in body else body


def a_step(body):
    status = np.array(body["status"], np.uint8)
    terminated, truncated, diverged, failed = ((status & bit).astype(bool) for bit in (1, 2, 4, 8))
    axis = (AGENTS,) if "agent_ended" in body else ()
    return Step(
        rewards=np.array(body["rewards"]),
        observations=np.array(body["observations"], np.float32),
        final=np.array(body["final"], np.float32).reshape(-1, *axis, SIZE),
        terminated=terminated,
        truncated=truncated,
        diverged=diverged,
        failed=failed,
        agent_ended=np.array(body["agent_ended"], bool) if axis else None,
    )


def encoded(kind, body):
    if kind == Kind.STEP:
        return protocol.encode_step(a_step(body))
    return np.array(body["observations" if kind == Kind.RESET else "actions"], "<f4").tobytes()


def decoded(kind, header, body):
    axis = (AGENTS,) if header.minor else ()
    if kind == Kind.STEP:
        return vars(protocol.decode_step(body, header.environments, SIZE, *axis))
    if kind == Kind.RESET:
        return protocol.decode_observations(body, header.environments, *axis, SIZE)
    if kind == Kind.ACTION:
        return protocol.decode_actions(body, header.environments, *axis, ACTION_SIZE)
    return protocol.decode_control(header, body)


def read(frame):
    header, body = protocol.decode(frame)
    return header, decoded(header.kind, header, body)


def test_the_file_is_what_the_script_writes():
    script = runpy.run_path(str(Path(__file__).with_name("make_golden_vectors.py")))
    assert (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(
        encoding="utf-8"
    ) == script["text"]()


def test_every_message_type_has_a_vector():
    assert {vector["type"] for vector in GOLDEN["vectors"]} == {kind.name for kind in Kind}


@pytest.mark.parametrize("vector", named(ALL))
def test_golden_frame_is_decoded(vector):
    kind = Kind[vector["type"]]
    header, found = read(bytes.fromhex(vector["hex"]))
    assert header == Header(kind, **vector["header"])
    if kind == Kind.STEP:
        for name, value in vars(a_step(vector["body"])).items():
            if value is None:
                assert found[name] is None
            else:
                np.testing.assert_array_equal(found[name], value, strict=True)
    elif kind in MESSAGES:
        assert found == MESSAGES[kind](**content(vector))
    else:
        np.testing.assert_array_equal(found, next(iter(vector["body"].values())))


@pytest.mark.parametrize("vector", named(vector for vector in ALL if vector["canonical"]))
def test_golden_frame_is_encoded_exactly(vector):
    kind = Kind[vector["type"]]
    if kind in MESSAGES:
        given = {
            key: vector["header"][key]
            for key in ("session", "sequence", "acknowledgement", "epoch", "clock", "minor")
            if key in vector["header"]
        }
        frame = protocol.encode_control(MESSAGES[kind](**content(vector)), **given)
    else:
        frame = protocol.encode(Header(kind, **vector["header"]), encoded(kind, vector["body"]))
    assert frame.hex() == vector["hex"]


@pytest.mark.parametrize("entry", named(GOLDEN["malformed"] + GOLDEN["malformed_1_1"]))
def test_a_malformed_frame_is_refused(entry):
    frame = bytes.fromhex(entry["hex"])
    with pytest.raises(ProtocolError):
        read(frame)
