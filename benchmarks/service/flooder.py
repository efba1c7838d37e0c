"""Opens connections to a port of this machine as an attacker would; the other half of flood.py.

Nothing but the standard library is used, so that a process of it begins at once. Kinds of connections, each held open
until there are 256 later ones:

    noise      128 random bytes
    silence    nothing is said
    greeting   ZeroMQ's greeting, then random bytes
    frames     a whole handshake (NULL), then a message of random bytes
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
AFTER = 32  # later connections, a message is sent over one that shook hands
LONGEST, FASTEST = 60.0, 1000.0  # seconds and connections a second, whatever is asked for


def said(kind: str) -> bytes:
    """Return what a connection of this kind says at once."""
    if kind == "frames":
        ready = b"\x05READY" + b"\x0bSocket-Type" + len(b"DEALER").to_bytes(4, "big") + b"DEALER"
        return GREETING + b"\x04" + bytes([len(ready)]) + ready
    return {
        "noise": secrets.token_bytes(128),
        "silence": b"",
        "greeting": GREETING + secrets.token_bytes(128),
    }[kind]


def say(peer: socket.socket, words: bytes) -> bool:
    """Say it, unless the connection does not stand."""
    try:
        return peer.send(words) == len(words) > 0
    except OSError:  # not yet, or no longer
        return False


def flood(address: tuple[str, int], kind: str, rate: float, seconds: float) -> dict[str, int]:
    """Ask for connections at this rate without waiting for any, and hold the latest.

    Returns
    -------
    dict
        How many were asked for, and over how many of them something could be said.
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
        peer.connect_ex(address)  # at loopback it stands at once, or is kept out
        held.append(peer)
        heard += say(peer, said(kind))
        if kind == "frames" and len(held) > AFTER:  # the handshake has two sides
            say(held[-AFTER], b"\x00\x80" + secrets.token_bytes(128))
        if len(held) > HELD:
            held.popleft().close()
    for peer in held:
        peer.close()
    return {"asked": asked, "heard": heard}


def flooder() -> None:
    """Flood as each line of the standard input says, and answer with a line; end with it."""
    print("ready", flush=True)
    for line in sys.stdin:
        port, kind, rate, seconds = line.split()
        print(
            json.dumps(flood(("127.0.0.1", int(port)), kind, float(rate), float(seconds))),
            flush=True,
        )


def decoy() -> None:
    """Accept connections and close them, until the standard input ends; says its port first."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.settimeout(0.1)
    print(listener.getsockname()[1], flush=True)
    os.set_blocking(0, False)
    while sys.stdin.buffer.read(1) is None:
        with contextlib.suppress(OSError):
            listener.accept()[0].close()


if __name__ == "__main__":
    decoy() if sys.argv[1] == "decoy" else flooder()
