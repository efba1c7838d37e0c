"""Processes that play the episodes of an evaluation: this one and, for slow flows, further ones on other cores.

Episodes are played in parts. The result of a part does not depend on the process that plays it, so results are bitwise
equal for any number of cores.
"""

import contextlib
import copy
import math
import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import connection as pipes
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv

from cases.baselines import Controller
from coupling.errors import RunError, describe_failure
from coupling.evaluation.result import Evaluation, second_half
from coupling.launch.launcher import worker_environment
from coupling.signals import ENDING
from coupling.worker.env_registry import is_flow, load_task, registered
from coupling.worker.environments import make_vector, time_limit
from coupling.worker.guard import FailureError, failures_of, reset_failures_of
from coupling.worker.parent import die_with_parent
from rl_agent.rollout.seeds import Purpose, episode_seed

__all__ = ["Draws", "EvaluationPool", "refuse_unfit"]

AT_ONCE = 24
"""Episodes per part."""
AT_ONCE_OF_FLOWS = 6
"""Episodes per part for flows on CPUs; 24 episodes are then enough parts for four cores."""
MOST_ACTIONS = 10_000
"""Maximum length of an episode whose task has no time limit, so that every evaluation ends."""
PATIENCE = 1.5
"""Seconds after which further processes are started; starting them is not worthwhile for shorter evaluations."""


@runtime_checkable
class Draws(Protocol):
    """A controller that samples its actions."""

    def reseed(self, part: int) -> None:
        """Switch to the random stream of a part, independently of previous samples."""


@runtime_checkable
class Fits(Protocol):
    """A controller that fits only some tasks."""

    def refuse_other_spaces(self, env: str, observations: Box, actions: Box) -> None:
        """Raise a ConfigError for a task with different observations or actions."""


def refuse_unfit(controller: Controller, env: str, vector: VectorEnv) -> None:
    """Raise the controller's ConfigError if it does not fit a task."""
    seen, taken = vector.single_observation_space, vector.single_action_space
    if isinstance(controller, Fits) and isinstance(seen, Box) and isinstance(taken, Box):
        controller.refuse_other_spaces(env, seen, taken)


class _Part(NamedTuple):
    """Episodes that are played in parallel: number of the part, seeds of the episodes, and maximum length."""

    number: int
    seeds: list[int]
    max_actions: int | None


Progress = Callable[[int, int], None]
"""Called after every action with the number of a part's finished episodes and the number of actions of the others."""


def _say_nothing(over: int, actions: int) -> None:
    """Report no progress."""


