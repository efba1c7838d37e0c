"""The paper's figure 6 on the resolved wake: trainings (figure6.yaml), their policies, curves and page.

    python benchmarks/learning/figure6.py run --suite narrow -j 2      # what is not complete
    python benchmarks/learning/figure6.py list                         # the jobs, and which are complete
    python benchmarks/learning/figure6.py page                         # docs/studies/figure6.md and its pictures
    python benchmarks/learning/figure6.py film runs/figure6/SUITE/JOB -o wake.gif  # six episodes

A complete job adds a row to benchmarks/results/figure6.parquet: curve, settings, evaluation, machine, versions, commit.
Its checkpoint stays in runs/figure6/SUITE/JOB/; resolution.py takes its policy to other resolutions.
An hour of one core is some 120,000 actions at 16 cells per D.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.suites.command import add_page, add_run_and_list, run_or_list  # noqa: E402
from benchmarks.learning.suites.comparison import compare, differing_settings, stands_out  # noqa: E402
from benchmarks.learning.suites.contrasts import by_task, contrast_table, with_interval  # noqa: E402
from benchmarks.learning.suites.curves import Seeds, curve_at, read_curve  # noqa: E402
from benchmarks.learning.suites.methods import Panel, draw_on_page, methods_of, numbers  # noqa: E402
from benchmarks.learning.suites.plan import Result, Suite, read_plan  # noqa: E402
from benchmarks.learning.suites.settings import (  # noqa: E402
    differences,
    read_settings,
    row_name,
    what_differs,
)
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.physics.resolution import agent_of  # noqa: E402
from cases.baselines import Controller, ZeroController  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.film.flow_film import render_film  # noqa: E402
from coupling.run.aggregate import interquartile_mean, interval  # noqa: E402
from coupling.run.screen import progress_bar  # noqa: E402
from rl_agent.config.colours import styles_of  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

NAME = "figure6"
STARTS = 6
LOSS = 100.0  # of the return, for leaving the box
HELD = 100  # actions
KEPT = 0.9  # of the starts
ACTIONS = 400  # of the episodes in which policies are evaluated
COMPARED = "narrow"
OVERVIEW = (COMPARED, "paper", "starts", "long", "resolved")
"""Suites whose policies are evaluated over whole episodes after the training, on a page for everybody."""
BASES = ("SAC", "V-RACER", "DDPG", "ACER")
"""Methods of ``COMPARED`` that others of their learner are set beside."""
PAPERS = ("ACER", "DDPG", "DDPG + ReF-ER", "V-RACER")
"""The methods of the paper's figure."""
CLAIMED = """\
What the paper says about its figure 6, and what was seen here, as means over {seeds} seeds.
The paper plots the returns of training episodes; the mean action of the last policies is shown as well.
*Here* compares the method of a claim with the other three of the paper: a difference counts where its 95 % bootstrap
interval excludes zero, and with three seeds such intervals are too narrow.
The rows differ in more than their algorithm, as the last column counts and the table of settings above shows.
So none of them says what an algorithm does, nor what ReF-ER does for DDPG; the suite [equal](#equal) is there for that.
SAC is not in the paper's figure.
The networks are MLPs where the paper has LSTMs, and the runs are shorter.
A training whose episodes never last {held} actions counts as if they did at its end."""
COMPARISONS = """\
Differences are those of the interquartile means over the seeds, of the training episodes and of held-out episodes with
the mean action, with 95 % bootstrap intervals; one counts from three seeds on, where its interval excludes zero."""
PANELS = (
    Panel(0, "mean_return", "actions of all agents", "return, training episodes"),
    Panel(0, "mean_length", "actions of all agents", "episode length (actions), training episodes"),
)
CAPTION = """\
*Doing nothing has a return of -100, after four actions.
A lower return is not a fault: an agent that stays in the box accumulates the cost of all its actions.
Learning looks only 1 / (1 - gamma) actions ahead (33 for gamma 0.97, 100 for 0.99); over these, leaving the box costs
more.*"""
HEAD = """\
# Figure 6: who learns to live in the wake

Written by `python benchmarks/learning/figure6.py page` from `benchmarks/results/figure6.parquet`; do not edit it.
Every curve is there with settings, machine, versions and commit; [evidence.md](evidence.md) lists the commits.
The suites are in `benchmarks/learning/figure6.yaml`.
Each point of a curve is the mean over the training episodes in the last twentieth of the curve up to there; training
episodes sample their actions.
Bands are 95 % bootstrap intervals over the seeds; three seeds make them too narrow.
An episode that leaves the box ends with a reward of -100; one that stays has 400 actions.
The last policy is evaluated on 48 held-out episodes, in `pace` and `resolved` on 24.
They are the first of evaluation seed 10^6 in the numbering before 26 November 2026.

What the agents do there is on [learned.md](learned.md); the films of [agents.md](../agents.md) show one.

A return counts every action, so an agent that leaves the box at once (-100) has a higher return than one that stays for
400 actions at a cost of more than 0.25 each.
With gamma 0.97 learning looks 33 actions ahead, over which staying pays at a cost of up to 3 an action.
So returns fall while the agents learn to stay, and rise when they learn to stay cheaply."""


