"""Any Gymnasium task as a vector environment that resets within the step that ends an episode.

Creating, testing and describing a task are in one file, because they report its errors with the same messages.
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

from cases.error_messages import did_you_mean, nearest
from coupling.errors import ConfigError, describe_failure
from coupling.settings import EXTERNAL
from coupling.settings.suggestions import meant_key, meant_module
from coupling.worker.env_registry import (
    PARALLEL,
    draws_itself,
    parallel_env_maker,
    registered,
    unregistered,
)
from coupling.worker.guard import FailureError, Guarded, GuardedBatch, failures_of
from coupling.worker.multi_agent import MultiAgentBatch, MultiAgentEnv, space_of_one
from coupling.worker.spaces import Numbered, flattened, notes_on, own_spaces
from rl_agent.normalization.spaces import ActionSpace

__all__ = [
    "Numbered",
    "Task",
    "agents_per_env",
    "describe_task",
    "final_observations",
    "make_single",
    "make_vector",
    "time_limit",
]

_FIRST_TRIES = 3
"""Number of attempts to reset and step a task before the run, since it may fail occasionally."""


@dataclass(frozen=True)
class Task:
    """Properties of a task that the learner needs.

    Attributes
    ----------
    observation_space, action_space
        Spaces of one agent: a flat box, and a flat box or discrete.
    episode_steps
        Longest episode in steps, if the task declares it.
    agents_per_env
        Agents that act together in one environment.
    draws_itself
        Whether it can be filmed.
    notes
        Differences of its own spaces from these, one sentence each.
    own_shape
        Shape of its own observations, before flattening; empty if they are no array.
    """

    observation_space: gym.spaces.Box
    action_space: ActionSpace
    episode_steps: int | None = None
    agents_per_env: int = 1
    draws_itself: bool = False
    notes: tuple[str, ...] = ()
    own_shape: tuple[int, ...] = ()

    @property
    def action_bounds(self) -> tuple[list[float], list[float]]:
        """Lower and upper bounds of the components of an agent's action, as sent over the wire."""
        space = self.action_space
        box = space if isinstance(space, gym.spaces.Box) else Numbered(space)
        return [float(bound) for bound in box.low], [float(bound) for bound in box.high]


def make_vector(
    env: str, env_options: dict[str, Any], count: int, *, guarded: bool = True
) -> VectorEnv:
    """Create ``count`` copies of a task as one vector environment, guarded by ``coupling/worker/guard.py``.

    The task's own batched form is used if it has one that resets within the step; otherwise the copies are stepped one
    after the other.

    Parameters
    ----------
    env
        A Gymnasium ID, also ``module:id``; or ``parallel:module``, a module whose ``parallel_env`` creates a
        multi-agent environment with the parallel interface of PettingZoo.
    env_options
        Keyword arguments of the environment.
    count
        Number of environments.
    guarded
        Whether a failure only ends its episode; otherwise it raises ``FailureError``, for callers that treat every step
        as a transition (``rl_agent.rollout.in_process``).

    Returns
    -------
    VectorEnv
        Autoreset mode ``SAME_STEP``: final observations are in ``infos["final_obs"]``. Spaces are flat boxes, discrete
        actions are ``Numbered``. With N agents in an environment, arrays have an axis of agents: observations
        (count, N, S), actions (count, N, A), and the infos are as in ``rl_agent/multi_agent/outcomes.py``. Use
        ``failures_of`` for the failures.

    Raises
    ------
    ConfigError
        For an unknown ID, an unknown or invalid option, a device that is missing or too small, a task outside Python,
        or spaces that cannot be flattened.
    """
    with _reporting_errors(env):
        make = _maker(env, env_options)
        if env.startswith(PARALLEL):
            batched = getattr(parallel_env_maker(env), "vector_class", None)
            if batched is not None:
                return GuardedBatch(
                    lambda: _multi_agent_batch(batched, count, env_options),
                    raises=not guarded,
                    has_agents=True,
                )
        else:
            spec = registered(env)
            if spec.vector_entry_point is not None:
                options = _within_the_step(spec) | env_options
                vector = GuardedBatch(
                    lambda: gym.make_vec(
                        spec, num_envs=count, vectorization_mode="vector_entry_point", **options
                    ),
                    raises=not guarded,
                )
                if vector.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP:
                    return vector
                vector.close()
        makers = [lambda: Guarded(make, raises=not guarded)] * count
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


