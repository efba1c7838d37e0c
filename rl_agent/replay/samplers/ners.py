"""NERS (Oh et al. 2021, "Learning to Sample with Local and Global Contexts in Experience Replay Buffers").

A network scores sampled steps, each in the context of the others, and the scores become their new priorities:

    p_i       = sigma_i^alpha / sum_k sigma_k^alpha                                 probability of a step (eq. 1)
    D(I)      = { s, a, r, s', kappa, delta, r + gamma max_a Q~(s', a) } of the sampled steps I               (eq. 2)
    { sigma } = f_s( f_l(D), mean of f_g(D) )                                                      (eqs. 3 and 4)
    w_i       = ( 1 / (|B| p_i) )^beta                                                   importance weights (eq. 5)
    r_re      = return now - return before                                               replay reward (eq. 6)
    dJ/dphi   = r_re sum_i d log p_i( D(I_train) ) / dphi                                REINFORCE (eq. 7)

I_train are n of the steps that were sampled since the last evaluation (algorithm 1). In eq. 7, the sum of eq. 1 is over
the memory: the priorities of I_train are the network's current ones, those of all others are held constant. New steps
have priority 1 (algorithm 1), and 1 for tanh of their TD error and target (appendix B).

Defaults (table B.1): alpha 0.5, beta 0.4 (and up to 1 with ``importance_steps``), n = 128, learning rate 1e-4, f_l and
f_g 256, 512, 256, 128, f_s 256, 128, 64.

Differences from the paper:

1. Returns are those of training episodes (its variant NERS*, figure 4), so no step is spent on evaluations.
2. Steps are scored after the update for which they were sampled, with its TD errors, as in the authors' code; the
   importance weights of that update use the probabilities with which the steps were sampled.
3. The sum of eq. 7 is replaced by the mean (equivalent with Adam), and no gradient step is taken if the return has not
   changed.
4. Importance weights are normalised by the largest weight in the batch.
5. Images are encoded by convolutions like the learner's, followed by tanh.
6. kappa is the id of a step divided by that of the newest one; tanh bounds every feature, as in the authors' code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.batch import Source
from rl_agent.replay.samplers.features import Features, TDStatistics
from rl_agent.replay.samplers.prioritized import ProportionalSampler
from rl_agent.replay.samplers.sampler import SampledBatch
from rl_agent.replay.samplers.score_network import ScoreNetwork
from rl_agent.replay.storage import EpisodeStorage

__all__ = ["NERSSampler"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


class NERSSampler(ProportionalSampler):
    """Samples with a sum tree of learned scores; see the module docstring.

    Parameters
    ----------
    capacity
        Capacity of the memory.
    exponent
        Priority exponent alpha.
    features
        Features of steps, the input of the network.
    network
        Network that scores steps.
    learning_rate
        Learning rate of the network.
    steps
        Maximum number of steps per update of the network (n).
    """

    def __init__(
        self,
        capacity: int,
        exponent: float,
        features: Features,
        network: ScoreNetwork,
        learning_rate: float,
        steps: int,
    ) -> None:
        super().__init__(capacity, exponent)
        self._features, self.network = features, network
        self._learning_rate, self._train_steps = learning_rate, steps
        self._td_statistics = TDStatistics(capacity)
        self._was_sampled = np.zeros(capacity, np.bool_)

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of ``batch`` steps, shape (batch,)."""
        changed = self._follow(storage)
        self._td_statistics.forget(changed)
        self._was_sampled[changed] = False
        indices = super().sample(storage, batch, rng)
        self._was_sampled[indices] = True
        return indices

    def learn(self, sampled: SampledBatch) -> None:
        """Score sampled steps again and store the scores as priorities."""
        self._td_statistics.take(sampled)
        scores = self._score(sampled.source, sampled.indices)
        self._priorities.take(sampled.indices, scores)
        self._update(sampled.indices)

    def reward(self, source: Source, change: float, rng: np.random.Generator) -> None:
        """Update the network with steps sampled since the last evaluation (eq. 7)."""
        changed = self._follow(source.memory.storage)
        self._td_statistics.forget(changed)
        self._was_sampled[changed] = False
        sampled = np.flatnonzero(self._was_sampled)
        self._was_sampled[sampled] = False
        if len(sampled) == 0 or change == 0.0:
            return
        chosen = rng.choice(sampled, min(self._train_steps, len(sampled)), replace=False)
        scores = self._score(source, chosen)
        self.network.descend(
            -np.float32(change) * self.grad_log_chances(scores, chosen), self._learning_rate
        )

    def _score(self, source: Source, indices: I64) -> F32:
        features = self._features
        return self.network(
            features(source, indices, self._td_statistics), features.pictures(source, indices)
        )

    def grad_log_chances(self, scores: F32, indices: I64) -> F32:
        """Compute the gradient by sigma of the mean of log p_i over steps with these scores, shape (n,)."""
        alpha, n = self._priorities.exponent, len(scores)
        sigma = np.maximum(scores.astype(np.float64), 1e-6)
        others = self._tree[1] - self._tree[self._leaves + indices].sum()
        chance = sigma**alpha / (others + (sigma**alpha).sum())
        return (alpha / sigma * (1.0 / n - chance)).astype(np.float32)

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        network = {f"network/{name}": array for name, array in self.network.save().items()}
        return (
            super().save() | self._td_statistics.save() | network | {"was_drawn": self._was_sampled}
        )

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``."""
        super().restore(storage, arrays)
        self._td_statistics.restore(arrays)
        self._was_sampled[:] = arrays["was_drawn"]
        begin = "network/"
        self.network.restore(
            {n.removeprefix(begin): array for n, array in arrays.items() if n.startswith(begin)}
        )
