"""The environment side: a process that hosts environments and asks the learner for their actions.

``python -m coupling.worker --connect FILE --slot N --environments K`` is started by a launcher. It says HELLO
with its spaces, resets its environments with the seeds of WELCOME, and then exchanges one STEP for one ACTION
over all of its environments. It ends, saying why on stderr, when an environment fails, when it is refused,
when it finds no learner for a bounded time, and at once when the process that started it dies.
"""

import argparse
import ctypes
import os
import random
import signal
import socket
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import zmq

from coupling.connection import Connection, read_connection, task_hash
from coupling.environments import final_observations, make_vector
from coupling.protocol import (
    Error,
    Goodbye,
    Header,
    Heartbeat,
    Hello,
    Kind,
    ProtocolError,
    Reject,
    Step,
    Welcome,
    decode,
    decode_actions,
    decode_control,
    encode,
    encode_control,
    encode_step,
)

__all__ = ["Worker", "WorkerStoppedError", "main"]

PARENT_VARIABLE = "FLOWSIM_PARENT"


def die_with_parent() -> None:
    """Arrange that this process is killed when the one that started it dies, however it dies.

    Linux does it (``PR_SET_PDEATHSIG``); elsewhere the heartbeat thread looks for the parent. A worker
    started by hand is on its own.
    """
    if PARENT_VARIABLE not in os.environ:
        return
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent_is_gone():  # it died before the line above
        os._exit(1)


def parent_is_gone() -> bool:
    """Tell whether the process named in the environment is no longer this one's parent."""
    return os.environ.get(PARENT_VARIABLE, str(os.getppid())) != str(os.getppid())


class WorkerStoppedError(Exception):
    """The learner ended this worker; ``code`` is the exit code."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class Heart(threading.Thread):
    """Signs of life from beside the environment step, over a socket of its own.

    Parameters
    ----------
    context
        ZeroMQ context of the process.
    endpoint
        Where the learner listens.
    welcome
        The session and the period.

    Attributes
    ----------
    answered
        Monotonic time of the learner's last answer.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str, welcome: Welcome) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.answered = time.monotonic()
        self.steps = 0
        self.step_began = 0.0
        self.delays: deque[float] = deque(maxlen=4096)  # seconds from STEP to ACTION
        self._context, self._endpoint, self._welcome = context, endpoint, welcome

    def run(self) -> None:
        """Send a HEARTBEAT each period and note the answers, until the process ends."""
        with self._context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.connect(self._endpoint)
            while True:
                if parent_is_gone():
                    os._exit(1)
                dealer.send(encode_control(self._sign_of_life(), session=self._welcome.session))
                if dealer.poll(int(1000 * self._welcome.heartbeat)):
                    dealer.recv()
                    self.answered = time.monotonic()
                    time.sleep(self._welcome.heartbeat)

    def _sign_of_life(self) -> Heartbeat:
        began, delays = self.step_began, np.array(self.delays.copy() or [0.0])
        middle, tail = np.percentile(delays, (50, 99)) * 1e6
        return Heartbeat(self.steps, time.monotonic() - began if began else 0.0, float(middle), float(tail))


