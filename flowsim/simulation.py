"""The state of a batch of flows, and the step that advances it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import load_backend
from flowsim.bodies import Body, BodyState, BodyTable
from flowsim.boundary import Side, Sides
from flowsim.forces import ControlVolumes
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid

DEFAULT_CFL = {"ab2": 0.5, "euler": 0.1}
STABLE_DECAY = {"ab2": 1.0, "euler": 2.0}
SETTLING_SWEEPS = 10
FAR_FIELD_BLOCKS = 48
"""Blocks of vorticity along the longer side of the box, for the velocity on its ``far_field`` sides."""

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


class Simulation:
    """A batch of B two-dimensional incompressible flows around the same kinds of bodies.

    du/dt = -(u . grad) u + nu lap u - grad p + lambda chi (u_s - u), div u = 0 (ReF-ER paper, appendix D), advanced by
    an incremental projection method with implicit Brinkman penalisation (Angot 1999). Each simulation has its own
    viscosity, bodies' positions, time and step; one that is not active waits undisturbed.

    Parameters
    ----------
    grid : Grid
    sides : Sides
    bodies : sequence of Body
    viscosity : float or sequence of B floats
        1/Re in units of U and D.
    batch : int
        B, the number of simulations.
    stream : (float, float)
        Velocity at which the flow starts, and which ``inflow`` sides keep.
    gravity : (float, float)
        Acceleration g, in units of U^2/D. A free body feels (mass - displaced mass) g, its weight and its buoyancy;
        the pressure does not hold the hydrostatic part.
    sensors : sequence of (int, (float, float))
        Points that bodies carry along, in the frame of the body of that number, at which the flow is sensed.
    integrator : str
        ``"ab2"``, variable-step Adams-Bashforth of second order, or ``"euler"``.
    cfl : float, optional
        Bound of dt max(|u| + |v|) / h; 0.5 for ``ab2`` and 0.1 for ``euler`` unless given.
    penalty : float
        lambda, in units of U/D. The leak through a body is of the order dt |grad p| / (lambda dt).
    dtype : str
        ``"float32"`` or ``"float64"``.
    backend : str
        ``"cpu"`` or ``"cuda"``.
    threads : int
        Threads of the sweeps on the CPU (at most numba's own number).

    Attributes
    ----------
    u, v : (B, nx + 2 G, ny + 2 G)
        Velocity on the faces, with ghost points; where the backend lives (see :meth:`set_velocity`).
    pressure : (B, nx, ny)
    body_state : BodyState
        Positions, velocities and applied forces of the bodies; may be written between steps.
    time, dt : (B,) float64
        Time and the size of the last step, in units of D/U.
    steps : (B,) int64
    viscosity : (B,) float64
    fences : (B, K, 4) float64
        x0, x1, y0, y1 within which the reference point of a body must stay for :meth:`advance` to go on; endless
        unless written.
    sensed : (B, n, 2) float64
        Velocity of the flow at the n sensors, brought up to date by :meth:`advance`, :meth:`settle` and :meth:`sense`.
    control_volumes : ControlVolumes or None
        The second measure of force and torque, once :meth:`measure_control_volumes` was called.
    diverged : (B,) bool
        Simulations whose velocity is not finite or absurd. They take no further part until they are reset.

    Raises
    ------
    ValueError
        For values out of range, or sides through which the stream cannot pass.
    RuntimeError
        When there is no device for the backend.
    MemoryError
        When the device has too little memory.
    """

    def __init__(
        self,
        grid: Grid,
        sides: Sides | None = None,
        bodies: Sequence[Body] = (),
        *,
        viscosity: float | Sequence[float] | NDArray[np.floating],
        batch: int = 1,
        stream: tuple[float, float] = (1.0, 0.0),
        gravity: tuple[float, float] = (0.0, 0.0),
        sensors: Sequence[tuple[int, tuple[float, float]]] = (),
        integrator: str = "ab2",
        cfl: float | None = None,
        penalty: float = 1e4,
        dtype: str = "float32",
        backend: str = "cpu",
        threads: int = 1,
    ) -> None:
        self.grid, self.sides, self.bodies, self.batch = grid, sides or Sides(), tuple(bodies), batch
        self.stream, self.gravity, self.integrator, self.penalty = stream, gravity, integrator, penalty
        if integrator not in DEFAULT_CFL:
            raise ValueError(f'integrator = {integrator!r}: the integrators are "ab2" and "euler"')
        self.cfl = DEFAULT_CFL[integrator] if cfl is None else cfl
        self._check(np.asarray(viscosity, np.float64), dtype)
        self.dtype = np.dtype(dtype)
        self.backend = backend
        self._sweeps = load_backend(backend)
        self._device = self._sweeps.Device(threads)
        self._device.reserve(memory_needed(grid, batch, dtype), f"{batch} x {grid.nx} x {grid.ny} cells in {dtype}")
        self._allocate(len(sensors))
        self.viscosity[:] = viscosity
        self._table = BodyTable.of(self.bodies, grid.h)
        self._driven = [k for k, body in enumerate(self.bodies) if callable(body.motion)]
        self._side_kinds = self.sides.kinds()
        self._far_field = bool((self._side_kinds == Side.FAR_FIELD).any())
        self._place_constants(sensors)
        self._pressure_solver = self._sweeps.PressureSolver(
            grid.nx, grid.ny, self.sides.periodic, self.dtype, batch, self._device
        )
        self.control_volumes: ControlVolumes | None = None
        self._step = self._take_step if self._driven else self._device.program(self._take_step)
        self._settle = self._device.program(self._settle_all)
        self._sense = self._device.program(self._sense_all)
        self.reset()

    def _check(self, viscosity: FloatArray, dtype: str) -> None:
        if self.batch < 1:
            raise ValueError(f"batch = {self.batch!r}: there must be at least one simulation")
        if not (np.isfinite(viscosity).all() and (viscosity > 0).all()):
            raise ValueError(f"viscosity = {viscosity.min()!r}: the viscosity (1/Re) must be positive")
        if not 0 < self.cfl <= 1:
            raise ValueError(f"cfl = {self.cfl!r}: the CFL number must lie in (0, 1]")
        if not (np.isfinite(self.penalty) and self.penalty > 0):
            raise ValueError(f"penalty = {self.penalty!r}: the penalty must be positive")
        if dtype not in ("float32", "float64"):
            raise ValueError(f'dtype = {dtype!r}: the precisions are "float32" and "float64"')
        given, kinds = self.sides.velocities(self.stream), self.sides.kinds()
        passable = np.isin(kinds, (Side.OUTFLOW, Side.OPEN, Side.FAR_FIELD)).any()
        normal = (given[1, 0] - given[0, 0]) * self.grid.ny + (given[3, 1] - given[2, 1]) * self.grid.nx
        if not passable and abs(normal) > 1e-12:
            raise ValueError(
                "the stream enters the box but cannot leave it: one side must be outflow, open or far_field"
            )

    def _allocate(self, sensors: int) -> None:
        """Make the fields, where the sweeps work, and the small arrays, which the host and the sweeps share."""
        batch, bodies, grid, device = self.batch, len(self.bodies), self.grid, self._device
        padded, cells = (batch, *grid.padded_shape), (batch, grid.nx, grid.ny)
        self.u, self.v = device.zeros(padded, self.dtype), device.zeros(padded, self.dtype)
        self._new_u, self._new_v = device.zeros(padded, self.dtype), device.zeros(padded, self.dtype)
        self._rate_u, self._rate_v = device.zeros(padded, self.dtype), device.zeros(padded, self.dtype)
        self._share_u, self._share_v = device.zeros(padded, self.dtype), device.zeros(padded, self.dtype)
        self.pressure, self._phi = device.zeros(cells, self.dtype), device.zeros(cells, self.dtype)
        self._given = device.zeros((batch, 4, 2, max(grid.padded_shape)), self.dtype)
        self._far_block = max(8, max(grid.nx, grid.ny) // FAR_FIELD_BLOCKS)
        self._vortices = device.far_field(batch, grid, self._far_block)
        self._speeds = device.speeds(batch, grid, self.dtype)
        self._fluxes = device.fluxes(batch, grid, self.dtype)

        per_simulation = dict.fromkeys(("time", "dt", "until", "ratio", "speed", "viscosity"), ((batch,), np.float64))
        flags = dict.fromkeys(("running", "diverged", "outside"), ((batch,), np.bool_))
        body = BodyState.layout(batch, bodies)
        layout = per_simulation | {"steps": ((batch,), np.int64)} | body | flags
        layout["before"] = ((batch, bodies, 4), np.float64)
        layout["fences"] = ((batch, bodies, 4), np.float64)
        layout["sensed"] = ((batch, sensors, 2), np.float64)
        host, near = device.state(layout)
        self._near = SimpleNamespace(**near)
        self.body_state = BodyState(**{name: host[name] for name in body})
        self.time, self.dt, self.steps = host["time"], host["dt"], host["steps"]
        self.viscosity, self.diverged, self.sensed, self.fences = (
            host[name] for name in ("viscosity", "diverged", "sensed", "fences")
        )
        self._until, self._speed, self._running, self._outside, self._before = (
            host[name] for name in ("until", "speed", "running", "outside", "before")
        )
        self.fences[:] = (-np.inf, np.inf, -np.inf, np.inf)

    def _place_constants(self, sensors: Sequence[tuple[int, tuple[float, float]]]) -> None:
        """Put what never changes where the sweeps work."""
        near, array = self._near, self._device.array
        near.bodies = BodyTable(*(array(column) for column in self._table))
        near.sides, near.stream = array(self._side_kinds), array(np.array(self.stream, np.float64))
        near.gravity = array(np.array(self.gravity, np.float64))
        near.sensors = array(np.array([point for _, point in sensors], np.float64).reshape(-1, 2))
        near.carriers = array(np.array([body for body, _ in sensors], np.int64))
        self._everyone = self._device.active(array(np.ones(self.batch, np.bool_)))

    # --- the algorithm -------------------------------------------------------------------------------------------

    def _take_step(self) -> None:
        """Advance every running simulation by one step of its own size, never past its time."""
        active = self._device.active(self._near.running)
        self._choose_time_step(active)
        self._predict(active)
        self._drive_bodies()
        self._penalize(active)
        self._project(active, keep_pressure=True)
        self._follow_light_bodies(active)
        self._end_step(active)

    def _choose_time_step(self, active: Any) -> None:
        s = self._near
        self._sweeps.begin_step(
            active, s.time, s.until, s.dt, s.ratio, s.speed, s.viscosity, self.grid.h, self.cfl,
            STABLE_DECAY[self.integrator], self.integrator == "ab2", s.velocity, s.angular_velocity, s.angle, s.before,
        )  # fmt: skip

    def _predict(self, active: Any) -> None:
        """Advection, diffusion and the last pressure gradient, explicit."""
        s = self._near
        self._sweeps.fill_ghosts(active, self.u, self.v, s.sides, self._given)
        self._sweeps.predict(
            active, self._device.blocks(active), self.u, self.v, self._new_u, self._new_v, self._rate_u, self._rate_v,
            self.pressure, s.sides, s.viscosity, s.dt, s.ratio, self.grid.h, self._fluxes,
        )  # fmt: skip

    def _drive_bodies(self) -> None:
        """Bring driven bodies to the end of the step, as prescribed."""
        if not self._driven:
            return
        self._device.pull()
        for b in np.flatnonzero(self._running):
            for k in self._driven:
                self._place_driven(int(b), k, self.time[b] + self.dt[b])
        self._device.push()

    def _place_driven(self, b: int, k: int, time: float) -> None:
        motion = self.bodies[k].motion
        assert callable(motion)
        x, y, theta, vx, vy, omega = motion(time)
        state = self.body_state
        state.position[b, k], state.angle[b, k] = (x, y), theta
        state.velocity[b, k], state.angular_velocity[b, k] = (vx, vy), omega

    def _penalize(self, active: Any, moves: bool = True) -> None:
        """Free bodies' motion and the penalty, implicit and together."""
        if not self.bodies:
            return
        s = self._near
        state = (s.position, s.angle, s.velocity, s.angular_velocity, s.before, s.applied_force, s.applied_torque,
                 s.force, s.torque, s.fluid_acceleration)  # fmt: skip
        self._sweeps.penalize(
            active, self._new_u, self._new_v, self._share_u, self._share_v, s.bodies, moves, state, s.contact,
            s.gravity, s.viscosity, self.penalty, s.dt, self.grid.h, s.sides,
        )  # fmt: skip

    def _project(self, active: Any, keep_pressure: bool) -> None:
        """Make the velocity divergence-free; the potential is the change of the pressure, unless that is not kept."""
        s, sweeps, blocks, h = self._near, self._sweeps, self._device.blocks(active), self.grid.h
        if self._far_field:
            sweeps.far_field(active, self.u, self.v, self._given, s.sides, s.stream, h, self._far_block, self._vortices)
        sweeps.update_sides(active, self.u, self.v, self._new_u, self._new_v, s.sides, self._given, s.dt, h)
        self._pressure_solver.solve_divergence(active, blocks, self._new_u, self._new_v, self._phi, s.sides)
        sweeps.correct(
            active, blocks, self._new_u, self._new_v, self.u, self.v, self._phi, self.pressure, s.sides, s.dt, h,
            keep_pressure, self._speeds,
        )  # fmt: skip
        sweeps.find_speed(active, blocks, self._speeds, s.speed, s.diverged)

    def _follow_light_bodies(self, active: Any) -> None:
        """Look at the acceleration of the fluid under bodies lighter than it, which the next step needs."""
        if not self._table.mass_lag.any():
            return
        s = self._near
        self._sweeps.follow_light_bodies(
            active, self.u, self.v, self._share_u, self._share_v, s.bodies, s.position, s.angle, s.fluid_motion,
            s.fluid_acceleration, s.dt, self.grid.h, s.sides,
        )  # fmt: skip

    def _end_step(self, active: Any) -> None:
        """Let time go by, and see who goes on."""
        s = self._near
        self._sweeps.end_step(
            active, s.time, s.until, s.dt, s.steps, s.running, s.diverged, s.outside, s.fences, s.position, s.force,
            s.torque, s.impulse,
        )  # fmt: skip

    def _settle_all(self) -> None:
        """Penalise and project by turns."""
        active = self._device.active(self._near.running)
        for _ in range(SETTLING_SWEEPS):
            self._sweeps.copy_velocity(active, self.u, self.v, self._new_u, self._new_v)
            self._penalize(active, moves=False)
            self._project(active, keep_pressure=False)
        self._follow_light_bodies(active)

    def _sense_all(self) -> None:
        s = self._near
        self._sweeps.fill_ghosts(self._everyone, self.u, self.v, s.sides, self._given)
        self._sweeps.sense(self._everyone, self.u, self.v, s.position, s.angle, s.sensors, s.carriers, self.grid.h,
                           s.sides, s.sensed)  # fmt: skip

    # --- driving it ------------------------------------------------------------------------------------------------

    def step(self, active: BoolArray | None = None, until: FloatArray | None = None) -> None:
        """Advance every active simulation by one step of its own size, never past ``until``.

        Parameters
        ----------
        active : (B,) bool, optional
            Which simulations take part; all that have not diverged unless given.
        until : (B,) float64, optional
            Times to land on.
        """
        self._begin(active, np.inf if until is None else until)
        self._step_and_look()

    def advance(
        self,
        duration: float | FloatArray,
        active: BoolArray | None = None,
        stop: Callable[[Simulation], BoolArray] | None = None,
    ) -> BoolArray:
        """Step until every active simulation has advanced by ``duration``, or a body has left its fence.

        Parameters
        ----------
        duration : float or (B,) float64
        active : (B,) bool, optional
        stop : callable, optional
            Asked after every step; a simulation for which it returns True advances no further.

        Returns
        -------
        (B,) bool
            Which simulations were stopped early. Diverged ones end early, too, but are told by ``diverged``.
        """
        self._begin(active, self.time + duration)
        stopped = np.zeros(self.batch, bool)
        if stop is None and not self._driven and self.control_volumes is None:
            self._device.push()
            self._device.repeat(self._step, self._near.running, None)
            self._finish()
        else:
            while self._running.any():
                running = self._running.copy()
                self._step_and_look()
                if stop is not None:
                    stopped |= running & stop(self)
                    self._running &= ~stopped
            self.sense()
        return stopped | self._outside

    def advance_steps(self, steps: int) -> None:
        """Take a number of steps, each of its own size."""
        self._begin(None, np.inf)
        if self._driven or self.control_volumes is not None:
            for _ in range(steps):
                self._step_and_look()
        else:
            self._device.push()
            self._device.repeat(self._step, self._near.running, steps)
            self._finish()

    def _begin(self, active: BoolArray | None, until: float | FloatArray) -> None:
        self._running[:] = ~self.diverged if active is None else active & ~self.diverged
        self._outside[:] = False
        self._until[:] = until

    def _step_and_look(self) -> None:
        """Take one step, with everything about it known to the host before and after."""
        who = np.flatnonzero(self._running)
        if self.control_volumes is not None:
            self.control_volumes.begin(who)
        self._device.push()
        self._step()
        self._device.pull()
        if self.control_volumes is not None:
            self.control_volumes.end(who)

    def _finish(self) -> None:
        """Look at the sensors and let the host see what has happened."""
        if self.sensed.size:
            self._sense()
        self._device.pull()

    def sense(self) -> FloatArray:
        """Bring the velocity at the sensors up to date and return it; shape (B, n, 2)."""
        self._device.push()
        self._finish()
        return self.sensed

    def reset(self, which: BoolArray | None = None) -> None:
        """Start anew, impulsively: the stream everywhere, every body where it was specified, and settled.

        Parameters
        ----------
        which : (B,) bool, optional
            Which simulations; all unless given.
        """
        which = np.ones(self.batch, bool) if which is None else which
        for b in np.flatnonzero(which):
            self.u[b], self.v[b] = self.stream
            for field in (self._rate_u, self._rate_v, self._new_u, self._new_v, self.pressure):
                field[b] = 0
            self._fill_given_sides(int(b))
        self.time[which], self.dt[which], self.steps[which] = 0.0, 0.0, 0
        self._speed[which] = np.hypot(*self.stream)
        state = self.body_state
        for array in vars(state).values():
            array[which] = 0
        for k, body in enumerate(self.bodies):
            state.position[which, k], state.angle[which, k] = body.center, body.angle
            for b in np.flatnonzero(which) if k in self._driven else ():
                self._place_driven(int(b), k, 0.0)
        self.settle(which)

    def _fill_given_sides(self, b: int) -> None:
        nx, ny = self.grid.nx, self.grid.ny
        given = np.repeat(self.sides.velocities(self.stream)[:, :, None], self._given.shape[-1], axis=2)
        self._given[b] = self._device.array(given.astype(self.dtype))
        walls = (Side.INFLOW, Side.SLIP, Side.NO_SLIP, Side.FAR_FIELD)
        for side, index in ((0, G), (1, G + nx)):
            if self._side_kinds[side] in walls:
                self.u[b, index] = given[side, 0, 0]
        for side, index in ((2, G), (3, G + ny)):
            if self._side_kinds[side] in walls:
                self.v[b, :, index] = given[side, 1, 0]

    def settle(self, which: BoolArray | None = None) -> None:
        """Let the flow meet bodies that appear in it or change speed at once: the impulsive start.

        Penalises and projects by turns, without advancing time and without moving any body, until the flow outside is
        the potential flow that the bodies' velocities demand on top of the vorticity that was there. Call it after
        placing a body by hand. Clears ``diverged`` of these simulations and their multi-step history.
        """
        which = np.ones(self.batch, bool) if which is None else which
        state = self.body_state
        self.dt[which] = self.cfl * self.grid.h
        self._running[:] = which
        self._before[which, :, :2] = state.velocity[which]
        self._before[which, :, 2], self._before[which, :, 3] = state.angular_velocity[which], state.angle[which]
        self._device.push()
        self._settle()
        self._finish()
        for array in (state.force, state.torque, state.impulse, state.fluid_acceleration):
            array[which] = 0.0
        self.dt[which] = 0.0

    def set_velocity(self, b: int, u: ArrayLike, v: ArrayLike) -> None:
        """Write the velocity of simulation b, given on :meth:`Grid.u_faces` and :meth:`Grid.v_faces`."""
        for field, values in ((self.u, u), (self.v, v)):
            field[b] = self._device.array(np.asarray(values).astype(self.dtype))

    def add_velocity(self, b: int, u: ArrayLike, v: ArrayLike) -> None:
        """Add to the velocity of simulation b, likewise; a number adds to all faces."""
        for field, values in ((self.u, u), (self.v, v)):
            field[b] += self._device.array(np.asarray(values).astype(self.dtype))

    # --- looking at it ---------------------------------------------------------------------------------------------

    def measure_control_volumes(self, margin: float = 0.25) -> ControlVolumes:
        """Measure force and torque by control volumes, too, in every step from now on.

        Parameters
        ----------
        margin : float
            Distance from the bodies to the edges of their control volumes, in units of D.
        """
        self.control_volumes = ControlVolumes(self, margin)
        return self.control_volumes

    def power(self) -> FloatArray:
        """Return the power (B, K) that the fluid gave each body in the last step, in units of rho U^3 D.

        The integral of its negative is the work that a driven body did against the flow.
        """
        state = self.body_state
        power: FloatArray = (state.force * state.velocity).sum(axis=-1) + state.torque * state.angular_velocity
        return power

    def extent(self, b: int, k: int) -> tuple[FloatArray, FloatArray]:
        """Return the lower left and the upper right corner, (2,) each, of a box around body k of simulation b."""
        c, s = np.cos(self.body_state.angle[b, k]), np.sin(self.body_state.angle[b, k])
        along, across = self._table.axes[k]
        reach = np.array([np.hypot(along * c, across * s), np.hypot(along * s, across * c)])
        return self.body_state.position[b, k] - reach, self.body_state.position[b, k] + reach

    def displaced(self, k: int) -> tuple[float, float]:
        """Return mass and moment of inertia of the fluid that body k displaces."""
        return float(self._table.fluid_mass[k]), float(self.bodies[k].second_moment)

    def max_divergence(self) -> FloatArray:
        """Largest |div u| of each simulation; shape (B,)."""
        self._sweeps.divergence(self._everyone, 1, self.u, self.v, self._phi, self._near.sides)
        return np.abs(self.to_host(self._phi)).max(axis=(1, 2)).astype(np.float64) / self.grid.h

    def velocity_at_centres(self) -> NDArray[np.floating]:
        """Velocity at the cell centres; shape (B, nx, ny, 2)."""
        self.fill_ghosts()
        nx, ny = self.grid.nx, self.grid.ny
        u, v = self.to_host(self.u), self.to_host(self.v)
        u = 0.5 * (u[:, G : G + nx, G : G + ny] + u[:, G + 1 : G + 1 + nx, G : G + ny])
        v = 0.5 * (v[:, G : G + nx, G : G + ny] + v[:, G : G + nx, G + 1 : G + 1 + ny])
        return np.stack([u, v], axis=-1)

    def vorticity(self) -> NDArray[np.floating]:
        """Vorticity dv/dx - du/dy at the cell centres (the mean of the four corners); shape (B, nx, ny)."""
        self.fill_ghosts()
        nx, ny = self.grid.nx, self.grid.ny
        u, v = self.to_host(self.u), self.to_host(self.v)
        x, y = slice(G, G + nx + 1), slice(G, G + ny + 1)
        below, left = slice(G - 1, G + ny), slice(G - 1, G + nx)
        corner = (v[:, x, y] - v[:, left, y] - u[:, x, y] + u[:, x, below]) / self.grid.h
        return 0.25 * (corner[:, :-1, :-1] + corner[:, 1:, :-1] + corner[:, :-1, 1:] + corner[:, 1:, 1:])

    def solid(self) -> NDArray[np.float64]:
        """Share chi of each cell that lies inside any body; shape (B, nx, ny)."""
        chi = self._device.zeros((self.batch, self.grid.nx, self.grid.ny), np.float64)
        s = self._near
        self._device.push()
        self._sweeps.cover(self._everyone, chi, s.bodies, s.position, s.angle, self.grid.h, s.sides)
        return self.to_host(chi)

    def sample_velocity(self, points: ArrayLike) -> FloatArray:
        """Velocity at given points by bilinear interpolation.

        Parameters
        ----------
        points : (B, n, 2)
            Points outside the box are moved to its edge.

        Returns
        -------
        (B, n, 2) float64
        """
        self.fill_ghosts()
        near = self._device.array(np.asarray(points, np.float64))
        velocity = self._device.zeros(near.shape, np.float64)
        self._sweeps.sample(self._everyone, self.u, self.v, near, self.grid.h, velocity)
        return self.to_host(velocity)

    def fill_ghosts(self) -> None:
        """Bring the ghost points of u and v up to date with the sides of the box."""
        self._sweeps.fill_ghosts(self._everyone, self.u, self.v, self._near.sides, self._given)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return a field, or a part of one, as an array of the host."""
        return np.asarray(self._device.to_host(array))

    def describe(self) -> str:
        """Say resolution, blockage, penalty and step size in one line."""
        size = max((max(body.semi_axes) * 2 for body in self.bodies), default=1.0)
        height = max((max(body.semi_axes) * 2 for body in self.bodies), default=0.0)
        dt = self.cfl * self.grid.h
        return (
            f"{self.batch} x {self.grid.nx} x {self.grid.ny} cells, D/h = {size / self.grid.h:.3g}, "
            f"blockage {100 * height / self.grid.size[1]:.3g} %, dt <= {dt:.3g} D/U, "
            f"lambda dt <= {self.penalty * dt:.3g}, {self.dtype}, {self.integrator} at CFL {self.cfl:g}"
        )

    # --- restarts --------------------------------------------------------------------------------------------------

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        fields = {
            "u": self.u, "v": self.v, "rate_u": self._rate_u, "rate_v": self._rate_v, "pressure": self.pressure,
            "time": self.time, "dt": self.dt, "steps": self.steps, "diverged": self.diverged, "speed": self._speed,
            "viscosity": self.viscosity, "sides": self._given,
        }  # fmt: skip
        return fields | {f"body_{name}": array for name, array in vars(self.body_state).items()}

    def get_state(self, b: int = 0) -> dict[str, NDArray[Any]]:
        """Return a copy of all that the future of simulation b depends on."""
        return {name: np.array(self.to_host(array[b])) for name, array in self._state_arrays().items()}

    def set_state(self, b: int, state: dict[str, NDArray[Any]]) -> None:
        """Bring simulation b to a state of :meth:`get_state`; it goes on as the original would, to the bit.

        Raises
        ------
        ValueError
            When the state belongs to another grid, precision or set of bodies.
        """
        own = self._state_arrays()
        if set(state) != set(own):
            raise ValueError(f"the state has the fields {sorted(state)}, this simulation has {sorted(own)}")
        for name, array in own.items():
            if np.shape(state[name]) != array[b].shape or np.asarray(state[name]).dtype != array.dtype:
                raise ValueError(f"the state's {name} is {np.shape(state[name])} {np.asarray(state[name]).dtype}, "
                                 f"this simulation's is {array[b].shape} {array.dtype}")  # fmt: skip
        for name, array in own.items():
            array[b] = state[name] if isinstance(array, np.ndarray) else self._device.array(state[name])


def memory_needed(grid: Grid, batch: int, dtype: str) -> int:
    """Return the bytes that a batch of simulations takes: eight velocity arrays, and pressure, its change and modes."""
    padded, cells = np.prod(grid.padded_shape), grid.nx * grid.ny
    return int(batch * np.dtype(dtype).itemsize * (8 * padded + 3 * cells + grid.nx * 2))
