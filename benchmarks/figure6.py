"""The paper's figure 6 on the resolved wake: trainings (figure6.yaml), their policies, curves and page.

    python benchmarks/figure6.py run --suite narrow -j 2      # complete jobs are skipped, interrupted ones go on
    python benchmarks/figure6.py list                         # the jobs, and which are complete
    python benchmarks/figure6.py page                         # docs/figure6.md and its pictures
    python benchmarks/figure6.py film FILE.policy -o wake.gif --cells 32   # six starts, beside one without control

A complete job leaves benchmarks/results/figure6/SUITE/JOB.csv (the curve), JOB.json (settings, evaluation, machine,
versions, commit) and JOB.policy (rl_agent.Policy), which ``benchmarks/resolution.py judge`` takes to other resolutions.
Checkpoints are in runs/figure6/. An hour of one core is some 120,000 actions at 16 cells per D.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks.learning.command import add_page, add_run_and_list, run_or_list  # noqa: E402
from benchmarks.learning.contestants import Panel, contestants_of, draw, numbers  # noqa: E402
from benchmarks.learning.page import Seeds, curve_at, read_curve  # noqa: E402
from benchmarks.learning.plan import Result, Suite, read_plan  # noqa: E402
from benchmarks.learning.settings import differences, row_name  # noqa: E402
from benchmarks.resolution import agent_of  # noqa: E402
from cases.baselines import Controller, ZeroController  # noqa: E402
from cases.film import render_film  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.run.screen import progress_bar  # noqa: E402
from rl_agent import Policy  # noqa: E402
from rl_agent.colours import styles_of  # noqa: E402
from rl_agent.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

NAME = "figure6"
STARTS = 6
LOSS = 100.0  # of the return, for leaving the box
HELD = 100  # actions
KEPT = 0.9  # of the starts
ACTIONS = 400  # of the episodes in which policies are judged
COMPARED = "narrow"
PAPERS = ("ACER", "DDPG", "DDPG + ReF-ER", "V-RACER")
"""The methods of the paper's figure."""
CLAIMED = """\
What the paper says of its figure 6, and what is found here, as means over the seeds.
The paper plots the returns of training episodes, so the verdict is about training episodes and among the paper's four;
the mean of the last policies stands beside it.
SAC, which the paper does not have, stands beside them.
The rows differ in more than their algorithm, as the settings above say; the networks are MLPs where the paper has
LSTMs, and the runs are shorter.
DDPG with ReF-ER and without differ in the policy's rate, the memory, the noise and the annealing: the table does not
say what ReF-ER does for DDPG."""
PANELS = (
    Panel(0, "mean_return", "actions of all agents", "return, training episodes"),
    Panel(0, "mean_length", "actions of all agents", "actions until lost, training episodes"),
)
CAPTION = """\
*Doing nothing has a return of -100, after four actions.
Curves below it are right: who stays pays for 400 actions, and what learns counts the next 33 (gamma 0.97), in which
leaving the box costs more than staying.*"""
HEAD = """\
# Figure 6: who learns to live in the wake

Written by `python benchmarks/figure6.py page` from `benchmarks/results/figure6/`; do not edit it.
Every curve is there with settings, machine, versions and commit, and every policy of ours.
The suites are in `benchmarks/figure6.yaml`.
Curves are means over the training episodes of the last twentieth of a curve before each place, which draw their
actions; bands are 95 % bootstrap intervals over the seeds.
An episode that leaves the box has -100 in the end; one that stays has 400 actions.
The evaluation is of the last policy on 48 starts that were not trained on.

What the agents do there is on [learned.md](learned.md); the films of [agents.md](agents.md) show one.

A return counts every action, so an agent that is lost at once (-100) has a better one than an agent that lives for 400
actions at a price of more than 0.25 each.
What learns here counts 33 actions (gamma 0.97), for which it is right to live at a price of up to 3: so returns fall
while the agents learn to live, and rise when they learn to live cheaply."""


def keep_policies(results: Path, work: Path) -> None:
    """Keep the policy of every complete training of ours whose checkpoint is here beside its results."""
    for kept in sorted(results.glob("*/*.json")):
        checkpoint, policy = (
            work / kept.parent.name / kept.stem / "checkpoint",
            kept.with_suffix(".policy"),
        )
        if checkpoint.exists() and not policy.exists():
            Policy.load(checkpoint).save(policy)
            print(f"kept {policy}")


def lost_after(means: list[dict[str, float]]) -> list[float]:
    """Return the actions, in the mean, until those are lost who do not stay, for each seed that loses any."""
    return [
        (mean["mean_length"] - ACTIONS * mean["survival"]) / (1.0 - mean["survival"])
        for mean in means
        if mean["survival"] < 1.0
    ]


