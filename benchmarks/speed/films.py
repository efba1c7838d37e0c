"""Processor time of rendering a film, compared with that of the simulation it shows.

    python benchmarks/speed/films.py                 # into benchmarks/results/films.json and docs/films.md

Each row is one film of a shipped agent and of no control, as made by `flowsim render`. The simulation is measured as in
a training: the same actions in the same batch, without rendering. The rest of the film's time is rendering, including
the processes that encode MP4 files. Processor time hardly depends on the other load of the machine, and both are
measured in one process, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from cases.baselines import Controller, ZeroController  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.film.flow_film import FRAMES_PER_ACTION, render_film  # noqa: E402
from coupling.origin import machine, provenance  # noqa: E402
from coupling.run.agents import find_agent  # noqa: E402
from coupling.run.policies import load_controller  # noqa: E402
from flowsim.render.quantities import choose  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "films.json"
WAKE, SWIMMER = "flowsim/DCylinderWake-v0", "flowsim/EllipticalSwimmer-v0"
AGENTS = {WAKE: "wake", SWIMMER: "swimmer"}
ROWS: list[dict[str, Any]] = [
    {"env": WAKE, "env_options": {"cells_per_diameter": 16}, "files": ["mp4"]},
    {"env": WAKE, "env_options": {"cells_per_diameter": 16}, "files": ["mp4", "gif"]},
    {"env": WAKE, "env_options": {"cells_per_diameter": 32}, "files": ["mp4"]},
    {"env": SWIMMER, "env_options": {"cells_per_diameter": 32}, "files": ["mp4"]},
]


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of a function and of the child processes that it waited for."""

    def used() -> float:
        usages = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    before = used()
    work()
    return used() - before


def play(
    env: str, options: Mapping[str, Any], seeds: Sequence[int], agent: Controller, actions: int
) -> None:
    """Simulate the episodes of a film without rendering; the last one is without control."""
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    episodes = gymnasium.make_vec(
        env, len(seeds), vectorization_mode=mode, **options
    ).unwrapped.episodes  # type: ignore[attr-defined]
    episodes.start({index: seeding.np_random(seed)[0] for index, seed in enumerate(seeds)})
    agent.reset(len(seeds) - 1)
    for _ in range(actions):
        chosen = agent(episodes.observations()[:-1])
        episodes.play(np.concatenate([chosen, np.zeros_like(chosen[:1])]))


def measure(row: dict[str, Any], actions: int, starts: int, folder: Path) -> dict[str, Any]:
    """Return a row with its measured times."""
    env, options = row["env"], row["env_options"]
    agent = load_controller(find_agent(Path(AGENTS[env])), deterministic=True, seed=0)
    seeds = [*range(starts), 0]

    def film(actions: int) -> None:
        render_film(
            {"agent": agent, "no control": ZeroController()}, [folder / f"film.{kind}" for kind in row["files"]],
            env=env, env_options=options, seeds=seeds[:-1], actions=actions,
            quantities=choose(row.get("fields", "vorticity")),
        )  # fmt: skip

    film(1)  # warm-up: compiles, loads fonts, computes the initial wakes
    begin = seconds(lambda: play(env, options, seeds, agent, 0))
    simulation = seconds(lambda: play(env, options, seeds, agent, actions)) - begin
    rendering = seconds(lambda: film(actions)) - begin - simulation
    frames = actions * FRAMES_PER_ACTION
    return row | {
        "actions": actions, "starts": starts, "simulation_seconds": round(simulation, 2),
        "rendering_seconds": round(rendering, 2), "ratio": round(rendering / simulation, 2),
        "rendering_ms_per_picture": round(1000 * rendering / frames, 1),
    }  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with a row for each film."""
    lines = [
        "| agent | cells per D | files | simulation, s | rendering, s | ratio | ms per frame |",
        "| --- | --: | --- | --: | --: | --: | --: |",
    ]
    for row in rows:
        cells = row["env_options"]["cells_per_diameter"]
        files = " and ".join(kind.upper() for kind in row["files"])
        lines.append(
            f"| {AGENTS[row['env']]} | {cells} | {files} | {row['simulation_seconds']:.1f} | "
            f"{row['rendering_seconds']:.1f} | {row['ratio']:.2f} | {row['rendering_ms_per_picture']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actions", type=int, default=40)
    parser.add_argument("--starts", type=int, default=6)
    arguments, made_by, rows = parser.parse_args(), provenance(), []
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            rows.append(measure(row, arguments.actions, arguments.starts, Path(folder)))
            print(rows[-1], flush=True)
    load = round(os.getloadavg()[0], 1)
    result = {
        "cores": len(os.sched_getaffinity(0)),
        "load": load,
        "machine": machine(),
        **made_by,
        "rows": rows,
    }
    write_atomically(RESULT, json.dumps(result, indent=1).encode())
    fill_in(ROOT / "docs" / "films.md", "speed/films", "table", table(rows))


if __name__ == "__main__":
    main()
