"""Effort needed to stay in the wake, from the force on an ellipse fixed at many positions.

    python benchmarks/physics/drafting.py run --cells 16 32            # the missing studies; one file per resolution
    python benchmarks/physics/drafting.py run --cells 16 --sides slip  # in another box: CELLS_SIDES.json
    python benchmarks/physics/drafting.py page                         # docs/studies/drafting.md and its picture

The effort at a position is the mean of |a|^2 for an agent that stays fixed there: a is the force divided by 0.5 and the
torque divided by 0.05, averaged over each action (one D/U), and balances the force of the flow. ``effort_of_the_mean``
is the effort of the mean force; the rest is due to passing vortices. Raw results: benchmarks/results/drafting/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from cases.d_cylinder_wake.env import CYLINDER, STREAM, WakeOptions  # noqa: E402
from cases.ellipse_agent import ASPECT_RATIO  # noqa: E402
from flowsim import Ellipse, HalfDisk, Sides, Simulation  # noqa: E402

RESULTS = STUDIES / "drafting"
PAGE = ROOT / "docs" / "studies" / "drafting.md"
ALONG = np.linspace(0.65, 3.35, 10)
"""Distances of the ellipse's centre behind the flat side, in D."""
ASIDE = np.linspace(0.0, 1.25, 6)
ANGLES = {"along": 0.0, "across": np.pi / 2}
DEVELOPMENT, ACTIONS = 80.0, 24
"""Development time of the wake with the body, in D/U, and number of actions measured then (five to seven periods)."""
BATCH = 24
KICK = 0.02
"""Initial cross-stream velocity, which breaks the symmetry of the flow."""

FloatArray = NDArray[np.float64]


def places() -> FloatArray:
    """Return x, y (from the middle of the flat side) and angle of all positions, shape (n, 3)."""
    return np.array([(x, y, angle) for angle in ANGLES.values() for x in ALONG for y in ASIDE])


def loads(cells: int, sides: str, held: FloatArray) -> FloatArray:
    """Return the mean force and torque on fixed bodies (n, 3) during each action, shape (n, actions, 3)."""
    kinds = {"bottom": sides, "top": sides}
    options = WakeOptions.model_validate(
        {"cells_per_diameter": cells, "start": "impulsive", "sides": kinds}
    )
    sim = Simulation(
        options.grid(), Sides(**options.sides.model_dump()),
        [HalfDisk(diameter=1.0, center=CYLINDER), Ellipse(major=1.0, aspect=ASPECT_RATIO, center=(4.0, 2.0))],
        viscosity=1.0 / options.reynolds, stream=STREAM, cfl=options.cfl, penalty=options.penalty, dtype=options.dtype,
        batch=len(held),
    )  # fmt: skip
    body = sim.body_state
    body.position[:, 1], body.angle[:, 1] = np.array(CYLINDER) + held[:, :2], held[:, 2]
    for index in range(len(held)):
        sim.add_velocity(index, 0.0, KICK)
    sim.settle()
    sim.advance(DEVELOPMENT)
    found = []
    for _ in range(ACTIONS):
        body.impulse[:] = 0.0
        sim.advance(1.0)
        found.append(body.impulse[:, 1].copy())
    return np.stack(found, axis=1)


def study(cells: int, sides: str) -> dict[str, Any]:
    """Return the effort at every position for a resolution and a boundary condition at the bottom and top."""
    everywhere, options = places(), WakeOptions.model_validate({})
    parts = []
    for first in range(0, len(everywhere), BATCH):
        print(f"{cells} cells per D, {sides}: {first} of {len(everywhere)} places", flush=True)
        parts.append(loads(cells, sides, everywhere[first : first + BATCH]))
    acted = np.concatenate(parts) / (options.force_scale, options.force_scale, options.torque_scale)
    return {
        "cells_per_diameter": cells,
        "sides": sides,
        "places": everywhere.tolist(),
        "mean_action": (-acted.mean(axis=1)).tolist(),
        "effort": (acted**2).sum(axis=2).mean(axis=1).tolist(),
        "effort_of_the_mean": (acted.mean(axis=1) ** 2).sum(axis=1).tolist(),
    }


# --- page --------------------------------------------------------------------------------------------------------


def maps(found: dict[str, Any], key: str) -> dict[str, FloatArray]:
    """Return the effort ``key`` at every position, shape (x, y), for each angle."""
    values = np.array(found[key]).reshape(len(ANGLES), len(ALONG), len(ASIDE))
    return dict(zip(ANGLES, values, strict=True))


