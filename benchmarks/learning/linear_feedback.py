"""Search for linear feedback gains on the wake by the cross-entropy method, and evaluate the best ones.

    python benchmarks/learning/linear_feedback.py search               # resumable; half an hour on one core
    python benchmarks/learning/linear_feedback.py evaluate --cells 32  # the best gains in another flow
    python benchmarks/learning/linear_feedback.py page                 # the table of docs/studies/learned.md

The controller is cases.baselines.PDController. All candidates of a generation run the same few episodes, each in its
own flow; the score of a candidate is the number of actions it survives minus their cost.
Raw results: benchmarks/results/linear_feedback/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

import cases  # noqa: E402, F401
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from cases.baselines import PD, PDController  # noqa: E402
from coupling.evaluation.evaluate import evaluate  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

RESULTS = STUDIES / "linear_feedback"
PAGE = ROOT / "docs" / "studies" / "learned.md"
TASK, PRESET = "flowsim/DCylinderWake-v0", "quick"
NAMES = ("position_gain", "velocity_gain", "angle_gain", "spin_gain", "goal", "goal_angle", "bias")
SIZES = (2, 2, 1, 1, 2, 1, 2)
FIRST_SPREAD = np.array([0.4, 0.4, 0.6, 0.6, 0.2, 0.1, 0.5, 0.3, 0.8, 0.15, 0.15])
"""Standard deviation of each gain in the first generation, whose mean is the shipped controller."""
CANDIDATES, ELITE, STARTS = 24, 6, 3
SMOOTHING = 0.7
"""Weight of the elite in the update of the mean and the spread."""

FloatArray = NDArray[np.float64]


def as_gains(controller: PDController) -> FloatArray:
    """Return the gains of a controller as a vector, shape (11,)."""
    return np.concatenate([np.atleast_1d(getattr(controller, name)) for name in NAMES]).astype(
        float
    )


def controller_of(gains: FloatArray) -> PDController:
    """Return the controller with the given gains, shape (11,), or a batch of controllers, shape (n, 11)."""
    parts = np.split(gains.T, np.cumsum(SIZES)[:-1])
    values: dict[str, Any] = {
        name: part[0] if size == 1 else part.T
        for name, part, size in zip(NAMES, parts, SIZES, strict=True)
    }
    return PDController(**values)


def worth(gains: FloatArray, seeds: list[int], actions: int) -> FloatArray:
    """Return the score of each candidate, averaged over the episodes: actions survived minus their cost."""
    envs: Any = gymnasium.make_vec(
        TASK, num_envs=len(gains), vectorization_mode="vector_entry_point", preset=PRESET,
        episode_actions=actions, autoreset_mode="SameStep",
    )  # fmt: skip
    controller, total = controller_of(gains), np.zeros(len(gains))
    for seed in seeds:
        observations, _ = envs.reset(seed=[seed] * len(gains))
        alive = np.ones(len(gains), bool)
        while alive.any():
            observations, rewards, terminated, truncated, _ = envs.step(controller(observations))
            stays = alive & ~terminated
            total += np.where(stays, 1.0 + rewards, 0.0)
            alive = stays & ~truncated
    envs.close()
    return total / len(seeds)


def search(generations: int, actions: int, file: Path) -> None:
    """Continue the search and store every generation."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"generations": []}
    first = as_gains(PD[TASK])
    for number in range(len(found["generations"]), generations):
        random = np.random.default_rng(number)
        last = found["generations"][-1] if number else {"mean": first, "spread": FIRST_SPREAD}
        mean, spread = np.array(last["mean"]), np.array(last["spread"])
        gains = mean + spread * random.standard_normal((CANDIDATES, len(mean)))
        gains[0] = mean
        values = worth(
            gains,
            [episode_seed(Purpose.SELECTION, number, start) for start in range(STARTS)],
            actions,
        )
        elite = gains[np.argsort(values)[-ELITE:]]
        mean = SMOOTHING * elite.mean(axis=0) + (1 - SMOOTHING) * mean
        spread = SMOOTHING * elite.std(axis=0) + (1 - SMOOTHING) * spread
        found["generations"].append(
            {"values": values.tolist(), "mean": mean.tolist(), "spread": spread.tolist()}
        )
        found |= current_origin() | {"preset": PRESET, "actions": actions, "names": NAMES}
        write_json(file, found)
        print(f"generation {number + 1}: mean's worth {values[0]:.1f}, elite's {np.sort(values)[-ELITE:].mean():.1f}",
              flush=True)  # fmt: skip


def evaluate_gains(cells: int, starts: str, episodes: int, found: Path, file: Path) -> None:
    """Evaluate the mean of the last generation and the shipped controller at a resolution."""
    gains = np.array(json.loads(found.read_text())["generations"][-1]["mean"])
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for name, controller in (("searched", controller_of(gains)), ("shipped", PD[TASK])):
        options = {"cells_per_diameter": cells, "start_range": starts, "episode_actions": 400}
        result = evaluate(TASK, options, controller, episodes=episodes, seed=EVALUATION_SEED)
        results[f"{name}, {starts} starts, at {cells}"] = result.summary()
        print(f"{name}, {starts} starts, at {cells}: {result.summary()}", flush=True)
    parts = [part.tolist() for part in np.split(gains, np.cumsum(SIZES)[:-1])]
    results |= current_origin() | {"gains": dict(zip(NAMES, parts, strict=True))}
    write_json(file, results)


def table(evaluation: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each controller, range of initial conditions and flow."""
    lines = [
        "| linear feedback | initial conditions | cells per D | episodes | survival rate | return | episode length |",
        "| --- | --- |" + " --: |" * 5,
    ]
    for key, found in evaluation.items():
        if " starts, at " in key:
            who, starts, cells = key.replace(" starts, at ", ", ").split(", ")
            low, high = found["ci95"]
            lines.append(
                f"| {who} | {starts} | {cells} | {found['episodes']} | {100 * found['survival']:.0f} % | "
                f"{found['mean_return']:.0f} [{low:.0f}, {high:.0f}] | {found['mean_length']:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("search", "evaluate", "page"))
    parser.add_argument("--generations", type=int, default=30)
    parser.add_argument(
        "--actions", type=int, default=60, help="length of an episode of the search"
    )
    parser.add_argument("--cells", type=int, default=16)
    parser.add_argument("--starts", choices=("narrow", "paper"), default="narrow")
    parser.add_argument("--episodes", type=int, default=48)
    options = parser.parse_args()
    searched, evaluation = RESULTS / "search.json", RESULTS / "evaluation.json"
    if options.command == "page":
        content = table(json.loads(evaluation.read_text()))
        fill_in(PAGE, "learning/linear_feedback", "feedback", content)
    elif options.command == "search":
        search(options.generations, options.actions, searched)
    else:
        evaluate_gains(options.cells, options.starts, options.episodes, searched, evaluation)


if __name__ == "__main__":
    main()
