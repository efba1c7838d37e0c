"""The one guard on every road into somebody's environment: training, evaluation, films and the first look at a task.

What an environment raises, and what it gives that cannot be learned from, costs its episode and is told in a sentence.
The guard makes such an environment again, copies what it keeps, and gives each environment a current folder of its own.
Single environments and batches are guarded in one file, so that the two roads say the same of the same fault.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from coupling.errors import RAISED, describe_failure, is_theirs
from coupling.modules import OwnFolder
from coupling.worker.spaces import NotOfSpaceError, flat_actions, flat_observations
from rl_agent.multi_agent.outcomes import AGENT_ENDED, AGENT_REWARDS, agent_outcomes
from rl_agent.normalization.states import LARGEST_NUMBER

__all__ = [
    "FailureError",
    "Guarded",
    "GuardedBatch",
    "checked_flag",
    "checked_parts",
    "checked_reward",
    "failures_of",
    "place_of",
    "reset_failures_of",
]

F32 = npt.NDArray[np.float32]
T = TypeVar("T")

_DUE = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}

_TRIES = 5
"""How often a reset is tried, each time in a new environment; one that fails now and then is not given up."""


class FailureError(RuntimeError):
    """What went wrong in somebody's environment: a sentence with the place in their code."""


def _called(folder: OwnFolder, name: str, call: Callable[[], T]) -> T:
    """Call a method of an environment.

    Raises
    ------
    FailureError
        For whatever it raises, ``SystemExit`` included.
    """
    with folder:
        try:
            return call()
        except FailureError:
            raise
        except NotOfSpaceError as error:
            raise FailureError(f"its {name}() gave an observation that is {error}") from error
        except RAISED as error:
            if "unpack" in str(error) and name in _DUE and not is_theirs(error):
                # a wrapper of Gymnasium's takes it apart before it is looked at here
                what = f"must give {len(_DUE[name])} values, {', '.join(_DUE[name])}: {error}"
                raise FailureError(f"its {name}() {what}") from error
            raise FailureError(f"its {name}() raised {describe_failure(error)}") from error


def _made(folder: OwnFolder, make: Callable[[], T]) -> T:
    """Make an environment again.

    Raises
    ------
    FailureError
        When it raises.
    """
    with folder:
        try:
            return make()
        except RAISED as error:
            raise FailureError(f"it cannot be made again: {describe_failure(error)}") from error


def place_of(environment: Any, name: str) -> str:
    """Return where a method of an environment is, in brackets; empty where there is no Python code of it."""
    inner = getattr(environment.unwrapped, "own_env", environment.unwrapped)
    code = getattr(getattr(type(inner), name, None), "__code__", None)
    if code is None:
        return ""
    return f" ({Path(code.co_filename).name}, line {code.co_firstlineno}, in {name})"


class _Outcome(NamedTuple):
    """What a step gave, checked."""

    observation: F32
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def checked_parts(given: Any, name: str) -> tuple[Any, ...]:
    """Return what ``reset`` or ``step`` gave, as many things as there must be.

    Raises
    ------
    FailureError
        When it gave more, fewer, or no tuple.
    """
    due = _DUE[name]
    if not isinstance(given, tuple) or len(given) != len(due):
        what = f"{len(given)} values" if isinstance(given, tuple) else f"{type(given).__name__}"
        raise FailureError(f"its {name}() gave {what}, where {len(due)} are due: {', '.join(due)}")
    return given


def _checked_rows(given: Any, shape: tuple[int, ...], name: str) -> F32:
    """Return a copy of observations as they travel.

    Raises
    ------
    FailureError
        When they are of another shape than the space says, or hold a number that cannot be learned from.
    """
    try:
        numbers = np.asarray(given)
        if numbers.dtype == object:  # such as Decimal
            numbers = numbers.astype(np.float64)
        fine = numbers.shape == shape and numbers.dtype.kind in "fiub"
        fine = fine and bool((np.abs(numbers) <= LARGEST_NUMBER).all())
    except (TypeError, ValueError):  # rows of several lengths, or no numbers
        numbers, fine = np.array(None), False
    if fine:
        return np.array(numbers, np.float32)
    if numbers.dtype.kind not in "fiub":
        kind = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise FailureError(
            f"its {name}() gave an observation of {kind}, where numbers of shape {shape} are due"
        )
    if numbers.shape != shape:
        raise FailureError(
            f"its {name}() gave an observation of shape {numbers.shape}, where its observation_space says {shape}"
        )
    at = tuple(int(i) for i in np.argwhere(~(np.abs(numbers) <= LARGEST_NUMBER))[0])
    number = f"number {at[-1]} of {shape[-1]} is {float(numbers[at]):.3g}"
    raise FailureError(f"the observation of its {name}() {_too_much(numbers[at])}: {number}")


