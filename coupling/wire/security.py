"""Who may talk to the learner, and how both sides learn of a refusal.

Every TCP connection is encrypted by CURVE, and only the key of the run's connection file is let in; so it is on one
machine, too, where anybody can listen at a port that a dead learner left. Without encryption are sockets in a folder
that only its owner can enter (ipc), and loopback where the run says so. libzmq asks who is allowed over a socket of the
learner's context (ZAP, ZeroMQ RFC 27); the learner answers between its other messages, so that there is no further
thread. A domain that libzmq must enforce makes it refuse everybody if nobody answers, where it would otherwise let in
any key.

Both sides are in one file, because what one of them does to refuse is what the other one has to notice.
"""

import contextlib
import errno
import ipaddress
import itertools
import socket as network
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

from coupling.errors import ConfigError
from coupling.wire.connection_limiter import ConnectionLimiter

if TYPE_CHECKING:
    from coupling.wire.connection import Connection

__all__ = ["Guard", "Keys", "RefusedError", "Watch", "is_loopback", "secure_client"]

_ZAP = "inproc://zeromq.zap.01"
_DOMAIN = "flowsim"
_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_monitors = itertools.count()
_EVENT = struct.Struct("=HI")  # of a monitor's first frame: which, and its value
_UNREADABLE = zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC
# that are attended to at once: a flood of them does not keep the learner from learning
_MESSAGES_A_CALL = 4096
# milliseconds; longer than the time in which a worker takes broken handshakes for a refusal
_HANDSHAKE_WITHIN = 5000
_SENTENCES = 64  # different refusals that are told; all are counted
_STOOD_STILL = 1.0  # seconds between two looks in which peers may have lost their patience,
_EXCUSED = 5.0  # and for which the handshakes that they broke off are told of late
_BROKEN_OFF = 3  # handshakes in a row that ended without a word,
_BROKEN_OFF_WITHIN = 5.0  # in as many seconds, are a refusal if ZeroMQ answers there


class RefusedError(Exception):
    """The learner does not let this worker in; the sentence says why."""


@dataclass(frozen=True)
class Keys:
    """The key pairs of the learner and of its workers, as Z85 text.

    Attributes
    ----------
    server_public, server_secret
        Of the learner; the secret one stays in its memory.
    worker_public, worker_secret
        Of all workers of the run; they get them by the connection file.
    """

    server_public: str
    server_secret: str = field(repr=False)
    worker_public: str
    worker_secret: str = field(repr=False)

    @classmethod
    def draw(cls) -> "Keys":
        """Draw new keys.

        Raises
        ------
        ConfigError
            When libzmq was built without CURVE.
        """
        if not zmq.has("curve"):
            raise ConfigError(
                "libzmq was built without CURVE, so workers can be on this machine only, and have to be reached by "
                "workers.transport=ipc (or by workers.curve=never, where you trust all users of this machine)"
            )
        pairs = (*zmq.curve_keypair(), *zmq.curve_keypair())
        return cls(*(key.decode() for key in pairs))

    def for_workers(self) -> dict[str, str]:
        """Return what the connection file holds of them."""
        return {
            "server_key": self.server_public,
            "public_key": self.worker_public,
            "secret_key": self.worker_secret,
        }


def is_loopback(endpoint: str) -> bool:
    """Tell whether an endpoint can be reached from this machine only."""
    transport, _, address = endpoint.partition("://")
    if transport != "tcp":
        return transport in ("ipc", "inproc")
    host = address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def secure_client(socket: "zmq.Socket[bytes]", connection: "Connection") -> None:
    """Encrypt what a worker's socket sends, if its connection file says so; to be called before ``connect``."""
    if connection.server_key:
        socket.curve_serverkey = connection.server_key.encode()
        socket.curve_publickey = connection.public_key.encode()
        socket.curve_secretkey = connection.secret_key.encode()


