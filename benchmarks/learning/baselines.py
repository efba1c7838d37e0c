"""Baselines of a task, and the rows of the tables that list them beside trained agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import Row, current_origin, write_json
from coupling.evaluation.evaluate import baselines_of
from coupling.evaluation.pool import EvaluationPool
from coupling.run.aggregate import interquartile_mean, interval
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose

__all__ = ["evaluate_baselines", "rows_of"]


def evaluate_baselines(task: str, preset: str, episodes: int, file: Path) -> None:
    """Run the test episodes with every shipped baseline and store the results."""
    options, purpose = {"preset": preset}, Purpose.EVALUATION
    found: dict[str, Any] = {}
    with EvaluationPool(task, options, processes=1, purpose=purpose) as pool:
        for name, controller in baselines_of(task, options, EVALUATION_SEED).items():
            played = pool.play(controller, episodes, EVALUATION_SEED)
            found[name] = played.summary() | {"returns": played.returns.tolist()}
            means = [f"{key} {of['mean']:.4f}" for key, of in found[name]["measures"].items()]
            print(f"{name}: return {found[name]['mean_return']:.3f}", *means, sep=", ", flush=True)
    kept = {"task": task, "preset": preset, "purpose": purpose.name, "found": found}
    write_json(file, kept | current_origin())


def rows_of(found: dict[str, Any], trained: dict[str, list[Row]]) -> dict[str, dict[str, Any]]:
    """Return the results of controllers, and of methods with their number of seeds, by the first cell of their row."""
    return {f"`{name}`": result for name, result in found.items()} | {
        f"{name}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}": of_seeds(seeds)
        for name, seeds in trained.items()
        if seeds
    }


def of_seeds(seeds: list[Row]) -> dict[str, Any]:
    """Return interquartile means over the seeds and their 95 % bootstrap intervals.

    With one seed, the intervals are those over its episodes. The rms of a fluctuation is the root of the mean square
    over the seeds.
    """
    found = [row["evaluation"]["after"] for row in seeds]
    returns = np.array([one["mean_return"] for one in found])
    measures = {}
    for name in found[0]["measures"]:
        measured = [one["measures"][name] for one in found]
        means, rms = (np.array([one[key] for one in measured]) for key in ("mean", "rms"))
        measures[name] = {
            "mean": float(interquartile_mean(means)),
            "ci95": interval([means]) if len(means) > 1 else measured[0]["ci95"],
            "rms": float(np.sqrt((rms**2).mean())),
        }
    ends = interval([returns]) if len(returns) > 1 else found[0]["ci95"]
    return {"mean_return": float(interquartile_mean(returns)), "ci95": ends, "measures": measures}
