"""Open connections to a port of this machine as an attacker would; the helper process of flood.py.

It uses only the standard library, so that it starts quickly. Kinds of connections, each held open until 256 later ones
are open:

    noise      sends 128 random bytes
    silence    sends nothing
    greeting   sends ZeroMQ's greeting, then random bytes
    frames     does a complete handshake (NULL), then sends a message of random bytes
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import time
from collections import deque

KINDS = ("noise", "silence", "greeting", "frames")
HELD = 256  # connections that the flooder has open at once
# ZMTP 3.0 (RFC 23)
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
AFTER = 32  # number of later connections after which a message is sent over one that has done its handshake
LONGEST, FASTEST = 60.0, 1000.0  # upper limits of seconds and of connections per second


def said(kind: str) -> bytes:
    """Return the bytes that a connection of this kind sends at once."""
    if kind == "frames":
        ready = b"\x05READY" + b"\x0bSocket-Type" + len(b"DEALER").to_bytes(4, "big") + b"DEALER"
        return GREETING + b"\x04" + bytes([len(ready)]) + ready
    return {
        "noise": secrets.token_bytes(128),
        "silence": b"",
        "greeting": GREETING + secrets.token_bytes(128),
    }[kind]


def say(peer: socket.socket, words: bytes) -> bool:
    """Send bytes and return whether they were sent; False if the connection is not established."""
    try:
        return peer.send(words) == len(words) > 0
    except OSError:  # not connected yet, or no longer
        return False


def flood(address: tuple[str, int], kind: str, rate: float, seconds: float) -> dict[str, int]:
    """Open connections at a rate without waiting for them to be established, and hold the latest ones.

    Returns
    -------
    dict
        ``asked``, the number of connections requested, and ``heard``, the number over which bytes could be sent.
    """
    held: deque[socket.socket] = deque()
    asked = heard = 0
    rate, seconds, began = min(rate, FASTEST), min(seconds, LONGEST), time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        if asked >= rate * now:
            time.sleep(0.0005)
            continue
        asked += 1
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(address)  # on loopback it is established at once, or refused
        held.append(peer)
        heard += say(peer, said(kind))
        if kind == "frames" and len(held) > AFTER:  # the peer must answer the handshake first
            say(held[-AFTER], b"\x00\x80" + secrets.token_bytes(128))
        if len(held) > HELD:
            held.popleft().close()
    for peer in held:
        peer.close()
    return {"asked": asked, "heard": heard}


def flooder() -> None:
    """Flood as specified by each line of standard input and print a line with the result; stop at end of input."""
    print("ready", flush=True)
    for line in sys.stdin:
        port, kind, rate, seconds = line.split()
        print(
            json.dumps(flood(("127.0.0.1", int(port)), kind, float(rate), float(seconds))),
            flush=True,
        )


def decoy() -> None:
    """Print a port, then accept connections to it and close them until standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.settimeout(0.1)
    print(listener.getsockname()[1], flush=True)
    os.set_blocking(0, False)
    while sys.stdin.buffer.read(1) is None:
        with contextlib.suppress(OSError):
            listener.accept()[0].close()


if __name__ == "__main__":
    decoy() if sys.argv[1] == "decoy" else flooder()
