"""Search for linear feedback gains that keep the lift of a foil constant in gusts, and evaluate the baselines.

    python benchmarks/learning/pitching_foil.py search     # resumable; ten minutes on one core
    python benchmarks/learning/pitching_foil.py evaluate   # the baselines of cases/baselines.py, on test episodes
    python benchmarks/learning/pitching_foil.py page       # table and picture of docs/pitching_foil.md

The feedback uses the lift, the lift at the previous action, the angle and the angular velocity (linear_search.py). Raw
results: benchmarks/results/pitching_foil/; trainings are made with train_seeds.py and stored in
benchmarks/results/pitching_foil_quick.parquet.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

import cases  # noqa: E402, F401
from benchmarks.learning.baselines import evaluate_baselines, rows_of  # noqa: E402
from benchmarks.learning.linear_search import Search, beside_no_control, carry_on  # noqa: E402
from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import Row, read  # noqa: E402

RESULTS = STUDIES / "pitching_foil"
TASK, PRESET = "flowsim/PitchingFoil-v0", "quick"
SEARCH = Search(
    TASK,
    PRESET,
    observed=(0, 3, 1, 2),
    mean=(0.3, 0.0, -0.2, -0.2),
    spread=(0.5, 0.5, 0.5, 0.5),
    actions=60,
)
"""Initial mean and spread of the gains: C_L deviation, previous C_L deviation, angle and angular velocity."""
EPISODES = 10


def table(kept: dict[str, Any], trained: list[Row]) -> str:
    """Return a Markdown table with a row for each baseline and one for the trained agents."""
    zero = kept["found"]["zero"]["mean_return"]
    lines = [
        "| controller | return | change in cost | C_D | C_L | angle of attack | pitch power |",
        "| --- |" + " --: |" * 6,
    ]
    for name, result in rows_of(kept["found"], {"trained": trained}).items():
        low, high = result["ci95"]
        cells = [
            f"{found['mean']:.3f} +- {found['rms']:.3f}" for found in result["measures"].values()
        ]
        change = 100.0 * (result["mean_return"] / zero - 1.0)
        value = f"{result['mean_return']:.2f} [{low:.2f}, {high:.2f}]"
        lines.append(f"| {name} | {value} | {change:+.0f} % | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture() -> Figure:
    """Plot the vorticity in a test episode with and without feedback, and the lift and angle of both against time."""
    rows, scenes, largest = [], [], 0.0
    for task, seen, measures in beside_no_control(TASK, PRESET):
        if measures:
            rows.append([*measures["C_L"], *measures["angle of attack"]])
        # the time at which the lift without control deviates most from its target
        if abs(seen[0, 0]) > largest and len(rows) < task.options.episode_actions:
            largest, at = abs(float(seen[0, 0])), len(rows)
            scenes = [task.scene(b) for b in range(2)]
    history, time = np.array(rows), task.options.action_time * (np.arange(len(rows)) + 0.5)
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axes = figure.subplots(2, 2, gridspec_kw={"height_ratios": [1.0, 0.8]})
    names = ("no control", "linear feedback")
    for axis, scene, name in zip(axes[0], scenes, names, strict=True):
        width, height = scene.size
        axis.imshow(
            scene.values.T,
            origin="lower",
            extent=(0, width, 0, height),
            cmap="RdBu_r",
            vmin=-8,
            vmax=8,
        )
        for outline in scene.outlines:
            axis.fill(*outline.points.T, color="0.3")
        axis.set(
            title=f"{name}, vorticity at {task.options.action_time * at:.1f} c/U",
            xlabel="x/c",
            ylabel="y/c",
        )
    for axis, first, label in ((axes[1, 0], 0, "C_L"), (axes[1, 1], 2, "angle of attack, degrees")):
        for b, name in enumerate(names):
            axis.plot(time, history[:, first + b], label=name)
        axis.set(xlabel="time, c/U", ylabel=label)
        axis.axvline(task.options.action_time * at, color="0.8", zorder=0)
    axes[1, 0].axhline(task.options.lift_reference, color="0.5", linestyle=":")
    axes[1, 0].legend(frameon=False)
    return figure


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "page"))
    parser.add_argument("--generations", type=int, default=10)
    options = parser.parse_args()
    if options.command == "search":
        carry_on(SEARCH, options.generations, RESULTS / "search.json")
    elif options.command == "evaluate":
        evaluate_baselines(TASK, PRESET, EPISODES, RESULTS / "evaluate.json")
    else:
        kept = json.loads((RESULTS / "evaluate.json").read_text())
        trained = read(STUDIES / "pitching_foil_quick.parquet")
        page = ROOT / "docs" / "pitching_foil.md"
        fill_in(page, "learning/pitching_foil", "baselines", table(kept, trained))
        save_plot(picture(), ROOT / "docs" / "images" / "pitching_foil.png")


if __name__ == "__main__":
    main()
