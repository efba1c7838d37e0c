"""What the learner asks of whoever chooses the steps to learn from; it does not know which one it is."""

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
    """What an update found out about the steps that it was made of.

    Attributes
    ----------
    source
        Where everything else about them is found.
    indices
        Their ring indices, shape (B,).
    td_error
        Target of the value minus the value, shape (B,).
    value
        V(s_t) or Q(s_t, a_t), shape (B,).
    priority
        Its size is that of the priority of a prioritised sampler, shape (B,); mostly ``td_error`` itself.
    """

    source: Source
    indices: I64
    td_error: F32
    value: F32
    priority: F32


def effective_share(chances: npt.NDArray[np.float64]) -> float:
    """Return (sum p)^2 / (n sum p^2) of n chances p up to a factor: 1 where all are alike, 1/n where one is all.

    That is Kish's effective sample size over n; NaN where there is no step.
    """
    if len(chances) == 0:
        return math.nan
    return float(chances.sum() ** 2 / (len(chances) * (chances**2).sum()))


class Sampler:
    """Chooses steps, and may learn from what became of them which to choose more often.

    All of its random numbers come from the generator that it is handed.
    """

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Ring indices of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        raise NotImplementedError

    def weights(self, indices: I64, correction: float) -> F32 | None:
        """Importance-sampling weights of sampled steps, shape (B,); ``None`` where all are 1.

        Parameters
        ----------
        indices
            Their ring indices, shape (B,).
        correction
            How far the weights make up for unequal chances, 0 to 1.
        """
        return None

    def learn(self, sampled: SampledBatch) -> None:
        """Take what an update found out about sampled steps; nothing by default."""

    def reward(self, source: Source, change: float, rng: np.random.Generator) -> None:
        """Take the replay reward, the change of the agent's performance since the last one; nothing by default."""

    def effective_share(self, storage: EpisodeStorage) -> float | None:
        """Part of the memory that samples are as good as uniform over; ``None`` from a sampler without weights."""
        return None

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs; none by default."""
        return {}

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``; the storage is the restored one."""
