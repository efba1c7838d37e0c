"""The address that the learner binds and its workers connect to."""

import ipaddress
import os
import socket
import tempfile

from coupling.errors import ConfigError
from coupling.wire import security

__all__ = ["BIND_HINT", "endpoint_to_bind", "is_loopback"]

BIND_HINT = "workers.bind=$(hostname -I | cut -d' ' -f1)"
"""Setting of a network address; the host's name may be that of 127.0.1.1, as in Debian's /etc/hosts."""


def is_loopback(bind: str) -> bool:
    """Return whether ``host`` or ``host:port`` can be reached from this machine only."""
    return security.is_loopback(f"tcp://{bind.partition(':')[0]}:*")


def endpoint_to_bind(transport: str, bind: str) -> str:
    """Return the ZeroMQ endpoint that a learner binds and its workers connect to.

    Parameters
    ----------
    transport
        ``tcp``, or ``ipc`` for workers on this machine.
    bind
        For tcp: an IPv4 address or name of this machine, or either with ``:port``; by default any free port is used.

    Returns
    -------
    str
        The endpoint, such as ``tcp://192.168.0.7:*``.

    Raises
    ------
    ConfigError
        If this machine does not have the address, or the port is in use.
    """
    # libzmq creates a folder with mode 0700, by default in the current folder
    if transport == "ipc":
        os.environ.setdefault("TMPDIR", tempfile.gettempdir())
        return "ipc://*"
    if bind.count(":") > 1:
        raise ConfigError(
            f"workers.bind = {bind!r} is an IPv6 address, which is not supported: give an IPv4 address or a name of "
            "this machine, such as 127.0.0.1"
        )
    host, colon, port = bind.partition(":")
    if colon and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"workers.bind = {bind!r}: the port must be a number from 1 to 65535")
    try:
        address = socket.gethostbyname(host)
        if ipaddress.ip_address(address).is_unspecified:
            raise ConfigError(
                f"workers.bind = {bind!r} is every address of this machine, so workers would not know which to connect "
                f"to; give one that they can reach, such as {BIND_HINT}"
            )
        if is_loopback(address) and not is_loopback(bind):
            raise ConfigError(
                f"workers.bind = {bind!r} is {address} here, which can be reached from this machine only; give its "
                f"network address, such as {BIND_HINT}"
            )
        socket.create_server((address, int(port or 0))).close()
    except (
        OSError,
        UnicodeError,
    ) as error:  # a name with an empty or too long part cannot be encoded
        why = error.strerror if isinstance(error, OSError) else "it is not a valid name"
        raise ConfigError(
            f"workers.bind = {bind!r} is not an address that this machine can listen on: {why}"
        ) from error
    return f"tcp://{address}:{port or '*'}"
