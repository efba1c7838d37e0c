"""Pictures of a flow, drawn with a colour table and Pillow in a few milliseconds each.

A picture is a scene (:mod:`flowsim.render.scene`) with a title, numbers, actions and legends around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from flowsim.render.quantities import HALF, VORTICITY, Quantity
from flowsim.render.scene import (
    AGENT,
    ARROW,
    BACKGROUND,
    BODY,
    FAINT,
    INK,
    Colour,
    Outline,
    Scene,
    boundary,
    field_picture,
    outline,
    outlines,
)
from flowsim.render.units import Units

__all__ = [
    "EFFORT",
    "FAINT",
    "INK",
    "TROUGH",
    "Caption",
    "Outline",
    "Picture",
    "Scene",
    "Window",
    "boundary",
    "component_colour",
    "component_names",
    "draw_legends",
    "draw_panel",
    "draw_small_panel",
    "draw_table",
    "field_picture",
    "font",
    "frame_picture",
    "make_even",
    "outline",
    "outlines",
    "palette",
    "text_size",
]

Picture = NDArray[np.uint8]

TROUGH: Colour = (232, 234, 238)
_SURVIVED: Colour = (205, 236, 205)
_FAILED: Colour = (252, 205, 200)
EFFORT: Colour = (90, 96, 108)
_COMPONENTS: tuple[Colour, ...] = (ARROW, (196, 88, 16), (118, 66, 168))
"""Colours of the components of an action, used cyclically."""


@dataclass(frozen=True)
class Caption:
    """The text around a picture.

    Attributes
    ----------
    time : float
    episode_return : float or None
    action : tuple of float
        Components in [-1, 1].
    action_names : tuple of str
        Names of the components; force x, force y and torque for three components unless given.
    title : str
    note : str
        How the episode ended; written above or below the picture, never on it.
    failed : bool
        Whether the episode ended in a failure.
    """

    time: float
    episode_return: float | None = None
    action: tuple[float, ...] = ()
    action_names: tuple[str, ...] = ()
    title: str = ""
    note: str = ""
    failed: bool = False


@cache
def palette(levels: int, quantities: tuple[Quantity, ...] = (VORTICITY,)) -> Picture:
    """Return a palette for pictures, with an odd number of levels per quantity; shape (n, 3), n at most 256."""
    light, dark = np.array(BACKGROUND), np.array(INK)
    mixed = [
        (light, dark, 10),
        (np.array(AGENT), dark, 4),
        (np.array(_SURVIVED), dark, 5),
        (np.array(_FAILED), dark, 5),
    ]
    others = [
        a + (b - a) * t for a, b, n in mixed for t in np.linspace(0.0, 1.0, n, endpoint=False)
    ]
    which = np.round(np.linspace(0, 2 * HALF, levels)).astype(int)
    values = [quantity.table()[which] for quantity in quantities]
    single = np.array([INK, BODY, FAINT, EFFORT, *_COMPONENTS], dtype=np.uint8)
    return np.concatenate([*values, np.array(others).astype(np.uint8)[1:], single])


def component_colour(number: int) -> Colour:
    """Return the colour of a component of the action."""
    return _COMPONENTS[number % len(_COMPONENTS)]


def component_names(count: int) -> tuple[str, ...]:
    """Return the default names of the components of an action."""
    return ("force x", "force y", "torque") if count == 3 else tuple(f"a{n}" for n in range(count))


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Return the font shipped with matplotlib, so that pictures look the same on every machine."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    # all text is left to right and needs no complex layout
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


def draw_panel(
    scene: Scene,
    caption: Caption,
    width: int = 640,
    *,
    others: Sequence[Scene] = (),
    traces: Picture | None = None,
    legend: bool = True,
) -> Picture:
    """Return a picture with title, time and return above it, and the action or the end of the episode below it.

    Parameters
    ----------
    scene, caption
        What the picture shows, and the text around it.
    width : int
        Width in pixels.
    others : sequence of Scene
        Scenes with other quantities, drawn below the first.
    traces : uint8, shape (rows, width, 3)
        Plot of the past actions, drawn below (:mod:`flowsim.render.action_plot`).
    legend : bool
        Whether to draw a scale bar and colour bars below the picture.

    Returns
    -------
    uint8, shape (height, width, 3)
        Height and width are even, as video codecs require.
    """
    size = text_size(width)
    numbers = f"t = {caption.time:.2f} {scene.units.time}"
    if caption.episode_return is not None:
        numbers += f"   return {caption.episode_return:.1f}"
    pictures = [_strip(width, size, caption.title, numbers)]
    pictures += [np.asarray(field_picture(each, width)) for each in (scene, *others)]
    if caption.note:
        pictures.append(
            _strip(width, size, caption.note, "", _FAILED if caption.failed else _SURVIVED)
        )
    elif caption.action:
        pictures.append(_action_strip(width, size, caption.action, caption.action_names))
    if traces is not None:
        pictures.append(traces)
    if legend:
        scale = scene.scale(width)
        pictures.append(
            draw_legends(
                width, size, scale, [each.quantity for each in (scene, *others)], scene.units
            )
        )
    return make_even(np.concatenate(pictures))


def draw_small_panel(scene: Scene, caption: Caption, width: int) -> Picture:
    """Return a picture with one line above it: the title, and the return or the end of the episode."""
    size = text_size(width)
    tint = BACKGROUND if not caption.note else _FAILED if caption.failed else _SURVIVED
    numbers = "" if caption.episode_return is None else f"return {caption.episode_return:.1f}"
    strip = _strip(width, size, caption.title, caption.note or numbers, tint)
    return make_even(np.concatenate([strip, np.asarray(field_picture(scene, width))]))


def frame_picture(picture: Picture, caption: Caption, numbers: str, width: int) -> Picture:
    """Return an external picture at a given width, with a line of text above it and the note of the caption below.

    Parameters
    ----------
    picture : uint8, shape (rows, columns, 3)
        A picture with few pixels, such as that of a game, is enlarged without blur.
    caption : Caption
        Its title and note are shown.
    numbers : str
        Text to the right of the title.
    width : int
        Width in pixels, even.
    """
    size, few = text_size(width), picture.shape[1] < width // 2
    way = Image.Resampling.NEAREST if few else Image.Resampling.BICUBIC
    height = round(picture.shape[0] * width / picture.shape[1])
    resized = Image.fromarray(picture).resize((width, height), way)
    # a frame separates a picture with a white background from the page, as in our own pictures
    ImageDraw.Draw(resized).rectangle((0, 0, width - 1, height - 1), outline=FAINT)
    tint = TROUGH if caption.note else BACKGROUND  # the end may be good or bad
    above, below = (
        _strip(width, size, caption.title, numbers),
        _strip(width, size, caption.note, "", tint),
    )
    return make_even(np.concatenate([above, np.asarray(resized), below]))


def text_size(width: int) -> int:
    """Return the font size for a picture of this width, in pixels."""
    return min(max(12, width // 34), 22)


def make_even(picture: Picture) -> Picture:
    """Pad a picture with a white row or column to even height and width, as video codecs require."""
    height, width, _ = picture.shape
    if height % 2 == width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), constant_values=255)


# most strips stay the same for an action or longer, and drawing text takes longer than drawing a flow
@lru_cache(maxsize=64)
def _strip(width: int, size: int, left: str, right: str, tint: Colour = BACKGROUND) -> Picture:
    """Return a line of text, with the left part in bold."""
    strip = Image.new("RGB", (width, 2 * size), tint)
    draw = ImageDraw.Draw(strip)
    draw.text((size // 2, size), left, fill=INK, font=font(size, bold=True), anchor="lm")
    draw.text((width - size // 2, size), right, fill=INK, font=font(size), anchor="rm")
    return np.asarray(strip)


@lru_cache(maxsize=16)
def draw_table(
    width: int, height: int, size: int, title: str, rows: tuple[tuple[str, str], ...]
) -> Picture:
    """Return a title and a table of two columns on white."""
    table = Image.new("RGB", (width, height), BACKGROUND)
    draw = ImageDraw.Draw(table)
    draw.text((size // 2, size), title, fill=INK, font=font(size, bold=True), anchor="lm")
    for n, (left, right) in enumerate(rows):
        y = round((2.5 + 1.5 * n) * size)
        draw.text((size // 2, y), left, fill=INK, font=font(size), anchor="lm")
        draw.text((width - size // 2, y), right, fill=INK, font=font(size, bold=True), anchor="rm")
    return np.asarray(table)


LENGTHS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Lengths of the scale bar: the first that leaves room for the colour bar is used."""