def _fine_rows(numbers: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return which rows are numbers that can be learned from; none where the shape is another one."""
    if numbers.shape != shape or numbers.dtype.kind not in "fiub":
        return np.zeros(shape[0], bool)
    return np.asarray((np.abs(numbers) <= LARGEST_NUMBER).reshape(shape[0], -1).all(axis=1))


def _too_much(number: Any) -> str:
    if np.isfinite(number):
        return f"is beyond the {LARGEST_NUMBER:g} that can be learned from"
    return "is not finite"


def checked_reward(given: Any) -> float:
    """Return a reward as a number, which an array of one number is, too.

    Raises
    ------
    FailureError
        When it is none, or cannot be learned from.
    """
    if not isinstance(given, float | int | np.number):
        array = np.asarray(given)
        if array.size != 1 or array.dtype.kind not in "fiub":
            what = f"an array of shape {array.shape}" if array.shape else type(given).__name__
            raise FailureError(f"the reward of its step() is {what}, where one number is due")
        given = array.reshape(-1)[0]
    reward = float(given)
    if not abs(reward) <= LARGEST_NUMBER:
        raise FailureError(f"the reward of its step() {_too_much(reward)}: {reward:.3g}")
    return reward


def checked_flag(given: Any, name: str) -> bool:
    """Return ``terminated`` or ``truncated`` as a bool, which 0, 1 and an array of one of them are, too.

    Raises
    ------
    FailureError
        When it is neither true nor false.
    """
    if isinstance(given, bool | np.bool_):
        return bool(given)
    array = np.asarray(given)
    if array.size == 1 and array.dtype.kind in "biuf" and array.item() in (0, 1):
        return bool(array.item())
    what = f"an array of shape {array.shape}" if array.shape else repr(given)
    raise FailureError(f"{name} of its step() is {what}, where True or False is due")


def _flags(given: Any, name: str, count: int) -> npt.NDArray[np.bool_]:
    """Return the flags of a batch, in an array of their own."""
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(f"{name} has shape {array.shape}, where ({count},) is due")
    if array.dtype == bool:
        return array.copy()
    return np.array([checked_flag(flag, name) for flag in array], bool)


class Guarded(gym.Wrapper[Any, Any, Any, Any]):
    """An environment of flat spaces whose failure costs one episode: it is made again, and the others of a batch go on.

    A step that fails ends the episode as truncated at the observation before, and its info holds the reason as
    ``failed``. A reset that fails is tried again in a new environment; the info of one that then works holds the reason
    as ``reset_failed``. Of the environment's own info only ``diverged`` is passed on, and what a multi-agent one tells
    of its agents.

    Parameters
    ----------
    make
        Makes the environment, with flat spaces.
    raises
        Raise ``FailureError`` for a failure instead.
    """

    def __init__(self, make: Callable[[], gym.Env], *, raises: bool = False) -> None:
        self._folder = OwnFolder()
        with self._folder:
            environment = make()
        super().__init__(environment)
        self._make, self._raises, self._broken = make, raises, False
        self._random = np.random.default_rng(0)
        space = environment.observation_space
        assert isinstance(space, gym.spaces.Box)
        self._shape = space.shape
        with np.errstate(over="ignore"):  # bounds beyond single precision are none
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode; after a failure, of a new environment.

        Raises
        ------
        FailureError
            When that fails again and again.
        """
        if seed is not None:
            self._random = np.random.default_rng(seed)
        failure = ""
        for number in range(_TRIES):
            try:
                if self._broken:
                    self._make_anew()
                    if number or seed is None:
                        seed = int(self._random.integers(2**31))
                self._last = self._begun(seed, options)
                self._broken = False
            except FailureError as error:
                failure, self._broken = failure or str(error), True
                if self._raises:
                    raise
            else:
                return self._last, {"reset_failed": failure} if failure else {}
        raise FailureError(failure)

    def _begun(self, seed: int | None, options: dict[str, Any] | None) -> F32:
        given = _called(self._folder, "reset", lambda: self.env.reset(seed=seed, options=options))
        observation, _ = checked_parts(given, "reset")
        try:
            return _checked_rows(observation, self._shape, "reset")
        except FailureError as error:
            raise FailureError(f"{error}{place_of(self, 'reset')}") from error.__cause__

    def _make_anew(self) -> None:
        self._close_own()  # it is broken already
        self.env = _made(self._folder, self._make)

    def step(self, action: Any) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """Step; a failure is told in the info."""
        try:
            observation, reward, terminated, truncated, info = self._outcome(action)
        except FailureError as error:
            self._broken = True
            if self._raises:
                raise
            return self._last, 0.0, False, True, {"failed": str(error)}
        self._last = observation
        return observation, reward, terminated, truncated, info

    def _outcome(self, action: Any) -> _Outcome:
        given = _called(self._folder, "step", lambda: self.env.step(action))
        observation, reward, terminated, truncated, info = checked_parts(given, "step")
        try:
            seen, paid = _checked_rows(observation, self._shape, "step"), checked_reward(reward)
            has_ended = checked_flag(terminated, "terminated")
            is_cut = checked_flag(truncated, "truncated")
        except FailureError as error:
            raise FailureError(f"{error}{place_of(self, 'step')}") from error.__cause__
        has_diverged = isinstance(info, dict) and bool(info.get("diverged", False))
        told: dict[str, Any] = {"diverged": True} if has_diverged else {}
        if len(self._shape) > 1:  # an axis of agents
            told |= {name: info[name] for name in (AGENT_REWARDS, AGENT_ENDED)}
        return _Outcome(seen, paid, has_ended, is_cut, told)

    def render(self) -> Any:
        """Return the environment's picture, or its pictures.

        Raises
        ------
        FailureError
            When it raises.
        """
        return _called(self._folder, "render", self.env.render)

    def close(self) -> None:
        """Close it; what that raises harms nobody any more."""
        self._close_own()

    def _close_own(self) -> None:
        with self._folder, contextlib.suppress(*RAISED):
            self.env.close()


class GuardedBatch(VectorWrapper[Any, Any, Any, Any, Any]):
    """A task's own batch, whose failure costs the episodes that it concerns.

    The infos of a step that failed hold ``failed``: the reason for each environment, empty for the others. One that
    failed has its last good observation, no reward, and is neither terminated nor truncated. It, or after an exception
    the whole batch, goes on failing until all are reset, for no single one of it can be.

    Parameters
    ----------
    make
        Makes the batch; it resets within the step that ends an episode.
    raises
        Raise ``FailureError`` for a failure instead.
    has_agents
        Whether its arrays have an axis of agents (``coupling/worker/multi_agent.py``).
    """

    def __init__(
        self, make: Callable[[], VectorEnv], *, raises: bool = False, has_agents: bool = False
    ) -> None:
        self._folder = OwnFolder()
        with self._folder:
            batch = make()
        super().__init__(batch)
        self._make, self._raises, self._down = make, raises, ""
        self._encode, self._decode = None, None
        self._agents: int | None = batch.agents_per_env if has_agents else None  # type: ignore[attr-defined]
        flat = None if self._agents else flat_observations(batch.single_observation_space)
        if flat is not None:
            self.single_observation_space, self._encode = flat
        acting = None if self._agents else flat_actions(batch.single_action_space)
        if acting is not None:
            self.single_action_space, self._decode = acting
        size = self.single_observation_space.shape
        assert size is not None
        self._shape = size
        self._failures = np.full(batch.num_envs, "", object)
        self._last = np.zeros((batch.num_envs, *size), np.float32)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin all episodes; after a failure, of a batch that is made again.

        Raises
        ------
        FailureError
            When the batch cannot.
        """
        if self._down or self._failures.any():
            self.close()
            self.env = _made(self._folder, self._make)
        given = _called(self._folder, "reset", lambda: self.env.reset(seed=seed, options=options))
        observations, infos = checked_parts(given, "reset")
        try:
            rows = self._rows(observations)
            self._last = _checked_rows(rows, (self.num_envs, *self._shape), "reset")
        except FailureError as error:
            raise FailureError(f"{error}{place_of(self, 'reset')}") from error.__cause__
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise FailureError(f"its reset() gave what is no batch: {error}") from error
        self._down, self._failures = "", np.full(self.num_envs, "", object)
        return self._last.copy(), infos

    def step(self, actions: Any) -> tuple[F32, Any, Any, Any, dict[str, Any]]:
        """Step all; a failure is told in the infos."""
        try:
            if self._down:
                raise FailureError(self._down)
            observations, rewards, terminated, truncated, infos = self._stepped(actions)
        except FailureError as error:
            if self._raises:
                raise
            self._down, no = str(error), np.zeros(self.num_envs, bool)
            rewards, reasons = np.zeros(self.num_envs), np.full(self.num_envs, self._down, object)
            return self._last.copy(), rewards, no, no.copy(), {"failed": reasons}
        if self._failures.any():
            failed = self._failures != ""
            if self._raises:
                raise FailureError(self._failures[failed][0])
            observations[failed] = self._last[failed]
            rewards = np.where(failed, 0.0, rewards)
            terminated, truncated = terminated & ~failed, truncated & ~failed
            infos = infos | {"failed": self._failures.copy()}
        self._last = observations
        return observations.copy(), rewards, terminated, truncated, infos

    def _stepped(self, actions: Any) -> tuple[F32, Any, Any, Any, dict[str, Any]]:
        """Step all, and note in ``_failures`` which gave what cannot be learned from.

        Raises
        ------
        FailureError
            When the batch as a whole fails.
        """
        given = _called(self._folder, "step", lambda: self.env.step(self._own(actions)))
        observations, rewards, terminated, truncated, infos = checked_parts(given, "step")
        try:
            rows = self._rows(observations)
            rewards = np.asarray(rewards, np.float64).reshape(self.num_envs)
            terminated = _flags(terminated, "terminated", self.num_envs)
            truncated = _flags(truncated, "truncated", self.num_envs)
            ends = np.flatnonzero(terminated | truncated)
            if len(ends):
                final = np.full(self.num_envs, None, object)
                for index in map(int, ends):
                    final[index] = self._row(infos["final_obs"][index])
                infos = infos | {"final_obs": final}
            paid = rewards[:, None]
            if self._agents:
                paid, _ = agent_outcomes(infos, terminated | truncated, self._agents)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise FailureError(f"its step() gave what is no batch: {error}") from error
        kept = self._last.copy()
        # rows are checked together; one by one only those of which something is to be said, or that ended
        healthy = self._failures == ""
        fine = healthy & _fine_rows(rows, kept.shape) & _fine_rows(paid, paid.shape)
        fine[ends] = False
        kept[fine] = rows[fine]
        for index in map(int, np.flatnonzero(healthy & ~fine)):
            try:
                for reward in paid[index]:
                    checked_reward(reward)
                if index in ends:
                    _checked_rows(infos["final_obs"][index], self._shape, "step")
                kept[index] = _checked_rows(rows[index], self._shape, "step")
            except FailureError as error:
                self._failures[index] = f"{error}{place_of(self, 'step')}"
        return kept, rewards, terminated, truncated, infos

    def _rows(self, observations: Any) -> npt.NDArray[Any]:
        if self._encode is None:
            return np.asarray(observations)
        each = iterate(self.env.observation_space, observations)
        return np.stack([self._encode(observation) for observation in each])

    def _row(self, observation: Any) -> npt.NDArray[Any]:
        return np.asarray(observation if self._encode is None else self._encode(observation))

    def _own(self, actions: Any) -> Any:
        """Return actions as the batch takes them."""
        if self._decode is None:
            return actions
        space = self.env.single_action_space
        room = create_empty_array(space, self.num_envs)
        own = [self._decode(action) for action in actions]
        return concatenate(space, own, room)  # type: ignore[arg-type]  # a batch has fixed spaces

    def close(self, **options: Any) -> None:
        """Close it; what that raises harms nobody any more."""
        with self._folder, contextlib.suppress(*RAISED):
            self.env.close(**options)


def failures_of(infos: dict[str, Any], count: int) -> list[str]:
    """Return why each of the environments failed in a step, empty where it did not.

    Parameters
    ----------
    infos
        What ``step`` of a guarded vector environment gave.
    count
        How many they are.
    """
    reasons = infos.get("final_info", {}).get("failed", infos.get("failed"))
    return [""] * count if reasons is None else [reason or "" for reason in reasons]


def reset_failures_of(infos: dict[str, Any], count: int) -> list[str]:
    """Return why resets failed that were then done in new environments, by ``reset`` or within ``step``."""
    reasons = infos.get("reset_failed")
    return [""] * count if reasons is None else [reason or "" for reason in reasons]
