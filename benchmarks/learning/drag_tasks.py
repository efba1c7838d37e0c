"""Drag reduction tasks: evaluate the baselines, train agents, and write the tables.

    python benchmarks/learning/drag_tasks.py evaluate rotating_cylinder    # the shipped baselines, on test states
    python benchmarks/learning/drag_tasks.py steady rotating_cylinder      # the steady flow without shedding; minutes
    python benchmarks/learning/drag_tasks.py train rotating_cylinder --seeds 5
    python benchmarks/learning/drag_tasks.py learners square_jets --seeds 1 # other learners and sensors
    python benchmarks/learning/drag_tasks.py page                          # the tables of the tasks' pages

The baselines are those of `cases/baselines.py`, found by baseline_search.py. Raw results of `evaluate` and `steady` are
in benchmarks/results/drag_tasks/, trainings of the preset `quick` in benchmarks/results/TASK_quick.parquet
and those of other learners in benchmarks/results/TASK_learners.parquet; those of stable-baselines3 are in
benchmarks/results/flow_peers.parquet (flow_peers.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.baselines import evaluate_baselines, rows_of  # noqa: E402
from benchmarks.learning.suites.plan import read_results  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import Row, current_origin, read, read_by_method, write_json  # noqa: E402
from flowsim import base_flow  # noqa: E402

RESULTS = STUDIES / "drag_tasks"
PRESET = "quick"
EPISODES = 10
STEADY = 1e-6
"""Rate of change of the flow, in U^2/D, below which it counts as steady."""
ONE_STEADY_FLOW = ("rotating_cylinder", "cylinder_jets", "square_jets")
"""Tasks with a unique steady flow; the pinball has a symmetric one and asymmetric ones."""

TASKS = {
    "rotating_cylinder": ("flowsim/RotatingCylinder-v0", "rotating_cylinder.md"),
    "fluidic_pinball": ("flowsim/FluidicPinball-v0", "pinball.md"),
    "cylinder_jets": ("flowsim/CylinderJets-v0", "cylinder_jets.md"),
    "square_jets": ("flowsim/SquareJets-v0", "square_jets.md"),
}
"""Environment and page of each task."""
SEQUENCES = (
    "agent.network=lstm",
    "agent.acting=carried",
    "agent.window=0",
    "agent.sequence_length=16",
    "agent.initial_state=stored",
    "agent.center_advantages=true",
)
"""Settings of an LSTM with a loss at each of 16 successive steps, which begin from the stored state."""
STATE_DEPENDENT = ("agent.center_advantages=true", "agent.state_dependent_std=true")
LEARNERS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "cylinder_jets": {
        "V-RACER": ("quick", ("agent.algorithm=vracer",)),
        "V-RACER, LSTM": ("quick", ("agent.algorithm=vracer", "agent.network=lstm")),
        "PPO": ("quick", ("agent.algorithm=ppo",)),
    },
    "square_jets": {
        "SAC, base": ("quick", ("agent.algorithm=sac",)),
        "SAC, base, 27 frames": ("quick", ("agent.algorithm=sac", "env_options.frames=27")),
        "V-RACER, base, 27 frames": ("quick", ("env_options.frames=27",)),
        "V-RACER, 4 base, 6 frames": (
            "quick",
            ("env_options.base_pressures=4", "env_options.frames=6"),
        ),
        "V-RACER, LSTM that carries its state, base": (
            "quick",
            (
                "agent.network=lstm",
                "agent.window=16",
                "agent.acting=carried",
                "agent.annealing=2.1e-4",
            ),
        ),
        "V-RACER + centred advantages, LSTM, base": (
            "quick",
            ("agent.network=lstm", "agent.window=16", "agent.center_advantages=true"),
        ),
        "V-RACER + centred advantages, LSTM, base, 96,000 actions": (
            "quick",
            (
                "agent.network=lstm",
                "agent.window=16",
                "agent.center_advantages=true",
                "run.steps=96000",
            ),
        ),
        "V-RACER + centred advantages, LSTM, sequences, base": ("quick", SEQUENCES),
        "V-RACER + centred advantages, LSTM, sequences, 4 base": (
            "quick",
            (*SEQUENCES, "env_options.base_pressures=4"),
        ),
        "V-RACER + centred advantages, LSTM of 64, sequences, 4 base": (
            "quick",
            (*SEQUENCES, "env_options.base_pressures=4", "agent.hidden=[64,64]"),
        ),
        "V-RACER + centred advantages, LSTM, sequences, base, 96,000 actions": (
            "quick",
            (*SEQUENCES, "run.steps=96000"),
        ),
        "V-RACER + centred advantages, state-dependent std, 4 base": (
            "quick",
            ("env_options.base_pressures=4", *STATE_DEPENDENT),
        ),
        "V-RACER + centred advantages, state-dependent std, 4 base, 14 frames": (
            "quick",
            ("env_options.base_pressures=4", "env_options.frames=14", *STATE_DEPENDENT),
        ),
        "V-RACER + centred advantages, state-dependent std, 4 base, 27 frames, 96,000 actions": (
            "quick",
            (
                "env_options.base_pressures=4",
                "env_options.frames=27",
                *STATE_DEPENDENT,
                "run.steps=96000",
            ),
        ),
        "V-RACER + centred advantages, state-dependent std, LSTM, sequences, 4 base": (
            "memory",
            (),
        ),
        "V-RACER + centred advantages, state-dependent std, lambda 0.9, LSTM, sequences, 4 base": (
            "memory",
            ("agent.retrace_lambda=0.9",),
        ),
        "V-RACER + centred advantages, state-dependent std, LSTM, sequences, 4 base, 96,000 actions": (
            "memory",
            ("run.steps=96000",),
        ),
        "SAC, wake": ("wake", ("agent.algorithm=sac",)),
        "V-RACER, wake": ("wake", ()),
    },
}
"""Preset and overrides of each learner that is trained in addition to the preset `quick`."""
QUICK = {"cylinder_jets": "SAC (`quick`)", "square_jets": "V-RACER, base (`quick`)"}


def find_steady(task: str, file: Path) -> None:
    """Compute the steady flow of the preset `quick` and print its drag; store it if the steady flow is unique.

    The steady flow is found in float64 by selective frequency damping; the measures are those of one zero action.
    """
    env = gymnasium.make(TASKS[task][0], dtype="float64")
    played: Any = env.unwrapped
    env.reset(seed=0)
    found = base_flow(played.task.simulation, tolerance=STEADY, duration=600.0)
    if not found.converged[0]:
        raise SystemExit(f"{task}: the flow still changes by {found.change[0]:.1e} U^2/D")
    *_, info = env.step(np.zeros(played.action_space.shape, np.float32))
    kept = {
        "task": TASKS[task][0],
        "cells_per_diameter": played.task.options.cells_per_diameter,
        "change": float(found.change[0]),
        "duration": float(found.duration[0]),
        "measures": {name: float(value) for name, value in info["measures"].items()},
    }
    print(f"{task}: {kept['measures']}")
    if task in ONE_STEADY_FLOW:
        write_json(file, kept | current_origin())


HEAD = "| {} | return | C_D | C_L | actuation power | net power | change in net power |"


def table(kept: dict[str, Any], trained: list[Row], steady: dict[str, Any] | None) -> str:
    """Return a Markdown table with a row for each baseline, the trained agents and the steady flow."""
    rows = rows_of(kept["found"], {"trained": trained})
    lines = [HEAD.format("controller"), "| --- |" + " --: |" * 6, *cells(rows, kept)]
    if steady:
        rested = steady["measures"]
        each = [
            f"{rested[name]:.3f}".replace("-0.000", "0.000")
            for name in ("C_D", "C_L", "actuation power", "net power")
        ]
        change = against_zero(rested["net power"], kept)
        lines.append(f"| steady flow | | {' | '.join(each)} | {change} % |")
    return "\n".join(lines)


def against_zero(net: float, kept: dict[str, Any]) -> str:
    """Return the relative change of a net power from that without control, in per cent."""
    zero = kept["found"]["zero"]["measures"]["net power"]["mean"]
    return f"{100.0 * (net / zero - 1.0):+.1f}"


def table_of_learners(task: str, kept: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each learner."""
    trained = {QUICK[task]: read(STUDIES / f"{task}_quick.parquet")}
    trained |= read_by_method(STUDIES / f"{task}_learners.parquet")
    for row in read_results(STUDIES / "flow_peers.parquet", task):
        same = row | {"evaluation": {"after": row["evaluation"]["deterministic"]}}
        trained.setdefault(row["settings"]["method"], []).append(same)
    # those of LEARNERS in their order, then the others
    names = dict.fromkeys([QUICK[task], *LEARNERS[task], *trained])
    rows = rows_of({}, {name: trained.get(name, []) for name in names})
    return "\n".join([HEAD.format("learner"), "| --- |" + " --: |" * 6, *cells(rows, kept)])


