"""What the defaults of a run were chosen from, on tasks beside the small ones (defaults.yaml), and their tables.

    python benchmarks/learning/defaults.py run --suite ppo -j 2  # complete jobs are skipped, interrupted ones go on
    python benchmarks/learning/defaults.py list                  # the jobs, and which are complete
    python benchmarks/learning/defaults.py page                  # the tables in docs/defaults.md

A complete job adds a row to benchmarks/results/defaults.parquet: its curve, settings, evaluation of the mean action and
of sampled actions, machine, versions and commit. Checkpoints are in runs/defaults/. The tasks need the
extras box2d and mujoco.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would hide the package mujoco

from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.methods import methods_of  # noqa: E402
from benchmarks.learning.suites.plan import Suite  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from coupling.run.aggregate import interquartile_mean, interval  # noqa: E402

NAME = "defaults"


def table(plan: dict[str, Suite], results: Path) -> str:
    """Return a row for each method that has results, in Markdown."""
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
    """Return the interquartile mean with its interval; one seed has none."""
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
    """Run, list or write the tables; 1 when a job failed, 2 for a wrong word, 130 when stopped."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
