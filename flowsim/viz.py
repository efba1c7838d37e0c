"""Pictures of a flow, drawn with a table of colours and Pillow: some milliseconds each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFont

from flowsim.bodies import Body
from flowsim.quantities import HALF, VORTICITY, Quantity

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]
Point = tuple[float, float]
Points = NDArray[np.float64]

_OVERSAMPLING = 2  # lines are drawn on a finer canvas and averaged down
_BACKGROUND: Colour = (255, 255, 255)
_OUTSIDE: Colour = (232, 234, 238)
INK: Colour = (32, 36, 44)
FAINT: Colour = (120, 126, 138)
_BODY: Colour = (70, 76, 88)
_AGENT: Colour = (244, 178, 36)
_ARROW: Colour = (22, 128, 60)
TROUGH: Colour = (232, 234, 238)
_HELD: Colour = (205, 236, 205)
_LOST: Colour = (252, 205, 200)
EFFORT: Colour = (90, 96, 108)
_COMPONENTS: tuple[Colour, ...] = (_ARROW, (196, 88, 16), (118, 66, 168))
"""Of the components of an action, by turns."""


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
    values : (nx, ny)
        At cell centres.
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
    quantity : Quantity
        What the values are.
    view : (x0, x1, y0, y1) or None
        The part that is seen, which may reach beyond the box; all of the box unless given.
    """

    values: NDArray[np.floating[Any]]
    size: tuple[float, float]
    outlines: Sequence[Outline] = ()
    sensors: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    force: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    alive_box: tuple[float, float, float, float] | None = None
    target: tuple[float, float, float] | None = None
    length: str = "D"
    quantity: Quantity = VORTICITY
    view: tuple[float, float, float, float] | None = None

    @property
    def frame(self) -> tuple[float, float, float, float]:
        """x0, x1, y0, y1 of what is seen."""
        return self.view or (0.0, self.size[0], 0.0, self.size[1])

    def scale(self, width: int) -> float:
        """Return how many pixels a unit of length has in a picture of this width."""
        x0, x1, _, _ = self.frame
        return width / (x1 - x0)


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
def palette(levels: int, quantities: tuple[Quantity, ...] = (VORTICITY,)) -> Picture:
    """Return the colours of our pictures with this odd number of values among them; shape (n, 3), n at most 256."""
    light, dark = np.array(_BACKGROUND), np.array(INK)
    mixed = [
        (light, dark, 10),
        (np.array(_AGENT), dark, 4),
        (np.array(_HELD), dark, 5),
        (np.array(_LOST), dark, 5),
    ]
    others = [
        a + (b - a) * t for a, b, n in mixed for t in np.linspace(0.0, 1.0, n, endpoint=False)
    ]
    which = np.round(np.linspace(0, 2 * HALF, levels)).astype(int)
    values = [quantity.table()[which] for quantity in quantities]
    single = np.array([INK, _BODY, FAINT, EFFORT, *_COMPONENTS], dtype=np.uint8)
    return np.concatenate([*values, np.array(others).astype(np.uint8)[1:], single])


def component_colour(number: int) -> Colour:
    """Return the colour of a component of the action."""
    return _COMPONENTS[number % len(_COMPONENTS)]


def component_names(count: int) -> tuple[str, ...]:
    """Return what the components of an action are called."""
    return ("force x", "force y", "torque") if count == 3 else tuple(f"a{n}" for n in range(count))


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Return the font that comes with matplotlib, so that pictures look alike everywhere."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    # our words are left to right, and need no shaping of letters
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


def field_picture(scene: Scene, width: int) -> Image.Image:
    """Return the field with bodies, force arrow, sensors and alive box, `width` pixels wide."""
    x0, _, y0, y1 = scene.frame
    scale = scene.scale(width)
    height = round(scale * (y1 - y0))
    canvas = Image.new("RGB", (width, height), _OUTSIDE)
    left, right = max(0, round(-x0 * scale)), min(width, round((scene.size[0] - x0) * scale))
    upper, lower = max(0, round((y1 - scene.size[1]) * scale)), min(height, round(y1 * scale))
    if right > left and lower > upper:
        canvas.paste(_coloured(scene, (x0, y1), scale, (left, upper, right, lower)), (left, upper))
    _draw_overlay(canvas, scene, scale)
    return canvas


