"""Compare policies with and without memory on tasks with a hidden velocity (memory.yaml), and write the tables.

    python benchmarks/learning/memory.py run -j 2  # skips complete jobs, resumes interrupted ones
    python benchmarks/learning/memory.py list      # the jobs, and which are complete
    python benchmarks/learning/memory.py page      # the tables in docs/studies/memory.md

Each complete job adds a row to benchmarks/results/memory.parquet: curve, settings, evaluation of the mean action and
of sampled actions, machine, versions and commit. Checkpoints are in runs/memory/.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.defaults import table  # noqa: E402
from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.contrasts import by_task, contrast_table, evaluated_returns  # noqa: E402
from benchmarks.learning.suites.methods import methods_of  # noqa: E402
from benchmarks.learning.suites.plan import Suite  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402

NAME = "memory"


REFERENCES = {
    "hidden_pendulum": (-1219.0, -138.0),
    "window": (-1219.0, -138.0),
    "long_recall": (0.0, 1.0),
}
"""Return of doing nothing (recall: without memory) and of the best policy, for each suite (docs/studies/memory.md)."""


def table_of_seeds(plan: dict[str, Suite], results: Path) -> str:
    """Return a Markdown table of how many seeds of each method learn, that is, end nearer to the best reference."""
    lines = [
        "| suite | settings | mean action of each seed | learned |",
        "| --- | --- | --- | --: |",
    ]
    for name, suite in plan.items():
        nothing, best = REFERENCES[name]
        for method, seeds in methods_of(name, suite, results).items():
            returns = evaluated_returns(seeds).tolist()
            learned = sum(value > (nothing + best) / 2 for value in returns)
            shown = ", ".join(f"{value:.{0 if best < -10.0 else 2}f}" for value in returns)
            lines.append(f"| {name} | {method} | {shown} | {learned} of {len(returns)} |")
    return "\n".join(lines)


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the tables into a page."""
    fill_in(page, f"learning/{NAME}", "trials", table(plan, results))
    fill_in(page, f"learning/{NAME}", "seeds", table_of_seeds(plan, results))
    found = {name: methods_of(name, suite, results) for name, suite in plan.items()}
    rows = (
        contrast_table(plan[name], by_task(methods)) for name, methods in found.items() if methods
    )
    fill_in(page, f"learning/{NAME}", "contrasts", "\n\n".join(map("\n".join, rows)))


def main() -> int:
    """Run or list the jobs, or write the tables; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