def _multi_agent_batch(batched: Any, count: int, env_options: dict[str, Any]) -> MultiAgentBatch:
    """Create a batch of multi-agent environments."""
    batch = batched(count, autoreset_mode=AutoresetMode.SAME_STEP, **env_options)
    return MultiAgentBatch(batch, batch.task.agents)


def make_single(env: str, env_options: dict[str, Any]) -> Guarded:
    """Create a task as one guarded environment without autoreset; its spaces are as in :func:`make_vector`.

    Parameters and errors as in :func:`make_vector`.
    """
    with _reporting_errors(env):
        make = _maker(env, env_options)
        return Guarded(make)


def _maker(env: str, env_options: dict[str, Any]) -> Callable[[], gym.Env]:
    """Return the function that creates one environment of a task, with flat spaces."""
    if env == EXTERNAL:
        raise ConfigError(
            f"env = {env!r} is outside Python: only the program that connects with the client in coupling/c can step "
            "it"
        )
    if env.startswith(PARALLEL):
        make_env = parallel_env_maker(env)
        return lambda: MultiAgentEnv(make_env, env_options)
    import cases  # noqa: F401  (registers the flow tasks)

    # no checker: what it would warn of is an error in _try, or ends one episode in Guarded
    make = partial(gym.make, registered(env), disable_env_checker=True, **env_options)
    return lambda: flattened(make())


@contextlib.contextmanager
def _reporting_errors(env: str) -> Iterator[None]:
    """Turn any exception from creating a task into a ConfigError."""
    try:
        yield
    except (
        gym.error.NameNotFound,
        gym.error.NamespaceNotFound,
        gym.error.VersionNotFound,
    ) as error:
        module, colon, name = env.rpartition(":")
        meant = nearest(name, gym.registry, likeness=0.7)
        if f"{name}.py" in os.listdir():  # a module without the ID of its environment
            meant, module, colon = meant_module(f"{name}.py"), "", ""
        hint = did_you_mean(
            meant and module + colon + meant,
            unregistered(env) or "env must be the id of a registered Gymnasium environment",
        )
        raise ConfigError(f"env = {env!r}: no such environment; {hint}") from error
    except ConfigError as error:
        known = str(error).startswith("env")
        raise (error if known else ConfigError(f"env = {env!r}: {error}")) from error.__cause__
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's environment may raise anything
        raise ConfigError(f"env = {env!r} cannot be made: {describe_failure(error)}") from error


def _sentence(error: Exception) -> str:
    """Return an exception of the user's environment with its place, or the message of a library's environment."""
    described = describe_failure(error)
    return described if described.endswith(")") else " ".join(str(error).split())


def _within_the_step(spec: gym.envs.registration.EnvSpec) -> dict[str, Any]:
    """Return the option by which a batched task resets within the step, if it has a choice."""
    entry = spec.vector_entry_point
    make = load_env_creator(entry) if isinstance(entry, str) else entry
    chooses = make is not None and "autoreset_mode" in inspect.signature(make).parameters
    return {"autoreset_mode": AutoresetMode.SAME_STEP} if chooses else {}