def mean_failure_time(means: list[dict[str, float]]) -> list[float]:
    """Return the mean number of actions until agents that leave the box leave it, for each seed that has any."""
    return [
        (mean["mean_length"] - ACTIONS * mean["survival"]) / (1.0 - mean["survival"])
        for mean in means
        if mean["survival"] < 1.0
    ]


def table(methods: dict[str, Seeds]) -> list[str]:
    """Return a row for each method, in Markdown: means over its seeds, and the value of each seed in parentheses."""
    lines = [
        "| method | actions | actions per CPU second | training episodes: return | length | mean action: return | "
        "survival | actions until the others leave the box | sampled actions: return | survival |",
        "| --- |" + " --: |" * 9,
    ]
    for name, seeds in methods.items():
        ends = [[curve_at(read_curve(seed, value), 0, np.array([seed["steps"]]))[0] for seed in seeds]
                for value in ("mean_return", "mean_length")]  # fmt: skip
        means, draws = (
            [seed["evaluation"][kind] for seed in seeds] for kind in ("deterministic", "drawing")
        )
        evaluated = [
            [mean["mean_return"] for mean in means],
            [mean["survival"] for mean in means],
            mean_failure_time(means),
            [drawn["mean_return"] for drawn in draws],
            [drawn["survival"] for drawn in draws],
        ]
        rate = np.mean([seed["steps"] / seed["cpu_seconds"] for seed in seeds])
        cells = [
            f"{min(seed['steps'] for seed in seeds):,}",
            f"{rate:.0f}",
            *(numbers(each) if each else "-" for each in ends + evaluated),
        ]
        lines.append(f"| {row_name(name, seeds)} | " + " | ".join(cells) + " |")
    return lines


def evaluated_on_the_way(seed: Result) -> np.ndarray:
    """Return actions, survival and return of the policies that were evaluated on the way, shape (3, policies)."""
    rows = [row for row in seed["curve"] if row.get("evaluated_survival") is not None]
    columns = ("environment_steps", "evaluated_survival", "evaluated_mean_return")
    return np.array([[float(row[key]) for row in rows] for key in columns])


