"""Convection with heaters: search for a PD controller on validation states, and evaluate the baselines on test states.

    python benchmarks/learning/rayleigh_benard.py search
    python benchmarks/learning/rayleigh_benard.py evaluate
    python benchmarks/learning/rayleigh_benard.py page        # the table and the picture of the task's page

The search is that of `baseline_search.py`, and `cases/baselines.py` ships the controller with the highest return.
Raw results are in benchmarks/results/rayleigh_benard/.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.image import imsave

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.baseline_search import Kind, Setting, search  # noqa: E402
from benchmarks.learning.baselines import evaluate_baselines, rows_of  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import Row, read  # noqa: E402
from cases.baselines import AveragedPDController, above_heaters  # noqa: E402
from coupling.evaluation.evaluate import baselines_of  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

RESULTS = STUDIES / "rayleigh_benard"
TASK, PRESET = "flowsim/RayleighBenard-v0", "quick"
EPISODES = 10
TRAINED = {
    "SAC, one agent (`quick`)": "rayleigh_benard_quick",
    "V-RACER, an agent for each heater (`segments`)": "rayleigh_benard_segments",
}
"""Name and results file of each group of trained agents."""


def pd(*rows: int) -> Kind:
    """Return PD controllers of the vertical velocity in some rows of sensors, with gain and damping."""
    sensors, root = above_heaters(1, rows), math.sqrt(2.0)
    gain = Setting((2.5, 5.0, 10.0), (0.1, 100.0), root)
    damping = Setting((-10.0, -5.0, 2.5), (0.1, 100.0), root)
    return Kind(lambda k, d: AveragedPDController(sensors, k, d), (gain, damping))


KINDS = {"middle": pd(3, 4), "all": pd(*range(8))}
"""Controllers by the rows of sensors whose vertical velocity they feed back."""


def table(kept: dict[str, Any], trained: dict[str, list[Row]]) -> str:
    """Return a Markdown table with a row for each controller and for the trained agents of each preset."""
    lines = ["| controller | return | Nu | change in Nu |", "| --- | --: | --: | --: |"]
    zero = kept["found"]["zero"]["measures"]["Nu"]["mean"]
    for name, result in rows_of(kept["found"], trained).items():
        low, high = result["ci95"]
        found = result["measures"]["Nu"]
        change = 100.0 * (found["mean"] / zero - 1.0)
        lines.append(
            f"| {name} | {result['mean_return']:.1f} [{low:.1f}, {high:.1f}] | "
            f"{found['mean']:.3f} +- {found['rms']:.3f} | {change:+.1f} % |"
        )
    return "\n".join(lines)


def picture(file: Path, actions: int = 150) -> None:
    """Draw the first frame of a test episode above the one after some actions of the PD controller."""
    env = gymnasium.make(TASK, preset=PRESET, render_mode="rgb_array")
    controller = baselines_of(TASK, {"preset": PRESET}, EVALUATION_SEED)["pd"]
    seen, _ = env.reset(seed=episode_seed(Purpose.EVALUATION, EVALUATION_SEED, 0))
    frames: list[Any] = [env.render()]
    for _ in range(actions):
        seen = env.step(controller(seen[None])[0])[0]
    frames.append(env.render())
    env.close()
    imsave(file, np.concatenate(frames))


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "page"))
    command = parser.parse_args().command
    file = RESULTS / f"{command}.json"
    if command == "page":
        kept = json.loads((RESULTS / "evaluate.json").read_text())
        page = ROOT / "docs/rayleigh_benard.md"
        trained = {who: read(STUDIES / f"{study}.parquet") for who, study in TRAINED.items()}
        fill_in(page, "learning/rayleigh_benard", "baselines", table(kept, trained))
        picture(ROOT / "docs/images/rayleigh_benard.png")
    elif command == "search":
        search(TASK, {"preset": PRESET}, KINDS, file)
    else:
        evaluate_baselines(TASK, PRESET, EPISODES, file)


if __name__ == "__main__":
    main()
