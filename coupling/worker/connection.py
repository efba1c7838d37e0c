"""A worker's connection to the learner."""

import contextlib
import time
from pathlib import Path

import zmq

from coupling.wire.connection import read_connection
from coupling.wire.security import RefusedError, Watch, secure_client

__all__ = ["LearnerConnection"]

_READ_AGAIN = 3.0  # seconds for which a refused worker waits for a newer connection file
_STOOD_STILL = 0.1  # a wait that ends so many seconds late means that the process was stopped
_LOOK_AGAIN = 1000  # milliseconds, at most, for messages received meanwhile to pass through ZeroMQ


class LearnerConnection:
    """A connection to the learner that can be renewed, to the address then in the connection file.

    Parameters
    ----------
    context
        ZeroMQ context of the process.
    file
        The connection file.
    look_again
        Seconds for which a refused worker waits for a newer one.

    Attributes
    ----------
    connection
        Content of the file when last read.
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
        """Connect again; messages not sent yet are dropped."""
        # a restarted learner writes a new file
        with contextlib.suppress(OSError, ValueError):
            self.connection = read_connection(self._file)
        self._watch.close()
        self._socket.close()
        self._open()

    def send(self, frame: bytes) -> None:
        """Send without waiting; a message that cannot be sent is lost, as any message may be."""
        with contextlib.suppress(zmq.Again):
            self._socket.send(frame, zmq.NOBLOCK)

    def receive(self, seconds: float) -> bytes | None:
        """Wait for a frame; None if none arrived in time or while the process was stopped.

        Raises
        ------
        RefusedError
            If the learner refuses this worker, and the connection file does not change.
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
        """Wait briefly for the connection file of a learner that was restarted with other keys."""
        until = time.monotonic() + self._look_again
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                if read_connection(self._file) != self.connection:
                    return True
            time.sleep(0.1)
        return False

    def close(self) -> None:
        """Close the connection; a last message has one second to be sent."""
        self._watch.close()
        self._socket.close(1000)
