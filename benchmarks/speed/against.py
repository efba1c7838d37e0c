"""Compare the benchmarks of another commit with those of this one, running them alternately on the same machine.

    git worktree add /tmp/before d51ad57
    python benchmarks/speed/against.py /tmp/before  # into benchmarks/results/against.json and docs/studies/speed.md
    python benchmarks/speed/against.py /tmp/before --only tasks --runs 5 -o /tmp/ratios.json
    python benchmarks/speed/against.py --page       # only the table, from the stored results

Each run is ``flowsim bench PART --json`` of both checkouts in alternating order, in the environment of this
interpreter; learners and the solver's flows take short turns instead (in_turns.py).
A row's ratio is its speed here divided by its speed there; the speeds of all runs are stored.
Parts that are not measured again keep their rows, with the commit at which they were measured.
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
LONGEST = 1800.0  # time limit of one benchmark in seconds
SPEED = {
    "solver": "cells_per_second",
    "tasks": "actions_per_second",
    "learner": "updates_per_processor_second",
    "coupling": "round_trips_per_second",
}
IN_TURNS = {"solver": flow_rows, "learner": learner_rows}
"""Parts measured in short turns instead."""
NAMES = {
    "tasks": ("task", "threads"),
    "coupling": ("agents", "processes", "transport", "curve", "learning", "step_ms"),
}
"""Keys that identify the rows of the other parts."""
FORMER = {
    "d_cylinder_wake/quick": "d_cylinder_wake/sketch",
    "d_cylinder_wake at 16": "d_cylinder_wake/quick",
}
"""Current names of the tasks of a checkout that does not have the preset ``sketch``."""


def bench(checkout: Path, part: str) -> dict[str, float]:
    """Run a benchmark in a checkout and return the speed of each row."""
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
        # of a row that is measured twice, compared with different peers, the first counts
        speeds.setdefault(", ".join(_word(row, key) for key in NAMES[part]), row[SPEED[part]])
    return speeds


def _word(row: dict[str, Any], key: str) -> str:
    return str(row[key]) if isinstance(row[key], str) else f"{key} {row[key]}"


def compare(other: Path, part: str, runs: int) -> list[dict[str, Any]]:
    """Return the rows that both checkouts have, with pairs of speeds (other, this) for each run."""
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
    """Return the median over the runs of the speed here divided by the speed there."""
    return statistics.median(here / there for there, here in row["speeds"] if there)


def table(found: dict[str, Any]) -> str:
    """Return a Markdown table of the rows."""
    lines = [
        f"Compared with {found['other'][:7]}, on {found['machine']}.",
        "",
        f"| part | row | commit | median at {found['other'][:7]} | median ratio | quartiles | pairs |",
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
    """Compare two checkouts; return 2 if the other path is not a checkout."""
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
