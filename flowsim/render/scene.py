"""Scenes of a flow and their pictures, without text: fields, bodies and outlines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageChops, ImageDraw

from flowsim.bodies import Body
from flowsim.bodies.swimmers import Swimmer
from flowsim.render.quantities import HALF, VORTICITY, Quantity
from flowsim.render.units import DIAMETERS, Units

if TYPE_CHECKING:
    from flowsim.backend.state import State

Colour = tuple[int, int, int]
Point = tuple[float, float]
Points = NDArray[np.float64]

_OVERSAMPLING = 2  # lines are drawn on a finer canvas and averaged down
BACKGROUND: Colour = (255, 255, 255)
_OUTSIDE: Colour = (232, 234, 238)
INK: Colour = (32, 36, 44)
FAINT: Colour = (120, 126, 138)
BODY: Colour = (70, 76, 88)
AGENT: Colour = (244, 178, 36)
ARROW: Colour = (22, 128, 60)


@dataclass(frozen=True)
class Outline:
    """A body in a picture: its boundary from :func:`outline`, and whether it is the controlled body."""

    points: NDArray[np.float64]
    agent: bool = False


@dataclass(frozen=True)
class Scene:
    """The content of a picture; all positions are in grid coordinates.

    Attributes
    ----------
    values : (nx, ny)
        Field at the cell centres.
    size : (float, float)
        Width and height of the box.
    outlines : sequence of Outline
    sensors : (n, 2)
    force : (position, vector) or None
        Arrow for the applied force; its length is in D.
    alive_box : (x0, x1, y0, y1) or None
        Drawn with a thin dashed line.
    target : (x, y, radius) or None
    units : Units
        Names of the units.
    quantity : Quantity
        Quantity of the values.
    view : (x0, x1, y0, y1) or None
        Visible part, which may extend beyond the box; the whole box unless given.
    """

    values: NDArray[np.floating[Any]]
    size: tuple[float, float]
    outlines: Sequence[Outline] = ()
    sensors: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    force: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    alive_box: tuple[float, float, float, float] | None = None
    target: tuple[float, float, float] | None = None
    units: Units = DIAMETERS
    quantity: Quantity = VORTICITY
    view: tuple[float, float, float, float] | None = None

    @property
    def frame(self) -> tuple[float, float, float, float]:
        """x0, x1, y0, y1 of the visible part."""
        return self.view or (0.0, self.size[0], 0.0, self.size[1])

    def scale(self, width: int) -> float:
        """Return the number of pixels per unit of length in a picture of this width."""
        x0, x1, _, _ = self.frame
        return width / (x1 - x0)


def outline(body: Body, position: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """Return the boundary of a body at a position and angle.

    Returns
    -------
    (n, 2)
        A closed polygon; several polygons, separated by rows of NaN, if the boundary consists of several pieces.
    """
    gap = np.full((1, 2), np.nan)
    x, y = np.concatenate([part for curve in body.surface for part in (gap, curve)] or [gap])[1:].T
    c, s = math.cos(angle), math.sin(angle)
    return np.stack([position[0] + c * x - s * y, position[1] + s * x + c * y], axis=-1)


def boundary(flow: State, b: int, k: int) -> NDArray[np.float64]:
    """Return the current boundary of body k of flow b, bent if it is a swimmer, as :func:`outline` does."""
    body, state = flow.bodies[k], flow.body_state
    if isinstance(body, Swimmer):
        return flow.surface(b, k)
    return outline(body, state.position[b, k], float(state.angle[b, k]))


def outlines(flow: State, b: int, agents: Container[int]) -> list[Outline]:
    """Return the bodies of flow b, with their images where they cross a periodic side; ``agents`` are bodies."""
    size, periodic = np.array(flow.grid.size), np.array(flow.sides.periodic)
    images = list(itertools.product(*((-1, 0, 1) if wraps else (0,) for wraps in periodic)))
    shapes = []
    for k, place in enumerate(flow.body_state.position[b]):
        points = boundary(flow, b, k) - np.where(periodic, size * np.floor(place / size), 0.0)
        for image in images:
            moved = points + image * size
            low, high = np.fmin.reduce(moved), np.fmax.reduce(moved)
            if ((high > 0.0) & (low < size))[periodic].all():
                shapes.append(Outline(moved, agent=k in agents))
    return shapes


def field_picture(scene: Scene, width: int) -> Image.Image:
    """Return a picture of the field with bodies, force arrow, sensors and alive box, `width` pixels wide."""
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
    """Return the coloured field in a part (left, upper, right, lower) of a picture with this upper left corner."""
    # cells are interpolated to pixels; without the clip, a jump to a huge value would cause ringing far around it
    places = np.clip(scene.quantity.along(scene.values), -4 * HALF, 6 * HALF)
    image = Image.fromarray(np.ascontiguousarray(places.T[::-1]))
    cells = image.width / scene.size[0], image.height / scene.size[1]
    left, upper, right, lower = (side / scale for side in part)
    across, down = corner[0], scene.size[1] - corner[1]
    within = (
        max((across + left) * cells[0], 0.0),
        max((down + upper) * cells[1], 0.0),
        min((across + right) * cells[0], image.width),
        min((down + lower) * cells[1], image.height),
    )
    size = part[2] - part[0], part[3] - part[1]
    fine = np.asarray(image.resize(size, Image.Resampling.BICUBIC, box=within))
    packed = _packed(scene.quantity).take(fine.astype(np.intp), mode="clip")
    return Image.frombytes("RGB", size, packed.tobytes(), "raw", "RGBX")


@cache
def _packed(quantity: Quantity) -> NDArray[np.uint32]:
    """Return the colour table with one integer per colour, for which a look-up is several times as fast."""
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
            fine.fill(bodies, AGENT, 2 * line)
        if len(ends):
            fine.arrow(ends, 3 * line)
        fine.dots(sensors, 2.4 * line, line)

    _finely(canvas, np.concatenate([*bodies, ends, sensors]), 6 * line, paint)


@lru_cache(maxsize=64)  # it rarely changes during a film
def _still(
    size: tuple[int, int],
    corner: Point,
    scale: float,
    alive_box: tuple[float, float, float, float] | None,
    target: tuple[float, float, float] | None,
    others: tuple[bytes, ...],
) -> tuple[Image.Image, tuple[int, int], Image.Image]:
    """Return a layer of all that does not move with the agent: frame, alive box, target and other bodies.

    The layer consists of the arguments of :meth:`PIL.Image.Image.paste`: colours, corner and mask.
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
            lambda fine: fine.circle(center, radius * scale, ARROW, 2 * line),
        )
    for points in others:
        curves = [pixels(curve) for curve in _pieces(np.frombuffer(points).reshape(-1, 2))]
        paint = partial(_Fine.fill, curves=curves, colour=BODY, width=2 * line)
        _finely(canvas, np.concatenate(curves) if curves else np.zeros((0, 2)), 2 * line, paint)
    return canvas.convert("RGB"), (0, 0), canvas.getchannel("A")