class EvaluationPool:
    """Plays the episodes of a task. Used as a context manager, which ends the processes that it has started.

    Parameters
    ----------
    env, env_options
        The task.
    processes
        Maximum number of processes, including this one; by default one per core for flows on CPUs, otherwise only this
        one. Controllers that other processes cannot copy, and tasks that a script or a notebook defines, are played in
        this one only.
    max_actions
        Number of actions after which an episode is cut; by default the task's own time limit, or :data:`MOST_ACTIONS`
        if it has none.
    patience
        Seconds after which further processes are started.
    purpose
        Purpose of the episodes, which determines their seeds.
    """

    def __init__(
        self,
        env: str,
        env_options: dict[str, Any],
        *,
        processes: int | None = None,
        max_actions: int | None = None,
        patience: float = PATIENCE,
        purpose: Purpose = Purpose.EVALUATION,
    ) -> None:
        flows = is_flow(env) and env_options.get("backend", "cpu") == "cpu"
        self._env, self._env_options, self._patience = env, env_options, patience
        self._max_actions, self._purpose = max_actions, purpose
        self._spec = registered(env) if flows else None
        cores = len(os.sched_getaffinity(0)) if flows and _can_be_sent(self._spec) else 1
        self._processes = processes or cores
        self._size = AT_ONCE_OF_FLOWS if flows else AT_ONCE
        self._others: list[_Other] = []

    def __enter__(self) -> "EvaluationPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for other in self._others:
            other.end()
        self._others = []

    def play(
        self, controller: Controller, episodes: int, seed: int, progress: Progress = _say_nothing
    ) -> Evaluation:
        """Play episodes.

        Parameters
        ----------
        controller
            The controller; every part starts with a copy of it.
        episodes
            Number of episodes.
        seed
            Seed of the evaluation. The seed of episode k is ``episode_seed(purpose, seed, k, states=...)`` with the
            number of the task's held-out states.
        progress
            Called with the number of finished episodes and the number of actions of the longest open one.

        Returns
        -------
        Evaluation
            Results in the order of the seeds.

        Raises
        ------
        RunError
            If no episode can be started, all of them fail, or another process fails or dies.
        """
        size = min(self._size, episodes)
        todo, done = deque[_Part](), dict[int, Evaluation]()
        so_far: dict[int, tuple[int, int]] = {}
        alone_until = self._alone_until(controller)

        def tell(number: int, over: int, actions: int) -> None:
            so_far[number] = over, actions
            under_way = [a for n, (_, a) in so_far.items() if n not in done]
            progress(sum(o for o, _ in so_far.values()), max(under_way, default=actions))

        def share(wait: bool = False) -> None:
            """Distribute the remaining parts to the other processes, and receive their messages."""
            if time.monotonic() < alone_until:
                return
            if todo and not self._others:
                self._start(size, len(todo))
            for other in self._others:
                if todo and other.part is None:
                    other.begin(controller, todo.pop())
            busy = [other for other in self._others if other.part is not None]
            if wait:
                pipes.wait([other.connection for other in busy])
            for other in busy:
                while other.part is not None and other.connection.poll():
                    number = other.part.number
                    over, actions, played = other.hear()
                    tell(number, over, actions)
                    if played is not None:
                        done[number] = played

        # created for each controller, since an environment may have internal state
        with contextlib.closing(make_vector(self._env, self._env_options, size)) as vector:
            refuse_unfit(controller, self._env, vector)
            starts = held_out_seeds(vector, self._purpose, seed, episodes)
            todo += [
                _Part(number, starts[first : first + size], self._max_actions)
                for number, first in enumerate(range(0, episodes, size))
            ]
            parts = len(todo)
            while todo:
                part = todo.popleft()

                def heard(over: int, actions: int, number: int = part.number) -> None:
                    tell(number, over, actions)
                    share()

                try:
                    done[part.number] = _play(vector, copy.deepcopy(controller), part, heard)
                except FailureError as error:
                    raise RunError(f"env = {self._env!r} cannot be evaluated: {error}") from error
        while len(done) < parts:
            share(wait=True)
        found = Evaluation(*map(np.concatenate, zip(*(done[n] for n in sorted(done)), strict=True)))
        if (found.failures != "").all():
            why = f"all {episodes} episodes failed; the last failure: {found.failures[-1]}"
            raise RunError(f"env = {self._env!r} cannot be evaluated: {why}")
        return found

    def _alone_until(self, controller: Controller) -> float:
        """Return until when this process plays alone: forever if no other can copy the controller."""
        if self._processes == 1 or not _can_be_sent(controller):
            return math.inf
        return time.monotonic() + (0.0 if self._others else self._patience)

    def _start(self, size: int, parts: int) -> None:
        """Start other processes, limited by the numbers of cores and of parts."""
        others = min(self._processes - 1, parts)
        self._others = [
            _Other(self._env, self._env_options, self._spec, size) for _ in range(others)
        ]


def _can_be_sent(what: object) -> bool:
    """Return whether another process can copy a controller or a task.

    It cannot copy lambdas and local functions, nor what a script or a notebook defines, whose module is ``__main__``.
    """
    try:
        return b"__main__" not in pickle.dumps(what)
    except Exception:  # pickle and the user's objects raise many kinds
        return False


def held_out_seeds(vector: Any, purpose: Purpose, seed: int, episodes: int) -> list[int]:
    """Return the seeds of held-out episodes of a task; if it has held-out states, the seeds take them in turn."""
    states = int(getattr(vector.unwrapped, "held_out_states", 0))
    return [episode_seed(purpose, seed, number, states=states) for number in range(episodes)]


