"""Measurements of a case other than the forces of every step: settings, instruments and files."""

import math
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from coupling.errors import ConfigError
from flowsim import FieldStatistics, Recorder, Simulation
from flowsim.measure.files import require_xarray

__all__ = ["MeasuredFiles", "RecordSettings", "StatisticsSettings"]

_DIGITS = 17  # characters of a number in a table, including its comma
_FIELDS, _HEAT_FIELDS = 10, 4  # numbers per cell in a statistics file, and more with a temperature


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RecordSettings(_Settings):
    """Interval of the rows of ``record.csv``, in time or in steps."""

    every: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> "RecordSettings":
        if self.every is not None and self.steps is not None:
            raise ValueError("record has both every and steps; give only one of them")
        return self


class StatisticsSettings(_Settings):
    """Start time and sampling interval of the averages of the fields."""

    start: float = Field(default=0.0, ge=0)
    every: float = Field(default=0.1, gt=0)


class MeasuredFiles:
    """Files of a simulation's instruments: ``record.csv``, ``statistics.npz``, and optionally both as ``.nc``.

    Parameters
    ----------
    simulation
        The simulation with its instruments.
    output
        Output folder.
    netcdf
        Whether the files are also written as NetCDF.
    duration
        Total duration of the simulation in D/U, including the time before a restart; used by :meth:`bound`.

    Raises
    ------
    ConfigError
        If NetCDF is requested but there is nothing to write, or xarray or h5netcdf is not installed.
    """

    def __init__(self, simulation: Simulation, output: Path, netcdf: bool, duration: float) -> None:
        self._simulation, self._output, self._duration = simulation, output, duration
        self._netcdf = netcdf
        self._saves: dict[str, Recorder | FieldStatistics] = {}
        for instrument in simulation.instruments:
            if isinstance(instrument, Recorder | FieldStatistics):
                name, kind = (
                    ("record", ".csv")
                    if isinstance(instrument, Recorder)
                    else ("statistics", ".npz")
                )
                for ending in (kind, ".nc") if netcdf else (kind,):
                    self._saves[name + ending] = instrument
        if netcdf and not self._saves:
            raise ConfigError("--netcdf: this case has no probes, record or statistics")
        if netcdf:
            try:
                require_xarray()
            except RuntimeError as error:
                raise ConfigError(f"--netcdf: {error}") from error

    @property
    def names(self) -> set[str]:
        """Names of the files."""
        return set(self._saves)

    def save(self) -> None:
        """Write all measurements so far; statistics without samples are skipped."""
        for name, instrument in self._saves.items():
            if not isinstance(instrument, FieldStatistics) or np.any(instrument.samples):
                instrument.save(self._output / name)

    def too_late(self, end: float) -> list[str]:
        """Return the files that are not written by the time ``end``, because their first measurement is due later."""
        return [
            name
            for name, instrument in self._saves.items()
            if isinstance(instrument, FieldStatistics)
            and instrument.start[0] + (instrument.every or 0.0) > end
        ]

    def bound(self) -> int:
        """Return an upper bound of the files' size in bytes, including the recorded rows in the restart file.

        Files count twice, since a file that is rewritten exists twice for a moment. The size of the statistics in the
        restart file is constant, so it is not included.

        Raises
        ------
        ConfigError
            For a record by steps, since the number of steps is not known in advance.
        """
        total = 0
        cells = self._simulation.grid.nx * self._simulation.grid.ny
        for instrument in self._simulation.instruments:
            if isinstance(instrument, Recorder):
                if instrument.every is None:
                    raise ConfigError(
                        "--max-size needs record.every, because the number of steps is not known in advance"
                    )
                rows = math.ceil(self._duration / instrument.every) + 2
                numbers = rows * len(instrument.columns())
                total += 2 * (_DIGITS + (8 if self._netcdf else 0) + 8) * numbers
            elif isinstance(instrument, FieldStatistics):
                fields = _FIELDS + (0 if self._simulation.heat is None else _HEAT_FIELDS)
                total += 2 * 8 * (2 if self._netcdf else 1) * fields * cells
        return total

    def begun_late(self) -> list[str]:
        """Return the files whose measurements start at the restart, because the restart file has none of them."""
        late = []
        if self._simulation.time[0] > 0:
            for instrument in self._simulation.instruments:
                if isinstance(instrument, Recorder) and not len(instrument.rows()):
                    late.append("record.csv")
                if (
                    isinstance(instrument, FieldStatistics)
                    and not np.any(instrument.samples)
                    and instrument.start[0] + (instrument.every or 0.0) <= self._simulation.time[0]
                ):
                    late.append("statistics.npz")
        return late
