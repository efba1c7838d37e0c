"""Multi-agent environments with Gymnasium's interface, whose arrays have an axis of agents.

Observations have shape (N, S) and actions (N, A), in a batch (E, N, S) and (E, N, A). The reward is the mean over the
agents, and the infos contain the reward of each agent (``rl_agent/multi_agent/outcomes.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from coupling.worker.guard import (
    FailureError,
    checked_flag,
    checked_parts,
    checked_reward,
    place_of,
)
from coupling.worker.spaces import (
    NotOfSpaceError,
    Numbered,
    flat_actions,
    flat_observations,
)
from rl_agent.multi_agent.outcomes import AGENT_ENDED, AGENT_REWARDS

__all__ = ["MultiAgentBatch", "MultiAgentEnv", "space_of_one"]

_SINGLE = "it has a single agent; use its Gymnasium version"


class MultiAgentEnv(gym.Env[np.ndarray, np.ndarray]):
    """Environment with the parallel interface of PettingZoo, in which all agents have the same spaces.

    Agents that have ended count as 0 in the mean reward. The episode is terminated when all have reached a terminal
    state, and truncated when the environment ends otherwise.

    Parameters
    ----------
    make
        Function that creates the environment, which has ``possible_agents``, ``observation_space(agent)``,
        ``action_space(agent)``, ``reset(seed)`` and ``step(actions)``.
    options
        Its keyword arguments. ``max_cycles`` among them is the longest episode.

    Attributes
    ----------
    agents_per_env
        Number of agents (N).
    episode_steps
        Longest episode in steps, if known.
    own_spaces
        Observation and action space of one agent, before flattening.

    Raises
    ------
    ValueError
        If it has one agent, its agents differ, or their spaces cannot be flattened (``ConfigError``).
    """

    def __init__(self, make: Callable[..., Any], options: dict[str, Any]) -> None:
        self._inner = make(**options)
        self.metadata = dict(getattr(self._inner, "metadata", {}))
        self.render_mode = options.get("render_mode")
        self._names: list[Any] = list(self._inner.possible_agents)
        self.agents_per_env = len(self._names)
        self.episode_steps = options.get("max_cycles", getattr(self._inner, "max_cycles", None))
        if not self._names:
            raise ValueError("its possible_agents is empty")
        observations = [self._inner.observation_space(name) for name in self._names]
        actions = [self._inner.action_space(name) for name in self._names]
        if self.agents_per_env == 1:
            raise ValueError(_SINGLE)
        if any(space != observations[0] for space in observations) or any(
            space != actions[0] for space in actions
        ):
            raise ValueError(
                "its agents have different spaces, but one policy acts for all of them"
            )
        self.own_spaces = observations[0], actions[0]
        self._encode: Callable[[Any], np.ndarray] = np.asarray
        seen: gym.spaces.Box = observations[0]
        if (flat := flat_observations(seen)) is not None:
            seen, self._encode = flat
        acting, self._decode = actions[0], _as_it_is(actions[0])
        self.observation_space = _of_all(seen, self.agents_per_env)
        self._shape = self.agents_per_env, seen.shape[0]
        if isinstance(acting, gym.spaces.Discrete):
            self.action_space = Numbered(acting, (self.agents_per_env,))
        else:
            acting, self._decode = flat_actions(acting) or (acting, self._decode)
            self.action_space = _of_all(acting, self.agents_per_env)

    @property
    def own_env(self) -> Any:
        """The environment itself, without wrappers."""
        return getattr(self._inner, "unwrapped", self._inner)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Begin an episode of all agents.

        Raises
        ------
        FailureError
            If it returns no observation for an agent, or one that is not in its space.
        """
        given = self._inner.reset(seed=seed, options=options)
        self._gone = np.zeros(self.agents_per_env, np.bool_)
        self._seen = np.zeros(self._shape)
        with self._placed("reset"):
            seen, _ = checked_parts(given, "reset")
            self._take(_of_each(seen, self._names, "reset", "observation"), "reset")
        return self._shown(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step all active agents together.

        Raises
        ------
        FailureError
            If it returns nothing for an active agent, or values that cannot be learned from.
        RuntimeError
            If an agent is truncated while others continue, because its value could not be bootstrapped there.
        """
        each = dict(zip(self._names, np.asarray(action), strict=True))
        there = list(self._inner.agents)
        given = self._inner.step({name: self._decode(each[name]) for name in there})
        with self._placed("step"):
            rewards, cut = self._taken_apart(given, there)
        is_over = not self._inner.agents or bool((cut | self._gone).all())
        left = cut | [name in there and name not in self._inner.agents for name in self._names]
        left &= ~self._gone
        if left.any() and not is_over:
            index = int(left.argmax())
            how = "is truncated" if cut[index] else "leaves without being terminated"
            raise RuntimeError(
                f"{self._names[index]} {how} while others of its environment continue, which cannot be learned from"
            )
        ended = bool(self._gone.all())
        told = {AGENT_REWARDS: rewards, AGENT_ENDED: self._gone}
        return self._shown(), float(rewards.mean()), ended, is_over and not ended, told

    def render(self) -> Any:
        """Return the environment's own frame or frames."""
        return self._inner.render()

    def close(self) -> None:
        """Close the environment."""
        self._inner.close()

    @contextlib.contextmanager
    def _placed(self, name: str) -> Iterator[None]:
        """Add the place in the environment's code to a failure."""
        try:
            yield
        except NotOfSpaceError as error:
            sentence = f"its {name}() returned an observation that is {error}"
            raise FailureError(f"{sentence}{place_of(self, name)}") from error
        except FailureError as error:
            raise FailureError(f"{error}{place_of(self, name)}") from error.__cause__

    def _taken_apart(self, given: Any, there: list[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Record the observations and ended agents of a step; return rewards and truncated agents, shapes (N,)."""
        seen, paid, terminated, truncated, _ = checked_parts(given, "step")
        paid = _of_each(paid, there, "step", "reward")
        ends, cuts = (
            {
                name: checked_flag(flag, what)
                for name, flag in _of_each(flags, there, "step", what).items()
                if name in there
            }
            for flags, what in ((terminated, "terminated"), (truncated, "truncated"))
        )
        # the observation of a terminal state may be missing
        looking = [name for name in there if not ends[name]]
        self._take(_of_each(seen, looking, "step", "observation"), "step")
        each = [checked_reward(paid[name]) if name in there else 0.0 for name in self._names]
        rewards = np.where(self._gone, 0.0, each)
        self._gone = self._gone | [ends.get(name, False) for name in self._names]
        return rewards, ~self._gone & [cuts.get(name, False) for name in self._names]

    def _take(self, seen: Mapping[Any, Any], method: str) -> None:
        """Record the agents' observations; an agent that has ended keeps its last one."""
        for number, name in enumerate(self._names):
            if name not in seen or self._gone[number]:
                continue
            own = np.asarray(self._encode(seen[name]))
            if own.shape != self._shape[1:]:
                raise FailureError(
                    f"its {method}() returned an observation of shape {own.shape} for {name}, but its "
                    f"observation_space has {self._shape[1:]}"
                )
            try:
                self._seen[number] = own
            except (TypeError, ValueError) as error:
                raise FailureError(
                    f"its {method}() returned an observation of {own.dtype} for {name}, but it must be numbers"
                ) from error

    def _shown(self) -> np.ndarray:
        """Return the agents' observations; numbers too large for single precision become infinite."""
        with np.errstate(over="ignore"):
            return np.asarray(self._seen, np.float32)


class MultiAgentBatch(VectorWrapper):
    """Multi-agent environments that step together in one batch.

    Parameters
    ----------
    batch
        A batch that resets within the step that ends an episode, which ends for all agents at once. Its observations
        and actions are those of its agents, concatenated, and ``infos["rewards"]`` has the reward of each agent.
    agents
        Number of agents in an environment (N).

    Attributes
    ----------
    agents_per_env, own_spaces
        As in :class:`MultiAgentEnv`.

    Raises
    ------
    ValueError
        If it has one agent.
    """

    def __init__(self, batch: VectorEnv, agents: int) -> None:
        super().__init__(batch)
        if agents == 1:
            raise ValueError(_SINGLE)
        self.agents_per_env = agents
        own = [
            _share(space, agents)
            for space in (batch.single_observation_space, batch.single_action_space)
        ]
        self.own_spaces = own[0], own[1]
        self.single_observation_space, self.single_action_space = (
            _of_all(space, agents) for space in own
        )
        self.observation_space = batch_space(self.single_observation_space, batch.num_envs)
        self.action_space = batch_space(self.single_action_space, batch.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in all environments."""
        seen, infos = self.env.reset(seed=seed, options=options)
        return self._apart(seen), infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Step the agents of all environments together."""
        given = self.env.step(np.asarray(actions).reshape(self.num_envs, -1))
        seen, rewards, terminated, truncated, infos = given
        own = {AGENT_REWARDS: infos["rewards"], AGENT_ENDED: np.zeros(self._shape, bool)}
        if (over := terminated | truncated).any():
            last = np.array(infos["final_obs"], object)
            for index in np.flatnonzero(over):
                last[index] = self._apart(last[index][None])[0]
            ended = np.broadcast_to(terminated[:, None], self._shape)
            paid = {AGENT_REWARDS: infos["final_info"]["rewards"], AGENT_ENDED: ended}
            own |= {"final_obs": last, "final_info": infos["final_info"] | paid}
        return self._apart(seen), rewards, terminated, truncated, infos | own

    @property
    def _shape(self) -> tuple[int, int]:
        return self.num_envs, self.agents_per_env

    def _apart(self, seen: np.ndarray) -> np.ndarray:
        """Reshape the observations of environments from (n, N S) to (n, N, S)."""
        return np.asarray(seen, np.float32).reshape(len(seen), self.agents_per_env, -1)


def space_of_one(space: gym.spaces.Box) -> gym.spaces.Box:
    """Return the space of one agent, from the space of all agents of an environment."""
    return gym.spaces.Box(space.low[0], space.high[0], dtype=np.float32)


def _of_all(own: gym.spaces.Box, agents: int) -> gym.spaces.Box:
    """Return the space of all agents of an environment, shape (N, ...)."""
    low, high = (np.stack([bounds] * agents) for bounds in (own.low, own.high))
    with np.errstate(over="ignore"):  # bounds beyond single precision become infinite
        return gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def _share(space: gym.Space, agents: int) -> gym.spaces.Box:
    """Return the space of one of several agents, from their concatenated space."""
    assert isinstance(space, gym.spaces.Box)
    size = space.shape[0] // agents
    return gym.spaces.Box(space.low[:size], space.high[:size], dtype=np.float32)


def _of_each(given: Any, names: list[Any], method: str, what: str) -> Mapping[Any, Any]:
    """Return the values of a call by agent, after checking that all of ``names`` have one.

    Raises
    ------
    FailureError
        If one is missing.
    """
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise FailureError(
            f"its {method}() returned {what} as {kind}, but it must be a dict with one entry per agent"
        )
    for name in names:
        if name not in given:
            raise FailureError(f"its {method}() returned no {what} for {name}, which has not ended")
    return given


def _as_it_is(space: gym.Space) -> Callable[[np.ndarray], Any]:
    """Return the decoder of actions of a space that is already flat."""
    if isinstance(space, gym.spaces.Discrete):
        return lambda numbers: int(np.rint(numbers[0]))
    return lambda numbers: numbers.astype(space.dtype)
