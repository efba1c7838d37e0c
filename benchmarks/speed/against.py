"""The benches of another commit beside those of this one, in turn, so that the machine is the same for both.

    git worktree add /tmp/before d51ad57
    python benchmarks/speed/against.py /tmp/before  # into benchmarks/results/against.json and docs/studies/speed.md
    python benchmarks/speed/against.py /tmp/before --only tasks --runs 5 -o /tmp/ratios.json
    python benchmarks/speed/against.py --page       # only the table, from what is kept

Each run is ``flowsim bench PART --json`` of the other checkout and then of this one, or the other way round, in the
environment of this interpreter; learners and the flows of the solver take short turns (in_turns.py).
A row's ratio is that of its speed here over its speed there; kept are all of them.
Parts that are not measured again keep their rows, with the commit that these were measured on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.speed.in_turns import flow_rows, learner_rows  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.origin import provenance  # noqa: E402

RESULT = Path("benchmarks/results/against.json")
PAGE = Path("docs/studies/speed.md")
LONGEST = 1800.0  # seconds that one bench may take
SPEED = {
    "solver": "cells_per_second",
    "tasks": "actions_per_second",
    "learner": "updates_per_processor_second",
    "coupling": "round_trips_per_second",
}
IN_TURNS = {"solver": flow_rows, "learner": learner_rows}
"""Parts that take short turns instead."""
NAMES = {
    "tasks": ("task", "threads"),
    "coupling": ("agents", "processes", "transport", "curve", "learning", "step_ms"),
}
"""What tells the rows of the other parts from each other."""
FORMER = {
    "d_cylinder_wake/quick": "d_cylinder_wake/sketch",
    "d_cylinder_wake at 16": "d_cylinder_wake/quick",
}
"""Today's names of tasks in a checkout that knows no ``sketch``."""


def bench(checkout: Path, part: str) -> dict[str, float]:
    """Return the speed of each row of a bench as a checkout has it."""
    scripts = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["flowsim"].partition(":")
    code = f"import sys; from {module} import {function} as run; sys.argv[0] = 'flowsim'; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", part, "--json"],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    rows = json.loads(done.stdout)["rows"]
    if part == "tasks" and all("sketch" not in row["task"] for row in rows):
        rows = [row | {"task": FORMER.get(row["task"], row["task"])} for row in rows]
    speeds: dict[str, float] = {}
    for row in rows:
        # a row that is measured twice, beside different others, counts where it comes first
        speeds.setdefault(", ".join(_word(row, key) for key in NAMES[part]), row[SPEED[part]])
    return speeds


def _word(row: dict[str, Any], key: str) -> str:
    return str(row[key]) if isinstance(row[key], str) else f"{key} {row[key]}"


def compare(other: Path, part: str, runs: int) -> list[dict[str, Any]]:
    """Return the rows that both have, with their speeds in each of the runs, the other's first."""
    if part in IN_TURNS:
        return [{"part": part, **row} for row in IN_TURNS[part](other, ROOT)]
    pairs = []
    for run in range(runs):
        print(f"{part}: run {run + 1} of {runs}", flush=True)
        order = (other, ROOT) if run % 2 == 0 else (ROOT, other)
        found = {checkout: bench(checkout, part) for checkout in order}
        pairs.append((found[other], found[ROOT]))
    both = [row for row in pairs[0][1] if all(row in there for there, _ in pairs)]
    return [
        {"part": part, "row": row, "speeds": [[there[row], here[row]] for there, here in pairs]}
        for row in both
    ]


def ratio(row: dict[str, Any]) -> float:
    """Return the median over the runs of the speed here over the speed there."""
    return statistics.median(here / there for there, here in row["speeds"] if there)


def table(found: dict[str, Any]) -> str:
    """Return the rows in Markdown."""
    lines = [
        f"Beside {found['other'][:7]}, on {found['machine']}.",
        "",
        f"| part | row | commit | {found['other'][:7]}, median | ratio: median | quartiles | pairs |",
        "| --- | --- | --- | --: | --: | --- | --: |",
    ]
    for row in found["rows"]:
        each = [here / there for there, here in row["speeds"]]
        low, _, high = statistics.quantiles(each, method="inclusive")
        there = statistics.median(there for there, _ in row["speeds"])
        commit, unit = row.get("commit", found["commit"])[:7], SPEED[row["part"]].replace("_", " ")
        lines.append(
            f"| {row['part']} | {row['row']} | {commit} | {there:.4g} {unit} | "
            f"{ratio(row):.2f} | {low:.2f} to {high:.2f} | {len(each)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Compare two checkouts; return 2 when the other one is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="another checkout of this repository")
    parser.add_argument("--only", nargs="+", choices=list(SPEED), default=list(SPEED))
    parser.add_argument("--runs", type=int, default=3, help="of each part and checkout")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    parser.add_argument("--page", action="store_true", help="only write the table again")
    options = parser.parse_args()
    if not options.page:
        if options.other is None or not (options.other / "pyproject.toml").exists():
            print("against.py: name a checkout of another commit", file=sys.stderr)
            return 2
        other = options.other.resolve()
        words = ["git", "rev-parse", "HEAD"]
        commit = subprocess.run(words, cwd=other, capture_output=True, text=True, check=True)
        found = {"other": commit.stdout.strip(), **provenance(), "rows": []}
        kept = json.loads(options.output.read_text()) if options.output.exists() else found
        if kept["other"] == found["other"] and kept["machine"] == found["machine"]:
            found["rows"] = [{"commit": kept["commit"], **row} for row in kept["rows"]]
        for part in options.only:
            rows = [row | {"commit": found["commit"]} for row in compare(other, part, options.runs)]
            found["rows"] = [row for row in found["rows"] if row["part"] != part] + rows
            found["rows"].sort(key=lambda row: list(SPEED).index(row["part"]))
            write_atomically(options.output, json.dumps(found, indent=1).encode())
    if options.output == RESULT:
        fill_in(PAGE, "speed/against", "ratios", table(json.loads(RESULT.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
