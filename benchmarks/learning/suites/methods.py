"""Compare the methods of a suite: their seeds, their curves and the numbers of a table."""

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
from benchmarks.pages import add_legend, save_plot
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

POINTS = 60  # per plotted curve


class Panel(NamedTuple):
    """The quantities and axes of a plot.

    Attributes
    ----------
    along
        Quantity of the x axis: 0 for steps, 1 for CPU seconds.
    value
        Column of the curves, on the y axis.
    x, y
        Labels of the axes.
    scale
        Scale of the y axis, a name of matplotlib.
    """

    along: int
    value: str
    x: str
    y: str
    scale: str = "linear"


def methods_of(name: str, suite: Suite, results: Path) -> dict[str, Seeds]:
    """Return the complete jobs of a suite by method, in its order, followed by those of ``suite.beside``, on any task.

    Methods without complete jobs are left out.
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
    """Plot the curves of methods, with interval bands if there are several seeds.

    Parameters
    ----------
    methods, panels
        Curves and plots.
    picture
        Output file.
    styles
        Colour and dashes of each method, if shared with other pictures.
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
    add_legend(figure, dict(zip(labels, handles, strict=True)))
    save_plot(figure, picture)


def draw_on_page(
    page: Path,
    name: str,
    methods: Mapping[str, Seeds],
    panels: Sequence[Panel],
    shows: str,
    styles: Mapping[str, Mapping[str, Any]],
) -> str:
    """Plot curves into ``images/PAGE_NAME.png`` next to a page; return the Markdown that shows them."""
    picture = page.parent / "images" / f"{page.stem}_{name}.png"
    draw(methods, panels, picture, styles)
    return f"![{shows}]({picture.relative_to(page.parent).as_posix()})"


def training_returns(seeds: Seeds) -> np.ndarray:
    """Return the mean return of the training episodes in the last twentieth of each curve, shape (seeds,)."""
    ends = [np.array([seed["steps"]]) for seed in seeds]
    returns = [curve_at(read_curve(seed), 0, end) for seed, end in zip(seeds, ends, strict=True)]
    return np.concatenate([np.zeros(0), *returns])


def numbers(values: Sequence[float], form: str = "") -> str:
    """Format the mean over seeds, followed by each seed's value; by default three digits, or integers if large."""
    each = ", ".join(number(value, form) for value in values)
    return each if len(values) == 1 else f"{number(float(np.mean(values)), form)} ({each})"


def number(value: float, form: str = "") -> str:
    """Format a number for a table, without an exponent if it is large."""
    return f"{value:{form or (',.0f' if abs(value) >= 999.5 else '.3g')}}"
