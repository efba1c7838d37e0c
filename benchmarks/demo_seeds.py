"""Write the table of the demo's trainings, one row for each seed, into docs/results.md.

    python benchmarks/train_seeds.py d_cylinder_wake/quick --episodes 96 --seeds 5 --mean-only --name demo_seeds
    python benchmarks/demo_seeds.py

The first command trains and evaluates what is missing in benchmarks/results/demo_seeds/.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "demo_seeds"
SEEDS, SURVIVAL, MEDIAN = 5, 0.95, -50.0
"""The aim: so many seeds, each with this survival rate at least, and a median return above this one."""


def table(results: Path = RESULTS) -> str:
    """Return the rows of the seeds and what they say of the aim, in Markdown."""
    lines = [
        "| seed | commit | survive 400 actions | the others fail after | median return | mean return | lowest tenth |",
        "| --: | --- | --: | --- | --: | --: | --: |",
    ]
    reached = []
    for folder in sorted(results.glob("seed*")):
        found = json.loads((folder / "evaluation.json").read_text())
        start = json.loads((folder / "starts.jsonl").read_text().splitlines()[0])
        after = found["after"]
        reached.append(after["survival"] >= SURVIVAL and after["median_return"] > MEDIAN)
        lines.append(
            f"| {folder.name.removeprefix('seed')} | {start['commit'][:12]} | {_episodes(found)} | "
            f"{after['median_return']:.0f} | {after['mean_return']:.0f} "
            f"[{after['ci95'][0]:.0f}, {after['ci95'][1]:.0f}] | {_lowest_tenth(found['each']):.0f} |"
        )
    verdict = (
        f"{sum(reached)} of {len(reached)} trainings reach the aim: at least {SURVIVAL:.0%} of the episodes survive, "
        f"and the median return is above {MEDIAN:.0f}. It was set for {SEEDS} seeds."
    )
    return "\n".join([*lines, "", verdict])


def _episodes(found: dict[str, Any]) -> str:
    """Return how many episodes survive, and after how many actions the others fail."""
    each = found["each"]
    survived = sum(each["survived"])
    lengths = zip(each["lengths"], each["survived"], strict=True)
    failed = sorted(length for length, survives in lengths if not survives)
    share = f"{survived} of {len(each['survived'])} ({found['after']['survival']:.0%})"
    return f"{share} | {', '.join(map(str, failed)) or '-'}"


def _lowest_tenth(each: dict[str, Any]) -> float:
    """Return the return that nine tenths of the episodes exceed."""
    returns = sorted(each["returns"])
    return float(returns[len(returns) // 10])


if __name__ == "__main__":
    fill_in(ROOT / "docs" / "results.md", "demo_seeds", "seeds", table())
