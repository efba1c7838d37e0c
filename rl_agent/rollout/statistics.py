"""Statistics of a learner: episodes since the last report, and averages over gradient steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rl_agent.algorithms.algorithm import Evaluation

__all__ = ["EpisodeRecord", "Statistics"]


class EpisodeRecord(NamedTuple):
    """Record of a completed or open episode.

    Attributes
    ----------
    agent
        Number of the agent.
    step
        Environment steps of the learner, over all agents, when the episode ended, or now.
    episode_return
        Sum of the unscaled rewards.
    length
        Number of actions.
    terminated
        Whether the episode ended in a terminal state (otherwise it was truncated or abandoned, or is still open).
    """

    agent: int
    step: int
    episode_return: float
    length: int
    terminated: bool


@dataclass
class _Sums:
    updates: int = 0
    policy_loss: float = 0.0
    value_loss: float = 0.0
    gradient_norm: float = 0.0
    batch_kl: float = 0.0
    batch_rho: float = 0.0
    batch_far: float = 0.0


class Statistics:
    """Collects statistics between two reports."""

    def __init__(self) -> None:
        self._episodes: list[EpisodeRecord] = []
        self._new: list[EpisodeRecord] = []
        self._sums = _Sums()

    def add_episodes(self, records: list[EpisodeRecord]) -> None:
        """Add completed episodes."""
        self._episodes += records
        self._new += records

    def add_update(self, evaluation: Evaluation) -> None:
        """Add a gradient step."""
        sums = self._sums
        sums.updates += 1
        sums.policy_loss += evaluation.policy_loss
        sums.value_loss += evaluation.value_loss
        sums.gradient_norm += evaluation.gradient_norm
        sums.batch_kl += evaluation.mean_kl
        sums.batch_rho += evaluation.mean_rho
        sums.batch_far += evaluation.far_fraction

    def take(self) -> dict[str, float]:
        """Return means since the last call; NaN for empty means.

        Returns
        -------
        dict of str to float
            ``episodes`` (count), ``return_mean``, ``length_mean``, ``terminated_fraction`` over the completed
            episodes; ``updates`` (count), ``policy_loss``, ``value_loss``, ``gradient_norm``, ``batch_kl``,
            ``batch_rho`` and ``batch_far`` over the gradient steps.
        """
        sums, self._sums = self._sums, _Sums()
        records, self._new = self._new, []
        mean = lambda values: float(np.mean(values)) if values else math.nan  # noqa: E731
        out = {
            "episodes": float(len(records)),
            "return_mean": mean([r.episode_return for r in records]),
            "length_mean": mean([r.length for r in records]),
            "terminated_fraction": mean([r.terminated for r in records]),
            "updates": float(sums.updates),
        }
        for name in (
            "policy_loss",
            "value_loss",
            "gradient_norm",
            "batch_kl",
            "batch_rho",
            "batch_far",
        ):
            out[name] = getattr(sums, name) / sums.updates if sums.updates else math.nan
        return out

    def take_episodes(self) -> list[EpisodeRecord]:
        """Return the episodes completed since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes
