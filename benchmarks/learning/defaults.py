"""Trainings from which the default settings were chosen, on tasks other than the small ones (defaults.yaml).

    python benchmarks/learning/defaults.py run --suite ppo -j 2  # skips complete jobs, resumes interrupted ones
    python benchmarks/learning/defaults.py list                  # the jobs, and which are complete
    python benchmarks/learning/defaults.py page                  # the tables in docs/defaults.md

Each complete job adds a row to benchmarks/results/defaults.parquet: curve, settings, evaluation of the mean action and
of sampled actions, machine, versions and commit. Checkpoints are in runs/defaults/. The tasks need the extras box2d
and mujoco.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.methods import methods_of  # noqa: E402
from benchmarks.learning.suites.plan import Suite  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from coupling.run.aggregate import interquartile_mean, interval  # noqa: E402

NAME = "defaults"


def table(plan: dict[str, Suite], results: Path) -> str:
    """Return a Markdown table with a row for each method that has results."""
    lines = [
        "| suite | settings | seeds | mean action | sampled actions | CPU seconds |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for name, suite in plan.items():
        for method, seeds in methods_of(name, suite, results).items():
            cells = [
                _cell([seed["evaluation"][kind]["mean_return"] for seed in seeds])
                for kind in ("deterministic", "drawing")
            ]
            seconds = np.mean([seed["cpu_seconds"] for seed in seeds])
            lines.append(
                f"| {name} | {method} | {len(seeds)} | {' | '.join(cells)} | {seconds:.0f} |"
            )
    return "\n".join(lines)


def _cell(returns: list[float]) -> str:
    """Return the interquartile mean, with its interval if there are several seeds."""
    values = np.array(returns)
    text = f"{float(interquartile_mean(values)):.4g}"
    if len(values) == 1:
        return text
    low, high = interval([values])
    return f"{text} [{float(low):.4g}, {float(high):.4g}]"


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the tables into a page."""
    fill_in(page, f"learning/{NAME}", "trials", table(plan, results))


def main() -> int:
    """Run or list the jobs, or write the tables; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