def _coloured(
    scene: Scene, corner: Point, scale: float, part: tuple[int, int, int, int]
) -> Image.Image:
    """Return the field in the part (left, upper, right, lower) of a picture whose upper left corner is given."""
    # the cells are fewer than the pixels; interpolated as it is, a jump to a huge number would ring far and wide
    places = np.clip(scene.quantity.along(scene.values), -4 * HALF, 6 * HALF)
    image = Image.fromarray(np.ascontiguousarray(places.T[::-1]))
    cells = image.width / scene.size[0], image.height / scene.size[1]
    left, upper, right, lower = (side / scale for side in part)
    source = (
        (corner[0] + left) * cells[0], (scene.size[1] - corner[1] + upper) * cells[1],
        (corner[0] + right) * cells[0], (scene.size[1] - corner[1] + lower) * cells[1],
    )  # fmt: skip
    within = (
        max(source[0], 0.0),
        max(source[1], 0.0),
        min(source[2], image.width),
        min(source[3], image.height),
    )
    size = part[2] - part[0], part[3] - part[1]
    fine = np.asarray(image.resize(size, Image.Resampling.BICUBIC, box=within))
    packed = _packed(scene.quantity).take(fine.astype(np.intp), mode="clip")
    return Image.frombytes("RGB", size, packed.tobytes(), "raw", "RGBX")


@cache
def _packed(quantity: Quantity) -> NDArray[np.uint32]:
    """Return the table with a colour in each number, which is looked up several times as fast."""
    table = quantity.table()
    return np.ascontiguousarray(np.pad(table, ((0, 0), (0, 1)))).view(np.uint32).ravel()


def _draw_overlay(canvas: Image.Image, scene: Scene, scale: float) -> None:
    """Draw everything but the field; `scale` is in pixels per D."""
    x0, _, _, y1 = scene.frame
    others = tuple(
        np.asarray(shape.points, np.float64).tobytes()
        for shape in scene.outlines
        if not shape.agent
    )
    still = _still(canvas.size, (x0, y1), scale, scene.alive_box, scene.target, others)
    canvas.paste(*still)

    def pixels(points: ArrayLike) -> Points:
        return (np.asarray(points, np.float64) - (x0, y1)) * (scale, -scale)

    line = _line(scale)
    bodies = [
        pixels(curve) for shape in scene.outlines if shape.agent for curve in _pieces(shape.points)
    ]
    ends = (
        np.zeros((0, 2))
        if scene.force is None
        else pixels([scene.force[0], scene.force[0] + scene.force[1]])
    )
    ends = ends if np.isfinite(ends).all() else ends[:0]
    sensors = pixels(scene.sensors[np.isfinite(scene.sensors).all(axis=1)])

    def paint(fine: _Fine) -> None:
        if bodies:
            fine.fill(bodies, _AGENT, 2 * line)
        if len(ends):
            fine.arrow(ends, 3 * line)
        fine.dots(sensors, 2.4 * line, line)

    _finely(canvas, np.concatenate([*bodies, ends, sensors]), 6 * line, paint)


@lru_cache(maxsize=64)  # most of it stands for a whole film
def _still(
    size: tuple[int, int],
    corner: Point,
    scale: float,
    alive_box: tuple[float, float, float, float] | None,
    target: tuple[float, float, float] | None,
    others: tuple[bytes, ...],
) -> tuple[Image.Image, tuple[int, int], Image.Image]:
    """Return what does not move with the agent, and where it is: frame, alive box, target, the other bodies' outlines.

    It is what :meth:`PIL.Image.Image.paste` takes: colours, corner and mask.
    """

    def pixels(points: ArrayLike) -> Points:
        return (np.asarray(points, np.float64) - corner) * (scale, -scale)

    canvas, line = Image.new("RGBA", size), _line(scale)
    draw = ImageDraw.Draw(canvas)
    draw.rectangle((0, 0, canvas.width - 1, canvas.height - 1), outline=FAINT)
    if alive_box is not None:
        _dashed_box(draw, pixels(_corners(alive_box)).tolist(), max(1, round(line)))
    if target is not None:
        x, y, radius = target
        ends, center = pixels([(x - radius, y - radius), (x + radius, y + radius)]), pixels((x, y))
        _finely(
            canvas,
            ends,
            2 * line,
            lambda fine: fine.circle(center, radius * scale, _ARROW, 2 * line),
        )
    for points in others:
        curves = [pixels(curve) for curve in _pieces(np.frombuffer(points).reshape(-1, 2))]
        paint = partial(_Fine.fill, curves=curves, colour=_BODY, width=2 * line)
        _finely(canvas, np.concatenate(curves) if curves else np.zeros((0, 2)), 2 * line, paint)
    return canvas.convert("RGB"), (0, 0), canvas.getchannel("A")


def _line(scale: float) -> float:
    """Return the width of a thin line in pixels."""
    return max(1.0 / _OVERSAMPLING, 0.014 * scale)


