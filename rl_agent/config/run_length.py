"""Length of a run and of its episodes, and the defaults derived from them (docs/defaults.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["USUAL_AGENTS", "RunLength", "rounded"]

PAPER_STEPS = 10_000_000
"""Length of the paper's runs, forty times its memory size."""

UNKNOWN_EPISODE_GAMMA = 0.98

USUAL_AGENTS = 24
"""Assumed number of agents; together their first fragments have about ``learning_starts`` steps."""


def rounded(value: float) -> float:
    """Round a value to two significant digits."""
    return float(f"{value:.2g}")


@dataclass(frozen=True)
class RunLength:
    """Length of a run.

    Attributes
    ----------
    steps
        Environment steps of the run, over all agents.
    episode_steps
        Longest episode in steps, if known.
    """

    steps: int
    episode_steps: int | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a length below one step."""
        for name, length in vars(self).items():
            if length is not None and not length >= 1:
                raise ValueError(f"{name} = {length} must be at least 1")

    @property
    def gamma(self) -> float:
        """Discount factor 1 - 5/L: a horizon of 1/5 of the longest episode L, between 33 and 100 steps."""
        if self.episode_steps is None:
            return UNKNOWN_EPISODE_GAMMA
        return round(min(0.99, max(0.97, 1.0 - 5.0 / self.episode_steps)), 4)

    @property
    def learning_rate(self) -> float:
        """The paper's learning rate, multiplied by the square root of the ratio of run lengths."""
        return min(1e-3, max(1e-4, 1e-4 * math.sqrt(PAPER_STEPS / self.steps)))

    @property
    def annealing(self) -> float:
        """Annealing that reduces the learning rate to 1/6 by the end of the run, as in the paper."""
        return rounded(5.0 / self.steps)

    @property
    def slight_annealing(self) -> float:
        """Annealing that reduces the learning rate to 2/3 by the end of the run."""
        return rounded(0.5 / self.steps)

    def learning_starts(self, batch_size: int) -> int:
        """Return 1/50 of the run, at least a batch and at most 5000 steps; these steps scale the states."""
        return min(5000, max(batch_size, self.steps // 50))
