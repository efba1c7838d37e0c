"""Train stable-baselines3 on the flow tasks (flow_peers.yaml), for the tables that `drag_tasks.py page` writes.

    python benchmarks/learning/flow_peers.py run --seeds 1   # skips complete jobs; needs the extra sb3
    python benchmarks/learning/flow_peers.py list            # the jobs, and which are complete

Each complete job adds a row to benchmarks/results/flow_peers.parquet, as in mujoco.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.command import add_run_and_list, run_or_list  # noqa: E402


def main() -> int:
    """Run or list the jobs; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_run_and_list(parser.add_subparsers(dest="command", required=True), "flow_peers")
    return run_or_list(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
