"""Bounds of the decoder, and hostile frames: every defect raises a ProtocolError and nothing else."""

import math
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coupling.wire import protocol
from coupling.wire.protocol import MAX_TEXT, Header, Kind, ProtocolError

HELLO = {
    "versions": [1, 1],
    "incarnation": 7,
    "slot": 0,
    "pid": 1,
    "host": "node",
    "environments": 2,
    "observation_size": 3,
    "action_low": [-1.0, 0.0],
    "action_high": [1.0, 0.0],
    "task_hash": "t",
}
WELCOME = {
    "version": 1,
    "session": 5,
    "slot": 0,
    "first_agent": 0,
    "seeds": [1, 2],
    "heartbeat": 1.0,
    "patience": 600.0,
}
HEARTBEAT = {"steps": 3, "step_seconds": 0.5, "delay_p50_us": 100.0, "delay_p99_us": 200.0}
REASON = {"reason": "because"}
MAPS = {
    Kind.HELLO: HELLO,
    Kind.WELCOME: WELCOME,
    Kind.REJECT: REASON,
    Kind.HEARTBEAT: HEARTBEAT,
    Kind.PAUSE: REASON,
    Kind.ERROR: REASON,
    Kind.GOODBYE: REASON,
    Kind.STATUS: {},
    Kind.STATUS_REPLY: {"json": "{}"},
}
STEP = np.array([1.5, -2.0]).tobytes() + np.arange(9, dtype="<f4").tobytes() + bytes([0, 1])
ROWS = np.arange(6, dtype="<f4").tobytes()
ARRAYS = {Kind.RESET: ROWS, Kind.STEP: STEP, Kind.ACTION: ROWS}


def frame_of(kind):
    """A valid frame of each kind, of two environments with three numbers each."""
    if kind in MAPS:
        return protocol.encode(Header(kind), msgspec.msgpack.encode(MAPS[kind]))
    return protocol.encode(Header(kind, session=5, sequence=4, environments=2), ARRAYS[kind])


def read(frame):
    """Decode a frame to the last field, as a peer does that agreed on two environments of three numbers."""
    header, body = protocol.decode(frame)
    arrays = {
        Kind.RESET: protocol.decode_observations,
        Kind.STEP: protocol.decode_step,
        Kind.ACTION: protocol.decode_actions,
    }
    if header.kind in arrays:
        return arrays[header.kind](body, 2, 3)
    return protocol.decode_control(header, body)


def mended(frame):
    """Return the frame with correct length and checksum, so that only the checks after these can refuse it."""
    frame = bytearray(frame)
    frame[8:12] = (len(frame) - protocol.HEADER_SIZE).to_bytes(4, "little")
    frame[12:16] = bytes(4)
    frame[12:16] = zlib.crc32(frame).to_bytes(4, "little")
    return bytes(frame)


def tried(frame):
    """Decode a frame; return its content, or the message of the ProtocolError. Nothing else may be raised."""
    try:
        return read(frame)
    except ProtocolError as error:
        refusal = str(error)
    assert len(refusal) <= MAX_TEXT
    return refusal


