"""Plot curves of complete jobs against steps and CPU time, and write the page from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks.learning.suites.contrasts import contrast_table
from benchmarks.learning.suites.curves import Seeds, curve_at, read_curve
from benchmarks.learning.suites.plan import Result, Suite, jobs_of, read_results, slug
from benchmarks.learning.suites.settings import differences, row_name
from benchmarks.pages import add_legend, save_plot
from coupling.run.aggregate import interquartile_mean, interval
from coupling.settings.content import find_preset, read_yaml
from rl_agent.config.colours import styles_of

__all__ = ["cell", "write_page"]

POINTS = 60  # per plotted curve
Groups = dict[str, dict[str, Seeds]]
"""Complete jobs by task and method."""

Styles = Mapping[str, Mapping[str, Any]]
"""Colour and dashes of each method, in all pictures of a page."""


def write_page(plan: dict[str, Suite], results: Path, docs: Path) -> None:
    """Plot a figure for each suite that has results, and write ``learning.md``."""
    found = {name: read_results(results, name) for name in plan}
    styles = styles_of(who for suite in plan.values() for who in suite.methods)
    sections = [_HEAD, _state(plan, found)]
    for name, suite in plan.items():
        if found[name]:
            picture = docs / "images" / f"learning_{slug(name)}.png"
            groups = _groups(name, suite, found)
            _draw(groups, set(suite.methods), _titles(suite), picture, styles)
            sections.append(_section(name, suite, groups, picture.relative_to(docs)))
    (docs / "learning.md").write_text("\n\n".join(sections) + "\n", encoding="utf-8")


_HEAD = """\
# Learning curves

Learning curves and returns of the algorithms, from complete trainings only.
Written by `python benchmarks/learning/mujoco.py plot` from `benchmarks/results/mujoco.parquet`; do not edit it.
The results file has every curve with its settings, machine, versions and commit.
The suites are in `benchmarks/learning/mujoco.yaml`.
`python benchmarks/learning/mujoco.py run --suite NAME -j 2` runs the missing trainings of a suite.

Values are interquartile means over the seeds (with fewer than four seeds, the mean) with 95 % bootstrap intervals,
stratified over the tasks where there are several.
One seed has no interval, and the interval of two or three seeds only hints at the spread.

| column | meaning |
| --- | --- |
| training | mean return of the training episodes in the last twentieth of a curve, used in comparisons |
| equal steps, equal CPU time | the same at the smallest number of steps, or of CPU seconds, in the table |
| mean action, sampled actions | return of the last policy in held-out episodes, which are the same for all methods |
| episode length | of the held-out episodes with the mean action |

There are 10 held-out episodes per seed, 96 on the wake, from evaluation seed 10^6 in the numbering before 26 November
2026.
CPU seconds are those of the training process on one thread, including the environment, without evaluation and
checkpoints.
Compare rows with different numbers of steps only at equal steps or equal CPU time.

