"""A self-contained HTML report on runs: curves, evaluations, diagnostics, differences, videos."""

import base64
import io
import json
import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from coupling.files import read_json, reporting_damage, write_atomically
from coupling.film.curves import QUANTITIES, Curve, curves_of, draw_curves
from coupling.origin import flowsim_version
from coupling.run.agents import is_shipped
from coupling.run.aggregate import interquartile_mean, interval, name_of, seeds_of_each
from coupling.run.folder import RunFolder, episodes_table, statistics_table
from coupling.run.log import flatten
from coupling.run.status import read_status
from coupling.run.tables import RESULTS, number, result_cells
from coupling.settings.config import dump_config

__all__ = ["over_seeds", "write_report"]

LARGEST_FILM = 12 * 2**20  # maximum size of a video that is included in the page, bytes
FILMS = {".mp4": "video/mp4", ".gif": "image/gif", ".webp": "image/webp"}
DIAGNOSTICS = (
    ("beta", "beta"), ("far_fraction", "far fraction"), ("c_max", "c_max"), ("kl", "D_KL(mu || pi)"),
    ("policy_std", "sigma of the policy"), ("learning_rate", "learning rate"), ("policy_loss", "policy loss"),
    ("value_loss", "value loss"), ("temperature", "temperature T"), ("epsilon", "epsilon"),
    ("effective_share", "effective share of the memory"),
)  # fmt: skip
"""Columns of ``statistics.csv``, and their titles."""

REMEMBER_FORGET = ("beta", "far_fraction", "c_max")
"""Columns that are meaningful only for runs with remember-and-forget replay."""

EVALUATED = {"before": "untrained", "drawing": "agent, sampled actions", "after": "agent"}
"""Parts of ``evaluation.json``, and their titles."""

Rows = dict[str, list[Any]]


def write_report(folders: Sequence[RunFolder], output: Path) -> list[str]:
    """Write a self-contained page about runs.

    Parameters
    ----------
    folders
        Folders of the runs, in the order of the page.
    output
        Path of the HTML file.

    Returns
    -------
    list of str
        The notes of the page about missing videos: those that are too large, and those that could be rendered.

    Raises
    ------
    RunError
        If a run has no finished episode.
    """
    films, notes = _films(folders)
    names = [folder.path.name for folder in folders]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(
        resources.files("coupling.pages").joinpath("report.html").read_text("utf-8")
    )
    page = template.render(
        title=f"flowsim: {', '.join(names)}",
        written=time.strftime("%Y-%m-%d %H:%M"),
        version=flowsim_version(),
        runs=_runs(folders),
        seeds=over_seeds(folders),
        tasks=[_task(task, curves) for task, curves in curves_of(folders).items()],
        evaluations=_evaluations(folders),
        remembers=any(_remembers(folder) for folder in folders),
        differences=_differences(folders),
        settings=[
            (name, dump_config(folder.config()))
            for name, folder in zip(names, folders, strict=True)
        ],
        films=films,
        notes=notes,
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, page.encode())
    return notes


def _runs(folders: Sequence[RunFolder]) -> Rows:
    """Return a row for each run: settings, progress, speed, mean return and length, and commit."""
    rows = []
    for folder in folders:
        config, status = (
            folder.config(),
            read_status(folder.status) if folder.status.exists() else {},
        )
        statistics, episodes = statistics_table(folder).read(), episodes_table(folder).read()
        done = status.get("environment_steps", episodes[-1]["environment_steps"] if episodes else 0)
        with reporting_damage(folder.status):
            steps = int(float(done))
        seconds = float(statistics[-1]["seconds"]) if statistics else 0.0
        measured = int(float(statistics[-1]["environment_steps"])) if statistics else 0
        last = episodes[-100:]
        starts = folder.starts.read_bytes().splitlines() if folder.starts.exists() else []
        with reporting_damage(folder.starts):
            commit = str(json.loads(starts[-1]).get("commit") or "")[:12] if starts else ""
        rows.append(
            [
                folder.path.name, config.env, config.agent.algorithm, config.run.seed, status.get("state", ""),
                f"{steps:,}", number(measured / seconds if seconds else None),
                *(number(float(np.mean([float(row[key]) for row in last])) if last else None)
                  for key in ("return", "length")), commit,
            ]
        )  # fmt: skip
    columns = [
        "run",
        "task",
        "learner",
        "seed",
        "state",
        "steps",
        "steps a second",
        "return",
        "length",
        "commit",
    ]
    return {"columns": columns, "rows": rows}


def over_seeds(folders: Sequence[RunFolder]) -> Rows:
    """Return a row for each quantity of runs that differ only in their seed; none if there are no such runs.

    The quantities are mean returns of each run: over its last hundred training episodes, and in its evaluations.
    """
    rows = []
    for members in filter(lambda members: len(members) > 1, seeds_of_each(folders)):
        scores: dict[str, list[float]] = {}
        for folder in members:
            for name, score in _scores(folder).items():
                scores.setdefault(name, []).append(score)
        for name, each in scores.items():
            if len(each) == len(members):  # not all runs may have been evaluated yet
                low, high = interval([np.array(each)])
                rows.append(
                    [
                        name_of(members), name, number(float(interquartile_mean(np.array(each)))),
                        f"[{number(float(low))}, {number(float(high))}]", ", ".join(map(number, each)),
                    ]
                )  # fmt: skip
    columns = ["runs", "return", "interquartile mean", "95 % interval", "each seed"]
    return {"columns": columns, "rows": rows}


