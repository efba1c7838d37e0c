"""The environment side: a process that hosts environments and asks the learner for their actions.

``python -m coupling.worker --connect FILE --slot N --environments K`` is started by a launcher. It sends HELLO with its
spaces, resets its environments with the seeds of WELCOME, and then exchanges one STEP for one ACTION over all of its
environments. A STEP is kept, also in the outbox if there is one, and sent again until its ACTION arrives, over new
connections and to a restarted learner. The worker ends, with a reason on stderr, when it is refused, when its
environments cannot be created or reset, or when it hears nothing of a learner for a limited time; it ends at once when
the process that started it dies. The loop and the handling of answers are in one file, because they share the one STEP
in progress.
"""

import argparse
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
import numpy as np
import zmq
from gymnasium.vector import VectorEnv

from coupling.errors import printable
from coupling.signals import interrupting, number_of
from coupling.wire.connection import task_hash
from coupling.wire.protocol import (
    HEADER_SIZE,
    VERSION,
    Error,
    Goodbye,
    Header,
    Hello,
    Kind,
    Pause,
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
    step_size,
)
from coupling.wire.security import RefusedError
from coupling.worker.connection import LearnerConnection
from coupling.worker.environments import agents_per_env, final_observations, make_vector
from coupling.worker.guard import (
    FailureError,
    GuardedBatch,
    diverged_of,
    failures_of,
    reset_failures_of,
)
from coupling.worker.heartbeat import HeartbeatThread
from coupling.worker.outbox import Outbox
from coupling.worker.parent import die_with_parent
from coupling.worker.window import Window
from rl_agent.multi_agent.outcomes import agent_outcomes

__all__ = ["HOPELESS", "Made", "Worker", "WorkerStoppedError", "main"]

HOPELESS = "its environments cannot be reset"
"""Start of the final message of a worker for which a restart would hardly help."""

_ASK_AGAIN = 1.0  # seconds after which a worker repeats a HELLO that was answered by PAUSE
_PAUSE = 10.0  # seconds after which a worker asks again for the answer to a message that the learner has stored
_LONG_PAUSE = 60.0  # seconds of pauses after which a message is printed


class Made(NamedTuple):
    """Environments, and the arguments they were created with."""

    env: str
    env_options: dict[str, Any]
    environments: int
    vector: VectorEnv


