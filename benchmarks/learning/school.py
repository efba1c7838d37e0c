"""Evaluate trained schools of swimmers: the table of docs/studies/school.md, from trainings with several seeds.

    python benchmarks/learning/train_seeds.py swimmer_school/quick --steps 20000 --plot docs/studies/images/school.png
    python benchmarks/learning/school.py  # fills in docs/studies/school.md

The baselines are evaluated on the same initial states.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import read  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "swimmer_school_quick.parquet"
BASELINES = {"zero": "no control", "random": "random commands"}


def row(who: str, found: Mapping[str, Any]) -> str:
    """Return a Markdown row for the evaluation of one controller."""
    low, high = found["length_ci95"]
    least, most = found["ci95"]
    return (
        f"| {who} | {found['mean_length']:.1f} [{low:.1f}, {high:.1f}] | {100 * found['survival']:.0f} % | "
        f"{found['mean_return']:.2f} [{least:.2f}, {most:.2f}] |"
    )


def table(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with rows for the mean action and sampled actions of each seed, and the baselines."""
    lines = [
        f"| controller, over {evaluations[0]['after']['episodes']} held-out initial states | "
        "actions until the first contact, 40 at most | episodes without a contact | return |",
        "| --- | --- | --: | --- |",
    ]
    for seed, found in enumerate(evaluations):
        lines.append(row(f"mean action, seed {seed}", found["after"]))
    for seed, found in enumerate(evaluations):
        lines.append(row(f"sampled actions, seed {seed}", found["drawing"]))
    for name, called in BASELINES.items():
        lines.append(row(called, evaluations[0]["after"]["baselines"][name]))
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    evaluations = [row["evaluation"] for row in read(RESULTS)]
    page = ROOT / "docs" / "studies" / "school.md"
    fill_in(page, "learning/school", "trainings", table(evaluations))


if __name__ == "__main__":
    main()
