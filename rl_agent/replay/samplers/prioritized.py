"""Prioritised experience replay (Schaul et al. 2016): steps with larger errors are sampled more often.

    P(i) = p_i^alpha / sum_k p_k^alpha,    w_i = ( N P(i) )^-beta / max_j w_j                    (eq. 1 and section 3.4)

with p_i = |delta_i| + epsilon (proportional) or p_i = 1 / rank(i) (rank-based). New steps get the largest priority
so far, so that each is sampled soon. alpha is 0.6 or 0.7, as in the paper. beta is given by the learner
(``importance_exponent``, ``importance_steps``). Difference from the paper: the maximum of the weights is over the
batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.samplers.sampler import SampledBatch, Sampler, effective_share
from rl_agent.replay.storage import EpisodeStorage
from rl_agent.runtime.jit import compiled

__all__ = ["ProportionalSampler", "RankSampler"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

EPSILON = 1e-6
"""Added to errors so that steps without an error can still be sampled."""
SORT_INTERVAL = 100
"""Number of samples between two sorts by rank, while the memory does not change."""


class _Priorities:
    """Errors of the stored steps, synchronised with the memory.

    Attributes
    ----------
    error
        |delta| + epsilon at each ring index, 0 where nothing is stored, shape (capacity,).
    largest
        Largest error so far.
    begin, end
        Ids of the oldest known step and of the next step to be stored.
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        self.exponent = exponent
        self.error: F64 = np.zeros(capacity)
        self.largest = 1.0
        self.begin = self.end = 0

    def follow(self, storage: EpisodeStorage) -> I64:
        """Synchronise with steps that were stored and removed; return the ring indices that changed."""
        if storage.size == 0:
            raise ValueError("cannot sample from an empty memory: it holds 0 steps")
        begin, end, capacity = storage.oldest_step_id, storage.added, storage.capacity
        # the step with id n has the ring index (tail + n - begin) mod capacity
        offset = storage.tail - begin
        gone = np.arange(self.begin, min(begin, self.end))
        new = np.arange(max(self.end, begin), end)
        gone, new = (gone + offset) % capacity, (new + offset) % capacity
        self.begin, self.end = begin, end
        self.error[gone] = 0.0
        self.error[new] = self.largest
        return np.concatenate([gone, new])

    def take(self, indices: I64, errors: F32) -> None:
        """Store new errors of sampled steps."""
        self.error[indices] = np.abs(errors.astype(np.float64)) + EPSILON
        self.largest = max(self.largest, float(self.error[indices].max()))

    def save(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "error": self.error,
            "largest": np.array(self.largest),
            "range": np.array([self.begin, self.end]),
        }

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.error[:] = arrays["error"]
        self.largest = float(arrays["largest"])
        self.begin, self.end = (int(number) for number in arrays["range"])


def _corrected(share: F64, correction: float) -> F32:
    """Compute importance-sampling weights from N P(i) of the sampled steps."""
    weight = share**-correction
    return (weight / weight.max()).astype(np.float32)


class ProportionalSampler(Sampler):
    """Samples with P ~ |delta|^alpha using a sum tree, one step from each of equal ranges of the sum (appendix B.2.1).

    Parameters
    ----------
    capacity
        Capacity of the memory.
    exponent
        Priority exponent alpha.
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        self._priorities = _Priorities(capacity, exponent)
        self._leaves = 1 << (capacity - 1).bit_length()
        self._tree: F64 = np.zeros(2 * self._leaves)
        self._steps = 0

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        self._follow(storage)
        marks = (np.arange(batch) + rng.random(batch)) / batch * self._tree[1]
        return _find(self._tree, self._leaves, marks)

    def weights(self, indices: I64, correction: float) -> F32:
        """Return importance-sampling weights of sampled steps, shape (B,)."""
        return _corrected(
            self._tree[self._leaves + indices] / self._tree[1] * self._steps, correction
        )

    def learn(self, sampled: SampledBatch) -> None:
        """Store the errors of sampled steps."""
        self._priorities.take(sampled.indices, sampled.priority)
        self._update(sampled.indices)

    def effective_share(self, storage: EpisodeStorage) -> float:
        """Return the effective fraction of the memory that is sampled, as of the last sample."""
        chances = self._tree[self._leaves + storage.indices()]
        return effective_share(chances[chances > 0.0])  # newer steps have none yet

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        return self._priorities.save()

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``."""
        self._priorities.restore(arrays)
        self._update(np.arange(storage.capacity))

    def _follow(self, storage: EpisodeStorage) -> I64:
        """Synchronise with steps that were stored and removed; return the ring indices that changed."""
        changed = self._priorities.follow(storage)
        self._update(changed)
        self._steps = storage.size
        return changed

    def _update(self, indices: I64) -> None:
        # 0 to the power 0 would be 1, but indices without a step must have priority 0
        error = self._priorities.error[indices]
        _set(
            self._tree,
            self._leaves,
            indices,
            np.where(error > 0.0, error**self._priorities.exponent, 0.0),
        )


