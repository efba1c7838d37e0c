"""Vorticity pictures, drawn with a colour table and Pillow: about 100 frames a second."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFont

from flowsim.bodies import Body

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]

VORTICITY_LIMIT = 8.0
"""Where the colours of the vorticity saturate, in U/D; fixed, so that pictures can be compared."""

_HALF = 512  # colours on each side of zero: more than eight bits a channel can tell apart
_OVERSAMPLING = 2  # lines are drawn on a finer canvas and averaged down
_BACKGROUND: Colour = (255, 255, 255)
_INK: Colour = (32, 36, 44)
_FAINT: Colour = (120, 126, 138)
_BODY: Colour = (70, 76, 88)
_AGENT: Colour = (244, 178, 36)
_ARROW: Colour = (22, 128, 60)
_TROUGH: Colour = (232, 234, 238)
_HELD: Colour = (205, 236, 205)
_LOST: Colour = (252, 205, 200)


@dataclass(frozen=True)
class Outline:
    """A body in a picture: its boundary as :func:`outline` gives it, and whether it is the controlled one."""

    points: NDArray[np.float64]
    agent: bool = False


@dataclass(frozen=True)
class Scene:
    """What a picture shows; all positions in the coordinates of the grid.

    Attributes
    ----------
    vorticity : (nx, ny)
        At cell centres, in U/D.
    size : (float, float)
        Width and height of the box.
    outlines : sequence of Outline
    sensors : (n, 2)
    force : (position, vector) or None
        Arrow for the applied force, its length in D.
    alive_box : (x0, x1, y0, y1) or None
        Drawn thinly.
    target : (x, y, radius) or None
    length : str
        Name of the unit of length.
    """

    vorticity: NDArray[np.floating[Any]]
    size: tuple[float, float]
    outlines: Sequence[Outline] = ()
    sensors: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    force: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    alive_box: tuple[float, float, float, float] | None = None
    target: tuple[float, float, float] | None = None
    length: str = "D"


@dataclass(frozen=True)
class Caption:
    """The numbers and words around a picture.

    Attributes
    ----------
    time : float
    episode_return : float or None
    action : tuple of float
        (force x, force y, torque), each in [-1, 1].
    title : str
    note : str
        The verdict on an episode that is over; it stands beside the picture, never on it.
    lost : bool
        Whether the verdict is a bad one.
    """

    time: float
    episode_return: float | None = None
    action: tuple[float, ...] = ()
    title: str = ""
    note: str = ""
    lost: bool = False


def outline(body: Body, position: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """Return the boundary of a body at a position and angle.

    Returns
    -------
    (n, 2)
        A closed polygon; several, with a row of NaN between one and the next, where the boundary is of several pieces.
    """
    gap = np.full((1, 2), np.nan)
    x, y = np.concatenate([part for curve in body.surface for part in (gap, curve)] or [gap])[1:].T
    c, s = math.cos(angle), math.sin(angle)
    return np.stack([position[0] + c * x - s * y, position[1] + s * x + c * y], axis=-1)


@cache
def _colours() -> Picture:
    """Return the diverging table, shape (2 _HALF + 1, 3): blue is clockwise, white is zero, red anticlockwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # cmocean builds its maps in a way matplotlib gives up
        import cmocean

    table = cmocean.cm.balance.resampled(2 * _HALF + 1)(np.linspace(0.04, 0.96, 2 * _HALF + 1))[:, :3]
    colours: Picture = np.round(255 * np.minimum(table / table[_HALF], 1.0)).astype(np.uint8)
    return colours


@cache
def palette(levels: int) -> Picture:
    """Return the colours of our pictures with this odd number of vorticities among them, shape (levels + 26, 3)."""
    light, dark = np.array(_BACKGROUND), np.array(_INK)
    mixed = [(light, dark, 10), (np.array(_AGENT), dark, 4), (np.array(_HELD), dark, 5), (np.array(_LOST), dark, 5)]
    others = [a + (b - a) * t for a, b, n in mixed for t in np.linspace(0.0, 1.0, n, endpoint=False)]
    which = np.round(np.linspace(0, 2 * _HALF, levels)).astype(int)
    single = np.array([_INK, _BODY, _ARROW, _FAINT], dtype=np.uint8)
    return np.concatenate([_colours()[which], np.array(others).astype(np.uint8)[1:], single])


@cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Return the font that comes with matplotlib, so that pictures look alike everywhere."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)


def vorticity_picture(scene: Scene, width: int, limit: float = VORTICITY_LIMIT) -> Image.Image:
    """Return the vorticity with bodies, force arrow, sensors and alive box, `width` pixels wide."""
    height = round(width * scene.size[1] / scene.size[0])
    vorticity = np.nan_to_num(np.asarray(scene.vorticity, dtype=np.float32), posinf=limit, neginf=-limit)
    image = Image.fromarray(np.ascontiguousarray(vorticity.T[::-1]))
    fine = np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))
    canvas = Image.fromarray(_coloured(fine / limit))
    overlay = canvas.resize((width * _OVERSAMPLING, height * _OVERSAMPLING), Image.Resampling.NEAREST)
    _draw_overlay(overlay, scene, overlay.width / scene.size[0])
    return overlay.reduce(_OVERSAMPLING)


def _coloured(share: NDArray[np.floating[Any]]) -> Picture:
    """Return the colours of vorticities given as a share of the limit, with one more axis than `share`."""
    return _colours()[np.rint((np.clip(share, -1.0, 1.0) + 1.0) * _HALF).astype(np.intp)]


def _draw_overlay(canvas: Image.Image, scene: Scene, scale: float) -> None:
    """Draw everything but the vorticity; `scale` is in pixels per D."""
    draw = ImageDraw.Draw(canvas)

    def pixel(point: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
        return float(point[0]) * scale, (scene.size[1] - float(point[1])) * scale

    line = max(1, round(0.014 * scale))
    draw.rectangle((0, 0, canvas.width - 1, canvas.height - 1), outline=_FAINT, width=_OVERSAMPLING)
    if scene.alive_box is not None:
        _dashed_box(draw, [pixel((x, y)) for x, y in _corners(scene.alive_box)], line)
    if scene.target is not None:
        x, y, radius = scene.target
        draw.ellipse(
            (*pixel((x - radius, y + radius)), *pixel((x + radius, y - radius))),
            outline=_ARROW,
            width=2 * line,
        )
    for shape in scene.outlines:
        curves = [[pixel(point) for point in curve] for curve in _pieces(shape.points)]
        _fill(canvas, curves, _AGENT if shape.agent else _BODY)
        for curve in curves:
            draw.line([*curve, curve[0], curve[1]], fill=_INK, width=2 * line, joint="curve")
    if scene.force is not None:
        _arrow(draw, pixel(scene.force[0]), pixel(scene.force[0] + scene.force[1]), 3 * line)
    for sensor in scene.sensors:
        if np.isfinite(sensor).all():
            draw.circle(pixel(sensor), 2.4 * line, fill=_BACKGROUND, outline=_INK, width=line)


def _pieces(points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the closed curves, (n, 2) each, between rows that are not finite."""
    finite = np.isfinite(points).all(axis=1)
    parts = np.split(points, np.flatnonzero(~finite))
    curves = [part[np.isfinite(part).all(axis=1)] for part in parts]
    return [curve for curve in curves if len(curve) > 2]


def _fill(canvas: Image.Image, curves: Sequence[Sequence[tuple[float, float]]], colour: Colour) -> None:
    """Fill what an odd number of closed curves surrounds, so that the holes of a body stay open."""
    if len(curves) == 1:
        ImageDraw.Draw(canvas).polygon(curves[0], fill=colour)
        return
    inside = Image.new("1", canvas.size)
    for curve in curves:
        one = Image.new("1", canvas.size)
        ImageDraw.Draw(one).polygon(curve, fill=1)
        inside = ImageChops.logical_xor(inside, one)
    canvas.paste(colour, None, inside)


def _corners(box: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    x0, x1, y0, y1 = box
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def _dashed_box(draw: ImageDraw.ImageDraw, corners: list[tuple[float, float]], width: int) -> None:
    dash = 8.0 * width
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        count = max(1, round(math.hypot(x1 - x0, y1 - y0) / (2.0 * dash)))
        for n in range(count):
            start, end = n / count, (n + 0.5) / count
            ends = [(x0 + t * (x1 - x0), y0 + t * (y1 - y0)) for t in (start, end)]
            draw.line(ends, fill=_FAINT, width=width)


def _arrow(draw: ImageDraw.ImageDraw, start: tuple[float, float], end: tuple[float, float], width: int) -> None:
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    if not 2.0 * width < length < math.inf:
        return  # too short to have a direction
    x, y = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    head = min(4.5 * width, 0.6 * length)
    neck = (end[0] - head * x, end[1] - head * y)
    draw.line([start, neck], fill=_ARROW, width=width)
    wing = 0.45 * head
    draw.polygon([end, (neck[0] - wing * y, neck[1] + wing * x), (neck[0] + wing * y, neck[1] - wing * x)], fill=_ARROW)


def draw_panel(
    scene: Scene, caption: Caption, width: int = 640, limit: float = VORTICITY_LIMIT, *, legend: bool = True
) -> Picture:
    """Return a picture with title, time and return above it, and below it the action or how the episode ended.

    Parameters
    ----------
    scene, caption
        What is shown, and what is written around it.
    width : int
        In pixels.
    limit : float
        Vorticity at which the colours saturate, in U/D.
    legend : bool
        Whether scale and colours are explained below it, too.

    Returns
    -------
    uint8, shape (height, width, 3)
        Both sides are even, as video codecs ask for.
    """
    size = text_size(width)
    numbers = f"t = {caption.time:.1f} {scene.length}/U"
    if caption.episode_return is not None:
        numbers += f"   return {caption.episode_return:.1f}"
    parts = [_strip(width, size, caption.title, numbers), vorticity_picture(scene, width, limit)]
    if caption.note:
        parts.append(_strip(width, size, caption.note, "", _LOST if caption.lost else _HELD))
    elif caption.action:
        parts.append(_strip(width, size, "", ""))
        _draw_action(ImageDraw.Draw(parts[-1]), caption.action, (size // 2, size), size)
    pictures = [np.asarray(part) for part in parts]
    if legend:
        pictures.append(draw_legend(width, size, width / scene.size[0], limit, scene.length))
    return make_even(np.concatenate(pictures))


def draw_small_panel(scene: Scene, caption: Caption, width: int, limit: float = VORTICITY_LIMIT) -> Picture:
    """Return a picture with one line above it: the title, and beside it the return or how the episode ended."""
    size = text_size(width)
    tint = _BACKGROUND if not caption.note else _LOST if caption.lost else _HELD
    numbers = "" if caption.episode_return is None else f"return {caption.episode_return:.1f}"
    strip = _strip(width, size, caption.title, caption.note or numbers, tint)
    return make_even(np.concatenate([np.asarray(part) for part in (strip, vorticity_picture(scene, width, limit))]))


def text_size(width: int) -> int:
    """Return the size of the letters around a picture of this width, in pixels."""
    return min(max(12, width // 34), 22)


def make_even(picture: Picture) -> Picture:
    """Give a picture a white line or column where a video codec needs one more."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), constant_values=255)


def _strip(width: int, size: int, left: str, right: str, tint: Colour = _BACKGROUND) -> Image.Image:
    """Return a line of text, with what is to the left in bold."""
    strip = Image.new("RGB", (width, 2 * size), tint)
    draw = ImageDraw.Draw(strip)
    draw.text((size // 2, size), left, fill=_INK, font=_font(size, bold=True), anchor="lm")
    draw.text((width - size // 2, size), right, fill=_INK, font=_font(size), anchor="rm")
    return strip


def draw_table(width: int, height: int, size: int, title: str, rows: Sequence[tuple[str, str]]) -> Picture:
    """Return a title and lines of two columns on white."""
    table = Image.new("RGB", (width, height), _BACKGROUND)
    table.paste(_strip(width, size, title, ""), (0, 0))
    draw = ImageDraw.Draw(table)
    for n, (left, right) in enumerate(rows):
        y = round((2.5 + 1.5 * n) * size)
        draw.text((size // 2, y), left, fill=_INK, font=_font(size), anchor="lm")
        draw.text((width - size // 2, y), right, fill=_INK, font=_font(size, bold=True), anchor="rm")
    return np.asarray(table)


def draw_legend(width: int, size: int, scale: float, limit: float, length: str = "D") -> Picture:
    """Return a bar of one unit of length, at `scale` pixels for it, and the colours of the vorticity with units."""
    legend = Image.new("RGB", (width, 3 * size), _BACKGROUND)
    draw = ImageDraw.Draw(legend)
    x, y, half = size // 2, size, size // 2
    draw.line((x, y, x + round(scale), y), fill=_INK, width=2)
    for end in (x, x + round(scale)):
        draw.line((end, y - half // 2, end, y + half // 2), fill=_INK, width=2)
    draw.text((x + round(scale) / 2, 2.2 * size), f"1 {length}", fill=_INK, font=_font(size), anchor="mm")
    unit, bar = f"U/{length}", 8 * size + 1  # odd: one pixel is zero
    right = width - size - round(draw.textlength(unit, font=_font(size)))
    left = right - bar
    legend.paste(Image.fromarray(np.tile(_coloured(np.linspace(-1.0, 1.0, bar)), (size, 1, 1))), (left, y - half))
    draw.rectangle((left - 1, y - half - 1, right, y - half + size), outline=_FAINT)
    draw.text((left - half, y), "vorticity", fill=_INK, font=_font(size), anchor="rm")
    draw.text((right + half, y), unit, fill=_INK, font=_font(size), anchor="lm")
    for share in (-1, 0, 1):
        place = (left + (share + 1) * bar / 2, 2.2 * size)
        draw.text(place, f"{share * limit:g}", fill=_INK, font=_font(size), anchor="mm")
    return np.asarray(legend)


def _draw_action(draw: ImageDraw.ImageDraw, action: Sequence[float], at: tuple[int, int], size: int) -> None:
    """Write the action as numbers at fixed places, each with a bar from -1 to 1."""
    x, y = at
    names = ("force x", "force y", "torque") if len(action) == 3 else tuple(f"a{n}" for n in range(len(action)))
    for name, value in zip(names, action, strict=True):
        draw.text((x, y), name, fill=_FAINT, font=_font(size), anchor="lm")
        x += int(draw.textlength(name, font=_font(size))) + size // 2
        half, thick = 2 * size, size // 3
        draw.rectangle((x, y - thick, x + 2 * half, y + thick), fill=_TROUGH)
        tip = x + half + (half * value if math.isfinite(value) else 0.0)
        draw.rectangle((min(x + half, tip), y - thick, max(x + half, tip), y + thick), fill=_ARROW)
        draw.line((x + half, y - thick - 1, x + half, y + thick + 1), fill=_INK)
        x += 2 * half + size


class Window:
    """A matplotlib window that shows pictures one after the other; without a display it shows nothing."""

    def __init__(self, title: str) -> None:
        import matplotlib as mpl
        from matplotlib import pyplot as plt

        self._figure = plt.figure(title)
        self._axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._axes.set_axis_off()
        self._image: Any = None
        self._interactive = mpl.get_backend().lower() in {
            name.lower() for name in mpl.backends.backend_registry.list_builtin(mpl.backends.BackendFilter.INTERACTIVE)
        }

    def show(self, picture: Picture) -> None:
        """Replace what the window shows."""
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