def table(contestants: dict[str, Seeds]) -> list[str]:
    """Return a row for each contestant, in Markdown; numbers are means over its seeds, with the seeds' own behind."""
    lines = [
        "| method | actions | actions per CPU second | while training: return | its length | "
        "mean of the policy: return | survival | the others are lost after | drawing: return | survival |",
        "| --- |" + " --: |" * 9,
    ]
    for name, seeds in contestants.items():
        ends = [[curve_at(read_curve(seed, value), 0, np.array([seed["steps"]]))[0] for seed in seeds]
                for value in ("mean_return", "mean_length")]  # fmt: skip
        means, draws = (
            [seed["evaluation"][kind] for seed in seeds] for kind in ("deterministic", "drawing")
        )
        judged = [
            [mean["mean_return"] for mean in means],
            [mean["survival"] for mean in means],
            lost_after(means),
            [drawn["mean_return"] for drawn in draws],
            [drawn["survival"] for drawn in draws],
        ]
        rate = np.mean([seed["steps"] / seed["cpu_seconds"] for seed in seeds])
        cells = [
            f"{min(seed['steps'] for seed in seeds):,}",
            f"{rate:.0f}",
            *(numbers(each) if each else "-" for each in ends + judged),
        ]
        lines.append(f"| {row_name(name, seeds)} | " + " | ".join(cells) + " |")
    return lines


def judged(seed: Result) -> np.ndarray:
    """Return actions, survival and return of the policies that were judged on the way, shape (3, policies)."""
    with seed["curve"].open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("judged_survival")]
    columns = ("environment_steps", "judged_survival", "judged_mean_return")
    return np.array([[float(row[key]) for row in rows] for key in columns])


def on_the_way(contestants: dict[str, Seeds]) -> list[str]:
    """Return a row for each contestant whose policies were judged while it was trained, in Markdown."""
    found = {name: [judged(seed) for seed in seeds] for name, seeds in contestants.items()}
    found = {name: seeds for name, seeds in found.items() if all(each.size for each in seeds)}
    if not found:
        return []
    places = [round(actions, -2) for actions in next(iter(found.values()))[0][0]]
    lines = [
        f"| method | {KEPT:.0%} of the starts are held after | "
        + " | ".join(f"held after {place:,.0f}" for place in places) + " |",
        "| --- |" + " --: |" * (len(places) + 1),
    ]  # fmt: skip
    for name, seeds in found.items():
        first = [min(actions[survival >= KEPT], default=np.inf) for actions, survival, _ in seeds]
        after = _cell(float(np.mean(first))) + f" ({', '.join(map(_cell, first))})"
        held = [f"{np.mean([each[1][k] for each in seeds]):.2f}" for k in range(len(places))]
        lines.append(
            f"| {row_name(name, contestants[name])} | {after} | " + " | ".join(held) + " |"
        )
    return lines


def _lengths(seed: Result, places: np.ndarray) -> np.ndarray:
    return curve_at(read_curve(seed, "mean_length"), 0, places)


def longest(seed: Result) -> float:
    """Return how long the training episodes became."""
    return float(np.nanmax(_lengths(seed, np.linspace(0, seed["steps"], 101)[5:])))


def until_held(seed: Result) -> float:
    """Return the actions after which training episodes last ``HELD`` in the mean; infinite where they never do."""
    places = np.linspace(0, seed["steps"], 101)[5:]
    return float(min(places[_lengths(seed, places) >= HELD], default=np.inf))


def price(seed: Result) -> float:
    """Return what an action of the mean policy costs, without what it costs to leave the box."""
    judged = seed["evaluation"]["deterministic"]
    lost = LOSS * (1.0 - judged["survival"])
    return float((-judged["mean_return"] - lost) / judged["mean_length"])


def return_in_training(seed: Result) -> float:
    """Return the mean return of the last training episodes."""
    return float(curve_at(read_curve(seed), 0, np.array([seed["steps"]]))[0])


def return_of_the_mean(seed: Result) -> float:
    """Return the mean return of the mean of the last policy."""
    return float(seed["evaluation"]["deterministic"]["mean_return"])


