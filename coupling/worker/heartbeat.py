"""Heartbeats of a worker."""

import os
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np
import zmq

from coupling.wire.protocol import Heartbeat, Welcome, encode_control
from coupling.wire.security import RefusedError
from coupling.worker.connection import LearnerConnection
from coupling.worker.parent import parent_is_gone

__all__ = ["HeartbeatThread"]


class HeartbeatThread(threading.Thread):
    """Thread that sends heartbeats during environment steps, over its own connection.

    Parameters
    ----------
    context, file
        As in :class:`LearnerConnection`.
    welcome
        The WELCOME, with the session and the period.

    Attributes
    ----------
    answered
        Monotonic time of the learner's last answer.
    steps, step_began, resends, failures, failure
        Content of the heartbeats.
    delays
        Latest delays from STEP to ACTION in seconds.
    """

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", file: Path, welcome: Welcome
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.answered = time.monotonic()
        self.steps = self.resends = self.failures = 0
        self.failure = ""
        self.step_began = 0.0
        self.delays: deque[float] = deque(maxlen=4096)
        self._context, self._file, self._welcome = context, file, welcome

    def run(self) -> None:
        """Send a HEARTBEAT every period and record the answers, until the process ends."""
        line, period, missed = (
            LearnerConnection(self._context, self._file),
            self._welcome.heartbeat,
            0,
        )
        while True:
            if parent_is_gone():
                os._exit(1)
            line.send(self.sign_of_life())
            if not self._hears(line, period):
                missed += 1
                if missed % 3 == 0:
                    line.renew()
                continue
            missed, self.answered = 0, time.monotonic()
            time.sleep(period)

    def _hears(self, line: LearnerConnection, seconds: float) -> bool:
        """Wait for an answer, and read all pending ones: a learner that was busy answers all at once."""
        try:
            heard = line.receive(seconds) is not None
            while heard and line.receive(0) is not None:
                pass
        except RefusedError:  # the worker detects and reports it over its own connection
            return False
        return heard

    @property
    def silence(self) -> float:
        """Seconds since the learner's last answer."""
        return time.monotonic() - self.answered

    def sign_of_life(self) -> bytes:
        """Return the frame of a HEARTBEAT with the current state."""
        began, delays = self.step_began, np.array(self.delays.copy() or [0.0])
        middle, tail = np.percentile(delays, (50, 99)) * 1e6
        seconds = time.monotonic() - began if began else 0.0
        delays_us = float(middle), float(tail)
        beat = Heartbeat(
            self.steps, seconds, *delays_us, self.resends, self.failures, self.failure[:1000]
        )
        return encode_control(beat, session=self._welcome.session)
