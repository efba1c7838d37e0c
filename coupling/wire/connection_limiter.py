"""The learner's listening socket, which the kernel shuts while connections pour in.

libzmq accepts whoever connects, and no option of it bounds how many. But it takes a listening socket that was made
elsewhere, and Linux lets its owner have requests for a connection dropped before anything in this process is woken.
Connections that stand are not touched. There are two ways, and the first that the kernel permits is taken:

- a filter (``SO_ATTACH_FILTER``), which can let in the addresses of workers. Some kernels refuse it without root.
- a signature that nobody has (``TCP_MD5SIG``, RFC 2385): the kernel drops every request that is not signed with a
  random key. It needs no rights, but it knows no exceptions.
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

_BACKLOG = 128  # connections that wait to be accepted
_STRANGERS = 64  # connections a second that are let in beside those of the workers,
_OF_A_GUEST = 4  # each of which may make two, and make them again
_SPARE = 128  # descriptors that are left for files, pipes and the like
_MOST_KNOWN = 1000  # addresses: a filter has at most 4,096 instructions
_OPEN, _KNOWN_ONLY, _SHUT = range(3)
# of Linux; Python does not name them
_ATTACH_FILTER, _DETACH_FILTER, _TCP_MD5SIG_EXT = 26, 27, 32

Lock = Callable[[socket.socket, Iterable[int] | None], None]
"""Has the kernel drop requests for a connection from all but these IPv4 addresses, or none of them if given None."""


class ConnectionLimiter:
    """A listening TCP socket that lets in a bounded number of connections a second.

    When more than the budget have come within a second, only those from addresses known to be of workers are let in for
    the rest of it, and when these are more than the budget, too, nobody; likewise nobody while this process is short of
    descriptors. Who is kept out is not answered; TCP tries again after a second, then after two, and so on.

    Parameters
    ----------
    host, port
        Where to listen, IPv4; port 0 takes a free one.
    guests
        Number of workers.
    clock
        Seconds that rise.
    locks
        Ways to shut it; the first one that the kernel permits is taken.

    Attributes
    ----------
    port
        Where it listens.
    budget
        Connections a second that are let in.
    floods
        In how many seconds there were more.

    Raises
    ------
    OSError
        When it cannot listen there.
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
        """Tell whether there can be one: on Linux, at an IPv4 address."""
        with contextlib.suppress(ValueError):
            return sys.platform == "linux" and ipaddress.ip_address(host).version == 4
        return False

    def descriptor(self) -> int:
        """Return a descriptor of the listening socket that belongs to the caller."""
        return os.dup(self._listener.fileno())

    def know(self, address: str) -> None:
        """Note an address that a worker with the key came from."""
        with contextlib.suppress(ValueError):
            self._known.setdefault(int(ipaddress.IPv4Address(address)))
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def tend(self, accepted: int) -> None:
        """Shut or open the door.

        Parameters
        ----------
        accepted
            Connections since the last call.
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
        """Whether the kernel permits one of the ways to shut it, as far as was tried."""
        return bool(self._locks)

    def close(self) -> None:
        """Stop listening, once libzmq has closed its descriptor."""
        self._listener.close()

    def _is_short_of_descriptors(self) -> bool:
        """Tell by the lowest one that is free."""
        try:
            lowest = os.dup(self._listener.fileno())
        except OSError:
            return True
        os.close(lowest)
        return lowest >= self._room

    def _turn_lock(self) -> None:
        """Have the kernel do what the state says, by the first lock that it permits."""
        known = {_OPEN: None, _KNOWN_ONLY: self._known, _SHUT: ()}[self._state]
        while self._locks:
            try:
                self._locks[0](self._listener, known)
                return
            except OSError:  # not permitted, not there, or no room for it in the kernel
                lock = self._locks.pop(0)
                with contextlib.suppress(
                    OSError
                ):  # a filter that was there before does not stay forever
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
    """Ask every peer for a signature that nobody can make, or for none any more, see :data:`Lock`.

    A signature cannot be asked of all but some addresses, so those that are known are kept out, too.
    """
    key = b"" if known is None else secrets.token_bytes(80)
    everybody = struct.pack("=H126x", socket.AF_INET)  # 0.0.0.0, of which 0 bits have to agree
    ask_all = struct.pack("=128sBBHi80s", everybody, 1, 0, len(key), 0, key)
    listener.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, ask_all)


LOCKS: tuple[Lock, ...] = (lock_by_filter, lock_by_signature)
"""Those that Linux has."""


def _program(known: Iterable[int]) -> bytes:
    """Return a filter (classic BPF) that drops requests for a connection from all but these IPv4 addresses."""
    load_byte, load_word, mask, equal, give = 0x30, 0x20, 0x54, 0x15, 0x06
    all_of_it, nothing = 0xFFFFFFFF, 0
    # in the TCP header, and in the IP header
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
