"""Drag, lift and Strouhal number of the flow-control tasks without control, beside published values.

    python benchmarks/physics/uncontrolled.py run     # the missing flows; some minutes each on one core
    python benchmarks/physics/uncontrolled.py page    # the tables of the tasks' pages

Each flow starts from a stored state of its task, at the resolution of a preset, or of a larger box. Raw results:
benchmarks/results/uncontrolled/.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

import cases  # noqa: E402, F401
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from flowsim import Grid, Recorder, Sides, Simulation, polygon  # noqa: E402
from flowsim.bodies.resolution import blockage  # noqa: E402
from flowsim.measure.spectra import dominant_frequency  # noqa: E402
from flowsim.validation.cylinder import disturb_wake  # noqa: E402

RESULTS = STUDIES / "uncontrolled"
PERIODS = 12
"""Shedding periods over which a flow is measured."""


class Study(NamedTuple):
    """A flow: the page that shows it, a function that makes it, and the approximate period of its shedding in D/U."""

    page: str
    make: Callable[[], Simulation]
    period: float


def of_preset(task: str, preset: str) -> Callable[[], Simulation]:
    """Return a function that makes the flow of a preset, in its first stored state."""

    def make() -> Simulation:
        env: Any = gymnasium.make(f"flowsim/{task}-v0", preset=preset)
        env.reset(seed=0)
        simulation: Simulation = env.unwrapped.task.simulation
        return simulation

    return make


def square_in(width: float, height: float, cells: int) -> Callable[[], Simulation]:
    """Return a function that makes the flow past a square, without jets, in a box of this size."""

    def make() -> Simulation:
        corners = [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]
        square = polygon(corners, center=(0.4 * width, 0.5 * height))
        grid = Grid(round(width * cells), round(height * cells), 1.0 / cells)
        sides = Sides("far_field", "outflow", "far_field", "far_field")
        simulation = Simulation(grid, sides, [square], viscosity=0.01, cfl=0.55, dtype="float32")
        disturb_wake(simulation)
        simulation.advance(200.0)
        return simulation

    return make


PLAN = {
    "cylinder_jets quick": Study("cylinder_jets.md", of_preset("CylinderJets", "quick"), 3.4),
    "cylinder_jets default": Study("cylinder_jets.md", of_preset("CylinderJets", "default"), 3.4),
    "rotating_cylinder quick": Study("rotating_cylinder.md", of_preset("RotatingCylinder", "quick"), 6.2),
    "rotating_cylinder default": Study("rotating_cylinder.md", of_preset("RotatingCylinder", "default"), 6.2),
    "rotating_cylinder re200": Study("rotating_cylinder.md", of_preset("RotatingCylinder", "re200"), 5.2),
    "rotating_cylinder channel": Study("rotating_cylinder.md", of_preset("RotatingCylinder", "channel"), 3.4),
    "square_jets quick": Study("square_jets.md", of_preset("SquareJets", "quick"), 7.0),
    "square_jets default": Study("square_jets.md", of_preset("SquareJets", "default"), 7.0),
    "square, 40 x 24 D": Study("square_jets.md", square_in(40.0, 24.0, 20), 7.0),
    "fluidic_pinball quick": Study("pinball.md", of_preset("FluidicPinball", "quick"), 9.0),
    "fluidic_pinball default": Study("pinball.md", of_preset("FluidicPinball", "default"), 9.0),
}  # fmt: skip
"""Every flow by its name in the tables: a preset, or a body in another box."""


def file_of(name: str) -> Path:
    """Return the file with the results of a flow."""
    return RESULTS / f"{name.replace(',', '').replace(' ', '_')}.json"


def measure(name: str) -> dict[str, Any]:
    """Return the coefficients of the force on all bodies together, and the Strouhal number of the lift."""
    study = PLAN[name]
    simulation = study.make()
    recorder = Recorder(simulation, every=0.05)
    simulation.advance(PERIODS * study.period)
    drag, lift = 2.0 * recorder.mean_force[0].sum(axis=1).T
    grid = simulation.grid
    return {
        "name": name,
        "cells_per_diameter": round(1.0 / grid.h, 1),
        "box": [round(length, 2) for length in grid.size],
        "blockage": float(blockage(simulation)[0]),
        "duration": PERIODS * study.period,
        "C_D": float(drag.mean()),
        "max_C_D": float(drag.max()),
        "mean_C_L": float(lift.mean()),
        "rms_C_L": float(lift.std()),
        "max_C_L": float(lift.max()),
        "St": float(dominant_frequency(recorder.time[0], lift)),
    }


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each flow and one with the published values."""
    lines = [
        "| flow without control | cells per D | box, D | blockage | C_D | maximum of C_D | C_L, mean +- rms | "
        "maximum of C_L | St |",
        "| --- |" + " --: |" * 8,
    ]
    for name, row in found.items():
        box = " x ".join(f"{length:.4g}" for length in row["box"])
        lift = f"{row['mean_C_L']:.3f}".replace("-0.000", "0.000")
        lines.append(
            f"| `{name}` | {row['cells_per_diameter']:.3g} | {box} | {100 * row['blockage']:.1f} % | "
            f"{row['C_D']:.3f} | {row['max_C_D']:.3f} | {lift} +- {row['rms_C_L']:.3f} | {row['max_C_L']:.3f} | "
            f"{row['St']:.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("run", "page"))
    if parser.parse_args().command == "run":
        for name in PLAN:
            file = file_of(name)
            if not file.exists():
                row = measure(name)
                print(row, flush=True)
                write_json(file, row | current_origin())
        return
    for page in dict.fromkeys(study.page for study in PLAN.values()):
        files = {name: file_of(name) for name in PLAN if PLAN[name].page == page}
        found = {
            name: json.loads(file.read_text()) for name, file in files.items() if file.exists()
        }
        fill_in(ROOT / "docs" / page, "physics/uncontrolled", "uncontrolled", table(found))


if __name__ == "__main__":
    main()
