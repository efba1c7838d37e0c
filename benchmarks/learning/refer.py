"""The rules of remember-and-forget one by one (refer.yaml): trainings, and the tables and pictures of them.

    python benchmarks/learning/refer.py run --suite vracer --tasks HalfCheetah-v5  # complete jobs are skipped
    python benchmarks/learning/refer.py list                                       # the jobs, and which are complete
    python benchmarks/learning/refer.py page                                       # docs/studies/refer.md, its pictures

A complete job adds a row to benchmarks/results/refer.parquet: its curve, with the KL divergence and the share of
far-policy steps of the memory, settings, evaluation, machine, versions and commit. Checkpoints are in runs/refer/.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would hide the package mujoco

from benchmarks.learning.suites.command import command_of  # noqa: E402


def main() -> int:
    """Run, list or write the page; 1 when a job failed, 2 for a wrong word, 130 when stopped."""
    return command_of("refer", (__doc__ or "").splitlines()[0], lambda *_: None)


if __name__ == "__main__":
    sys.exit(main())
