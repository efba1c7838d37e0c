"""The paper's figure 6 on the resolved wake: trainings (figure6.yaml), their policies, curves and page.

    python benchmarks/learning/figure6.py run --suite narrow -j 2      # the jobs that are not complete
    python benchmarks/learning/figure6.py list                         # the jobs, and which are complete
    python benchmarks/learning/figure6.py page                         # docs/studies/figure6.md and its pictures
    python benchmarks/learning/figure6.py film runs/figure6/SUITE/JOB -o wake.gif  # six episodes

Each complete job adds a row to benchmarks/results/figure6.parquet: curve, settings, evaluation, machine, versions,
commit. Its checkpoint stays in runs/figure6/SUITE/JOB/; resolution.py evaluates its policy at other resolutions.
One core simulates about 120,000 actions per hour at 16 cells per D.
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
LOSS = 100.0  # cost of leaving the box
HELD = 100  # actions
KEPT = 0.9  # survival rate
ACTIONS = 400  # per evaluation episode
COMPARED = "narrow"
OVERVIEW = (COMPARED, "paper", "starts", "long", "resolved")
"""Suites whose policies are evaluated over whole episodes after training, shown in docs/results.md."""
BASES = ("SAC", "V-RACER", "DDPG", "ACER")
"""Methods of ``COMPARED`` with which others of the same algorithm are compared."""
PAPERS = ("ACER", "DDPG", "DDPG + ReF-ER", "V-RACER")
"""The methods of the paper's figure."""
CLAIMED = """\
The next table compares the paper's claims about its figure 6 with the results here, as means over {seeds} seeds.
The paper plots the returns of training episodes; the return of the last policy's mean action is shown as well.
The column *result here* compares the method of the claim with the paper's other three methods.
A difference counts if its 95 % bootstrap interval excludes zero; with three seeds such intervals are too narrow.
The methods differ in more than their algorithm: the last column counts the settings, and the table above lists them.
The comparison therefore does not isolate the effect of an algorithm, or of ReF-ER on DDPG.
The suite [equal](#equal) is meant for that.
SAC is not in the paper's figure.
The networks are MLPs where the paper has LSTMs, V-RACER has centred advantages, and the runs are shorter.
A method that once reaches a mean length of 100 actions need not keep it: the table above shows the length at the end.
A training whose episodes never reach a mean length of {held} actions counts as if they reached it at its end."""
COMPARISONS = """\
Differences of the interquartile means over the seeds, with 95 % bootstrap intervals: of the training episodes
(*training*) and of held-out episodes with the mean action (*mean action*).
The probability of improvement is that of a training of the first method ending above one of the second.
A difference counts if there are at least three seeds and its interval excludes zero."""
PANELS = (
    Panel(0, "mean_return", "actions of all agents", "return, training episodes"),
    Panel(0, "mean_length", "actions of all agents", "length of training episodes"),
)
CAPTION = """\
*Without control the agent leaves the box after four or five actions, at a return of -100.
A lower return is not a failure: an agent that stays in the box accumulates the cost of all its actions.
The discount limits the horizon of learning to 1 / (1 - gamma) actions (33 for gamma 0.97, 100 for 0.99); over these,
leaving the box costs more.*"""
HEAD = """\
# Figure 6: learning to stay in the wake

Written by `python benchmarks/learning/figure6.py page` from `benchmarks/results/figure6.parquet`; do not edit it.
The results file has every curve with its settings, machine, versions and commit.
[evidence.md](evidence.md) lists the commits.
The suites are in `benchmarks/learning/figure6.yaml`.
[learned.md](learned.md) describes what the agents do.

Training episodes use sampled actions.
Each point of a curve is the mean over the training episodes of the preceding twentieth of the curve.
Bands are 95 % bootstrap intervals over the seeds; with three seeds they are too narrow.
An episode in which the agent leaves the box ends with a reward of -100; the others have 400 actions unless a suite says
otherwise.
The last policy is evaluated on 48 held-out episodes, in `pace` and `resolved` on 24.
These are the first episodes of evaluation seed 10^6 in the numbering before 26 November 2026.

| column | meaning |
| --- | --- |
| actions per CPU second | of the whole training with its flows, beside other jobs; not comparable between rows |
| training: return, training: length | means at the end of the curve |
| mean action, sampled actions | held-out episodes with the mean of the last policy, or with actions sampled from it |
| survival rate | share of the held-out episodes in which the agent stays in the box |
| actions until failure | mean length of the other held-out episodes |

The return counts every action, so an agent that leaves the box at once (-100) has a higher return than one that stays
for 400 actions at a cost of more than 0.25 each.
With gamma 0.97 learning looks 33 actions ahead; over these, staying is worth a cost of up to 3 per action.
The return therefore falls while an agent learns to stay, and rises as it learns to stay at a lower cost."""


