"""Comparison of two methods: check that only declared settings differ, and classify differences by intervals.

The measures are those of Agarwal et al. 2021 ("Deep Reinforcement Learning at the Edge of the Statistical Precipice"):
interquartile means, their difference, and the probability of improvement, each with a stratified bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import bootstrap

from coupling.run.aggregate import interquartile_mean

__all__ = [
    "Comparison",
    "compare",
    "differing_settings",
    "probability_of_improvement",
    "refuse_unlike",
    "stands_out",
]

F64 = np.ndarray
DRAWS = 2000
LEAST_SEEDS = 3  # needed for a verdict
TRIALS = {1: "a trial: one seed", 2: "a trial: two seeds"}


class Comparison(NamedTuple):
    """Comparison of a method with another one.

    Attributes
    ----------
    seeds
        Smallest number of seeds of either method on any task.
    difference, probability
        Interquartile mean of the first minus that of the second, and the probability that a training of the first ends
        above one of the second, each as (value, low, high); the bounds are NaN with a single seed.
    """

    seeds: int
    difference: tuple[float, float, float]
    probability: tuple[float, float, float]

    @property
    def verdict(self) -> str:
        """What the data show: a difference counts if its interval excludes zero."""
        if self.seeds < LEAST_SEEDS:
            return TRIALS[self.seeds]
        _, low, high = self.difference
        if low > 0.0:
            return "better"
        return "worse" if high < 0.0 else "no difference shown"


def differing_settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that differ."""
    return [key for key in first if first[key] != second.get(key)] + [
        key for key in second if key not in first
    ]


def refuse_unlike(
    name: str, first: Mapping[str, Any], second: Mapping[str, Any], said: Sequence[str]
) -> None:
    """Check that two methods differ in exactly the declared settings.

    Parameters
    ----------
    name
        Name of the contrast, for the error message.
    first, second
        Resolved settings of the two methods.
    said
        Names of the settings in which they should differ.

    Raises
    ------
    ValueError
        If other settings differ, or if some of these are the same.
    """
    found = differing_settings(first, second)
    if more := [key for key in found if key not in said]:
        values = ", ".join(f"{key} ({first.get(key)} and {second.get(key)})" for key in more)
        raise ValueError(f"{name}: they differ in {values}, too; make them equal, or say so")
    if same := [key for key in said if key not in found]:
        raise ValueError(f"{name}: they do not differ in {', '.join(same)}")


def probability_of_improvement(first: Sequence[F64], second: Sequence[F64]) -> F64:
    """Return the probability that a random training of the first method ends above one of the second.

    The probability is averaged over the tasks; ties count half. Scores are along the last axis; leading axes are kept.
    """
    pairs = [
        np.sign(x[..., :, None] - y[..., None, :]).mean(axis=(-2, -1))
        for x, y in zip(first, second, strict=True)
    ]
    return 0.5 + 0.5 * np.mean(pairs, axis=0)


def compare(first: Sequence[F64], second: Sequence[F64]) -> Comparison:
    """Compare the scores of two methods.

    Parameters
    ----------
    first, second
        Scores of the seeds for each task, shape (seeds,). The bootstrap resamples seeds within each task and method.

    Returns
    -------
    Comparison
        Deterministic: the resampling uses a fixed seed.
    """
    return Comparison(
        min(len(scores) for scores in (*first, *second)),
        _with_interval(_difference, first, second),
        _with_interval(probability_of_improvement, first, second),
    )


def stands_out(own: F64, others: Mapping[str, F64]) -> str:
    """Return in words whether a claim about a method holds for its scores compared with those of others.

    Parameters
    ----------
    own
        Scores of the method's seeds, shape (seeds,).
    others
        Scores of each method with which it is compared.

    Returns
    -------
    str
        *More so than all others* if all intervals show that the method's scores are higher; *less so than* the methods
        whose scores are shown to be higher; otherwise the methods from which no difference is shown.
    """
    verdicts = {name: compare([own], [scores]).verdict for name, scores in others.items()}
    if trials := [verdict for verdict in verdicts.values() if verdict in TRIALS.values()]:
        return trials[0]
    if ahead := [name for name, verdict in verdicts.items() if verdict == "worse"]:
        return f"less so than {_listed(ahead)}"
    if equal := [name for name, verdict in verdicts.items() if verdict != "better"]:
        return f"no difference from {_listed(equal)} shown"
    return "more so than all others"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _difference(first: Sequence[F64], second: Sequence[F64]) -> F64:
    means = (interquartile_mean(np.concatenate(each, axis=-1)) for each in (first, second))
    return np.asarray(next(means) - next(means))


def _with_interval(
    measure: Callable[[Sequence[F64], Sequence[F64]], F64],
    first: Sequence[F64],
    second: Sequence[F64],
) -> tuple[float, float, float]:
    """Return a measure and the bounds of its 95 % percentile bootstrap interval."""
    tasks, value = len(first), float(measure(first, second))
    if min(len(scores) for scores in (*first, *second)) == 1:
        return value, np.nan, np.nan

    def statistic(*scores: F64, axis: int) -> F64:
        return measure(scores[:tasks], scores[tasks:])

    found = bootstrap(
        (*first, *second),
        statistic,
        axis=-1,
        vectorized=True,
        n_resamples=DRAWS,
        batch=100,  # limits the memory used for the pairs
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return value, float(found.low), float(found.high)
