"""Training speed in the wake: actions per second of `flowsim train`, with simulation, learner and service together.

    python benchmarks/speed/train_rate.py                 # some minutes; do not use the machine meanwhile

Each row is a separate run with 24 agents in two worker processes. Its rate is computed from ``statistics.csv``, from
the first gradient step to the last action. Raw results: benchmarks/results/bench/training.json, from which
`python benchmarks/speed/speed.py` writes the table of docs/studies/speed.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from coupling.files import write_atomically
from coupling.origin import machine, provenance

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "bench" / "training.json"
FLOWSIM = str(Path(sys.executable).with_name("flowsim"))
WAKE = "d_cylinder_wake"
RUNS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    (f"{WAKE}/quick", (), 10_000),
    (f"{WAKE}/default", ("env_options.cells_per_diameter=16",), 15_000),
    (f"{WAKE}/default", (), 6_000),
)
"""Preset, overrides and number of actions."""


def rate(statistics: Path) -> dict[str, float]:
    """Return the actions and gradient steps per second since the first gradient step."""
    with statistics.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if float(row["updates"])]
    first, last = (
        {key: float(row[key]) for key in ("environment_steps", "gradient_steps", "seconds")}
        for row in (rows[0], rows[-1])
    )
    seconds = last["seconds"] - first["seconds"]
    return {
        "actions_per_second": (last["environment_steps"] - first["environment_steps"]) / seconds,
        "updates_per_second": (last["gradient_steps"] - first["gradient_steps"]) / seconds,
        "seconds": seconds,
    }


def train(preset: str, changes: tuple[str, ...], steps: int, folder: Path) -> dict[str, Any]:
    """Train as a user would, and return the row."""
    run = [f"run.steps={steps}", "run.evaluate_episodes=0", "run.name=rate"]
    shutil.rmtree(folder / "runs", ignore_errors=True)
    subprocess.run([FLOWSIM, "train", preset, *changes, *run], check=True, cwd=folder)
    kept = folder / "runs" / "rate"
    config = yaml.safe_load((kept / "config.yaml").read_text())
    return {
        "task": preset,
        "algorithm": config["agent"]["algorithm"],
        "cells_per_diameter": config["env_options"]["cells_per_diameter"],
        "actions": steps,
    } | rate(kept / "statistics.csv")


def main() -> None:
    """Run all trainings and store the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    output = parser.parse_args().output
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for preset, changes, steps in RUNS:
            rows.append(train(preset, changes, steps, Path(folder)))
            print(rows[-1], flush=True)
    found = {"rows": rows, "machine": machine(), **provenance()}
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
