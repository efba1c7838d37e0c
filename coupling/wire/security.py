"""Authentication of workers, and detection of a refusal on both sides.

Every TCP connection is encrypted with CURVE, and only the key of the run's connection file is admitted. This also holds
on a single machine, where anybody can listen at a port that a dead learner left. Only sockets in a folder that its
owner alone can enter (ipc) are not encrypted, and loopback if the run's settings say so. libzmq asks over a socket of
the learner's context which keys are allowed (ZAP, ZeroMQ RFC 27); the learner answers between its other messages,
without an additional thread. Because of an enforced ZAP domain, libzmq refuses everybody if nothing answers, instead of
admitting any key.

Both sides are in one file, because one side has to detect what the other one does to refuse.
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
_EVENT = struct.Struct("=HI")  # first frame of a monitor's event: its kind and its value
_UNREADABLE = zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC
# messages handled per call, so that a flood does not stop the learning
_MESSAGES_A_CALL = 4096
# milliseconds; longer than the time within which a worker counts broken handshakes as a refusal
_HANDSHAKE_WITHIN = 5000
_SENTENCES = 64  # different refusals that are reported; all are counted
_STOOD_STILL = 1.0  # seconds between two calls after which peers may have given up,
_EXCUSED = 5.0  # and seconds for which their broken handshakes may be reported late
_BROKEN_OFF = 3  # successive handshakes that ended without a reason
_BROKEN_OFF_WITHIN = 5.0  # within so many seconds are a refusal if ZeroMQ answers there


class RefusedError(Exception):
    """The learner refuses this worker; the text says why."""


@dataclass(frozen=True)
class Keys:
    """The key pairs of the learner and of its workers, as Z85 text.

    Attributes
    ----------
    server_public, server_secret
        Key pair of the learner; the secret key stays in its memory.
    worker_public, worker_secret
        Key pair of all workers of the run, which read it from the connection file.
    """

    server_public: str
    server_secret: str = field(repr=False)
    worker_public: str
    worker_secret: str = field(repr=False)

    @classmethod
    def draw(cls) -> "Keys":
        """Generate new keys.

        Raises
        ------
        ConfigError
            If libzmq was built without CURVE.
        """
        if not zmq.has("curve"):
            raise ConfigError(
                "libzmq was built without CURVE, so workers must run on this machine with workers.transport=ipc (or "
                "with workers.curve=never, if you trust all users of this machine)"
            )
        pairs = (*zmq.curve_keypair(), *zmq.curve_keypair())
        return cls(*(key.decode() for key in pairs))

    def for_workers(self) -> dict[str, str]:
        """Return the keys for the connection file."""
        return {
            "server_key": self.server_public,
            "public_key": self.worker_public,
            "secret_key": self.worker_secret,
        }


def is_loopback(endpoint: str) -> bool:
    """Return whether an endpoint can be reached from this machine only."""
    transport, _, address = endpoint.partition("://")
    if transport != "tcp":
        return transport in ("ipc", "inproc")
    host = address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def secure_client(socket: "zmq.Socket[bytes]", connection: "Connection") -> None:
    """Encrypt a worker's socket if its connection file contains keys; call it before ``connect``."""
    if connection.server_key:
        socket.curve_serverkey = connection.server_key.encode()
        socket.curve_publickey = connection.public_key.encode()
        socket.curve_secretkey = connection.secret_key.encode()