@pytest.mark.parametrize("kind", list(Kind))
def test_the_frames_that_are_mutated_here_are_valid(kind):
    assert not isinstance(tried(frame_of(kind)), str)
    assert mended(frame_of(kind)) == frame_of(kind)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (Kind.HELLO, {"versions": [2, 1]}),
        (Kind.HELLO, {"versions": [-1, 1]}),
        (Kind.HELLO, {"versions": [1, 1, 1]}),
        (Kind.HELLO, {"incarnation": 0}),
        (Kind.HELLO, {"incarnation": 2**63}),
        (Kind.HELLO, {"slot": -1}),
        (Kind.HELLO, {"slot": 65_536}),
        (Kind.HELLO, {"pid": -1}),
        (Kind.HELLO, {"pid": True}),
        (Kind.HELLO, {"host": "x" * 256}),
        (Kind.HELLO, {"host": "\x1b[2Jnode"}),
        (Kind.HELLO, {"host": "node\x85"}),
        (Kind.HELLO, {"environments": 0}),
        (Kind.HELLO, {"environments": -2}),
        (Kind.HELLO, {"environments": 65_537}),
        (Kind.HELLO, {"environments": 2.0}),
        (Kind.HELLO, {"observation_size": 0}),
        (Kind.HELLO, {"observation_size": 2**32}),
        (Kind.HELLO, {"action_low": []}),
        (Kind.HELLO, {"action_low": [], "action_high": []}),
        (Kind.HELLO, {"action_low": [-1.0]}),
        (Kind.HELLO, {"action_low": [2.0, 0.0]}),
        (Kind.HELLO, {"action_low": [math.nan, 0.0]}),
        (Kind.HELLO, {"action_high": [math.inf, 0.0]}),
        (Kind.HELLO, {"action_low": [0.0] * 65_537, "action_high": [0.0] * 65_537}),
        (Kind.HELLO, {"action_low": [[[[0.0]]], 0.0]}),
        (Kind.HELLO, {"recovered": "text"}),
        (Kind.WELCOME, {"session": 0}),
        (Kind.WELCOME, {"seeds": []}),
        (Kind.WELCOME, {"seeds": [-1]}),
        (Kind.WELCOME, {"seeds": [2**63]}),
        (Kind.WELCOME, {"seeds": [0] * 65_537}),
        (Kind.WELCOME, {"heartbeat": 0.0}),
        (Kind.WELCOME, {"heartbeat": math.nan}),
        (Kind.WELCOME, {"patience": math.inf}),
        (Kind.WELCOME, {"patience": -1.0}),
        (Kind.HEARTBEAT, {"steps": -1}),
        (Kind.HEARTBEAT, {"step_seconds": math.nan}),
        (Kind.HEARTBEAT, {"step_seconds": -math.inf}),
        (Kind.HEARTBEAT, {"delay_p50_us": -1.0}),
        (Kind.HEARTBEAT, {"delay_p99_us": 1e300}),
        (Kind.HEARTBEAT, {"failure": "x" * 1001}),
        (Kind.HEARTBEAT, {"failure": "\x00"}),
        (Kind.ERROR, {"reason": "x" * 4097}),
        (Kind.ERROR, {"reason": {"reason": "nested"}}),
    ],
)
def test_a_value_out_of_bounds_is_refused(kind, changes):
    changed = {key: str(value)[:20] for key, value in changes.items()}
    body = msgspec.msgpack.encode(MAPS[kind] | changes)
    assert isinstance(tried(protocol.encode(Header(kind), body)), str), changed


def test_invalid_utf8_is_refused():
    """msgspec raises UnicodeDecodeError for it, which is none of its own errors."""
    for body in (
        b"\x81\xa6reason\xa2\xff\xfe",
        b"\x81\xa2\xff\xfe\x01",
        b"\x81\xa6reason\xa3\xed\xa0\x80",
    ):
        assert "malformed" in tried(protocol.encode(Header(Kind.ERROR), body))


def test_error_about_a_huge_key_is_short_and_escaped():
    body = msgspec.msgpack.encode({"\x1b[31m" + "k" * 10**6: 1})
    refusal = tried(protocol.encode(Header(Kind.ERROR), body))
    assert "\x1b" not in refusal
    assert len(refusal) <= MAX_TEXT


@pytest.mark.parametrize("depth", [10, 10**6])
def test_deep_nesting_is_refused(depth):
    body = b"\x81\xa6reason" + b"\x91" * depth
    assert "malformed" in tried(protocol.encode(Header(Kind.ERROR), body))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Kind.STEP, {"session": 0}),
        (Kind.STEP, {"sequence": 0}),
        (Kind.STEP, {"environments": 0}),
        (Kind.STEP, {"environments": 65_537}),
        (Kind.HELLO, {"first": 1}),
        (Kind.STEP, {"acknowledgement": 1}),
        (Kind.RESET, {"environments": 2**32 - 1}),
        (Kind.HELLO, {"sequence": 1}),
        (Kind.HEARTBEAT, {"environments": 1}),
        (Kind.ERROR, {"acknowledgement": 1}),
    ],
)
def test_header_with_meaningless_fields_is_refused(kind, fields):
    _, body = protocol.decode(frame_of(kind))
    valid = {"session": 5, "sequence": 4, "environments": 2} if kind in ARRAYS else {}
    assert isinstance(tried(protocol.encode(Header(kind, **valid | fields), body)), str)


@pytest.mark.parametrize("status", [s for s in range(256) if s not in (0, 1, 2, 3, 5, 6, 7, 8)])
def test_invalid_status_is_refused(status):
    body = bytes(16) + bytes(4 * 3 * (2 + bool(status & 3))) + bytes([0, status])
    with pytest.raises(ProtocolError):
        protocol.decode_step(body, 2, 3)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e39, -1e300])
def test_reward_beyond_single_precision_is_refused(reward):
    """The learner keeps it as f32, where 1e39 is infinite."""
    body = np.array([0.0, reward]).tobytes() + STEP[16:]
    with pytest.raises(ProtocolError, match="not finite, or a reward too large"):
        protocol.decode_step(body, 2, 3)


