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

from benchmarks.learning.drag_tasks import of_seeds, seeds  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import Row, read  # noqa: E402
from cases.baselines import AveragedPDController, Controller, above_heaters  # noqa: E402
from coupling.evaluation.evaluate import baselines_of  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.origin import machine, provenance  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose  # noqa: E402

RESULTS = STUDIES / "rayleigh_benard"
TASK = "flowsim/RayleighBenard-v0"
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


def play(controllers: dict[str, Controller], purpose: Purpose, episodes: int, file: Path) -> None:
    """Run the episodes of each controller in the preset `quick` and store the results."""
    found = dict[str, Any]()
    with EvaluationPool(TASK, {}, processes=1, purpose=purpose) as pool:
        for name, controller in controllers.items():
            played = pool.play(controller, episodes, EVALUATION_SEED)
            found[name] = played.summary() | {"returns": played.returns.tolist()}
            nusselt = found[name]["measures"]["Nu"]["mean"]
            print(f"{name}: return {found[name]['mean_return']:.2f}, Nu {nusselt:.3f}", flush=True)
    kept = {"task": TASK, "purpose": purpose.name, "found": found, "machine": machine()}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(kept | provenance(), indent=1).encode())


def table(kept: dict[str, Any], trained: dict[str, list[Row]]) -> str:
    """Return a Markdown table with a row for each controller and for the trained agents of each preset."""
    lines = ["| controller | return | Nu | change in Nu |", "| --- | --: | --: | --: |"]
    zero = kept["found"]["zero"]["measures"]["Nu"]["mean"]
    rows = {f"`{name}`": result for name, result in kept["found"].items()}
    for who, of_preset in trained.items():
        if of_preset:
            rows[f"{who}, {seeds(of_preset)}"] = of_seeds(of_preset)
    for name, result in rows.items():
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
    if command == "page":
        kept = json.loads((RESULTS / "evaluate.json").read_text())
        page = ROOT / "docs/rayleigh_benard.md"
        trained = {who: read(STUDIES / f"{study}.parquet") for who, study in TRAINED.items()}
        fill_in(page, "learning/rayleigh_benard", "baselines", table(kept, trained))
    elif command == "search":
        play(candidates(), Purpose.SELECTION, EPISODES["search"], RESULTS / "search.json")
    else:
        shipped = baselines_of(TASK, {}, EVALUATION_SEED)
        play(shipped, Purpose.EVALUATION, EPISODES["evaluate"], RESULTS / "evaluate.json")


if __name__ == "__main__":
    main()
