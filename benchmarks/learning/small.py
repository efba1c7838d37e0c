"""Train all algorithms with default settings on the nine small tasks of ``cases/small``, whose best returns are known.

    python benchmarks/learning/small.py run -j 2  # runs the missing trainings, resumes interrupted ones
    python benchmarks/learning/small.py run --tasks lq2 --algorithms vracer sac --seeds 3
    python benchmarks/learning/small.py table     # the table in docs/defaults.md; then evidence.py --page

A training takes 60,000 steps in one process on one thread, with as many environments as a run (``workers.agents``). It
adds a row to benchmarks/results/small.parquet: settings, evaluation over 100 episodes, machine, versions, commit and
curve.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.plan import Job, read_results, slug  # noqa: E402
from benchmarks.learning.suites.queue import Places, carry_out, list_jobs  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from cases.small.best import TASKS  # noqa: E402
from coupling.errors import ConfigError  # noqa: E402
from coupling.settings.config import fitted, load_config  # noqa: E402
from coupling.worker.environments import Task, describe_task  # noqa: E402
from rl_agent.config import algorithms  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "small.parquet"
PAGE = ROOT / "docs" / "defaults.md"
ALGORITHMS = {
    "vracer": "V-RACER",
    "ppo": "PPO",
    "ddpg": "DDPG",
    "naf": "NAF",
    "td3": "TD3",
    "sac": "SAC",
    "acer": "ACER",
    "tis": "TIS",
    "a3c": "A3C",
    "dqn": "DQN",
    "rainbow": "Rainbow",
}
NEAR = 0.95
"""Score (0 for doing nothing, 1 for the best return) from which a return counts as near the best."""


@functools.cache
def described_as(task: str) -> Task:
    """Return the spaces and the time limit of a task."""
    config = load_config(TASKS[task].preset)
    return describe_task(config.env, config.env_options)


def job_of(task: str, algorithm: str, seed: int) -> Job | None:
    """Return the training, or None if the algorithm does not support the task."""
    described, kind = described_as(task), algorithms()[algorithm]
    choices = isinstance(described.action_space, gymnasium.spaces.Discrete)
    if not (kind.serves_choices if choices else kind.serves_boxes):
        return None
    try:
        config = load_config(TASKS[task].preset, [f"agent.algorithm={algorithm}"])
    except ConfigError:  # PPO does not support LSTM windows
        return None
    config = fitted(config, described.episode_steps)
    return Job(
        suite=task,
        env=config.env,
        method=ALGORITHMS[algorithm],
        seed=seed,
        steps=config.run.steps,
        cpu_seconds=None,
        env_options=config.env_options,
        agents=config.workers.agents,
        evaluate_episodes=100,
        agent=config.agent.model_dump(mode="json"),
        sb3=None,
    )


def score(task: str, mean_return: float) -> float:
    """Return the score of a mean return: 0 for doing nothing, 1 for the best."""
    nothing, best = TASKS[task].nothing, TASKS[task].best()
    return (mean_return - nothing) / (best - nothing)


def table(results: Path) -> str:
    """Return a Markdown table of the complete trainings' results, without tasks that have none."""
    head = "| task | nothing | best | " + " | ".join(ALGORITHMS.values()) + " |"
    lines = [head, "| --- |" + " --- |" * (2 + len(ALGORITHMS))]
    for name, task in TASKS.items():
        if not read_results(results, name):
            continue
        cells = [_cell(name, algorithm, results) for algorithm in ALGORITHMS]
        lines.append(
            f"| {name} | {task.nothing:.4g} | {task.best():.4g} | " + " | ".join(cells) + " |"
        )
    return "\n".join(lines)


def _cell(task: str, algorithm: str, results: Path) -> str:
    if job_of(task, algorithm, 0) is None:
        return "-"
    method = f"_{slug(ALGORITHMS[algorithm])}_seed"
    found = [row for row in read_results(results, task) if method in row["name"]]
    if not found:
        return "not run yet"
    returns = [one["evaluation"]["deterministic"]["mean_return"] for one in found]
    mark = "**" if min(score(task, value) for value in returns) >= NEAR else ""
    seconds = np.mean([one["cpu_seconds"] for one in found])
    return ", ".join(f"{mark}{value:.3g}{mark}" for value in returns) + f" ({seconds:.0f} s)"


def write_table(results: Path, page: Path) -> None:
    """Fill in the table of the page."""
    fill_in(page, "learning/small", "table", table(results))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["run", "list", "table"])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", type=int, default=1, help="how many: 0, 1, ...")
    parser.add_argument("-j", "--processes", type=int, default=1, help="trainings at a time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--work",
        type=Path,
        default=ROOT / "runs" / "small",
        help="checkpoints and unfinished curves",
    )
    return parser.parse_args()


def main() -> int:
    """Run the trainings or write the table; return 1 if a training failed, 130 if interrupted."""
    options = parse()
    if options.command == "table":
        write_table(options.results, PAGE)
        return 0
    chosen: list[Any] = [
        job_of(task, algorithm, seed)
        for seed in range(options.seeds)
        for algorithm in options.algorithms
        for task in options.tasks
    ]
    jobs: list[Job] = [job for job in chosen if job is not None]
    if options.command == "list":
        list_jobs(jobs, options.results)
        return 0
    return carry_out(jobs, options.processes, Places(options.results, options.work, 60.0))


if __name__ == "__main__":
    sys.exit(main())
