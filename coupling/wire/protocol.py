"""The messages between a worker and the learner: one frame, a fixed header and a body.

``PROTOCOL.md`` beside this file specifies the bytes. STEP, RESET and ACTION bodies are plain little-endian
arrays laid out by the sizes agreed in HELLO; all other bodies are small msgpack maps, decoded strictly.
Nothing from the wire is ever unpickled. All messages are in one file, in the order of ``PROTOCOL.md``, so that the two
can be read side by side.
"""

import math
import re
import struct
import zlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "MAX_AGENTS",
    "MAX_BODY",
    "MAX_ENVIRONMENTS",
    "MAX_FLOATS",
    "MAX_TEXT",
    "VERSION",
    "Error",
    "Goodbye",
    "Header",
    "Heartbeat",
    "Hello",
    "Kind",
    "Pause",
    "ProtocolError",
    "Reject",
    "Status",
    "StatusReply",
    "Step",
    "VersionMismatchError",
    "Welcome",
    "decode",
    "decode_actions",
    "decode_control",
    "decode_observations",
    "decode_step",
    "encode",
    "encode_control",
    "encode_step",
    "minor_of",
    "sentence",
    "step_size",
]

MAGIC = b"FSIM"
VERSION = (1, 1)  # newest version spoken; a frame has the lowest minor version of its form
MAX_BODY = 64 * 2**20  # bytes; 65,536 environments with 200 floats each fit, all of them ending
MAX_ENVIRONMENTS = 65_536  # of a worker
MAX_FLOATS = 65_536  # in an observation or an action of an agent
MAX_AGENTS = 65_536  # in an environment
MAX_TEXT = 4_096  # characters of a reason
MAX_FAILURE = 1_000  # characters of why an environment failed

# magic, major, minor, type, flags, body length, checksum | session, sequence, acknowledgement |
# first environment, environments | clock (ns) | epoch, reserved
_HEADER = struct.Struct("<4sBBBBIIQQQIIQII")
HEADER_SIZE = _HEADER.size
_CHECKSUM = slice(12, 16)


class ProtocolError(ValueError):
    """A frame that violates the protocol; the text says how."""


class VersionMismatchError(ProtocolError):
    """A frame of another major version, of which only the version was read."""

    def __init__(self, major: int, minor: int) -> None:
        self.version = (major, minor)
        super().__init__(
            f"protocol version {major}.{minor} was spoken, this side speaks {VERSION[0]}.{VERSION[1]}; "
            "both sides need the same major version, so install the same flowsim on both"
        )


class Kind(IntEnum):
    """Message types."""

    HELLO = 1
    WELCOME = 2
    REJECT = 3
    RESET = 4
    STEP = 5
    ACTION = 6
    HEARTBEAT = 7
    PAUSE = 8
    ERROR = 9
    GOODBYE = 10
    STATUS = 11
    STATUS_REPLY = 12


@dataclass(frozen=True)
class Header:
    """Header of a frame.

    Attributes
    ----------
    kind
        The message type.
    session
        Number that the learner gave this worker in WELCOME; 0 before.
    sequence
        Increases by one with every RESET or STEP of a session; ACTION, and the learner's ERROR, repeat the number that
        they answer.
    acknowledgement
        In ACTION and PAUSE: the sequence of the RESET or STEP that the learner has accepted permanently.
    first, environments
        The body concerns the environments [first, first + environments) of the worker.
    clock
        Nanoseconds of the sender's monotonic clock.
    epoch
        Number of earlier starts of the run when the session began.
    checksum
        Checksum of the frame that the header was read from; unused in a header to be sent.
    minor
        Minor version of the body's form: 1 if arrays have an axis of agents.
    """

    kind: Kind
    session: int = 0
    sequence: int = 0
    acknowledgement: int = 0
    first: int = 0
    environments: int = 0
    clock: int = 0
    epoch: int = 0
    checksum: int = field(default=0, compare=False)
    minor: int = 0


def encode(header: Header, body: bytes = b"", version: tuple[int, int] | None = None) -> bytes:
    """Return the frame: the header, with the CRC-32 of the frame with zeros as checksum, then the body."""
    head = _HEADER.pack(
        MAGIC,
        *(version or (VERSION[0], header.minor)),
        header.kind,
        0,
        len(body),
        0,
        header.session,
        header.sequence,
        header.acknowledgement,
        header.first,
        header.environments,
        header.clock,
        header.epoch,
        0,
    )
    checksum = zlib.crc32(body, zlib.crc32(head))
    return b"".join((head[:12], checksum.to_bytes(4, "little"), head[16:], body))


def decode(frame: bytes) -> tuple[Header, bytes]:
    """Read a frame, accepting only frames that :func:`encode` writes.

    A REJECT of any version is read, so that a refused client of another version learns the reason.

    Returns
    -------
    (Header, bytes)
        The header and the body.

    Raises
    ------
    VersionMismatchError
        If the major version differs.
    ProtocolError
        For every other violation: length, magic, checksum, unknown type, fields that must be 0 or must not.
    """
    if len(frame) < HEADER_SIZE:
        raise ProtocolError(
            f"a frame of {len(frame)} bytes is shorter than the header of {HEADER_SIZE}"
        )
    magic, major, minor, kind, flags, length, checksum, *fields, reserved = _HEADER.unpack_from(
        frame
    )
    if magic != MAGIC:
        raise ProtocolError(f"a frame begins with {magic!r}, not with {MAGIC!r}")
    if major != VERSION[0] and kind != Kind.REJECT:
        raise VersionMismatchError(major, minor)
    if length > MAX_BODY or len(frame) != HEADER_SIZE + length:
        raise ProtocolError(f"a frame of {len(frame)} bytes says that its body has {length}")
    if _checksum(memoryview(frame)) != checksum:
        raise ProtocolError("a frame's checksum is wrong")
    if flags or reserved:
        raise ProtocolError("a frame has flags set that mean nothing")
    try:
        known = Kind(kind)
    except ValueError as error:
        raise ProtocolError(f"message type {kind} is unknown") from error
    header = Header(known, *(*fields, checksum, minor))
    _check_fields(header)
    return header, frame[HEADER_SIZE:]


def _checksum(frame: memoryview) -> int:
    """Return the CRC-32 of a frame with zeros as checksum."""
    before = zlib.crc32(
        bytes(_CHECKSUM.stop - _CHECKSUM.start), zlib.crc32(frame[: _CHECKSUM.start])
    )
    return zlib.crc32(frame[_CHECKSUM.stop :], before)


def _check_fields(header: Header) -> None:
    """Raise an error for a header whose fields are not valid in its type of message."""
    name = header.kind.name
    if header.kind in (Kind.RESET, Kind.STEP, Kind.ACTION):
        if not (header.session and header.sequence and 0 < header.environments <= MAX_ENVIRONMENTS):
            raise ProtocolError(
                f"{name} needs a session, a sequence and 1 to {MAX_ENVIRONMENTS} environments"
            )
    elif header.first or header.environments or (header.sequence and header.kind is not Kind.ERROR):
        raise ProtocolError(
            f"{name} speaks of a sequence or of environments, which only RESET, STEP and ACTION do"
        )
    if header.session and header.kind in (Kind.HELLO, Kind.STATUS, Kind.STATUS_REPLY):
        raise ProtocolError(f"{name} has a session, which is for messages within one")
    if header.acknowledgement and header.kind not in (Kind.ACTION, Kind.PAUSE):
        raise ProtocolError(
            f"{name} has an acknowledgement, which only the learner's ACTION and PAUSE have"
        )


# --- control messages -------------------------------------------------------------------------------------


_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_NO_CONTROL_CHARACTERS = r"\A[^\x00-\x08\x0b-\x1f\x7f-\x9f]*\Z"  # newline and tab are allowed

_Major = Annotated[int, Meta(ge=0, le=255)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]
_Agents = Annotated[int, Meta(ge=1, le=MAX_AGENTS)]
_Slot = Annotated[int, Meta(ge=0, lt=MAX_ENVIRONMENTS)]
_Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]  # these bounds also refuse NaN
_Period = Annotated[float, Meta(gt=0.0, le=1e9)]
_Microseconds = Annotated[float, Meta(ge=0.0, le=1e15)]
_Bounds = Annotated[
    list[Annotated[float, Meta(ge=-_LARGEST_FLOAT, le=_LARGEST_FLOAT)]],
    Meta(min_length=1, max_length=MAX_FLOATS),
]
_Name = Annotated[str, Meta(max_length=255, pattern=_NO_CONTROL_CHARACTERS)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT, pattern=_NO_CONTROL_CHARACTERS)]
_Failure = Annotated[str, Meta(max_length=MAX_FAILURE, pattern=_NO_CONTROL_CHARACTERS)]


def sentence(text: str, longest: int = MAX_TEXT) -> str:
    """Return a text that can be sent: truncated, and without terminal control characters."""
    clean = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "?", text[: longest + 1])
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


