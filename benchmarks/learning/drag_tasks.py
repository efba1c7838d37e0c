"""Tasks of less drag: baselines, candidates on validation states and what is shipped on test states; trained agents.

    python benchmarks/learning/drag_tasks.py search rotating_cylinder      # minutes of one core
    python benchmarks/learning/drag_tasks.py evaluate rotating_cylinder
    python benchmarks/learning/drag_tasks.py train rotating_cylinder --seeds 5
    python benchmarks/learning/drag_tasks.py page                          # the tables of the tasks' pages

`cases/baselines.py` ships of each kind the candidate with the highest return. Raw results of search and evaluate are in
benchmarks/results/drag_tasks/, trainings of the preset `quick` in benchmarks/results/TASK_quick.parquet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import Row, read  # noqa: E402
from cases.baselines import (  # noqa: E402
    ConstantController,
    Controller,
    FeedbackController,
    HarmonicController,
)
from coupling.evaluation.evaluate import baselines_of  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.origin import machine, provenance  # noqa: E402
from coupling.run.aggregate import interquartile_mean, interval  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose  # noqa: E402

RESULTS = STUDIES / "drag_tasks"
EPISODES = {"search": 3, "evaluate": 10}
AMPLITUDES = (0.25, 0.5, 1.0)

TASKS = {
    "rotating_cylinder": ("flowsim/RotatingCylinder-v0", "rotating_cylinder.md"),
    "fluidic_pinball": ("flowsim/FluidicPinball-v0", "pinball.md"),
    "cylinder_jets": ("flowsim/CylinderJets-v0", "cylinder_jets.md"),
    "square_jets": ("flowsim/SquareJets-v0", "square_jets.md"),
}
"""Identifier and page."""
JETS = {"cylinder_jets": ((7, 18), 1, 0), "square_jets": ((7, 18), 55, 8)}
"""Periods, in actions, beside that of the wake; the observations, above and below the middle, that are fed back."""


def candidates(task: str) -> dict[str, Controller]:
    """Return who is tried, by kind and setting."""
    found: dict[str, Controller] = {}
    if task == "rotating_cylinder":
        found |= {f"constant_spin {a}": ConstantController((a,)) for a in AMPLITUDES}
        for period in (6, 9, 12, 15):
            found |= {
                f"harmonic {a} {period}": HarmonicController((a,), period) for a in (0.25, 1.0)
            }
        for gain in (1.0, 2.0, 4.0, 8.0):
            found |= {
                f"feedback {gain} {delay}": FeedbackController((gain,), plus=2, minus=0, delay=delay)
                for delay in (0, 1, 2)
            }  # fmt: skip
        return found
    if task in JETS:
        periods, plus, minus = JETS[task]
        found |= {f"suction {a}": ConstantController((a,)) for a in (0.25, 1.0)}
        found |= {f"harmonic 0.25 {n}": HarmonicController((0.25,), n) for n in periods}
        for gain in (-4.0, -1.0, -0.25, 0.25, 1.0, 4.0):
            found |= {
                f"opposition {gain} {delay}": FeedbackController((gain,), plus, minus, delay)
                for delay in (0, 2, 4)
            }
        return found
    for a in AMPLITUDES:
        found |= {
            f"boat_tailing {a}": ConstantController((0.0, -a, a)),
            f"base_bleed {a}": ConstantController((0.0, a, -a)),
        }
        for spin in (a, -a):  # the flow leans to one side, so the sign counts
            found |= {
                f"magnus {spin}": ConstantController((spin, spin, spin)),
                f"forward_stagnation {spin}": ConstantController((spin, 0.0, 0.0)),
            }
    for period in (5, 10):
        found |= {
            f"harmonic {a} {period}": HarmonicController((0.0, a, a), period) for a in AMPLITUDES
        }
    return found


def play(
    task: str, controllers: dict[str, Controller], purpose: Purpose, episodes: int, file: Path
) -> None:
    """Play the episodes of each controller, in the preset `quick`, and keep what they gave."""
    env, found = TASKS[task][0], dict[str, Any]()
    with EvaluationPool(env, {}, processes=1, purpose=purpose) as pool:
        for name, controller in controllers.items():
            played = pool.play(controller, episodes, EVALUATION_SEED, lambda over, actions: None)
            found[name] = played.summary() | {"returns": played.returns.tolist()}
            net = found[name]["measures"]["net power"]["mean"]
            print(f"{name}: return {found[name]['mean_return']:.3f}, net power {net:.4f}", flush=True)  # fmt: skip
    kept = {"task": env, "purpose": purpose.name, "found": found, "machine": machine()}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(kept | provenance(), indent=1).encode())


def table(kept: dict[str, Any], trained: list[Row]) -> str:
    """Return a row for each baseline and one for the trained agents, in Markdown."""
    lines = [
        "| controller | return | C_D | C_L | actuation power | net power | net power against no control |",
        "| --- |" + " --: |" * 6,
    ]
    zero = kept["found"]["zero"]["measures"]["net power"]["mean"]
    rows = {f"`{name}`": result for name, result in kept["found"].items()}
    if trained:
        rows[f"trained, {len(trained)} seed{'s' if len(trained) > 1 else ''}"] = of_seeds(trained)
    for name, result in rows.items():
        measures = result["measures"]
        low, high = result["ci95"]
        cells = [f"{found['mean']:.3f} +- {found['rms']:.3f}" for found in measures.values()]
        change = 100.0 * (measures["net power"]["mean"] / zero - 1.0)
        lines.append(
            f"| {name} | {result['mean_return']:.2f} [{low:.2f}, {high:.2f}] | "
            f"{' | '.join(cells)} | {change:+.1f} % |"
        )
    return "\n".join(lines)


def of_seeds(trained: list[Row]) -> dict[str, Any]:
    """Return interquartile means over the seeds, and the 95 % bootstrap interval of the return: one seed has its own.

    The rms of a fluctuation is the root of the seeds' mean square.
    """
    found = [row["evaluation"]["after"] for row in trained]
    returns = np.array([one["mean_return"] for one in found])
    measures = {}
    for name in found[0]["measures"]:
        measured = [one["measures"][name] for one in found]
        means, rms = (np.array([one[key] for one in measured]) for key in ("mean", "rms"))
        measures[name] = {
            "mean": float(interquartile_mean(means)),
            "rms": float(np.sqrt((rms**2).mean())),
        }
    ends = interval([returns]) if len(returns) > 1 else found[0]["ci95"]
    return {"mean_return": float(interquartile_mean(returns)), "ci95": ends, "measures": measures}


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "train", "page"))
    parser.add_argument("task", choices=TASKS, nargs="?", default="rotating_cylinder")
    parser.add_argument("--seeds", type=int, default=5, help="of train, from 0")
    options = parser.parse_args()
    if options.command == "train":
        command = [sys.executable, "benchmarks/learning/train_seeds.py", f"{options.task}/quick"]
        choices = ["--mean-only", "--episodes", str(EPISODES["evaluate"])]
        subprocess.run([*command, *choices, "--seeds", str(options.seeds)], cwd=ROOT, check=True)
        return
    if options.command == "page":
        for task, (_, page) in TASKS.items():
            if not (RESULTS / f"{task}_evaluate.json").exists():
                continue
            kept = json.loads((RESULTS / f"{task}_evaluate.json").read_text())
            trained = read(STUDIES / f"{task}_quick.parquet")
            fill_in(ROOT / "docs" / page, "learning/drag_tasks", "baselines", table(kept, trained))
        return
    file = RESULTS / f"{options.task}_{options.command}.json"
    if options.command == "search":
        tried = candidates(options.task)
        play(options.task, tried, Purpose.SELECTION, EPISODES["search"], file)
    else:
        shipped = baselines_of(TASKS[options.task][0], {}, EVALUATION_SEED)
        play(options.task, shipped, Purpose.EVALUATION, EPISODES["evaluate"], file)


if __name__ == "__main__":
    main()
