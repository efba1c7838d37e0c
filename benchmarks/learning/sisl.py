"""Multi-agent learning: the SISL games of Weber et al. 2022 (sisl.yaml), their curves and their page.

    python benchmarks/learning/sisl.py run --suite multiwalker -j 2  # skips complete jobs, resumes interrupted ones
    python benchmarks/learning/sisl.py list                          # the jobs, and which are complete
    python benchmarks/learning/sisl.py page                          # docs/studies/sisl.md and its pictures

Needs the extra sisl. Each complete job adds a row to benchmarks/results/sisl.parquet: curve, settings, evaluation,
machine, versions and commit. Checkpoints are in runs/sisl/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.suites.command import command_of  # noqa: E402
from benchmarks.learning.suites.contrasts import by_task, contrast_table  # noqa: E402
from benchmarks.learning.suites.curves import Seeds, curve_at, read_curve  # noqa: E402
from benchmarks.learning.suites.methods import POINTS, Panel, draw_on_page, methods_of, numbers  # noqa: E402
from benchmarks.learning.suites.plan import Suite  # noqa: E402
from benchmarks.learning.suites.settings import differences  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from rl_agent.config.colours import styles_of  # noqa: E402

NAME = "sisl"
PAPER = {
    "multiwalker": (19.80, "3.2k"),
    "waterworld": (194.57, "19.2k"),
    "pursuit": (124.22, "20.8k"),
}
"""Table 1 of the paper: the best mean return of LDI with one policy, and the episode in which it was reached."""
PANELS = (
    Panel(0, "mean_return", "steps of an environment", "return, mean over the agents"),
    Panel(1, "mean_return", "CPU seconds of training", "return, mean over the agents"),
)
HEAD = """\
# Many agents in one environment: the SISL games

Written by `python benchmarks/learning/sisl.py page` from `benchmarks/results/sisl.parquet`; do not edit it.
[evidence.md](evidence.md) lists the commits of the trainings.
The algorithms are V-RACER with ReF-ER for many agents (Weber et al. 2022) and PPO of stable-baselines3.
All agents of an environment share one policy unless a row says otherwise.
[multi_agent.md](../multi_agent.md) describes the method, and how today's games differ from the paper's.
All rows have two seeds: these are trials.
The last policies are evaluated on 20 held-out episodes, the first of evaluation seed 10^6 in the numbering before 26
November 2026.

The four variants of V-RACER:

| | importance weight of the agent's own action | importance weight of the actions of all agents |
| --- | --- | --- |
| value function of the agent's own reward | LDI | FDI |
| value function of the mean reward of the environment | LDCo | FDCo |

Returns are means over the agents of an environment.
The paper plots the returns of training episodes, so the comparisons use them.
The mean action of the last policies is shown as well.
Each point of a curve is the mean over the training episodes of the preceding twentieth of the curve.
Bands are 95 % bootstrap intervals over the seeds; with two seeds they are too narrow.
The last table of each game compares interquartile means over the seeds.
The probability of improvement is that of a training of the first method ending above one of the second.
A difference counts if there are at least three seeds and its interval excludes zero.
The paper's runs have 20,000 episodes each, about 48 hours on 12 cores; these have eight minutes on one core.
In these trainings of Multiwalker the limit of 500 steps was treated as a terminal state; today it is a truncation."""


def table(methods: dict[str, Seeds]) -> list[str]:
    """Return a Markdown table with a row for each method: means over its seeds, each seed's value in parentheses."""
    lines = [
        "| method | steps | episodes | steps per CPU second | training: highest return | training: final return | "
        "mean action | sampled actions |",
        "| --- |" + " --: |" * 7,
    ]
    for name, seeds in methods.items():
        curves = [read_curve(seed, "mean_return") for seed in seeds]
        smooth = [
            curve_at(curve, 0, np.linspace(curve[0, 0], curve[-1, 0], POINTS)) for curve in curves
        ]
        evaluated = [
            [seed["evaluation"][kind]["mean_return"] for seed in seeds]
            for kind in ("deterministic", "drawing")
        ]
        episodes = [sum(row["episodes"] for row in seed["curve"]) for seed in seeds]
        rate = np.mean([seed["steps"] / seed["cpu_seconds"] for seed in seeds])
        cells = [
            numbers([seed["steps"] for seed in seeds], ",.0f"),
            numbers(episodes, ",.0f"),
            f"{rate:.0f}",
            *(
                numbers(each)
                for each in ([s.max() for s in smooth], [s[-1] for s in smooth], *evaluated)
            ),
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the page and its pictures from the complete jobs."""
    parts = [HEAD]
    styles = styles_of(who for suite in plan.values() for who in suite.methods)
    for name, suite in plan.items():
        methods = methods_of(name, suite, results)
        done = sum(map(len, methods.values()))
        best, episode = PAPER[name]
        parts.append(
            f"## {name.capitalize()}\n\n{suite.about}\n"
            f"In the paper, the highest return of LDI is {best}, at episode {episode}.\n\n"
            f"{done} of {len(suite.methods) * suite.seeds} trainings done."
        )
        if methods:
            shows = "return against steps and seconds"
            parts.append(draw_on_page(page, name, methods, PANELS, shows, styles))
            parts.append("\n".join(table(methods)))
            parts.append("\n".join(differences(methods)))
            parts.append("\n".join(contrast_table(suite, by_task(methods))))
    write_atomically(page, ("\n\n".join(parts) + "\n").encode())


def main() -> int:
    """Run or list the jobs, or write the page; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    return command_of(NAME, (__doc__ or "").splitlines()[0], write_page)


if __name__ == "__main__":
    sys.exit(main())
