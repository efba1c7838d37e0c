"""A trained policy without its learner, for acting, evaluation, films and export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.making import make_actor
from rl_agent.config import AgentConfig
from rl_agent.normalization.actions import (
    ActionMap,
    ChoiceMap,
    action_map_of,
    with_previous_action,
)
from rl_agent.normalization.spaces import Sizes, sizes_of
from rl_agent.rollout.exploration import sample_action
from rl_agent.saving.checkpoint import Arrays, made_from, read_checkpoint, write_checkpoint

__all__ = ["AVERAGE", "CHECKPOINT", "HANDED_OUT", "Policy", "agents_per_env_of", "own_spaces"]

F32 = npt.NDArray[np.float32]

PARTS = ("algorithm/weights", "state/mean", "state/per_std", "action/low", "action/high")

AVERAGE = "average"
"""Checkpoint entry of a learner that averages its policy: the weights to use instead of the newest."""

HANDED_OUT = "handed_out"
"""Checkpoint entry of a learner that hands out an earlier policy: its weights, to use instead of all others."""

CHECKPOINT = "checkpoint.npz"
"""Name of the file with the policy in the folder of a run or an agent."""


class Policy:
    """Maps observations to actions with fixed weights.

    Parameters
    ----------
    config
        Settings of the learner that trained it.
    sizes
        Sizes of the task.
    weights
        Flat weights, those of the actor first.
    state_mean, state_per_std
        Frozen mean and inverse standard deviation of the states, shape (S,).
    action_map
        Maps raw actions to the task's units.
    """

    def __init__(
        self,
        config: AgentConfig,
        sizes: Sizes,
        weights: F32,
        state_mean: F32,
        state_per_std: F32,
        action_map: ActionMap | ChoiceMap,
    ) -> None:
        self.config, self.sizes, self.action_map = config, sizes, action_map
        self.state_mean, self.state_per_std = state_mean, state_per_std
        actor = make_actor(config, sizes)
        if len(weights) < actor.size:
            raise ValueError(f"{len(weights)} weights do not fit the policy's {actor.size}")
        self.weights = actor.at_rest(weights)
        self._network_state = actor.network.state_shape[0]
        self.state_size = self._network_state + sizes.previous_action
        self._act = actor.bind(self.weights)
        self._act_greedily = actor.bind(actor.without_exploration(self.weights))

    def __reduce__(self) -> tuple[type[Policy], tuple[object, ...]]:
        """Copy and pickle by the arguments of the constructor."""
        parts = self.weights, self.state_mean, self.state_per_std, self.action_map
        return Policy, (self.config, self.sizes, *parts)

    @property
    def action_low(self) -> F32:
        """Lower bounds of the actions of an agent in the task's units, shape (A,)."""
        return self.action_map.low

    @property
    def action_high(self) -> F32:
        """Upper bounds of the actions of an agent in the task's units, shape (A,)."""
        return self.action_map.high

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy, without the replay memory.

        Parameters
        ----------
        path
            Checkpoint of a learner or file written by :meth:`save`, or the folder of a run or agent that contains one.

        Raises
        ------
        FileNotFoundError
            If the file does not exist.
        CheckpointError
            If the file is damaged or not a checkpoint.
        """
        path = Path(path)
        file = path / CHECKPOINT if path.is_dir() else path
        arrays, meta = read_checkpoint(file, lambda name: name in (*PARTS, AVERAGE, HANDED_OUT))
        with made_from(file):
            config = AgentConfig.model_validate(meta["config"])
            observed, acted = own_spaces(arrays, meta)
            weights, mean, per_std, *_ = (arrays[name] for name in PARTS)
            return cls(
                config,
                sizes_of(
                    observed, acted, agents_per_env_of(meta), previous_action=config.previous_action
                ),
                arrays.get(HANDED_OUT, arrays.get(AVERAGE, weights)),
                mean,
                per_std,
                action_map_of(acted, config.squash),
            )

    def save(self, path: str | Path) -> None:
        """Write the policy to a small file for :meth:`load`; training cannot be resumed from it.

        Parameters
        ----------
        path
            The file. ``flowsim evaluate`` and ``flowsim render`` accept a folder with this file, named
            ``checkpoint.npz``, and the ``config.yaml`` of its task.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file at ``path`` is then unchanged.
        """
        parts = self.weights, self.state_mean, self.state_per_std, self.action_low, self.action_high
        meta = {
            "config": self.config.model_dump(mode="json"),
            "choices": self.sizes.choices,
            "agents_per_env": self.sizes.agents_per_env,
        }
        write_checkpoint(Path(path), dict(zip(PARTS, parts, strict=True)), meta)

    def initial_state(self, n: int) -> F32:
        """Return the states for :meth:`act` at the start of n episodes; empty rows for a policy without a state."""
        return np.zeros((n, *self.sizes.agents_axis, self.state_size), np.float32)

    def act(
        self,
        observations: npt.ArrayLike,
        state: F32 | None = None,
        *,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[F32, F32]:
        """Compute actions and next states for n observations, or for a single one.

        Parameters
        ----------
        observations
            Unscaled observations, shape (n, S), or (S,) for a single one. With N agents per environment the shape is
            (n, N, S) or (N, S), and likewise for states and actions.
        state
            State from the previous call in the same episodes, shape (n, state size), or (state size,) for a single
            observation; ``None`` begins an episode.
        deterministic
            Whether to return the mean (of discrete actions the most likely one) instead of a sample.
        rng
            Random generator; required unless ``deterministic``.

        Returns
        -------
        actions
            Actions in the task's units, clipped to its bounds, shape (n, A); discrete actions are numbers, shape
            (n, 1). Without the first axis for a single observation.
        state
            State for the next call.

        Raises
        ------
        ValueError
            If a shape is wrong, or ``rng`` is missing.
        """
        seen = np.asarray(observations, np.float32)
        axis = self.sizes.agents_axis
        if is_single := seen.ndim == 1 + len(axis):
            seen = seen[None]
        n = len(seen) if seen.ndim else 0
        state = self.initial_state(n) if state is None else np.asarray(state, np.float32)
        if is_single and state.ndim == 1 + len(axis):
            state = state[None]
        self._check(np.shape(observations), seen, state)
        rows = seen.reshape(-1, self.sizes.seen)
        own_state = state.reshape(len(rows), self.state_size)
        if self.sizes.previous_action:
            own_state, before = np.split(own_state, [self._network_state], axis=1)
            rows = np.concatenate([rows, before], axis=1)
        scaled = (rows - self.state_mean) * self.state_per_std
        act = self._act_greedily if deterministic else self._act
        _, mean, std, following = act(scaled, own_state)
        if not deterministic:
            if rng is None:
                raise ValueError("rng = None is only allowed with deterministic = True")
            raw = sample_action(mean, std, rng, clipped=self.config.is_clipped)
        elif self.sizes.choices:
            raw = mean.argmax(axis=1)[:, None].astype(np.float32)
        else:
            raw = mean
        following = with_previous_action(following, raw, self.sizes, self.config.squash)
        actions = np.clip(self.action_map(raw), self.action_low, self.action_high)
        actions = actions.reshape(n, *axis, self.sizes.action)
        after = following.reshape(state.shape)
        return (actions[0], after[0]) if is_single else (actions, after)

    def _check(self, given: tuple[int, ...], seen: F32, state: F32) -> None:
        """Raise ``ValueError`` unless observations and states have the shapes that the policy was trained with."""
        axis = self.sizes.agents_axis
        of_one = *axis, self.sizes.seen
        if seen.ndim != 1 + len(of_one) or seen.shape[1:] != of_one:
            shape = f"(n, {', '.join(map(str, of_one))})"
            raise ValueError(
                f"observations of shape {given}, but this policy takes shape {shape} or {of_one}"
            )
        expected = (len(seen), *axis, self.state_size)
        if state.shape != expected:
            raise ValueError(
                f"a state of shape {state.shape}, but {expected} belongs to observations of shape {given}"
            )


def agents_per_env_of(meta: dict[str, Any]) -> int:
    """Return the number of agents per environment of a checkpoint; older ones have it under the key ``world``."""
    return int(meta.get("agents_per_env", meta.get("world", 1)))


def own_spaces(
    arrays: Arrays, meta: dict[str, Any]
) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box | gymnasium.spaces.Discrete]:
    """Return the observation and action space of one agent of a checkpoint's task."""
    size = len(arrays["state/mean"])
    if meta["config"].get("previous_action"):
        size -= meta["choices"] or len(arrays["action/low"])
    seen = (0.0, 255.0) if meta["config"]["network"] == "conv" else (-np.inf, np.inf)
    observation_space = gymnasium.spaces.Box(*seen, (size,), np.float32)
    low, high = arrays["action/low"], arrays["action/high"]
    if meta["choices"]:
        return observation_space, gymnasium.spaces.Discrete(meta["choices"], start=int(low[0]))
    return observation_space, gymnasium.spaces.Box(low, high, dtype=np.float32)
