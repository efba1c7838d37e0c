"""The solver alone: forces, fields, restarts and films of one simulation, in a folder of bounded size."""

import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from coupling.errors import ConfigError, RunError, describe_os_error
from flowsim import Simulation
from flowsim.io import FieldSeries, pack_fields, pack_restart, read_restart, write_restart, write_whole
from flowsim.viz import (
    VORTICITY_LIMIT,
    Outline,
    Picture,
    Scene,
    outline,
    reduce_picture,
    vorticity_picture,
    write_gif,
    write_mp4,
)

__all__ = ["parse_size", "simulate"]

_FPS = 20.0
_WIDTH = 960
_GIF_FRAMES = 160
_GIF_WIDTH = 480
_RESTART_EVERY = 30.0  # seconds
_ROOM = 32_768  # bytes of a file beyond its numbers, at most


def simulate(
    simulation: Simulation,
    duration: float,
    output: Path,
    *,
    frames: int = 200,
    snapshots: int = 10,
    restart_from: Path | None = None,
    max_size: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[float], None] = lambda done: None,
) -> str:
    """Run one simulation and write forces, fields, restarts and films.

    Parameters
    ----------
    simulation
        A batch of one.
    duration
        Time in D/U from the very beginning, what was done before a restart included.
    output
        Folder for ``forces.csv`` (every step), ``fields.vtkhdf`` with the parts in ``fields/``, ``restart.h5`` and the
        films ``vorticity.mp4`` and ``vorticity.gif``. What an older run left there is replaced.
    frames, snapshots
        Number of pictures and of times in the fields, evenly spaced over the duration.
    restart_from
        A ``restart.h5``, from which a run of the same duration, frames and snapshots goes on to the bit. Forces and
        fields beside it are continued when they are in ``output``, and begun anew elsewhere; the films show what
        is simulated now, and carry the time from which they do so in their names.
    max_size
        Bytes that the folder never exceeds. Where forces or fields would, every other row or time is dropped and from
        then on only every second one is written; a film that does not fit is left out.
    say
        Told what was dropped.
    progress
        Called with the part that is done, 0 to 1.

    Returns
    -------
    str
        Why it ended: the time is over, a body left the box, or the simulation diverged.

    Raises
    ------
    ConfigError
        For a restart file that does not fit, or a size that is too small.
    RunError
        When a file cannot be written.
    KeyboardInterrupt
        On Ctrl-C, saying how to go on.
    """
    notes = {} if restart_from is None else _restart(simulation, restart_from)
    begun, interval = notes.get("begun", float(simulation.time[0])), duration / frames
    first = int((simulation.time[0] - begun) / interval + 1e-6)
    if first >= frames:
        raise ConfigError(
            f"--time {duration:g}: {restart_from} is already at {simulation.time[0] - begun:g} since the beginning"
        )
    files = _Files(output, simulation, notes, begun, restart_from, max_size, say)
    kept: list[Picture] = []
    stride = -(-frames // _GIF_FRAMES)
    recorder = _Recorder(simulation, files.forces)

    def pictures() -> Iterator[Picture]:
        for n in range(first, frames + 1):
            if n > first:
                # the times to land on count from the beginning, so that a resumed run lands on the same ones
                simulation.advance(begun + n * interval - simulation.time[0], stop=recorder.record)
            number = n * snapshots // frames
            if number > (n - 1) * snapshots // frames and (n > first or not files.fields.times):
                files.save_fields(simulation, number)
            if not simulation.diverged[0]:
                files.save_restart(simulation, now=n == frames or bool(recorder.ending))
            picture = _picture(simulation)
            if n % stride == 0:
                kept.append(reduce_picture(picture, _GIF_WIDTH))
            yield picture
            progress(n / frames)
            if recorder.ending:
                return

    suffix = f"-from-{simulation.time[0] - begun:.6g}" if restart_from else ""
    try:
        # films are made elsewhere, for nobody knows their size before they are finished
        with files, tempfile.TemporaryDirectory(prefix="flowsim-") as elsewhere:
            film = Path(elsewhere) / f"vorticity{suffix}.mp4"
            write_mp4(film, pictures(), _FPS)
            files.take_film(film)
            if kept:
                write_gif(film.with_suffix(".gif"), kept, _FPS / stride)
                files.take_film(film.with_suffix(".gif"))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted at time {simulation.time[0]:.4g}{files.how_to_go_on()}") from None
    except OSError as error:
        raise RunError(describe_os_error(error, output) + files.how_to_go_on()) from error
    return recorder.ending or f"the time is over after {int(simulation.steps[0])} steps"


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``500``, ``500MB`` (both 500 million) or ``1.5GiB``.

    Raises
    ------
    ConfigError
        When it is no size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]i?B|)", text.strip())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--max-size {text}: a size is a number of MB, or one with kB, MB, GB, TB, KiB, MiB, ...")
    number, unit = float(match[1]), match[2] or "MB"
    return int(number * (1024 if "i" in unit else 1000) ** (1 + "kMGT".index(unit[0])))


