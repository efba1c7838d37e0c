"""Time averages, root mean squares and covariances of the fields of a flow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flowsim.grid import GHOSTS as G
from flowsim.measure.files import save_arrays, to_dataset
from flowsim.measure.instrument import Instrument, check_flow

if TYPE_CHECKING:
    import xarray

    from flowsim.simulation import Simulation

FloatArray = NDArray[np.float64]

PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1))
"""Pairs of u, v and p (0, 1, 2) whose covariances are computed."""
HEAT_PAIRS = ((3, 3), (0, 3), (1, 3))
"""Additional pairs with the temperature (3), if there is one."""


class FieldStatistics(Instrument):
    """Means and covariances of velocity and pressure at the cell centres, from its creation on.

    Each measurement is weighted by the time since the previous one. Sums use the method of Welford (1962) in double
    precision, so small fluctuations about a large mean are not lost.

    Parameters
    ----------
    flow : Simulation
    every : float
        Time between two measurements, in units of D/U. Twenty per period of an oscillation are enough.
    start : float, optional
        Time at which to start, also after a reset of the flow; now, and at once after a reset, unless given.

    Attributes
    ----------
    duration : (B,)
        Averaging time, in units of D/U.
    samples : (B,)
        Number of measurements.
    mean_velocity : (B, nx, ny, 2)
    mean_pressure : (B, nx, ny)
        Relative to the static pressure of the stream at each time
        (:func:`flowsim.measure.surface.stream_pressure`).
    rms_velocity : (B, nx, ny, 2)
    rms_pressure : (B, nx, ny)
        Root mean square of the fluctuations about the mean.
    covariance : (B, nx, ny, 2, 2)
        <u_i' u_j'>, the Reynolds stresses over -rho; half the trace is the kinetic energy of the fluctuations.
    mean_temperature, rms_temperature : (B, nx, ny)
    heat_covariance : (B, nx, ny, 2)
        For a flow with a temperature; ``heat_covariance`` is <u_i' T'>.

    Fields of flows without a measurement are NaN.

    Raises
    ------
    ValueError
        As for :class:`flowsim.measure.instrument.Instrument`.
    """

    def __init__(self, flow: Simulation, *, every: float = 0.1, start: float | None = None) -> None:
        check_flow(flow)
        shape = flow.batch, flow.grid.nx, flow.grid.ny
        self._pairs = PAIRS if flow.heat is None else PAIRS + HEAT_PAIRS
        self._mean = flow._device.zeros((3 if flow.heat is None else 4, *shape), np.float64)
        self._products = flow._device.zeros((len(self._pairs), *shape), np.float64)
        self.duration, self.samples = np.zeros(flow.batch), np.zeros(flow.batch, np.int64)
        super().__init__(flow, every=every, start=start, pauses=True)

    def collect(self) -> None:
        """Add the fields of the flows that are due."""
        ready, weight, reference = self._take_ready()
        if not len(ready):
            return
        flow, self.samples[ready] = self._flow, self.samples[ready] + 1
        self.duration[ready] += weight
        flow.fill_ghosts()
        for b, w, level in zip(ready.tolist(), weight, reference, strict=True):
            self._add(b, w / self.duration[b], w, level)

    def _add(self, b: int, share: float, weight: float, level: float) -> None:
        """Add the fields of flow b with a weight, which is this share of the total weight."""
        flow, (nx, ny) = self._flow, (self._flow.grid.nx, self._flow.grid.ny)
        u, v = flow.u[b], flow.v[b]
        x, y = slice(G, G + nx), slice(G, G + ny)
        fields = [
            0.5 * (u[x, y].astype(np.float64) + u[G + 1 : G + 1 + nx, y]),
            0.5 * (v[x, y].astype(np.float64) + v[x, G + 1 : G + 1 + ny]),
            flow.pressure[b].astype(np.float64) - level,
        ]
        if flow.heat is not None:
            fields.append(flow.temperature[b][x, y].astype(np.float64))
        away = [field - mean[b] for field, mean in zip(fields, self._mean, strict=True)]
        for mean, difference in zip(self._mean, away, strict=True):
            mean[b] += share * difference
        for product, (i, j) in zip(self._products, self._pairs, strict=True):
            product[b] += (weight * (1.0 - share)) * (away[i] * away[j])

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of the complete state, with the sums of all fields."""
        state, to_host = super().get_state(), self._flow.to_host
        sums = {"mean": to_host(self._mean).copy(), "products": to_host(self._products).copy()}
        return state | sums | {"duration": self.duration.copy(), "samples": self.samples.copy()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from the sums of other statistics."""
        super().set_state(state)
        array = self._flow._device.array
        self._mean[:], self._products[:] = array(state["mean"]), array(state["products"])
        self.duration[:], self.samples[:] = state["duration"], state["samples"]

    def fits(self, state: dict[str, NDArray[Any]]) -> bool:
        """Return whether a state is of statistics on the same grid."""
        return super().fits(state) and state["mean"].shape == self._mean.shape

    def _host(self, array: FloatArray, scaled: bool) -> FloatArray:
        self.collect()
        duration = np.where(self.samples > 0, self.duration, np.nan)[:, None, None]
        values = self._flow.to_host(array)
        return values / duration if scaled else np.where(np.isfinite(duration), values, np.nan)

    @property
    def mean_velocity(self) -> FloatArray:
        """Mean velocity; shape (B, nx, ny, 2)."""
        return np.stack([self._host(self._mean[n], False) for n in (0, 1)], axis=-1)

    @property
    def mean_pressure(self) -> FloatArray:
        """Mean pressure relative to that of the stream; shape (B, nx, ny)."""
        return self._host(self._mean[2], False)

    @property
    def rms_velocity(self) -> FloatArray:
        """Root mean square of the fluctuations of both velocity components; shape (B, nx, ny, 2)."""
        return np.sqrt(np.stack([self._host(self._products[n], True) for n in (0, 1)], axis=-1))

    @property
    def rms_pressure(self) -> FloatArray:
        """Root mean square of the pressure fluctuations; shape (B, nx, ny)."""
        return np.sqrt(self._host(self._products[2], True))

    @property
    def covariance(self) -> FloatArray:
        """Covariances of the velocity components; shape (B, nx, ny, 2, 2)."""
        uu, vv, _, uv = (self._host(product, True) for product in self._products[: len(PAIRS)])
        return np.stack([np.stack([uu, uv], axis=-1), np.stack([uv, vv], axis=-1)], axis=-1)

    @property
    def mean_temperature(self) -> FloatArray:
        """Mean temperature; shape (B, nx, ny)."""
        self._flow._needs_heat()
        return self._host(self._mean[3], False)

    @property
    def rms_temperature(self) -> FloatArray:
        """Root mean square of the temperature fluctuations; shape (B, nx, ny)."""
        self._flow._needs_heat()
        return np.sqrt(self._host(self._products[len(PAIRS)], True))

    @property
    def heat_covariance(self) -> FloatArray:
        """Covariances <u_i' T'> of velocity and temperature, the turbulent heat flux; shape (B, nx, ny, 2)."""
        self._flow._needs_heat()
        along = self._products[len(PAIRS) + 1 :]
        return np.stack([self._host(product, True) for product in along], axis=-1)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all fields by name, and ``duration`` and ``samples``."""
        names = (
            "mean_velocity", "mean_pressure", "rms_velocity", "rms_pressure", "covariance", "duration", "samples",
            *(() if self._flow.heat is None else ("mean_temperature", "rms_temperature", "heat_covariance")),
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def to_xarray(self) -> xarray.Dataset:
        """Return all fields as a dataset with the dimensions flow, x, y and axis, and coordinates along x and y.

        Raises
        ------
        RuntimeError
            If xarray is not installed.
        """
        grid, field = self._flow.grid, ("flow", "x", "y")
        dimensions = {
            "mean_velocity": (*field, "axis"),
            "mean_pressure": field,
            "rms_velocity": (*field, "axis"),
            "rms_pressure": field,
            "covariance": (*field, "axis", "other_axis"),
            "duration": ("flow",),
            "samples": ("flow",),
            "mean_temperature": field,
            "rms_temperature": field,
            "heat_covariance": (*field, "axis"),
        }
        places = {
            "x": (np.arange(grid.nx) + 0.5) * grid.h,
            "y": (np.arange(grid.ny) + 0.5) * grid.h,
        }
        return to_dataset(self.arrays(), dimensions, places)

    def save(self, path: str | Path) -> Path:
        """Write all fields to a file, ``.npz`` or, by xarray, ``.nc``, atomically.

        Raises
        ------
        ValueError
            For another suffix.
        RuntimeError
            For ``.nc`` if xarray or h5netcdf is not installed.
        """
        return save_arrays(Path(path), self.arrays(), self.to_xarray)
