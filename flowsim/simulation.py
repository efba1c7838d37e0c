"""The state of a batch of flows, and the step that advances it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import load_backend
from flowsim.bodies import Body, BodyState, BodyTable
from flowsim.boundary import Side, Sides
from flowsim.forces import ControlVolumes
from flowsim.grid import GHOSTS as G
from flowsim.grid import Grid
from flowsim.poisson import PoissonPlan

ABSURD_SPEED = 1e3
"""A flow faster than this many U has blown up."""

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
    integrator : str
        ``"ab2"``, variable-step Adams-Bashforth of second order, or ``"euler"``.
    cfl : float, optional
        Bound of dt max(|u| + |v|) / h; 0.5 for ``ab2`` and 0.1 for ``euler`` unless given.
    penalty : float
        lambda, in units of U/D. The leak through a body is of the order dt |grad p| / (lambda dt).
    dtype : str
        ``"float32"`` or ``"float64"``.
    backend : str
        ``"cpu"``.
    threads : int
        Threads of the sweeps (at most numba's own number).

    Attributes
    ----------
    body_state : BodyState
        Positions, velocities and applied forces of the bodies; may be written between steps.
    time, dt : (B,) float64
        Time and the size of the last step, in units of D/U.
    steps : (B,) int64
    control_volumes : ControlVolumes or None
        The second measure of force and torque, once :meth:`measure_control_volumes` was called.
    diverged : (B,) bool
        Simulations whose velocity is not finite or absurd. They take no further part until they are reset.

    Raises
    ------
    ValueError
        For values out of range, or sides through which the stream cannot pass.
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
        integrator: str = "ab2",
        cfl: float | None = None,
        penalty: float = 1e4,
        dtype: str = "float32",
        backend: str = "cpu",
        threads: int = 1,
    ) -> None:
        self.grid, self.sides, self.bodies, self.batch = grid, sides or Sides(), tuple(bodies), batch
        self.stream, self.integrator, self.penalty = stream, integrator, penalty
        if integrator not in DEFAULT_CFL:
            raise ValueError(f'integrator = {integrator!r}: the integrators are "ab2" and "euler"')
        self.cfl = DEFAULT_CFL[integrator] if cfl is None else cfl
        self.viscosity = np.broadcast_to(np.asarray(viscosity, dtype=np.float64), (batch,)).copy()
        self._check(dtype)
        self.dtype = np.dtype(dtype)
        self.gravity = np.asarray(gravity, np.float64)
        self._sweeps = load_backend(backend, threads)
        self._threads = threads
        self._side_kinds = self.sides.kinds()
        plan = PoissonPlan.build(grid.nx, grid.ny, self.sides.periodic, self.dtype)
        self._pressure_solver = self._sweeps.PressureSolver(plan, batch, threads)
        self._stream = np.array(stream, np.float64)
        given = self.sides.velocities(stream).astype(self.dtype)
        self._given = np.repeat(np.repeat(given[None, :, :, None], batch, 0), max(grid.padded_shape), 3)
        self._far_field = bool((self._side_kinds == Side.FAR_FIELD).any())
        self._far_block = max(8, max(grid.nx, grid.ny) // FAR_FIELD_BLOCKS)
        blocks = -(-grid.nx // self._far_block) * -(-grid.ny // self._far_block) if self._far_field else 0
        self._vortices = np.zeros((batch, blocks, 7))

        padded, cells = (batch, *grid.padded_shape), (batch, grid.nx, grid.ny)
        self.u, self.v = np.zeros(padded, self.dtype), np.zeros(padded, self.dtype)
        self._new_u, self._new_v = np.zeros(padded, self.dtype), np.zeros(padded, self.dtype)
        self._rate_u, self._rate_v = np.zeros(padded, self.dtype), np.zeros(padded, self.dtype)
        self._share_u, self._share_v = np.zeros(padded, self.dtype), np.zeros(padded, self.dtype)
        self.pressure = np.zeros(cells, self.dtype)
        self._phi = np.zeros(cells, self.dtype)

        self._fluxes = np.zeros((max(batch, threads), 5, grid.ny + 16), self.dtype)

        self.time, self.dt = np.zeros(batch), np.zeros(batch)
        self.steps = np.zeros(batch, np.int64)
        self.diverged = np.zeros(batch, bool)
        self._speed = np.zeros(batch)
        self._block_speed = np.zeros((batch, threads), self.dtype)
        self.body_state = BodyState.zeros(batch, len(self.bodies))
        self.control_volumes: ControlVolumes | None = None
        self._tabulate_bodies()
        self.reset()

    def _check(self, dtype: str) -> None:
        if self.batch < 1:
            raise ValueError(f"batch = {self.batch!r}: there must be at least one simulation")
        if not (np.isfinite(self.viscosity).all() and (self.viscosity > 0).all()):
            raise ValueError(f"viscosity = {self.viscosity.min()!r}: the viscosity (1/Re) must be positive")
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

    def _tabulate_bodies(self) -> None:
        bodies = self.bodies
        self._table = BodyTable.of(bodies, self.grid.h, self.viscosity)
        self._any_light = bool(self._table.mass_lag.any())
        self._driven = [k for k, body in enumerate(bodies) if callable(body.motion)]
        self._before = np.zeros((self.batch, len(bodies), 3))

    # --- the algorithm -------------------------------------------------------------------------------------------

    def step(self, active: BoolArray | None = None, until: FloatArray | None = None) -> None:
        """Advance every active simulation by one step of its own size, never past ``until``.

        Parameters
        ----------
        active : (B,) bool, optional
            Which simulations take part; all that have not diverged unless given.
        until : (B,) float64, optional
            Times to land on.
        """
        who = self._who(active)
        if self.control_volumes is not None:
            self.control_volumes.begin(who)
        ratio = self._choose_time_step(who, until)
        self._predict(who, ratio)
        self._move_bodies(who)
        self._penalize(who)
        self._project(who, keep_pressure=True)
        self._follow_light_bodies(who)
        self.time[who] += self.dt[who]
        self.steps[who] += 1
        if self.control_volumes is not None:
            self.control_volumes.end(who)

    def _choose_time_step(self, who: NDArray[np.int64], until: FloatArray | None) -> FloatArray:
        """Set dt from the CFL condition and the diffusive limit; return its ratio to the last one, 0 for Euler."""
        h, last = self.grid.h, self.dt[who]
        # no flow, however slow, takes longer steps than one of speed U, so that sudden forces are resolved
        speed = np.maximum(self._speed[who], 1.0)
        # Shortest waves decay at the sum of these rates, of upwind dissipation and of diffusion, and the stability
        # interval of the negative real axis is 1 for Adams-Bashforth and 2 for Euler.
        decay = 4.0 / 3.0 * speed / h + 8.0 * self.viscosity[who] / h**2
        dt = np.minimum(self.cfl * h / speed, 0.9 * STABLE_DECAY[self.integrator] / decay)
        if until is not None:
            left = np.maximum(until[who] - self.time[who], 1e-12)
            dt = left / np.ceil(left / dt - 1e-9)
        self.dt[who] = dt
        if self.integrator == "euler":
            return np.zeros(self.batch)
        ratio = np.zeros(self.batch)
        ratio[who] = np.where(last > 0, dt / np.where(last > 0, last, 1.0), 0.0)
        return ratio

    def _predict(self, who: NDArray[np.int64], ratio: FloatArray) -> None:
        """Advection, diffusion and the last pressure gradient, explicit."""
        self._sweeps.fill_ghosts(who, self.u, self.v, self._side_kinds, self._given)
        self._sweeps.predict(
            who, self._blocks(who), self.u, self.v, self._new_u, self._new_v, self._rate_u, self._rate_v,
            self.pressure, self._side_kinds, self.viscosity, self.dt, ratio, self.grid.h,
            self._fluxes,
        )  # fmt: skip

    def _move_bodies(self, who: NDArray[np.int64]) -> None:
        """Bring every body to the end of the step: free ones with their last velocity, driven ones as prescribed."""
        state, dt = self.body_state, self.dt
        self._before[who, :, :2], self._before[who, :, 2] = state.velocity[who], state.angular_velocity[who]
        if self._table.free.any():
            self._sweeps.move_free_bodies(
                who, self._table, state.position, state.angle, state.velocity, state.angular_velocity, dt
            )
        for k in self._driven:
            for b in who:
                self._place_driven(int(b), k, self.time[b] + dt[b])

    def _place_driven(self, b: int, k: int, time: float) -> None:
        motion = self.bodies[k].motion
        assert callable(motion)
        x, y, theta, vx, vy, omega = motion(time)
        state = self.body_state
        state.position[b, k], state.angle[b, k] = (x, y), theta
        state.velocity[b, k], state.angular_velocity[b, k] = (vx, vy), omega

    def _penalize(self, who: NDArray[np.int64], moves: bool = True) -> None:
        """Free bodies' velocities and the penalty, implicit and together."""
        if not self.bodies:
            return
        s = self.body_state
        self._sweeps.penalize(
            who, self._new_u, self._new_v, self._share_u, self._share_v, self._table, moves,
            s.position, s.angle, s.velocity, s.angular_velocity, self._before, s.applied_force, s.applied_torque,
            s.force, s.torque, s.contact, s.fluid_acceleration, self.gravity, self.penalty, self.dt, self.grid.h,
            self._side_kinds,
        )  # fmt: skip

    def _follow_light_bodies(self, who: NDArray[np.int64]) -> None:
        """Look at the acceleration of the fluid under bodies lighter than it, which the next step needs."""
        if not self._any_light:
            return
        s = self.body_state
        self._sweeps.follow_light_bodies(
            who, self.u, self.v, self._share_u, self._share_v, self._table, s.position, s.angle, s.fluid_motion,
            s.fluid_acceleration, self.dt, self.grid.h, self._side_kinds,
        )  # fmt: skip

    def _project(self, who: NDArray[np.int64], keep_pressure: bool) -> None:
        """Make the velocity divergence-free; the potential is the change of the pressure, unless that is not kept."""
        sweeps, blocks = self._sweeps, self._blocks(who)
        if self._far_field:
            sweeps.far_field(who, self.u, self.v, self._given, self._side_kinds, self._stream, self.grid.h,
                             self._far_block, self._vortices)  # fmt: skip
        sweeps.update_sides(who, self.u, self.v, self._new_u, self._new_v, self._side_kinds, self._given, self.dt,
                            self.grid.h)  # fmt: skip
        sweeps.divergence(who, blocks, self._new_u, self._new_v, self._phi, self._side_kinds)
        self._pressure_solver.solve(who, blocks, self._phi)
        per_dth = np.zeros(self.batch)
        if keep_pressure:
            per_dth[who] = self.grid.h / self.dt[who]
        sweeps.correct(who, blocks, self._new_u, self._new_v, self.u, self.v, self._phi, self.pressure,
                       self._side_kinds, per_dth, self._block_speed)  # fmt: skip
        self._speed[who] = self._block_speed[who, :blocks].max(axis=1)
        self.diverged[who] = ~(self._speed[who] < ABSURD_SPEED)

    # --- driving it ------------------------------------------------------------------------------------------------

    def advance(
        self,
        duration: float | FloatArray,
        active: BoolArray | None = None,
        stop: Callable[[Simulation], BoolArray] | None = None,
    ) -> BoolArray:
        """Step until every active simulation has advanced by ``duration``.

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
        until = self.time + duration
        running = np.zeros(self.batch, bool)
        running[self._who(active)] = True
        stopped = np.zeros(self.batch, bool)
        while running.any():
            self.step(running, until)
            if stop is not None:
                stopped |= running & stop(self)
            running &= ~(stopped | self.diverged | (self.time >= until - 1e-9))
        return stopped

    def advance_steps(self, steps: int) -> None:
        """Take a number of steps, each of its own size."""
        for _ in range(steps):
            self.step()

    def reset(self, which: BoolArray | None = None) -> None:
        """Start anew, impulsively: the stream everywhere, every body where it was specified, and settled.

        Parameters
        ----------
        which : (B,) bool, optional
            Which simulations; all unless given.
        """
        which = np.ones(self.batch, bool) if which is None else which
        for field, value in ((self.u, self.stream[0]), (self.v, self.stream[1])):
            field[which] = value
        for field in (self._rate_u, self._rate_v, self._new_u, self._new_v, self.pressure):
            field[which] = 0
        self._fill_given_sides(which)
        self.time[which], self.dt[which], self.steps[which] = 0.0, 0.0, 0
        self._speed[which] = np.hypot(*self.stream)
        state = self.body_state
        for array in vars(state).values():
            array[which] = 0.0
        for k, body in enumerate(self.bodies):
            state.position[which, k], state.angle[which, k] = body.center, body.angle
            for b in np.flatnonzero(which) if k in self._driven else ():
                self._place_driven(int(b), k, 0.0)
        self.settle(which)

    def _fill_given_sides(self, which: BoolArray) -> None:
        nx, ny = self.grid.nx, self.grid.ny
        self._given[which] = self.sides.velocities(self.stream).astype(self.dtype)[:, :, None]
        walls = (Side.INFLOW, Side.SLIP, Side.NO_SLIP, Side.FAR_FIELD)
        for side, index in ((0, G), (1, G + nx)):
            if self._side_kinds[side] in walls:
                self.u[which, index] = self._given[which, side, 0, : ny + 2 * G]
        for side, index in ((2, G), (3, G + ny)):
            if self._side_kinds[side] in walls:
                self.v[which, :, index] = self._given[which, side, 1, : nx + 2 * G]

    def settle(self, which: BoolArray | None = None) -> None:
        """Let the flow meet bodies that appear in it or change speed at once: the impulsive start.

        Penalises and projects by turns, without advancing time and without moving any body, until the flow outside is
        the potential flow that the bodies' velocities demand on top of the vorticity that was there. Call it after
        placing a body by hand. Clears ``diverged`` of these simulations and their multi-step history.
        """
        which = np.ones(self.batch, bool) if which is None else which
        who = np.flatnonzero(which)
        self.dt[who] = self.cfl * self.grid.h
        self._new_u[who], self._new_v[who] = self.u[who], self.v[who]
        state = self.body_state
        self._before[who, :, :2], self._before[who, :, 2] = state.velocity[who], state.angular_velocity[who]
        for _ in range(SETTLING_SWEEPS):
            self._penalize(who, moves=False)
            self._project(who, keep_pressure=False)
            self._new_u[who], self._new_v[who] = self.u[who], self.v[who]
        self._follow_light_bodies(who)
        for array in (state.force, state.torque, state.fluid_acceleration):
            array[who] = 0.0
        self.dt[who] = 0.0

    def _who(self, active: BoolArray | None) -> NDArray[np.int64]:
        return np.flatnonzero(~self.diverged if active is None else active & ~self.diverged)

    def _blocks(self, who: NDArray[np.int64]) -> int:
        return 1 if len(who) >= self._threads else self._threads

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
        everyone = np.arange(self.batch)
        self._sweeps.divergence(everyone, 1, self.u, self.v, self._phi, self._side_kinds)
        return np.abs(self._phi).max(axis=(1, 2)).astype(np.float64) / self.grid.h

    def velocity_at_centres(self) -> NDArray[np.floating]:
        """Velocity at the cell centres; shape (B, nx, ny, 2)."""
        self.fill_ghosts()
        nx, ny = self.grid.nx, self.grid.ny
        u = 0.5 * (self.u[:, G : G + nx, G : G + ny] + self.u[:, G + 1 : G + 1 + nx, G : G + ny])
        v = 0.5 * (self.v[:, G : G + nx, G : G + ny] + self.v[:, G : G + nx, G + 1 : G + 1 + ny])
        return np.stack([u, v], axis=-1)

    def vorticity(self) -> NDArray[np.floating]:
        """Vorticity dv/dx - du/dy at the cell centres (the mean of the four corners); shape (B, nx, ny)."""
        self.fill_ghosts()
        nx, ny = self.grid.nx, self.grid.ny
        x, y = slice(G, G + nx + 1), slice(G, G + ny + 1)
        below, left = slice(G - 1, G + ny), slice(G - 1, G + nx)
        corner = (self.v[:, x, y] - self.v[:, left, y] - self.u[:, x, y] + self.u[:, x, below]) / self.grid.h
        return 0.25 * (corner[:, :-1, :-1] + corner[:, 1:, :-1] + corner[:, :-1, 1:] + corner[:, 1:, 1:])

    def solid(self) -> NDArray[np.float64]:
        """Share chi of each cell that lies inside any body; shape (B, nx, ny)."""
        chi = np.zeros((self.batch, self.grid.nx, self.grid.ny))
        state, everyone = self.body_state, np.arange(self.batch)
        self._sweeps.cover(everyone, chi, self._table, state.position, state.angle, self.grid.h, self._side_kinds)
        return chi

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
        points = np.asarray(points, np.float64)
        x = np.clip(points[..., 0], 0.0, self.grid.size[0]) / self.grid.h
        y = np.clip(points[..., 1], 0.0, self.grid.size[1]) / self.grid.h
        return np.stack([_bilinear(self.u, x, y - 0.5), _bilinear(self.v, x - 0.5, y)], axis=-1)

    def fill_ghosts(self) -> None:
        """Bring the ghost points of u and v up to date with the sides of the box."""
        self._sweeps.fill_ghosts(np.arange(self.batch), self.u, self.v, self._side_kinds, self._given)

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
        return {name: np.array(array[b]) for name, array in self._state_arrays().items()}

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
            array[b] = state[name]


def _bilinear(f: NDArray[np.floating], x: FloatArray, y: FloatArray) -> FloatArray:
    """Interpolate f (B, nx + 2G, ny + 2G) at fractional inner indices x, y (B, n)."""
    b = np.arange(len(f))[:, None]
    i, j = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    s, t = x - i, y - j
    i, j = i + G, j + G
    low = (1 - s) * f[b, i, j] + s * f[b, i + 1, j]
    high = (1 - s) * f[b, i, j + 1] + s * f[b, i + 1, j + 1]
    return (1 - t) * low + t * high
