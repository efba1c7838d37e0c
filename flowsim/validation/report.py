"""The validation page with tables, plots and pictures, made from stored results."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flowsim.render.fields import Outline, Scene, draw_legends, field_picture, text_size
from flowsim.render.quantities import VORTICITY
from flowsim.render.units import units_of
from flowsim.validation import CASES, store
from flowsim.validation.result import Picture, Plot

INTRODUCTION = """# Validation

The solver compared with exact solutions and published values.
Written by `flowsim validate --page` from the raw results, which have histories, machine, versions and commit; do not
edit it.

Lengths are in D, times in D/U.
*Error* is relative to the reference or, if the reference is an interval of published values, to its nearer end (0
within the interval); it is absolute if the reference is 0.
Grid, box and blockage (share of a cross-section of the box that bodies cover) are given for every value, because all of
them affect it.
The line below a table has the references, the sides of the box (left, right, bottom, top) and the run time of the whole
case.
"""

_WIDTH = 1080  # width of a picture of a field in pixels


def show(value: Any) -> str:
    """Format a number, an interval, or a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return " to ".join(show(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def percent(value: float | None) -> str:
    """Format a fraction in per cent."""
    return "-" if value is None else f"{100 * value:.3g} %"


def printed(row: dict[str, Any]) -> dict[str, str]:
    """Return the displayed columns of a row as text."""
    error = show if row["measure"] == "absolute" else percent
    return {
        "case": row["case"] + (" (quick)" if row["quick"] else ""),
        "quantity": row["quantity"],
        "value": show(row["value"]),
        "reference": show(row["reference"]),
        "error": error(row["error"]),
        "tolerance": error(row["tolerance"]),
        "passed": "yes" if row["passed"] else "NO",
        "grid": show(row["grid"]),
        "box": show(row["box"]),
        "blockage": percent(row["blockage"]),
        "seconds": f"{row['seconds']:.1f}",
    }


def write_page(results: Path, page: Path) -> list[str]:
    """Write the page, and its pictures to ``images/validation`` next to it.

    Parameters
    ----------
    results : Path
        Folder of stored results; for a case with a full and a quick result, the full one is shown.
    page : Path
        A Markdown file.

    Returns
    -------
    list of str
        Names of the cases without a stored result.

    Raises
    ------
    ValueError
        When a file is not a stored result, or there are no results.
    """
    images = page.parent / "images" / "validation"
    parts, missing = [INTRODUCTION], []
    for name, (description, _) in CASES.items():
        stored = [
            path
            for quick in (False, True)
            if (path := store.file_of(results, name, quick)).exists()
        ]
        if not stored:
            missing.append(name)
            continue
        found = store.read(stored[0])
        images.mkdir(parents=True, exist_ok=True)
        parts.append(_section(name, description, found, images))
    if len(parts) == 1:
        raise ValueError(
            f"{results} holds no results; create them with `flowsim validate -o {shlex.quote(str(results))}`"
        )
    if missing:
        parts.append(f"No results are stored of: {', '.join(missing)}.\n")
    beside = page.with_name(f".{page.name}.new")
    beside.write_text("\n".join(parts), encoding="utf-8")
    beside.replace(page)
    return missing


def _section(name: str, description: str, stored: dict[str, Any], images: Path) -> str:
    rows = stored["rows"]
    lines = [f"## {name}", "", f"{description.rstrip('.')}.", ""]
    columns = [
        "quantity",
        "value",
        "reference",
        "error",
        "tolerance",
        "passed",
        "grid",
        "box",
        "blockage",
    ]
    lines += [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in rows:
        text = printed(row)
        lines.append(f"| {' | '.join(text[column] for column in columns)} |")
    lines += ["", _small_print(stored), ""]
    for plot in stored["plots"]:
        file = images / f"{name}-{plot.name}.png"
        _draw_plot(plot, file)
        lines += [f"![{name}: {plot.name}](images/validation/{file.name})", ""]
    for picture in stored["pictures"]:
        file = images / f"{name}-{picture.name}.png"
        _draw_picture(picture, file)
        lines += [f"![{name}: vorticity, {picture.name}](images/validation/{file.name})", ""]
    return "\n".join(lines)


def _small_print(stored: dict[str, Any]) -> str:
    row = stored["rows"][0]
    sources = dict.fromkeys(row["source"] for row in stored["rows"] if row["source"])
    facts = [f"Reference: {'; '.join(sources)}"] if sources else []
    if row["grid"] is not None:
        facts += [
            f"Sides: {row['sides']}",
            f"{row['dtype']}, {row['integrator']} at CFL {row['cfl']:g}",
        ]
    quick = "quick run, " if row["quick"] else ""
    machine = f"{stored['machine']['cpu']}, {stored['machine']['cores']} cores"
    means = "a GPU" if stored.get("backend") == "cuda" else f"{stored['threads']} threads"
    facts.append(f"{quick}{row['seconds']:.1f} s with {means} on {machine}")
    versions = ", ".join(
        f"{name} {stored['versions'][name]}" for name in ("flowsim", "numpy", "numba")
    )
    commit, _, changed = (stored["commit"] or "unknown").partition("-")
    facts.append(
        f"versions: {versions}, commit {commit[:10]}{' with changes' if changed else ''}, {stored['time'][:10]}"
    )
    return ". ".join(fact[0].upper() + fact[1:] for fact in facts) + "."


def _draw_plot(plot: Plot, file: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    markers, sizes = iter("osD^v"), iter((8, 5, 6, 6, 6))
    dashes = cycle(("-", "--", "-.", ":"))  # so that coinciding lines are all visible
    for curve in plot.curves:
        style: dict[str, Any]
        if not curve.points:
            style = {"linewidth": 1.2, "linestyle": next(dashes)}
        else:  # hollow and with several shapes, so that coinciding points are all visible
            style = {
                "marker": next(markers),
                "linestyle": "",
                "markersize": next(sizes),
                "fillstyle": "none",
                "zorder": 3,
            }
        axes.plot(curve.x, curve.y, label=curve.label, **style)
    if plot.logarithmic:
        axes.set(xscale="log", yscale="log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    if plot.y_limits is not None:
        axes.set_ylim(*plot.y_limits)
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(file, dpi=200)


def _draw_picture(picture: Picture, file: Path) -> None:
    vorticity = picture.levels.astype(np.float32) * (picture.limit / 127)
    quantity = replace(VORTICITY, limit=picture.limit)
    scene = Scene(
        vorticity, picture.size, [Outline(points) for points in picture.outlines], quantity=quantity
    )
    units = units_of("D" if picture.outlines else "L")  # length unit: the body size or the box size
    scale = scene.scale(_WIDTH)
    legend = draw_legends(_WIDTH, text_size(_WIDTH), scale, [quantity], units)
    drawn = np.concatenate([np.asarray(field_picture(scene, _WIDTH)), legend])
    Image.fromarray(drawn).save(file, optimize=True)