def _finely(
    canvas: Image.Image, points: Points, margin: float, paint: Callable[[_Fine], Any]
) -> None:
    """Paint around these points on a finer canvas, which is averaged down; nothing if they are not in the picture."""
    if not len(points) or not np.isfinite(points).all():
        return
    low, high = np.floor(points.min(axis=0) - margin - 1), np.ceil(points.max(axis=0) + margin + 1)
    left, upper = (max(0, int(value)) for value in low)
    right, lower = (min(most, int(value)) for most, value in zip(canvas.size, high, strict=True))
    if right <= left or lower <= upper:
        return
    part = canvas.crop((left, upper, right, lower))
    size = (part.width * _OVERSAMPLING, part.height * _OVERSAMPLING)
    finer = part.resize(size, Image.Resampling.NEAREST)
    paint(_Fine(finer, (left, upper)))
    canvas.paste(finer.reduce(_OVERSAMPLING), (left, upper))


class _Fine:
    """A finer canvas of a part of a picture, on which lengths and places are in pixels of the picture."""

    def __init__(self, canvas: Image.Image, corner: tuple[int, int]) -> None:
        self._canvas, self._corner, self._draw = canvas, corner, ImageDraw.Draw(canvas)

    def _at(self, points: Points) -> Points:
        return (points - self._corner) * _OVERSAMPLING

    def circle(self, center: Points, radius: float, colour: Colour, width: float) -> None:
        self._draw.circle(
            self._at(center).tolist(), radius * _OVERSAMPLING, outline=colour, width=_wide(width)
        )

    def dots(self, centers: Points, radius: float, width: float) -> None:
        for center in self._at(centers).tolist():
            self._draw.circle(center, radius * _OVERSAMPLING, _BACKGROUND, INK, _wide(width))

    def fill(self, curves: Sequence[Points], colour: Colour, width: float) -> None:
        """Fill what an odd number of closed curves surrounds, so that the holes of a body stay open, and draw these."""
        curves = [self._at(np.concatenate([curve, curve[:1]])) for curve in curves]
        if len(curves) == 1:
            self._draw.polygon(curves[0].ravel().tolist(), fill=colour)
        else:
            inside = Image.new("1", self._canvas.size)
            for curve in curves:
                one = Image.new("1", self._canvas.size)
                ImageDraw.Draw(one).polygon(curve.ravel().tolist(), fill=1)
                inside = ImageChops.logical_xor(inside, one)
            self._canvas.paste(colour, None, inside)
        for curve in curves:
            self._draw.line(curve.ravel().tolist(), fill=INK, width=_wide(width))
            for corner in _corners_of(curve).tolist():
                self._draw.circle(corner, 0.5 * _wide(width), INK)

    def arrow(self, ends: Points, width: float) -> None:
        start, end = ends
        length = float(np.hypot(*(end - start)))
        if not 2.0 * width < length < math.inf:
            return  # too short to have a direction
        along = (end - start) / length
        head = min(4.5 * width, 0.6 * length)
        neck, wing = end - head * along, 0.45 * head * np.array([-along[1], along[0]])
        self._draw.line(
            self._at(np.stack([start, neck])).ravel().tolist(), fill=_ARROW, width=_wide(width)
        )
        self._draw.polygon(
            self._at(np.stack([end, neck + wing, neck - wing])).ravel().tolist(), fill=_ARROW
        )


def _corners_of(curve: Points) -> Points:
    """Return the points at which a closed curve turns by so much that a wide line has a gap."""
    after = np.diff(curve, axis=0)
    before = np.concatenate([after[-1:], after[:-1]])
    turn = np.abs(after[:, 1] * before[:, 0] - after[:, 0] * before[:, 1])
    return curve[:-1][turn > 0.3 * (after * before).sum(axis=1)]


def _wide(width: float) -> int:
    return max(1, round(width * _OVERSAMPLING))


