"""Plots of an agent's past actions for each frame of a film: components and effort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw

from flowsim.render.fields import (
    EFFORT,
    FAINT,
    INK,
    TROUGH,
    Picture,
    component_colour,
    component_names,
    font,
)


@dataclass
class History:
    """The actions of an episode; each lasts until the next one begins.

    Attributes
    ----------
    begun : list of float
        Start time of each action.
    actions : list of sequences of float
        Actions, with components in [-1, 1].
    """

    begun: list[float] = field(default_factory=list)
    actions: list[Sequence[float]] = field(default_factory=list)

    def add(self, time: float, action: Sequence[float]) -> None:
        """Add an action that begins at a time."""
        self.begun.append(time)
        self.actions.append(action)

    def until(self, time: float) -> list[tuple[float, float, Sequence[float]]]:
        """Return (begin, end, action) of the actions before a time."""
        ends = [*self.begun[1:], time]
        parts = zip(self.begun, ends, self.actions, strict=True) if self.begun else ()
        return [(begin, min(end, time), action) for begin, end, action in parts if begin < time]


def draw_traces(
    history: History,
    time: float,
    span: float,
    width: int,
    size: int,
    time_unit: str,
    names: tuple[str, ...] = (),
) -> Picture:
    """Return plots of the action components and of the effort ``|a|^2`` against time.

    Parameters
    ----------
    history : History
    time, span : float
        Time of the picture, up to which the curves are drawn, and end of the time axis.
    width, size : int
        Width of the picture and font size, in pixels.
    time_unit : str
        Name of the unit of time.
    names : tuple of str
        Names of the components, as in a :class:`~flowsim.render.fields.Caption`.

    Returns
    -------
    uint8, shape (13 size, width, 3)
    """
    parts = history.until(time)
    times = np.array([moment for begin, end, _ in parts for moment in (begin, end)])
    actions = np.nan_to_num(np.array([action for _, _, action in parts for _ in range(2)]))
    components = (
        actions.T if parts else np.zeros((len(history.actions[0]) if history.actions else 3, 0))
    )
    upper, lower = _plots(span, width, size, len(components))
    names = names or component_names(len(components))
    image = _empty(upper, lower, names, width, size, time_unit).copy()
    draw = ImageDraw.Draw(image)
    for number, values in enumerate(components):
        draw.line(
            upper.places(times, values), fill=component_colour(number), width=max(1, size // 7)
        )
    draw.line(
        lower.places(times, (components**2).sum(axis=0)), fill=EFFORT, width=max(1, size // 7)
    )
    for plot in (upper, lower):
        draw.line(plot.places([min(time, span)] * 2, [plot.low, plot.high]), fill=INK)
    return np.asarray(image)


@dataclass(frozen=True)
class _Plot:
    """A plot against time in a box (left, top, right, bottom) of a picture."""

    names: tuple[str, str]
    box: tuple[int, int, int, int]
    span: float
    low: float
    high: float

    def places(self, times: ArrayLike, values: ArrayLike) -> list[float]:
        """Return times and values in pixels, as alternating x and y."""
        left, top, right, bottom = self.box
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        x, y = (
            left + np.asarray(times) / self.span * (right - left),
            bottom - share * (bottom - top),
        )
        places: list[float] = np.stack([x, y], axis=-1).ravel().tolist()
        return places


def _plots(span: float, width: int, size: int, components: int) -> tuple[_Plot, _Plot]:
    left, right = 5 * size, width - size
    upper = _Plot(("action", "a"), (left, size // 2, right, 5 * size), span, -1.0, 1.0)
    return upper, _Plot(
        ("effort", "|a|²"), (left, 6 * size, right, 10 * size), span, 0.0, float(components)
    )


@lru_cache(maxsize=16)
def _empty(
    upper: _Plot, lower: _Plot, names: tuple[str, ...], width: int, size: int, time_unit: str
) -> Image.Image:
    """Return both plots with names, bounds, time ticks and a legend, but without curves."""
    image = Image.new("RGB", (width, 13 * size), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    for plot in (upper, lower):
        left, top, right, bottom = plot.box
        draw.rectangle(plot.box, outline=TROUGH)
        for line, name in enumerate(plot.names):
            y = (top + bottom) / 2 + 1.2 * size * (line - 0.5)
            draw.text((size // 3, y), name, fill=INK, font=font(size), anchor="lm")
        for value, y in ((plot.high, top), (plot.low, bottom)):
            draw.text(
                (left - size // 3, y), f"{value:g}", fill=FAINT, font=font(size - 2), anchor="rm"
            )
    steps = (factor * 10.0**power for power in range(-3, 7) for factor in (1, 2, 5))
    step = next(step for step in steps if lower.span / step <= 6)
    for moment in step * np.arange(int(lower.span / step + 1e-9) + 1):
        x, foot = lower.places([moment], [lower.low])
        draw.line((x, foot, x, foot + size // 4), fill=FAINT)
        draw.text((x, foot + size), f"{moment:g}", fill=FAINT, font=font(size - 2), anchor="mm")
    words = bottom + 2.2 * size
    draw.text((right, words), f"time, {time_unit}", fill=INK, font=font(size), anchor="rm")
    x = float(left)
    for number, name in enumerate(names):
        draw.text((x, words), name, fill=component_colour(number), font=font(size), anchor="lm")
        x += draw.textlength(name, font=font(size)) + size
    return image
