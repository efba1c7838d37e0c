"""The learner's listening socket, which the kernel shuts while connections pour in.

libzmq accepts whoever connects, and no option of it bounds how many. But it takes a listening socket that was made
elsewhere, and Linux lets its owner attach a filter to that (``SO_ATTACH_FILTER``), which drops requests for a
connection before anything in this process is woken. Connections that stand are not touched: the filter sees nothing of
them but that their packets are no such requests.
"""

import contextlib
import ctypes
import ipaddress
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable

__all__ = ["Door"]

_BACKLOG = 128  # connections that wait to be accepted
_STRANGERS = 64  # connections a second that are let in beside those of the workers,
_OF_A_GUEST = 4  # each of which may make two, and make them again
_SPARE = 128  # descriptors that are left for files, pipes and the like
_MOST_KNOWN = 1000  # addresses: a filter has at most 4,096 instructions
_OPEN, _KNOWN_ONLY, _SHUT = range(3)
_ATTACH_FILTER, _DETACH_FILTER = 26, 27  # of Linux; Python does not name them


class Door:
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
        self, host: str, port: int, guests: int, clock: Callable[[], float] = time.monotonic
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
            self._filter()

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

    def _filter(self) -> None:
        """Have the kernel do what the state says."""
        if self._state == _OPEN:
            self._listener.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            return
        program = _program(self._known if self._state == _KNOWN_ONLY else ())
        code = ctypes.create_string_buffer(program)
        with contextlib.suppress(OSError):  # no room for it in the kernel: the door stays as it is
            self._listener.setsockopt(
                socket.SOL_SOCKET,
                _ATTACH_FILTER,
                struct.pack("@HP", len(program) // 8, ctypes.addressof(code)),
            )


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
