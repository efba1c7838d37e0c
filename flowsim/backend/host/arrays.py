"""The arrays of a batch of flows, allocated once for the sweeps; the small ones are also named views for the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import load_backend, step
from flowsim.backend.device_state import DeviceState
from flowsim.backend.forcing import (
    ForceField,
    Vectors,
    check_mean_velocity,
    check_one_drive,
    on_faces,
    vectors,
)
from flowsim.backend.host.given import is_vector, is_whole
from flowsim.backend.temperature import HeatTable, Temperature, tabulate
from flowsim.bodies import Body
from flowsim.bodies.checks import check_sensors
from flowsim.bodies.jets import Jet, JetTable, tabulate_jets
from flowsim.bodies.table import BodyState, BodyTable, springs_of
from flowsim.boundary import Side, Sides
from flowsim.grid import Grid
from flowsim.inflow import Inflow
from flowsim.kernels.forcing import FORCING_COLUMNS, TARGET_X
from flowsim.kernels.heat import HEAT_COLUMNS
from flowsim.kernels.jets import (
    FLOW_RATE,
    GAIN,
    HALF,
    JET_COLUMNS,
    MOMENTUM,
    RADIAL,
    RAMP,
    SURFACE,
    TARGET,
)
from flowsim.kernels.layout import (
    CLOCK_COLUMNS,
    DIFFUSIVITY,
    DT,
    ENDING_CONTACT,
    FLAGS,
    FREE,
    FREELY,
    LAG,
    MASS_LAG,
    REST,
    SPEED,
    STATE_COLUMNS,
    STIFFNESS,
    TIME,
    UNTIL,
    VISCOSITY,
    X_LOW,
    Y_HIGH,
)
from flowsim.kernels.midline import (
    FORM_COLUMNS,
    GAIT_COLUMNS,
)
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Forcing, Heat, Sensors

FAR_FIELD_SPACINGS = 32
"""Intervals between the points on the longer side of the box at which the velocity on ``far_field`` sides is
computed."""

Array = Any
FloatArray = NDArray[np.float64]


class Arrays:
    """Arrays of a batch of flows; parameters and attributes as in :class:`flowsim.simulation.Simulation`."""

    # the parameters of Simulation, except for the time integration
    def __init__(
        self,
        grid: Grid,
        sides: Sides,
        bodies: Sequence[Body],
        *,
        batch: int,
        stream: tuple[float, float],
        gravity: tuple[float, float],
        body_force: Vectors | None,
        mean_velocity: Vectors | None,
        force_field: ForceField | None,
        sensors: Sequence[tuple[int, tuple[float, float]]],
        jets: Sequence[Jet],
        temperature: Temperature | None,
        dtype: str,
        backend: str,
        threads: int,
    ) -> None:
        if not (is_whole(batch) and batch >= 1):
            raise ValueError(f"batch = {batch!r}: there must be at least one simulation")
        if not is_whole(threads):
            raise ValueError(f"threads = {threads!r}: their number must be an integer")
        if dtype not in ("float32", "float64"):
            raise ValueError(f'dtype = {dtype!r}: the precisions are "float32" and "float64"')
        for name, vector in (("stream", stream), ("gravity", gravity)):
            if not is_vector(vector):
                raise ValueError(f"{name} = {vector!r}: it must be two finite numbers")
        check_sensors(sensors, len(bodies))
        self.grid, self.sides, self.bodies, self.batch = grid, sides, tuple(bodies), batch
        self.stream, self.gravity = stream, gravity
        self.dtype, self.backend = np.dtype(dtype), backend
        self.is_forced = not (body_force is None and mean_velocity is None and force_field is None)
        self._first_forcing = np.zeros((batch, FORCING_COLUMNS))
        self._first_forcing[:, :TARGET_X] = vectors(
            "body_force", (0.0, 0.0) if body_force is None else body_force, batch
        )
        nothing = (None, None)
        held = vectors(
            "mean_velocity", nothing if mean_velocity is None else mean_velocity, batch, none=True
        )
        check_mean_velocity(held, sides.periodic)
        check_one_drive(held, self._first_forcing[:, :TARGET_X])
        self._first_forcing[:, TARGET_X : TARGET_X + 2] = held
        self._force_field = force_field
        self.heat = temperature
        self.heat_table = self._tabulated(temperature, len(jets))
        sweeps = load_backend(backend)
        self._device = sweeps.Device(threads)
        heated = temperature is not None
        self._device.reserve(batch, grid, dtype, memory_needed(grid, batch, dtype, heated))
        self._side_kinds = self.sides.kinds()
        self._inflows: dict[int, Inflow] = {}
        """The newest profile of each inflow side, by the number of the side."""
        self._used_inflows: list[dict[int, Inflow]] = [{} for _ in range(batch)]
        """The profiles that each simulation uses, until its next reset."""
        self._table = BodyTable.of(self.bodies, grid.h, batch)
        self.jets = tuple(jets)
        self._device_state = self._arrange(sweeps, sensors)
        on_grid = self._device_state.fields
        self.u, self.v, self.pressure = on_grid.u, on_grid.v, on_grid.pressure
        self._fill_ghosts = self._device.host_call(lambda: step.fill_ghosts(self._device_state))

    def _tabulated(self, heat: Temperature | None, jets: int) -> HeatTable | None:
        if heat is None:
            return None
        if jets:
            raise ValueError(
                "a flow with a temperature cannot have jets: nothing says how warm they blow"
            )
        return tabulate(heat, self.grid, self.sides, len(self.bodies), self.batch)

    def _arrange(
        self, sweeps: ModuleType, sensors: Sequence[tuple[int, tuple[float, float]]]
    ) -> DeviceState:
        """Allocate all arrays, and return them as the sweeps see them."""
        batch, grid, sides, device = self.batch, self.grid, self.sides, self._device
        near, array = self._allocate(len(sensors)), device.array
        places, kinds = tabulate_jets(self.jets, self.bodies, grid.h)
        radius = np.where(kinds[:, RADIAL] != 0, places[:, SURFACE], 1.0)
        self.jet_widths: FloatArray = 2.0 * places[:, HALF] * radius
        spacing = max(2, max(grid.nx, grid.ny) // FAR_FIELD_SPACINGS)
        is_far = (self._side_kinds == Side.FAR_FIELD).any()
        return DeviceState(
            sweeps=sweeps,
            beside=device.beside,
            fields=self._fields(),
            clock=Clock(near["clock"], near["steps"], near["flags"]),
            box=self._box(),
            bodies=Bodies(
                table=BodyTable(*map(array, self._table[:5]), *map(device.if_any, self._table[5:])),
                state=near["state"],
                contact=near["contact"],
                gait=near["gait"],
                form=near["form"],
                jets=JetTable(array(places), array(kinds), near["jets"]) if self.jets else None,
            ),
            sensors=Sensors(
                array(np.array([point for _, point in sensors], np.float64).reshape(-1, 2)),
                array(np.array([body for body, _ in sensors], np.int64)),
                near["sensed"],
            ),
            everyone=array(np.ones(batch, np.bool_)),
            room=device.room(batch, grid, self._table, self.dtype),
            speeds=device.speeds(batch, grid, self.dtype),
            far_room=device.far_field(batch, grid, spacing, self.dtype) if is_far else None,
            far_spacing=spacing,
            pressure_solver=sweeps.PressureSolver(
                grid.nx, grid.ny, sides.periodic, sides.held, self.dtype, batch, device
            ),
            forcing=self._forcing(near["forcing"]) if self.is_forced else None,
            heat=None if (table := self.heat_table) is None else self._heated(table, near),
            has_open_sides=any(sides.held),
            has_bodies=bool(self.bodies),
            has_bending_bodies=bool(len(self._table.nodes)),
            has_light_bodies=bool(self._table.traits[:, MASS_LAG].any()),
            has_heated_bodies=table is not None and bool(np.isfinite(table.of_bodies).any()),
        )

    def _fields(self) -> Fields:
        """Allocate the fields on the grid."""
        batch, grid, device = self.batch, self.grid, self._device
        faces, cells = (batch, *grid.padded_shape), (batch, grid.nx, grid.ny)
        bends = bool(len(self._table.nodes))
        u, v, new_u, new_v, rate_u, rate_v = (device.zeros(faces, self.dtype) for _ in range(6))
        return Fields(
            u=u,
            v=v,
            new_u=new_u,
            new_v=new_v,
            rate_u=rate_u,
            rate_v=rate_v,
            pressure=device.zeros(cells, self.dtype),
            phi=device.zeros(cells, self.dtype),
            shares=device.zeros((2, *faces), self.dtype),
            drifts=device.zeros((2, *faces) if bends else (2, batch, 0, 0), self.dtype),
        )

    def _forcing(self, columns: Array) -> Forcing:
        """Return the driving force as the sweeps see it."""
        if self._force_field is None:
            return Forcing(columns, None, None)
        field = on_faces(self._force_field, self.grid, self.batch)
        along_x, along_y = (self._device.zeros(part.shape, self.dtype) for part in field)
        along_x[...], along_y[...] = (self._device.array(part.astype(self.dtype)) for part in field)
        return Forcing(columns, along_x, along_y)

    def _heated(self, table: HeatTable, near: dict[str, Array]) -> Heat:
        """Allocate the temperature, and return it as the sweeps see it."""
        device, faces = self._device, (self.batch, *self.grid.padded_shape)
        temperature, new, rate = (device.zeros(faces, self.dtype) for _ in range(3))
        return Heat(
            temperature=temperature,
            new_temperature=new,
            rate=rate,
            columns=near["heat"],
            kinds=device.array(table.kinds),
            given=near["side_heat"],
            of_bodies=device.array(table.of_bodies) if np.isfinite(table.of_bodies).any() else None,
        )

    def _box(self) -> Box:
        """Return the box and its sides as the sweeps see them."""
        array = self._device.array
        return Box(
            h=self.grid.h,
            sides=array(self._side_kinds),
            given=self._device.zeros((self.batch, 4, 2, max(self.grid.padded_shape)), self.dtype),
            stream=array(np.array(self.stream, np.float64)),
            gravity=array(np.array(self.gravity, np.float64)),
        )

    def _allocate(self, sensors: int) -> dict[str, Array]:
        """Allocate the small arrays, set the host's views of them, and return them as the sweeps see them."""
        batch, bodies, bending = self.batch, len(self.bodies), len(self._table.nodes)
        table = self.heat_table
        host, near = self._device.state(
            {
                "clock": ((batch, CLOCK_COLUMNS), np.float64),
                "steps": ((batch,), np.int64),
                "flags": ((FLAGS, batch), np.bool_),
                "state": ((batch, bodies, STATE_COLUMNS), np.float64),
                "contact": ((batch, bodies), np.int8),
                "gait": ((batch, bending, GAIT_COLUMNS), np.float64),
                "form": ((batch, bending, FORM_COLUMNS), np.float64),
                "sensed": ((batch, sensors, 2), np.float64),
                "jets": ((batch, len(self.jets), JET_COLUMNS), np.float64),
                "forcing": ((batch, FORCING_COLUMNS), np.float64),
                "heat": ((batch, HEAT_COLUMNS if table else 0), np.float64),
                "side_heat": (table.given.shape if table else (batch, 4, 0), np.float64),
            }
        )
        clock, flags, self._states = host["clock"], host["flags"], host["state"]
        self.time, self.dt, self._until = clock[:, TIME], clock[:, DT], clock[:, UNTIL]
        self._speed, self.viscosity = clock[:, SPEED], clock[:, VISCOSITY]
        self._lag = clock[:, LAG]
        self._running, self.diverged, self._stopped = flags
        self.body_state = BodyState.of(self._states, host["contact"])
        self.fences = self._states[..., X_LOW : Y_HIGH + 1]
        self.fences[:] = (-np.inf, np.inf, -np.inf, np.inf)
        self.ending_contacts = self._states[..., ENDING_CONTACT]
        self.is_mounted = bool((self._table.kinds[:, FREE] > FREELY).any())
        self._springs = self._states[..., STIFFNESS : REST + 3]
        self._springs[:] = np.concatenate(springs_of(self.bodies), axis=-1)
        self.steps, self.sensed = host["steps"], host["sensed"]
        self.gait, self.form = host["gait"], host["form"]
        self._forcing_columns = host["forcing"]
        self._heat_columns, self._side_heat = host["heat"], host["side_heat"]
        self._diffusivity = clock[:, DIFFUSIVITY]
        self._jet_states = jets = host["jets"]
        self.jet_flow_rates, self.target_jet_flow_rates = jets[..., FLOW_RATE], jets[..., TARGET]
        self.jet_ramp_rates, self.jet_momentum = jets[..., RAMP], jets[..., MOMENTUM:GAIN]
        return near

    def _chosen(self, name: str, which: ArrayLike | None) -> NDArray[np.bool_]:
        """Return which simulations are meant, as flags (B,): all if none are given.

        Raises
        ------
        ValueError
            For anything but a flag for each simulation, such as indices.
        """
        flags = np.ones(self.batch, np.bool_) if which is None else np.asarray(which)
        if flags.shape != (self.batch,) or flags.dtype != np.bool_:
            raise ValueError(
                f"{name} = {which!r}: it must be {self.batch} bools, one for each flow"
            )
        return flags

    def _index(self, b: int | Sequence[int]) -> Any:
        """Return an index for one or several simulations into the arrays of the sweeps."""
        return b if isinstance(b, (int, np.integer)) else self._device.array(np.array(b, np.int64))

    def _given(self, name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
        """Return checked values for a field, as an array of the backend.

        Raises
        ------
        ValueError
            For values of a wrong shape, or that are not finite.
        """
        given = np.asarray(values)
        if not np.isfinite(given).all():
            raise ValueError(f"{name} is not finite everywhere")
        try:
            np.broadcast_to(given, shape)
        except ValueError:
            raise ValueError(f"{name} has the shape {given.shape}, but must be {shape}") from None
        return self._device.array(given.astype(self.dtype))

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return a field, or a part of one, as a NumPy array."""
        return np.asarray(self._device.to_host(array))

    def fill_ghosts(self) -> None:
        """Update the ghost points of u and v from the sides of the box."""
        self._fill_ghosts()


def memory_needed(grid: Grid, batch: int, dtype: str, heated: bool = False) -> int:
    """Return the memory of a batch of simulations in bytes.

    Eight velocity arrays, and pressure, its change and modes; a temperature adds three arrays.
    """
    padded, cells = math.prod(grid.padded_shape), grid.nx * grid.ny
    return int(
        batch
        * np.dtype(dtype).itemsize
        * ((11 if heated else 8) * padded + 3 * cells + grid.nx * 2)
    )
