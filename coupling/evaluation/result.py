"""Results of the episodes of an evaluation, with the confidence interval of their mean."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Evaluation", "bootstrap_interval", "second_half"]


class Evaluation(NamedTuple):
    """Results of the episodes.

    Attributes
    ----------
    returns
        Undiscounted sum of rewards of each episode, float64 (episodes,).
    lengths
        Number of actions of each episode, int64 (episodes,).
    survived
        Whether each episode survived to its end (was truncated, not terminated), bool (episodes,).
    cut
        Whether each episode was cut at the maximum number of actions, bool (episodes,).
    failures
        Reason for which the environment failed in each episode, empty if it did not, object (episodes,).
    measures
        Measures of the task (``FlowTask.measures``), one dictionary per episode with the mean and the rms of the
        fluctuation over the actions of its second half, by name; object (episodes,).
    """

    returns: np.ndarray
    lengths: np.ndarray
    survived: np.ndarray
    cut: np.ndarray
    failures: np.ndarray
    measures: np.ndarray

    def summary(self) -> dict[str, Any]:
        """Return summary statistics: mean return with its 95 % interval, median, length and survival rate.

        Failed episodes are excluded: ``failed`` is their number, ``failure`` the reason of the last one. ``cut`` is the
        number of episodes that were cut at the maximum number of actions. If the task has measures, ``measures``
        contains for each the mean over the episodes with its 95 % interval, and the rms of the fluctuation within them.
        """
        kept, reasons = self.failures == "", [reason for reason in self.failures if reason]
        returns, lengths = self.returns[kept], self.lengths[kept]
        return {
            "episodes": len(returns),
            "mean_return": float(returns.mean()),
            "ci95": list(bootstrap_interval(returns)),
            "median_return": float(np.median(returns)),
            "mean_length": float(lengths.mean()),
            "length_ci95": list(bootstrap_interval(lengths)),
            "survival": float(self.survived[kept].mean()),
            "failed": len(reasons),
            **({"failure": reasons[-1]} if reasons else {}),
            "cut": int(self.cut[kept].sum()),
            **({"cut_at": int(lengths[self.cut[kept]].max())} if self.cut[kept].any() else {}),
            **({"measures": measures} if (measures := _summarized(self.measures[kept])) else {}),
        }


def second_half(actions: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Return mean and rms of the fluctuation of each measure over the second half of an episode's actions."""
    late = actions[len(actions) // 2 :]
    values = {name: np.array([one[name] for one in late]) for name in (late[0] if late else ())}
    return {name: (float(v.mean()), float(v.std())) for name, v in values.items()}


def _summarized(measures: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the summary statistics of the measures of episodes."""
    found = {}
    for name in measures[0] if len(measures) else ():
        means, rms = np.array([episode[name] for episode in measures]).T
        found[name] = {
            "mean": float(means.mean()),
            "ci95": list(bootstrap_interval(means)),
            "rms": float(np.sqrt((rms**2).mean())),
        }
    return found


def bootstrap_interval(
    values: np.ndarray, *, level: float = 0.95, draws: int = 10_000
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean.

    Parameters
    ----------
    values
        Independent samples, shape (n,).
    level
        Confidence level.
    draws
        Number of resamples; the same ones are used every time.

    Returns
    -------
    (float, float)
        Lower and upper end.
    """
    rng = np.random.default_rng(0)
    means = np.array([rng.choice(values, len(values)).mean() for _ in range(draws)])
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)