class _Control(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of the msgpack maps."""


class Hello(_Control, frozen=True, forbid_unknown_fields=True):
    """Worker to learner: identity of the worker and its environments.

    Attributes
    ----------
    versions
        Lowest and highest major version that the worker speaks.
    incarnation
        Random number of each process of a worker; a repeated HELLO has the same one.
    slot
        Number of the worker, which determines its agents; None takes a free one with as many environments.
    pid, host
        Process ID and host name, for the status.
    environments
        Number of environments it hosts.
    observation_size
        Floats in an observation of an agent.
    action_low, action_high
        Bounds of the actions of an agent.
    task_hash
        Hash of the task and its options (:func:`coupling.wire.connection.task_hash`).
    recovered
        Frame of the last RESET or STEP of the worker's previous process, from its outbox; else empty.
    agents_per_env
        Agents that act together in an environment; in version 1.1, absent in 1.0, where it is one.
    """

    versions: tuple[_Major, _Major]
    incarnation: _Number
    slot: _Slot | None
    pid: _Count
    host: _Name
    environments: Annotated[int, Meta(ge=1, le=MAX_ENVIRONMENTS)]
    observation_size: Annotated[int, Meta(ge=1, le=MAX_FLOATS)]
    action_low: _Bounds
    action_high: _Bounds
    task_hash: _Name
    recovered: Annotated[bytes, Meta(max_length=HEADER_SIZE + MAX_BODY)] = b""
    agents_per_env: _Agents | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.versions[0] > self.versions[1]:
            raise ValueError(f"the lowest of the versions {self.versions} is above the highest")
        if len(self.action_low) != len(self.action_high):
            raise ValueError(
                f"{len(self.action_low)} lower bounds of actions, {len(self.action_high)} upper ones"
            )
        if any(low > high for low, high in zip(self.action_low, self.action_high, strict=True)):
            raise ValueError("a lower bound of an action is above the upper one")


class Welcome(_Control, frozen=True, forbid_unknown_fields=True):
    """Learner to worker: the session, and a seed for each environment.

    Attributes
    ----------
    version
        Major version that both sides use from here on.
    session, slot, first_agent
        Numbers of the session, of the worker and of the agent in its first environment.
    seeds
        Seed of each environment.
    heartbeat, patience
        Seconds between signs of life, and after which a worker that hears nothing gives up.
    agents_per_env
        As in the HELLO that it answers.
    """

    version: _Major
    session: _Number
    slot: _Slot
    first_agent: _Count
    seeds: Annotated[list[_Count], Meta(min_length=1, max_length=MAX_ENVIRONMENTS)]
    heartbeat: _Period
    patience: _Period
    agents_per_env: _Agents | msgspec.UnsetType = msgspec.UNSET


class _Reasoned(_Control, frozen=True, forbid_unknown_fields=True):
    """Base class of maps with only a reason, which the sender cleans and the receiver checks."""

    reason: _Text

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "reason", sentence(self.reason))


class Reject(_Reasoned, frozen=True, forbid_unknown_fields=True):
    """Learner to worker: refusal, with a readable reason."""


class Heartbeat(_Control, frozen=True, forbid_unknown_fields=True):
    """A sign of life; the learner answers with the same body.

    Attributes
    ----------
    steps
        Steps of the vector environment so far, as a progress counter.
    step_seconds
        How long the step in progress has taken, 0 outside a step.
    delay_p50_us, delay_p99_us
        Microseconds from sending a STEP to receiving its ACTION, over the latest steps.
    resends
        Messages sent again because no answer arrived.
    failures, failure
        Number of environments that failed and were reset so far, and reason of the latest failure.
    """

    steps: _Count
    step_seconds: _Seconds
    delay_p50_us: _Microseconds
    delay_p99_us: _Microseconds
    resends: _Count = 0
    failures: _Count = 0
    failure: _Failure = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "failure", sentence(self.failure, MAX_FAILURE))


class Pause(_Reasoned, frozen=True, forbid_unknown_fields=True):
    """Learner to worker: the message is stored, or the HELLO was received, but the answer takes longer; and why."""


class Error(_Reasoned, frozen=True, forbid_unknown_fields=True):
    """Either side to the other: this session cannot continue, and why."""


class Goodbye(_Reasoned, frozen=True, forbid_unknown_fields=True):
    """The last message of either side."""


class Status(_Control, frozen=True, forbid_unknown_fields=True):
    """Any client to the learner: request for the status of the run."""


class StatusReply(_Control, frozen=True, forbid_unknown_fields=True):
    """Learner to a client: the run's status as JSON text."""

    json: str


_CONTROL: dict[Kind, type[_Control]] = {
    Kind.HELLO: Hello,
    Kind.WELCOME: Welcome,
    Kind.REJECT: Reject,
    Kind.HEARTBEAT: Heartbeat,
    Kind.PAUSE: Pause,
    Kind.ERROR: Error,
    Kind.GOODBYE: Goodbye,
    Kind.STATUS: Status,
    Kind.STATUS_REPLY: StatusReply,
}
_KIND = {body: kind for kind, body in _CONTROL.items()}
_PAIRS = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_DECODERS = {kind: msgspec.msgpack.Decoder(body, strict=True) for kind, body in _CONTROL.items()}


def encode_control(
    body: _Control,
    *,
    session: int = 0,
    sequence: int = 0,
    acknowledgement: int = 0,
    epoch: int = 0,
    clock: int = 0,
    minor: int = 0,
) -> bytes:
    """Return the frame of a control message; the body determines its type and the minor version of a map."""
    minor = max(minor, minor_of(body))
    ids = session, sequence, acknowledgement
    header = Header(_KIND[type(body)], *ids, epoch=epoch, clock=clock, minor=minor)
    return encode(header, msgspec.msgpack.encode(body))


def minor_of(body: _Control) -> int:
    """Return the lowest minor version that supports this map."""
    has_axis = isinstance(body, Hello | Welcome) and body.agents_per_env is not msgspec.UNSET
    return int(has_axis)


def decode_control(header: Header, body: bytes) -> _Control:
    """Read the body of a control message.

    Raises
    ------
    ProtocolError
        If it is not exactly the map of its type.
    """
    try:
        message = _DECODERS[header.kind].decode(body)
        if len(_PAIRS.decode(body)) != _pairs_in(body):  # a repeated key
            raise ValueError("a key stands twice")
        if isinstance(message, Hello | Welcome) and minor_of(message) != min(header.minor, 1):
            raise ValueError("agents_per_env has to be there from version 1.1 on, and not before")
        return message
    except KeyError as error:
        raise ProtocolError(f"{header.kind.name} is no control message") from error
    except (ValueError, RecursionError) as error:  # non-UTF-8 text is no DecodeError
        raise ProtocolError(
            sentence(f"the body of {header.kind.name} is malformed: {error}")
        ) from error


def _pairs_in(body: bytes) -> int:
    """Return the number of keys declared by a msgpack map, in any of its three forms."""
    if body[0] < 0x90:
        return body[0] & 15
    return int.from_bytes(body[1 : 3 if body[0] == 0xDE else 5], "big")


# --- arrays -----------------------------------------------------------------------------------------------

_TERMINATED, _TRUNCATED, _DIVERGED, _FAILED = 1, 2, 4, 8


@dataclass(frozen=True)
class Step:
    """Results of one step of n environments.

    Attributes
    ----------
    rewards
        float64 (n,).
    observations
        float32 (n, observation size): observations for the next actions; for an ended episode, the first
        observation of the next one. With an axis of agents, in version 1.1, rewards are (n, N), and observations
        and final observations (n, N, observation size).
    terminated, truncated, diverged
        bool (n,); ``diverged`` marks an episode that ended because its simulation diverged.
    failed
        bool (n,); the step of a failed environment raised or returned non-finite numbers, so there is no
        transition: its reward is 0, it is neither terminated nor truncated, and its row of ``observations`` begins
        the next episode.
    final
        float32 (number ended, observation size): the last observations of the ended episodes.
    agent_ended
        bool (n, N): agents that have reached a terminal state by this step, all of them if the environment is
        terminated; None without an axis of agents.
    """

    rewards: np.ndarray
    observations: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    diverged: np.ndarray
    failed: np.ndarray
    final: np.ndarray
    agent_ended: np.ndarray | None = None

    @property
    def ended(self) -> np.ndarray:
        """Episodes that ended, bool (n,)."""
        return self.terminated | self.truncated


def encode_step(step: Step) -> bytes:
    """Return the body of STEP: rewards f64, observations f32, final observations f32, agents u8, status u8."""
    status = step.terminated * _TERMINATED + step.truncated * _TRUNCATED + step.diverged * _DIVERGED
    status = status + step.failed * _FAILED
    return b"".join(
        (
            np.ascontiguousarray(step.rewards, "<f8").tobytes(),
            np.ascontiguousarray(step.observations, "<f4").tobytes(),
            np.ascontiguousarray(step.final, "<f4").tobytes(),
            b"" if step.agent_ended is None else np.asarray(step.agent_ended, np.uint8).tobytes(),
            np.ascontiguousarray(status, np.uint8).tobytes(),
        )
    )


def step_size(environments: int, size: int, agents: int | None = None) -> int:
    """Return the size in bytes of the longest body of STEP, in which all environments have ended."""
    each = 8 + 8 * size + 1
    return environments * (each if agents is None else agents * each + 1)


def decode_step(body: bytes, environments: int, size: int, agents: int | None = None) -> Step:
    """Read the body of STEP.

    Parameters
    ----------
    body
        The bytes.
    environments, size
        Environments (n), and floats in an observation.
    agents
        Agents in an environment (N), in version 1.1; None in version 1.0, without an axis of agents.

    Raises
    ------
    ProtocolError
        If the length does not match, a status or a flag is invalid, a number is not finite or too large, or a failed
        environment has a reward.
    """
    n, axis, of_each = environments, () if agents is None else (agents,), agents or 1
    flags = n * (agents or 0)
    fixed = n * (of_each * (8 + 4 * size) + 1) + flags
    if len(body) < fixed:
        raise ProtocolError(
            f"a STEP of {n} environments has {len(body)} bytes, at least {fixed} are needed"
        )
    status = np.frombuffer(body, np.uint8, n, len(body) - n)
    ended = int(np.count_nonzero(status & (_TERMINATED | _TRUNCATED)))
    meaningless = (status > _FAILED) | (status == _DIVERGED)
    if len(body) != fixed + 4 * of_each * size * ended or meaningless.any():
        raise ProtocolError(
            f"a STEP of {n} environments, {ended} of them ended, has a body of {len(body)} bytes"
        )
    rewards = np.frombuffer(body, "<f8", n * of_each)
    floats = np.frombuffer(body, "<f4", (n + ended) * of_each * size, 8 * n * of_each)
    floats = floats.reshape(n + ended, *axis, size)
    # the learner stores rewards as f32; the comparison is false for NaN
    if not ((np.abs(rewards) <= _LARGEST_FLOAT).all() and np.isfinite(floats).all()):
        raise ProtocolError(
            "a STEP has a number that is not finite, or a reward too large for single precision"
        )
    if rewards.reshape(n, -1)[status == _FAILED].any():
        raise ProtocolError("a STEP has a reward of a failed environment, which must be 0")
    return Step(
        rewards=rewards if agents is None else rewards.reshape(n, agents),
        observations=floats[:n],
        terminated=(status & _TERMINATED).astype(bool),
        truncated=(status & _TRUNCATED).astype(bool),
        diverged=(status & _DIVERGED).astype(bool),
        failed=(status & _FAILED).astype(bool),
        final=floats[n:],
        agent_ended=None if agents is None else _decode_flags(body, status, agents),
    )


def _decode_flags(body: bytes, status: np.ndarray, agents: int) -> np.ndarray:
    """Read which agents have ended, from the flags before the status of a STEP."""
    n = len(status)
    flags = np.frombuffer(body, np.uint8, n * agents, len(body) - n - n * agents).reshape(n, agents)
    over = flags.all(axis=1) == (status & _TERMINATED > 0)
    if (flags > 1).any() or not over.all() or flags[status == _FAILED].any():
        raise ProtocolError(
            "a STEP has flags of ended agents that do not fit the status of their environment"
        )
    return flags.astype(bool)


def decode_observations(body: bytes, environments: int, *shape: int) -> np.ndarray:
    """Read the body of RESET: the first observations, float32 (environments, *shape).

    Raises
    ------
    ProtocolError
        If the length does not match or a number is not finite.
    """
    return _decode_rows(body, environments, shape, "RESET")


def decode_actions(body: bytes, environments: int, *shape: int) -> np.ndarray:
    """Read the body of ACTION: float32 (environments, *shape).

    Raises
    ------
    ProtocolError
        If the length does not match or a number is not finite.
    """
    return _decode_rows(body, environments, shape, "ACTION")


def _decode_rows(body: bytes, environments: int, shape: tuple[int, ...], name: str) -> np.ndarray:
    needed = 4 * environments * math.prod(shape)
    if len(body) != needed:
        raise ProtocolError(
            f"{name} of {environments} environments has {len(body)} bytes, not {needed}"
        )
    rows = np.frombuffer(body, "<f4").reshape(environments, *shape)
    if not np.isfinite(rows).all():
        raise ProtocolError(f"{name} has a number that is not finite")
    return rows
