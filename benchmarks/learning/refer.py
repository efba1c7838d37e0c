"""Ablation of the rules of Remember and Forget Experience Replay (refer.yaml): trainings, tables and pictures.

    python benchmarks/learning/refer.py run --suite vracer --tasks HalfCheetah-v5  # skips complete jobs
    python benchmarks/learning/refer.py list                                       # the jobs, and which are complete
    python benchmarks/learning/refer.py page                                       # docs/studies/refer.md, its pictures

Each complete job adds a row to benchmarks/results/refer.parquet: curve (with beta, the KL divergence and the share of
far-policy steps in the memory), settings, evaluation, machine, versions and commit. Checkpoints are in runs/refer/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.contrasts import by_task, contrast_table  # noqa: E402
from benchmarks.learning.suites.curves import Seeds, curve_at, read_curve  # noqa: E402
from benchmarks.learning.suites.methods import (  # noqa: E402
    Panel,
    draw_on_page,
    methods_of,
    numbers,
    training_returns,
)
from benchmarks.learning.suites.plan import Suite, jobs_of, slug  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from rl_agent.config.colours import styles_of  # noqa: E402

NAME = "refer"
PANELS = (
    Panel(0, "mean_return", "environment steps", "return of training episodes"),
    Panel(0, "kl", "environment steps", "KL divergence, mean over the memory", "log"),
    Panel(0, "far_fraction", "environment steps", "share of far-policy steps"),
)


def table(methods: dict[str, Seeds]) -> list[str]:
    """Return a Markdown table with a row for each method: returns, and logged values at the end of the trainings."""
    lines = [
        "| method | seeds | training | mean action | KL divergence | far-policy share | beta |",
        "| --- |" + " --: |" * 6,
    ]
    for name, seeds in methods.items():
        evaluated = [seed["evaluation"]["deterministic"]["mean_return"] for seed in seeds]
        logged = (_at_end(seeds, value) for value in ("kl", "far_fraction", "beta"))
        cells = (numbers(list(training_returns(seeds))), numbers(evaluated), *map(numbers, logged))
        lines.append(f"| {name} | {len(seeds)} | {' | '.join(cells)} |")
    return lines


def _at_end(seeds: Seeds, value: str) -> list[float]:
    """Return the mean of a logged value over the last twentieth of each training."""
    curves = ((read_curve(seed, value), np.array([float(seed["steps"])])) for seed in seeds)
    return [float(curve_at(curve, 0, end)[0]) for curve, end in curves]


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the tables and pictures of the complete jobs into the page."""
    parts = []
    for name, suite in plan.items():
        methods, jobs = methods_of(name, suite, results), jobs_of(name, suite)
        done = sum(len(methods.get(method, [])) for method in suite.methods)
        parts.append(f"## {name}\n\n{suite.about}\n{done} of {len(jobs)} trainings are complete.")
        styles = styles_of(
            [*suite.methods, *methods]
        )  # including methods of other suites shown for comparison
        for task, own in by_task(methods).items() if done else ():
            where, shows = (
                slug(f"{name}_{task}"),
                f"return, KL divergence and far-policy share, {task}",
            )
            parts += [
                f"### {task}",
                draw_on_page(page, where, own, PANELS, shows, styles),
                "\n".join(table(own)),
            ]
            if len(contrasts := contrast_table(suite, {task: own})) > len(
                contrast_table(suite, {})
            ):
                parts.append("\n".join(contrasts))
    fill_in(page, f"learning/{NAME}", "results", "\n\n".join(parts))


def main() -> int:
    """Run or list the jobs, or write the page; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
