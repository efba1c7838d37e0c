"""A trained policy alone: for evaluation, films and snapshots before training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from rl_agent import distributions
from rl_agent.checkpoint import CheckpointError, read_checkpoint
from rl_agent.config import AgentConfig
from rl_agent.networks import make_network
from rl_agent.scaling import ActionMap

__all__ = ["Policy"]

F32 = npt.NDArray[np.float32]

PARTS = ("weights", "state/mean", "state/per_std", "action/low", "action/high")


class Policy:
    """Maps observations to actions with fixed weights.

    Parameters
    ----------
    config
        Settings of the learner that it comes from.
    weights
        Flat weights, as of ``VRacer``.
    state_mean, state_per_std
        Frozen statistics of the states, shape (S,).
    action_map
        Maps raw actions to the task's units.
    """

    def __init__(
        self, config: AgentConfig, weights: F32, state_mean: F32, state_per_std: F32, action_map: ActionMap
    ) -> None:
        self.config = config
        self.observation_size = len(state_mean)
        self.action_size = len(action_map.low)
        self._network = make_network(config, self.observation_size, 1 + self.action_size)
        if len(weights) != self._network.size + self.action_size:
            raise ValueError(f"{len(weights)} weights do not fit the network's {self._network.size + self.action_size}")
        self._weights = self._network.views(weights)
        self.std = distributions.shared_std(weights[-self.action_size :], config.sigma_min)
        self._mean, self._per_std, self._action_map = state_mean, state_per_std, action_map

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read the policy of a checkpoint, without its memory.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        CheckpointError
            If it is damaged or not a checkpoint.
        """
        arrays, meta = read_checkpoint(path, lambda name: name in PARTS)
        try:
            config = AgentConfig.model_validate(meta["config"])
            weights, mean, per_std, low, high = (arrays[name] for name in PARTS)
            return cls(config, weights, mean, per_std, ActionMap(low, high, config.squash))
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"checkpoint {path} does not fit together: {error!r}") from error

    def initial_state(self, n: int) -> F32:
        """Recurrent states at the start of n episodes, shape (n, state size); empty rows for an mlp."""
        return np.zeros((n, *self._network.state_shape), np.float32)

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
            Shape (n, S), unscaled.
        state
            From ``initial_state`` or the previous call, shape (n, state size).
        deterministic
            Whether to take the mean instead of a draw.
        rng
            Source of the draws; needed unless deterministic.

        Returns
        -------
        actions
            In the task's units, clipped to its bounds, shape (n, A).
        state
            For the next call.

        Raises
        ------
        ValueError
            If a draw is wanted without ``rng``.
        """
        scaled = (np.asarray(observations, np.float32) - self._mean) * self._per_std
        outputs, following = self._network.step(self._weights, scaled, state)
        raw = outputs[:, 1:]
        if not deterministic:
            if rng is None:
                raise ValueError("rng = None is only allowed with deterministic = True")
            raw = distributions.draw(raw, self.std, rng)
        return np.clip(self._action_map(raw), self._action_map.low, self._action_map.high), following
