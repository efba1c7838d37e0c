"""Interface of the samplers to the learner."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_agent.replay.batch import Source
from rl_agent.replay.storage import EpisodeStorage

__all__ = ["SampledBatch", "Sampler", "effective_share"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class SampledBatch(NamedTuple):
    """Results of an update for its sampled steps.

    Attributes
    ----------
    source
        Memory and scales of the steps.
    indices
        Ring indices of the steps, shape (B,).
    td_error
        Value target minus value, shape (B,).
    value
        V(s_t) or Q(s_t, a_t), shape (B,).
    priority
        Its absolute value is the priority in a prioritised sampler, shape (B,); usually equal to ``td_error``.
    """

    source: Source
    indices: I64
    td_error: F32
    value: F32
    priority: F32


def effective_share(chances: npt.NDArray[np.float64]) -> float:
    """Return (sum p)^2 / (n sum p^2) for n unnormalised probabilities p: 1 if all are equal, 1/n if one dominates.

    This is Kish's effective sample size divided by n; NaN if n is 0.
    """
    if len(chances) == 0:
        return math.nan
    return float(chances.sum() ** 2 / (len(chances) * (chances**2).sum()))


class Sampler:
    """Base class of samplers, which choose steps and may learn from the results which to choose more often.

    All random numbers come from the generators passed as arguments.
    """

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        raise NotImplementedError

    def weights(self, indices: I64, correction: float) -> F32 | None:
        """Return importance-sampling weights of sampled steps, shape (B,); ``None`` if all are 1.

        Parameters
        ----------
        indices
            Ring indices of the steps, shape (B,).
        correction
            Exponent of the correction for unequal probabilities, 0 to 1.
        """
        return None

    def learn(self, sampled: SampledBatch) -> None:
        """Process the results of an update for its sampled steps; does nothing by default."""

    def reward(self, source: Source, change: float, rng: np.random.Generator) -> None:
        """Process the replay reward, the change of the agent's performance since the last call; nothing by default."""

    def effective_share(self, storage: EpisodeStorage) -> float | None:
        """Return the effective fraction of the memory that is sampled; ``None`` for a sampler without weights."""
        return None

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``; none by default."""
        return {}

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``; the storage has already been restored."""