def _restart(simulation: Simulation, path: Path) -> dict[str, float]:
    """Bring the simulation to the state of a restart file and return its notes."""
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


class _Files:
    """What a run writes but for its pictures, kept under a size. Use it as a context, which closes the forces."""

    def __init__(
        self,
        output: Path,
        simulation: Simulation,
        notes: dict[str, float],
        begun: float,
        restart_from: Path | None,
        max_size: int | None,
        say: Callable[[str], None],
    ) -> None:
        self._output, self._begun, self._max_size, self._say = output, begun, max_size, say
        self._restart, self._restart_time = output / "restart.h5", None if restart_from is None else simulation.time[0]
        self._restart_from, self._restarted = restart_from, time.monotonic()
        goes_on = restart_from is not None and restart_from.parent.resolve() == output.resolve()
        until = float(simulation.time[0]) if goes_on else None
        if not goes_on:
            notes = {}  # what was dropped in another folder is of no concern in this one
        self._snapshot_stride = int(notes.get("snapshot_stride", 1))
        forces_limit, self._fields_limit = self._share(simulation, goes_on)
        output.mkdir(parents=True, exist_ok=True)
        if not goes_on:
            for name in ("vorticity.mp4", "vorticity.gif"):
                (output / name).unlink(missing_ok=True)
        self.forces = _ForceTable(
            output / "forces.csv",
            forces_limit,
            say,
            until=until,
            rows=int(notes.get("rows", 0)),
            stride=int(notes.get("row_stride", 1)),
        )
        self._written_strides = self._strides()
        self.fields = FieldSeries(output / "fields.vtkhdf", simulation.grid, simulation.dtype, until)
        while len(self.fields.times) > 1 and self.fields.size() > self._fields_limit:
            self._thin_fields(simulation)

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        self.forces.close()

    def _share(self, simulation: Simulation, goes_on: bool) -> tuple[float, float]:
        """Return how many bytes forces and fields may have: a quarter of all is for the films, given at the end."""
        if self._max_size is None:
            return math.inf, math.inf
        ours = {"fields.vtkhdf", "fields", "forces.csv", "restart.h5"}
        ours |= set() if goes_on else {"vorticity.mp4", "vorticity.gif"}
        others = sum(_size(path) for path in self._output.glob("*") if path.name not in ours)
        restarts = 2 * (len(pack_restart(simulation)) + _ROOM)  # while one is written, the last one is still there
        snapshot = simulation.grid.nx * simulation.grid.ny * 6 * simulation.dtype.itemsize + _ROOM
        needed = math.ceil((others + restarts + 6 * snapshot) * 4 / 3)
        if self._max_size < needed:
            raise ConfigError(
                f"--max-size = {self._max_size / 1e6:.2f} MB: "
                f"this simulation needs at least {needed / 1e6:.2f} MB in {self._output}"
            )
        left = 0.75 * self._max_size - others - restarts
        # a table that is thinned is there one and a half times
        return left / 4 / 1.5, left * 3 / 4

    def save_fields(self, simulation: Simulation, number: int) -> None:
        """Append the fields of the snapshot with this number, unless so many are no longer written."""
        if number % self._snapshot_stride:
            return
        content = pack_fields(simulation)
        while self.fields.size_with(content) > self._fields_limit:
            self._thin_fields(simulation)
            if number % self._snapshot_stride:
                return
        self.fields.append(float(simulation.time[0]), content)

    def _thin_fields(self, simulation: Simulation) -> None:
        self.fields.thin()
        self._snapshot_stride *= 2
        self._say(
            f"{self.fields.path}: every other time is dropped to keep below --max-size; "
            f"from time {simulation.time[0]:.4g} on, 1 snapshot of {self._snapshot_stride} is written"
        )

    def _strides(self) -> dict[str, float]:
        return {"row_stride": self.forces.stride, "snapshot_stride": self._snapshot_stride}

    def save_restart(self, simulation: Simulation, now: bool) -> None:
        """Write a restart file if it is to be now, or if the last one is old."""
        old = self._restart_time is None or time.monotonic() - self._restarted > _RESTART_EVERY
        if now or old or self._strides() != self._written_strides:
            self.forces.flush()
            notes = {"begun": self._begun, "rows": self.forces.rows} | self._strides()
            write_restart(self._restart, simulation, notes)
            self._restarted, self._restart_time = time.monotonic(), simulation.time[0]
            self._restart_from, self._written_strides = self._restart, self._strides()

    def take_film(self, film: Path) -> None:
        """Move a finished film into the folder, if it fits."""
        self.forces.flush()
        target = self._output / film.name
        old = target.stat().st_size if target.exists() else 0
        if self._max_size is not None and _size(self._output) - old + film.stat().st_size > self._max_size:
            self._say(f"{target}: left out, its {film.stat().st_size / 1e6:.2f} MB do not fit into --max-size")
            return
        target.unlink(missing_ok=True)
        write_whole(target, film.read_bytes())

    def how_to_go_on(self) -> str:
        """Return the end of a sentence on a run that was stopped."""
        if self._restart_time is None:
            return ""
        return f"; --restart-from {self._restart_from} goes on from time {self._restart_time:.4g}"