def cells(rows: dict[str, dict[str, Any]], kept: dict[str, Any]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = []
    for name, result in rows.items():
        measures = result["measures"]
        low, high = result["ci95"]
        each = [f"{found['mean']:.3f} +- {found['rms']:.3f}" for found in measures.values()]
        net = measures["net power"]
        least, most = (against_zero(end, kept) for end in net["ci95"])
        change = f"{against_zero(net['mean'], kept)} % [{least}, {most}]"
        lines.append(
            f"| {name} | {result['mean_return']:.2f} [{low:.2f}, {high:.2f}] | "
            f"{' | '.join(each)} | {change} |"
        )
    return lines


def train(preset: str, seeds: int, *choices: str) -> None:
    """Train the missing seeds of a preset and evaluate the mean action of each."""
    command = [sys.executable, "benchmarks/learning/train_seeds.py", preset, "--mean-only"]
    counts = ["--episodes", str(EPISODES), "--seeds", str(seeds)]
    subprocess.run([*command, *counts, *choices], cwd=ROOT, check=True)


def train_learners(task: str, seeds: int) -> None:
    """Train all :data:`LEARNERS` of a task, one seed of each before the next seed."""
    for count in range(1, seeds + 1):
        for name, (preset, changes) in LEARNERS[task].items():
            named = ["--name", f"{task}_learners/{name}"]
            train(f"{task}/{preset}", count, *named, *(["--changes", *changes] if changes else []))


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = ("evaluate", "steady", "train", "learners", "page")
    parser.add_argument("command", choices=commands)
    parser.add_argument("task", choices=TASKS, nargs="?", default="rotating_cylinder")
    parser.add_argument("--seeds", type=int, default=5, help="of train and learners, from 0")
    options = parser.parse_args()
    if options.command == "train":
        train(f"{options.task}/quick", options.seeds)
    elif options.command == "learners":
        train_learners(options.task, options.seeds)
    elif options.command == "steady":
        find_steady(options.task, RESULTS / f"{options.task}_steady.json")
    elif options.command == "page":
        fill_pages()
    else:
        file = RESULTS / f"{options.task}_evaluate.json"
        evaluate_baselines(TASKS[options.task][0], PRESET, EPISODES, file)


def fill_pages() -> None:
    """Write the tables of the tasks' pages from the stored results."""
    for task, (_, page) in TASKS.items():
        kept = json.loads((RESULTS / f"{task}_evaluate.json").read_text())
        file = RESULTS / f"{task}_steady.json"
        steady = json.loads(file.read_text()) if file.exists() else None
        trained = read(STUDIES / f"{task}_quick.parquet")
        fill_in(
            ROOT / "docs" / page, "learning/drag_tasks", "baselines", table(kept, trained, steady)
        )
        if (STUDIES / f"{task}_learners.parquet").exists():
            fill_in(
                ROOT / "docs" / page, "learning/drag_tasks", "learners",
                table_of_learners(task, kept),
            )  # fmt: skip


if __name__ == "__main__":
    main()
