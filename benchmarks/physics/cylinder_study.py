"""Flow past a disk in several boxes, at several resolutions and positions in the grid.

    python benchmarks/physics/cylinder_study.py shedding --cells 24 --box 30x20
    python benchmarks/physics/cylinder_study.py places --cells 8 16 24
    python benchmarks/physics/cylinder_study.py sides --cells 16 --box 20x10 --duration 60
    python benchmarks/physics/cylinder_study.py wake --cells 32 --duration 100
    python benchmarks/physics/cylinder_study.py spinning --cells 12 --box 24x20 --duration 100

``shedding`` is the validation case cylinder-100 in a given box, with the disk 10 D behind the inflow or at a third of
a shorter box; ``places`` runs a disk at Re 40 for 12 D/U in 8 x 6 D with its centre at four positions within a cell;
``sides`` is ``shedding`` with several boundary conditions, and ``wake`` the half disk of the D-cylinder wake between
open sides at Re 400. ``spinning`` is a disk at Re 100 whose surface moves at 2 U, 8 D behind the inflow.
Appends a line of JSON for each run to benchmarks/results/cylinder_study/NAME.jsonl.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from coupling.origin import machine, provenance
from flowsim.bodies import Disk, HalfDisk
from flowsim.boundary import Sides
from flowsim.validation.cylinder import (
    STREAM,
    Box,
    drag_and_lift,
    shed,
    shedding_values,
    wake_length,
)
from flowsim.validation.result import Effort, follow

RESULTS = Path(__file__).parents[1] / "results" / "cylinder_study"
PLACES = ((0.0, 0.0), (0.25, 0.5), (0.5, 0.25), (0.1, 0.1))
"""Offsets of the disk's centre within its cell, in cells."""
SIDES = (("far_field", "far_field"), ("inflow", "far_field"), ("inflow", "open"), ("far_field", "open"),
         ("open", "open"), ("inflow", "slip"))  # fmt: skip
"""Boundary conditions: left, and bottom and top; the right side is an outflow."""


def shedding(
    cells: int, box: tuple[float, float], duration: float, sides: Sides = STREAM
) -> dict[str, Any]:
    """Return the mean C_D, the amplitude of C_L and the Strouhal number at Re 100."""
    center = min(10.0, box[0] / 3) + 0.01, box[1] / 2
    sim = Box(box, center, cells, sides).simulation(
        Disk(center=center), Effort(), viscosity=1 / 100
    )
    drag, lift, strouhal = shedding_values(shed(sim, duration, Effort()), 0.6 * duration)
    return {
        "cells": cells,
        "box": box,
        "center": center,
        "drag": drag,
        "lift": lift,
        "strouhal": strouhal,
    }


def sides(cells: int, box: tuple[float, float], duration: float) -> dict[str, Any]:
    """Return the results of ``shedding`` for each choice of boundary conditions, and the processor time of each."""
    found: dict[str, Any] = {"cells": cells, "box": box, "duration": duration}
    for left, beside in SIDES:
        shedding(8, (8.0, 6.0), 0.5, Sides(left, "outflow", beside, beside))  # compiles
        began = time.process_time()
        values = shedding(cells, box, duration, Sides(left, "outflow", beside, beside))
        seconds = round(time.process_time() - began, 2)
        found[f"{left}, {beside}"] = {
            name: values[name] for name in ("drag", "lift", "strouhal")
        } | {"cpu": seconds}
    return found


def spinning(cells: int, box: tuple[float, float], duration: float) -> dict[str, Any]:
    """Return drag and lift of a spinning disk, averaged over each 10 D/U; the box sets the outflow distance."""
    center = 8.01, box[1] / 2
    sim = Box(box, center, cells, STREAM).simulation(
        Disk(center=center), Effort(), viscosity=1 / 100
    )
    sim.body_state.angular_velocity[:] = 4.0
    sim.settle()
    history = follow(sim, duration, Effort(), drag_and_lift)
    found: dict[str, Any] = {"cells": cells, "box": box, "outflow": box[0] - center[0]}
    for name, values in (("drag", history[:, 1]), ("lift", history[:, 2])):
        found[name] = [
            round(float(values[history[:, 0] // 10 == part].mean()), 4)
            for part in range(int(duration // 10))
        ]
    return found


def wake(cells: int, duration: float) -> dict[str, Any]:
    """Return drag, lift and Strouhal number of the D-section early and late, and the largest speed."""
    box = Box((8.0, 4.0), (1.8, 2.0), cells, Sides("inflow", "outflow", "open", "open"))
    sim = box.simulation(HalfDisk(center=box.center), Effort(), viscosity=1 / 400)
    speeds = []

    def look(sim: Any) -> tuple[float, float]:
        speeds.append(
            float(abs(sim.velocity_at_centres()).max()) if sim.steps[0] % 100 == 0 else 0.0
        )
        return drag_and_lift(sim)

    history = follow(sim, duration, Effort(), look)
    middle = 0.6 * duration
    early, late = (
        shedding_values(history[a], middle / 2)
        for a in (history[:, 0] < middle, history[:, 0] > middle)
    )
    return {
        "cells": cells,
        "duration": duration,
        "early": early,
        "late": late,
        "largest_speed": max(speeds),
    }


def places(cells: int) -> dict[str, Any]:
    """Return the mean C_D in the last D/U and the final wake length for each position."""
    box, drags, wakes = (8.0, 6.0), [], []
    for x, y in PLACES:
        center = 3 + x / cells, 3 + y / cells
        sim = Box(box, center, cells, STREAM).simulation(
            Disk(center=center), Effort(), viscosity=1 / 40
        )
        history = follow(sim, 12.0, Effort(), drag_and_lift)
        drags.append(float(history[history[:, 0] > 11.0, 1].mean()))
        wakes.append(wake_length(sim))
    return {"cells": cells, "box": box, "places": PLACES, "drag": drags, "wake_length": wakes}


def main() -> None:
    """Run a study and append its results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("shedding", "places", "sides", "wake", "spinning"))
    parser.add_argument("--cells", type=int, nargs="+", required=True)
    parser.add_argument("--box", default="30x20", help="length x height in D")
    parser.add_argument("--duration", type=float, default=110.0, help="in D/U")
    options = parser.parse_args()
    length, height = (float(side) for side in options.box.split("x"))
    RESULTS.mkdir(parents=True, exist_ok=True)
    for cells in options.cells:
        begin = time.perf_counter()
        if options.study == "places":
            found = places(cells)
        elif options.study == "wake":
            found = wake(cells, options.duration)
        else:
            found = {"shedding": shedding, "sides": sides, "spinning": spinning}[options.study](
                cells, (length, height), options.duration
            )
        line = json.dumps(
            found
            | {"seconds": round(time.perf_counter() - begin, 1), "machine": machine()}
            | {"commit": provenance()["commit"]}
        )
        print(line, flush=True)
        with (RESULTS / f"{options.study}.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
