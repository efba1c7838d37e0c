"""Run one simulation and write forces, fields, restarts and videos into a folder of bounded size."""

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupling.errors import ConfigError, RunError, describe_os_error
from coupling.signals import Interrupted, number_of
from coupling.simulation.files import ForceTable, SimulationFiles
from coupling.simulation.measures import MeasuredFiles
from flowsim import Simulation
from flowsim.io import read_restart
from flowsim.render.fields import Picture
from flowsim.render.films import FPS, write_films
from flowsim.render.flow import draw_flow
from flowsim.render.quantities import VORTICITY, Quantity

__all__ = ["Output", "SimulationEnd", "simulate"]

BoolArray = NDArray[np.bool_]


class SimulationEnd(NamedTuple):
    """Why a simulation ended, in words, and whether it reached its full duration."""

    why: str
    complete: bool


@dataclass(frozen=True)
class Output:
    """What a simulation writes, and where.

    Attributes
    ----------
    folder
        Folder for ``forces.csv`` (every step), ``fields.vtkhdf`` with its parts in ``fields/``, ``restart.h5``, and the
        videos ``vorticity.mp4`` and ``vorticity.gif``, named after the quantities shown; also ``record.csv`` and
        ``statistics.npz`` if the simulation has a recorder or statistics. Files of an earlier run are replaced.
    frames, snapshots
        Number of frames of the video and of times in the fields, evenly spaced over the duration. Each shows the first
        step at or after its time, so output never changes the size of a step.
    restart_from
        A ``restart.h5`` from which the run continues bit for bit, whatever its duration, frames and snapshots. Forces
        and fields next to it are continued if they are in ``folder``, otherwise they start again. The videos show the
        simulation from the restart on, and their names contain the time of the restart.
    max_size
        Maximum size of the folder in bytes. If forces or fields would exceed it, every other row or time is dropped,
        and from then on only every second one is written; a video that does not fit is omitted.
    control_volumes
        Whether to measure the forces also by the momentum balance of control volumes
        (:mod:`flowsim.measure.control_volumes`). It is on by default, because it shows whether the forces can be
        trusted and takes, for each body, no longer than a step on a small grid. Not available for a flow with a
        temperature.
    title
        Title of the frames, written with the Reynolds number.
    shown
        Quantities that the frames show, from top to bottom.
    follow
        Index of a body that the camera follows, showing half of the box.
    fps
        Frames per second of the video.
    netcdf
        Whether to write also ``record.nc`` and ``statistics.nc``.
    """

    folder: Path
    frames: int = 200
    snapshots: int = 10
    restart_from: Path | None = None
    max_size: int | None = None
    control_volumes: bool = True
    title: str = ""
    shown: Sequence[Quantity] = (VORTICITY,)
    follow: int | None = None
    fps: float = FPS
    netcdf: bool = False

    @property
    def film(self) -> str:
        """Name of the video, without a suffix."""
        return "-".join(quantity.name for quantity in self.shown)

    def picture(self, simulation: Simulation) -> Picture:
        """Draw a frame of the video."""
        return draw_flow(simulation, shown=self.shown, title=self.title, follow=self.follow)


# all output after a step is handled here, so that it never changes a step
def simulate(
    simulation: Simulation,
    duration: float,
    output: Output,
    *,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[float], None] = lambda done: None,
) -> SimulationEnd:
    """Run one simulation and write forces, fields, restarts and videos.

    Parameters
    ----------
    simulation
        A batch of one.
    duration
        Total duration in D/U, including the time before a restart; the first step that reaches it is the last one.
    output
        What is written.
    say
        Called with messages, such as about dropped output.
    progress
        Called with the fraction done, 0 to 1.

    Returns
    -------
    SimulationEnd
        Why the simulation ended: it reached its duration, a body left the box, or it diverged.

    Raises
    ------
    ConfigError
        For a restart file that does not match, or a maximum size that is too small.
    RunError
        If a file cannot be written.
    KeyboardInterrupt
        On Ctrl-C, with a message that says how to continue.
    """
    restart_from, film = output.restart_from, output.film
    notes = {} if restart_from is None else _restart(simulation, restart_from)
    begun = notes.get("begun", float(simulation.time[0]))
    _refuse_impossible(simulation, duration, begun, output)
    if output.control_volumes and simulation.heat is None:
        simulation.measure_control_volumes()
    measured = MeasuredFiles(simulation, output.folder, output.netcdf, duration)
    for notice in _notices(simulation, duration, begun, output, measured):
        say(notice)
    files = SimulationFiles(
        output.folder, simulation, notes, begun, restart_from, output.max_size, say,
        [f"{film}.mp4", f"{film}.gif"], output.shown, measured,
    )  # fmt: skip
    recorder = _Recorder(simulation, files.forces)

    def due(count: int) -> int:
        """Return how many of ``count`` evenly spaced times have passed."""
        return min(count, int((simulation.time[0] - begun) / duration * count + 1e-9))

    def pictures() -> Iterator[Picture]:
        # output does not change the steps of the solver: each output is taken at the first step
        # at or after its time, and is labelled with the time of that step
        frames, snapshots = output.frames, output.snapshots
        shot, number, over = due(frames), due(snapshots), False
        if not files.fields.times:
            files.save_fields(simulation, number, -1)
        files.save_restart(simulation, now=False)
        yield output.picture(simulation)
        while not over:
            simulation.step()
            over = recorder.record(simulation) or simulation.time[0] - begun >= duration
            if due(snapshots) > number or recorder.ending:
                files.save_fields(simulation, due(snapshots), -1 if recorder.ending else number)
                number = due(snapshots)
            if not simulation.diverged[0]:
                files.save_restart(simulation, now=over)
            if due(frames) > shot or over:
                picture = output.picture(simulation)
                # if a step is longer than the time between two frames, the frame is repeated
                yield from itertools.repeat(picture, max(1, due(frames) - shot))
                shot = due(frames)
                progress(shot / frames)

    suffix = f"-from-{simulation.time[0] - begun:.6g}" if restart_from else ""
    try:
        # videos are written to a temporary folder first, since their size is not known in advance
        with files, tempfile.TemporaryDirectory(prefix="flowsim-") as elsewhere:
            mp4, gif = (Path(elsewhere) / f"{film}{suffix}.{kind}" for kind in ("mp4", "gif"))
            write_films(pictures(), mp4=mp4, gif=gif, fps=output.fps, quantities=output.shown)
            files.take_film(mp4)
            files.take_film(gif)
    except KeyboardInterrupt as interruption:
        raise Interrupted(
            f"interrupted at time {simulation.time[0]:.4g}{files.resume_hint()}",
            number_of(interruption),
        ) from None
    except OSError as error:
        raise RunError(describe_os_error(error, output.folder) + files.resume_hint()) from error
    if recorder.ending:
        return SimulationEnd(recorder.ending, complete=False)
    return SimulationEnd(f"finished after {int(simulation.steps[0])} steps", complete=True)


