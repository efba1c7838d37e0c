"""Convection with heaters: search for PD controllers on validation states, and evaluate the baselines on test states.

    python benchmarks/learning/rayleigh_benard.py search      # ten minutes on one core
    python benchmarks/learning/rayleigh_benard.py evaluate
    python benchmarks/learning/rayleigh_benard.py page        # the table of the task's page

`cases/baselines.py` ships the controller with the highest return in the search. Raw results are in
benchmarks/results/rayleigh_benard/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.baselines import evaluate_baselines, play_all, rows_of  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import Row, read  # noqa: E402
from cases.baselines import AveragedPDController, Controller, above_heaters  # noqa: E402
from rl_agent.rollout.seeds import Purpose  # noqa: E402

RESULTS = STUDIES / "rayleigh_benard"
TASK, PRESET = "flowsim/RayleighBenard-v0", "quick"
EPISODES = {"search": 3, "evaluate": 10}
TRAINED = {
    "SAC, one agent (`quick`)": "rayleigh_benard_quick",
    "V-RACER, an agent for each heater (`segments`)": "rayleigh_benard_segments",
}
"""Name and results file of each group of trained agents."""
ROWS = {"middle": (3, 4), "all": tuple(range(8))}
"""Rows of sensors whose vertical velocity is fed back."""


def candidates() -> dict[str, Controller]:
    """Return the candidate controllers, named by rows, gain and damping."""
    return {
        f"pd {name} {gain} {damping}": AveragedPDController(above_heaters(1, rows), gain, damping)
        for name, rows in ROWS.items()
        for gain in (2.0, 3.0, 5.0, 10.0)
        for damping in (-5.0, 0.0)
    }


def table(kept: dict[str, Any], trained: dict[str, list[Row]]) -> str:
    """Return a Markdown table with a row for each controller and for the trained agents of each preset."""
    lines = ["| controller | return | Nu | change in Nu |", "| --- | --: | --: | --: |"]
    zero = kept["found"]["zero"]["measures"]["Nu"]["mean"]
    for name, result in rows_of(kept["found"], trained).items():
        low, high = result["ci95"]
        found = result["measures"]["Nu"]
        change = 100.0 * (found["mean"] / zero - 1.0)
        lines.append(
            f"| {name} | {result['mean_return']:.1f} [{low:.1f}, {high:.1f}] | "
            f"{found['mean']:.3f} +- {found['rms']:.3f} | {change:+.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "page"))
    command = parser.parse_args().command
    file = RESULTS / f"{command}.json"
    if command == "page":
        kept = json.loads((RESULTS / "evaluate.json").read_text())
        page = ROOT / "docs/rayleigh_benard.md"
        trained = {who: read(STUDIES / f"{study}.parquet") for who, study in TRAINED.items()}
        fill_in(page, "learning/rayleigh_benard", "baselines", table(kept, trained))
    elif command == "search":
        play_all(TASK, PRESET, candidates(), Purpose.SELECTION, EPISODES[command], file)
    else:
        evaluate_baselines(TASK, PRESET, EPISODES[command], file)


if __name__ == "__main__":
    main()
