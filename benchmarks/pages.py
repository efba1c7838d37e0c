"""Pages that people write and scripts fill in: what a script measured stands between two marks."""

from __future__ import annotations

from pathlib import Path

from coupling.files import write_atomically

__all__ = ["fill_in"]


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
