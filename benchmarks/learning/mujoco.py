"""Train the learners on MuJoCo and other tasks (mujoco.yaml), and write the curves and the page.

    python benchmarks/learning/mujoco.py run --suite vracer -j 2  # skips complete jobs, resumes interrupted ones
    python benchmarks/learning/mujoco.py run --suite refer --tasks Hopper-v5 --seeds 1 --steps 50000
    python benchmarks/learning/mujoco.py list                     # the jobs, and which are complete
    python benchmarks/learning/mujoco.py plot                     # docs/studies/learning.md and its pictures

Each job runs in its own process on one thread, with one gradient step per environment step unless its settings say
otherwise, and adds a row to benchmarks/results/mujoco.parquet: curve (environment steps, CPU and wall seconds of the
training, mean return of the training episodes), settings, evaluation, machine, versions and commit. Checkpoints are in
runs/mujoco/. Suites with `sb3` need the extra of that name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.command import add_run_and_list, run_or_list  # noqa: E402
from benchmarks.learning.suites.page import write_page  # noqa: E402
from benchmarks.learning.suites.plan import read_plan  # noqa: E402
from benchmarks.studies import RESULTS  # noqa: E402


def main() -> int:
    """Run or list the jobs, or plot; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add_run_and_list(commands, "mujoco")
    plot = commands.add_parser("plot", help="draw the curves and write the page")
    plot.add_argument("--plan", type=Path, default=ROOT / "benchmarks" / "learning" / "mujoco.yaml")
    plot.add_argument("--results", type=Path, default=RESULTS / "mujoco.parquet")
    plot.add_argument("--docs", type=Path, default=ROOT / "docs" / "studies")
    options = parser.parse_args()
    if options.command == "plot":
        write_page(read_plan(options.plan), options.results, options.docs)
        return 0
    return run_or_list(options)


if __name__ == "__main__":
    sys.exit(main())