def _refuse_impossible(
    simulation: Simulation, duration: float, begun: float, output: Output
) -> None:
    """Raise a ConfigError for a duration that is over already, and for a body that does not exist."""
    if simulation.time[0] - begun >= duration:
        raise ConfigError(
            f"--time {duration:g}: {output.restart_from} is already at {simulation.time[0] - begun:g} since the "
            "beginning"
        )
    if output.follow is not None and not 0 <= output.follow < len(simulation.bodies):
        raise ConfigError(
            f"--follow {output.follow}: this case has {len(simulation.bodies)} bodies, numbered from 0"
        )


def _notices(
    simulation: Simulation, duration: float, begun: float, output: Output, measured: MeasuredFiles
) -> Iterator[str]:
    """Say what is not measured, or only from the restart on."""
    if output.control_volumes and simulation.heat is not None and simulation.bodies:
        yield "forces.csv has one measure: control volumes do not include buoyancy"
    for file in measured.too_late(begun + duration):
        yield (
            f"{file} is not written: its first measurement is due after the end of the run, --time {duration:g}"
        )
    for file in measured.begun_late():
        yield (
            f"{file} begins at time {simulation.time[0]:.4g}: {output.restart_from} has no such measurement"
        )


def _restart(simulation: Simulation, path: Path) -> dict[str, float]:
    """Load the state of a restart file into the simulation and return the file's notes."""
    viscosity = simulation.viscosity.copy()
    try:
        notes = read_restart(path, simulation)
    except OSError as error:
        raise ConfigError(f"--restart-from {path}: {describe_os_error(error)}") from error
    except ValueError as error:
        raise ConfigError(f"--restart-from: {error}") from error
    if (simulation.viscosity != viscosity).any():
        raise ConfigError(
            f"--restart-from {path}: the simulation there has the viscosity {simulation.viscosity[0]:g}, "
            f"but this case has {viscosity[0]:g}"
        )
    if not notes.keys() >= {"begun", "rows", "row_stride", "snapshot_stride"}:
        raise ConfigError(f"--restart-from {path}: the file was not written by `flowsim simulate`")
    return notes


_STATE = ("x", "y", "angle", "velocity_x", "velocity_y", "angular_velocity")
_FORCES = ("force_x", "force_y", "torque", "power")


class _Recorder:
    """Writes a row of ``forces.csv`` per step, and detects divergence and bodies that leave the box."""

    def __init__(self, simulation: Simulation, table: ForceTable) -> None:
        self.ending = ""
        self._table = table
        balance = (
            ()
            if simulation.control_volumes is None
            else tuple(f"balance_{name}" for name in _FORCES)
        )
        names = (*_STATE, *_FORCES, *balance)
        table.begin(
            [
                "time",
                "dt",
                *(f"body{k}_{name}" for k in range(len(simulation.bodies)) for name in names),
            ]
        )

    def record(self, simulation: Simulation) -> bool:
        """Write the state of all bodies after a step; return whether to stop."""
        state, volumes = simulation.body_state, simulation.control_volumes
        columns = [state.position, state.angle, state.velocity, state.angular_velocity]
        columns += [state.force, state.torque, simulation.power()]
        if volumes is not None:
            columns += [volumes.force, volumes.torque, volumes.power()]
        bodies = np.column_stack([column[0] for column in columns])
        self._table.append([simulation.time[0], simulation.dt[0], *bodies.ravel()])
        gone = np.flatnonzero(_outside(simulation))
        if simulation.diverged[0]:
            self.ending = f"the simulation diverged at time {simulation.time[0]:.4g}"
        elif len(gone):
            self.ending = f"body {gone[0]} left the box at time {simulation.time[0]:.4g}"
        return bool(self.ending)


def _outside(simulation: Simulation) -> BoolArray:
    """Return which bodies have left the box through a side that is not periodic; shape (K,)."""
    position = simulation.body_state.position[0]
    beyond = ~((position > 0) & (position < simulation.grid.size)) & ~np.array(
        simulation.sides.periodic
    )
    return np.asarray(beyond.any(axis=1))
