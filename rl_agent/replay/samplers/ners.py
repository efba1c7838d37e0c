"""NERS (Oh et al. 2021, "Learning to Sample with Local and Global Contexts in Experience Replay Buffers").

A network scores drawn steps, each in the context of the others, and the scores are their priorities from then on:

    p_i       = sigma_i^alpha / sum_k sigma_k^alpha                                      chance of a step (eq. 1)
    D(I)      = { s, a, r, s', kappa, delta, r + gamma max_a Q~(s', a) } of the drawn steps I               (eq. 2)
    { sigma } = f_s( f_l(D) beside the mean of f_g(D) )                                            (eqs. 3 and 4)
    w_i       = ( 1 / (|B| p_i) )^beta                                                   importance weights (eq. 5)
    r_re      = return now - return before                                               replay reward (eq. 6)
    dJ/dphi   = r_re sum_i d log p_i( D(I_train) ) / dphi                                REINFORCE (eq. 7)

I_train are n of the steps that were drawn since the last evaluation (algorithm 1). The sum of eq. 1 in eq. 7 is that
over the memory: the priorities of I_train are those of the network now, those of all others are held. New steps have
the priority 1 (algorithm 1), and 1 for tanh of their error and target (appendix B).

Defaults (table B.1): alpha 0.5, beta 0.4 (and up to 1 with ``importance_steps``), n = 128, learning rate 1e-4, f_l and
f_g 256, 512, 256, 128, f_s 256, 128, 64.

Done otherwise than in the paper:

1. Returns are those of training episodes (its variant NERS*, figure 4), so no step is spent on evaluations.
2. Scores are taken after the update that the steps were drawn for, with the errors that it found, as in the authors'
   code; the weights of that update belong to the chances that the steps were drawn with.
3. The sum of eq. 7 is a mean (Adam does not see the difference), and a change of zero makes no step.
4. The largest weight is that of the batch.
5. Pictures are read by the learner's own convolutions, with tanh on what comes out.
6. kappa is the running number of a step over that of the newest one; tanh bounds every feature, as in that code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import EpisodeMemory
from rl_agent.replay.samplers.features import Features, Findings
from rl_agent.replay.samplers.prioritized import ProportionalSampler
from rl_agent.replay.samplers.sampler import Drawn, Source
from rl_agent.replay.samplers.score_network import ScoreNetwork

__all__ = ["NERSSampler"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


class NERSSampler(ProportionalSampler):
    """Draws by a sum tree of learned scores; see the module.

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
        self._findings = Findings(capacity)
        self._was_drawn = np.zeros(capacity, np.bool_)

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> I64:
        """Places of ``batch`` steps, shape (batch,)."""
        changed = self._follow(memory)
        self._findings.forget(changed)
        self._was_drawn[changed] = False
        places = super().draw(memory, batch, rng)
        self._was_drawn[places] = True
        return places

    def learn(self, drawn: Drawn) -> None:
        """Score drawn steps again; the scores are their priorities."""
        self._findings.take(drawn)
        scores = self._score(drawn.source, drawn.places)
        self._priorities.take(drawn.places, scores)
        self._update(drawn.places)

    def reward(self, source: Source, change: float, rng: np.random.Generator) -> None:
        """Learn which of the steps drawn since the last evaluation to draw more often (eq. 7)."""
        changed = self._follow(source.memory)
        self._findings.forget(changed)
        self._was_drawn[changed] = False
        drawn = np.flatnonzero(self._was_drawn)
        self._was_drawn[drawn] = False
        if len(drawn) == 0 or change == 0.0:
            return
        chosen = rng.choice(drawn, min(self._train_steps, len(drawn)), replace=False)
        scores = self._score(source, chosen)
        self.network.descend(
            -np.float32(change) * self.log_chance_slopes(scores, chosen), self._learning_rate
        )

    def _score(self, source: Source, places: I64) -> F32:
        features = self._features
        return self.network(
            features(source, places, self._findings), features.pictures(source, places)
        )

    def log_chance_slopes(self, scores: F32, places: I64) -> F32:
        """d/d(sigma) of the mean of log p_i over steps that have these scores now, shape (n,)."""
        alpha, n = self._priorities.exponent, len(scores)
        sigma = np.maximum(scores.astype(np.float64), 1e-6)
        others = self._tree[1] - self._tree[self._leaves + places].sum()
        chance = sigma**alpha / (others + (sigma**alpha).sum())
        return (alpha / sigma * (1.0 / n - chance)).astype(np.float32)

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        network = {f"network/{name}": array for name, array in self.network.save().items()}
        return super().save() | self._findings.save() | network | {"was_drawn": self._was_drawn}

    def restore(self, memory: EpisodeMemory, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``."""
        super().restore(memory, arrays)
        self._findings.restore(arrays)
        self._was_drawn[:] = arrays["was_drawn"]
        begin = "network/"
        self.network.restore(
            {n.removeprefix(begin): array for n, array in arrays.items() if n.startswith(begin)}
        )
