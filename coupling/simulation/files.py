"""The output folder of a simulation: forces, fields, restarts and videos, within a maximum size."""

import contextlib
import fcntl
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from coupling.errors import ConfigError, RunError
from coupling.files import reporting_damage
from coupling.simulation.measures import MeasuredFiles
from flowsim import Simulation
from flowsim.io import (
    FieldSeries,
    other_fields,
    pack_fields,
    pack_restart,
    write_restart,
    write_whole,
)
from flowsim.render.quantities import TEMPERATURE, Quantity

__all__ = ["ForceTable", "SimulationFiles", "parse_size"]

_RESTART_EVERY = 30.0  # seconds
_LARGEST = 1e30  # of a size, in its unit
_ROOM = 32_768  # upper bound of a file's overhead, bytes


def parse_size(text: str) -> int:
    """Convert a size such as ``500``, ``500MB`` (both 500 million) or ``1.5GiB`` to bytes.

    Raises
    ------
    ConfigError
        If the text is not a size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]i?B|)", text.strip())
    if match is None or not 0 < float(match[1]) < _LARGEST:
        raise ConfigError(
            f"--max-size {text}: a size is a number of MB, or one with kB, MB, GB, TB, KiB, MiB, ..."
        )
    number, unit = float(match[1]), match[2] or "MB"
    return int(number * (1024 if "i" in unit else 1000) ** (1 + "kMGT".index(unit[0])))


class SimulationFiles:
    """Output files of a simulation, kept within a maximum size. Used as a context manager, which closes the files."""

    # arguments: the options of the command, and what an earlier run has left
    def __init__(
        self,
        output: Path,
        simulation: Simulation,
        notes: dict[str, float],
        begun: float,
        restart_from: Path | None,
        max_size: int | None,
        say: Callable[[str], None],
        films: Sequence[str] = (),
        shown: Sequence[Quantity] = (),
        measured: MeasuredFiles | None = None,
    ) -> None:
        if simulation.heat is not None:
            shown = [*shown, *(() if TEMPERATURE in shown else (TEMPERATURE,))]
        self._shown, self._measured = shown, measured
        self._output, self._begun, self._max_size, self._say = output, begun, max_size, say
        self._restart, self._restart_time = (
            output / "restart.h5",
            None if restart_from is None else simulation.time[0],
        )
        self._restart_from, self._restarted = restart_from, time.monotonic()
        continues = restart_from is not None and restart_from.parent.resolve() == output.resolve()
        until = float(simulation.time[0]) if continues else None
        if not continues:
            notes = {}  # strides of another folder do not apply to this one
        self._snapshot_stride = int(notes.get("snapshot_stride", 1))
        forces_limit, self._fields_limit = self._share(simulation, continues, films)
        output.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(output)
        if not continues:
            for name in films:
                (output / name).unlink(missing_ok=True)
        self.forces = ForceTable(
            output / "forces.csv",
            forces_limit,
            say,
            until=until,
            rows=int(notes.get("rows", 0)),
            stride=int(notes.get("row_stride", 1)),
        )
        self._written_strides = self._strides()
        fields = output / "fields.vtkhdf"
        with _reporting_unreadable(fields):
            self.fields = FieldSeries(fields, simulation.grid, simulation.dtype, until, shown)
        while len(self.fields.times) > 1 and self.fields.size() > self._fields_limit:
            self._thin_fields(simulation)

    def __enter__(self) -> "SimulationFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.forces.close()
        if self._measured is not None and not (kind and issubclass(kind, OSError)):
            self._measured.save()
        self._lock.close()

    def _share(
        self, simulation: Simulation, continues: bool, films: Sequence[str]
    ) -> tuple[float, float]:
        """Return the maximum bytes of forces and of fields; a quarter of the total is reserved for the videos."""
        if self._max_size is None:
            return math.inf, math.inf
        ours = {"fields.vtkhdf", "fields", "forces.csv", "restart.h5"}
        ours |= set() if continues else set(films)
        ours |= set() if self._measured is None else self._measured.names
        others = sum(_size(path) for path in self._output.glob("*") if path.name not in ours)
        # while a restart file is written, the previous one still exists
        restarts = 2 * (len(pack_restart(simulation)) + _ROOM)
        restarts += 0 if self._measured is None else self._measured.bound()
        numbers = simulation.grid.nx * simulation.grid.ny * (6 + len(other_fields(self._shown)))
        snapshot = numbers * simulation.dtype.itemsize + _ROOM
        needed = math.ceil((others + restarts + 6 * snapshot) * 4 / 3)
        if self._max_size < needed:
            raise ConfigError(
                f"--max-size = {self._max_size / 1e6:.2f} MB: "
                f"this simulation needs at least {needed / 1e6:.2f} MB in {self._output}"
            )
        left = 0.75 * self._max_size - others - restarts
        # while the table is thinned, it takes one and a half times its size
        return left / 4 / 1.5, left * 3 / 4

    def save_fields(self, simulation: Simulation, number: int, before: int) -> None:
        """Append the fields of a snapshot, unless the snapshot stride skips it.

        ``number`` is the number of snapshots due now and ``before`` that after the last step; they may differ by more
        than one, since a step can be longer than the time between two snapshots.
        """
        content = pack_fields(simulation, more=self._shown)
        while number // self._snapshot_stride > before // self._snapshot_stride:
            if self.fields.size_with(content) <= self._fields_limit:
                self.fields.append(float(simulation.time[0]), content)
                return
            self._thin_fields(simulation)

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
        """Write a restart file if ``now`` is true or the last one is old."""
        old = self._restart_time is None or time.monotonic() - self._restarted > _RESTART_EVERY
        if now or old or self._strides() != self._written_strides:
            self.forces.flush()
            notes = {"begun": self._begun, "rows": self.forces.rows} | self._strides()
            write_restart(self._restart, simulation, notes)
            if self._measured is not None:
                self._measured.save()
            self._restarted, self._restart_time = time.monotonic(), simulation.time[0]
            self._restart_from, self._written_strides = self._restart, self._strides()

    def take_film(self, film: Path) -> None:
        """Move a finished video into the folder if it fits into the maximum size."""
        self.forces.flush()
        target = self._output / film.name
        old = target.stat().st_size if target.exists() else 0
        if (
            self._max_size is not None
            and _size(self._output) - old + film.stat().st_size > self._max_size
        ):
            self._say(
                f"{target}: not written, because its {film.stat().st_size / 1e6:.2f} MB do not fit into --max-size"
            )
            return
        target.unlink(missing_ok=True)
        write_whole(target, film.read_bytes())

    def resume_hint(self) -> str:
        """Return the end of a message about an interrupted run that says how to continue it."""
        if self._restart_time is None:
            return ""
        return f"; --restart-from {self._restart_from} continues from time {self._restart_time:.4g}"


class ForceTable:
    """A CSV file with a row per step, or per second, fourth, ... step once it has reached its maximum size."""

    def __init__(
        self,
        path: Path,
        limit: float,
        say: Callable[[str], None],
        *,
        until: float | None,
        rows: int,
        stride: int,
    ) -> None:
        # rows: number of rows since the beginning, whether written or not
        self.rows, self.stride = rows, stride
        self._path, self._limit, self._say, self._until = path, limit, say, until

    def begin(self, columns: list[str]) -> None:
        """Write the header, or continue the existing rows up to the restart time."""
        header, kept = ",".join(columns) + "\n", ""
        if self._until is not None and self._path.exists():
            there, *rows = self._lines()
            if there != header:
                raise ConfigError(
                    f"{self._path} has other columns than this run writes: write into another folder"
                )
            # times are written with nine digits, whose precision is much finer than a step
            with reporting_damage(self._path):
                kept = "".join(
                    row for row in rows if float(row.split(",")[0]) <= self._until * (1 + 1e-8)
                )
        write_whole(self._path, (header + kept).encode())
        self._file = self._path.open("a")
        self._size = len(header + kept)
        self._fit(0)

    def append(self, values: Sequence[float]) -> None:
        """Write a row, unless the stride skips it."""
        self.rows += 1
        line = ",".join(f"{value:.9g}" for value in values) + "\n"
        if self.rows % self.stride == 0:
            self._fit(len(line))
        if self.rows % self.stride == 0:
            self._file.write(line)
            self._size += len(line)

    def _fit(self, more: int) -> None:
        """Drop every other row until there is enough room."""
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
        """Return all complete lines, without a partial last one left by a full disk or a kill."""
        with self._path.open() as file:
            return [line for line in file if line.endswith("\n")] or [""]

    def flush(self) -> None:
        """Flush all rows to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextlib.contextmanager
def _reporting_unreadable(path: Path) -> Iterator[None]:
    """Report an HDF5 file that cannot be continued as damaged.

    Raises
    ------
    RunError
        If its content cannot be interpreted; errors of the operating system stay as they are.
    """
    try:
        with reporting_damage(path):
            yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise RunError(f"{path} is damaged: {error}") from error


def _lock(output: Path) -> IO[str]:
    """Lock the folder until the returned file is closed or the process ends.

    Raises
    ------
    ConfigError
        If another simulation is writing into the folder.
    """
    file = (output / ".lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(
            f"{output}: another `flowsim simulate` is writing into this folder; choose another one with -o"
        ) from None
    return file


def _size(path: Path) -> int:
    """Return the size in bytes of a file, or of all files in a folder and its subfolders."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
