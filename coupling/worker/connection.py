"""A worker's connection to the learner."""

import contextlib
import time
from pathlib import Path

import zmq

from coupling.wire.connection import read_connection
from coupling.wire.security import RefusedError, Watch, secure_client

__all__ = ["Line"]

_READ_AGAIN = 3.0  # seconds for which a refused worker looks for a newer connection file
_STOOD_STILL = 0.1  # seconds by which a wait is too long after which the process was stopped
_LOOK_AGAIN = 1000  # milliseconds for what came meanwhile to pass through ZeroMQ, at most


class Line:
    """A connection to the learner, which can be made again: to where the connection file says it is by then.

    Parameters
    ----------
    context
        ZeroMQ context of the process.
    file
        The connection file.
    look_again
        Seconds for which a refused worker looks for a newer one.

    Attributes
    ----------
    connection
        What it said last.
    """

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", file: Path, look_again: float = _READ_AGAIN
    ) -> None:
        self._context, self._file, self._look_again = context, file, look_again
        self.connection = read_connection(file)
        self._open()

    def _open(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.set(zmq.RECONNECT_IVL, 100)
        self._socket.set(zmq.RECONNECT_IVL_MAX, 10_000)
        secure_client(self._socket, self.connection)
        self._watch = Watch(self._socket, self.connection)
        self._socket.connect(self.connection.endpoint)

    def renew(self) -> None:
        """Connect again; what was not sent yet is dropped."""
        # a learner that is being started again writes a new one
        with contextlib.suppress(OSError, ValueError):
            self.connection = read_connection(self._file)
        self._watch.close()
        self._socket.close()
        self._open()

    def send(self, frame: bytes) -> None:
        """Send without waiting; a message that cannot leave is lost, as any may be."""
        with contextlib.suppress(zmq.Again):
            self._socket.send(frame, zmq.NOBLOCK)

    def receive(self, seconds: float) -> bytes | None:
        """Wait for a frame; None when none came in time, or while the process was stopped.

        Raises
        ------
        RefusedError
            When the learner does not let this worker in, and the connection file stays as it was.
        """
        try:
            until = time.monotonic() + max(0.0, seconds)
            there = self._watch.poll(max(0, int(1000 * seconds)))
            if not there and time.monotonic() > until + _STOOD_STILL:
                there = self._watch.poll(_LOOK_AGAIN)
            return self._socket.recv() if there else None
        except RefusedError:
            if not self._changed():
                raise
            self.renew()
            return None

    def _changed(self) -> bool:
        """Wait a little for the connection file of a learner that was started again with other keys."""
        until = time.monotonic() + self._look_again
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                if read_connection(self._file) != self.connection:
                    return True
            time.sleep(0.1)
        return False

    def close(self) -> None:
        """Close it; a last word has a second to leave."""
        self._watch.close()
        self._socket.close(1000)
