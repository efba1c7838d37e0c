"""Environments of several agents as environments of one joint agent (``rl_agent/multi_agent/joint.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from coupling.worker.guard import FailureError, checked_reward, place_of
from coupling.worker.spaces import flat_actions, flat_observations
from rl_agent.multi_agent.joint import joint_actions, joint_observations, pack

__all__ = ["JointBatch", "JointEnv"]


class JointEnv(gym.Env[np.ndarray, np.ndarray]):
    """An environment that follows the parallel interface of PettingZoo, in which all agents are of one kind.

    The reward is the mean over the agents; those that have ended count with 0. The episode is terminated when all have
    reached a terminal state, and truncated when the environment ends otherwise.

    Parameters
    ----------
    make
        Makes the environment; it names its agents (``possible_agents``) and gives ``observation_space(agent)`` and
        ``action_space(agent)``, ``reset(seed)`` and ``step(actions)``.
    options
        Its keyword arguments. ``max_cycles`` among them is taken as the longest episode.

    Attributes
    ----------
    joint_agents
        Number of agents (N).
    episode_steps
        Longest episode in steps, where it is known.
    own_spaces
        Observation and action space of one agent, as the environment has them.

    Raises
    ------
    ValueError
        If it has one agent, its agents are not alike, or their spaces cannot be made flat (``ConfigError``).
    """

    def __init__(self, make: Callable[..., Any], options: dict[str, Any]) -> None:
        self._inner = make(**options)
        self.metadata = dict(getattr(self._inner, "metadata", {}))
        self.render_mode = options.get("render_mode")
        self._names: list[Any] = list(self._inner.possible_agents)
        self.joint_agents = len(self._names)
        self.episode_steps = options.get("max_cycles", getattr(self._inner, "max_cycles", None))
        observations = [self._inner.observation_space(name) for name in self._names]
        actions = [self._inner.action_space(name) for name in self._names]
        if self.joint_agents == 1:
            raise ValueError("it has a single agent: take its Gymnasium form")
        if any(space != observations[0] for space in observations) or any(
            space != actions[0] for space in actions
        ):
            raise ValueError("its agents have different spaces, and one policy serves all of them")
        self.own_spaces = observations[0], actions[0]
        self._encode: Callable[[Any], np.ndarray] = np.asarray
        seen: gym.spaces.Box = observations[0]
        if (flat := flat_observations(seen)) is not None:
            seen, self._encode = flat
        acting, self._decode = actions[0], _as_it_is(actions[0])
        if not isinstance(acting, gym.spaces.Discrete):
            acting, self._decode = flat_actions(acting) or (acting, self._decode)
        self.observation_space = joint_observations(seen, self.joint_agents)
        self.action_space = joint_actions(acting, self.joint_agents)
        self._size = seen.shape[0]

    @property
    def own_env(self) -> Any:
        """The environment itself, without what wraps it."""
        return getattr(self._inner, "unwrapped", self._inner)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Begin an episode of all agents."""
        seen, _ = self._inner.reset(seed=seed, options=options)
        self._gone = np.zeros(self.joint_agents, np.bool_)
        self._seen = np.zeros((self.joint_agents, self._size))
        self._take(seen)
        return self._packed(np.zeros(self.joint_agents)), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Let the agents that are there act together.

        Raises
        ------
        RuntimeError
            If an agent is cut short while others go on: its value could not be known there.
        """
        each = dict(
            zip(self._names, np.asarray(action).reshape(self.joint_agents, -1), strict=True)
        )
        own = {name: self._decode(each[name]) for name in self._inner.agents}
        seen, given, terminated, truncated, _ = self._inner.step(own)
        self._take(seen)
        try:
            paid = [checked_reward(given.get(name, 0.0)) for name in self._names]
        except FailureError as error:
            raise FailureError(f"{error}{place_of(self, 'step')}") from error.__cause__
        rewards = np.where(self._gone, 0.0, paid)
        self._gone = self._gone | [bool(terminated.get(name, False)) for name in self._names]
        cut = ~self._gone & [bool(truncated.get(name, False)) for name in self._names]
        is_over = not self._inner.agents or bool((cut | self._gone).all())
        if cut.any() and not is_over:
            name = self._names[int(cut.argmax())]
            raise RuntimeError(
                f"{name} is truncated while others of its environment continue, which cannot be learned from"
            )
        ended = bool(self._gone.all())
        return self._packed(rewards), float(rewards.mean()), ended, is_over and not ended, {}

    def render(self) -> Any:
        """Return the environment's own picture, or its pictures."""
        return self._inner.render()

    def close(self) -> None:
        """Close the environment."""
        self._inner.close()

    def _take(self, seen: dict[Any, Any]) -> None:
        """Note what the agents see; one that has ended keeps what it saw last."""
        for number, name in enumerate(self._names):
            if name in seen and not self._gone[number]:
                self._seen[number] = self._encode(seen[name])

    def _packed(self, rewards: np.ndarray) -> np.ndarray:
        """Join what the agents see with their rewards; numbers too large for single precision become infinite."""
        with np.errstate(over="ignore"):
            return pack(self._seen, rewards, self._gone)


