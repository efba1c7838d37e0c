"""Any Gymnasium task as a vector environment that resets within the step that ends an episode.

How a task is made, tried once and described is one file: whatever is wrong with it is told by the same few sentences.
"""

import contextlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from cases.sentences import did_you_mean, nearest
from coupling.errors import ConfigError, describe_failure
from coupling.settings import EXTERNAL
from coupling.settings.suggestions import meant_key, meant_module
from coupling.worker.named import PARALLEL, draws_itself, registered, unregistered, world_maker
from coupling.worker.worlds import JointWorld
from rl_agent.joint import ActionSpace

__all__ = [
    "Guarded",
    "Numbered",
    "Task",
    "describe_task",
    "failures_of",
    "final_observations",
    "make_single",
    "make_vector",
]


class Numbered(gym.spaces.Box):
    """Discrete actions as they travel: one number each, from the first to the last.

    Parameters
    ----------
    choices
        The task's own action space; that of a world has a number for each of its agents.
    """

    def __init__(self, choices: gym.spaces.Discrete | gym.spaces.MultiDiscrete) -> None:
        count = choices.nvec if isinstance(choices, gym.spaces.MultiDiscrete) else choices.n
        first = np.atleast_1d(np.asarray(choices.start, np.float32))
        super().__init__(
            first, first + np.atleast_1d(np.asarray(count, np.float32)) - 1.0, dtype=np.float32
        )
        self.choices = choices


