"""The methods of a suite side by side: their seeds, their curves and the numbers of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks.learning.suites.curves import Seeds, curve_at, read_curve
from benchmarks.learning.suites.plan import Suite, read_results
from benchmarks.learning.suites.settings import row_name
from benchmarks.pages import save_plot
from coupling.run.aggregate import interquartile_mean, interval
from rl_agent.config.colours import styles_of

__all__ = [
    "POINTS",
    "Panel",
    "draw",
    "draw_on_page",
    "methods_of",
    "numbers",
    "training_returns",
]

POINTS = 60  # of a drawn curve
LEGEND_LETTERS = 150  # side by side, of labels as wide as the widest


class Panel(NamedTuple):
    """What is drawn against what.

    Attributes
    ----------
    along
        0 for steps, 1 for CPU seconds.
    value
        Column of the curves.
    x, y
        Labels of the axes.
    scale
        Of y, as matplotlib names it.
    """

    along: int
    value: str
    x: str
    y: str
    scale: str = "linear"


def methods_of(name: str, suite: Suite, results: Path) -> dict[str, Seeds]:
    """Return the complete jobs by method: those of a suite in its order, and those beside it, of any task.

    Methods without one are left out.
    """
    found = {of: read_results(results, of) for of in (name, *_suites(suite.beside))}
    wanted = [(name, who) for who in suite.methods]
    for beside in suite.beside:
        other, _, only = beside.partition("/")
        everyone = dict.fromkeys(str(one["settings"]["method"]) for one in found[other])
        wanted += [(other, who) for who in everyone if only in ("", who)]
    seeds = {
        who: sorted(
            (result for result in found[of] if result["settings"]["method"] == who),
            key=lambda result: int(result["settings"]["seed"]),
        )
        for of, who in wanted
    }
    return {who: own for who, own in seeds.items() if own}


def _suites(beside: Sequence[str]) -> list[str]:
    return [one.partition("/")[0] for one in beside]


def draw(
    methods: Mapping[str, Seeds],
    panels: Sequence[Panel],
    picture: Path,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Draw the curves of methods, with bands where there are several seeds.

    Parameters
    ----------
    methods, panels
        What is drawn.
    picture
        The file.
    styles
        Colour and dashes of each method, where other pictures have the same ones.
    """
    styles = styles or styles_of(methods)
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for name, seeds in methods.items():
            curves = [read_curve(seed, panel.value) for seed in seeds]
            begin, end = (
                max(c[0, panel.along] for c in curves),
                min(c[-1, panel.along] for c in curves),
            )
            places = np.linspace(begin, end, POINTS)
            values = np.array([curve_at(curve, panel.along, places) for curve in curves])
            many = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
            axes.plot(
                places,
                interquartile_mean(values, axis=0),
                label=f"{row_name(name, seeds)} ({many})",
                **styles[name],
            )
            if len(seeds) > 1:
                band, color = interval([values]), styles[name]["color"]
                axes.fill_between(places, *band, color=color, alpha=0.2, linewidth=0)
        axes.set(xlabel=panel.x, ylabel=panel.y, yscale=panel.scale)
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(3, LEGEND_LETTERS // max(map(len, labels))))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize="small")
    save_plot(figure, picture)


def draw_on_page(
    page: Path,
    name: str,
    methods: Mapping[str, Seeds],
    panels: Sequence[Panel],
    shows: str,
    styles: Mapping[str, Mapping[str, Any]],
) -> str:
    """Draw curves into ``images/PAGE_NAME.png`` beside a page; return the Markdown that shows them."""
    picture = page.parent / "images" / f"{page.stem}_{name}.png"
    draw(methods, panels, picture, styles)
    return f"![{shows}]({picture.relative_to(page.parent).as_posix()})"


def training_returns(seeds: Seeds) -> np.ndarray:
    """Return the mean return of the training episodes in the last twentieth of each curve, shape (seeds,)."""
    ends = [np.array([seed["steps"]]) for seed in seeds]
    returns = [curve_at(read_curve(seed), 0, end) for seed, end in zip(seeds, ends, strict=True)]
    return np.concatenate([np.zeros(0), *returns])


def numbers(values: Sequence[float], form: str = "") -> str:
    """Return the mean over seeds, with the seeds' own behind; three digits or whole numbers unless told otherwise."""
    each = ", ".join(number(value, form) for value in values)
    return each if len(values) == 1 else f"{number(float(np.mean(values)), form)} ({each})"


def number(value: float, form: str = "") -> str:
    """Return a number of a table, without an exponent where it is large."""
    return f"{value:{form or (',.0f' if abs(value) >= 999.5 else '.3g')}}"
