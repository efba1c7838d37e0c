"""Table of the contrasts of a suite: differences with intervals, and the resulting verdicts."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from benchmarks.learning.suites.comparison import compare
from benchmarks.learning.suites.curves import Seeds
from benchmarks.learning.suites.methods import training_returns
from benchmarks.learning.suites.plan import Contrast, Suite
from benchmarks.learning.suites.settings import row_name

__all__ = ["by_task", "contrast_table", "evaluated_returns", "with_interval"]

HEAD = (
    "| task | contrast | differing settings | seeds | training | probability of improvement | verdict "
    "| mean action | verdict |",
    "| --- | --- | --- | --: | --: | --: | --- | --: | --- |",
)


def by_task(methods: Mapping[str, Seeds]) -> dict[str, dict[str, Seeds]]:
    """Group the complete jobs of ``methods_of`` by task and method."""
    groups: dict[str, dict[str, Seeds]] = {}
    for name, seeds in methods.items():
        for seed in seeds:
            task = re.split(r"[/:.]", str(seed["settings"]["env"]))[-1]
            groups.setdefault(task, {}).setdefault(name, []).append(seed)
    return groups


def contrast_table(suite: Suite, groups: Mapping[str, Mapping[str, Seeds]]) -> list[str]:
    """Return a table of a suite's contrasts, for each task on which both methods have trainings.

    Parameters
    ----------
    suite
        Suite whose ``contrasts`` have been checked to differ only in the declared settings.
    groups
        Complete jobs by task and method.

    Returns
    -------
    list of str
        Lines of a Markdown table, without rows for contrasts that lack trainings. Differences are those of the
        interquartile means over the seeds: of the training episodes in the last twentieth of a training, and of the
        held-out episodes with the mean action.
    """
    rows = [
        _row(task, contrast, *(methods[method] for method in contrast.methods))
        for task, methods in groups.items()
        for contrast in suite.contrasts
        if all(method in methods for method in contrast.methods)
    ]
    return [*HEAD, *rows]


def _row(task: str, contrast: Contrast, first: Seeds, second: Seeds) -> str:
    training = compare([training_returns(first)], [training_returns(second)])
    evaluated = compare([evaluated_returns(first)], [evaluated_returns(second)])
    differ = ", ".join(f"`{key}`" for key in contrast.differ_in)
    name = " against ".join(map(row_name, contrast.methods, (first, second)))
    cells = (
        task, name, differ, str(training.seeds), with_interval(training.difference),
        _cell(training.probability, ".2f"), training.verdict, with_interval(evaluated.difference), evaluated.verdict,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def evaluated_returns(seeds: Seeds) -> np.ndarray:
    """Return the mean return of the mean action over the held-out episodes, shape (seeds,)."""
    return np.array([seed["evaluation"]["deterministic"]["mean_return"] for seed in seeds])


def with_interval(difference: tuple[float, float, float]) -> str:
    """Format a difference with its interval, which needs two seeds; large values are rounded to integers."""
    largest = np.nanmax(np.abs(difference))
    return _cell(difference, ",.0f" if largest >= 100.0 else ".3g")


def _cell(measured: tuple[float, float, float], form: str) -> str:
    """Format a measure, with its interval if it has one."""
    value, low, high = (f"{number:{form}}" for number in measured)
    return value if np.isnan(measured[1]) else f"{value} [{low}, {high}]"