In the next table, *with changes* means that the working tree was not clean."""


_DIFFERENCES = """\
Differences of the interquartile means over the seeds: of the training episodes (*training*) and of held-out episodes
with the mean action (*mean action*).
The probability of improvement is that of a training of the first method ending above one of the second.
A difference counts if there are at least three seeds and its interval excludes zero; with three seeds intervals are too
narrow."""


def _state(plan: dict[str, Suite], found: dict[str, Seeds]) -> str:
    rows = [
        "| suite | trainings complete | of these, shorter than planned | commits |",
        "| --- | --- | --- | --- |",
    ]
    for name, suite in plan.items():
        jobs = {job.name: job for job in jobs_of(name, suite)}
        done = [result for result in found[name] if result["name"] in jobs]
        short = [r for r in done if not jobs[r["name"]].is_enough(r["steps"], r["cpu_seconds"])]
        lengths = ", ".join(sorted({f"{r['steps']:,} of {suite.steps:,} steps" for r in short}))
        state = f"{len(done)} of {len(jobs)}" if done else f"none of {len(jobs)}"
        commits = ", ".join(sorted({_commit(result["commit"]) for result in done})) or "-"
        shorter = f"{len(short)}: {lengths}" if short else "-"
        rows.append(f"| {name} | {state} | {shorter} | {commits} |")
    return "\n".join(rows)


def _commit(commit: str) -> str:
    """Format a commit for a page, marked if the working tree was not clean."""
    revision, dirty, _ = commit.partition("-dirty")
    return f"`{revision[:12]}`" + (" with changes" if dirty else "")


def _groups(name: str, suite: Suite, found: dict[str, Seeds]) -> Groups:
    """Group the suite's results by task, in the order of its methods, followed by those of ``beside`` on its tasks."""
    groups: Groups = defaultdict(lambda: defaultdict(list))
    order = {method: place for place, method in enumerate(suite.methods)}
    for result in sorted(
        found[name], key=lambda result: order.get(result["settings"]["method"], len(order))
    ):
        groups[_task(result)][result["settings"]["method"]].append(result)
    for beside in suite.beside:
        other, _, only = beside.partition("/")
        for result in found[other]:
            method = result["settings"]["method"]
            if _task(result) in groups and only in ("", method):
                groups[_task(result)][method].append(result)
    return groups


def _task(result: Result) -> str:
    return str(result["settings"]["env"]).rpartition("/")[2]


def _titles(suite: Suite) -> dict[str, str]:
    """Return titles for flowsim's own tasks that include the preset, which determines the flow."""
    envs = {preset: str(read_yaml(find_preset(preset))["env"]) for preset in suite.presets}
    return {
        env.rpartition("/")[2]: f"{env.rpartition('/')[2]}, preset {preset.rpartition('/')[2]}"
        for preset, env in envs.items()
        if env.startswith("flowsim/")
    }


def _draw(
    groups: Groups, own: set[str], titles: dict[str, str], picture: Path, styles: Styles
) -> None:
    """Plot all curves, up to the end of those of the suite's ``own`` methods."""
    figure = Figure(figsize=(11, 3.2 * len(groups)), layout="constrained")
    FigureCanvasAgg(figure)
    for row, (task, methods) in zip(
        figure.subplots(len(groups), 2, squeeze=False), groups.items(), strict=True
    ):
        for axes, axis, label in zip(
            row, (0, 1), ("environment steps", "CPU seconds"), strict=True
        ):
            own_end = max(
                read_curve(seed)[-1, axis]
                for name in own & methods.keys()
                for seed in methods[name]
            )
            for name, seeds in methods.items():
                _draw_curve(axes, seeds, axis, own_end, name, styles[name])
            axes.locator_params(axis="x", nbins=6)
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            title = titles.get(task, task)
            axes.set(xlabel=label, ylabel="return of training episodes", title=title)
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    add_legend(figure, lines)
    save_plot(figure, picture)


def _draw_curve(
    axes: Axes, seeds: Seeds, axis: int, end: float, name: str, style: Mapping[str, Any]
) -> None:
    curves = [curve for curve in map(read_curve, seeds) if len(curve)]
    if not curves:
        return
    first, last = (
        max(curve[0, axis] for curve in curves),
        min(end, *(curve[-1, axis] for curve in curves)),
    )
    places = np.linspace(first, last, POINTS)
    values = np.array([curve_at(curve, axis, places) for curve in curves])
    count = f"{len(curves)} seed" + "s" * (len(curves) > 1)
    axes.plot(
        places,
        interquartile_mean(values, axis=0),
        label=f"{row_name(name, seeds)} ({count})",
        **style,
    )
    if len(curves) > 1:
        axes.fill_between(places, *interval([values]), color=style["color"], alpha=0.2, linewidth=0)


