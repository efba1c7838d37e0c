import contextlib
import dataclasses
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coupling.wire import protocol
from coupling.wire.protocol import Header, Kind, ProtocolError, Step

# ACTION of one environment with two numbers, 1.0 and -2.0, written by hand from the layout in PROTOCOL.md
GOLDEN_ACTION = bytes.fromhex(
    "4653494d" "01" "00" "06" "00" "08000000" "1b402b5a"
    "0807060504030201" "0300000000000000" "0300000000000000"
    "00000000" "01000000" "8877665544332211" "02000000" "00000000"
    "0000803f" "000000c0"
)  # fmt: skip
GOLDEN_HEADER = Header(
    Kind.ACTION,
    session=0x0102030405060708,
    sequence=3,
    acknowledgement=3,
    environments=1,
    clock=0x1122334455667788,
    epoch=2,
)

# two environments with one number each; the second episode was truncated at the observation 4.0
GOLDEN_STEP = bytes.fromhex(
    "000000000000f83f" "0000000000000040"  # rewards 1.5, 2.0
    "0000803f" "00004040"  # observations 1.0, 3.0
    "00008040"  # the final observation 4.0
    "00" "02"  # status
)  # fmt: skip


def a_step(n, size, ended):
    rng = np.random.default_rng(n * size)
    ended = np.array(ended)
    return Step(
        rewards=np.where(ended == 3, 0.0, rng.normal(size=n)),
        observations=rng.normal(size=(n, size)).astype(np.float32),
        terminated=ended == 1,
        truncated=ended == 2,
        diverged=np.zeros(n, bool),
        failed=ended == 3,
        final=rng.normal(size=(np.count_nonzero((ended == 1) | (ended == 2)), size)).astype(
            np.float32
        ),
    )


def test_golden_action():
    body = np.array([[1.0, -2.0]], "<f4").tobytes()
    assert protocol.encode(GOLDEN_HEADER, body).hex() == GOLDEN_ACTION.hex()
    header, decoded = protocol.decode(GOLDEN_ACTION)
    assert header == GOLDEN_HEADER
    np.testing.assert_array_equal(protocol.decode_actions(decoded, 1, 2), [[1.0, -2.0]])


def test_golden_step():
    step = protocol.decode_step(GOLDEN_STEP, 2, 1)
    np.testing.assert_array_equal(step.rewards, [1.5, 2.0])
    np.testing.assert_array_equal(step.observations, [[1.0], [3.0]])
    np.testing.assert_array_equal(step.final, [[4.0]])
    np.testing.assert_array_equal(step.truncated, [False, True])
    assert not step.terminated.any()
    assert protocol.encode_step(step) == GOLDEN_STEP


@given(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=30), st.integers(1, 20))
def test_step_round_trip(ended, size):
    step = a_step(len(ended), size, ended)
    again = protocol.decode_step(protocol.encode_step(step), len(ended), size)
    for field in dataclasses.fields(Step):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(step, field.name))


@given(
    st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_multi_agent_step_round_trip(ended, size, agents):
    rows, rng = (
        a_step(len(ended) * agents, size, np.repeat(ended, agents)),
        np.random.default_rng(0),
    )
    flags = rng.random((len(ended), agents)) < 0.5
    flags[:, 0] = False  # an environment continues for at least one agent
    flags[np.array(ended) == 1], flags[np.array(ended) == 3] = True, False
    parts = {
        name: getattr(rows, name).reshape(-1, agents, *shape)
        for name, shape in (("rewards", ()), ("observations", (size,)), ("final", (size,)))
    }
    step = dataclasses.replace(a_step(len(ended), size, ended), **parts, agent_ended=flags)
    body = protocol.encode_step(step)
    assert len(body) <= protocol.step_size(len(ended), size, agents)
    again = protocol.decode_step(body, len(ended), size, agents)
    for field in dataclasses.fields(Step):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(step, field.name))
    for wrong in (body[:-1], body + b"\0", b"\0" + body):
        with pytest.raises(ProtocolError):
            protocol.decode_step(wrong, len(ended), size, agents)


@given(st.integers(0, len(GOLDEN_ACTION) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_refused(place, bit):
    frame = bytearray(GOLDEN_ACTION)
    frame[place] ^= 1 << bit
    with pytest.raises(ProtocolError):
        protocol.decode(bytes(frame))


@given(st.integers(0, len(GOLDEN_ACTION) - 1))
def test_a_truncated_frame_is_refused(length):
    with pytest.raises(ProtocolError):
        protocol.decode(GOLDEN_ACTION[:length])


@given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    with pytest.raises(ProtocolError):
        protocol.decode(protocol.MAGIC + noise)


@given(st.sampled_from(list(Kind)), st.binary(max_size=100))
def test_no_body_crashes_the_decoders(kind, body):
    header = Header(kind, environments=3)
    for decode in (
        lambda: protocol.decode_control(header, body),
        lambda: protocol.decode_step(body, 3, 4),
        lambda: protocol.decode_step(body, 3, 2, 2),
        lambda: protocol.decode_observations(body, 3, 4),
        lambda: protocol.decode_observations(body, 3, 2, 2),
    ):
        with contextlib.suppress(ProtocolError):
            decode()


@pytest.mark.parametrize("length", [n for n in range(len(GOLDEN_STEP) + 9) if n not in (26, 30)])
def test_a_step_of_the_wrong_length_is_refused(length):
    """26 bytes are right for two environments of which none ended, 30 for those of which one did."""
    with pytest.raises(ProtocolError):
        protocol.decode_step((GOLDEN_STEP + bytes(9))[:length], 2, 1)


def test_an_infinite_reward_and_an_unknown_status_are_refused():
    step = a_step(2, 1, [0, 0])
    bad = dataclasses.replace(step, rewards=np.array([1.0, np.inf]))
    with pytest.raises(ProtocolError, match="not finite"):
        protocol.decode_step(protocol.encode_step(bad), 2, 1)
    for status in (4, 9, 16, 255):
        with pytest.raises(ProtocolError):
            protocol.decode_step(protocol.encode_step(step)[:-1] + bytes([status]), 2, 1)


def test_other_major_version_is_refused_but_its_reject_is_read():
    future = protocol.encode(Header(Kind.STEP), b"", version=(2, 0))
    with pytest.raises(protocol.VersionMismatchError, match=r"2\.0 was spoken.*speaks 1\.1"):
        protocol.decode(future)
    reject = protocol.encode_control(protocol.Reject("because"))
    newer = bytearray(reject)
    newer[4] = 9
    newer[12:16] = bytes(4)
    newer[12:16] = zlib.crc32(newer).to_bytes(4, "little")
    header, body = protocol.decode(bytes(newer))
    assert protocol.decode_control(header, body) == protocol.Reject("because")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc0",
        b"\x81\xa6reason\x01",
        b"\x82\xa6reason\xa1a\xa4more\x01",
        b"\x81\xa6reason\xa1a\x00",
    ],
)
def test_control_bodies_are_decoded_strictly(body):
    with pytest.raises(ProtocolError):
        protocol.decode_control(Header(Kind.REJECT), body)