def mean_failure_time(means: list[dict[str, float]]) -> list[float]:
    """Return the mean length, in actions, of the episodes in which the agent leaves the box, for each seed with any."""
    return [
        (mean["mean_length"] - ACTIONS * mean["survival"]) / (1.0 - mean["survival"])
        for mean in means
        if mean["survival"] < 1.0
    ]


def table(methods: dict[str, Seeds]) -> list[str]:
    """Return a Markdown table with a row for each method: means over its seeds, each seed's value in parentheses."""
    lines = [
        "| method | actions | actions per CPU second | training: return | training: length | mean action: return | "
        "mean action: survival rate | actions until failure | sampled actions: return | "
        "sampled actions: survival rate |",
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
    """Return actions, survival rate and return of the policies evaluated during training, shape (3, policies)."""
    rows = [row for row in seed["curve"] if row.get("evaluated_survival") is not None]
    columns = ("environment_steps", "evaluated_survival", "evaluated_mean_return")
    return np.array([[float(row[key]) for row in rows] for key in columns])


def on_the_way(methods: dict[str, Seeds]) -> list[str]:
    """Return a Markdown table with a row for each method whose policies were evaluated during training."""
    found = {
        name: [evaluated_on_the_way(seed) for seed in seeds] for name, seeds in methods.items()
    }
    found = {name: seeds for name, seeds in found.items() if all(each.size for each in seeds)}
    if not found:
        return []
    places = [round(actions, -2) for actions in next(iter(found.values()))[0][0]]
    lines = [
        f"| method | actions until a survival rate of {KEPT:.0%} | "
        + " | ".join(f"survival rate after {place:,.0f}" for place in places) + " |",
        "| --- |" + " --: |" * (len(places) + 1),
    ]  # fmt: skip
    for name, seeds in found.items():
        first = [min(actions[survival >= KEPT], default=np.inf) for actions, survival, _ in seeds]
        after = _cell(float(np.mean(first))) + f" ({', '.join(map(_cell, first))})"
        held = [f"{np.mean([each[1][k] for each in seeds]):.2f}" for k in range(len(places))]
        lines.append(f"| {row_name(name, methods[name])} | {after} | " + " | ".join(held) + " |")
    return lines


def far_policy_shares(methods: dict[str, Seeds]) -> list[str]:
    """Return a Markdown table of the share of far-policy steps in the memory at each quarter of a ReF-ER training.

    Trainings that did not log it yet are left out.
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
    """Return the last row of a curve up to a number of environment steps."""
    return [row for row in rows if row["environment_steps"] <= steps][-1]


def _lengths(seed: Result, places: np.ndarray) -> np.ndarray:
    return curve_at(read_curve(seed, "mean_length"), 0, places)


def longest(seed: Result) -> float:
    """Return the largest mean length of the training episodes."""
    return float(np.nanmax(_lengths(seed, np.linspace(0, seed["steps"], 101)[5:])))


def until_held(seed: Result) -> float:
    """Return the actions until training episodes reach a mean length of ``HELD``, or infinity if they never do."""
    places = np.linspace(0, seed["steps"], 101)[5:]
    return float(min(places[_lengths(seed, places) >= HELD], default=np.inf))


def action_cost(seed: Result) -> float:
    """Return the mean cost per action of the mean policy, without the cost of leaving the box."""
    evaluated = seed["evaluation"]["deterministic"]
    lost = LOSS * (1.0 - evaluated["survival"])
    return float((-evaluated["mean_return"] - lost) / evaluated["mean_length"])


def return_in_training(seed: Result) -> float:
    """Return the mean return of the last training episodes."""
    return float(curve_at(read_curve(seed), 0, np.array([seed["steps"]]))[0])


def return_of_the_mean(seed: Result) -> float:
    """Return the mean return of the mean action of the last policy."""
    return float(seed["evaluation"]["deterministic"]["mean_return"])


class Claim(NamedTuple):
    """A claim of the paper about one of its four methods, and its measure here.

    Attributes
    ----------
    says, who
        The claim, and the method that it is about.
    measured, measure
        The measure in words, and a function that computes it from a training.
    sign
        1 if the claim is that the method has the largest value, -1 if the smallest; 0 for an additional measure.
    """

    says: str
    who: str
    measured: str
    measure: Callable[[Result], float]
    sign: int


CLAIMS = (
    Claim("ACER makes little progress", "ACER", "longest mean length of training episodes", longest, -1),
    Claim("DDPG with ER uses much effort", "DDPG", "cost per action, mean action (not recorded in training)",
          action_cost, 1),
    Claim("DDPG with ReF-ER stays within the limits first", "DDPG + ReF-ER",
          f"actions until training episodes last {HELD}", until_held, -1),
    Claim("V-RACER is best at the end", "V-RACER", "return of the last training episodes", return_in_training, 1),
    Claim("", "V-RACER", "return of the mean action", return_of_the_mean, 0),
)  # fmt: skip


MEASURES: tuple[tuple[str, Callable[[Result], float]], ...] = (
    ("return of training episodes", return_in_training),
    ("return of the mean action", return_of_the_mean),
    ("survival rate of the mean action", lambda one: _survival(one, "deterministic")),
    ("survival rate of sampled actions", lambda one: _survival(one, "drawing")),
)
"""Measures by which two methods are compared."""


def _survival(seed: Result, actions: str) -> float:
    return float(seed["evaluation"][actions]["survival"])


def _cell(value: float) -> str:
    return "never" if np.isinf(value) else f"{value:,.0f}" if value >= 1e3 else f"{value:.3g}"


def claims(methods: dict[str, Seeds]) -> str:
    """Return a Markdown table of the claims of the paper's section 5.4 and the results here."""
    shown = [*PAPERS, "SAC"]
    lines = [
        "| claim of the paper | measured by | "
        + " | ".join(row_name(name, methods[name]) if name in methods else name for name in shown)
        + " | result here | settings that differ from the other methods |",
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
    """Return what the intervals show about a claim, and in how many settings its method differs from the others."""
    if not set(PAPERS) <= methods.keys():
        return "some are not trained yet", ""
    scores = {
        # an event that never occurred counts as if it occurred at the end of the training
        who: claim.sign * np.array([min(claim.measure(one), one["steps"]) for one in methods[who]])
        for who in PAPERS
    }
    own = scores.pop(claim.who)
    agents = {who: read_settings(methods[who][0]) for who in PAPERS}
    many = [len(differing_settings(agents[claim.who], agents[who])) for who in scores]
    return stands_out(own, scores), f"{min(many)} to {max(many)}"


def overview(plan: dict[str, Suite], results: Path) -> str:
    """Return a Markdown table of the trainings on the wake, sorted by algorithm.

    Each row lists the settings that differ from the first row of its algorithm, which is in ``COMPARED``; returns are
    interquartile means over the seeds with 95 % bootstrap intervals.
    """
    found = [
        (suite, name, seeds)
        for suite in OVERVIEW
        for name, seeds in methods_of(suite, plan[suite], results).items()
        if name in plan[suite].methods
    ]
    lines = [
        "| suite | method | seeds | actions | mean action: survival rate, % | mean action: return | training return | "
        "settings that differ from the first row of the algorithm |",
        "| --- | --- | --: | --: | --- | --- | --- | --- |",
    ]
    for base in BASES:
        first = next(seeds for suite, name, seeds in found if (suite, name) == (COMPARED, base))
        # the sort is stable: the others keep their order
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
    """Return a Markdown table that compares two methods of ``COMPARED`` by each measure."""
    methods = methods_of(COMPARED, plan[COMPARED], results)
    pair = methods[first], methods[second]
    names = [row_name(name, seeds) for name, seeds in zip((first, second), pair, strict=True)]
    many = len(differing_settings(*(read_settings(seeds[0]) for seeds in pair)))
    lines = [f"| {names[0]} minus {names[1]} | difference | verdict |", "| --- | --: | --- |"]
    for what, measure in MEASURES:
        found = compare(*([np.array([measure(seed) for seed in seeds])] for seeds in pair))
        verdict = {"better": "higher", "worse": "lower"}.get(found.verdict, found.verdict)
        lines.append(f"| {what} | {with_interval(found.difference)} | {verdict} |")
    first_seeds, second_seeds = map(len, pair)
    counted = f"{first_seeds} and {second_seeds} seeds of suite `{COMPARED}`; "
    return "\n".join(
        [*lines, "", f"{counted}the methods differ in {many} settings, including the algorithm."]
    )


def over_seeds(values: list[float]) -> str:
    """Return an interquartile mean, with its interval if there are several seeds."""
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
    """Film a policy at a resolution in the first evaluation episodes, and the first one without control."""
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
    """Run or list the jobs, or write the page; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
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