class Guard:
    """Lets the run's workers in at the learner's socket and nobody else, and notes who was refused.

    Make it, let it bind the socket, and call :meth:`attend` at least once a second.

    Parameters
    ----------
    socket
        The learner's ROUTER.
    endpoint
        The address that it will be bound to.
    keys
        Of the learner and of those who are let in; None lets in everybody, without encryption.

    Attributes
    ----------
    accepted, refused
        How many connections came, and how many handshakes failed.
    refusals
        One sentence for each different reason, at most 64.

    Raises
    ------
    ConfigError
        When the endpoint can be reached from other machines and there are no keys.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", endpoint: str, keys: Keys | None) -> None:
        if keys is None and not is_loopback(endpoint):
            raise ConfigError(
                f"{endpoint} can be reached from other machines and would be bound without encryption; give the "
                "service keys, or bind a loopback address such as tcp://127.0.0.1:*"
            )
        self._clock: Callable[[], float] = time.monotonic
        self._attended, self._excused_until = self._clock(), float("-inf")
        self.accepted = self.refused = 0
        self.refusals: list[str] = []
        self._socket, self._endpoint, self._keys = socket, endpoint, keys
        self._door: ConnectionLimiter | None = None
        socket.set(zmq.HANDSHAKE_IVL, _HANDSHAKE_WITHIN)  # so long may a connection be half open
        self._zap: zmq.Socket[bytes] | None = None
        if keys is not None:
            self._zap = socket.context.socket(zmq.REP)
            self._zap.linger = 0
            self._zap.bind(_ZAP)
            socket.curve_server = True
            socket.curve_secretkey = keys.server_secret.encode()
            socket.curve_publickey = keys.server_public.encode()
            socket.set_string(zmq.ZAP_DOMAIN, _DOMAIN)
            socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self._monitor = _monitor(socket, _FAILED | zmq.EVENT_ACCEPTED)

    def bind(self, guests: int, clock: Callable[[], float] = time.monotonic) -> str:
        """Bind the socket, behind a door if the endpoint is one of TCP.

        Parameters
        ----------
        guests
            How many workers will connect.
        clock
            Seconds that rise.

        Returns
        -------
        str
            The endpoint that was bound.
        """
        self._clock, self._attended = clock, clock()
        host, _, port = self._endpoint.removeprefix("tcp://").rpartition(":")
        if self._endpoint.startswith("tcp://") and ConnectionLimiter.fits(host):
            self._door = ConnectionLimiter(host, 0 if port == "*" else int(port), guests, clock)
            self._socket.set(zmq.USE_FD, self._door.descriptor())
            self._endpoint = f"tcp://{host}:{self._door.port}"
        self._socket.bind(self._endpoint)
        return self._socket.get_string(zmq.LAST_ENDPOINT)

    def attend(self) -> None:
        """Answer who may come in, and note who could not; without waiting."""
        now = self._clock()
        if now - self._attended > _STOOD_STILL:  # peers gave up and connected again meanwhile
            self._excused_until = now + _EXCUSED
        self._attended = now
        with contextlib.suppress(zmq.Again):
            for _ in range(_MESSAGES_A_CALL):
                if self._zap is None:
                    break
                self._answer_zap(self._zap, self._zap.recv_multipart(zmq.NOBLOCK))
        before = self.accepted
        with contextlib.suppress(zmq.Again):
            for _ in range(_MESSAGES_A_CALL):
                event, value = _EVENT.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
                if event == zmq.EVENT_ACCEPTED:
                    self.accepted += 1
                else:
                    self._note(event, value)
        if self._door is not None:
            floods = self._door.floods
            self._door.tend(self.accepted - before)
            if self._door.floods > floods and now >= self._excused_until:
                then = (
                    "meanwhile few new ones are let in, and connected workers continue"
                    if self._door.has_lock
                    else "this system has no means to keep them out, so the run may become slow; workers.transport=ipc "
                    "opens no port, and a firewall may admit the workers' machines only"
                )
                self._tell(
                    f"more than {self._door.budget} connections came within a second; {then}"
                )

    def close(self) -> None:
        """Close the guard's own sockets, before the one that it guards is closed."""
        _stop_monitor(self._socket, self._monitor)
        if self._zap is not None:
            self._zap.close(linger=0)
        if self._door is not None:
            self._door.close()

    def _answer_zap(self, zap: "zmq.Socket[bytes]", request: list[bytes]) -> None:
        """Answer one request of libzmq: version, id, domain, address, identity, mechanism, key."""
        version, number, _, address, _, mechanism, *credentials = request
        assert self._keys is not None
        allowed = mechanism == b"CURVE" and [z85.encode(key).decode() for key in credentials] == [
            self._keys.worker_public
        ]
        if allowed and self._door is not None:
            self._door.know(address.decode(errors="replace"))
        if not allowed:
            self._tell(
                f"a peer at {address.decode(errors='replace')} with an unknown key was refused; workers need the "
                "connection file of this start of the run"
            )
        status = (b"200", b"") if allowed else (b"400", b"unknown key")
        zap.send_multipart((version, number, *status, b"", b""))

    def _note(self, event: int, value: int) -> None:
        """Count a handshake that failed; an unknown key was told already, with the address."""
        self.refused += 1
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _UNREADABLE:
            self._tell(
                "a peer that takes this learner for another one was refused: its server key is not ours"
            )
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            if self._clock() < self._excused_until:
                return
            if self._keys is None or value in (errno.ECONNRESET, errno.EAGAIN):
                self._tell(
                    "a peer did not get through the handshake: it went away, or took too long over it"
                )
                return
        speaks = "with encryption (CURVE)" if self._keys else "without encryption"
        self._tell(
            f"a peer did not get through the handshake: this learner speaks {speaks}, the peer perhaps not"
        )

    def _tell(self, sentence: str) -> None:
        if sentence not in self.refusals and len(self.refusals) < _SENTENCES:
            self.refusals.append(sentence)