def _line(scale: float) -> float:
    """Return the width of a thin line in pixels."""
    return max(1.0 / _OVERSAMPLING, 0.014 * scale)


def _finely(
    canvas: Image.Image, points: Points, margin: float, paint: Callable[[_Fine], Any]
) -> None:
    """Paint around points on a finer canvas that is averaged down; do nothing if they are outside the picture."""
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
    """A finer canvas of a part of a picture; lengths and positions are in pixels of the picture."""

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
            self._draw.circle(center, radius * _OVERSAMPLING, BACKGROUND, INK, _wide(width))

    def fill(self, curves: Sequence[Points], colour: Colour, width: float) -> None:
        """Fill the area inside an odd number of closed curves, which leaves holes open, and draw the curves."""
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
            self._at(np.stack([start, neck])).ravel().tolist(), fill=ARROW, width=_wide(width)
        )
        self._draw.polygon(
            self._at(np.stack([end, neck + wing, neck - wing])).ravel().tolist(), fill=ARROW
        )


def _corners_of(curve: Points) -> Points:
    """Return the points at which a closed curve turns so sharply that a wide line has a gap."""
    after = np.diff(curve, axis=0)
    before = np.concatenate([after[-1:], after[:-1]])
    turn = np.abs(after[:, 1] * before[:, 0] - after[:, 0] * before[:, 1])
    return curve[:-1][turn > 0.3 * (after * before).sum(axis=1)]


def _wide(width: float) -> int:
    return max(1, round(width * _OVERSAMPLING))


def _pieces(points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the closed curves, (n, 2) each, that rows of non-finite values separate."""
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
