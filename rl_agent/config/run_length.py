"""How long a run and its episodes are, and what that means for settings that nobody named (docs/defaults.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["USUAL_AGENTS", "RunLength", "rounded"]

PAPER_STEPS = 10_000_000
"""Length of the paper's runs, forty times its memory."""

UNKNOWN_EPISODE_GAMMA = 0.98

USUAL_AGENTS = 24
"""Agents of a run that names nothing, whose fragments together have ``learning_starts`` steps in memory."""


def rounded(value: float) -> float:
    """Return a value with two digits."""
    return float(f"{value:.2g}")


@dataclass(frozen=True)
class RunLength:
    """Length of a run.

    Attributes
    ----------
    steps
        Environment steps of the run, over all agents.
    episode_steps
        Longest episode in steps, where it is known.
    """

    steps: int
    episode_steps: int | None = None

    @property
    def gamma(self) -> float:
        """1 - 5/L: a horizon of a fifth of the longest episode L, between 33 and 100 steps."""
        if self.episode_steps is None:
            return UNKNOWN_EPISODE_GAMMA
        return round(min(0.99, max(0.97, 1.0 - 5.0 / self.episode_steps)), 4)

    @property
    def learning_rate(self) -> float:
        """That of the paper, larger by the root of how much shorter the run is."""
        return min(1e-3, max(1e-4, 1e-4 * math.sqrt(PAPER_STEPS / self.steps)))

    @property
    def annealing(self) -> float:
        """The learning rate ends at a sixth, as in the paper's runs."""
        return rounded(5.0 / self.steps)

    @property
    def slight_annealing(self) -> float:
        """The learning rate ends at two thirds."""
        return rounded(0.5 / self.steps)

    def learning_starts(self, batch_size: int) -> int:
        """Return a fiftieth of the run, whose steps scale the states."""
        return min(5000, max(batch_size, self.steps // 50))
