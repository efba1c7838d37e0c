"""The state of a batch of flows: its arrays, where the sweeps and where the host see them, and what they hold.

All is in one file, because all of it reads and writes the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import load_backend, step
from flowsim.backend.device_state import DeviceState
from flowsim.backend.forcing import ForceField, Vectors, check_mean_velocity, on_faces, vectors
from flowsim.backend.temperature import AlongSide, HeatTable, Temperature, along_side, tabulate
from flowsim.bodies import Body
from flowsim.bodies.jets import Jet, JetTable, tabulate_jets
from flowsim.bodies.table import BodyState, BodyTable, springs_of
from flowsim.boundary import SIDE_NAMES, Side, Sides
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid
from flowsim.inflow import Inflow
from flowsim.kernels.distances import Shape
from flowsim.kernels.far_field import DEPARTED, forget_departed
from flowsim.kernels.forcing import FORCING_COLUMNS, LAST_DT, TARGET_X
from flowsim.kernels.heat import HEAT_COLUMNS, REFERENCE
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
    AXIS_A,
    CENTROID_X,
    CLOCK_COLUMNS,
    DIFFUSIVITY,
    DT,
    FLAGS,
    FLUID_MASS,
    FREE,
    FREELY,
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
    COS,
    FORM_COLUMNS,
    GAIT_COLUMNS,
    HALF_WIDTH,
    INERTIA,
    SIN,
    X,
    Y,
)
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Forcing, Heat, Sensors
from flowsim.measure import fields

FAR_FIELD_SPACINGS = 32
"""Spacings of the points on the longer side of the box where the velocity on its ``far_field`` sides is found."""

Array = Any
FloatArray = NDArray[np.float64]


class State:
    """Fields and bodies of a batch of flows; parameters and attributes as of :class:`flowsim.simulation.Simulation`."""

    # what a simulation is given, but for the method: see Simulation
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
        if batch < 1:
            raise ValueError(f"batch = {batch!r}: there must be at least one simulation")
        if dtype not in ("float32", "float64"):
            raise ValueError(f'dtype = {dtype!r}: the precisions are "float32" and "float64"')
        for name, vector in (("stream", stream), ("gravity", gravity)):
            if len(vector) != 2 or not all(np.ndim(x) == 0 and np.isfinite(x) for x in vector):
                raise ValueError(f"{name} = {vector!r}: it must be two finite numbers")
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
        self._table = BodyTable.of(self.bodies, grid.h, batch)
        self.jets = tuple(jets)
        self._device_state = self._arrange(sweeps, sensors)
        on_grid = self._device_state.fields
        self.u, self.v, self.pressure = on_grid.u, on_grid.v, on_grid.pressure

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
        """Make all arrays, and return them as the sweeps see them."""
        batch, grid, sides, device = self.batch, self.grid, self.sides, self._device
        near, array = self._allocate(len(sensors)), device.array
        places, kinds = tabulate_jets(self.jets, self.bodies, grid.h)
        radius = np.where(kinds[:, RADIAL] != 0, places[:, SURFACE], 1.0)
        self.jet_widths: FloatArray = 2.0 * places[:, HALF] * radius
        spacing = max(2, max(grid.nx, grid.ny) // FAR_FIELD_SPACINGS)
        is_far = (self._side_kinds == Side.FAR_FIELD).any()
        return DeviceState(
            sweeps=sweeps,
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
        """Make what lives on the grid."""
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
        """Put the force that drives the flow where the sweeps work."""
        if self._force_field is None:
            return Forcing(columns, None, None)
        field = on_faces(self._force_field, self.grid, self.batch)
        along_x, along_y = (self._device.zeros(part.shape, self.dtype) for part in field)
        along_x[...], along_y[...] = (self._device.array(part.astype(self.dtype)) for part in field)
        return Forcing(columns, along_x, along_y)

    def _heated(self, table: HeatTable, near: dict[str, Array]) -> Heat:
        """Put the temperature where the sweeps work."""
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
        """Put where the sweeps work what they know of the box."""
        array = self._device.array
        return Box(
            h=self.grid.h,
            sides=array(self._side_kinds),
            given=self._device.zeros((self.batch, 4, 2, max(self.grid.padded_shape)), self.dtype),
            stream=array(np.array(self.stream, np.float64)),
            gravity=array(np.array(self.gravity, np.float64)),
        )

    def _allocate(self, sensors: int) -> dict[str, Array]:
        """Make the small arrays, name what the host sees of them, and return them as the sweeps see them."""
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
        self._running, self.diverged, self._outside = flags
        self.body_state = BodyState.of(self._states, host["contact"])
        self.fences = self._states[..., X_LOW : Y_HIGH + 1]
        self.fences[:] = (-np.inf, np.inf, -np.inf, np.inf)
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

    def set_velocity(self, b: int | Sequence[int], u: ArrayLike, v: ArrayLike) -> None:
        """Write the velocity of simulation b, or of several, on :meth:`Grid.u_faces` and :meth:`Grid.v_faces`.

        The next step is the first one of a multi-step method, and its size is that of the new speed.
        """
        where = self._index(b)
        for field, values in ((self.u, u), (self.v, v)):
            field[where] = self._device.array(np.asarray(values).astype(self.dtype))
        self._forget_departed(where)
        self._begin_anew(b)

    def add_velocity(self, b: int | Sequence[int], u: ArrayLike, v: ArrayLike) -> None:
        """Add to the velocity of simulation b, or of several, likewise; a number adds to all faces."""
        where = self._index(b)
        for field, values in ((self.u, u), (self.v, v)):
            field[where] += self._device.array(np.asarray(values).astype(self.dtype))
        self._begin_anew(b)

    def _begin_anew(self, b: int | Sequence[int]) -> None:
        """Derive again what a step takes from the velocity: its largest speed, and no history."""
        for n in np.atleast_1d(np.asarray(b)):
            fastest = abs(self.u[n]).max() + abs(self.v[n]).max()
            self._speed[n], self.dt[n] = float(self.to_host(fastest)), 0.0
            self._forcing_columns[n, LAST_DT] = 0.0

    def _forget_departed(self, where: Any) -> None:
        """Let nothing have left the box of some simulations, whose flows are replaced."""
        if (room := self._device_state.far_room) is not None:
            forget_departed(room.vortices, room.excess, where)

    def _index(self, b: int | Sequence[int]) -> Any:
        """Return an index of one or several simulations into arrays of the sweeps."""
        return b if isinstance(b, (int, np.integer)) else self._device.array(np.array(b, np.int64))

    def _fill_given_sides(self, where: Any) -> None:
        nx, ny, box = self.grid.nx, self.grid.ny, self._device_state.box
        given = np.repeat(
            self.sides.velocities(self.stream)[:, :, None], box.given.shape[-1], axis=2
        )
        box.given[where] = self._device.array(given.astype(self.dtype))
        self._write_inflows(where, [0.0] * self.batch)
        walls = (Side.INFLOW, Side.SLIP, Side.NO_SLIP, Side.FAR_FIELD)
        for side, index in ((0, G), (1, G + nx)):
            if self._side_kinds[side] in walls and side not in self._inflows:
                self.u[where, index] = given[side, 0, 0]
        for side, index in ((2, G), (3, G + ny)):
            if self._side_kinds[side] in walls and side not in self._inflows:
                self.v[where, :, index] = given[side, 1, 0]

    def _write_inflows(self, where: Any, times: Sequence[float], varying: bool = False) -> None:
        """Write the profiles of inflow sides, or only those that vary in time, to some simulations."""
        nx, ny = self.grid.nx, self.grid.ny
        for side, inflow in self._inflows.items():
            if varying and not inflow.varies:
                continue
            profiles = {t: inflow.at(t) for t in (set(times) if inflow.varies else {0.0})}
            values = np.stack(
                [profiles[t if inflow.varies else 0.0][b] for b, t in enumerate(times)]
            )
            line = self._device.array(values.astype(self.dtype))[where]
            self._device_state.box.given[where, side, :, : values.shape[-1]] = line
            if side < 2:
                self.u[where, G + side * nx] = line[..., 0, :]
            else:
                self.v[where, :, G + (side - 2) * ny] = line[..., 1, :]

    @property
    def body_force(self) -> FloatArray:
        """The uniform force per unit mass (B, 2), in units of U^2/D; may be written where no mean velocity is held."""
        return self._needs_forcing()[:, :TARGET_X]

    @property
    def target_mean_velocity(self) -> FloatArray:
        """The mean velocity (B, 2) that the force holds, in units of U, NaN where none; may be written."""
        return self._needs_forcing()[:, TARGET_X : TARGET_X + 2]

    def _needs_forcing(self) -> FloatArray:
        if not self.is_forced:
            raise ValueError(
                "nothing drives this flow: make the simulation with body_force=(0, 0) to write its force later"
            )
        return self._forcing_columns

    @property
    def spring_stiffness(self) -> FloatArray:
        """Of the springs of bodies along x, y and angle (B, K, 3), in rho U^2 and rho U^2 D^2; may be written."""
        return self._needs_springs()[..., :3]

    @property
    def spring_damping(self) -> FloatArray:
        """Of their dampers (B, K, 3), in rho U D and rho U D^3; may be written."""
        return self._needs_springs()[..., 3:6]

    @property
    def spring_rest(self) -> FloatArray:
        """Where they are slack (B, K, 3), in the box, in D and radians; may be written."""
        return self._needs_springs()[..., 6:]

    def _needs_springs(self) -> FloatArray:
        if not self.is_mounted:
            raise ValueError(
                "no body of this simulation has springs: give a free one springs={...} to write them later"
            )
        return self._springs

    # --- temperature -----------------------------------------------------------------------------------------------

    def _needs_heat(self) -> Heat:
        if (heat := self._device_state.heat) is None:
            raise ValueError(
                "this flow has no temperature: make the simulation with temperature=Temperature(...)"
            )
        return heat

    @property
    def temperature(self) -> Array:
        """The temperature (B, nx + 2 G, ny + 2 G) at the centres of the cells, where the backend lives."""
        return self._needs_heat().temperature

    @property
    def diffusivity(self) -> FloatArray:
        """The diffusivity (B,) of the temperature, in units of U D; may be written."""
        self._needs_heat()
        return self._diffusivity

    @property
    def buoyancy(self) -> FloatArray:
        """The acceleration (B, 2) for a unit of temperature, in units of U^2/D; may be written."""
        self._needs_heat()
        return self._heat_columns[:, :REFERENCE]

    def temperature_at_centres(self, which: int | slice = slice(None)) -> NDArray[np.floating]:
        """Temperature at the cell centres; shape (B, nx, ny), of one simulation (nx, ny)."""
        nx, ny = self.grid.nx, self.grid.ny
        return np.array(self.to_host(self.temperature[which][..., G : G + nx, G : G + ny]))

    def set_temperature(self, b: int | Sequence[int], values: ArrayLike) -> None:
        """Write the temperature (nx, ny) of simulation b, or of several, at the cell centres; a number fills all.

        The next step is the first one of a multi-step method.
        """
        inside, where = self.temperature[:, G:-G, G:-G], self._index(b)
        inside[where] = self._device.array(np.asarray(values).astype(self.dtype))
        self.dt[b] = 0.0

    def set_side_temperature(
        self, side: str, values: AlongSide, which: NDArray[np.bool_] | None = None
    ) -> None:
        """Give a side another temperature, or flux, from now on until :meth:`reset`; nothing is compiled for that.

        Parameters
        ----------
        side : str
            ``"left"``, ``"right"``, ``"bottom"`` or ``"top"``; one that was made with a flux takes a flux.
        values : float or array
            At the cells along the side, (n,) or (B, n).
        which : (B,) bool, optional
            Which simulations; all unless given.

        Raises
        ------
        ValueError
            For values that are not finite or do not fit, and a periodic side.
        """
        self._needs_heat()
        if side not in SIDE_NAMES or getattr(self.sides, side) == "periodic":
            raise ValueError(f"side = {side!r}: only a side that is not periodic has a temperature")
        given = along_side(side, values, self.grid, self.batch)
        which = np.ones(self.batch, bool) if which is None else which
        self._side_heat[which, SIDE_NAMES.index(side), : given.shape[1]] = given[which]

    def side_temperature(self, side: str) -> FloatArray:
        """Return the temperature of a side, or the flux that it lets in, at the cells along it, (B, n)."""
        self._needs_heat()
        n = self.grid.ny if side in SIDE_NAMES[:2] else self.grid.nx
        return self._side_heat[:, SIDE_NAMES.index(side), :n].copy()

    def sample_temperature(self, points: ArrayLike) -> FloatArray:
        """Temperature at given points by bilinear interpolation between cell centres.

        Parameters
        ----------
        points : (n, 2)
            The same in each simulation; those beyond the outermost cell centres are moved there.

        Returns
        -------
        (B, n) float64
        """
        return fields.sample_temperature(self, points)

    def _begin_heat(self, which: NDArray[np.bool_], where: Any) -> None:
        """Give some simulations the temperature that they start with."""
        table, heat = self.heat_table, self._device_state.heat
        if table is None or heat is None:
            return
        self._diffusivity[which] = table.diffusivity[which]
        self._heat_columns[which], self._side_heat[which] = table.columns[which], table.given[which]
        heat.rate[where], heat.new_temperature[where] = 0, 0
        begin = self._device.array(table.initial.astype(self.dtype))
        heat.temperature[:, G:-G, G:-G][where] = begin[where]

    def force_on_faces(self, b: int) -> tuple[FloatArray, FloatArray]:
        """Return the force per unit mass of simulation b on the faces of u and of v, as in the last step."""
        forcing, shape = self._device_state.forcing, self.grid.padded_shape
        uniform = self._forcing_columns[b, :TARGET_X] if forcing is not None else np.zeros(2)
        along_x, along_y = np.full(shape, uniform[0]), np.full(shape, uniform[1])
        if forcing is not None and forcing.along_x is not None and forcing.along_y is not None:
            along_x += self.to_host(forcing.along_x[b])
            along_y += self.to_host(forcing.along_y[b])
        return along_x, along_y

    def extent(self, b: int, k: int) -> tuple[FloatArray, FloatArray]:
        """Return the lower left and the upper right corner, (2,) each, of a box around body k of simulation b."""
        if self.bodies[k].shape == Shape.MIDLINE:
            surface = self.surface(b, k)
            return surface.min(axis=0), surface.max(axis=0)
        c, s = np.cos(self.body_state.angle[b, k]), np.sin(self.body_state.angle[b, k])
        along, across = self._table.traits[k, AXIS_A:CENTROID_X]
        reach = np.array([np.hypot(along * c, across * s), np.hypot(along * s, across * c)])
        return self.body_state.position[b, k] - reach, self.body_state.position[b, k] + reach

    def midline(self, b: int, k: int) -> FloatArray:
        """Return place and direction (x, y, cos, sin) of the midline of a swimmer, head first, (n, 4), in the box."""
        line = self.to_host(self._device_state.bodies.table.midlines[b, k])
        c, s = np.cos(self.body_state.angle[b, k]), np.sin(self.body_state.angle[b, k])
        turn = np.array([[c, s], [-s, c]])
        place = line[:, [X, Y]] @ turn + self.body_state.position[b, k]
        return np.concatenate([place, line[:, [COS, SIN]] @ turn], axis=1)

    def surface(self, b: int, k: int) -> FloatArray:
        """Return the surface of a swimmer as a closed curve (n, 2) in the box, from head to tail and back."""
        x, y, cos, sin = self.midline(b, k).T
        w = self._table.nodes[k, :, HALF_WIDTH]
        left, right = (
            np.stack([x - w * sin, y + w * cos], axis=-1),
            np.stack([x + w * sin, y - w * cos], axis=-1),
        )
        return np.concatenate([left, right[-2:0:-1]])

    def displaced(self, b: int, k: int) -> tuple[float, float]:
        """Return mass and moment of inertia of the fluid that body k of simulation b displaces."""
        bends = self.bodies[k].shape == Shape.MIDLINE
        inertia = self.form[b, k, INERTIA] if bends else self.bodies[k].second_moment
        return float(self._table.traits[k, FLUID_MASS]), float(inertia)

    def max_divergence(self) -> FloatArray:
        """Largest |div u| of each simulation, but for the sources of jets; shape (B,)."""
        self._device.send_state()
        step.find_divergence(self._device_state)
        largest = np.abs(self.to_host(self._device_state.fields.phi)).max(axis=(1, 2))
        return largest.astype(np.float64) / self.grid.h

    def velocity_at_centres(self, which: int | slice = slice(None)) -> NDArray[np.floating]:
        """Velocity at the cell centres; shape (B, nx, ny, 2), of one simulation (nx, ny, 2)."""
        return fields.velocity_at_centres(self, which)

    def vorticity(self, which: int | slice = slice(None)) -> NDArray[np.floating]:
        """Vorticity dv/dx - du/dy at the cell centres (the mean of the four corners).

        Parameters
        ----------
        which
            Of which simulations.

        Returns
        -------
        (B, nx, ny)
            Of one simulation (nx, ny).
        """
        return fields.vorticity(self, which)

    def solid(self) -> NDArray[np.float64]:
        """Share chi of each cell that lies inside any body; shape (B, nx, ny)."""
        chi = self._device.zeros((self.batch, self.grid.nx, self.grid.ny), np.float64)
        self._device.send_state()
        step.find_solid(self._device_state, chi)
        return self.to_host(chi)

    def sample_velocity(self, points: ArrayLike) -> FloatArray:
        """Velocity at given points by bilinear interpolation.

        Parameters
        ----------
        points : (B, n, 2) or (n, 2)
            The same in each simulation for (n, 2). Points outside the box are moved to its edge.

        Returns
        -------
        (B, n, 2) float64

        Raises
        ------
        ValueError
            For another shape.
        """
        places = np.asarray(points, np.float64)
        if places.shape[-1:] != (2,) or places.ndim not in (2, 3):
            raise ValueError(
                f"points have the shape {places.shape}, but must be (n, 2) or (B, n, 2)"
            )
        if places.ndim == 3 and len(places) != self.batch:
            raise ValueError(
                f"points are of {len(places)} simulations, but this batch has {self.batch}"
            )
        self.fill_ghosts()
        every = np.broadcast_to(places, (self.batch, *places.shape[-2:]))
        near = self._device.array(np.ascontiguousarray(every))
        velocity = self._device.zeros(near.shape, np.float64)
        step.sample(self._device_state, near, velocity)
        return self.to_host(velocity)

    def sample_pressure(self, points: ArrayLike) -> FloatArray:
        """Pressure at given points by bilinear interpolation between cell centres; its level is that of the solver.

        Parameters
        ----------
        points : (n, 2)
            The same in each simulation; those beyond the outermost cell centres are moved there.

        Returns
        -------
        (B, n) float64
        """
        return fields.sample_pressure(self, points)

    def fill_ghosts(self) -> None:
        """Bring the ghost points of u and v up to date with the sides of the box."""
        step.fill_ghosts(self._device_state)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return a field, or a part of one, as an array of the host."""
        return np.asarray(self._device.to_host(array))

    # --- restarts --------------------------------------------------------------------------------------------------

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        flow = self._device_state
        arrays = {
            "u": self.u,
            "v": self.v,
            "rate_u": flow.fields.rate_u,
            "rate_v": flow.fields.rate_v,
            "pressure": self.pressure,
            "time": self.time,
            "dt": self.dt,
            "steps": self.steps,
            "diverged": self.diverged,
            "speed": self._speed,
            "viscosity": self.viscosity,
            "sides": flow.box.given,
        }
        if (room := flow.far_room) is not None:
            arrays |= {"departed": room.vortices[..., -DEPARTED:], "excess": room.excess}
        if flow.has_bending_bodies:
            midlines = flow.bodies.table.midlines
            arrays |= {"gait": self.gait, "form": self.form, "midlines": midlines}
        if self.jets:
            arrays["jets"] = self._jet_states
        if flow.forcing is not None:
            arrays["forcing"] = self._forcing_columns
            if flow.forcing.along_x is not None:
                arrays |= {"force_x": flow.forcing.along_x, "force_y": flow.forcing.along_y}
        if self.is_mounted:
            arrays["springs"] = self._springs

        if flow.heat is not None:
            arrays |= {
                "temperature": flow.heat.temperature,
                "rate_temperature": flow.heat.rate,
                "diffusivity": self._diffusivity,
                "heat": self._heat_columns,
                "side_heat": self._side_heat,
            }
        return arrays | {f"body_{name}": array for name, array in vars(self.body_state).items()}

    def get_state(self, b: int = 0) -> dict[str, NDArray[Any]]:
        """Return a copy of all that the future of simulation b depends on."""
        return {
            name: np.array(self.to_host(array[b])) for name, array in self._state_arrays().items()
        }

    def set_state(self, b: int, state: dict[str, NDArray[Any]]) -> None:
        """Bring simulation b to a state of :meth:`get_state`; it goes on as the original would, to the bit.

        Raises
        ------
        ValueError
            When the state belongs to another grid, precision or set of bodies.
        """
        own = self._state_arrays()
        self._check_states({name: np.asarray(values)[None] for name, values in state.items()})
        for name, array in own.items():
            array[b] = (
                state[name] if isinstance(array, np.ndarray) else self._device.array(state[name])
            )

    def store_states(self, states: dict[str, NDArray[Any]]) -> dict[str, Array]:
        """Put states where the sweeps work, for :meth:`restore_states`.

        On the host no field is copied; a device holds every field of every state, some 5 numbers a cell.

        Parameters
        ----------
        states : dict of arrays
            States of :meth:`get_state`, stacked along a leading axis.

        Raises
        ------
        ValueError
            When the states belong to another grid, precision or set of bodies.
        MemoryError
            When the device has too little memory.
        """
        self._check_states(states)
        own, count = self._state_arrays(), len(states["u"])
        near = {name for name, array in own.items() if not isinstance(array, np.ndarray)}
        needed = sum(states[name].nbytes for name in near)
        self._device.reserve(count, self.grid, self.dtype.name, needed)
        return {
            name: self._device.array(values) if name in near else values
            for name, values in states.items()
        }

    def restore_states(
        self, which: Sequence[int], stored: dict[str, Array], numbers: Sequence[int]
    ) -> None:
        """Bring several simulations to stored states; each goes on as after :meth:`set_state`.

        Parameters
        ----------
        which : sequence of int
            The simulations.
        stored : dict of arrays
            From :meth:`store_states` of this simulation.
        numbers : sequence of int
            Which state each simulation is brought to.
        """
        host = np.array(which, np.int64), np.array(numbers, np.int64)
        near = tuple(map(self._device.array, host))
        for name, array in self._state_arrays().items():
            to, by = host if isinstance(array, np.ndarray) else near
            array[to] = stored[name][by]

    def _check_states(self, states: dict[str, NDArray[Any]]) -> None:
        """Refuse stacked states that belong to another grid, precision or set of bodies."""
        own = self._state_arrays()
        if set(states) != set(own):
            raise ValueError(
                f"the state has the fields {sorted(states)}, this simulation has {sorted(own)}"
            )
        for name, array in own.items():
            shape, dtype = states[name].shape[1:], states[name].dtype
            if shape != array.shape[1:] or dtype != array.dtype:
                raise ValueError(
                    f"the state's {name} is {shape} {dtype}, this simulation's is {array.shape[1:]} {array.dtype}"
                )


def memory_needed(grid: Grid, batch: int, dtype: str, heated: bool = False) -> int:
    """Return the bytes that a batch of simulations takes.

    Eight velocity arrays, and pressure, its change and modes; three more arrays for a temperature.
    """
    padded, cells = np.prod(grid.padded_shape), grid.nx * grid.ny
    return int(
        batch
        * np.dtype(dtype).itemsize
        * ((11 if heated else 8) * padded + 3 * cells + grid.nx * 2)
    )