class RankSampler(Sampler):
    """Samples with P ~ 1 / rank^alpha, one step from each of equally likely ranges of ranks (section 3.3).

    Steps are sorted after every ``SORT_INTERVAL`` samples, and whenever the memory has changed.

    Parameters
    ----------
    capacity
        Capacity of the memory.
    exponent
        Priority exponent alpha.
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        self._priorities = _Priorities(capacity, exponent)
        self._order: I64 = np.zeros(0, np.int64)
        self._until: F64 = np.zeros(0)
        self._rank: I64 = np.zeros(capacity, np.int64)
        self._samples = 0

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if len(self._priorities.follow(storage)) > 0 or self._samples % SORT_INTERVAL == 0:
            indices = storage.indices()
            self._sort(indices[np.argsort(-self._priorities.error[indices], kind="stable")])
        self._samples += 1
        marks = (np.arange(batch) + rng.random(batch)) / batch * self._until[-1]
        return self._order[
            np.minimum(np.searchsorted(self._until, marks, side="right"), len(self._order) - 1)
        ]

    def weights(self, indices: I64, correction: float) -> F32:
        """Return importance-sampling weights of sampled steps, shape (B,)."""
        likelihood = (self._rank[indices] + 1.0) ** -self._priorities.exponent / self._until[-1]
        return _corrected(likelihood * len(self._order), correction)

    def learn(self, sampled: SampledBatch) -> None:
        """Store the errors of sampled steps."""
        self._priorities.take(sampled.indices, sampled.priority)

    def effective_share(self, storage: EpisodeStorage) -> float:
        """Return the effective fraction of the memory that is sampled, as of the last sample."""
        return effective_share(np.diff(self._until, prepend=0.0))

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        return self._priorities.save() | {"order": self._order, "draws": np.array(self._samples)}

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``."""
        self._priorities.restore(arrays)
        self._samples = int(arrays["draws"])
        self._sort(arrays["order"].astype(np.int64))

    def _sort(self, order: I64) -> None:
        self._order = order
        self._until = np.cumsum(np.arange(1.0, len(order) + 1.0) ** -self._priorities.exponent)
        self._rank[order] = np.arange(len(order))


@compiled()
def _set(tree: F64, leaves: int, indices: I64, values: F64) -> None:
    """Set leaves of a sum tree and update the sums above them; node k has the children 2 k and 2 k + 1."""
    for b in range(indices.shape[0]):
        k = leaves + indices[b]
        tree[k] = values[b]
        k >>= 1
        while k >= 1:
            # recompute the sum instead of adding a difference, so that round-off does not accumulate
            tree[k] = tree[2 * k] + tree[2 * k + 1]
            k >>= 1


@compiled()
def _find(tree: F64, leaves: int, marks: F64) -> I64:
    """Find the leaves in which the cumulative sum passes each of ``marks``."""
    out = np.empty(marks.shape[0], np.int64)
    for b in range(marks.shape[0]):
        k, mark = 1, marks[b]
        while k < leaves:
            k *= 2
            # never descend into an empty right branch, even if round-off suggests it
            if mark >= tree[k] and tree[k + 1] > 0.0:
                mark -= tree[k]
                k += 1
        out[b] = k - leaves
    return out