class Watch:
    """Waits for the learner's messages and notices when the learner does not let this worker in.

    A DEALER whose key is refused waits forever without a word; only its monitor knows. A learner that is not there yet
    fails no handshake, so it is waited for.

    Parameters
    ----------
    socket
        The worker's DEALER, not yet connected.
    connection
        Where the learner is, and the keys.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", connection: "Connection") -> None:
        self._socket, self._endpoint, self._encrypted = (
            socket,
            connection.endpoint,
            bool(connection.server_key),
        )
        self._monitor = _monitor(socket, _FAILED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._broken_off: deque[float] = deque(maxlen=_BROKEN_OFF)
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def poll(self, milliseconds: int) -> bool:
        """Wait for a message as ``socket.poll`` does.

        Returns
        -------
        bool
            Whether there is one.

        Raises
        ------
        RefusedError
            When the learner refuses this worker's key or speaks another encryption.
        """
        until = time.monotonic() + milliseconds / 1000
        while True:
            ready = dict(self._poller.poll(max(0, round(1000 * (until - time.monotonic())))))
            if self._monitor in ready:
                self._record(_EVENT.unpack(self._monitor.recv_multipart()[0])[0])
            if self._socket in ready:
                return True
            if time.monotonic() >= until:
                return False

    def close(self) -> None:
        """Close the watch's own socket, before the one that it watches is closed."""
        _stop_monitor(self._socket, self._monitor)

    def _record(self, event: int) -> None:
        """Raise if the handshake ended in a way that will not mend itself."""
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._broken_off.clear()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            raise RefusedError(
                f"the learner at {self._endpoint} refused this worker's key; use the connection file of the run's "
                "present start"
            )
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            ours, its = ("with", "without") if self._encrypted else ("without", "with")
            raise RefusedError(
                f"the learner at {self._endpoint} did not understand this worker's handshake: the worker speaks {ours} "
                f"encryption (CURVE), the learner probably {its}; use the connection file of the run's present start"
            )
        else:
            self._broken_off.append(time.monotonic())
            if not self._keeps_breaking_off():
                return
            self._broken_off.clear()
            if _greets(self._endpoint):
                raise RefusedError(
                    f"the learner at {self._endpoint} broke {_BROKEN_OFF} handshakes off: its encryption or its key is "
                    "not that of the connection file; use the file of the run's present start"
                )

    def _keeps_breaking_off(self) -> bool:
        """Tell a refusal from a learner that died or is busy, which breaks off one handshake or takes long over it."""
        full = len(self._broken_off) == _BROKEN_OFF
        return full and self._broken_off[-1] - self._broken_off[0] < _BROKEN_OFF_WITHIN


def _monitor(socket: "zmq.Socket[bytes]", events: int) -> "zmq.Socket[bytes]":
    """Return a socket that tells of these events.

    Its queue has no bound, because libzmq's thread, which carries everybody's messages, would wait where it is full.
    """
    address = f"inproc://monitor-{next(_monitors)}"
    socket.monitor(address, events)
    monitor = socket.context.socket(zmq.PAIR)
    monitor.linger = 0
    monitor.rcvhwm = 0
    monitor.connect(address)
    return monitor


def _stop_monitor(socket: "zmq.Socket[bytes]", monitor: "zmq.Socket[bytes]") -> None:
    """Undo :func:`_monitor`.

    While nobody holds the other end of the queue, libzmq's thread waits with the next event, and the messages of all
    sockets with it. So it is told to stop first; closing the socket would tell it some time later.
    """
    socket.monitor(None, 0)
    monitor.close(linger=0)


def _greets(endpoint: str) -> bool:
    """Tell whether ZeroMQ answers at a TCP endpoint: a tunnel whose learner is away accepts and says nothing."""
    if not endpoint.startswith("tcp://"):
        return True
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    try:
        with network.create_connection((host.strip("[]"), int(port)), timeout=1.0) as connection:
            return connection.recv(1) == b"\xff"  # ZMTP's signature
    except (OSError, ValueError):
        return False
