"""Pages that people write and scripts fill in: what a script measured stands between two marks, or in a plot."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from coupling.files import write_atomically

__all__ = ["fill_in", "save_plot"]

COLOURS = 256
"""Of a plot: a third of the bytes that it has with all of them, and no difference to the eye."""


def fill_in(page: Path, script: str, what: str, content: str) -> None:
    """Put Markdown between ``<!-- WHAT of benchmarks/SCRIPT.py -->`` and ``<!-- end of the WHAT -->`` of a page.

    Raises
    ------
    ValueError
        When the page has no such marks.
    """
    begin, end = f"<!-- {what} of benchmarks/{script}.py -->", f"<!-- end of the {what} -->"
    before, began, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not (began and ended):
        raise ValueError(f"{page} has no place for this: '{begin}' and, behind it, '{end}'")
    write_atomically(page, f"{before}{begin}\n\n{content}\n\n{end}{after}".encode())


def save_plot(figure: Figure, file: Path) -> None:
    """Write a plot as a PNG of few colours; its folder is made."""
    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=200)
    few = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(packed, "PNG", optimize=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, packed.getvalue())