class Guarded(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose failure costs one episode: it is made anew, and the others of the batch go on.

    A step that raises, or gives a reward or observation that is not finite, ends the episode as truncated at the
    observation before, and its info holds the reason as ``failure``.

    Parameters
    ----------
    make
        Makes the environment.
    """

    def __init__(self, make: Callable[[], gym.Env]) -> None:
        super().__init__(make())
        self._make, self._failed = make, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; after a failure, of a new environment."""
        if self._failed:
            with contextlib.suppress(Exception):  # it is broken already
                self.env.close()
            self.env, self._failed = self._make(), False
        self._last, info = self.env.reset(seed=seed, options=options)
        return self._last, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step; a failure is told in the info."""
        try:
            observation, given, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            return self._failure(describe_failure(error))
        reward = float(given)
        if not (np.isfinite(reward) and np.isfinite(observation).all()):
            return self._failure("a reward or observation is not finite")
        self._last = observation
        return observation, reward, terminated, truncated, info

    def _failure(self, reason: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._failed = True
        return self._last, 0.0, False, True, {"failure": reason}


def failures_of(infos: dict[str, Any], count: int) -> list[str]:
    """Return why each of the environments failed in a step, empty where it did not.

    Parameters
    ----------
    infos
        What ``step`` of a vector environment of :class:`Guarded` ones gave.
    count
        How many they are.
    """
    reasons = infos.get("final_info", {}).get("failure")
    return [""] * count if reasons is None else [reason or "" for reason in reasons]


@dataclass(frozen=True)
class Task:
    """What the learner has to know of a task.

    Attributes
    ----------
    observation_space, action_space
        Spaces of one environment: a flat box, and a flat box or discrete. Those of a world are joint ones
        (``rl_agent/joint.py``).
    episode_steps
        Longest episode in steps, where the task says so.
    world
        Agents that act together in one environment.
    draws_itself
        Whether it can be filmed.
    """

    observation_space: gym.spaces.Box
    action_space: ActionSpace
    episode_steps: int | None = None
    world: int = 1
    draws_itself: bool = False

    @property
    def action_bounds(self) -> tuple[list[float], list[float]]:
        """Least and greatest numbers in an action as it travels."""
        space = self.action_space
        box = space if isinstance(space, gym.spaces.Box) else Numbered(space)
        return [float(bound) for bound in box.low], [float(bound) for bound in box.high]


def make_vector(
    env: str, env_options: dict[str, Any], count: int, *, guarded: bool = False
) -> VectorEnv:
    """Make ``count`` copies of a task as one vector environment.

    The task's own batched form is taken when it has one that resets within the step; otherwise the
    copies are stepped one after the other.

    Parameters
    ----------
    env
        A Gymnasium id, also ``module:id``; or ``parallel:module``, a module whose ``parallel_env`` makes a world of
        several agents by the parallel interface of PettingZoo.
    env_options
        Keyword arguments of the environment.
    count
        Number of environments.
    guarded
        Whether copies that are stepped one after the other are :class:`Guarded`.

    Returns
    -------
    VectorEnv
        Autoreset mode ``SAME_STEP``: final observations stand in ``infos["final_obs"]``. Discrete actions are
        ``Numbered``.

    Raises
    ------
    ConfigError
        For an unknown id, an option that the task does not have or a value it refuses, a device that is not there or
        too small, a task that lives outside Python.
    """
    with _told_in_a_sentence(env):
        make = _maker(env, env_options)
        if not env.startswith(PARALLEL):
            spec = registered(env)
            if spec.vector_entry_point is not None:
                options = _within_the_step(spec) | env_options
                vector = gym.make_vec(
                    spec, num_envs=count, vectorization_mode="vector_entry_point", **options
                )
                if vector.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP:
                    return vector
                vector.close()
        return _one_after_the_other(make, count, guarded=guarded)


def make_single(env: str, env_options: dict[str, Any]) -> gym.Env:
    """Make a task as one environment that is reset by hand; discrete actions are ``Numbered``.

    Parameters and errors as of :func:`make_vector`.
    """
    with _told_in_a_sentence(env):
        return _numbered(_maker(env, env_options)())


def _maker(env: str, env_options: dict[str, Any]) -> Callable[[], gym.Env]:
    """Return what makes one environment of a task."""
    if env == EXTERNAL:
        raise ConfigError(
            f"env = {env!r} lives outside Python: only the program that connects with the client in coupling/c can "
            "step it"
        )
    if env.startswith(PARALLEL):
        make_world = world_maker(env)
        return lambda: JointWorld(make_world, env_options)
    import cases  # noqa: F401  (registers the flow tasks)

    # no checker: what it would warn of is refused in a sentence (_try), or costs one episode (Guarded)
    return partial(gym.make, registered(env), disable_env_checker=True, **env_options)


@contextlib.contextmanager
def _told_in_a_sentence(env: str) -> Iterator[None]:
    """Turn whatever the making of a task raises into a ConfigError."""
    try:
        yield
    except (
        gym.error.NameNotFound,
        gym.error.NamespaceNotFound,
        gym.error.VersionNotFound,
    ) as error:
        module, colon, name = env.rpartition(":")
        meant = nearest(name, gym.registry, likeness=0.7)
        if f"{name}.py" in os.listdir():  # a module without the id of its environment
            meant, module, colon = meant_module(f"{name}.py"), "", ""
        hint = did_you_mean(
            meant and module + colon + meant,
            unregistered(env) or "env takes the id of a registered Gymnasium environment",
        )
        raise ConfigError(f"env = {env!r}: no such environment; {hint}") from error
    except ConfigError:
        raise
    except gym.error.DependencyNotInstalled as error:
        ours = "mujoco" in str(error).lower()
        needs = (
            "needs MuJoCo: pip install 'flowsim-rl[mujoco]'" if ours else f"cannot be made: {error}"
        )
        raise ConfigError(f"env = {env!r} {needs}") from error
    except (gym.error.Error, TypeError, ValueError, RuntimeError, MemoryError) as error:
        unknown = re.search(
            r"unexpected keyword argument '(\w+)'[^:]*(: (?:allowed are|did you mean) .*)?",
            str(error),
        )
        if unknown:
            meant = meant_key(unknown[1], env)
            instead = unknown[2] or (f": {did_you_mean(meant, '')}" if meant else "")
            raise ConfigError(
                f"env_options.{unknown[1]} is no option of env = {env!r}{instead}"
            ) from error
        raise ConfigError(f"env = {env!r} cannot be made: {_sentence(error)}") from error
    except Exception as error:  # whatever somebody's own environment raises
        raise ConfigError(f"env = {env!r} cannot be made: {describe_failure(error)}") from error


def _one_after_the_other(make: Callable[[], gym.Env], count: int, *, guarded: bool) -> VectorEnv:
    """Make a vector environment of copies that are stepped one after the other."""
    numbered = lambda: _numbered(make())  # noqa: E731
    makers = [(lambda: Guarded(numbered)) if guarded else numbered] * count
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


def _sentence(error: Exception) -> str:
    """Return what an environment of a library says of its options; of somebody's own, what it raised and where."""
    described = describe_failure(error)
    return described if described.endswith(")") else " ".join(str(error).split())


def _numbered(environment: gym.Env) -> gym.Env:
    """Let an environment of discrete actions take them as numbers in an array; others stay as they are."""
    space = environment.action_space
    if isinstance(space, gym.spaces.MultiDiscrete):
        return gym.wrappers.TransformAction(
            environment, lambda numbers: np.rint(numbers).astype(int), Numbered(space)
        )
    if not isinstance(space, gym.spaces.Discrete):
        return environment
    return gym.wrappers.TransformAction(
        environment, lambda action: int(np.rint(action[0])), Numbered(space)
    )


def _within_the_step(spec: gym.envs.registration.EnvSpec) -> dict[str, Any]:
    """Return the option by which a batched task resets within the step, if it has a choice."""
    entry = spec.vector_entry_point
    make = load_env_creator(entry) if isinstance(entry, str) else entry
    chooses = make is not None and "autoreset_mode" in inspect.signature(make).parameters
    return {"autoreset_mode": AutoresetMode.SAME_STEP} if chooses else {}


def describe_task(env: str, env_options: dict[str, Any]) -> Task:
    """Make the task once, step it once and return its spaces.

    The one step also compiles what the task compiles, into the cache that the worker processes read. Of a task that
    lives outside Python only the options are looked at.

    Raises
    ------
    ConfigError
        As :func:`make_vector`, and for spaces that are neither flat boxes nor, as actions, discrete.
    """
    if env == EXTERNAL:
        # with pydantic, which other workers need not wait for
        from coupling.settings.external import external_task

        return Task(*external_task(env_options))
    vector = make_vector(env, env_options, 1)
    try:
        spaces = vector.single_observation_space, vector.single_action_space
        for name, space in zip(("observation", "action"), spaces, strict=True):
            if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
                raise ConfigError(
                    f"env = {env!r}: its {name} space is {space}; only flat boxes (Box of one axis) and Discrete "
                    "actions can be learned"
                )
        observation, action = spaces
        assert isinstance(observation, gym.spaces.Box)
        assert isinstance(action, gym.spaces.Box)
        if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
            raise ConfigError(f"env = {env!r}: its action space {action} has no finite bounds")
        _try(
            vector,
            env,
            np.clip(np.zeros((1, *action.shape), action.dtype), action.low, action.high),
        )
    finally:
        vector.close()
    actions = action.choices if isinstance(action, Numbered) else action
    # a name of its own: environments by others have a `world`, their physics, say
    world = _of_first(vector, "joint_agents", 1)
    return Task(observation, actions, _longest_episode(env, vector), world, draws_itself(env))


def _of_first(vector: VectorEnv, name: str, otherwise: Any) -> Any:
    """Return an attribute of the environments that are stepped one after the other."""
    environments = getattr(vector, "envs", None)
    return getattr(environments[0].unwrapped, name, otherwise) if environments else otherwise


def _longest_episode(env: str, vector: VectorEnv) -> int | None:
    """Return the limit of time that a task is registered with, or that its own batch names as ``episode_steps``."""
    limit_of_name = None if env.startswith(PARALLEL) else registered(env).max_episode_steps
    limit = (
        limit_of_name
        or getattr(vector, "episode_steps", None)
        or _of_first(vector, "episode_steps", None)
    )
    return int(limit) if limit else None


def _try(vector: VectorEnv, env: str, actions: np.ndarray) -> None:
    """Reset and step a task once.

    Raises
    ------
    ConfigError
        When it raises, or gives numbers that are not finite: nothing can be learned from it.
    """
    calls: dict[str, Callable[[], Any]] = {
        "reset": lambda: vector.reset(seed=0),
        "step": lambda: vector.step(actions),
    }
    for name, call in calls.items():
        try:
            given = call()
        except Exception as error:
            why = _other_shape(vector, name, actions) or f"raised {describe_failure(error)}"
            raise ConfigError(f"env = {env!r}: its {name}() {why}") from error
        for what, value in zip(
            ("observation", "reward"), given[: 1 if name == "reset" else 2], strict=False
        ):
            if not np.isfinite(value).all():
                numbers = np.asarray(value[0]).tolist()
                raise ConfigError(
                    f"env = {env!r}: the {what} of its {name}() is not finite: {numbers}"
                )


def _other_shape(vector: VectorEnv, name: str, actions: np.ndarray) -> str:
    """Say of which shape an observation is that the batch could not take; empty where the shape is not why."""
    if not isinstance(vector, SyncVectorEnv):
        return ""
    try:
        environment = vector.envs[0]
        given = environment.reset(seed=0) if name == "reset" else environment.step(actions[0])
        came, says = np.shape(given[0]), vector.single_observation_space.shape
    except Exception:
        return ""
    if came == says:
        return ""
    return f"gave an observation of shape {came}, where its observation_space says {says}"


def final_observations(infos: dict[str, Any], ended: np.ndarray) -> np.ndarray:
    """Return the observations that ended the episodes.

    Parameters
    ----------
    infos
        What ``step`` of a vector environment gave.
    ended
        Which environments ended, bool of shape (n,).

    Returns
    -------
    np.ndarray
        float32 of shape (number ended, observation size), in the order of the environments.
    """
    return np.stack([np.asarray(infos["final_obs"][i], np.float32) for i in np.flatnonzero(ended)])
