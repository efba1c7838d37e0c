"""Worlds of several agents as environments of one joint agent (``rl_agent/joint.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from rl_agent.joint import joint_actions, joint_observations, pack

__all__ = ["JointWorld"]


class JointWorld(gym.Env[np.ndarray, np.ndarray]):
    """A world that follows the parallel interface of PettingZoo, in which all agents are of one kind.

    The reward is the mean over the agents; those that have ended count with 0. The episode is terminated when all have
    reached a terminal state, and truncated when the world ends otherwise.

    Parameters
    ----------
    make
        Makes the world; it names its agents (``possible_agents``) and gives ``observation_space(agent)`` and
        ``action_space(agent)``, ``reset(seed)`` and ``step(actions)``.
    options
        Its keyword arguments. ``max_cycles`` among them is taken as the longest episode.

    Attributes
    ----------
    joint_agents
        Number of agents (N).
    episode_steps
        Longest episode in steps, where it is known.

    Raises
    ------
    ValueError
        If it has one agent, its agents are not alike, or their spaces are neither boxes nor, as actions, discrete.
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
        if not isinstance(observations[0], gym.spaces.Box):
            raise ValueError(f"its agents observe {observations[0]}, not a Box")
        self._own_actions = actions[0]
        self.observation_space = joint_observations(observations[0], self.joint_agents)
        self.action_space = joint_actions(actions[0], self.joint_agents)
        self._size = int(np.prod(observations[0].shape))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Begin an episode of all agents."""
        seen, _ = self._inner.reset(seed=seed, options=options)
        self._gone = np.zeros(self.joint_agents, np.bool_)
        self._seen = np.zeros((self.joint_agents, self._size), np.float32)
        self._take(seen)
        return pack(self._seen, np.zeros(self.joint_agents), self._gone), {}

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
        if isinstance(self._own_actions, gym.spaces.Discrete):
            own = {name: int(each[name][0]) for name in self._inner.agents}
        else:
            own = {name: each[name].astype(self._own_actions.dtype) for name in self._inner.agents}
        seen, given, terminated, truncated, _ = self._inner.step(own)
        self._take(seen)
        rewards = np.where(self._gone, 0.0, [float(given.get(name, 0.0)) for name in self._names])
        self._gone = self._gone | [bool(terminated.get(name, False)) for name in self._names]
        cut = ~self._gone & [bool(truncated.get(name, False)) for name in self._names]
        is_over = not self._inner.agents or bool((cut | self._gone).all())
        if cut.any() and not is_over:
            name = self._names[int(cut.argmax())]
            raise RuntimeError(
                f"{name} is truncated while others of its world go on, which cannot be learned from"
            )
        ended = bool(self._gone.all())
        return (
            pack(self._seen, rewards, self._gone),
            float(rewards.mean()),
            ended,
            is_over and not ended,
            {},
        )

    def render(self) -> Any:
        """Return the world's own picture, or its pictures."""
        return self._inner.render()

    def close(self) -> None:
        """Close the world."""
        self._inner.close()

    def _take(self, seen: dict[Any, Any]) -> None:
        """Note what the agents see; one that has ended keeps what it saw last."""
        for number, name in enumerate(self._names):
            if name in seen and not self._gone[number]:
                self._seen[number] = np.asarray(seen[name], np.float32).ravel()