class WorkerStoppedError(Exception):
    """The learner ended this worker; ``code`` is the exit code."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class Worker:
    """Worker process with its environments, from HELLO to GOODBYE.

    Parameters
    ----------
    file
        The connection file, with the learner's address and task.
    slot
        Number of this worker; None takes a free one.
    environments
        Number of environments to host.
    outbox
        Path of the outbox for the last message, so that the next process can send it if this one is killed; without it,
        the step in progress is lost if the process dies.
    made
        Existing environments, used if they are those of the task.

    Raises
    ------
    OSError, ValueError
        If the connection file, the task or the outbox cannot be used.
    """

    def __init__(
        self,
        file: Path,
        slot: int | None,
        environments: int,
        outbox: Path | None = None,
        made: Made | None = None,
    ) -> None:
        self._file, self._slot, self._count = file, slot, environments
        self._context = zmq.Context()
        self._line = LearnerConnection(self._context, file)
        task = self._line.connection
        if made is not None and (made.env, made.env_options, made.environments) == (
            task.env,
            task.env_options,
            environments,
        ):
            self._vector = made.vector
        else:
            self._vector = make_vector(task.env, task.env_options, self._count)
        space = self._vector.single_action_space
        self._low, self._high, self._action_dtype = space.low, space.high, space.dtype  # type: ignore[attr-defined]
        self._size = int((self._vector.single_observation_space.shape or ())[-1])
        together = agents_per_env(self._vector)
        # number of agents of a multi-agent environment, which uses version 1.1
        self._agents = together if together > 1 else None
        room = HEADER_SIZE + step_size(environments, self._size, self._agents)
        self._outbox = Outbox(outbox, room) if outbox else None
        self._window: Window | None = None
        self._sequence = self._session = 0

    def run(self) -> NoReturn:
        """Host the environments until the learner says GOODBYE.

        Raises
        ------
        WorkerStoppedError
            If the learner ends or refuses this worker, or cannot be reached.
        """
        welcome = self._join()
        self.take_up(welcome)
        self._heartbeat.start()
        if self._slot == 0:
            self._window = Window(self._file.parent)
        observations = self._reset(welcome.seeds)
        kind, body = Kind.RESET, np.ascontiguousarray(observations, "<f4").tobytes()
        while True:
            actions = self._ask(kind, body)
            kind, body = Kind.STEP, encode_step(self._step(actions))

    def take_up(self, welcome: Welcome) -> None:
        """Begin the session of a WELCOME, without sending a message."""
        self._session = welcome.session
        self._later_seeds = np.random.default_rng(welcome.seeds)
        self._heartbeat = HeartbeatThread(self._context, self._file, welcome)

    def _reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all environments.

        Raises
        ------
        WorkerStoppedError
            If they cannot be reset.
        """
        try:
            observations, infos = self._vector.reset(seed=list(seeds))  # type: ignore[arg-type]  # vectors take lists
        except FailureError as error:
            raise self._hopeless(error) from error
        for reason in filter(None, reset_failures_of(infos, self._count)):
            self._note_failure(reason)
        return np.asarray(observations, np.float32)

    def _hopeless(self, error: FailureError) -> WorkerStoppedError:
        """Tell the learner that the environments cannot be reset, and return the exception that ends this worker."""
        reason = f"{HOPELESS}: {error}"
        self.last_word(Error(reason))
        return WorkerStoppedError(reason, 1)

    def last_word(self, message: Error | Goodbye) -> None:
        """Tell the learner that this worker ends, and why."""
        if self._session:
            self._line.send(encode_control(message, session=self._session))

    def close(self) -> None:
        """Close the environments and the connection; the context is closed with the process."""
        self._vector.close()
        self._line.close()

    # --- environments -------------------------------------------------------------------------------------

    def _step(self, actions: np.ndarray) -> Step:
        """Clip the actions to the task's bounds and step all environments; an environment that fails is restarted."""
        self._heartbeat.step_began = time.monotonic()
        clipped = np.clip(actions, self._low, self._high).astype(self._action_dtype)
        try:
            observations, rewards, terminated, truncated, infos = self._vector.step(clipped)
        except FailureError as error:  # repeated failure of the reset after an episode
            raise self._hopeless(error) from error
        finally:
            self._heartbeat.step_began = 0.0
        self._heartbeat.steps += 1
        if self._window:
            self._window.show(self._vector)
        reasons = failures_of(infos, self._count)
        for reason in filter(None, dict.fromkeys(reasons + reset_failures_of(infos, self._count))):
            self._note_failure(reason)
        failed = np.array([bool(reason) for reason in reasons])
        gone = None
        if self._agents:
            rewards, gone = agent_outcomes(infos, terminated | truncated, self._agents)
            gone &= ~failed[:, None]
        terminated, truncated = terminated & ~failed, truncated & ~failed
        ended = terminated | truncated
        final = final_observations(infos, ended) if ended.any() else observations[:0]
        step = Step(
            np.where(failed if gone is None else failed[:, None], 0.0, rewards),
            observations,
            terminated,
            truncated,
            diverged_of(infos, self._count) & ended,
            failed,
            final,
            gone,
        )
        is_batch = isinstance(self._vector, GuardedBatch)
        return self._restart_all(step) if is_batch and failed.any() else step

    def _restart_all(self, step: Step) -> Step:
        """Reset a batch of which a part failed, since no part can be reset alone; the other episodes are truncated."""
        resulting = np.array(step.observations)
        resulting[step.ended] = step.final
        seeds = [int(seed) for seed in self._later_seeds.integers(2**31, size=self._count)]
        observations, kept = self._reset(seeds), ~step.failed
        return Step(
            step.rewards,
            observations,
            step.terminated,
            kept & ~step.terminated,
            step.diverged,
            step.failed,
            resulting[kept],
            step.agent_ended,
        )

    def _note_failure(self, reason: str) -> None:
        print(
            f"worker {self._slot}: an environment failed and is restarted: {reason}",
            file=sys.stderr,
            flush=True,
        )
        self._heartbeat.failures += 1
        self._heartbeat.failure = reason
        # the reason has to arrive with the STEP that reports the failure
        self._line.send(self._heartbeat.sign_of_life())

    # --- messages -----------------------------------------------------------------------------------------

    def _ask(self, kind: Kind, body: bytes) -> np.ndarray:
        """Send RESET or STEP, repeatedly if necessary, and wait for the ACTION that answers it."""
        self._sequence += 1
        sent = time.monotonic()
        header = Header(
            kind,
            session=self._session,
            sequence=self._sequence,
            environments=self._count,
            clock=time.monotonic_ns(),
            minor=0 if self._agents is None else 1,
        )
        frame = encode(header, body)
        if self._outbox:
            self._outbox.write(frame)
        self._line.send(frame)
        wait, in_vain, answered, said = 1.0, 0, sent, False
        while True:
            answer = self._line.receive(wait)
            if answer is None:
                # nothing could be received while a step held the interpreter
                self._check_patience(min(self._heartbeat.silence, time.monotonic() - sent))
                silence = time.monotonic() - answered
                self._check_patience(
                    silence,
                    f"answers signs of life, but did not answer {kind.name} {self._sequence}",
                )
                in_vain += 1
                # this connection is dead, or leads to a previous learner; the heartbeat's may be newer
                if in_vain > 1:
                    self._line.renew()
                self._heartbeat.resends += 1
                self._line.send(frame)
                wait = min(10.0, 2 * wait) * random.uniform(0.8, 1.0)
                continue
            in_vain = 0
            header, body = self._read(answer)
            if header.kind is Kind.ACTION and header.acknowledgement == self._sequence:
                self._heartbeat.delays.append(time.monotonic() - sent)
                return decode_actions(body, self._count, *self._low.shape)
            if header.kind is Kind.PAUSE and header.acknowledgement == self._sequence:
                wait, answered = _PAUSE, time.monotonic()
                if answered - sent > _LONG_PAUSE and not said:
                    said = True
                    reason = decode_control(header, body).reason  # type: ignore[attr-defined]
                    self._say(
                        f"waits for the answer to {kind.name} {self._sequence}; the learner says: {reason}"
                    )

    def _read(self, frame: bytes) -> tuple[Header, bytes]:
        """Decode a frame; raise an exception if it ends this worker."""
        header, body = decode(frame)
        if header.kind in (Kind.ACTION, Kind.WELCOME):
            return header, body
        message = decode_control(header, body)
        if isinstance(message, Error) and 0 < header.sequence < self._sequence:
            return header, body  # it concerns a late copy of a message that was answered
        # frees this worker's slot at once, and tells the run the reason
        if isinstance(message, Error):
            self.last_word(Error(f"the learner refused its message: {message.reason}"))
        if isinstance(message, Reject | Error):
            raise WorkerStoppedError(
                f"the learner refused worker {self._slot}: {message.reason}{self._too_old(header)}",
                1,
            )
        if isinstance(message, Goodbye):  # so that the learner does not have to wait
            self.last_word(Goodbye("the learner said GOODBYE"))
            raise WorkerStoppedError(message.reason, 0)
        return header, body

    def _too_old(self, header: Header) -> str:
        """Return an addition to the reason of a learner of version 1.0 that refuses a multi-agent environment."""
        if self._agents is None or self._session or header.minor:
            return ""
        return (
            "; it speaks version 1.0 of the protocol, whose environments have one agent, and those of this worker have "
            f"{self._agents}: install the same flowsim on both sides"
        )

    def _check_patience(self, silence: float, what: str = "") -> None:
        """End the worker after too long a wait; ``what`` is what the learner did meanwhile, if it was reachable."""
        connection = self._line.connection
        if silence > connection.patience:
            who = (
                f"the learner at {connection.endpoint} {what}"
                if what
                else f"no learner answered at {connection.endpoint}"
            )
            raise WorkerStoppedError(
                f"{who}, for {silence:.0f} s" if what else f"{who} for {silence:.0f} s", 1
            )

    def _join(self) -> Welcome:
        """Send HELLO until the learner answers, waiting a little longer each time."""
        connection = self._line.connection
        low, high = (x if self._agents is None else x[0] for x in (self._low, self._high))
        hello = encode_control(
            Hello(
                versions=(VERSION[0], VERSION[0]),
                incarnation=secrets.randbits(63) | 1,
                slot=self._slot,
                pid=os.getpid(),
                host=socket.gethostname(),
                environments=self._count,
                observation_size=self._size,
                action_low=[float(bound) for bound in low],
                action_high=[float(bound) for bound in high],
                task_hash=task_hash(connection.env, connection.env_options),
                recovered=self._outbox.recovered if self._outbox else b"",
                agents_per_env=self._agents or msgspec.UNSET,
            )
        )
        began, wait, paused = time.monotonic(), 0.1, ""
        while True:
            self._line.send(hello)
            until = time.monotonic() + min(wait, connection.patience)
            while (answer := self._line.receive(until - time.monotonic())) is not None:
                message = decode_control(*self._read(answer))
                if isinstance(message, Welcome):
                    self._slot = message.slot
                    return message
                if isinstance(message, Pause):
                    if not paused:
                        self._say(f"waits for its place: {message.reason}")
                    paused, wait, until = message.reason, _ASK_AGAIN, time.monotonic() + _ASK_AGAIN
            self._check_patience(
                time.monotonic() - began,
                f"had no place for worker {self._slot}: {paused}" if paused else "",
            )
            if paused:
                continue
            wait = min(10.0, 2 * wait) * random.uniform(0.8, 1.0)
            if wait > 1.0:
                self._line.renew()

    def _say(self, what: str) -> None:
        print(
            f"worker {'?' if self._slot is None else self._slot}: {printable(what)}",
            file=sys.stderr,
            flush=True,
        )


