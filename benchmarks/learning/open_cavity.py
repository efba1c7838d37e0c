"""Search for linear feedback gains that damp the shear layer over a cavity, and evaluate the baselines.

    python benchmarks/learning/open_cavity.py search     # resumable; half an hour on one core
    python benchmarks/learning/open_cavity.py evaluate   # the baselines of cases/baselines.py, on test episodes
    python benchmarks/learning/open_cavity.py modes      # eigenvalues of the steady flow; half an hour
    python benchmarks/learning/open_cavity.py page       # tables and picture of docs/open_cavity.md

The feedback uses the velocities in the shear layer at the current and the previous action (linear_search.py). Raw
results: benchmarks/results/open_cavity/; trainings are made with train_seeds.py and stored in
benchmarks/results/open_cavity_quick.parquet.
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

from benchmarks.learning.baselines import evaluate_baselines  # noqa: E402
from benchmarks.learning.linear_search import (  # noqa: E402
    Search,
    beside_no_control,
    carry_on,
    cost_table,
)
from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, read, read_by_method, write_json  # noqa: E402
from cases.open_cavity.env import AHEAD, BEHIND, DEPTH, HEIGHT, STEADY, open_cavity  # noqa: E402
from flowsim import Grid, Simulation, base_flow, leading_modes  # noqa: E402

RESULTS = STUDIES / "open_cavity"
TASK, PRESET = "flowsim/OpenCavity-v0", "quick"
ACROSS = (1, 3, 5, 7)
"""Observations fed back: y velocity at the four points of the cavity's mouth."""
SENSED = 9
"""Number of observations per action."""
SEARCH = Search(
    TASK, PRESET, observed=(*ACROSS, *(SENSED + n for n in ACROSS)), mean=(0.0,) * 8,
    spread=(30.0, 15.0, 6.0, 3.0) * 2, actions=80,
)  # fmt: skip
EPISODES = 10
REYNOLDS, CELLS = 7500.0, (80, 120)
PUBLISHED = ((0.461, 7.881), (0.889, 10.899), (0.727, 13.800))
"""Growth rate and angular frequency of the three fastest-growing modes at this Reynolds number, sorted by frequency,
from the scripts of FlowControl (Jussiau), which uses HydroGym's cavity."""


def modes(file: Path) -> None:
    """Store the growth rates and angular frequencies of the steady flow's modes on each grid, in U/L."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"found": {}}
    for cells in CELLS:
        if str(cells) in kept["found"]:
            continue
        flow = open_cavity()
        width, height = AHEAD + 1.0 + BEHIND, DEPTH + HEIGHT
        grid = Grid(round(cells * width), round(cells * height), 1.0 / cells)
        simulation = Simulation(
            grid, flow.sides, flow.bodies, viscosity=1.0 / REYNOLDS, stream=flow.stream, jets=flow.jets,
            dtype="float64",
        )  # fmt: skip
        for side, profile in flow.inflows.items():
            simulation.set_inflow(side, profile)
        assert STEADY.damping is not None
        damping, width = STEADY.damping
        base_flow(simulation, damping=damping, filter_width=width, tolerance=3e-5, duration=200.0)
        found = leading_modes(simulation, count=len(PUBLISHED), interval=0.15, vectors=120)
        kept["found"][str(cells)] = {
            "change": float(found.change[0]),
            "error": found.error[0].tolist(),
            "growth_rate": found.growth_rate[0].tolist(),
            "angular_frequency": (2.0 * np.pi * found.frequency[0]).tolist(),
        }
        kept |= {"task": TASK, "reynolds": REYNOLDS} | current_origin()
        write_json(file, kept)
        print(cells, kept["found"][str(cells)], flush=True)


def eigenvalues(kept: dict[str, Any]) -> str:
    """Return a Markdown table of the growth rate and angular frequency of each mode on each grid and as published."""
    lines = [
        "| cells per L |" + "".join(f" mode {n} |" for n in range(1, len(PUBLISHED) + 1)),
        "| --- |" + " --: |" * len(PUBLISHED),
    ]
    rows = {
        cells: sorted(zip(found["growth_rate"], found["angular_frequency"], strict=True), key=lambda mode: mode[1])
        for cells, found in kept["found"].items()
    }  # fmt: skip
    for name, values in {**rows, "published": PUBLISHED}.items():
        told = "".join(f" {rate:.3f}, {frequency:.2f} |" for rate, frequency in values)
        lines.append(f"| {name} |{told}")
    return "\n".join(lines)


def picture() -> Figure:
    """Plot the final vorticity of a test episode and its energy, with and without linear feedback."""
    energy = []
    for task, _, measures in beside_no_control(TASK, PRESET):
        energy.extend([measures["energy"]] if measures else [])
        flows = [task.simulation.vorticity(b) for b in range(2)]
        width, height = task.options.box()
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axes = figure.subplot_mosaic(
        [["zero", "feedback"], ["energy", "energy"]], height_ratios=[1.6, 1.0]
    )
    names = ("no control", "linear feedback")
    time = task.options.action_time * (np.arange(len(energy)) + 1.0)
    for axis, flow, name in zip((axes["zero"], axes["feedback"]), flows, names, strict=True):
        axis.imshow(
            flow.T,
            origin="lower",
            extent=(-AHEAD, width - AHEAD, -DEPTH, height - DEPTH),
            cmap="RdBu_r",
            vmin=-20.0,
            vmax=20.0,
        )
        for left, right in ((-AHEAD, 0.0), (1.0, 1.0 + BEHIND)):
            axis.fill((left, right, right, left), (-DEPTH, -DEPTH, 0.0, 0.0), color="0.3")
        axis.set(title=f"{name}, at {time[-1]:.0f} L/U", xlabel="x/L", ylabel="y/L")
    axes["energy"].plot(time, 1e3 * np.array(energy), label=names)
    axes["energy"].set(xlabel="time, L/U", ylabel="E, 1e-3 rho U^2 L^2")
    axes["energy"].legend(frameon=False)
    return figure


def page() -> None:
    """Fill in the tables of docs/open_cavity.md and draw its picture."""
    kept = json.loads((RESULTS / "evaluate.json").read_text())
    trained = {"SAC (`quick`)": read(STUDIES / "open_cavity_quick.parquet")}
    trained |= read_by_method(STUDIES / "open_cavity_learners.parquet")
    file = ROOT / "docs" / "open_cavity.md"
    fill_in(file, "learning/open_cavity", "baselines", cost_table(kept, trained, "L"))
    modes_kept = json.loads((RESULTS / "modes.json").read_text())
    fill_in(file, "learning/open_cavity", "eigenvalues", eigenvalues(modes_kept))
    save_plot(picture(), ROOT / "docs" / "images" / "open_cavity.png")


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "modes", "page"))
    parser.add_argument("--generations", type=int, default=20)
    options = parser.parse_args()
    if options.command == "search":
        carry_on(SEARCH, options.generations, RESULTS / "search.json")
    elif options.command == "evaluate":
        evaluate_baselines(TASK, PRESET, EPISODES, RESULTS / "evaluate.json")
    elif options.command == "modes":
        modes(RESULTS / "modes.json")
    else:
        page()


if __name__ == "__main__":
    main()