def table(studies: list[dict[str, Any]]) -> str:
    """Return a Markdown table of the positions of least effort for every resolution and angle."""
    lines = ["| cells per D | bottom and top | body | place of least effort, x, y | effort there | "
             "effort of the mean alone | mean action there | effort at (1.75, 0) | at (3.35, 0) |",
             "| --: |" + " --- |" * 8]  # fmt: skip
    for found in studies:
        means = np.array(found["mean_action"]).reshape(len(ANGLES), len(ALONG), len(ASIDE), 3)
        for number, name in enumerate(ANGLES):
            effort, least = maps(found, "effort")[name], maps(found, "effort_of_the_mean")[name]
            i, j = np.unravel_index(effort.argmin(), effort.shape)
            near = int(np.argmin(abs(ALONG - 1.75)))
            action = ", ".join(f"{value:.2f}" for value in means[number, i, j])
            flow = f"{found['cells_per_diameter']} | {found['sides']}"
            lines.append(
                f"| {flow} | {name} the stream | {ALONG[i]:.2f}, {ASIDE[j]:.2f} | "
                f"{effort[i, j]:.3f} | {least[i, j]:.3f} | {action} | {effort[near, 0]:.3f} | {effort[-1, 0]:.3f} |"
            )
    return "\n".join(lines)


def draw(studies: list[dict[str, Any]], file: Path) -> None:
    """Plot both efforts over the wake, one row per resolution."""
    panels = [(name, key) for name in ANGLES for key in ("effort", "effort_of_the_mean")]
    figure = Figure(figsize=(11, 4.6 * len(studies)), layout="constrained")
    FigureCanvasAgg(figure)
    axes_of_all = figure.subplots(
        2 * len(studies), len(panels) // 2, squeeze=False, sharex=True, sharey=True
    )
    rows = axes_of_all.reshape(len(studies), len(panels))
    scale = matplotlib.colors.LogNorm(0.01, 10.0)
    for row, found in zip(rows, studies, strict=True):
        sides = {"far_field": "unbounded stream"}.get(found["sides"], found["sides"])
        for axes in row[:: len(panels) // 2]:
            axes.set_ylabel(f"{found['cells_per_diameter']} cells per D,\n{sides}\ny / D")
        for axes, (name, key) in zip(row, panels, strict=True):
            effort = maps(found, key)[name]
            shown = axes.pcolormesh(
                ALONG, ASIDE, effort.T, norm=scale, cmap="viridis_r", shading="nearest"
            )
            for i, x in enumerate(ALONG):
                for j, y in enumerate(ASIDE):
                    colour = "white" if effort[i, j] > 1.0 else "black"
                    axes.text(
                        x,
                        y,
                        f"{effort[i, j]:.2g}" if effort[i, j] >= scale.vmin else "< 0.01",
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=colour,
                    )
            title = f"{name} the stream, {'fixed' if key == 'effort' else 'mean force alone'}"
            axes.set_title(title, fontsize="medium")
            axes.set_aspect("equal")
    for axes in axes_of_all[-1]:
        axes.set_xlabel("x / D from the flat side")
    figure.colorbar(shown, ax=axes_of_all, label="mean of $|a|^2$", extend="min")
    save_plot(figure, file)


def write_page() -> None:
    """Fill in the table of the page and plot the picture."""
    studies = [json.loads(file.read_text()) for file in RESULTS.glob("*.json")]
    studies.sort(key=lambda found: (found["cells_per_diameter"], found["sides"] != "far_field"))
    fill_in(PAGE, "physics/drafting", "table", table(studies))
    draw(studies, PAGE.parent / "images" / "drafting.png")


def main() -> int:
    """Run the missing studies or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "page"])
    parser.add_argument("--cells", nargs="+", type=int, default=[16, 32], help="cells per D")
    parser.add_argument(
        "--sides", default="far_field", help="kind of the bottom and the top of the box"
    )
    options = parser.parse_args()
    if options.command == "page":
        write_page()
        return 0
    for cells in options.cells:
        name = f"{cells}" if options.sides == "far_field" else f"{cells}_{options.sides}"
        file = RESULTS / f"{name}.json"
        if not file.exists():
            write_json(file, study(cells, options.sides) | current_origin())
    return 0


if __name__ == "__main__":
    sys.exit(main())
