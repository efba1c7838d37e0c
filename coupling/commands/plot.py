"""Learning curves of runs, as a picture."""

from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from scipy import stats

from coupling.errors import ConfigError, RunError
from coupling.files import Table
from coupling.run.folder import RunFolder

__all__ = ["draw_runs", "plot_runs", "refuse_other_endings"]

_BINS = 60


def plot_runs(folders: list[RunFolder], output: Path) -> None:
    """Draw return and survival against environment steps.

    Runs that differ in nothing but their seed and name make one curve: the mean over the seeds, with its
    95 % interval (Student's t) as a band; two seeds are drawn as they are.

    Parameters
    ----------
    folders
        The runs.
    output
        The picture; its ending decides the format.

    Raises
    ------
    RunError
        When a run has no finished episode.
    ConfigError
        When the picture's ending is no format.
    """
    refuse_other_endings(output)
    draw_runs(folders).savefig(output, dpi=200)


def refuse_other_endings(output: Path) -> None:
    """Refuse a picture whose ending is no format, before anything is read for it.

    Raises
    ------
    ConfigError
        With the endings that are.
    """
    known = FigureCanvasAgg.get_supported_filetypes()
    if output.suffix[1:].lower() not in known:
        raise ConfigError(
            f"--output = {output}: a picture's name ends in {', '.join(f'.{each}' for each in sorted(known))}"
        )


def draw_runs(folders: list[RunFolder]) -> Figure:
    """Return the figure of :func:`plot_runs`."""
    groups: dict[str, list[RunFolder]] = defaultdict(list)
    for folder in folders:
        config = folder.config()
        key = config.model_dump_json(include={"env", "env_options", "training_options", "agent"})
        groups[key].append(folder)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for members in groups.values():
        episodes = [_episodes(folder) for folder in members]
        label = members[0].path.name + (
            f" and {len(members) - 1} more seeds" if len(members) > 1 else ""
        )
        last = min(rows[-1, 0] for rows in episodes)
        centres = (np.arange(_BINS) + 0.5) * last / _BINS
        for axes, column in ((left, 1), (right, 2)):
            curves = np.array(
                [_binned(rows[:, 0], rows[:, column], last, centres) for rows in episodes]
            )
            _draw(axes, centres, curves, label)
    left.set(xlabel="environment steps", ylabel="return of an episode")
    right.set(xlabel="environment steps", ylabel="survival (steps of an episode)")
    for axes in (left, right):
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if sum(map(len, groups.values())) > 1:  # one run is known to whoever asked for its plot
        handles = left.get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=3, fontsize="small")
    return figure


def _episodes(folder: RunFolder) -> np.ndarray:
    """Return environment steps, return and length of every episode, shape (episodes, 3)."""
    rows = Table(folder.episodes).read()
    if not rows:
        why = "" if folder.episodes.exists() else ", for it came without its episodes.csv"
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


def _draw(axes: Axes, steps: np.ndarray, curves: np.ndarray, label: str) -> None:
    mean = curves.mean(axis=0)
    (line,) = axes.plot(steps, mean, label=label)
    if len(curves) == 2:  # an interval from two seeds says less than the seeds themselves
        for curve in curves:
            axes.plot(steps, curve, color=line.get_color(), linewidth=0.7, alpha=0.7)
    elif len(curves) > 2:
        half = stats.t.ppf(0.975, len(curves) - 1) * stats.sem(curves, axis=0)
        axes.fill_between(
            steps, mean - half, mean + half, alpha=0.25, color=line.get_color(), linewidth=0
        )