def _scores(folder: RunFolder) -> dict[str, float]:
    """Return mean returns of a run, over its last training episodes and in its evaluations."""
    scores = {}
    if last := episodes_table(folder).read()[-100:]:
        scores["last 100 training episodes"] = float(
            np.mean([float(row["return"]) for row in last])
        )
    if folder.evaluation.exists():
        found = read_json(folder.evaluation)
        with reporting_damage(folder.evaluation):
            scores |= {
                f"evaluation, {title}": float(found[part]["mean_return"])
                for part, title in EVALUATED.items()
                if part in found
            }
    return scores


def _evaluations(folders: Sequence[RunFolder]) -> Rows:
    """Return the results of the evaluations: those of each run, and those of the baselines."""
    rows = list[list[Any]]()
    for folder in folders:
        if not folder.evaluation.exists():
            continue
        found = read_json(folder.evaluation)
        with reporting_damage(folder.evaluation):
            evaluated = {title: found[part] for part, title in EVALUATED.items() if part in found}
            for name, found_of in (evaluated | found.get("after", {}).get("baselines", {})).items():
                rows.append([folder.path.name, name, *result_cells(found_of)])
    return {"columns": ["run", "controller", *RESULTS], "rows": rows}


def _task(task: str, curves: Sequence[Curve]) -> dict[str, Any]:
    """Return what the page shows for the runs of a task: learning curves, diagnostics of the learners, and a legend."""
    pictures = [
        (title, _picture(partial(draw_curves, curves=curves, column=column, title=title)))
        for column, title in QUANTITIES
    ]
    return {
        "name": task,
        "legend": [(curve.label, curve.style) for curve in curves],
        "curves": pictures,
        "diagnostics": _diagnostics(curves),
    }


def _diagnostics(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    """Plot the available diagnostics of the learners against environment steps; return titles and images."""
    runs = [
        (folder, curve.style, statistics_table(folder).read())
        for curve in curves
        for folder in curve.folders
    ]
    pictures = []
    for column, title in DIAGNOSTICS:
        lines = []
        for folder, style, rows in runs:
            values = [float(row.get(column) or "nan") for row in rows]
            if np.isfinite(values).sum() > 1 and (
                column not in REMEMBER_FORGET or _remembers(folder)
            ):
                lines.append(([float(row["environment_steps"]) for row in rows], values, style))
        if lines:
            pictures.append((title, _picture(partial(_draw, title=title, lines=lines))))
    return pictures


def _draw(axes: Axes, title: str, lines: Sequence[tuple[list[float], list[float], Any]]) -> None:
    for steps, values, style in lines:
        axes.plot(steps, values, linewidth=1, **style)
    axes.set(xlabel="environment steps", ylabel=title)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _remembers(folder: RunFolder) -> bool:
    """Return whether the learner of a run uses remember-and-forget replay."""
    return getattr(folder.config().agent, "replay", "none") != "none"


def _differences(folders: Sequence[RunFolder]) -> Rows:
    """Return the settings that differ between the runs."""
    settings = [flatten(folder.config().model_dump(mode="json")) for folder in folders]
    keys = [
        key for key in dict.fromkeys(key for each in settings for key in each) if key != "run.name"
    ]
    rows = [[key, *(each.get(key, "-") for each in settings)] for key in keys]
    different = [row for row in rows if any(value != row[1] for value in row[2:])]
    return {"columns": ["setting", *(folder.path.name for folder in folders)], "rows": different}


def _films(folders: Sequence[RunFolder]) -> tuple[list[dict[str, str]], list[str]]:
    """Return the videos in the run folders, and notes about those that are too large or missing."""
    films, notes = [], []
    for folder in folders:
        found = sorted(file for file in folder.path.iterdir() if file.suffix in FILMS)
        path = folder.path
        if not found and folder.draws_itself() and not is_shipped(folder):
            command = shlex.join(["flowsim", "render", str(path), "-o", str(path / "film.mp4")])
            notes.append(f"No film in {path}: {command}")
        # a video is rendered as MP4 and GIF: one of them is enough
        for file in (
            file for file in found if file.suffix == ".mp4" or file.with_suffix(".mp4") not in found
        ):
            name = f"{folder.path.name}/{file.name}"
            if file.stat().st_size > LARGEST_FILM:
                notes.append(
                    f"{name} is left out because of its size: {file.stat().st_size / 2**20:.0f} MB."
                )
                continue
            kind = FILMS[file.suffix]
            data = base64.b64encode(file.read_bytes()).decode()
            films.append({"name": name, "kind": kind, "data": f"data:{kind};base64,{data}"})
    return films, notes


def _picture(draw: Callable[[Axes], None]) -> str:
    """Return a small image as a data URL."""
    figure, file = Figure(figsize=(4.2, 3.0), layout="constrained"), io.BytesIO()
    draw(figure.add_subplot())
    figure.savefig(file, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"
