"""Cost per step of measurements, actuators and additional physics, relative to the same flow without them.

    python benchmarks/speed/additions.py        # into benchmarks/results/bench/additions.json, and the page
    python benchmarks/speed/additions.py --page # only the table of docs/studies/speed.md

Both flows run in one process on one thread, in short alternating turns, and their processor time is measured. The ratio
is the median over the turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.origin import machine, provenance  # noqa: E402
from flowsim import (  # noqa: E402
    Disk,
    FieldStatistics,
    Grid,
    Jet,
    Recorder,
    Sides,
    Simulation,
    Temperature,
)
from flowsim.stability.damping import SelectiveFrequencyDamping  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "bench" / "additions.json"
PAGE = ROOT / "docs" / "studies" / "speed.md"
CELLS = 256, 128
STEPS, TURNS = 40, 30
PROBES = [(3.0 + 0.5 * i, 1.0 + 0.2 * j) for i in range(10) for j in range(11)]


def wake(**options: Any) -> Simulation:
    """Return a cylinder at Re 100 with 32 cells per D in a channel."""
    given: dict[str, Any] = {
        "sides": Sides(bottom="slip", top="slip"),
        "bodies": [Disk(center=(2.0, 2.0))],
    }
    given |= options
    return Simulation(Grid(*CELLS, 8.0 / CELLS[0]), viscosity=0.01, perturbation=0.5, **given)


def with_jets() -> Simulation:
    """Return the wake with two jets that blow and suck."""
    sim = wake(jets=[Jet(angle=angle, width=np.radians(10)) for angle in (np.pi / 2, -np.pi / 2)])
    sim.set_jet_flow_rates([[0.05, -0.05]])
    return sim


def measured(begin: Callable[[Simulation], Any]) -> Callable[[], Simulation]:
    """Return a function that creates the wake and starts a measurement with ``begin``."""

    def make() -> Simulation:
        sim = wake()
        KEPT.append(begin(sim))
        return sim

    return make


KEPT: list[Any] = []
"""References that keep the measuring objects alive."""
ADDITIONS: dict[str, Callable[[], Simulation]] = {
    "nothing, the same flow again": wake,
    "`Recorder`, forces in every step": measured(Recorder),
    "`Recorder`, 110 probes in every step": measured(lambda sim: Recorder(sim, probes=PROBES)),
    "`FieldStatistics`, every 0.1 D/U": measured(lambda sim: FieldStatistics(sim, every=0.1)),
    "forces from a control volume": measured(lambda sim: sim.measure_control_volumes()),
    "two jets": with_jets,
    "a temperature": lambda: wake(temperature=Temperature(diffusivity=0.01, bodies={0: 1.0})),
    "selective frequency damping": measured(lambda sim: SelectiveFrequencyDamping(sim, 0.3, 5.0)),
    "`far_field` sides": lambda: wake(
        sides=Sides("far_field", "outflow", "far_field", "far_field")
    ),
    "no body": lambda: wake(bodies=[]),
}


def compare(make: Callable[[], Simulation]) -> list[list[float]]:
    """Return the processor seconds per step without and with an addition, for each turn."""
    sims = wake(), make()
    for sim in sims:
        sim.advance_steps(STEPS)
    turns = []
    for turn in range(TURNS):
        took = {}
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            began = time.process_time()
            sims[which].advance_steps(STEPS)
            took[which] = (time.process_time() - began) / STEPS
        turns.append([took[0], took[1]])
    return turns


def table(found: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each addition."""
    lines = [
        f"{CELLS[0]} x {CELLS[1]} cells, float32, one thread; {TURNS} turns of {STEPS} steps of each flow.",
        "",
        "| addition | ms per step without it | step time with it over that: median | quartiles |",
        "| --- | --: | --: | --- |",
    ]
    for name, turns in found["additions"].items():
        ratios = [with_it / without for without, with_it in turns]
        low, middle, high = statistics.quantiles(ratios, method="inclusive")
        without = 1e3 * statistics.median(pair[0] for pair in turns)
        lines.append(f"| {name} | {without:.3f} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="only write the table again")
    if not parser.parse_args().page:
        found = provenance() | {"machine": machine(), "additions": {}}
        for name, make in ADDITIONS.items():
            found["additions"][name] = compare(make)
            KEPT.clear()
            print(f"{name}: done", flush=True)
        write_atomically(RESULT, json.dumps(found, indent=1).encode())
    fill_in(PAGE, "speed/additions", "additions", table(json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()
