"""NERS (Oh et al. 2021, "Learning to Sample with Local and Global Contexts in Experience Replay Buffers").

A network scores sampled steps, each in the context of the others, and the scores are their priorities from then on:

    p_i       = sigma_i^alpha / sum_k sigma_k^alpha                                      chance of a step (eq. 1)
    D(I)      = { s, a, r, s', kappa, delta, r + gamma max_a Q~(s', a) } of the sampled steps I               (eq. 2)
    { sigma } = f_s( f_l(D) beside the mean of f_g(D) )                                            (eqs. 3 and 4)
    w_i       = ( 1 / (|B| p_i) )^beta                                                   importance weights (eq. 5)
    r_re      = return now - return before                                               replay reward (eq. 6)
    dJ/dphi   = r_re sum_i d log p_i( D(I_train) ) / dphi                                REINFORCE (eq. 7)

I_train are n of the steps that were sampled since the last evaluation (algorithm 1). The sum of eq. 1 in eq. 7 is that
over the memory: the priorities of I_train are those of the network now, those of all others are held. New steps have
the priority 1 (algorithm 1), and 1 for tanh of their error and target (appendix B).

Defaults (table B.1): alpha 0.5, beta 0.4 (and up to 1 with ``importance_steps``), n = 128, learning rate 1e-4, f_l and
f_g 256, 512, 256, 128, f_s 256, 128, 64.

Done otherwise than in the paper:

1. Returns are those of training episodes (its variant NERS*, figure 4), so no step is spent on evaluations.
2. Scores are taken after the update that the steps were sampled for, with the errors that it found, as in the authors'
   code; the weights of that update belong to the chances that the steps were sampled with.
3. The sum of eq. 7 is a mean (Adam does not see the difference), and a change of zero makes no step.
4. The largest weight is that of the batch.
5. Pictures are read by the learner's own convolutions, with tanh on what comes out.
6. kappa is the running number of a step over that of the newest one; tanh bounds every feature, as in that code.
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
    """Samples by a sum tree of learned scores; see the module.

    Parameters
    ----------
    capacity
        Of the memory.
    exponent
        alpha.
    features
        What the network sees of a step.
    network
        Scores steps.
    learning_rate
        Of the network.
    steps
        Most steps that an update is learned from (n).
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
        """Ring indices of ``batch`` steps, shape (batch,)."""
        changed = self._follow(storage)
        self._td_statistics.forget(changed)
        self._was_sampled[changed] = False
        indices = super().sample(storage, batch, rng)
        self._was_sampled[indices] = True
        return indices

    def learn(self, sampled: SampledBatch) -> None:
        """Score sampled steps again; the scores are their priorities."""
        self._td_statistics.take(sampled)
        scores = self._score(sampled.source, sampled.indices)
        self._priorities.take(sampled.indices, scores)
        self._update(sampled.indices)

    def reward(self, source: Source, change: float, rng: np.random.Generator) -> None:
        """Learn which of the steps sampled since the last evaluation to sample more often (eq. 7)."""
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
        """d/d(sigma) of the mean of log p_i over steps that have these scores now, shape (n,)."""
        alpha, n = self._priorities.exponent, len(scores)
        sigma = np.maximum(scores.astype(np.float64), 1e-6)
        others = self._tree[1] - self._tree[self._leaves + indices].sum()
        chance = sigma**alpha / (others + (sigma**alpha).sum())
        return (alpha / sigma * (1.0 / n - chance)).astype(np.float32)

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        network = {f"network/{name}": array for name, array in self.network.save().items()}
        return (
            super().save() | self._td_statistics.save() | network | {"was_drawn": self._was_sampled}
        )

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``."""
        super().restore(storage, arrays)
        self._td_statistics.restore(arrays)
        self._was_sampled[:] = arrays["was_drawn"]
        begin = "network/"
        self.network.restore(
            {n.removeprefix(begin): array for n, array in arrays.items() if n.startswith(begin)}
        )