def main(words: Sequence[str] | None = None, made: Made | None = None) -> int:
    """Run a worker and return its exit code.

    Parameters
    ----------
    words
        Words of the command line; by default those of ``sys.argv``.
    made
        Existing environments.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connect", type=Path, required=True, help="connection.json of the run")
    parser.add_argument("--slot", type=int, help="number of this worker (default: any free one)")
    parser.add_argument(
        "--environments", type=int, required=True, help="number of environments to host"
    )
    parser.add_argument(
        "--outbox",
        type=Path,
        help="file that keeps the last message for the next process of this worker",
    )
    arguments = parser.parse_args(words)
    die_with_parent()
    name = f"worker {'?' if arguments.slot is None else arguments.slot}"
    # an environment may change the current folder
    connect = arguments.connect.absolute()
    outbox = arguments.outbox.absolute() if arguments.outbox else None
    try:
        worker = Worker(connect, arguments.slot, arguments.environments, outbox, made)
    except (OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    with interrupting():
        return _host(worker, name)


def _host(worker: Worker, name: str) -> int:
    """Run a worker to its end; return the exit code."""
    try:
        worker.run()
    except WorkerStoppedError as stopped:
        if stopped.code:
            print(f"{name}: {printable(stopped)}", file=sys.stderr)
        return stopped.code
    except (ProtocolError, RefusedError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interruption:
        number = number_of(interruption)
        worker.last_word(Goodbye("the worker was stopped"))
        how = signal.Signals(number).name
        print(f"{name}: ended by {how}; run the same command to restart it", file=sys.stderr)
        return 128 + number
    except BaseException as error:
        worker.last_word(Error(f"{type(error).__name__}: {error}"))
        raise
    finally:
        worker.close()
