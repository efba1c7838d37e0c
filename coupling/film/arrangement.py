"""Layout of a film: large panels for the first episode, small ones for the others, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flowsim.render.fields import Picture, draw_table, text_size

__all__ = ["Arrangement", "Lines"]

_GAP = 4

Lines = Sequence[tuple[str, str]]
"""Lines of two columns."""


@dataclass(frozen=True)
class Arrangement:
    """Number of panels in a film, and their width.

    Attributes
    ----------
    controllers : int
        Each has a large panel for the first initial condition.
    episodes : int
        Of the first controller; those after the first have small panels.
    width : int
        Of a large panel in pixels, even.
    stacked : bool
        Large panels are stacked, as wide ones are when there are no small ones.
    """

    controllers: int
    episodes: int
    width: int
    stacked: bool = False

    @property
    def whole(self) -> int:
        """Width of all of the picture."""
        return self.width if self.stacked else self.controllers * (self.width + _GAP) - _GAP

    @property
    def small(self) -> int:
        """Width of a small panel."""
        return (self.whole + _GAP) // self._columns // 2 * 2 - _GAP

    @property
    def size(self) -> int:
        """Size of the letters."""
        return text_size(self.width)

    @property
    def _columns(self) -> int:
        return self.controllers + 1

    def arrange(
        self,
        large: Sequence[Picture],
        small: Sequence[Picture],
        legend: Picture | None,
        title: str,
        lines: Lines,
    ) -> Picture:
        """Put large panels in a row, the legend below them, then small ones in rows, and a table after these.

        Parameters
        ----------
        large, small
            The panels; there may be no small ones, and then there is no table.
        legend
            As wide as the picture.
        title, lines
            Of the table.
        """
        legends = [] if legend is None else [legend]
        if self.stacked:
            return _arranged([[picture] for picture in (*large, *legends)])
        rows = [large, *([each] for each in legends)]
        if small:
            # in a row of its own the table takes no more room than it needs
            alone = len(small) % self._columns == 0
            height = (1 + 2 * (1 + len(lines))) * self.size if alone else small[0].shape[0]
            cells = [*small, draw_table(self.small, height, self.size, title, tuple(lines))]
            rows += [
                cells[first : first + self._columns]
                for first in range(0, len(cells), self._columns)
            ]
        return _arranged(rows)


def _arranged(rows: Sequence[Sequence[Picture]]) -> Picture:
    """Put rows of pictures below each other on white, both of whose sides are even."""
    heights = [max(picture.shape[0] for picture in row) + _GAP for row in rows]
    width = max(sum(picture.shape[1] + _GAP for picture in row) - _GAP for row in rows)
    canvas = np.full((sum(heights) + sum(heights) % 2, width + width % 2, 3), 255, np.uint8)
    top = 0
    for row, height in zip(rows, heights, strict=True):
        left = 0
        for picture in row:
            canvas[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
            left += picture.shape[1] + _GAP
        top += height
    return canvas