def draw_legends(
    width: int, size: int, scale: float, quantities: Sequence[Quantity], units: Units
) -> Picture:
    """Return a scale bar, at `scale` pixels per unit of length, and a colour bar for each quantity."""
    names = [quantity.unit.format(**units._asdict()) for quantity in quantities]
    right = width - size - round(max(font(size).getlength(unit) for unit in names))
    rows = [_draw_legend(width, size, *each, right) for each in zip(quantities, names, strict=True)]
    draw = ImageDraw.Draw(rows[0])
    x, y, half = size // 2, size, size // 2
    long = next((long for long in LENGTHS if long * scale < width / 4), LENGTHS[-1])
    end = x + round(long * scale)
    draw.line((x, y, end, y), fill=INK, width=2)
    for side in (x, end):
        draw.line((side, y - half // 2, side, y + half // 2), fill=INK, width=2)
    middle = max((x + end) / 2, 2.0 * size)  # keep the number of a short bar within the picture
    draw.text(
        (middle, 2.2 * size), f"{long:g} {units.length}", fill=INK, font=font(size), anchor="mm"
    )
    return np.concatenate([np.asarray(row) for row in rows])


def _draw_legend(width: int, size: int, quantity: Quantity, unit: str, right: int) -> Image.Image:
    """Return the colour bar of a quantity, which ends at `right`, with its unit."""
    legend = Image.new("RGB", (width, 3 * size), BACKGROUND)
    draw = ImageDraw.Draw(legend)
    bar, y, half = 8 * size + 1, size, size // 2  # odd, so that one pixel is at zero
    left, low = right - bar, -quantity.limit if quantity.signed else 0.0
    colours = quantity.table()[quantity.places(np.linspace(low, quantity.limit, bar))]
    legend.paste(Image.fromarray(np.tile(colours, (size, 1, 1))), (left, y - half))
    draw.rectangle((left - 1, y - half - 1, right, y - half + size), outline=FAINT)
    draw.text((left - half, y), quantity.name, fill=INK, font=font(size), anchor="rm")
    draw.text((right + half, y), unit, fill=INK, font=font(size), anchor="lm")
    for share in (0.0, 0.5, 1.0):
        value = low + share * (quantity.limit - low)
        draw.text(
            (left + share * bar, 2.2 * size), f"{value:g}", fill=INK, font=font(size), anchor="mm"
        )
    return legend


@lru_cache(maxsize=16)
def _action_strip(
    width: int, size: int, action: tuple[float, ...], names: tuple[str, ...]
) -> Picture:
    """Return the components of the action at fixed positions, each with a bar from -1 to 1."""
    strip = Image.new("RGB", (width, 2 * size), BACKGROUND)
    draw, x, y = ImageDraw.Draw(strip), size // 2, size
    names = names or component_names(len(action))
    for number, (name, value) in enumerate(zip(names, action, strict=True)):
        draw.text((x, y), name, fill=FAINT, font=font(size), anchor="lm")
        x += int(draw.textlength(name, font=font(size))) + size // 2
        half, thick = 2 * size, size // 3
        draw.rectangle((x, y - thick, x + 2 * half, y + thick), fill=TROUGH)
        tip = x + half + (half * value if math.isfinite(value) else 0.0)
        ends = min(x + half, tip), y - thick, max(x + half, tip), y + thick
        draw.rectangle(ends, fill=component_colour(number))
        draw.line((x + half, y - thick - 1, x + half, y + thick + 1), fill=INK)
        x += 2 * half + size
    return np.asarray(strip)


class Window:
    """A matplotlib window that shows successive pictures; without a display it shows nothing."""

    def __init__(self, title: str) -> None:
        import matplotlib as mpl
        from matplotlib import pyplot as plt

        self._figure = plt.figure(title)
        self._axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._axes.set_axis_off()
        self._image: Any = None
        self._interactive = mpl.get_backend().lower() in {
            name.lower()
            for name in mpl.backends.backend_registry.list_builtin(
                mpl.backends.BackendFilter.INTERACTIVE
            )
        }

    def show(self, picture: Picture) -> None:
        """Show a picture in place of the previous one."""
        if self._image is None:
            self._image = self._axes.imshow(picture)
        else:
            self._image.set_data(picture)
        if self._interactive:
            self._figure.show()
            self._figure.canvas.draw_idle()
            self._figure.canvas.start_event_loop(1e-3)

    def close(self) -> None:
        """Close the window."""
        from matplotlib import pyplot as plt

        plt.close(self._figure)
