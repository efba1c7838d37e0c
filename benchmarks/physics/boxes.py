"""Influence of the box on the shedding of the D-cylinder: the cylinder of the wake task alone, in several boxes.

    python benchmarks/physics/boxes.py run   # the missing boxes; some minutes on one core
    python benchmarks/physics/boxes.py page  # the table of docs/studies/boxes.md

Each box is that of the task with other boundary conditions or a larger size. A box is complete when its row is in
benchmarks/results/boxes/CELLS.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.physics.resolution import BEHIND, HELD, record, rising  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from cases.d_cylinder_wake.env import STREAM  # noqa: E402
from flowsim import Grid, HalfDisk, Sides, Simulation  # noqa: E402
from flowsim.validation.cylinder import disturb_wake  # noqa: E402

RESULTS = STUDIES / "boxes"
PAGE = ROOT / "docs" / "studies" / "boxes.md"
SLIP = Sides("inflow", "outflow", "slip", "slip")
OPEN = Sides("inflow", "outflow", "open", "open")
HALF_FAR = Sides("inflow", "outflow", "far_field", "far_field")
FAR = Sides("far_field", "outflow", "far_field", "far_field")
BOXES: dict[str, tuple[tuple[float, float], float, Sides]] = {
    "8 x 4 slip": ((8.0, 4.0), 1.8, SLIP),
    "8 x 4 open": ((8.0, 4.0), 1.8, OPEN),
    "8 x 4 far field, inflow on the left": ((8.0, 4.0), 1.8, HALF_FAR),
    "8 x 4 far field": ((8.0, 4.0), 1.8, FAR),
    "12 x 4 far field": ((12.0, 4.0), 1.8, FAR),
    "12 x 8 far field": ((12.0, 8.0), 3.0, FAR),
    "24 x 12 far field": ((24.0, 12.0), 6.0, FAR),
    "40 x 24 far field": ((40.0, 24.0), 12.0, FAR),
    "24 x 32 slip": ((24.0, 32.0), 8.0, SLIP),
}
"""Name, (width, height), distance of the flat side from the left boundary, and boundary conditions."""
DEVELOPMENT, MEASURED = 150.0, 100.0


def study(name: str, cells: int) -> dict[str, Any]:
    """Return the forces on the cylinder, the shedding period, and the mean and rms velocity behind it."""
    (width, height), ahead, sides = BOXES[name]
    centre = ahead, 0.5 * height
    sim = Simulation(
        Grid(round(width * cells), round(height * cells), 1.0 / cells), sides,
        [HalfDisk(diameter=1.0, center=centre)], viscosity=1.0 / 400.0, stream=STREAM, dtype="float32",
    )  # fmt: skip
    disturb_wake(sim)
    points = np.stack([centre[0] + BEHIND, np.full_like(BEHIND, centre[1])], axis=-1)[None]

    def look(sim: Simulation) -> tuple[float, ...]:
        velocity = sim.sample_velocity(points)[0]
        return *(2.0 * sim.body_state.force[0, 0]), *velocity[:, 0], *velocity[:, 1]

    sim.advance(DEVELOPMENT)
    rows = record(sim, MEASURED, look)
    at = int(np.argmin(abs(BEHIND - HELD[0])))
    u, v = rows[:, 3 + at], rows[:, 3 + len(BEHIND) + at]
    passes = rising(rows[:, 0], v - v.mean())
    return {
        "box": [width, height],
        "blockage": 1.0 / height,
        "drag": float(rows[:, 1].mean()),
        "lift_rms": float(rows[:, 2].std()),
        "period": float(np.diff(passes).mean()) if len(passes) > 2 else None,
        "deficit": float(1.0 - u.mean()),
        "v_rms": float(v.std()),
    }


def run(cells: int) -> None:
    """Compute the missing boxes."""
    file = RESULTS / f"{cells}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"boxes": {}}
    for name in BOXES:
        if name in found["boxes"]:
            continue
        found["boxes"][name] = study(name, cells)
        found |= current_origin() | {"cells_per_diameter": cells}
        write_json(file, found)
        print(f"{name} at {cells}: {found['boxes'][name]}", flush=True)


def table(results: list[dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each box and resolution."""
    lines = [
        "| cells per D | box in D, bottom and top | C_D | rms C_L | period | deficit at 1.75 D | rms v there |",
        "| --: | --- |" + " --: |" * 5,
    ]
    for result in results:
        for name, box in result["boxes"].items():
            period = "-" if box["period"] is None else f"{box['period']:.2f}"
            lines.append(
                f"| {result['cells_per_diameter']} | {name} | {box['drag']:.2f} | {box['lift_rms']:.2f} | {period} | "
                f"{box['deficit']:.2f} | {box['v_rms']:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("--cells", type=int, nargs="+", default=[16])
    options = parser.parse_args()
    if options.command == "run":
        for cells in options.cells:
            run(cells)
    else:
        results = [
            json.loads(file.read_text())
            for file in sorted(RESULTS.glob("*.json"), key=lambda f: int(f.stem))
        ]
        fill_in(PAGE, "physics/boxes", "table", table(results))


if __name__ == "__main__":
    main()
