"""Pictures and films of a simulation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flowsim.backend.host.given import is_positive, is_whole
from flowsim.measure.instrument import check_flow
from flowsim.render.fields import Caption, Picture, Scene, draw_panel, outlines
from flowsim.render.films import FPS, is_series, write_films, write_png
from flowsim.render.quantities import Quantity, choose

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

WIDTH = 960
"""Default width of a picture, in pixels."""


def draw_flow(
    flow: Simulation,
    b: int = 0,
    *,
    shown: Sequence[Quantity],
    title: str = "",
    follow: int | None = None,
    width: int = WIDTH,
) -> Picture:
    """Return a picture of one flow with its fields, one below the other, its bodies, the time and colour bars.

    Parameters
    ----------
    flow : Simulation
    b : int
        Index of the flow in the batch.
    shown : sequence of Quantity
        Quantities to show (:func:`flowsim.render.quantities.choose`).
    title : str
        Title above the picture, followed by the Reynolds number, or Ra and Pr of a flow with buoyancy.
    follow : int, optional
        Index of a body to keep at the centre of a view of half the box length and height.
    width : int
        Width in pixels.

    Returns
    -------
    (height, width, 3) uint8
    """
    state, size = flow.body_state, np.array(flow.grid.size)
    periodic = np.array(flow.sides.periodic)
    free = [k for k, body in enumerate(flow.bodies) if body.motion == "free"]
    bodies = outlines(flow, b, agents=free)
    view = None
    if follow is not None:
        x, y = np.where(periodic, state.position[b, follow] % size, state.position[b, follow])
        view = (x - size[0] / 4, x + size[0] / 4, y - size[1] / 4, y + size[1] / 4)
    scene, *others = [
        Scene(quantity.of(flow, b), flow.grid.size, bodies, quantity=quantity, view=view)
        for quantity in shown
    ]
    title = f"{title}   {parameters(flow, b)}".strip()
    if flow.diverged[b]:
        title += "   diverged"
    return draw_panel(scene, Caption(float(flow.time[b]), title=title), width, others=others)


def parameters(flow: Simulation, b: int) -> str:
    """Return the dimensionless numbers of a flow, in its units of length, speed and temperature.

    These are Re, or Ra = g beta / (nu kappa) and Pr = nu / kappa of a flow that is driven by its buoyancy.
    """
    if flow.heat is not None and (strength := float(np.linalg.norm(flow.buoyancy[b]))) > 0.0:
        nu, kappa = float(flow.viscosity[b]), float(flow.diffusivity[b])
        return f"Ra = {strength / (nu * kappa):.4g}, Pr = {nu / kappa:.4g}"
    return f"Re = {1.0 / flow.viscosity[b]:.4g}"


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
    """Write a picture of the current state of one flow to a PNG file.

    Parameters
    ----------
    flow : Simulation
    path
        The file, ``.png``.
    b : int
        Index of the flow in the batch.
    fields : str
        Names of :data:`flowsim.render.quantities.QUANTITIES`, such as ``"vorticity,q"``, drawn one below the other.
    ranges : str, optional
        Values at which their colours saturate: ``"12"`` for the first, or ``"vorticity=12,q=4"``.
    title, follow, width
        As in :func:`draw_flow`.

    Raises
    ------
    ValueError
        For an invalid field or range, or a flow or body that does not exist.
    """
    path = Path(path)
    if path.suffix != ".png":
        raise ValueError(f"{path}: a picture is a .png file")
    shown = _shown(flow, b, fields, ranges, follow)
    write_png(path, draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width))
    return path


# arguments of a picture and of the frame rate
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

    The flows are bit for bit the same as with :meth:`flowsim.Simulation.advance`: a frame shows the first step that
    ends at or after its time. The film of a flow that diverges ends there, with a frame that says so; that of one
    that stops at a fence or a contact ends as well.

    Parameters
    ----------
    flow : Simulation
    path
        The file, ``.mp4``, ``.gif`` or ``.webp``, or a series of frames such as ``wake-%04d.png``.
    duration : float
        Duration in units of D/U.
    every : float
        Time between two frames, in units of D/U.
    b, fields, ranges, title, follow, width
        As in :func:`picture`.
    fps : float
        Frames per second.

    Raises
    ------
    ValueError
        As for :func:`picture`, and for times that are not positive.
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
        stopped = np.zeros(flow.batch, np.bool_)
        while (going := (flow.time < until - 1e-9) & ~flow.diverged & ~stopped).any():
            flow.step(going, until)
            stopped |= flow._stopped
            due = int((flow.time[b] - begun) / every + 1e-9)
            if due > number:
                drawn = draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width)
            # a step longer than the time between two frames is repeated
            yield from itertools.repeat(drawn, due - number)
            number = due
        if flow.diverged[b]:
            yield draw_flow(flow, b, shown=shown, title=title, follow=follow, width=width)

    write_films(pictures(), **{kind: path}, fps=fps, quantities=shown)
    return path


def _shown(
    flow: Simulation, b: int, fields: str, ranges: str | None, follow: int | None
) -> list[Quantity]:
    """Check the arguments and return the quantities to show."""
    check_flow(flow)
    if not (is_whole(b) and 0 <= b < flow.batch):
        raise ValueError(f"b = {b!r}: the batch has {flow.batch} flows, numbered from 0")
    if follow is not None and not (is_whole(follow) and 0 <= follow < len(flow.bodies)):
        raise ValueError(
            f"follow = {follow!r}: there are {len(flow.bodies)} bodies, numbered from 0"
        )
    return choose(fields, ranges)
