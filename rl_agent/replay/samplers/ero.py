"""ERO (Zha et al. 2019, "Experience Replay Optimization"): uniform sampling from a learned subset of the memory.

    I_i     ~ Bernoulli( lambda_i ),    lambda_i = phi(f_i)                     first stage: which may be sampled
    B_s     = { i : I_i = 1 },  and a batch is sampled from B_s uniformly         second stage
    r_r     = return now - return before                                        replay reward
    dJ/dphi = r_r sum_j d[ I_j log phi_j + (1 - I_j) log(1 - phi_j) ] / dphi    over steps j sampled from all, uniformly

f_i are the reward, the TD error and the time of a step; phi has two hidden layers of 64 and a sigmoid. An update
takes a gradient step of phi and samples a new mask.

Defaults (NERS, table B.1): learning rate 1e-4, two layers of 64.

Differences from the paper, and details that it leaves open:

1. lambda of a step is updated when the step is sampled, from the TD error computed then. New steps have lambda = 1 and
   can be sampled before the next mask. A mask needs one random number per stored step.
2. Returns are those of training episodes, averaged over the last ``performance_window`` and as many before.
3. A gradient uses 128 steps, as in NERS; no gradient step is taken if the return has not changed.
4. If the mask excludes everything, all steps are sampled.
5. The features are bounded by tanh and scaled as in NERS (``rl_agent/replay/samplers/features.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.batch import Source
from rl_agent.replay.samplers.features import Features, TDStatistics
from rl_agent.replay.samplers.sampler import SampledBatch, Sampler, effective_share
from rl_agent.replay.samplers.score_network import ScoreNetwork
from rl_agent.replay.storage import EpisodeStorage

__all__ = ["EROSampler"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

NAMES = ("reward", "time", "td_error")
HIDDEN = (64, 64)


class EROSampler(Sampler):
    """Samples uniformly from a learned subset; see the module docstring.

    Parameters
    ----------
    capacity
        Capacity of the memory.
    learning_rate
        Learning rate of the network.
    steps
        Number of steps per update of the network.
    rng
        Samples the initial weights.

    Attributes
    ----------
    score
        lambda at each ring index, shape (capacity,).
    masked, masked_end
        Ids of the steps selected by the mask, ascending; all steps from ``masked_end`` on are newer than the mask.
    """

    def __init__(
        self, capacity: int, learning_rate: float, steps: int, rng: np.random.Generator
    ) -> None:
        self._features = Features(NAMES, Sizes(0, 0))
        self.network = ScoreNetwork(
            self._features.size, rng, local=False, has_context=False, hidden=HIDDEN
        )
        self._learning_rate, self._train_steps = learning_rate, steps
        self._td_statistics = TDStatistics(capacity)
        self.score: F32 = np.ones(capacity, np.float32)
        self.masked: I64 = np.zeros(0, np.int64)
        self.masked_end = 0
        self.evaluated_end = 0

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of ``batch`` steps, shape (batch,)."""
        if storage.size == 0:
            raise ValueError("cannot sample from an empty memory: it holds 0 steps")
        self._follow(storage)
        begin, end = storage.oldest_step_id, storage.added
        first = int(np.searchsorted(self.masked, begin))
        old, newest = len(self.masked) - first, max(begin, self.masked_end)
        if old + end - newest == 0:
            return storage.indices(rng.integers(begin, end, batch))
        at = rng.integers(0, old + end - newest, batch)
        step_ids = newest + at - old
        is_old = at < old
        step_ids[is_old] = self.masked[first + at[is_old]]
        return storage.indices(step_ids)

    def _follow(self, storage: EpisodeStorage) -> None:
        """Initialise the scores of steps added since the last call."""
        indices = storage.indices(
            np.arange(max(self.evaluated_end, storage.oldest_step_id), storage.added)
        )
        self.evaluated_end = storage.added
        self.score[indices] = 1.0
        self._td_statistics.forget(indices)

    def learn(self, sampled: SampledBatch) -> None:
        """Update lambda of sampled steps."""
        self._td_statistics.take(sampled)
        self.score[sampled.indices] = self.network(
            self._features(sampled.source, sampled.indices, self._td_statistics)
        )

    def reward(self, source: Source, change: float, rng: np.random.Generator) -> None:
        """Learn from the change of performance, and sample a new mask."""
        storage = source.memory.storage
        if storage.size == 0:
            return
        self._follow(storage)
        begin, end = storage.oldest_step_id, storage.added
        if change != 0.0:
            step_ids = rng.integers(begin, end, self._train_steps)
            phi = self.network(
                self._features(source, storage.indices(step_ids), self._td_statistics)
            )
            self.network.descend(
                -np.float32(change) * self.grad_log_mask(phi, step_ids), self._learning_rate
            )
        is_in = rng.random(storage.size, np.float32) < self.score[storage.indices()]
        self.masked, self.masked_end = begin + np.flatnonzero(is_in), end

    def effective_share(self, storage: EpisodeStorage) -> float:
        """Return the effective fraction of the memory that is sampled, as of the last sample."""
        known = np.arange(storage.oldest_step_id, min(storage.added, self.evaluated_end))
        return effective_share(self.score[storage.indices(known)].astype(np.float64))

    def grad_log_mask(self, phi: F32, step_ids: I64) -> F32:
        """Compute the gradient by phi of the mean of log P(I_j) over steps, shape (n,)."""
        at = np.searchsorted(self.masked, step_ids)
        is_in = step_ids >= self.masked_end
        inside = at < len(self.masked)
        is_in[inside] |= self.masked[at[inside]] == step_ids[inside]
        bounded = phi.clip(1e-6, 1.0 - 1e-6)
        return (np.where(is_in, 1.0 / bounded, -1.0 / (1.0 - bounded)) / len(phi)).astype(
            np.float32
        )

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        network = {f"network/{name}": array for name, array in self.network.save().items()}
        own: dict[str, npt.NDArray[Any]] = {
            "score": self.score,
            "masked": self.masked,
            "ends": np.array([self.masked_end, self.evaluated_end]),
        }
        return self._td_statistics.save() | network | own

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``."""
        self._td_statistics.restore(arrays)
        self.score[:] = arrays["score"]
        self.masked = arrays["masked"].astype(np.int64)
        self.masked_end, self.evaluated_end = (int(number) for number in arrays["ends"])
        begin = "network/"
        self.network.restore(
            {n.removeprefix(begin): array for n, array in arrays.items() if n.startswith(begin)}
        )
