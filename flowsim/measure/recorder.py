"""Time series of a simulation: loads and motion of bodies, probes, and heat fluxes through sides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend.step import fill_ghosts, fill_temperature
from flowsim.boundary import SIDE_NAMES
from flowsim.kernels.recording import (
    BODY_COLUMNS,
    FLOW_COLUMNS,
    LOADS,
    PROBE_COLUMNS,
    Log,
)
from flowsim.measure.files import save_arrays, to_dataset
from flowsim.measure.heat import conduction
from flowsim.measure.instrument import Instrument, check_flow
from flowsim.measure.spectra import strouhal_number

if TYPE_CHECKING:
    import xarray

    from flowsim.simulation import Simulation

FloatArray = NDArray[np.float64]

ROOM = 512
"""Rows of each flow that the device buffers before they are copied to the host."""
OF_A_FLOW = ("time", "dt", "step", "interval")
OF_A_BODY = (
    *("x", "y", "angle", "velocity_x", "velocity_y", "angular_velocity"),
    *("force_x", "force_y", "torque", "power"),
    *("mean_force_x", "mean_force_y", "mean_torque", "mean_power"),
)
OF_A_PROBE = ("velocity_x", "velocity_y", "pressure")
"""Names of the columns of a CSV file; those of bodies and probes have a prefix such as ``body0_`` or ``probe0_``."""
DIMENSIONS = {
    "flow": (),
    "body": ("body",),
    "probe": ("probe",),
    "side": ("side",),
    "heat": ("probe",),
}
"""Dimensions of each kind of columns."""


class _Section(NamedTuple):
    """Columns of a row: first column, number of bodies, probes or sides, and columns of each."""

    start: int
    number: int
    width: int


class _Columns:
    """Descriptor that returns columns of a recorder as an array (B, n, ...)."""

    def __init__(self, kind: str, first: int, count: int = 1) -> None:
        self.kind, self.first, self.count = kind, first, count

    def __get__(self, recorder: Recorder | None, owner: type | None = None) -> FloatArray:
        assert recorder is not None
        return recorder._part(self.kind, self.first, self.count)


class Recorder(Instrument):
    """Records bodies and probes from its creation on, in every step or at an interval.

    Compiled code writes the rows where the simulation runs, so recording costs next to nothing on the CPU and on a GPU.

    Parameters
    ----------
    flow : Simulation
    every : float, optional
        Time between two rows, in units of D/U. A row belongs to the first step that ends at or after its due time.
    steps : int, optional
        Alternatively, number of steps between two rows; every step unless either is given.
    start : float, optional
        Time at which to start, also after a reset of the flow; now, and at once after a reset, unless given.
    probes : (P, 2), optional
        Points of the box at which velocity and pressure are recorded.

    Attributes
    ----------
    time, dt, step, interval : (B, n)
        Time, size and number of the step of each row, and the time since the previous row.
    position, velocity : (B, n, K, 2)
        Position and velocity of the reference points of the bodies.
    angle, angular_velocity : (B, n, K)
    force : (B, n, K, 2)
    torque, power : (B, n, K)
        Force, torque and power of the fluid on the bodies in that step, in units of rho U^2 D, rho U^2 D^2 and
        rho U^3 D.
    mean_force, mean_torque, mean_power
        Means over all steps since the previous row, weighted by the step size; same shapes.
    probe_velocity : (B, n, P, 2)
        Velocity at the probes, by linear interpolation between faces.
    probe_pressure : (B, n, P)
        Pressure at the probes relative to the static pressure of the stream
        (:func:`flowsim.measure.surface.stream_pressure`).
    probe_temperature : (B, n, P)
        Temperature at the probes, for a flow with a temperature.
    heat_flux : (B, n, 4)
        For a flow with a temperature: mean diffusive temperature flux into the box through the left, right, bottom and
        top side, in units of U times that of temperature; NaN for periodic sides.
    probes : (P, 2)

    Flows with fewer rows than others of the batch are padded with NaN.

    Raises
    ------
    ValueError
        For probes outside the box, and as for :class:`flowsim.measure.instrument.Instrument`.
    """

    time, dt, step, interval = (_Columns("flow", n) for n in range(4))
    position, angle = _Columns("body", 0, 2), _Columns("body", 2)
    velocity, angular_velocity = _Columns("body", 3, 2), _Columns("body", 5)
    force, torque, power = _Columns("body", 6, 2), _Columns("body", 8), _Columns("body", 9)
    mean_force, mean_torque = _Columns("body", 10, 2), _Columns("body", 12)
    mean_power = _Columns("body", 13)
    probe_velocity, probe_pressure = _Columns("probe", 0, 2), _Columns("probe", 2)
    heat_flux, probe_temperature = _Columns("side", 0), _Columns("heat", 0)

    def __init__(
        self,
        flow: Simulation,
        *,
        every: float | None = None,
        steps: int | None = None,
        start: float | None = None,
        probes: ArrayLike = (),
    ) -> None:
        check_flow(flow)
        self.probes = _points(probes, flow.grid.size)
        device, bodies = flow._device, len(flow.bodies)
        self._heated = flow.heat is not None
        self._sections, width = _sections(bodies, len(self.probes), self._heated)
        self._log = Log(
            probes=device.array(self.probes),
            sums=device.zeros((flow.batch, bodies, LOADS), np.float64),
            rows=device.zeros((flow.batch, ROOM, width), np.float64),
            count=device.zeros((flow.batch,), np.int64),
        )
        self._parts: list[list[FloatArray]] = [[] for _ in range(flow.batch)]
        super().__init__(flow, every=every, steps=steps, start=start)

    def look(self, active: Any) -> None:
        """Call the sweeps that write rows for the flows that are due at the end of a step."""
        super().look(active)
        s = self._flow._device_state
        if len(self.probes):
            fill_ghosts(s)  # of all flows: those that have reached their end are measured as well
        if s.heat is not None:
            fill_temperature(s, s.everyone)
            own = s.clock, s.heat.temperature, s.box, self._schedule, self._log
            s.sweeps.record_temperature(active, *own, len(self._flow.bodies))
        s.sweeps.record(active, s.clock, s.fields, s.bodies, s.box.h, self._schedule, self._log)

    def collect(self) -> None:
        """Copy the rows to the host."""
        counts = self._flow.to_host(self._log.count)
        if counts.any():
            rows = self._flow.to_host(self._log.rows[:, : int(counts.max())])
            for b in np.flatnonzero(counts):
                self._parts[b].append(rows[b, : counts[b]].copy())
            self._log.count[:] = 0

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of the complete state, including all rows."""
        rows = {f"rows{b}": self.rows(b) for b in range(self._flow.batch)}
        sums = self._flow.to_host(self._log.sums).copy()
        return super().get_state() | {"sums": sums, "probes": self.probes} | rows

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from the state of another recorder."""
        super().set_state(state)
        self.clear()
        self._log.sums[:] = self._flow._device.array(state["sums"])
        self._parts = [[state[f"rows{b}"]] for b in range(self._flow.batch)]

    def fits(self, state: dict[str, NDArray[Any]]) -> bool:
        """Return whether a state is of a recorder with the same bodies and probes."""
        return (
            super().fits(state)
            and state["sums"].shape == self._log.sums.shape
            and np.array_equal(state["probes"], self.probes)
        )

    def rows(self, b: int = 0) -> FloatArray:
        """Return the rows (n, columns) of one flow, in the order of :meth:`columns`."""
        self.collect()
        if len(self._parts[b]) != 1:
            empty = np.zeros((0, self._log.rows.shape[-1]))
            self._parts[b] = [np.concatenate([empty, *self._parts[b]])]
        return self._parts[b][0]

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        bodies, probes = range(len(self._flow.bodies)), range(len(self.probes))
        return [
            *OF_A_FLOW,
            *(f"body{k}_{name}" for k in bodies for name in OF_A_BODY),
            *(f"probe{m}_{name}" for m in probes for name in OF_A_PROBE),
            *(f"heat_flux_{name}" for name in (SIDE_NAMES if self._heated else ())),
            *(f"probe{m}_temperature" for m in (probes if self._heated else ())),
        ]

    def clear(self) -> None:
        """Delete all rows."""
        self.collect()
        self._parts = [[] for _ in self._parts]

    def _part(self, kind: str, first: int, count: int) -> FloatArray:
        """Return columns of one kind for all flows, padded with NaN to the largest number of rows."""
        if kind in ("side", "heat"):
            self._flow._needs_heat()
        series = [self.rows(b) for b in range(self._flow.batch)]
        values = np.full((len(series), max(map(len, series)), series[0].shape[1]), np.nan)
        for b, rows in enumerate(series):
            values[b, : len(rows)] = rows
        section = self._sections[kind]
        part = values[..., section.start : section.start + section.number * section.width]
        each = part.reshape(*values.shape[:2], section.number, section.width)
        each = each[..., first] if count == 1 else each[..., first : first + count]
        return each[..., 0] if kind == "flow" else each

    # --- derived numbers and files -----------------------------------------------------------------------------------

    def strouhal_number(self, body: int = 0, *, after: float = 0.0) -> FloatArray:
        """Return the vortex shedding frequency of a body from the spectrum of its lift; shape (B,).

        Lift is the force across the stream; with D = U = 1 its frequency is the Strouhal number f D / U
        (:func:`flowsim.measure.spectra.strouhal_number`).

        Parameters
        ----------
        body : int
        after : float
            Time from which rows are used.

        Raises
        ------
        ValueError
            For a body that does not exist, and a record that is too short for a frequency, or does not oscillate.
        """
        if not 0 <= body < len(self._flow.bodies):
            raise ValueError(
                f"body = {body!r}: there are {len(self._flow.bodies)} bodies, numbered from 0"
            )
        stream = self._flow.stream
        across = int(abs(stream[0]) >= abs(stream[1]))
        found = []
        for time, lift in zip(self.time, self.force[:, :, body, across], strict=True):
            late = time >= after
            found.append(strouhal_number(time[late], lift[late]))
        return np.array(found)

    def nusselt_number(self, side: str) -> FloatArray:
        """Return the Nusselt number of a side in every row, :attr:`heat_flux` over that of conduction; shape (B, n).

        The flux of conduction is as in :func:`flowsim.nusselt_number`, with the current temperatures of the sides.

        Raises
        ------
        ValueError
            As for :func:`flowsim.nusselt_number`.
        """
        conducted = conduction(self._flow, side)
        return np.asarray(self.heat_flux[..., SIDE_NAMES.index(side)] / conducted[:, None])

    def arrays(self) -> dict[str, FloatArray]:
        """Return all series by name, and ``probes``."""
        shown = [
            name
            for name, it in vars(Recorder).items()
            if isinstance(it, _Columns) and self._sections[it.kind].number
        ]
        return {name: getattr(self, name) for name in shown} | {"probes": self.probes}

    def to_xarray(self) -> xarray.Dataset:
        """Return all series as a dataset with the dimensions flow, row, body, probe, side and axis.

        Raises
        ------
        RuntimeError
            If xarray is not installed.
        """
        dimensions = {
            name: ("flow", "row", *DIMENSIONS[it.kind], *(("axis",) if it.count > 1 else ()))
            for name, it in vars(Recorder).items()
            if isinstance(it, _Columns)
        }
        return to_dataset(self.arrays(), dimensions | {"probes": ("probe", "axis")})

    def save(self, path: str | Path) -> Path:
        """Write all rows to a file, atomically.

        Parameters
        ----------
        path
            ``.npz``: the arrays by name. ``.csv``: one line per row, with a column ``flow`` if there are several flows.
            ``.nc``: NetCDF, by xarray.

        Raises
        ------
        ValueError
            For another suffix.
        RuntimeError
            For ``.nc`` if xarray or h5netcdf is not installed.
        """
        path = Path(path)
        if path.suffix == ".csv":
            return self._save_table(path)
        return save_arrays(path, self.arrays(), self.to_xarray, also=(".csv",))

    def _save_table(self, path: Path) -> Path:
        from flowsim.io import write_whole

        several = self._flow.batch > 1
        lines = [",".join([*(["flow"] if several else []), *self.columns()])]
        for b in range(self._flow.batch):
            first = f"{b}," if several else ""
            lines += [first + ",".join(f"{value:.9g}" for value in row) for row in self.rows(b)]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, ("\n".join(lines) + "\n").encode())
        return path


def _sections(bodies: int, probes: int, heated: bool) -> tuple[dict[str, _Section], int]:
    """Return the section of a row for each kind of columns, and the total number of columns."""
    parts = {
        "flow": (1, FLOW_COLUMNS),
        "body": (bodies, BODY_COLUMNS),
        "probe": (probes, PROBE_COLUMNS),
        "side": (len(SIDE_NAMES) if heated else 0, 1),
        "heat": (probes if heated else 0, 1),
    }
    sections, start = {}, 0
    for kind, (number, width) in parts.items():
        sections[kind] = _Section(start, number, width)
        start += number * width
    return sections, start


def _points(probes: ArrayLike, size: tuple[float, float]) -> FloatArray:
    points = np.atleast_2d(np.asarray(probes, np.float64))
    if not points.size:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(
            f"probes have the shape {np.shape(probes)}, but must have (n, 2), x and y each"
        )
    for m, (x, y) in enumerate(points):
        if not (0 <= x <= size[0] and 0 <= y <= size[1]):
            raise ValueError(
                f"probe {m} = ({x:g}, {y:g}): not in the box of {size[0]:g} x {size[1]:g}"
            )
    return points