CLAIMS: tuple[tuple[str, str, str, Callable[[Result], float], Callable[..., float], str], ...] = (
    ("ACER makes little progress", "ACER", "longest mean of training episodes", longest, min,
     "DDPG's are shorter still"),
    ("DDPG with ER spends much", "", "price of an action of the mean policy", price, max,
     "no verdict: of training episodes it is not known; ACER's mean policy spends as much"),
    ("DDPG with ReF-ER stays within the limits first", "", f"actions until training episodes last {HELD}", until_held,
     min, "no verdict: DDPG + ReF-ER does, of rows that differ in more than ReF-ER"),
    ("V-RACER ends best", "V-RACER", "return of the last training episodes", return_in_training, max, ""),
    ("", "", "return of the mean policy", return_of_the_mean, max, ""),
)  # fmt: skip
"""What the paper says, of whom, what tells it here, whether that is the least or the most, and what is behind a no.

A row of nobody has no verdict, and one without a claim stands beside the one above it.
"""


def _cell(value: float) -> str:
    return "never" if np.isinf(value) else f"{value:,.0f}" if value >= 1e3 else f"{value:.3g}"


def claims(contestants: dict[str, Seeds]) -> str:
    """Return the claims of the paper's section 5.4 beside what was found, in Markdown."""
    lines = [
        "| the paper says | measured by | " + " | ".join([*PAPERS, "SAC"]) + " | here |",
        "| --- | --- |" + " --: |" * (len(PAPERS) + 1) + " --- |",
    ]
    for claim, who, what, measure, extreme, reason in CLAIMS:
        found = {
            name: float(np.mean([measure(seed) for seed in contestants[name]]))
            for name in [*PAPERS, "SAC"]
            if name in contestants
        }
        cells = [_cell(found[name]) if name in found else "" for name in [*PAPERS, "SAC"]]
        if not set(PAPERS) <= found.keys():
            verdict = "some are not trained yet"
        elif not who:
            verdict = reason
        else:
            best = extreme(PAPERS, key=found.__getitem__)
            verdict = "so it is" if best == who else f"not so: {reason or f'{best} does'}"
        lines.append(f"| {claim} | {what} | " + " | ".join(cells) + f" | {verdict} |")
    return "\n".join(lines)


def _as_part(lines: list[str]) -> list[str]:
    return ["\n".join(lines)] if lines else []


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the page and its pictures from the complete jobs."""
    parts = [HEAD]
    styles = styles_of(who for suite in plan.values() for who in suite.contestants)
    for name, suite in plan.items():
        contestants = contestants_of(name, suite, results)
        done = sum(map(len, contestants.values()))
        parts.append(
            f"## {name}\n\n{suite.about}\n\n{done} of {len(suite.contestants) * suite.seeds} trainings done."
        )
        if contestants:
            picture = page.parent / "images" / f"figure6_{name}.png"
            draw(contestants, PANELS, picture, styles)
            parts.append(
                f"![return and length against actions]({picture.relative_to(page.parent).as_posix()})"
            )
            if any(
                read_curve(seed)[:, 3].min() < -LOSS for own in contestants.values() for seed in own
            ):
                parts.append(CAPTION)
            parts += ["\n".join(table(contestants)), *_as_part(on_the_way(contestants))]
            parts += _as_part(differences(contestants))
        if name == COMPARED:
            parts.append(CLAIMED + "\n\n" + claims(contestants))
    write_atomically(page, ("\n\n".join(parts) + "\n").encode())


def film(policy: Path, output: Path, cells: int, actions: int) -> None:
    """Film a policy at a resolution from the first starts of the evaluation, and the first start without control."""
    env, env_options, controller = agent_of(policy)
    options = {**env_options, "cells_per_diameter": cells}
    seeds = [episode_seed(Purpose.EVALUATION, EVALUATION_SEED, number) for number in range(STARTS)]
    who: dict[str, Controller] = {"trained agent": controller, "no control": ZeroController()}
    with progress_bar("filming") as progress:
        for ending in render_film(who, output, env=env, env_options=options, seeds=seeds, actions=actions,
                                  progress=progress):  # fmt: skip
            print(
                f"{ending.title}: return {ending.episode_return:.2f} after {ending.actions} actions"
            )


def main() -> int:
    """Run, list or write the page; 1 when a job failed, 2 for a wrong word, 130 when stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add_run_and_list(commands, NAME)
    add_page(commands, NAME)
    show = commands.add_parser("film", help="film a policy")
    show.add_argument("policy", type=Path)
    show.add_argument("-o", "--output", type=Path, default=Path("wake.gif"))
    show.add_argument("--cells", type=int, default=32, help="cells per D")
    show.add_argument("--actions", type=int, default=60, help="length, at most")
    options = parser.parse_args()
    if options.command == "film":
        film(options.policy, options.output, options.cells, options.actions)
        return 0
    if options.command == "page":
        write_page(read_plan(options.plan), options.results, options.page)
        return 0
    ended = run_or_list(options)
    keep_policies(options.results, options.work)
    return ended


if __name__ == "__main__":
    sys.exit(main())
