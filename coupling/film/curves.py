"""Plots of the learning curves of runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from coupling.errors import ConfigError, RunError
from coupling.run.aggregate import interquartile_mean, interval, name_of, seeds_of_each
from coupling.run.folder import RunFolder, episodes_table
from rl_agent.config.colours import method_name, styles_of

__all__ = [
    "QUANTITIES",
    "Curve",
    "curves_of",
    "draw_curves",
    "plot_runs",
    "refuse_other_endings",
    "with_episodes",
]

QUANTITIES = ((1, "return of an episode"), (2, "length of an episode, steps"))
"""Quantities plotted against environment steps: column of :attr:`Curve.episodes`, and axis label."""

_BINS = 60


class Curve(NamedTuple):
    """Learning curve of runs that differ only in their seed and name (``seeds_of_each``).

    Attributes
    ----------
    label
        Label of the curve.
    style
        Colour and line style, as keyword arguments of matplotlib.
    folders
        Folders of the runs.
    episodes
        For each run, environment steps, return and length of every episode, shape (episodes, 3).
    """

    label: str
    style: dict[str, Any]
    folders: list[RunFolder]
    episodes: list[np.ndarray]


def plot_runs(folders: list[RunFolder], output: Path) -> None:
    """Plot return and length of the episodes against environment steps, with separate axes for each task.

    Runs that differ only in their seed and name are combined in one curve: the interquartile mean over the seeds with
    its 95 % bootstrap interval as a band. With two seeds, the single runs are drawn instead of the band.

    Parameters
    ----------
    folders
        Folders of the runs.
    output
        Path of the image; its extension determines the format.

    Raises
    ------
    RunError
        If a run has no finished episode.
    ConfigError
        If the extension is not a supported format.
    """
    refuse_other_endings(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    _draw_runs(folders).savefig(output, dpi=200)


def refuse_other_endings(output: Path) -> None:
    """Raise if the extension of an image is not a supported format; called before anything is read.

    Raises
    ------
    ConfigError
        With the supported extensions.
    """
    known = FigureCanvasAgg.get_supported_filetypes()
    if output.suffix[1:].lower() not in known:
        raise ConfigError(
            f"--output = {output}: the name of an image must end in {', '.join(f'.{each}' for each in sorted(known))}"
        )


def with_episodes(folders: Sequence[RunFolder]) -> tuple[list[RunFolder], list[str]]:
    """Return the runs that have a finished episode, and a note that names the others, if there are any.

    Raises
    ------
    ConfigError
        If no run has a finished episode.
    """
    drawn = [folder for folder in folders if episodes_table(folder).read()]
    others = ", ".join(str(folder.path) for folder in folders if folder not in drawn)
    if not drawn:
        raise ConfigError(f"no finished episode to draw in {others}")
    return drawn, [f"left out, without a finished episode: {others}"] if others else []


def curves_of(folders: Sequence[RunFolder]) -> dict[str, list[Curve]]:
    """Return the curves of runs by task.

    The first curve of a method has the standard colour of the method; further ones have other colours.

    Raises
    ------
    RunError
        If a run has no finished episode.
    """
    groups = seeds_of_each(folders)
    labels = [name_of(members) for members in groups]
    methods: list[str] = []
    for members, label in zip(groups, labels, strict=True):
        agent = members[0].config().agent
        method = method_name(agent.algorithm, getattr(agent, "replay", "none"))
        methods.append(label if method in methods else method)
    styles = styles_of(methods)
    tasks: dict[str, list[Curve]] = defaultdict(list)
    for members, label, method in zip(groups, labels, methods, strict=True):
        episodes = [_episodes(folder) for folder in members]
        curve = Curve(label, styles[method], members, episodes)
        tasks[members[0].config().env].append(curve)
    return tasks


def draw_curves(axes: Axes, curves: Sequence[Curve], column: int, title: str) -> None:
    """Plot one quantity of the curves of a task against environment steps."""
    for label, style, _, episodes in curves:
        # up to the end of the shortest run, but at least until each has finished an episode
        last = max(min(rows[-1, 0] for rows in episodes), *(rows[0, 0] for rows in episodes))
        centres = (np.arange(_BINS) + 0.5) * last / _BINS
        values = [_binned(rows[:, 0], rows[:, column], last, centres) for rows in episodes]
        _draw(axes, centres, np.array(values), label, style)
    axes.set(xlabel="environment steps", ylabel=title)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_runs(folders: Sequence[RunFolder]) -> Figure:
    """Return the figure of :func:`plot_runs`, with a row of axes for each task."""
    tasks = curves_of(folders)
    figure = Figure(figsize=(9, 3.6 * len(tasks)), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(tasks), squeeze=False)[:, 0]
    for part, (task, curves) in zip(parts, tasks.items(), strict=True):
        for axes, (column, title) in zip(part.subplots(1, 2), QUANTITIES, strict=True):
            draw_curves(axes, curves, column, title)
        if len(tasks) > 1:
            part.suptitle(task, fontsize="medium")
        if len(folders) > 1:  # a single run needs no legend
            handles = axes.get_legend_handles_labels()
            part.legend(*handles, loc="outside lower center", ncols=3, fontsize="small")
    return figure


def _episodes(folder: RunFolder) -> np.ndarray:
    """Return environment steps, return and length of every episode, shape (episodes, 3)."""
    rows = episodes_table(folder).read()
    if not rows:
        why = "" if folder.episodes.exists() else ": it has no episodes.csv"
        raise RunError(f"run {folder.path} has no finished episode to draw{why}")
    return np.array(
        [[float(row[key]) for key in ("environment_steps", "return", "length")] for row in rows]
    )


def _binned(steps: np.ndarray, values: np.ndarray, last: float, centres: np.ndarray) -> np.ndarray:
    """Return the mean over the episodes that ended in each bin; empty bins are interpolated."""
    bins = np.minimum((steps / last * _BINS).astype(int), _BINS - 1)
    kept = steps <= last
    counts = np.bincount(bins[kept], minlength=_BINS)
    sums = np.bincount(bins[kept], values[kept], minlength=_BINS)
    filled = counts > 0
    return np.interp(centres, centres[filled], sums[filled] / counts[filled])


def _draw(
    axes: Axes, steps: np.ndarray, curves: np.ndarray, label: str, style: Mapping[str, Any]
) -> None:
    axes.plot(steps, interquartile_mean(curves, axis=0), label=label, **style)
    if len(curves) == 2:  # two runs are more informative than an interval from them
        for curve in curves:
            axes.plot(steps, curve, color=style["color"], linewidth=0.7, alpha=0.7)
    elif len(curves) > 2:
        axes.fill_between(steps, *interval([curves]), alpha=0.25, color=style["color"], linewidth=0)