def describe_task(env: str, env_options: dict[str, Any]) -> Task:
    """Create the task, step it once and return its spaces.

    The step also compiles the task's functions, into the cache that the worker processes read. For a task outside
    Python, only the options are checked.

    Raises
    ------
    ConfigError
        As in :func:`make_vector`, and if it fails.
    """
    if env == EXTERNAL:
        # imports pydantic, which other workers do not need
        from coupling.settings.external import external_task

        return Task(*external_task(env_options))
    vector = make_vector(env, env_options, 1)
    try:
        observation, action = vector.single_observation_space, vector.single_action_space
        assert isinstance(observation, gym.spaces.Box)
        assert isinstance(action, gym.spaces.Box)
        _try(
            vector,
            env,
            np.clip(np.zeros((1, *action.shape), action.dtype), action.low, action.high),
        )
    finally:
        vector.close()
    together = agents_per_env(vector)
    if together > 1:
        observation = space_of_one(observation)
    bounds = space_of_one(action) if together > 1 else action
    actions = action.choices if isinstance(action, Numbered) else bounds
    own = _of_first(vector, "own_spaces", None) or _own_spaces(vector)
    return Task(
        observation,
        actions,
        time_limit(vector),
        together,
        draws_itself(env),
        notes_on(*own),
        own[0].shape or (),
    )


def agents_per_env(vector: VectorEnv) -> int:
    """Return the number of agents in each environment of :func:`make_vector`."""
    shape = vector.single_observation_space.shape or ()
    return int(shape[0]) if len(shape) > 1 else 1


def _own_spaces(vector: VectorEnv) -> tuple[gym.Space, gym.Space]:
    """Return the task's own spaces, before flattening, but as its own wrappers make them."""
    if isinstance(vector, SyncVectorEnv):
        guarded = vector.envs[0]
        assert isinstance(guarded, Guarded)
        return own_spaces(guarded.env)
    assert isinstance(vector, GuardedBatch)
    return vector.env.single_observation_space, vector.env.single_action_space


def _of_first(vector: VectorEnv, name: str, otherwise: Any) -> Any:
    """Return an attribute of the first environment of a vector, or of the batch if there are no single ones."""
    environments = getattr(vector, "envs", None)
    return getattr(environments[0].unwrapped if environments else vector, name, otherwise)


def time_limit(vector: VectorEnv) -> int | None:
    """Return the number of actions after which an episode is truncated, by Gymnasium's TimeLimit or by the task."""
    if not isinstance(vector, SyncVectorEnv):
        spec = vector.spec
        limit = getattr(vector.unwrapped, "episode_steps", None)
        return (spec.max_episode_steps if spec else None) or limit
    environment = vector.envs[0]
    while isinstance(environment, gym.Wrapper):
        if isinstance(environment, gym.wrappers.TimeLimit):
            return int(environment._max_episode_steps)
        environment = environment.env
    # only for a multi-agent environment: a user's environment may have another meaning for this name
    return environment.episode_steps if isinstance(environment, MultiAgentEnv) else None


def _try(vector: VectorEnv, env: str, actions: np.ndarray) -> None:
    """Reset and step a task once.

    Raises
    ------
    ConfigError
        If every attempt fails, so that nothing can be learned from it.
    """
    for _ in range(_FIRST_TRIES):
        try:
            _, infos = vector.reset(seed=0)
            *_, infos = vector.step(actions)
        except FailureError as error:
            raise ConfigError(f"env = {env!r}: {error}") from error
        failure = failures_of(infos, 1)[0]
        if not failure:
            return
    raise ConfigError(f"env = {env!r}: {failure}")


def final_observations(infos: dict[str, Any], ended: np.ndarray) -> np.ndarray:
    """Return the last observations of the ended episodes.

    Parameters
    ----------
    infos
        Infos returned by ``step`` of a vector environment.
    ended
        Which environments ended, bool of shape (n,).

    Returns
    -------
    np.ndarray
        float32 of shape (number ended, S), or (number ended, N, S), in the order of the environments.
    """
    return np.stack([np.asarray(infos["final_obs"][i], np.float32) for i in np.flatnonzero(ended)])
