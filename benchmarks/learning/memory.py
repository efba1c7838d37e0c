"""What a memory of the policy is worth where the velocity is hidden (memory.yaml), and the tables of it.

    python benchmarks/learning/memory.py run -j 2  # complete jobs are skipped, interrupted ones go on
    python benchmarks/learning/memory.py list      # the jobs, and which are complete
    python benchmarks/learning/memory.py page      # the tables in docs/studies/memory.md

A complete job adds a row to benchmarks/results/memory.parquet: its curve, settings, evaluation of the mean action and
of sampled actions, machine, versions and commit. Checkpoints are in runs/memory/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would hide the package mujoco

from benchmarks.learning.defaults import table  # noqa: E402
from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.comparison import compare  # noqa: E402
from benchmarks.learning.suites.methods import methods_of  # noqa: E402
from benchmarks.learning.suites.plan import Suite  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402

NAME = "memory"


def contrasts(plan: dict[str, Suite], results: Path) -> str:
    """Return a row for each contrast of which both methods have results, in Markdown."""
    lines = [
        "| contrast | differ in | seeds | difference | probability of improvement | verdict |",
        "| --- | --- | --: | --: | --: | --- |",
    ]
    for name, suite in plan.items():
        found = methods_of(name, suite, results)
        for contrast in suite.contrasts:
            if all(method in found for method in contrast.methods):
                scores = [
                    [
                        np.array(
                            [seed["evaluation"]["deterministic"]["mean_return"] for seed in seeds]
                        )
                    ]
                    for seeds in (found[method] for method in contrast.methods)
                ]
                said = compare(*scores)
                cells = (
                    _cell(said.difference, ".4g"),
                    _cell(said.probability, ".2f"),
                    said.verdict,
                )
                differ = ", ".join(f"`{key}`" for key in contrast.differ_in)
                lines.append(f"| {contrast.name} | {differ} | {said.seeds} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(measured: tuple[float, float, float], form: str) -> str:
    """Return a measure with its interval, where it has one."""
    value, low, high = (f"{number:{form}}" for number in measured)
    return value if np.isnan(measured[1]) else f"{value} [{low}, {high}]"


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the tables into a page."""
    fill_in(page, f"learning/{NAME}", "trials", table(plan, results))
    fill_in(page, f"learning/{NAME}", "contrasts", contrasts(plan, results))


def main() -> int:
    """Run, list or write the table; 1 when a job failed, 2 for a wrong word, 130 when stopped."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