class JointBatch(VectorWrapper):
    """Environments of several agents that step together in one batch, each an environment of one joint agent.

    Parameters
    ----------
    batch
        A batch that resets within the step that ends an episode, which is one of all agents. Its observations and
        actions are those of its agents one after the other, and ``infos["rewards"]`` has the reward of each.
    agents
        How many agents an environment has (N).

    Attributes
    ----------
    joint_agents, own_spaces
        As of :class:`JointEnv`.
    """

    def __init__(self, batch: VectorEnv, agents: int) -> None:
        super().__init__(batch)
        self.joint_agents = agents
        seen = _share(batch.single_observation_space, agents)
        assert isinstance(seen, gym.spaces.Box)
        self.own_spaces = seen, _share(batch.single_action_space, agents)
        self.single_observation_space = joint_observations(seen, agents)
        self.observation_space = batch_space(self.single_observation_space, batch.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode everywhere."""
        seen, infos = self.env.reset(seed=seed, options=options)
        no = np.zeros((self.num_envs, self.joint_agents))
        return self._packed(seen, no, no), infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Let the agents of all environments act together."""
        seen, rewards, terminated, truncated, infos = self.env.step(actions)
        no = np.zeros((self.num_envs, self.joint_agents))
        over = terminated | truncated
        # of one that has begun again the rewards are those of its last action, which stand beside its last observation
        given = np.array(infos["rewards"], np.float64)
        if over.any():
            last = np.array(infos["final_obs"], object)
            for index in np.flatnonzero(over):
                paid = np.asarray(infos["final_info"]["rewards"])[index]
                ended = np.full(self.joint_agents, terminated[index])
                last[index] = self._packed(last[index][None], paid[None], ended[None])[0]
            infos["final_obs"] = last
            given[over] = 0.0
        return self._packed(seen, given, no), rewards, terminated, truncated, infos

    def _packed(self, seen: np.ndarray, rewards: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Join the observations of every environment, (B, N S), with rewards and ends, (B, N)."""
        each = seen.reshape(len(seen), self.joint_agents, -1)
        return np.stack([pack(*env) for env in zip(each, rewards, ended, strict=True)])


def _share(space: gym.Space, agents: int) -> gym.Space:
    """Return the space of one of several agents, whose spaces stand one after the other."""
    if isinstance(space, gym.spaces.MultiDiscrete):
        return gym.spaces.Discrete(int(space.nvec[0]))
    assert isinstance(space, gym.spaces.Box)
    size = space.shape[0] // agents
    return gym.spaces.Box(space.low[:size], space.high[:size], dtype=np.float32)


def _as_it_is(space: gym.Space) -> Callable[[np.ndarray], Any]:
    """Return what makes an action of a space that is flat already."""
    if isinstance(space, gym.spaces.Discrete):
        return lambda numbers: int(np.rint(numbers[0]))
    return lambda numbers: numbers.astype(space.dtype)
