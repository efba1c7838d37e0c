"""Pictures and films of a simulation, from Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flowsim.backend.host.given import is_positive
from flowsim.render.fields import Caption, Outline, Picture, Scene, draw_panel, outline
from flowsim.render.films import FPS, is_series, write_films, write_png
from flowsim.render.quantities import Quantity, choose

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

WIDTH = 960
"""Of a picture, in pixels."""


def draw_flow(
    flow: Simulation,
    b: int = 0,
    *,
    shown: Sequence[Quantity],
    title: str = "",
    follow: int | None = None,
    width: int = WIDTH,
) -> Picture:
    """Return a picture of one flow: its fields below each other, its bodies, the time and the colours.

    Parameters
    ----------
    flow : Simulation
    b : int
        Which flow of the batch.
    shown : sequence of Quantity
        What it shows (:func:`flowsim.render.quantities.choose`).
    title : str
        Written above it, with the Reynolds number.
    follow : int, optional
        A body that stays in the middle of half of the box.
    width : int
        In pixels.

    Returns
    -------
    (height, width, 3) uint8
    """
    state, size = flow.body_state, np.array(flow.grid.size)
    periodic = np.array(flow.sides.periodic)
    outlines = []
    for k, body in enumerate(flow.bodies):
        place = np.where(periodic, state.position[b, k] % size, state.position[b, k])
        points = outline(body, place, float(state.angle[b, k]))
        # a body that crosses a periodic side is seen at both
        for copy in itertools.product(*((-1, 0, 1) if wraps else (0,) for wraps in periodic)):
            outlines.append(Outline(points + copy * size, agent=body.motion == "free"))
    view = None
    if follow is not None:
        x, y = np.where(periodic, state.position[b, follow] % size, state.position[b, follow])
        view = (x - size[0] / 4, x + size[0] / 4, y - size[1] / 4, y + size[1] / 4)
    scene, *others = [
        Scene(quantity.of(flow, b), flow.grid.size, outlines, quantity=quantity, view=view)
        for quantity in shown
    ]
    title = f"{title}   Re = {1.0 / flow.viscosity[b]:.4g}".strip()
    if flow.diverged[b]:
        title += "   diverged"
    return draw_panel(scene, Caption(float(flow.time[b]), title=title), width, others=others)


def picture(
    flow: Simulation,
    path: str | Path,
    *,
    b: int = 0,
    fields: str = "vorticity",
    ranges: str | None = None,
    title: str = "",
    follow: int | None = None,
    width: int = WIDTH,
) -> Path:
    """Write a picture of one flow as it is now to a PNG file.

    Parameters
    ----------
    flow : Simulation
    path
        The file, ``.png``.
    b : int
        Which flow of the batch.
    fields : str
        Names of :data:`flowsim.render.quantities.QUANTITIES` such as ``"vorticity,q"``, below each other.
    ranges : str, optional
        Where their colours saturate: ``"12"``, of the first, or ``"vorticity=12,q=4"``.
    title, follow, width
        As of :func:`draw_flow`.

    Raises
    ------
    ValueError
        For a field or a range that is none, or a flow or body that there is not.
    """
    path = Path(path)
    if path.suffix != ".png":
        raise ValueError(f"{path}: a picture is a .png file")
    shown = _shown(flow, b, fields, ranges, follow)
    write_png(path, draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width))
    return path


# what a picture shows, and how often there is one
def film(
    flow: Simulation,
    path: str | Path,
    duration: float,
    *,
    every: float = 0.1,
    b: int = 0,
    fields: str = "vorticity",
    ranges: str | None = None,
    title: str = "",
    follow: int | None = None,
    width: int = WIDTH,
    fps: float = FPS,
) -> Path:
    """Advance by a duration and film one flow of the batch.

    The flows go the same way bit for bit as by :meth:`flowsim.Simulation.advance`: a picture shows the first step that
    ends at or after its time. A film of a flow that diverges ends there, with a picture that says so.

    Parameters
    ----------
    flow : Simulation
    path
        The file, ``.mp4``, ``.gif`` or ``.webp``, or a series of pictures such as ``wake-%04d.png``.
    duration : float
        In units of D/U.
    every : float
        Time between two pictures, in units of D/U.
    b, fields, ranges, title, follow, width
        As of :func:`picture`.
    fps : float
        Pictures a second.

    Raises
    ------
    ValueError
        As :func:`picture`, and for times that are not positive.
    """
    path = Path(path)
    kind = path.suffix[1:]
    if kind not in ("mp4", "gif", "webp") and not is_series(path):
        raise ValueError(
            f"{path}: a film is a .mp4, .gif or .webp file, or a series such as a-%04d.png"
        )
    for name, value in (("duration", duration), ("every", every), ("fps", fps)):
        if not is_positive(value):
            raise ValueError(f"{name} = {value!r}: it must be positive")
    shown = _shown(flow, b, fields, ranges, follow)

    def pictures() -> Iterator[Picture]:
        begun, until = float(flow.time[b]), flow.time + duration
        number, drawn = 0, draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width)
        yield drawn
        while (going := (flow.time < until - 1e-9) & ~flow.diverged).any():
            flow.step(going, until)
            due = int((flow.time[b] - begun) / every + 1e-9)
            if due > number:
                drawn = draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width)
            # a step that is longer than the time between two pictures is shown as often as it takes
            yield from itertools.repeat(drawn, due - number)
            number = due
        if flow.diverged[b]:
            yield draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width)

    write_films(pictures(), **{kind: path}, fps=fps, quantities=shown)
    return path


def _shown(
    flow: Simulation, b: int, fields: str, ranges: str | None, follow: int | None
) -> list[Quantity]:
    """Return what is shown, after a look at what can be."""
    if not 0 <= b < flow.batch:
        raise ValueError(f"b = {b!r}: the batch has {flow.batch} flows, numbered from 0")
    if follow is not None and not 0 <= follow < len(flow.bodies):
        raise ValueError(
            f"follow = {follow!r}: there are {len(flow.bodies)} bodies, numbered from 0"
        )
    return choose(fields, ranges)
