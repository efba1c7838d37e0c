"""What a memory of the policy is worth where the velocity is hidden (memory.yaml), and the table of it.

    python benchmarks/learning/memory.py run -j 2  # complete jobs are skipped, interrupted ones go on
    python benchmarks/learning/memory.py list      # the jobs, and which are complete
    python benchmarks/learning/memory.py page      # the table in docs/studies/memory.md

A complete job adds a row to benchmarks/results/memory.parquet: its curve, settings, evaluation of the mean action and
of sampled actions, machine, versions and commit. Checkpoints are in runs/memory/.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would hide the package mujoco

from benchmarks.learning.defaults import table  # noqa: E402
from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.plan import Suite  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402

NAME = "memory"


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the table into a page."""
    fill_in(page, f"learning/{NAME}", "trials", table(plan, results))


def main() -> int:
    """Run, list or write the table; 1 when a job failed, 2 for a wrong word, 130 when stopped."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