def _section(name: str, suite: Suite, groups: Groups, picture: Path) -> str:
    lines = [f"## {name}", "", suite.about, "", f"![learning curves]({picture.as_posix()})"]
    for task, methods in groups.items():
        lines += ["", f"### {task}", "", *_table(methods)]
    if settings := differences(next(iter(groups.values()))):
        lines += ["", *settings]
    if suite.contrasts:
        lines += ["", "### Differences", "", _DIFFERENCES, "", *contrast_table(suite, groups)]
    if len(groups) > 1 and len(suite.methods) > 1:
        lines += ["", "### All tasks", "", *_aggregate(groups)]
    return "\n".join(lines)


def _table(methods: dict[str, Seeds]) -> list[str]:
    curves = {name: [read_curve(seed) for seed in seeds] for name, seeds in methods.items()}
    least = [
        min(seed[key] for seeds in methods.values() for seed in seeds)
        for key in ("steps", "cpu_seconds")
    ]
    lines = [
        "| method | seeds | steps | steps per CPU second | training | "
        f"equal steps ({least[0]:,}) | equal CPU time ({least[1]:,.0f} s) | mean action | "
        "episode length | sampled actions |",
        "| --- |" + " --- |" * 9,
    ]
    for name, seeds in methods.items():
        rate = np.mean([seed["steps"] / seed["cpu_seconds"] for seed in seeds])
        evaluated = [
            np.array([seed["evaluation"][kind][number] for seed in seeds])
            for kind, number in (
                ("deterministic", "mean_return"),
                ("deterministic", "mean_length"),
                ("drawing", "mean_return"),
            )
        ]
        own = [
            np.array(
                [_value(c, 0, seed["steps"]) for c, seed in zip(curves[name], seeds, strict=True)]
            )
        ]
        equal = [np.array([_value(c, axis, least[axis]) for c in curves[name]]) for axis in (0, 1)]
        cells = [
            row_name(name, seeds),
            ", ".join(str(seed["settings"]["seed"]) for seed in seeds),
            f"{min(seed['steps'] for seed in seeds):,}",
            f"{rate:.0f}",
            *(cell(values) for values in own + equal + evaluated),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _value(curve: np.ndarray, axis: int, place: float) -> float:
    return float(curve_at(curve, axis, np.array([place]))[0]) if len(curve) else np.nan


def cell(values: np.ndarray) -> str:
    """Format the interquartile mean over the seeds, with its interval if there are at least two seeds."""
    if np.isnan(values).any():
        return "no episode yet"
    text = _number(interquartile_mean(values))
    if len(values) > 1:
        low, high = interval([values])
        text += f" [{_number(low)}, {_number(high)}]"
    return text


def _number(value: Any) -> str:
    return f"{float(value):{',.0f' if abs(value) >= 9999.5 else '.4g'}}"


def _aggregate(groups: Groups) -> list[str]:
    """Compare methods over all tasks, with scores scaled per task from 0 (worst seed) to 1 (best seed)."""
    lines = [
        "Returns are scaled so that 0 is the worst and 1 the best seed of each task.",
        "The rows differ in the settings above.",
        "",
        "| method | training | mean action |",
        "| --- | --- | --- |",
    ]
    measures = (
        lambda seed: _value(read_curve(seed), 0, seed["steps"]),
        lambda seed: float(seed["evaluation"]["deterministic"]["mean_return"]),
    )
    cells: dict[str, list[str]] = defaultdict(list)
    for measure in measures:
        scores: dict[str, list[np.ndarray]] = defaultdict(list)
        for methods in groups.values():
            values = {name: np.array(list(map(measure, own))) for name, own in methods.items()}
            everything = np.concatenate(list(values.values()))
            spread = max(float(np.ptp(everything)), 1e-12)
            for name, own in values.items():
                scores[name].append((own - everything.min()) / spread)
        for name, strata in scores.items():
            if len(strata) == len(groups):
                ends = ""
                if min(map(len, strata)) > 1:
                    ends = " [{:.2f}, {:.2f}]".format(*map(float, interval(strata)))
                cells[name].append(f"{float(interquartile_mean(np.concatenate(strata))):.2f}{ends}")
    return lines + [f"| {name} | {' | '.join(own)} |" for name, own in cells.items()]