class _Other:
    """Another process of the pool, and the part that it is playing."""

    def __init__(
        self, env: str, env_options: dict[str, Any], spec: EnvSpec | None, size: int
    ) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.part: _Part | None = None
        self._process = context.Process(
            target=_serve, args=(theirs, env, env_options, spec, size), daemon=True
        )
        with _one_thread(), _undisturbed(), _without_script():
            self._process.start()
        theirs.close()

    def begin(self, controller: Controller, part: _Part) -> None:
        """Send a part to the process."""
        self.part = part
        self.connection.send((controller, part))

    def hear(self) -> tuple[int, int, Evaluation | None]:
        """Receive one message: the progress, and at the end of a part its results.

        Raises
        ------
        RunError
            If the process has died, or the task has failed.
        """
        try:
            over, actions, played, failure = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise RunError(
                f"a process of the evaluation died (exit code {self._process.exitcode})"
            ) from None
        if failure:
            raise RunError(f"an episode of the evaluation failed: {failure}")
        if played is not None:
            self.part = None
        return over, actions, played

    def end(self) -> None:
        """Kill the process, even if it is playing a part."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(
    connection: Connection,
    env: str,
    env_options: dict[str, Any],
    spec: EnvSpec | None,
    size: int,
) -> None:
    """Play parts until the pipe closes."""
    die_with_parent()
    try:
        load_task(env)
        if spec is not None:  # the user's script may have registered it
            gym.registry.setdefault(spec.id, spec)
        vector = make_vector(env, env_options, size)
        while True:
            controller, part = connection.recv()
            played = _play(
                vector, controller, part, lambda over, actions: connection.send((over, actions, None, ""))
            )  # fmt: skip
            connection.send((len(part.seeds), int(played.lengths.max()), played, ""))
    except (EOFError, BrokenPipeError):
        return
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # from the controller, or from an environment that cannot start
        connection.send((0, 0, None, describe_failure(error)))


def _play(vector: Any, controller: Controller, part: _Part, progress: Progress) -> Evaluation:
    """Play one episode in every environment to its end; environments beyond the part's seeds are not counted."""
    space = vector.single_action_space
    assert isinstance(space, Box)
    if isinstance(controller, Draws):
        controller.reseed(part.number)
    count = len(part.seeds)
    seeds = part.seeds + part.seeds[:1] * (vector.num_envs - count)
    size, bound = len(seeds), part.max_actions or time_limit(vector) or MOST_ACTIONS
    observations, infos = vector.reset(seed=seeds)
    controller.reset(size)
    resting = getattr(vector.unwrapped, "resting", None)
    returns, lengths = np.zeros(size), np.zeros(size, np.int64)
    survived, cut = np.zeros(size, bool), np.zeros(size, bool)
    # an episode whose initial condition is not that of its seed has failed as well
    failures = np.array(reset_failures_of(infos, size), object)
    measured: list[list[dict[str, float]]] = [[] for _ in range(count)]
    open_ = (np.arange(size) < count) & (failures == "")
    while open_.any():
        if resting is not None:
            resting[:] = ~open_
        actions = np.clip(controller(np.asarray(observations, np.float32)), space.low, space.high)
        observations, rewards, terminated, truncated, infos = vector.step(
            actions.astype(space.dtype)
        )
        failed = np.array(failures_of(infos, size), object)
        failures[open_] = failed[open_]
        open_ &= failed == ""
        returns[open_] += rewards[open_]
        lengths[open_] += 1
        over = terminated | truncated
        last = infos.get("final_info", infos)
        for index in np.flatnonzero(open_).tolist():
            if now := _measures_of(last if over[index] else infos, index):
                measured[index].append(now)
        cut[open_ & ~over & (lengths >= bound)] = True
        survived[open_ & (cut | (truncated & ~terminated))] = True
        open_ &= ~(over | cut)
        progress(count - int(open_.sum()), int(lengths.max()))
    measures = np.full(count, None, object)
    measures[:] = [second_half(actions) for actions in measured]
    return Evaluation(
        returns[:count], lengths[:count], survived[:count], cut[:count], failures[:count], measures
    )


def _measures_of(infos: dict[str, Any], index: int) -> dict[str, float]:
    """Return a flow task's measures of the last action of an environment; other tasks have none."""
    given = infos.get("measures")
    measures = given if isinstance(given, dict) else {}
    return {
        name: float(values[index]) for name, values in measures.items() if not name.startswith("_")
    }


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Make processes that are started in this context use one thread, and end with this process."""
    variables = worker_environment(1) | {"PYTHONSAFEPATH": "1"}  # no modules of the current folder
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _without_script() -> Iterator[None]:
    """Make processes that are started in this context not run the user's script, which may train when it is run."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Make processes that are started in this context ignore Ctrl-C and a closed terminal, handled by this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ENDING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
