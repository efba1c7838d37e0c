"""The learner's listening socket, for which the kernel drops connection requests during a flood.

libzmq accepts every connection and has no option that limits their number. But it accepts a listening socket created
elsewhere, and on Linux the owner of a socket can have connection requests dropped before this process is woken.
Established connections are not affected. There are two ways, and the first that the kernel permits is used:

- a filter (``SO_ATTACH_FILTER``), which can admit the addresses of workers. Some kernels refuse it without root.
- a signature that no peer has (``TCP_MD5SIG``, RFC 2385): the kernel drops every request that is not signed with a
  random key. It needs no privileges, but allows no exceptions.
"""

import contextlib
import ctypes
import ipaddress
import os
import resource
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence

__all__ = ["LOCKS", "ConnectionLimiter", "lock_by_filter", "lock_by_signature"]

_BACKLOG = 128  # connections waiting to be accepted
_STRANGERS = 64  # connections per second admitted in addition to those of the workers,
_OF_A_GUEST = 4  # each of which may make two, and make them again
_SPARE = 128  # descriptors reserved for files, pipes and the like
_MOST_KNOWN = 1000  # addresses: a filter has at most 4,096 instructions
_OPEN, _KNOWN_ONLY, _SHUT = range(3)
# Linux constants that Python does not define
_ATTACH_FILTER, _DETACH_FILTER, _TCP_MD5SIG_EXT = 26, 27, 32

Lock = Callable[[socket.socket, Iterable[int] | None], None]
"""Makes the kernel drop connection requests from all but these IPv4 addresses, or no requests if given None."""


class ConnectionLimiter:
    """A listening TCP socket that admits a limited number of connections per second.

    If more than the budget have arrived within a second, only connections from known addresses of workers are admitted
    for the rest of it, and none if these exceed the budget, too. None are admitted either while this process is short
    of descriptors. Dropped requests are not answered; TCP retries after one second, then after two, and so on.

    Parameters
    ----------
    host, port
        IPv4 address and port to listen at; port 0 takes a free one.
    guests
        Number of workers.
    clock
        Function that returns a monotonic time in seconds.
    locks
        Ways to block connections; the first one that the kernel permits is used.

    Attributes
    ----------
    port
        Port at which it listens.
    budget
        Connections admitted per second.
    floods
        Number of seconds in which there were more.

    Raises
    ------
    OSError
        If it cannot listen there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        guests: int,
        clock: Callable[[], float] = time.monotonic,
        locks: Sequence[Lock] | None = None,
    ) -> None:
        self._listener = socket.create_server((host, port), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.budget = _STRANGERS + _OF_A_GUEST * guests
        self.floods = 0
        self._room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE
        self._clock = clock
        self._began, self._accepted, self._state = clock(), 0, _OPEN
        self._known: dict[int, None] = {}
        self._locks = list(LOCKS if locks is None else locks)

    @staticmethod
    def fits(host: str) -> bool:
        """Return whether a limiter is possible: on Linux, at an IPv4 address."""
        with contextlib.suppress(ValueError):
            return sys.platform == "linux" and ipaddress.ip_address(host).version == 4
        return False

    def descriptor(self) -> int:
        """Return a duplicate descriptor of the listening socket, owned by the caller."""
        return os.dup(self._listener.fileno())

    def know(self, address: str) -> None:
        """Add the address of a worker that has the key."""
        with contextlib.suppress(ValueError):
            self._known.setdefault(int(ipaddress.IPv4Address(address)))
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def tend(self, accepted: int) -> None:
        """Block or admit new connections, as needed.

        Parameters
        ----------
        accepted
            Number of connections since the last call.
        """
        now = self._clock()
        if now - self._began >= 1.0:
            self._began, self._accepted = now, 0
        before, self._accepted = self._accepted, self._accepted + accepted
        self.floods += before <= self.budget < self._accepted
        state = min(self._accepted // (self.budget + 1), _SHUT)
        if (accepted or self._state == _SHUT) and self._is_short_of_descriptors():
            state = _SHUT
        if state != self._state:
            self._state = state
            self._turn_lock()

    @property
    def has_lock(self) -> bool:
        """Whether the kernel permits one of the ways to block connections, as far as tried."""
        return bool(self._locks)

    def close(self) -> None:
        """Stop listening, once libzmq has closed its descriptor."""
        self._listener.close()

    def _is_short_of_descriptors(self) -> bool:
        """Return whether few descriptors are left, according to the lowest free one."""
        try:
            lowest = os.dup(self._listener.fileno())
        except OSError:
            return True
        os.close(lowest)
        return lowest >= self._room

    def _turn_lock(self) -> None:
        """Apply the state with the first lock that the kernel permits."""
        known = {_OPEN: None, _KNOWN_ONLY: self._known, _SHUT: ()}[self._state]
        while self._locks:
            try:
                self._locks[0](self._listener, known)
                return
            except OSError:  # not permitted, not supported, or no room for it in the kernel
                lock = self._locks.pop(0)
                with contextlib.suppress(OSError):  # remove a filter that was attached before
                    lock(self._listener, None)


def lock_by_filter(listener: socket.socket, known: Iterable[int] | None) -> None:
    """Attach or detach a filter, see :data:`Lock`."""
    if known is None:
        listener.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
        return
    program = _program(known)
    code = ctypes.create_string_buffer(program)
    listener.setsockopt(
        socket.SOL_SOCKET,
        _ATTACH_FILTER,
        struct.pack("@HP", len(program) // 8, ctypes.addressof(code)),
    )


def lock_by_signature(listener: socket.socket, known: Iterable[int] | None) -> None:
    """Require from every peer a signature that it cannot make, or no longer require it, see :data:`Lock`.

    A signature cannot be required of all but some addresses, so known addresses are blocked, too.
    """
    key = b"" if known is None else secrets.token_bytes(80)
    everybody = struct.pack("=H126x", socket.AF_INET)  # 0.0.0.0/0, all addresses
    ask_all = struct.pack("=128sBBHi80s", everybody, 1, 0, len(key), 0, key)
    listener.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, ask_all)


LOCKS: tuple[Lock, ...] = (lock_by_filter, lock_by_signature)
"""The locks available on Linux."""


def _program(known: Iterable[int]) -> bytes:
    """Return a filter (classic BPF) that drops connection requests from all but these IPv4 addresses."""
    load_byte, load_word, mask, equal, give = 0x30, 0x20, 0x54, 0x15, 0x06
    all_of_it, nothing = 0xFFFFFFFF, 0
    # offsets in the TCP header, and in the IP header
    flags, syn_and_ack, syn, source = 13, 0x12, 0x02, 0xFFF00000 + 12
    lines = [
        (load_byte, 0, 0, flags),
        (mask, 0, 0, syn_and_ack),
        (equal, 1, 0, syn),
        (give, 0, 0, all_of_it),
        (load_word, 0, 0, source),
    ]
    for address in known:
        lines += [(equal, 0, 1, address), (give, 0, 0, all_of_it)]
    lines.append((give, 0, 0, nothing))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