class _ForceTable:
    """A CSV file with a row a step, or every second, fourth, ... step once it has reached its limit."""

    def __init__(
        self, path: Path, limit: float, say: Callable[[str], None], *, until: float | None, rows: int, stride: int
    ) -> None:
        self.rows, self.stride = rows, stride  # rows: offered since the beginning, whether written or not
        self._path, self._limit, self._say, self._until = path, limit, say, until

    def begin(self, columns: list[str]) -> None:
        """Write the names of the columns, or go on with the rows that are there already."""
        header, kept = ",".join(columns) + "\n", ""
        if self._until is not None and self._path.exists():
            there, *rows = self._lines()
            if there != header:
                raise ConfigError(f"{self._path} has other columns than this version writes: go on in another folder")
            # times have nine digits there, and the next step is much further away than the last of them
            kept = "".join(row for row in rows if float(row.split(",")[0]) <= self._until * (1 + 1e-8))
        write_whole(self._path, (header + kept).encode())
        self._file = self._path.open("a")
        self._size = len(header + kept)
        self._fit(0)

    def append(self, values: Sequence[float]) -> None:
        """Write a row, if it is the turn of one."""
        self.rows += 1
        line = ",".join(f"{value:.9g}" for value in values) + "\n"
        if self.rows % self.stride == 0:
            self._fit(len(line))
        if self.rows % self.stride == 0:
            self._file.write(line)
            self._size += len(line)

    def _fit(self, more: int) -> None:
        """Drop every other row until there is room."""
        while self._size + more > self._limit:
            self._file.close()
            header, *rows = self._lines()
            content = header + "".join(rows[1::2])
            write_whole(self._path, content.encode())
            self._file, self._size = self._path.open("a"), len(content)
            self.stride *= 2
            self._say(
                f"{self._path}: every other row is dropped to keep below --max-size; "
                f"from now on, 1 step of {self.stride} is written"
            )

    def _lines(self) -> list[str]:
        """Return all whole lines; a torn last one, left by a full disk or a kill, is none."""
        with self._path.open() as file:
            return [line for line in file if line.endswith("\n")] or [""]

    def flush(self) -> None:
        """Hand all rows to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


class _Recorder:
    """Writes a row a step, and notices when there is no use in going on."""

    def __init__(self, simulation: Simulation, table: _ForceTable) -> None:
        self.ending = ""
        self._table = table
        names = [
            "x",
            "y",
            "angle",
            "velocity_x",
            "velocity_y",
            "angular_velocity",
            "force_x",
            "force_y",
            "torque",
        ]
        bodies = range(len(simulation.bodies))
        table.begin(["time", "dt", *(f"body{k}_{name}" for k in bodies for name in names)])

    def record(self, simulation: Simulation) -> np.ndarray:
        """Write the state of all bodies after a step; tell whether to stop."""
        state = simulation.body_state
        row = [simulation.time[0], simulation.dt[0]]
        for k in range(len(simulation.bodies)):
            row += [
                *state.position[0, k],
                state.angle[0, k],
                *state.velocity[0, k],
                state.angular_velocity[0, k],
            ]
            row += [*state.force[0, k], state.torque[0, k]]
        self._table.append(row)
        width, height = simulation.grid.size
        inside = (state.position[0] > 0) & (state.position[0] < (width, height))
        if simulation.diverged[0]:
            self.ending = f"the simulation diverged at time {simulation.time[0]:.4g}"
        elif not inside.all():
            self.ending = f"body {np.argmin(inside.all(axis=1))} left the box at time {simulation.time[0]:.4g}"
        return np.array([bool(self.ending)])


def _picture(simulation: Simulation) -> Picture:
    state = simulation.body_state
    outlines = [
        Outline(outline(body, state.position[0, k], float(state.angle[0, k])), agent=body.motion == "free")
        for k, body in enumerate(simulation.bodies)
    ]
    scene = Scene(simulation.vorticity()[0], simulation.grid.size, outlines)
    return _even(np.asarray(vorticity_picture(scene, _WIDTH, VORTICITY_LIMIT)))


def _even(picture: Picture) -> Picture:
    """Cut a line or column that the film's codec cannot take."""
    height, width, _ = picture.shape
    return picture[: height - height % 2, : width - width % 2]
