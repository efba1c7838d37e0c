"""Layout of a video: large panels for the first episode, small ones for the others, and a table."""

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
    """Number of panels in a video, and their width.

    Attributes
    ----------
    controllers : int
        Number of controllers; each has a large panel for the first initial condition.
    episodes : int
        Number of episodes of the first controller; those after the first have small panels.
    width : int
        Width of a large panel in pixels, even.
    stacked : bool
        Whether the large panels are stacked vertically; used for wide panels if there are no small ones.
    """

    controllers: int
    episodes: int
    width: int
    stacked: bool = False

    @property
    def whole(self) -> int:
        """Width of the whole frame, in pixels."""
        return self.width if self.stacked else self.controllers * (self.width + _GAP) - _GAP

    @property
    def small(self) -> int:
        """Width of a small panel, in pixels."""
        return (self.whole + _GAP) // self._columns // 2 * 2 - _GAP

    @property
    def size(self) -> int:
        """Size of the text."""
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
        """Arrange large panels in a row, the legend below them, then rows of small panels followed by a table.

        Parameters
        ----------
        large, small
            The panels. Without small ones there is no table.
        legend
            Legend, as wide as the frame.
        title, lines
            Title and lines of the table.
        """
        legends = [] if legend is None else [legend]
        if self.stacked:
            return _arranged([[picture] for picture in (*large, *legends)])
        rows = [large, *([each] for each in legends)]
        if small:
            # a table in a row of its own is only as high as it needs to be
            alone = len(small) % self._columns == 0
            height = (1 + 2 * (1 + len(lines))) * self.size if alone else small[0].shape[0]
            cells = [*small, draw_table(self.small, height, self.size, title, tuple(lines))]
            rows += [
                cells[first : first + self._columns]
                for first in range(0, len(cells), self._columns)
            ]
        return _arranged(rows)


def _arranged(rows: Sequence[Sequence[Picture]]) -> Picture:
    """Combine rows of images on a white canvas of even width and height."""
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
