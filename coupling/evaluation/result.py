"""What the episodes of an evaluation gave, and how sure their mean is."""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Evaluation", "bootstrap_interval"]


class Evaluation(NamedTuple):
    """What the episodes gave.

    Attributes
    ----------
    returns
        Undiscounted sum of rewards of each episode, float64 (episodes,).
    lengths
        Actions of each episode, int64 (episodes,).
    survived
        Whether each episode lived to its end (was truncated, not terminated), bool (episodes,).
    cut
        Whether each episode was cut at the bound on actions, bool (episodes,).
    failures
        Why the environment failed in each episode, empty where it did not, object (episodes,).
    """

    returns: np.ndarray
    lengths: np.ndarray
    survived: np.ndarray
    cut: np.ndarray
    failures: np.ndarray

    def summary(self) -> dict[str, Any]:
        """Return the numbers that are printed: mean return with its 95 % interval, median, length and survival.

        Episodes that failed count for none of them: ``failed`` says how many there were, ``failure`` why the last one.
        ``cut`` says how many were cut at the bound on actions.
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
        }


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
        Number of resamples; the same ones are drawn every time.

    Returns
    -------
    (float, float)
        Lower and upper end.
    """
    rng = np.random.default_rng(0)
    means = np.array([rng.choice(values, len(values)).mean() for _ in range(draws)])
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)