def _pieces(points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the closed curves, (n, 2) each, between rows that are not finite."""
    finite = np.isfinite(points).all(axis=1)
    parts = np.split(points, np.flatnonzero(~finite))
    curves = [part[np.isfinite(part).all(axis=1)] for part in parts]
    return [curve for curve in curves if len(curve) > 2]


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
            draw.line(ends, fill=FAINT, width=width)


def draw_panel(
    scene: Scene,
    caption: Caption,
    width: int = 640,
    *,
    others: Sequence[Scene] = (),
    traces: Picture | None = None,
    legend: bool = True,
) -> Picture:
    """Return a picture with title, time and return above it, and below it the action or how the episode ended.

    Parameters
    ----------
    scene, caption
        What is shown, and what is written around it.
    width : int
        In pixels.
    others : sequence of Scene
        The same with other quantities, below the first.
    traces : uint8, shape (rows, width, 3)
        What was done so far, below it (:mod:`flowsim.traces`).
    legend : bool
        Whether scale and colours are explained below it, too.

    Returns
    -------
    uint8, shape (height, width, 3)
        Both sides are even, as video codecs ask for.
    """
    size = text_size(width)
    numbers = f"t = {caption.time:.2f} {scene.length}/U"
    if caption.episode_return is not None:
        numbers += f"   return {caption.episode_return:.1f}"
    pictures = [_strip(width, size, caption.title, numbers)]
    pictures += [np.asarray(field_picture(each, width)) for each in (scene, *others)]
    if caption.note:
        pictures.append(_strip(width, size, caption.note, "", _LOST if caption.lost else _HELD))
    elif caption.action:
        pictures.append(_action_strip(width, size, caption.action))
    if traces is not None:
        pictures.append(traces)
    if legend:
        scale = scene.scale(width)
        pictures.append(
            draw_legends(
                width, size, scale, [each.quantity for each in (scene, *others)], scene.length
            )
        )
    return make_even(np.concatenate(pictures))


def draw_small_panel(scene: Scene, caption: Caption, width: int) -> Picture:
    """Return a picture with one line above it: the title, and beside it the return or how the episode ended."""
    size = text_size(width)
    tint = _BACKGROUND if not caption.note else _LOST if caption.lost else _HELD
    numbers = "" if caption.episode_return is None else f"return {caption.episode_return:.1f}"
    strip = _strip(width, size, caption.title, caption.note or numbers, tint)
    return make_even(np.concatenate([strip, np.asarray(field_picture(scene, width))]))


def text_size(width: int) -> int:
    """Return the size of the letters around a picture of this width, in pixels."""
    return min(max(12, width // 34), 22)


def make_even(picture: Picture) -> Picture:
    """Give a picture a white line or column where a video codec needs one more."""
    height, width, _ = picture.shape
    if height % 2 == width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), constant_values=255)


# most of them stand for an action or longer, and letters take longer than a flow
@lru_cache(maxsize=64)
def _strip(width: int, size: int, left: str, right: str, tint: Colour = _BACKGROUND) -> Picture:
    """Return a line of text, with what is to the left in bold."""
    strip = Image.new("RGB", (width, 2 * size), tint)
    draw = ImageDraw.Draw(strip)
    draw.text((size // 2, size), left, fill=INK, font=font(size, bold=True), anchor="lm")
    draw.text((width - size // 2, size), right, fill=INK, font=font(size), anchor="rm")
    return np.asarray(strip)


@lru_cache(maxsize=16)
def draw_table(
    width: int, height: int, size: int, title: str, rows: tuple[tuple[str, str], ...]
) -> Picture:
    """Return a title and lines of two columns on white."""
    table = Image.new("RGB", (width, height), _BACKGROUND)
    draw = ImageDraw.Draw(table)
    draw.text((size // 2, size), title, fill=INK, font=font(size, bold=True), anchor="lm")
    for n, (left, right) in enumerate(rows):
        y = round((2.5 + 1.5 * n) * size)
        draw.text((size // 2, y), left, fill=INK, font=font(size), anchor="lm")
        draw.text((width - size // 2, y), right, fill=INK, font=font(size, bold=True), anchor="rm")
    return np.asarray(table)


def draw_legends(
    width: int, size: int, scale: float, quantities: Sequence[Quantity], length: str = "D"
) -> Picture:
    """Return a bar of one unit of length, at `scale` pixels for it, and a row of colours for each quantity."""
    units = [quantity.unit.format(length=length) for quantity in quantities]
    right = width - size - round(max(font(size).getlength(unit) for unit in units))
    rows = [_draw_legend(width, size, *each, right) for each in zip(quantities, units, strict=True)]
    draw = ImageDraw.Draw(rows[0])
    x, y, half = size // 2, size, size // 2
    draw.line((x, y, x + round(scale), y), fill=INK, width=2)
    for end in (x, x + round(scale)):
        draw.line((end, y - half // 2, end, y + half // 2), fill=INK, width=2)
    draw.text(
        (x + round(scale) / 2, 2.2 * size), f"1 {length}", fill=INK, font=font(size), anchor="mm"
    )
    return np.concatenate([np.asarray(row) for row in rows])


def _draw_legend(width: int, size: int, quantity: Quantity, unit: str, right: int) -> Image.Image:
    """Return the colours of a quantity, which end at `right`, with its unit."""
    legend = Image.new("RGB", (width, 3 * size), _BACKGROUND)
    draw = ImageDraw.Draw(legend)
    bar, y, half = 8 * size + 1, size, size // 2  # odd: one pixel is zero
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
def _action_strip(width: int, size: int, action: tuple[float, ...]) -> Picture:
    """Return the components of the action at fixed places, each with a bar from -1 to 1."""
    strip = Image.new("RGB", (width, 2 * size), _BACKGROUND)
    draw, x, y = ImageDraw.Draw(strip), size // 2, size
    for number, (name, value) in enumerate(zip(component_names(len(action)), action, strict=True)):
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
    """A matplotlib window that shows pictures one after the other; without a display it shows nothing."""

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