def on_the_way(methods: dict[str, Seeds]) -> list[str]:
    """Return a row for each method whose policies were evaluated while it was trained, in Markdown."""
    found = {
        name: [evaluated_on_the_way(seed) for seed in seeds] for name, seeds in methods.items()
    }
    found = {name: seeds for name, seeds in found.items() if all(each.size for each in seeds)}
    if not found:
        return []
    places = [round(actions, -2) for actions in next(iter(found.values()))[0][0]]
    lines = [
        f"| method | actions until {KEPT:.0%} of the episodes survive | "
        + " | ".join(f"survival after {place:,.0f}" for place in places) + " |",
        "| --- |" + " --: |" * (len(places) + 1),
    ]  # fmt: skip
    for name, seeds in found.items():
        first = [min(actions[survival >= KEPT], default=np.inf) for actions, survival, _ in seeds]
        after = _cell(float(np.mean(first))) + f" ({', '.join(map(_cell, first))})"
        held = [f"{np.mean([each[1][k] for each in seeds]):.2f}" for k in range(len(places))]
        lines.append(f"| {row_name(name, methods[name])} | {after} | " + " | ".join(held) + " |")
    return lines


def far_policy_shares(methods: dict[str, Seeds]) -> list[str]:
    """Return the share of far-policy steps in the memory at quarters of the trainings with ReF-ER, in Markdown.

    Trainings of before it was logged are left out.
    """
    quarters = (0.25, 0.5, 0.75, 1.0)
    lines = [
        "| method with ReF-ER | "
        + " | ".join(f"far-policy share after {part:.0%}" for part in quarters) + " | KL divergence at the end |",
        "| --- |" + " --: |" * (len(quarters) + 1),
    ]  # fmt: skip
    for name, seeds in methods.items():
        logged = [
            [row for row in seed["curve"] if row.get("far_fraction") is not None] for seed in seeds
        ]
        agents = [seed["settings"].get("agent") or {} for seed in seeds]
        if not all(logged) or any(agent.get("replay", "none") == "none" for agent in agents):
            continue
        shares = [
            [_latest(rows, part * seed["steps"])["far_fraction"] for rows, seed in zip(logged, seeds, strict=True)]
            for part in quarters
        ]  # fmt: skip
        divergences = [float(rows[-1]["kl"]) for rows in logged]
        cells = [numbers(each) for each in (*shares, divergences)]
        lines.append(f"| {row_name(name, seeds)} | " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else []


def _latest(rows: list[dict[str, Any]], steps: float) -> dict[str, Any]:
    """Return the last row of a curve up to some environment steps."""
    return [row for row in rows if row["environment_steps"] <= steps][-1]


def _lengths(seed: Result, places: np.ndarray) -> np.ndarray:
    return curve_at(read_curve(seed, "mean_length"), 0, places)


def longest(seed: Result) -> float:
    """Return how long the training episodes became."""
    return float(np.nanmax(_lengths(seed, np.linspace(0, seed["steps"], 101)[5:])))


def until_held(seed: Result) -> float:
    """Return the actions after which training episodes last ``HELD`` in the mean; infinite where they never do."""
    places = np.linspace(0, seed["steps"], 101)[5:]
    return float(min(places[_lengths(seed, places) >= HELD], default=np.inf))


def action_cost(seed: Result) -> float:
    """Return what an action of the mean policy costs, without the cost of leaving the box."""
    evaluated = seed["evaluation"]["deterministic"]
    lost = LOSS * (1.0 - evaluated["survival"])
    return float((-evaluated["mean_return"] - lost) / evaluated["mean_length"])


def return_in_training(seed: Result) -> float:
    """Return the mean return of the last training episodes."""
    return float(curve_at(read_curve(seed), 0, np.array([seed["steps"]]))[0])


def return_of_the_mean(seed: Result) -> float:
    """Return the mean return of the mean of the last policy."""
    return float(seed["evaluation"]["deterministic"]["mean_return"])


class Claim(NamedTuple):
    """What the paper says of one of its four methods, and what measures it here.

    Attributes
    ----------
    says, who
        The claim, and the method that it is about.
    measured, measure
        In words, and of a training.
    sign
        1 where the method shall have the most of it, -1 where the least; 0 for a measure that stands beside it.
    """

    says: str
    who: str
    measured: str
    measure: Callable[[Result], float]
    sign: int


CLAIMS = (
    Claim("ACER makes little progress", "ACER", "longest mean of training episodes", longest, -1),
    Claim("DDPG with ER spends much", "DDPG", "cost of an action, mean action (not recorded in training)",
          action_cost, 1),
    Claim("DDPG with ReF-ER stays within the limits first", "DDPG + ReF-ER",
          f"actions until training episodes last {HELD}", until_held, -1),
    Claim("V-RACER ends best", "V-RACER", "return of the last training episodes", return_in_training, 1),
    Claim("", "V-RACER", "return of the mean action", return_of_the_mean, 0),
)  # fmt: skip


LESS = {"higher": "lower", "more": "fewer"}
MEASURES: tuple[tuple[str, Callable[[Result], float], str], ...] = (
    ("return of training episodes", return_in_training, "higher"),
    ("return of the mean action", return_of_the_mean, "higher"),
    ("episodes that the mean action survives", lambda one: _survival(one, "deterministic"), "more"),
    ("episodes that sampled actions survive", lambda one: _survival(one, "drawing"), "more"),
)
"""What two methods are compared by, and the word for more of it."""


def _survival(seed: Result, actions: str) -> float:
    return float(seed["evaluation"][actions]["survival"])


def _cell(value: float) -> str:
    return "never" if np.isinf(value) else f"{value:,.0f}" if value >= 1e3 else f"{value:.3g}"


def claims(methods: dict[str, Seeds]) -> str:
    """Return the claims of the paper's section 5.4 beside what was found, in Markdown."""
    shown = [*PAPERS, "SAC"]
    lines = [
        "| the paper says | measured by | "
        + " | ".join(shown)
        + " | here | its settings that differ from theirs |",
        "| --- | --- |" + " --: |" * len(shown) + " --- | --- |",
    ]
    for claim in CLAIMS:
        cells = [
            _cell(float(np.mean([claim.measure(seed) for seed in methods[name]])))
            if name in methods
            else ""
            for name in shown
        ]
        found = verdict(claim, methods) if claim.sign else ("", "")
        lines.append(" | ".join([f"| {claim.says}", claim.measured, *cells, *found]) + " |")
    return "\n".join(lines)


def verdict(claim: Claim, methods: dict[str, Seeds]) -> tuple[str, str]:
    """Return what the intervals say of a claim, and in how many settings its method differs from the others."""
    if not set(PAPERS) <= methods.keys():
        return "some are not trained yet", ""
    scores = {
        # what never came had not come at the end of the training
        who: claim.sign * np.array([min(claim.measure(one), one["steps"]) for one in methods[who]])
        for who in PAPERS
    }
    own = scores.pop(claim.who)
    agents = {who: read_settings(methods[who][0]) for who in PAPERS}
    many = [len(differing_settings(agents[claim.who], agents[who])) for who in scores]
    return stands_out(own, scores), f"{min(many)} to {max(many)}"


def overview(plan: dict[str, Suite], results: Path) -> str:
    """Return the trainings on the wake of one learner below those of its like in ``COMPARED``, in Markdown.

    Every row says what it differs in from the first row of its learner; returns are interquartile means over the seeds
    with 95 % bootstrap intervals.
    """
    found = [
        (suite, name, seeds)
        for suite in OVERVIEW
        for name, seeds in methods_of(suite, plan[suite], results).items()
        if name in plan[suite].methods
    ]
    lines = [
        "| suite | method | seeds | actions | mean action: episodes survived, % | its return | return in training | "
        "differs from the first of its learner in |",
        "| --- | --- | --: | --: | --- | --- | --- | --- |",
    ]
    for base in BASES:
        first = next(seeds for suite, name, seeds in found if (suite, name) == (COMPARED, base))
        # a sort keeps the order of the others
        for suite, name, seeds in sorted(found, key=lambda one: one[2] is not first):
            if (differ := what_differs(seeds[0], first[0])) is None:
                continue
            means = [seed["evaluation"]["deterministic"] for seed in seeds]
            cells = [
                suite,
                row_name(name, seeds),
                str(len(seeds)),
                f"{seeds[0]['steps']:,}",
                ", ".join(f"{100 * mean['survival']:.0f}" for mean in means),
                over_seeds([mean["mean_return"] for mean in means]),
                over_seeds([return_in_training(seed) for seed in seeds]),
                ", ".join(differ) or "-",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def against(plan: dict[str, Suite], results: Path, first: str, second: str) -> str:
    """Return how two methods of ``COMPARED`` compare by each measure, in Markdown."""
    methods = methods_of(COMPARED, plan[COMPARED], results)
    pair = methods[first], methods[second]
    names = [row_name(name, seeds) for name, seeds in zip((first, second), pair, strict=True)]
    many = len(differing_settings(*(read_settings(seeds[0]) for seeds in pair)))
    lines = [f"| {names[0]} minus {names[1]} | difference | verdict |", "| --- | --: | --- |"]
    for what, measure, more in MEASURES:
        found = compare(*([np.array([measure(seed) for seed in seeds])] for seeds in pair))
        verdict = {"better": more, "worse": LESS[more]}.get(found.verdict, found.verdict)
        lines.append(f"| {what} | {with_interval(found.difference)} | {verdict} |")
    counted = f"{len(pair[0])} and {len(pair[1])} seeds of suite `{COMPARED}`; "
    return "\n".join(
        [*lines, "", f"{counted}they differ in {many} settings, the learner included."]
    )


def over_seeds(values: list[float]) -> str:
    """Return an interquartile mean with its interval, which one seed does not have."""
    mean = f"{float(interquartile_mean(np.array(values))):.0f}"
    if len(values) == 1:
        return mean
    low, high = interval([np.array(values)])
    return f"{mean} [{low:.0f}, {high:.0f}]"


def _as_part(lines: list[str]) -> list[str]:
    return ["\n".join(lines)] if lines else []


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the page and its pictures from the complete jobs."""
    parts = [HEAD]
    styles = styles_of(who for suite in plan.values() for who in suite.methods)
    for name, suite in plan.items():
        methods = methods_of(name, suite, results)
        done = sum(len(methods.get(method, [])) for method in suite.methods)
        parts.append(
            f"## {name}\n\n{suite.about}\n\n{done} of {len(suite.methods) * suite.seeds} trainings done."
        )
        if methods:
            shows = "return and length against actions"
            parts.append(draw_on_page(page, name, methods, PANELS, shows, styles))
            if any(
                read_curve(seed)[:, 3].min() < -LOSS for own in methods.values() for seed in own
            ):
                parts.append(CAPTION)
            parts += ["\n".join(table(methods)), *_as_part(on_the_way(methods))]
            parts += _as_part(far_policy_shares(methods))
            parts += _as_part(differences(methods))
            if suite.contrasts:
                parts += [COMPARISONS, "\n".join(contrast_table(suite, by_task(methods)))]
        if name == COMPARED:
            parts.append(CLAIMED.format(seeds=suite.seeds, held=HELD) + "\n\n" + claims(methods))
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
    show.add_argument("policy", type=Path, help="folder of a training, or a run")
    show.add_argument("-o", "--output", type=Path, default=Path("wake.gif"))
    show.add_argument("--cells", type=int, default=32, help="cells per D")
    show.add_argument("--actions", type=int, default=60, help="length, at most")
    options = parser.parse_args()
    if options.command == "film":
        film(options.policy, options.output, options.cells, options.actions)
        return 0
    if options.command == "page":
        plan = read_plan(options.plan)
        write_page(plan, options.results, options.page)
        if options.page == ROOT / "docs" / "studies" / f"{NAME}.md":
            text = overview(plan, options.results)
            text += "\n\n" + against(plan, options.results, "V-RACER", "SAC")
            fill_in(ROOT / "docs" / "results.md", f"learning/{NAME}", "trainings", text)
        return 0
    return run_or_list(options)


if __name__ == "__main__":
    sys.exit(main())
