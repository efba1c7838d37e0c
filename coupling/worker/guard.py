"""Checks and error handling around the user's environment, in training, evaluation, films and the first test of a task.

An exception of an environment, or values that cannot be learned from, end its episode and are reported in one sentence.
The guard then recreates the environment. It copies the values that it keeps, and gives each environment its own current
folder. Single environments and batches are guarded in one file, so that both report the same error in the same way.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from coupling.errors import describe_failure, ignoring_raised, is_theirs
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
    "diverged_of",
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

_OWN_KEYS = ("failed", "reset_failed")
"""Keys under which the guard itself reports failures in the infos."""

_TRIES = 5
"""Number of attempts at a reset, each in a new environment, because a reset may fail occasionally."""


class FailureError(RuntimeError):
    """A failure of the user's environment; the text includes the place in the code."""


def _called(folder: OwnFolder, name: str, call: Callable[[], T]) -> T:
    """Call a method of an environment.

    Raises
    ------
    FailureError
        For any exception except an interruption; some, such as ``SystemExit``, are no ``Exception``.
    """
    with folder:
        try:
            return call()
        except FailureError:
            raise
        except NotOfSpaceError as error:
            raise FailureError(f"its {name}() returned an observation that is {error}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if "unpack" in str(error) and name in _DUE and not is_theirs(error):
                # a wrapper of Gymnasium unpacks it before it is checked here
                what = f"must return {len(_DUE[name])} values, {', '.join(_DUE[name])}: {error}"
                raise FailureError(f"its {name}() {what}") from error
            raise FailureError(f"its {name}() raised {describe_failure(error)}") from error


def _made(folder: OwnFolder, make: Callable[[], T]) -> T:
    """Recreate an environment.

    Raises
    ------
    FailureError
        If this raises an exception.
    """
    with folder:
        try:
            return make()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise FailureError(f"it cannot be recreated: {describe_failure(error)}") from error


def place_of(environment: Any, name: str) -> str:
    """Return the place of a method of an environment, in brackets; empty if it has no Python code."""
    inner = getattr(environment.unwrapped, "own_env", environment.unwrapped)
    code = getattr(getattr(type(inner), name, None), "__code__", None)
    if code is None:
        return ""
    return f" ({Path(code.co_filename).name}, line {code.co_firstlineno}, in {name})"


class _Outcome(NamedTuple):
    """Checked result of a step."""

    observation: F32
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def checked_parts(given: Any, name: str) -> tuple[Any, ...]:
    """Return the values returned by ``reset`` or ``step``, after checking their number.

    Raises
    ------
    FailureError
        If there are more or fewer values, or it is not a tuple.
    """
    due = _DUE[name]
    if not isinstance(given, tuple) or len(given) != len(due):
        what = f"{len(given)} values" if isinstance(given, tuple) else f"{type(given).__name__}"
        raise FailureError(
            f"its {name}() returned {what}, but must return {len(due)} values: {', '.join(due)}"
        )
    return given


def _checked_rows(given: Any, shape: tuple[int, ...], name: str) -> F32:
    """Return a copy of observations as float32, as sent over the wire.

    Raises
    ------
    FailureError
        If their shape is not that of the space, or they contain a number that cannot be learned from.
    """
    try:
        numbers = np.asarray(given)
        if numbers.dtype == object:  # such as Decimal
            numbers = numbers.astype(np.float64)
        fine = numbers.shape == shape and numbers.dtype.kind in "fiub"
        fine = fine and bool(_are_learnable(numbers).all())
    except (TypeError, ValueError):  # rows of different lengths, or not numbers
        numbers, fine = np.array(None), False
    if fine:
        return np.array(numbers, np.float32)
    if numbers.dtype.kind not in "fiub":
        kind = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise FailureError(
            f"its {name}() returned an observation of {kind}, but it must be numbers of shape {shape}"
        )
    if numbers.shape != shape:
        raise FailureError(
            f"its {name}() returned an observation of shape {numbers.shape}, but its observation_space has {shape}"
        )
    at = tuple(int(i) for i in np.argwhere(~_are_learnable(numbers))[0])
    number = f"number {at[-1]} of {shape[-1]} is {float(numbers[at]):.3g}"
    raise FailureError(f"the observation of its {name}() {_too_much(numbers[at])}: {number}")


def _fine_rows(numbers: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return which rows can be learned from; none if the shape is wrong."""
    if numbers.shape != shape or numbers.dtype.kind not in "fiub":
        return np.zeros(shape[0], bool)
    return np.asarray(_are_learnable(numbers).reshape(shape[0], -1).all(axis=1))


def _are_learnable(numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which numbers are finite and within the limit, which half precision cannot represent."""
    return np.asarray(np.abs(numbers) <= np.float64(LARGEST_NUMBER))


def _too_much(number: Any) -> str:
    if np.isfinite(number):
        return f"is beyond the {LARGEST_NUMBER:g} that can be learned from"
    return "is not finite"


def checked_reward(given: Any) -> float:
    """Return a reward as a float; an array with one number is also accepted.

    Raises
    ------
    FailureError
        If it is not a number, or cannot be learned from.
    """
    if not isinstance(given, float | int | np.number):
        array = np.asarray(given)
        if array.size != 1 or array.dtype.kind not in "fiub":
            what = f"an array of shape {array.shape}" if array.shape else type(given).__name__
            raise FailureError(f"the reward of its step() is {what}, but must be one number")
        given = array.reshape(-1)[0]
    reward = float(given)
    if not abs(reward) <= LARGEST_NUMBER:
        raise FailureError(f"the reward of its step() {_too_much(reward)}: {reward:.3g}")
    return reward


def checked_flag(given: Any, name: str) -> bool:
    """Return ``terminated`` or ``truncated`` as a bool; 0, 1 and an array with one of them are also accepted.

    Raises
    ------
    FailureError
        If it is neither true nor false.
    """
    if isinstance(given, bool | np.bool_):
        return bool(given)
    array = np.asarray(given)
    if array.size == 1 and array.dtype.kind in "biuf" and array.item() in (0, 1):
        return bool(array.item())
    what = f"an array of shape {array.shape}" if array.shape else repr(given)
    raise FailureError(f"{name} of its step() is {what}, but must be True or False")


def _has_diverged(info: Any) -> bool:
    """Return whether ``diverged`` in an info is true, or an array with something true; False if that cannot be said."""
    if not isinstance(info, dict) or "diverged" not in info:
        return False
    with ignoring_raised():  # an object of the user's may raise anything
        return bool(np.any(info["diverged"]))
    return False


def _flags(given: Any, name: str, count: int) -> npt.NDArray[np.bool_]:
    """Return the flags of a batch as a new bool array."""
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(f"{name} has shape {array.shape}, but must have ({count},)")
    if array.dtype == bool:
        return array.copy()
    return np.array([checked_flag(flag, name) for flag in array], bool)


def _checked_infos(given: Any, name: str) -> dict[str, Any]:
    """Return the infos of a batch without what is not theirs: the guard's own keys, and final infos of another form.

    Raises
    ------
    FailureError
        If they are not a dict.
    """
    if not isinstance(given, dict):
        raise FailureError(
            f"its {name}() returned infos of type {type(given).__name__}, but they must be a dict"
        )
    infos = {key: value for key, value in given.items() if key not in _OWN_KEYS}
    last = infos.pop("final_info", None)
    if isinstance(last, dict):
        infos["final_info"] = {key: value for key, value in last.items() if key not in _OWN_KEYS}
    return infos


class Guarded(gym.Wrapper[Any, Any, Any, Any]):
    """Environment with flat spaces that is recreated after a failure, which ends only its own episode.

    A failed step ends the episode as truncated at the previous observation, and its info contains the reason as
    ``failed``. A failed reset is repeated in a new environment; the info of the one that succeeds contains the reason
    as ``reset_failed``. Of the environment's own info, only ``diverged`` is passed on, and the agents' data of a
    multi-agent environment.

    Parameters
    ----------
    make
        Function that creates the environment, with flat spaces.
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
        with np.errstate(over="ignore"):  # bounds beyond single precision become infinite
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode, after a failure in a new environment.

        Raises
        ------
        FailureError
            If this fails repeatedly.
        """
        if seed is not None:
            self._random = np.random.default_rng(seed)
        failure = ""
        for number in range(_TRIES):
            try:
                if self._broken:
                    self._restart_env()
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

    def _restart_env(self) -> None:
        self._close_own()  # errors are ignored, since it is broken
        self.env = _made(self._folder, self._make)

    def step(self, action: Any) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """Step the environment; a failure is reported in the info."""
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
        told: dict[str, Any] = {"diverged": True} if _has_diverged(info) else {}
        if len(self._shape) > 1:  # an axis of agents
            told |= {name: info[name] for name in (AGENT_REWARDS, AGENT_ENDED)}
        return _Outcome(seen, paid, has_ended, is_cut, told)

    def render(self) -> Any:
        """Return the environment's frame or frames.

        Raises
        ------
        FailureError
            If rendering raises an exception.
        """
        return _called(self._folder, "render", self.env.render)

    def close(self) -> None:
        """Close it, ignoring exceptions."""
        self._close_own()

    def _close_own(self) -> None:
        with self._folder, ignoring_raised():
            self.env.close()


class GuardedBatch(VectorWrapper[Any, Any, Any, Any, Any]):
    """A task's own batch, in which a failure ends only the affected episodes.

    The infos of a failed step contain ``failed``: the reason for each failed environment, empty for the others. A
    failed environment has its last good observation, no reward, and is neither terminated nor truncated. It, or after
    an exception the whole batch, continues to fail until all are reset, because a single one cannot be reset.

    Parameters
    ----------
    make
        Function that creates the batch, which resets within the step that ends an episode.
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
        """Begin all episodes, after a failure in a new batch.

        Raises
        ------
        FailureError
            If the batch cannot be reset.
        """
        if self._down or self._failures.any():
            self.close()
            self.env = _made(self._folder, self._make)
        given = _called(self._folder, "reset", lambda: self.env.reset(seed=seed, options=options))
        observations, infos = checked_parts(given, "reset")
        infos = _checked_infos(infos, "reset")
        try:
            rows = self._rows(observations)
            self._last = _checked_rows(rows, (self.num_envs, *self._shape), "reset")
        except FailureError as error:
            raise FailureError(f"{error}{place_of(self, 'reset')}") from error.__cause__
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise FailureError(f"its reset() returned an invalid batch: {error}") from error
        self._down, self._failures = "", np.full(self.num_envs, "", object)
        return self._last.copy(), infos

    def step(self, actions: Any) -> tuple[F32, Any, Any, Any, dict[str, Any]]:
        """Step all environments; a failure is reported in the infos."""
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
        """Step all environments, and record in ``_failures`` those whose values cannot be learned from.

        Raises
        ------
        FailureError
            If the batch as a whole fails.
        """
        given = _called(self._folder, "step", lambda: self.env.step(self._own(actions)))
        observations, rewards, terminated, truncated, infos = checked_parts(given, "step")
        infos = _checked_infos(infos, "step")
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
            raise FailureError(f"its step() returned an invalid batch: {error}") from error
        kept = self._last.copy()
        # rows are checked together; one by one only those that failed or ended
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
        """Return actions in the batch's own form."""
        if self._decode is None:
            return actions
        space = self.env.single_action_space
        room = create_empty_array(space, self.num_envs)
        own = [self._decode(action) for action in actions]
        return concatenate(space, own, room)  # type: ignore[arg-type]  # a batch has fixed spaces

    def close(self, **options: Any) -> None:
        """Close it, ignoring exceptions."""
        with self._folder, ignoring_raised():
            self.env.close(**options)


def failures_of(infos: dict[str, Any], count: int) -> list[str]:
    """Return why each of the environments failed in a step, empty if it did not.

    Parameters
    ----------
    infos
        Infos returned by ``step`` of a guarded vector environment.
    count
        Number of environments.
    """
    reasons = infos.get("final_info", {}).get("failed", infos.get("failed"))
    return [""] * count if reasons is None else [reason or "" for reason in reasons]


def reset_failures_of(infos: dict[str, Any], count: int) -> list[str]:
    """Return why resets failed and were repeated in new environments, by ``reset`` or within ``step``."""
    reasons = infos.get("reset_failed")
    return [""] * count if reasons is None else [reason or "" for reason in reasons]


def diverged_of(infos: dict[str, Any], count: int) -> npt.NDArray[np.bool_]:
    """Return which simulations diverged, according to the task's infos; none if these have another form."""
    with ignoring_raised():  # an object of the user's may raise anything
        told = np.asarray(infos.get("final_info", infos).get("diverged", False), bool)
        return np.broadcast_to(told, count)
    return np.zeros(count, bool)
