"""A trained policy alone: for evaluation, films and snapshots before training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from rl_agent import joint
from rl_agent.algorithms import make_actor
from rl_agent.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from rl_agent.config import AgentConfig
from rl_agent.exploration import draw_action
from rl_agent.scaling import ActionMap, ChoiceMap, Sizes

__all__ = ["Policy"]

F32 = npt.NDArray[np.float32]

PARTS = ("algorithm/weights", "state/mean", "state/per_std", "action/low", "action/high")
AVERAGE = "average"
"""In the checkpoint of a learner that averages its policy: the weights to take in place of the newest."""


class Policy:
    """Maps observations to actions with fixed weights.

    Parameters
    ----------
    config
        Settings of the learner that it comes from.
    sizes
        Of the task.
    weights
        Flat weights, those that act first.
    state_mean, state_per_std
        Frozen statistics of the states, shape (S,).
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
        self.config, self.sizes = config, sizes
        actor = make_actor(config, sizes)
        if len(weights) < actor.size:
            raise ValueError(f"{len(weights)} weights do not fit the policy's {actor.size}")
        self._weights = actor.at_rest(weights)
        self._state_shape = actor.network.state_shape
        self._act = actor.bind(self._weights)
        self._mean, self._per_std, self._action_map = state_mean, state_per_std, action_map

    def __reduce__(self) -> tuple[type[Policy], tuple[object, ...]]:
        """Be copied and pickled by what it is made of."""
        parts = self._weights, self._mean, self._per_std, self._action_map
        return Policy, (self.config, self.sizes, *parts)

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read the policy of a checkpoint, without its memory, or one that was saved alone.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        CheckpointError
            If it is damaged or not a checkpoint.
        """
        arrays, meta = read_checkpoint(path, lambda name: name in (*PARTS, AVERAGE))
        try:
            config = AgentConfig.model_validate(meta["config"])
            weights, mean, per_std, low, high = (arrays[name] for name in PARTS)
            weights = arrays.get(AVERAGE, weights)
            sizes = Sizes(len(mean), len(low), meta["choices"], meta.get("world", 1))
            action_map = (
                ChoiceMap(int(low[0]), sizes.choices)
                if sizes.choices
                else ActionMap(low, high, config.squash)
            )
            return cls(config, sizes, weights, mean, per_std, action_map)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"checkpoint {path} does not fit together: {error!r}") from error

    def save(self, path: Path) -> None:
        """Write the policy alone, some kilobytes that :meth:`load` reads; no learner can go on from them.

        Raises
        ------
        OSError
            If it cannot be written; an older file at ``path`` is then untouched.
        """
        parts = (
            self._weights,
            self._mean,
            self._per_std,
            self._action_map.low,
            self._action_map.high,
        )
        meta = {
            "config": self.config.model_dump(mode="json"),
            "choices": self.sizes.choices,
            "world": self.sizes.world,
        }
        write_checkpoint(path, dict(zip(PARTS, parts, strict=True)), meta)

    def initial_state(self, n: int) -> F32:
        """Recurrent states at the start of n episodes, shape (n, state size); empty rows for an mlp."""
        return np.zeros((n, self.sizes.world * self._state_shape[0]), np.float32)

    def act(
        self,
        observations: npt.ArrayLike,
        state: F32,
        *,
        deterministic: bool,
        rng: np.random.Generator | None = None,
    ) -> tuple[F32, F32]:
        """Actions and next states for n observations.

        Parameters
        ----------
        observations
            Shape (n, S), unscaled; joint ones of worlds (``rl_agent/joint.py``), and so are the actions then.
        state
            From ``initial_state`` or the previous call, shape (n, state size).
        deterministic
            Whether to take the mean (of discrete actions the likeliest) instead of a draw.
        rng
            Source of the draws; needed unless deterministic.

        Returns
        -------
        actions
            In the task's units, clipped to its bounds, shape (n, A); discrete ones as numbers, shape (n, 1).
        state
            For the next call.

        Raises
        ------
        ValueError
            If a draw is wanted without ``rng``.
        """
        seen = np.asarray(observations, np.float32)
        n = len(seen)
        if self.sizes.world > 1:
            seen, state = (
                joint.unpack(seen, self.sizes.world)[0],
                state.reshape(n * self.sizes.world, state.shape[1] // self.sizes.world),
            )
        scaled = (seen - self._mean) * self._per_std
        _, mean, std, following = self._act(scaled, state)
        if not deterministic:
            if rng is None:
                raise ValueError("rng = None is only allowed with deterministic = True")
            raw = draw_action(mean, std, rng, clipped=self.config.is_clipped)
        elif self.sizes.choices:
            raw = mean.argmax(axis=1)[:, None].astype(np.float32)
        else:
            raw = mean
        actions = np.clip(self._action_map(raw), self._action_map.low, self._action_map.high)
        return actions.reshape(n, -1), following.reshape(n, self.sizes.world * self._state_shape[0])