class Guard:
    """Admits only the run's workers at the learner's socket, and records refusals.

    Create it, bind the socket with it, and call :meth:`attend` at least once a second.

    Parameters
    ----------
    socket
        The learner's ROUTER.
    endpoint
        The address that it will be bound to.
    keys
        Keys of the learner and of the workers; None admits everybody, without encryption.

    Attributes
    ----------
    accepted, refused
        Number of connections, and of failed handshakes.
    refusals
        One sentence for each different reason, at most 64.

    Raises
    ------
    ConfigError
        If the endpoint can be reached from other machines and there are no keys.
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
        self._limiter: ConnectionLimiter | None = None
        socket.set(zmq.HANDSHAKE_IVL, _HANDSHAKE_WITHIN)  # limit for a half-open connection
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
        """Bind the socket, with a :class:`ConnectionLimiter` if the endpoint is TCP and the platform supports it.

        Parameters
        ----------
        guests
            Number of workers that will connect.
        clock
            Function that returns a monotonic time in seconds.

        Returns
        -------
        str
            The endpoint that was bound.
        """
        self._clock, self._attended = clock, clock()
        host, _, port = self._endpoint.removeprefix("tcp://").rpartition(":")
        if self._endpoint.startswith("tcp://") and ConnectionLimiter.fits(host):
            self._limiter = ConnectionLimiter(host, 0 if port == "*" else int(port), guests, clock)
            self._socket.set(zmq.USE_FD, self._limiter.descriptor())
            self._endpoint = f"tcp://{host}:{self._limiter.port}"
        self._socket.bind(self._endpoint)
        return self._socket.get_string(zmq.LAST_ENDPOINT)

    def attend(self) -> None:
        """Answer pending authentication requests and record refusals, without waiting."""
        now = self._clock()
        if now - self._attended > _STOOD_STILL:  # peers may have given up and reconnected meanwhile
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
        if self._limiter is not None:
            floods = self._limiter.floods
            self._limiter.tend(self.accepted - before)
            if self._limiter.floods > floods and now >= self._excused_until:
                then = (
                    "few new ones are accepted for now; connected workers continue"
                    if self._limiter.has_lock
                    else "this system cannot limit them, so the run may become slow; use workers.transport=ipc, "
                    "which opens no port, or a firewall that admits only the workers' machines"
                )
                self._tell(
                    f"more than {self._limiter.budget} connections arrived within a second; {then}"
                )

    def close(self) -> None:
        """Close the guard's own sockets; call it before the guarded socket is closed."""
        _stop_monitor(self._socket, self._monitor)
        if self._zap is not None:
            self._zap.close(linger=0)
        if self._limiter is not None:
            self._limiter.close()

    def _answer_zap(self, zap: "zmq.Socket[bytes]", request: list[bytes]) -> None:
        """Answer one request of libzmq: version, id, domain, address, identity, mechanism, key."""
        version, number, _, address, _, mechanism, *credentials = request
        assert self._keys is not None
        allowed = mechanism == b"CURVE" and [z85.encode(key).decode() for key in credentials] == [
            self._keys.worker_public
        ]
        if allowed and self._limiter is not None:
            self._limiter.know(address.decode(errors="replace"))
        if not allowed:
            self._tell(
                f"a peer at {address.decode(errors='replace')} with an unknown key was refused; workers need the "
                "connection file of the run's current start"
            )
        status = (b"200", b"") if allowed else (b"400", b"unknown key")
        zap.send_multipart((version, number, *status, b"", b""))

    def _note(self, event: int, value: int) -> None:
        """Count a failed handshake; an unknown key has been reported before, with its address."""
        self.refused += 1
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _UNREADABLE:
            self._tell(
                "a peer was refused because it expects another learner: its server key is not the key of this one"
            )
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            if self._clock() < self._excused_until:
                return
            if self._keys is None or value in (errno.ECONNRESET, errno.EAGAIN):
                self._tell("the handshake of a peer failed: it disconnected or took too long")
                return
        speaks = "with encryption (CURVE)" if self._keys else "without encryption"
        self._tell(
            f"the handshake of a peer failed: this learner speaks {speaks}, the peer perhaps not"
        )

    def _tell(self, sentence: str) -> None:
        if sentence not in self.refusals and len(self.refusals) < _SENTENCES:
            self.refusals.append(sentence)


class Watch:
    """Waits for the learner's messages and detects when the learner refuses this worker.

    A DEALER whose key is refused waits forever without an error; only its monitor reports the refusal. If the learner
    is not listening yet, no handshake fails, and the wait continues.

    Parameters
    ----------
    socket
        The worker's DEALER, not yet connected.
    connection
        Address of the learner, and the keys.
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
            If the learner refuses this worker's key or uses another encryption.
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
        """Close the watch's own socket; call it before the watched socket is closed."""
        _stop_monitor(self._socket, self._monitor)

    def _record(self, event: int) -> None:
        """Raise an error if the handshake failed in a way that retries will not fix."""
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
            if not self._breaks_off_repeatedly():
                return
            self._broken_off.clear()
            if _greets(self._endpoint):
                raise RefusedError(
                    f"the learner at {self._endpoint} aborted {_BROKEN_OFF} handshakes: its encryption or its key "
                    "differs from that of the connection file; use the file of the run's present start"
                )

    def _breaks_off_repeatedly(self) -> bool:
        """Return whether handshakes break off repeatedly, unlike those of a learner that died or is busy."""
        full = len(self._broken_off) == _BROKEN_OFF
        return full and self._broken_off[-1] - self._broken_off[0] < _BROKEN_OFF_WITHIN


def _monitor(socket: "zmq.Socket[bytes]", events: int) -> "zmq.Socket[bytes]":
    """Return a socket that reports these events.

    Its queue is unbounded, because libzmq's thread, which carries all messages, would block on a full queue.
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

    If the other end of the queue is closed, libzmq's thread blocks at the next event, and with it the messages of all
    sockets. So monitoring is stopped first; closing the socket would stop it only some time later.
    """
    socket.monitor(None, 0)
    monitor.close(linger=0)


def _greets(endpoint: str) -> bool:
    """Return whether ZeroMQ answers at a TCP endpoint; a tunnel without a learner accepts but sends nothing."""
    if not endpoint.startswith("tcp://"):
        return True
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    try:
        with network.create_connection((host.strip("[]"), int(port)), timeout=1.0) as connection:
            return connection.recv(1) == b"\xff"  # ZMTP's signature
    except (OSError, ValueError):
        return False
