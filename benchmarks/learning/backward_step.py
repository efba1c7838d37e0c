"""Search for linear feedback gains that damp the flow behind a backward-facing step, and evaluate the baselines.

    python benchmarks/learning/backward_step.py search     # resumable; 15 minutes on one core
    python benchmarks/learning/backward_step.py evaluate   # the baselines of cases/baselines.py, on test episodes
    python benchmarks/learning/backward_step.py steady     # separation bubbles of the steady flows; ten minutes
    python benchmarks/learning/backward_step.py page       # table and picture of docs/backward_step.md

The feedback uses the velocities upstream of the slot at the current and the previous action (linear_search.py). Raw
results: benchmarks/results/backward_step/; trainings are made with train_seeds.py and stored in
benchmarks/results/backward_step_quick.parquet.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.baselines import evaluate_baselines  # noqa: E402
from benchmarks.learning.linear_search import (  # noqa: E402
    Search,
    beside_no_control,
    carry_on,
    cost_table,
)
from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, read, write_json  # noqa: E402
from cases.backward_step.env import INLET, BackwardStep  # noqa: E402
from cases.options import preset_options  # noqa: E402
from flowsim.validation.driven import crossings, wall_shear  # noqa: E402

RESULTS = STUDIES / "backward_step"
TASK, PRESET = "flowsim/BackwardStep-v0", "quick"
NOW = (0, 3, 6, 9)
"""Observations fed back: x velocity near the wall and y velocity in the middle, in each of the two sensor columns."""
SENSED = 19
"""Number of observations per action."""
SEARCH = Search(
    TASK, PRESET, observed=(*NOW, *(SENSED + n for n in NOW)), mean=(0.0,) * 8, spread=(15.0,) * 8, actions=80
)  # fmt: skip
EPISODES = 10


def steady(file: Path) -> None:
    """Store the end of the lower bubble of the steady flow and the start and end of the upper one, in units of h."""
    found: dict[str, Any] = {}
    for preset in ("quick", "default"):
        env: Any = gymnasium.make(TASK, preset=preset, noise_speed=0.0).unwrapped
        env.reset(seed=0)
        flow = env.task.simulation
        x = flow.grid.centres()[0][:, 0] - INLET
        behind = x > 1.0  # skip the small bubble in the corner
        below, above = (crossings(x[behind], wall_shear(flow, side)[behind]) for side in (1, -1))
        found[preset] = {"lower": [round(below[-1], 3)], "upper": [round(one, 3) for one in above]}
        print(preset, found[preset], flush=True)
    write_json(file, {"task": TASK, "found": found} | current_origin())


def bubbles(kept: dict[str, Any]) -> str:
    """Return a Markdown table of the bubbles' positions for each preset."""
    lines = [
        "| preset | cells per h | lower bubble of the steady flow ends at | upper bubble |",
        "| --- |" + " --: |" * 3,
    ]
    for preset, found in kept["found"].items():
        cells = preset_options(BackwardStep.folder, preset)["cells_per_diameter"]
        begin, end = found["upper"]
        lines.append(
            f"| `{preset}` | {cells} | {found['lower'][0]:.1f} h | {begin:.1f} to {end:.1f} h |"
        )
    return "\n".join(lines)


def picture() -> Figure:
    """Plot a test episode's vorticity minus the steady flow's, and the energy E, with and without feedback."""
    energy = []
    for task, _, measures in beside_no_control(TASK, PRESET):
        energy.extend([measures["energy"]] if measures else [])
        scenes = [task.scene(b) for b in range(2)]
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    axes = figure.subplots(3, 1, gridspec_kw={"height_ratios": [1.0, 1.0, 1.6]})
    names = ("no control", "linear feedback")
    time = task.options.action_time * (np.arange(len(energy)) + 1.0)
    for axis, scene, name in zip(axes, scenes, names, strict=False):
        width, height = scene.size
        axis.imshow(
            scene.values.T,
            origin="lower",
            extent=(-INLET, width - INLET, -1.0, height - 1.0),
            cmap="RdBu_r",
            vmin=-0.3,
            vmax=0.3,
            aspect="auto",
        )
        axis.fill((-INLET, 0.0, 0.0, -INLET), (-1.0, -1.0, 0.0, 0.0), color="0.3")
        axis.set(title=f"{name}, at {time[-1]:.0f} h/U", ylabel="y/h")
    axes[1].set(xlabel="x/h")
    axes[2].plot(time, 1e3 * np.array(energy), label=names)
    axes[2].set(xlabel="time, h/U", ylabel="E, 1e-3 rho U^2 h^2")
    axes[2].legend(frameon=False)
    return figure


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "steady", "page"))
    parser.add_argument("--generations", type=int, default=20)
    options = parser.parse_args()
    if options.command == "search":
        carry_on(SEARCH, options.generations, RESULTS / "search.json")
    elif options.command == "evaluate":
        evaluate_baselines(TASK, PRESET, EPISODES, RESULTS / "evaluate.json")
    elif options.command == "steady":
        steady(RESULTS / "steady.json")
    else:
        kept = json.loads((RESULTS / "evaluate.json").read_text())
        trained = {"SAC (`quick`)": read(STUDIES / "backward_step_quick.parquet")}
        page = ROOT / "docs" / "backward_step.md"
        fill_in(page, "learning/backward_step", "baselines", cost_table(kept, trained, "h"))
        steady_flows = json.loads((RESULTS / "steady.json").read_text())
        fill_in(page, "learning/backward_step", "bubbles", bubbles(steady_flows))
        save_plot(picture(), ROOT / "docs" / "images" / "backward_step.png")


if __name__ == "__main__":
    main()
