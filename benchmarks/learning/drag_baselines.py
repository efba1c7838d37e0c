"""Baselines of the tasks of less drag: candidates on validation states, and what is shipped on test states.

    python benchmarks/learning/drag_baselines.py search rotating_cylinder      # minutes of one core
    python benchmarks/learning/drag_baselines.py evaluate rotating_cylinder
    python benchmarks/learning/drag_baselines.py page                          # the tables of the tasks' pages

`cases/baselines.py` ships of each kind the candidate with the highest return. Raw results:
benchmarks/results/drag_tasks/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
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
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "drag_tasks"
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
            f"magnus {a}": ConstantController((a, a, a)),
            f"forward_stagnation {a}": ConstantController((a, 0.0, 0.0)),
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


def table(kept: dict[str, Any]) -> str:
    """Return a row for each controller, in Markdown."""
    lines = [
        "| controller | return | C_D | C_L | actuation power | net power | net power against no control |",
        "| --- |" + " --: |" * 6,
    ]
    zero = kept["found"]["zero"]["measures"]["net power"]["mean"]
    for name, result in kept["found"].items():
        measures = result["measures"]
        low, high = result["ci95"]
        cells = [f"{found['mean']:.3f} +- {found['rms']:.3f}" for found in measures.values()]
        change = 100.0 * (measures["net power"]["mean"] / zero - 1.0)
        lines.append(
            f"| `{name}` | {result['mean_return']:.2f} [{low:.2f}, {high:.2f}] | "
            f"{' | '.join(cells)} | {change:+.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "page"))
    parser.add_argument("task", choices=TASKS, nargs="?", default="rotating_cylinder")
    options = parser.parse_args()
    if options.command == "page":
        for task, (_, page) in TASKS.items():
            if not (RESULTS / f"{task}_evaluate.json").exists():
                continue
            kept = json.loads((RESULTS / f"{task}_evaluate.json").read_text())
            fill_in(ROOT / "docs" / page, "learning/drag_baselines", "baselines", table(kept))
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
