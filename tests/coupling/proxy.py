"""Two bad networks between workers and learner: one of bytes and connections, one of whole messages.

Both listen on a fixed port of this machine and find the learner by a function that is asked for each connection, so
that they outlive learners. What they did is counted in ``counts``.
"""

import contextlib
import heapq
import itertools
import random
import selectors
import socket
import struct
import threading
import time
from collections import Counter

import zmq

_IDLE = 30.0  # seconds after which a silent peer of the message proxy is forgotten


class TcpProxy:
    """Passes bytes on, late; cuts connections, and swallows what they carry for a while.

    Parameters
    ----------
    target
        Gives host and port of the learner, or None when there is none.
    delay
        Longest delay of a piece of data in seconds; each takes a random part of it.
    seed
        Of the delays and of who is cut.
    """

    def __init__(self, target, delay=0.0, seed=0):
        self._target, self._delay, self._random = target, delay, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.counts = Counter()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._deaf_until: dict[socket.socket, float] = {}
        self._due: list[tuple[float, int, socket.socket, bytes]] = []
        self._last_due: dict[socket.socket, float] = {}
        self._number = itertools.count()
        self._orders: list[tuple[str, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Reset one connection, chosen at random, on both sides."""
        self._orders.append(("cut", 0.0))

    def swallow(self, seconds: float) -> None:
        """Let one connection live on while nothing comes through; it is reset afterwards."""
        self._orders.append(("swallow", seconds))

    def close(self) -> None:
        """Cut everything and stop."""
        self._ended.set()
        self._thread.join(10)

    def _run(self):
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        while not self._ended.is_set():
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._pairs:
                    self._read(key.fileobj)
            self._deliver()
            while self._orders:
                self._obey(*self._orders.pop(0))
            for side, until in list(self._deaf_until.items()):
                if time.monotonic() > until:
                    self._reset(side)
        for side in list(self._pairs):
            self._reset(side)
        self._selector.close()
        self._listener.close()

    def _patience(self):
        return min(0.05, max(0.0, self._due[0][0] - time.monotonic())) if self._due else 0.05

    def _accept(self):
        outer, _ = self._listener.accept()
        target = self._target()
        try:
            inner = socket.create_connection(target, 1.0) if target else None
        except OSError:
            inner = None
        if inner is None:
            outer.close()
            return
        self.counts["connections"] += 1
        for one, other in ((outer, inner), (inner, outer)):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _read(self, side):
        try:
            data = side.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._reset(side)
            return
        if side in self._deaf_until or self._pairs[side] in self._deaf_until:
            self.counts["swallowed_bytes"] += len(data)
            return
        other = self._pairs[side]  # its bytes keep their order
        due = max(
            self._last_due.get(other, 0.0), time.monotonic() + self._delay * self._random.random()
        )
        self._last_due[other] = due
        heapq.heappush(self._due, (due, next(self._number), other, data))

    def _deliver(self):
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, side, data = heapq.heappop(self._due)
            if side in self._pairs:
                try:
                    side.setblocking(True)
                    side.settimeout(1.0)
                    side.sendall(data)
                    side.setblocking(False)
                except OSError:  # it does not read any more
                    self._reset(side)

    def _obey(self, what, seconds):
        if not self._pairs:
            return
        side = self._random.choice(list(self._pairs))
        if what == "cut":
            self.counts["cuts"] += 1
            self._reset(side)
        else:
            self.counts["black_holes"] += 1
            self._deaf_until[side] = time.monotonic() + seconds

    def _reset(self, side):
        """End both connections of a pair by RST, as a lost route does."""
        for one in (side, self._pairs.get(side)):
            if one is not None and self._pairs.pop(one, None) is not None:
                self._deaf_until.pop(one, None)
                self._last_due.pop(one, None)
                self._selector.unregister(one)
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.close()


class MessageProxy:
    """Passes whole ZeroMQ messages on: late, twice, out of order or not at all.

    Parameters
    ----------
    target
        Gives the endpoint of the learner, or None when there is none.
    drop, duplicate, hold
        Probabilities that a message is lost, comes twice, or is held back for up to ``delay`` seconds while later ones
        overtake it.
    delay
        Seconds.
    seed
        Of all draws.
    """

    def __init__(self, target, *, drop=0.0, duplicate=0.0, hold=0.0, delay=0.0, seed=0):
        self._target, self._random = target, random.Random(seed)
        self._drop, self._duplicate, self._hold, self._delay = drop, duplicate, hold, delay
        self._context = zmq.Context()
        self._outer = self._context.socket(zmq.ROUTER)
        self._outer.linger = 0
        self.port = self._outer.bind_to_random_port("tcp://127.0.0.1")
        self.counts = Counter()
        self._inner: dict[bytes, zmq.Socket] = {}
        self._used: dict[bytes, float] = {}
        self._to: dict[bytes, str] = {}
        self._held: list[tuple[float, int, bool, bytes, list[bytes]]] = []
        self._number = itertools.count()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what is held is lost."""
        self._ended.set()
        self._thread.join(10)

    def _run(self):
        self._poller = zmq.Poller()
        self._poller.register(self._outer, zmq.POLLIN)
        while not self._ended.is_set():
            ready = dict(self._poller.poll(10))
            if self._outer in ready:
                for _ in range(100):
                    try:
                        peer, *frames = self._outer.recv_multipart(zmq.NOBLOCK)
                    except zmq.Again:
                        break
                    self._pass_on(True, peer, frames)
            for peer, inner in list(self._inner.items()):
                if inner in ready:
                    self._pass_on(False, peer, inner.recv_multipart())
            while self._held and self._held[0][0] <= time.monotonic():
                _, _, inwards, peer, frames = heapq.heappop(self._held)
                self._deliver(inwards, peer, frames)
            self._forget_idle()
        self._context.destroy(linger=0)

    def _pass_on(self, inwards, peer, frames):
        self.counts["messages"] += 1
        self._used[peer] = time.monotonic()
        if self._random.random() < self._drop:
            self.counts["dropped"] += 1
            return
        copies = 1
        if self._random.random() < self._duplicate:
            self.counts["duplicated"] += 1
            copies = 2
        for _ in range(copies):
            if self._random.random() < self._hold:
                self.counts["held_back"] += 1
                due = time.monotonic() + self._delay * self._random.random()
                heapq.heappush(self._held, (due, next(self._number), inwards, peer, frames))
            else:
                self._deliver(inwards, peer, frames)

    def _deliver(self, inwards, peer, frames):
        with contextlib.suppress(zmq.Again):
            if not inwards:
                self._outer.send_multipart([peer, *frames], zmq.NOBLOCK)
            elif (inner := self._line_of(peer)) is not None:
                inner.send_multipart(frames, zmq.NOBLOCK)

    def _line_of(self, peer):
        """Return the connection to the learner that stands for a peer's, a new one when the learner has moved."""
        endpoint = self._target()
        if endpoint is None:
            return None
        if self._to.get(peer) != endpoint:
            self._hang_up(peer)
            inner = self._context.socket(zmq.DEALER)
            inner.linger = 0
            inner.connect(endpoint)
            self._inner[peer], self._to[peer] = inner, endpoint
            self._poller.register(inner, zmq.POLLIN)
            self.counts["connections"] += 1
        return self._inner[peer]

    def _hang_up(self, peer):
        self._to.pop(peer, None)
        if inner := self._inner.pop(peer, None):
            self._poller.unregister(inner)
            inner.close()

    def _forget_idle(self):
        for peer, used in list(self._used.items()):
            if time.monotonic() - used > _IDLE:
                del self._used[peer]
                self._hang_up(peer)
