"""How well does linear feedback calm the shear layer over a cavity? The best gains of a search, and all baselines.

python benchmarks/learning/open_cavity.py search     # resumable; half an hour of one core
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.linear_search import Search, carry_on  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402

RESULTS = STUDIES / "open_cavity"
TASK, PRESET = "flowsim/OpenCavity-v0", "quick"
ACROSS = (1, 3, 5, 7)
"""Velocity along y at the four points of the mouth."""
SENSED = 9
"""Numbers of an action's measurements."""
SEARCH = Search(
    TASK, PRESET, observed=(*ACROSS, *(SENSED + n for n in ACROSS)), mean=(0.0,) * 8,
    spread=(30.0, 15.0, 6.0, 3.0) * 2, actions=80,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "steady", "page"))
    parser.add_argument("--generations", type=int, default=20)
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.command == "search":
        carry_on(SEARCH, options.generations, RESULTS / "search.json")


if __name__ == "__main__":
    main()
