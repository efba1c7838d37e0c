"""ERO (Zha et al. 2019, "Experience Replay Optimization"): a learned mask over the memory, uniform samples beneath it.

    I_i     ~ Bernoulli( lambda_i ),    lambda_i = phi(f_i)                     first stage: who may be sampled
    B_s     = { i : I_i = 1 },  and a batch is sampled from B_s uniformly         second stage
    r_r     = return now - return before                                        replay reward
    dJ/dphi = r_r sum_j d[ I_j log phi_j + (1 - I_j) log(1 - phi_j) ] / dphi    over steps j sampled from all, uniformly

f_i are the reward, the TD error and the time of a step; phi has two hidden layers of 64 and a sigmoid. An update
makes a step of phi and a new mask.

Defaults (NERS, table B.1): learning rate 1e-4, two layers of 64.

Done otherwise, or not said there:

1. lambda of a step is renewed when the step is sampled, from the error found then; new steps have lambda = 1, and may
   be sampled when they come to the next mask. A mask costs a random number for every stored step.
2. Returns are those of training episodes, ``performance_window`` of them now and before.
3. 128 steps make the gradient, as in NERS; a change of zero makes no step.
4. Should the mask hide everything, all are sampled from.
5. The features are bounded by tanh and scaled as those of NERS (``rl_agent/replay/samplers/features.py``).
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
    """Samples uniformly from a learned subset; see the module.

    Parameters
    ----------
    capacity
        Of the memory.
    learning_rate
        Of the network.
    steps
        Steps that an update is learned from.
    rng
        Samples the first weights.

    Attributes
    ----------
    score
        lambda at each ring index, shape (capacity,).
    masked
        Running step_ids of the steps that the mask lets through, from the oldest on; all from ``masked_end`` on are
        newer than it.
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
        """Ring indices of ``batch`` steps, shape (batch,)."""
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
        """Notice what is new."""
        indices = storage.indices(
            np.arange(max(self.evaluated_end, storage.oldest_step_id), storage.added)
        )
        self.evaluated_end = storage.added
        self.score[indices] = 1.0
        self._td_statistics.forget(indices)

    def learn(self, sampled: SampledBatch) -> None:
        """Renew lambda of sampled steps."""
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
        """Part of the memory that masks are as good as uniform over, as of the last sample."""
        known = np.arange(storage.oldest_step_id, min(storage.added, self.evaluated_end))
        return effective_share(self.score[storage.indices(known)].astype(np.float64))

    def grad_log_mask(self, phi: F32, step_ids: I64) -> F32:
        """d/d(phi) of the mean of log P(I_j) over steps, shape (n,)."""
        at = np.searchsorted(self.masked, step_ids)
        is_in = step_ids >= self.masked_end
        inside = at < len(self.masked)
        is_in[inside] |= self.masked[at[inside]] == step_ids[inside]
        bounded = phi.clip(1e-6, 1.0 - 1e-6)
        return (np.where(is_in, 1.0 / bounded, -1.0 / (1.0 - bounded)) / len(phi)).astype(
            np.float32
        )

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        network = {f"network/{name}": array for name, array in self.network.save().items()}
        own: dict[str, npt.NDArray[Any]] = {
            "score": self.score,
            "masked": self.masked,
            "ends": np.array([self.masked_end, self.evaluated_end]),
        }
        return self._td_statistics.save() | network | own

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``."""
        self._td_statistics.restore(arrays)
        self.score[:] = arrays["score"]
        self.masked = arrays["masked"].astype(np.int64)
        self.masked_end, self.evaluated_end = (int(number) for number in arrays["ends"])
        begin = "network/"
        self.network.restore(
            {n.removeprefix(begin): array for n, array in arrays.items() if n.startswith(begin)}
        )
