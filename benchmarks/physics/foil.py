"""Resolution needed for a thin foil: lift and drag of a NACA 0012 at 20 degrees and Re 100, at several resolutions.

    python benchmarks/physics/foil.py run          # the missing rows
    python benchmarks/physics/foil.py page         # the table of docs/studies/foil.md

The flow is steady. The coarsest grid starts impulsively; each other grid starts from the interpolated flow of the next
coarser one. The rows of :data:`CHECKS` show the influence of the box and of this way of starting. A row is complete
when it is in benchmarks/results/foil.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from flowsim import Grid, Sides, Simulation, polygon  # noqa: E402
from flowsim.bodies.foils import naca  # noqa: E402
from flowsim.bodies.resolution import FEWEST_CELLS, blockage, thickness, thin_edge  # noqa: E402

RESULTS = STUDIES / "foil.json"
PAGE = ROOT / "docs" / "studies" / "foil.md"
CELLS = (48, 64, 96, 128, 192)
REYNOLDS, DEGREES = 100.0, 20.0
BOX, LARGE = (6.0, 5.0), (12.0, 10.0)
"""Box sizes in chords; the mid-chord point is a third from the left and halfway up, slightly off the grid points."""
DEVELOPMENT, SETTLING, MEASURED = 25.0, 5.0, 0.5
"""Duration of a run from an impulsive start and from a coarser grid, and of the measurement at its end, in c/U."""
STREAM = Sides("far_field", "outflow", "far_field", "far_field")
WALLS = Sides("inflow", "outflow", "slip", "slip")
CHECKS = {
    "large box": (48, LARGE, DEVELOPMENT, STREAM),
    "twice as long": (48, BOX, 2 * DEVELOPMENT, STREAM),
    "between walls without friction": (48, (12.0, 5.0), DEVELOPMENT, WALLS),
}
PUBLISHED = {
    "HydroGym, lattice Boltzmann": (0.577, 0.783),
    "finite volumes, same comparison": (0.5703, 0.7729),
}
"""Published C_D and C_L at Re 100 and 20 degrees."""


def flow(cells: int, box: tuple[float, float], sides: Sides = STREAM) -> Simulation:
    """Return the simulation of the foil in an impulsively started stream."""
    nx, ny = (round(length * cells / 2) * 2 for length in box)
    place = box[0] / 3 + 0.003, box[1] / 2 + 0.001
    foil = polygon(naca(0.12).tolist(), center=place, angle=-np.radians(DEGREES))
    return Simulation(
        Grid(nx, ny, 1.0 / cells), sides, [foil], viscosity=1.0 / REYNOLDS, dtype="float32"
    )


def start_from(sim: Simulation, coarse: Simulation) -> None:
    """Start from the flow on another grid, by bilinear interpolation."""
    u, v = (
        coarse.sample_velocity(np.stack([x, y], axis=-1).reshape(-1, 2))[0, :, axis].reshape(
            x.shape
        )
        for axis, (x, y) in enumerate(
            np.broadcast_arrays(*faces) for faces in (sim.grid.u_faces(), sim.grid.v_faces())
        )
    )
    sim.set_velocity(0, u, v)
    sim.settle()


def measure(sim: Simulation, duration: float) -> dict[str, Any]:
    """Return lift and drag at the end of a run, by both measures, and how well the grid resolves the foil."""
    began = time.perf_counter()
    sim.advance(duration - MEASURED)
    balance, rows = sim.measure_control_volumes(), []

    def note(_: Simulation) -> Any:
        rows.append([*sim.body_state.force[0, 0], *balance.force[0, 0]])
        return np.zeros(1, bool)

    before = sim.body_state.force[0, 0].copy()
    sim.advance(MEASURED, stop=note)
    foil, h = sim.bodies[0], sim.grid.h
    found = 2.0 * np.array(rows)
    return {
        "box": list(sim.grid.size),
        "cells_per_chord": round(1.0 / h),
        "blockage": float(blockage(sim)[0]),
        "thickest_in_cells": thickness(foil) / h,
        "thin_before_edge": thin_edge(foil, FEWEST_CELLS * h),
        "drag": float(found[:, 0].mean()),
        "lift": float(found[:, 1].mean()),
        "drag_control_volume": float(found[:, 2].mean()),
        "lift_control_volume": float(found[:, 3].mean()),
        "lift_before": float(2.0 * before[1]),
        "duration": duration,
        "dt": float(sim.dt[0]),
        "seconds": time.perf_counter() - began,
    }


def keep(found: dict[str, Any], kind: str, name: str, row: dict[str, Any]) -> None:
    """Add a row to the results file."""
    found[kind][name] = row
    found |= current_origin() | {"reynolds": REYNOLDS, "degrees": DEGREES}
    write_json(RESULTS, found)
    print(name, row, flush=True)


def run() -> None:
    """Compute the missing rows; a finer grid needs the flow of the coarser one, which is not stored."""
    found: dict[str, Any] = {"cells": {}, "checks": {}}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text())
    missing = [str(cells) for cells in CELLS if str(cells) not in found["cells"]]
    coarse: Simulation | None = None
    for cells in CELLS if missing else ():
        sim = flow(cells, BOX)
        if coarse is not None:
            start_from(sim, coarse)
        row = measure(sim, DEVELOPMENT if coarse is None else SETTLING)
        if str(cells) in missing:
            keep(found, "cells", str(cells), row)
        coarse = sim
    for name, (cells, box, duration, sides) in CHECKS.items():
        if name not in found["checks"]:
            keep(found, "checks", name, measure(flow(cells, box, sides), duration))
    if (name := "started from its own flow") not in found["checks"]:
        first, again = flow(CELLS[0], BOX), flow(CELLS[0], BOX)
        first.advance(DEVELOPMENT)
        start_from(again, first)
        keep(found, "checks", name, measure(again, SETTLING))


def table(found: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each resolution, check and published value."""
    finest = found["cells"][str(CELLS[-1])]
    lines = [
        "| cells per chord | box, blockage | thickest part, cells | length of edge thinner than 4 cells | C_D | C_L | "
        "C_L relative to the finest | C_D, C_L, control volume |",
        "| --- | --- | --: | --: | --: | --: | --: | --: |",
    ]
    rows = [
        (str(cells), found["cells"][str(cells)]) for cells in CELLS if str(cells) in found["cells"]
    ]
    rows += [(f"{row['cells_per_chord']}, {name}", row) for name, row in found["checks"].items()]
    for name, row in rows:
        width, height = row["box"]
        lines.append(
            f"| {name} | {width:g} x {height:g}, {100 * row['blockage']:.1f} % | {row['thickest_in_cells']:.1f} | "
            f"{row['thin_before_edge']:.2f} chords | {row['drag']:.4f} | {row['lift']:.4f} | "
            f"{100 * (row['lift'] / finest['lift'] - 1):+.1f} % | {row['drag_control_volume']:.4f}, "
            f"{row['lift_control_volume']:.4f} |"
        )
    lines += [
        f"| {name} | | | | {drag} | {lift} | {100 * (lift / finest['lift'] - 1):+.1f} % | |"
        for name, (drag, lift) in PUBLISHED.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "page"))
    if parser.parse_args().command == "run":
        run()
    else:
        fill_in(PAGE, "physics/foil", "table", table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