def test_a_failed_environment_has_no_reward():
    body = np.array([0.0, 1.0]).tobytes() + bytes(24)
    assert protocol.decode_step(
        np.zeros(2).tobytes() + bytes(24) + b"\x00\x08", 2, 3
    ).failed.tolist() == [False, True]
    with pytest.raises(ProtocolError, match="failed environment"):
        protocol.decode_step(body + b"\x00\x08", 2, 3)


def test_reason_is_shortened_and_cleaned_before_it_is_sent():
    for text in ("x" * 10**6, "\x1b[31mred\x00", "lone \ud800 surrogate", "", "two\nlines\t…"):
        header, body = protocol.decode(protocol.encode_control(protocol.Error(text)))
        arrived = protocol.decode_control(header, body).reason
        assert arrived[:3] == text.replace("\x1b", "?")[:3]
        assert len(arrived) <= MAX_TEXT
    assert protocol.Error("two\nlines\t…").reason == "two\nlines\t…"
    assert protocol.Heartbeat(0, 0.0, 0.0, 0.0, failure="x" * 5000).failure.endswith("x…")


# --- fuzzing ------------------------------------------------------------------------------------------------

frames = st.sampled_from(list(Kind)).map(frame_of)


@given(st.binary(max_size=300), st.booleans())
def test_noise(noise, framed):
    """Noise as a frame is refused; noise as the body of a right header is decoded or refused."""
    if not framed:
        assert isinstance(tried(noise), str)
        return
    for kind in Kind:
        tried(mended(frame_of(kind)[: protocol.HEADER_SIZE] + noise))


@given(frames, st.data())
def test_cut_and_flipped_frames(frame, data):
    assert isinstance(tried(frame[: data.draw(st.integers(0, len(frame) - 1))]), str)
    flipped = bytearray(frame)
    flipped[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert isinstance(tried(bytes(flipped)), str)


@settings(max_examples=500)
@given(frames, st.data())
def test_changed_frames_with_the_right_checksum(frame, data):
    """What the checksum does not catch is decoded to something valid, or refused."""
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed)))
        match data.draw(st.sampled_from(["set", "insert", "cut", "double"])):
            case "set" if place < len(changed):
                changed[place] = data.draw(st.integers(0, 255))
            case "insert":
                changed[place:place] = data.draw(st.binary(min_size=1, max_size=9))
            case "cut":
                del changed[place : place + data.draw(st.integers(1, 8))]
            case _:
                changed[place:place] = changed[: data.draw(st.integers(0, 40))]
    got = tried(mended(changed) if len(changed) >= protocol.HEADER_SIZE else bytes(changed))
    if isinstance(got, protocol.Step):
        assert np.isfinite(got.rewards.astype(np.float32)).all()
        assert np.isfinite(got.observations).all()
        assert len(got.final) == got.ended.sum()
        assert not (got.failed & got.ended).any()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", [kind for kind in MAPS if MAPS[kind]])
def test_duplicate_key_is_refused_in_every_encoding_of_a_map(kind):
    """The decoder alone takes the last of two values: a frame could mean different things to different peers."""
    keys = MAPS[kind]
    pairs = b"".join(msgspec.msgpack.encode(part) for pair in keys.items() for part in pair)
    again = b"".join(msgspec.msgpack.encode(part) for part in next(iter(keys.items())))
    for count, body in ((len(keys), pairs), (len(keys) + 1, pairs + again)):
        heads = [b"\xde" + count.to_bytes(2, "big"), b"\xdf" + count.to_bytes(4, "big")]
        heads += [bytes([0x80 | count])]
        for head in heads:
            got = tried(protocol.encode(Header(kind), head + body))
            assert ("a key stands twice" in str(got)) == (count > len(keys)), (head, got)
            assert isinstance(got, str) == (count > len(keys))


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.STATUS, Kind.STATUS_REPLY])
def test_messages_outside_of_sessions_must_not_have_one(kind):
    body = msgspec.msgpack.encode(MAPS[kind])
    assert not isinstance(tried(protocol.encode(Header(kind), body)), str)
    assert "has a session" in tried(protocol.encode(Header(kind, session=5), body))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(st.sampled_from(list(MAPS)), st.data())
def test_maps_with_other_values(kind, data):
    """Every map that is accepted is within its bounds and can be sent on."""
    keys = [*MAPS[kind], "recovered", "failure", "unknown"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), values, max_size=3))
    got = tried(protocol.encode(Header(kind), msgspec.msgpack.encode(MAPS[kind] | changes)))
    if not isinstance(got, str):
        assert tried(protocol.encode_control(got)) == got
        numbers = [v for v in msgspec.structs.asdict(got).values() if isinstance(v, int | float)]
        assert all(0 <= number <= 2**63 for number in numbers)