class Worker:
    """Environments of one process, from HELLO to GOODBYE.

    Parameters
    ----------
    connection
        Where the learner is and which task it learns.
    slot
        Number of this worker.
    environments
        How many environments to host.
    """

    def __init__(self, connection: Connection, slot: int, environments: int) -> None:
        self._connection, self._slot, self._count = connection, slot, environments
        self._vector = make_vector(connection.env, connection.env_options, environments)
        space = self._vector.single_action_space
        self._low, self._high, self._action_dtype = space.low, space.high, space.dtype  # type: ignore[attr-defined]
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 1000  # an ERROR or GOODBYE still leaves; a gone learner holds nothing up
        self._socket.connect(connection.endpoint)
        self._sequence = self._session = 0

    def run(self) -> NoReturn:
        """Host the environments until the learner says GOODBYE.

        Raises
        ------
        WorkerStoppedError
            When the learner ends or refuses this worker, or is not there.
        """
        self._welcome = self._join()
        self._session = self._welcome.session
        self._heart = Heart(self._context, self._connection.endpoint, self._welcome)
        self._heart.start()
        seeds = self._welcome.seeds
        observations, _ = self._vector.reset(seed=seeds)  # type: ignore[arg-type]  # vector environments take lists
        body = np.ascontiguousarray(observations, "<f4").tobytes()
        kind = Kind.RESET
        while True:
            actions = self._ask(kind, body)
            kind, body = Kind.STEP, encode_step(self._step(actions))

    def fail(self, reason: str) -> None:
        """Tell the learner why this worker ends."""
        self._socket.send(encode_control(Error(reason), session=self._session))

    def close(self) -> None:
        """Close the environments and the socket; the context goes with the process."""
        self._vector.close()
        self._socket.close()

    def _step(self, actions: np.ndarray) -> Step:
        """Clip the actions to the task's bounds and step all environments."""
        self._heart.step_began = time.monotonic()
        clipped = np.clip(actions, self._low, self._high).astype(self._action_dtype)
        observations, rewards, terminated, truncated, infos = self._vector.step(clipped)
        self._heart.step_began = 0.0
        self._heart.steps += 1
        observations = np.asarray(observations, np.float32)
        ended = terminated | truncated
        final = final_observations(infos, ended) if ended.any() else observations[:0]
        step = Step(rewards, observations, terminated, truncated, self._diverged(infos) & ended, final)
        broken = ~(np.isfinite(rewards) & np.isfinite(observations).all(axis=1))
        if broken.any() or not np.isfinite(final).all():
            raise FloatingPointError(
                f"a reward or observation is not finite in environments {np.flatnonzero(broken | ended)}"
            )
        return step

    def _diverged(self, infos: dict[str, Any]) -> np.ndarray:
        """Return which episodes ended in a blown-up simulation, as the task's info says."""
        last = infos.get("final_info", infos)
        return np.broadcast_to(np.asarray(last.get("diverged", False), bool), self._count)

    def _ask(self, kind: Kind, body: bytes) -> np.ndarray:
        """Send RESET or STEP and wait for the ACTION that answers it."""
        self._sequence += 1
        sent = time.monotonic()
        header = Header(
            kind,
            session=self._session,
            sequence=self._sequence,
            environments=self._count,
            clock=time.monotonic_ns(),
        )
        self._socket.send(encode(header, body))
        answer, body = self._receive()
        if answer.kind != Kind.ACTION or answer.acknowledgement != self._sequence:
            raise WorkerStoppedError(f"the learner answered step {self._sequence} with {answer}", 1)
        actions = decode_actions(body, self._count, len(self._low))
        self._heart.delays.append(time.monotonic() - sent)
        return actions

    def _receive(self) -> tuple[Header, bytes]:
        """Wait for the learner as long as it shows signs of life."""
        while True:
            while not self._socket.poll(1000):
                silence = time.monotonic() - self._heart.answered
                if silence > self._welcome.patience:
                    raise WorkerStoppedError(
                        f"the learner at {self._connection.endpoint} was silent for {silence:.0f} s", 1
                    )
            header, body = self._read(self._socket.recv())
            if header.kind != Kind.WELCOME:  # a HELLO that was said twice is answered twice
                return header, body

    def _read(self, frame: bytes) -> tuple[Header, bytes]:
        header, body = decode(frame)
        if header.kind == Kind.REJECT:
            message = decode_control(header, body)
            assert isinstance(message, Reject)
            raise WorkerStoppedError(f"the learner refused worker {self._slot}: {message.reason}", 1)
        if header.kind == Kind.GOODBYE:
            message = decode_control(header, body)
            assert isinstance(message, Goodbye)
            raise WorkerStoppedError(message.reason, 0)
        return header, body

    def _join(self) -> Welcome:
        """Say HELLO until the learner answers, waiting a little longer each time."""
        hello = encode_control(
            Hello(
                slot=self._slot,
                pid=os.getpid(),
                host=socket.gethostname(),
                environments=self._count,
                observation_size=int(np.prod(self._vector.single_observation_space.shape or ())),
                action_size=len(self._low),
                task_hash=task_hash(self._connection.env, self._connection.env_options),
            )
        )
        began, wait = time.monotonic(), 0.1
        while True:
            waited = time.monotonic() - began
            if waited > self._connection.patience:
                where = self._connection.endpoint
                raise WorkerStoppedError(f"no learner answered at {where} for {waited:.0f} s", 1)
            self._socket.send(hello)
            if self._socket.poll(int(1000 * min(wait, self._connection.patience - waited) + 1)):
                header, body = self._read(self._socket.recv())
                message = decode_control(header, body)
                assert isinstance(message, Welcome)
                return message
            wait = min(10.0, 2 * wait) * random.uniform(0.8, 1.2)


def main() -> int:
    """Run a worker; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connect", type=Path, required=True, help="connection.json of the run")
    parser.add_argument("--slot", type=int, required=True, help="number of this worker")
    parser.add_argument("--environments", type=int, required=True, help="environments to host")
    arguments = parser.parse_args()
    die_with_parent()
    try:
        worker = Worker(read_connection(arguments.connect), arguments.slot, arguments.environments)
    except (OSError, ValueError) as error:
        print(f"worker {arguments.slot}: {error}", file=sys.stderr)
        return 1
    try:
        worker.run()
    except WorkerStoppedError as stopped:
        if stopped.code:
            print(f"worker {arguments.slot}: {stopped}", file=sys.stderr)
        return stopped.code
    except ProtocolError as error:
        print(f"worker {arguments.slot}: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        worker.fail(f"{type(error).__name__}: {error}")
        raise
    finally:
        worker.close()


if __name__ == "__main__":
    sys.exit(main())
