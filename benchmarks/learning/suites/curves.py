"""Curves of complete jobs: mean returns of training episodes against steps or CPU seconds."""

from __future__ import annotations

import numpy as np

from benchmarks.learning.suites.plan import Result

__all__ = ["Seeds", "curve_at", "read_curve"]

WINDOW = 0.05  # averaging window, as a share of the curve's length
FEW = 10  # episodes to average if none ended in the window

Seeds = list[Result]


def read_curve(result: Result, value: str = "mean_return") -> np.ndarray:
    """Return steps, CPU seconds, number of episodes and a mean value of each row with episodes, shape (rows, 4)."""
    rows = [row for row in result["curve"] if row["episodes"]]
    columns = ("environment_steps", "cpu_seconds", "episodes", value)
    return np.array([[float(row[key]) for key in columns] for row in rows]).reshape(-1, 4)


def curve_at(curve: np.ndarray, axis: int, places: np.ndarray) -> np.ndarray:
    """Return the mean value of the training episodes before each place along ``axis`` (0 steps, 1 CPU seconds).

    The mean is over the episodes in a window of a twentieth of the curve's length before the place; if none ended in
    it, over the preceding rows that contain the last ``FEW`` episodes. It is NaN if no episode has ended yet.
    """
    along, weights, values = curve[:, axis], curve[:, 2], curve[:, 3]
    last = np.searchsorted(along, places, side="right")
    count = np.concatenate([[0.0], np.cumsum(weights)])
    few = np.maximum(np.searchsorted(count, count[last] - FEW, side="right") - 1, 0)
    first = np.searchsorted(along, places - WINDOW * along[-1], side="right")
    first = np.where(first < last, first, few)
    total = np.concatenate([[0.0], np.cumsum(weights * values)])
    with np.errstate(invalid="ignore"):
        return (total[last] - total[first]) / (count[last] - count[first])
