"""Insert measured results into hand-written pages: text between two marks, or a plot."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from PIL import Image

from coupling.files import write_atomically

__all__ = ["add_legend", "fill_in", "save_plot"]

LEGEND_LETTERS = 150
"""Letters in a row of a legend, if each label is as wide as the widest."""
COLOURS = 256
"""Colours of a plot's palette: the file is a third of the size of a full-colour one, without a visible difference."""


def fill_in(page: Path, script: str, what: str, content: str) -> None:
    """Insert Markdown between ``<!-- WHAT of benchmarks/SCRIPT.py -->`` and ``<!-- end of the WHAT -->`` in a page.

    Raises
    ------
    ValueError
        If the page does not have these marks.
    """
    begin, end = f"<!-- {what} of benchmarks/{script}.py -->", f"<!-- end of the {what} -->"
    before, began, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not (began and ended):
        raise ValueError(f"{page} has no place for this: '{begin}' and, behind it, '{end}'")
    write_atomically(page, f"{before}{begin}\n\n{content}\n\n{end}{after}".encode())


def add_legend(figure: Figure, lines: Mapping[str, Artist]) -> None:
    """Add a legend above the plots of a wide figure, with as many columns as there is room for."""
    columns = max(1, min(3, LEGEND_LETTERS // max(map(len, lines))))
    figure.legend(
        lines.values(), lines.keys(), loc="outside upper center", ncols=columns, fontsize="small"
    )


def save_plot(figure: Figure, file: Path) -> None:
    """Write a plot as a PNG file with a reduced palette; create its folder if needed."""
    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=200)
    few = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(packed, "PNG", optimize=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, packed.getvalue())
