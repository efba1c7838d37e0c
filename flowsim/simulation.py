"""The user interface of a batch of flows: start, advance, control and measure them.

The class is in one file because all its methods read and write the same arrays; half of the file is documentation.
The algorithm of a step is in :mod:`flowsim.backend.step`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import step
from flowsim.backend.forcing import ForceField, Vectors, check_mean_velocity
from flowsim.backend.host.given import is_finite, is_whole, refuse_unless_positive
from flowsim.backend.state import State
from flowsim.backend.step import Method, method_of
from flowsim.backend.temperature import Temperature
from flowsim.bodies import Body
from flowsim.bodies.checks import check_bodies, check_kinds, state_of_motion
from flowsim.bodies.jets import Jet, check_closed_box
from flowsim.bodies.swimmers import Swimmer
from flowsim.boundary import SIDE_NAMES, Sides, side_number
from flowsim.grid import GHOSTS, Grid
from flowsim.inflow import Inflow, Profile, check_stream, has_outlet
from flowsim.kernels.layout import (
    ANGLE,
    ANGLE_BEFORE,
    APPLIED_X,
    SPIN,
    SPIN_BEFORE,
    VX,
    VX_BEFORE,
    VY,
    VY_BEFORE,
)
from flowsim.kernels.midline import (
    OVER,
    PHASE,
    POWER,
    RATE,
    RATE_BEFORE,
    SINCE,
    TURN,
    TURN_BEFORE,
    command_at,
)
from flowsim.measure.control_volumes import ControlVolumes
from flowsim.measure.description import describe

if TYPE_CHECKING:
    from flowsim.measure.instrument import Instrument
    from flowsim.stability.damping import SelectiveFrequencyDamping

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

ROUND_OFF = 1e-9
"""Times that differ by less than this count as equal."""


class Simulation(State):
    """A batch of B two-dimensional incompressible flows around the same kinds of bodies.

    du/dt = -(u . grad) u + nu lap u - grad p + lambda chi (u_s - u), div u = 0 (ReF-ER paper, appendix D), advanced by
    an incremental projection method with implicit Brinkman penalisation (Angot 1999). Each simulation has its own
    viscosity, body positions, time and step; inactive simulations do not change.

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
        Initial velocity of the flow, and the velocity at ``inflow`` sides.
    gravity : (float, float)
        Acceleration g, in units of U^2/D. Weight and buoyancy, (mass - displaced mass) g, act on a free body;
        the pressure does not include the hydrostatic part.
    body_force : (float, float) or (B, 2), optional
        Uniform force per unit mass that drives the flow, in units of U^2/D: minus the mean pressure gradient, for
        channels with periodic sides. It also acts on the fluid inside bodies, so the force on a body includes that of
        the mean pressure gradient, ``body_force`` times its area.
    mean_velocity : (float or None, float or None) or (B, 2), optional
        Mean velocity in the box, bodies included, that the force maintains along x and y, between periodic sides.
        None leaves a direction uncontrolled.
    force_field : callable, optional
        A function of two coordinate arrays x and y that returns an additional steady force per unit mass, its x and y
        components as arrays of the same shape or (B, ...). It is called once.
    sensors : sequence of (int, (float, float))
        Body number, and a point in the frame of that body: the sensor moves with the body and measures the flow.
    jets : sequence of Jet
        Slots in the surfaces of bodies through which fluid is blown or sucked.
    temperature : Temperature, optional
        A scalar that is advected by the flow and makes it buoyant; no scalar is computed unless given.
    integrator : str
        ``"ab2"``, variable-step Adams-Bashforth of second order, or ``"euler"``.
    cfl : float, optional
        Upper bound of dt max(|u| + |v|) / h over the cells; 0.5 for ``ab2`` and 0.1 for ``euler`` unless given.
    penalty : float
        lambda, in units of U/D. The leak through a body is of the order of |grad p| / lambda; with lambda dt well above
        1, the flow near a body does not depend on dt.
    dtype : str
        ``"float32"`` or ``"float64"``.
    backend : str
        ``"cpu"`` or ``"cuda"``.
    threads : int
        Number of CPU threads. Each takes whole simulations of the batch; a single simulation is shared among them
        where that is faster. Results do not depend on the number of threads.
    perturbation : float
        Speed, in units of U, of an initial perturbation across the stream behind the first body, so that vortex
        shedding begins at once; 0 leaves a symmetric flow symmetric. 0.5 saves 100 D/U of waiting at Re 100.

    Attributes
    ----------
    u, v : (B, nx + 2 G, ny + 2 G)
        Velocity on the faces, with ghost points, in the memory of the backend (see :meth:`set_velocity`).
    pressure : (B, nx, ny)
    body_state : BodyState
        Positions, velocities and applied forces of the bodies; writable between steps.
    time, dt : (B,) float64
        Time and the size of the last step, in units of D/U.
    steps : (B,) int64
    viscosity : (B,) float64
    fences : (B, K, 4) float64
        Bounds x0, x1, y0, y1 of the reference point of each body: :meth:`advance` stops when a body leaves them.
        Infinite unless written.
    ending_contacts : (B, K) float64
        Contacts at which :meth:`advance` stops, a sum of :class:`~flowsim.bodies.table.Contact` for each body; 0
        unless written.
    sensed : (B, n, 2) float64
        Velocity of the flow at the n sensors, updated by :meth:`advance`, :meth:`settle` and :meth:`sense`.
    jet_flow_rates : (B, J) float64
        Current flow rate of each jet, in units of U D; negative values are suction. Writable, with immediate effect.
    target_jet_flow_rates, jet_ramp_rates : (B, J) float64
        Flow rate that each jet approaches linearly in time, and its rate of change per D/U, which may be infinite;
        zero keeps the current flow rate. :meth:`set_jet_flow_rates` writes both.
    spring_stiffness, spring_damping, spring_rest : (B, K, 3) float64
        Springs and dampers of the bodies along x, y and angle, as in :class:`flowsim.Spring`. Writable, separately for
        each flow of a batch, for bodies that were made with springs or held degrees of freedom; :meth:`reset` keeps
        them.
    body_force, target_mean_velocity : (B, 2) float64
        Current driving force of each flow, and the mean velocity that it maintains, NaN for none. Where a mean velocity
        is maintained, ``body_force`` is the force that this takes. Both are writable if the simulation was made with a
        force.
    jet_widths : (J,) float64
        Width of each slot along the surface, in units of D.
    control_volumes : ControlVolumes or None
        The second measurement of force and torque, after a call of :meth:`measure_control_volumes`.
    instruments : list of Instrument
        Instruments that run in every step: each :class:`flowsim.Recorder` and :class:`flowsim.FieldStatistics` of this
        simulation.
    damping : SelectiveFrequencyDamping or None
        Damping that drives the flow to its steady state, while :func:`flowsim.base_flow` runs.
    heat : Temperature or None
        The ``temperature`` argument.
    heat_table : HeatTable or None
        The same as arrays, from which :meth:`reset` starts.
    temperature : (B, nx + 2 G, ny + 2 G)
        Temperature at the cell centres, with ghost points, in the memory of the backend (see :meth:`set_temperature`).
    diffusivity : (B,) float64
    buoyancy : (B, 2) float64
        Parameters of the temperature; both are writable.
    diverged : (B,) bool
        Simulations whose velocity is not finite or is absurdly large. They are not advanced until they are reset.

    Raises
    ------
    ValueError
        For values out of range, or sides through which the stream cannot pass.
    RuntimeError
        When no device is available for the backend.
    MemoryError
        When the device has too little memory.
    """

    # one keyword argument for each choice, most with a default, so that scripts are self-explanatory
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
        body_force: Vectors | None = None,
        mean_velocity: Vectors | None = None,
        force_field: ForceField | None = None,
        sensors: Sequence[tuple[int, tuple[float, float]]] = (),
        jets: Sequence[Jet] = (),
        temperature: Temperature | None = None,
        integrator: str = "ab2",
        cfl: float | None = None,
        penalty: float = 1e6,
        dtype: str = "float32",
        backend: str = "cpu",
        threads: int = 1,
        perturbation: float = 0.0,
    ) -> None:
        sides = Sides() if sides is None else sides
        check_kinds(grid, sides, bodies, jets, temperature)
        super().__init__(
            grid,
            sides,
            bodies,
            batch=batch,
            stream=stream,
            gravity=gravity,
            body_force=body_force,
            mean_velocity=mean_velocity,
            force_field=force_field,
            sensors=sensors,
            jets=jets,
            temperature=temperature,
            dtype=dtype,
            backend=backend,
            threads=threads,
        )
        self.integrator, self.cfl, self.penalty = method_of(integrator, cfl, penalty)
        self.viscosity[:] = _checked_viscosity(viscosity, batch)
        if not is_finite(perturbation):
            raise ValueError(f"perturbation = {perturbation!r}: it must be finite")
        self.perturbation = perturbation
        check_bodies(self.bodies, self.grid, self.sides)
        check_stream(self.sides, self.stream, self.grid)
        self._driven = [k for k, body in enumerate(self.bodies) if callable(body.motion)]
        self.control_volumes: ControlVolumes | None = None
        self.instruments: list[Instrument] = []
        self.damping: SelectiveFrequencyDamping | None = None
        self._program = functools.partial(self._device.program, settings=self._settings)
        for side in SIDE_NAMES:
            if (profile := getattr(self.sides, f"{side}_profile")) is not None:
                self._add_inflow(side, profile)
        self._step = self._program(self._take_step)
        if self._driven:
            self._step_by_halves()
        self._settle = self._program(self._settle_all)
        self._sense = self._program(self._sense_all)
        self._device.prepare(self._every_sweep)
        self.reset()

    # --- the algorithm: see flowsim.backend.step --------------------------------------------------------------------

    def _take_step(self) -> None:
        """Advance every running simulation by one step of its own size, not beyond its end time."""
        step.take_step(self._device_state, self._method(), self._looks(), self._damp())

    def _begin_step(self) -> None:
        step.begin_step(self._device_state, self._method(), self._damp())

    def _complete_step(self) -> None:
        step.complete_step(self._device_state, self._method(), self._looks())

    def _looks(self) -> list[step.Look]:
        return [instrument.look for instrument in self.instruments]

    def _damp(self) -> step.Look | None:
        return self.damping.damp if self.damping is not None else None

    def _settle_all(self) -> None:
        step.settle(self._device_state, self._method())

    def _sense_all(self) -> None:
        step.sense(self._device_state)

    def _every_sweep(self) -> None:
        """Call every sweep of a step, an impulsive start, and the measurement of sensors and fields."""
        self._settle_all()
        self._take_step()
        self._sense_all()

    def _method(self) -> Method:
        return Method(self.integrator, self.cfl, self.penalty)

    def _settings(self) -> tuple[Any, ...]:
        """Return the arguments of sweeps that may be changed at any time."""
        return *self._method(), *self.instruments, self.damping

    def _step_by_halves(self) -> None:
        halves = self._program(self._begin_step), self._program(self._complete_step)
        self._step = functools.partial(self._take_driven_step, *halves)

    def _take_driven_step(self, begin: Callable[[], None], complete: Callable[[], None]) -> None:
        """Take a step, in the middle of which Python functions move bodies and change inflow profiles."""
        begin()
        with self._on_the_host():
            running = np.flatnonzero(self._running).tolist()
            self._write_inflows(running, (self.time + self.dt).tolist(), varying=True)
            for b in np.flatnonzero(self._running):
                for k in self._driven:
                    self._place_driven(int(b), k, self.time[b] + self.dt[b])
        complete()

    def _place_driven(self, b: int, k: int, time: float) -> None:
        x, y, theta, vx, vy, omega = state_of_motion(k, self.bodies[k], time)
        state = self.body_state
        state.position[b, k], state.angle[b, k] = (x, y), theta
        state.velocity[b, k], state.angular_velocity[b, k] = (vx, vy), omega

    # --- advancing -------------------------------------------------------------------------------------------------

    def step(
        self, active: BoolArray | None = None, until: float | FloatArray | None = None
    ) -> None:
        """Advance every active simulation by one step of its own size, not beyond ``until``.

        :mod:`flowsim.backend.step` contains the algorithm, sweep by sweep.

        Parameters
        ----------
        active : (B,) bool, optional
            Which simulations are advanced; all that have not diverged unless given.
        until : float or (B,) float64, optional
            Times at which to end exactly; flows that have reached theirs are not advanced.

        Raises
        ------
        ValueError
            For anything but such times, and for those that are NaN.
        """
        times = np.asarray(np.inf if until is None else until)
        numbers = times.dtype.kind in "biuf" and times.shape in ((), (self.batch,))
        if not numbers or np.isnan(times).any():
            raise ValueError(
                f"until = {until!r}: a time to end at is a number, not NaN, or one for each flow, ({self.batch},)"
            )
        self._begin(active, times)
        self._step_once()

    def advance(
        self,
        duration: float | FloatArray,
        active: BoolArray | None = None,
        stop: Callable[[Simulation], BoolArray] | None = None,
    ) -> BoolArray:
        """Advance every active simulation by ``duration``, or until one of its bodies reaches a fence or a contact.

        Parameters
        ----------
        duration : float or (B,) float64
        active : (B,) bool, optional
        stop : callable, optional
            Called with this simulation after every step; flows for which it returns True are not advanced further.

        Returns
        -------
        (B,) bool
            Which simulations were stopped early. Diverged ones also end early, but are marked in ``diverged`` only.

        Raises
        ------
        ValueError
            For a duration that is negative or not finite, or flags of the wrong shape or type, also from ``stop``.
        """
        times = np.asarray(duration)
        numbers = times.dtype.kind in "biuf" and times.shape in ((), (self.batch,))
        if not numbers or not (np.isfinite(times) & (times >= -ROUND_OFF)).all():
            raise ValueError(
                f"duration = {duration!r}: it must be a finite number that is not negative, or one for each flow, "
                f"({self.batch},)"
            )
        self._begin(active, self.time + duration)
        stopped = np.zeros(self.batch, bool)
        if stop is None and not self._each_step and self.control_volumes is None:
            self._repeat(None)
        else:
            while self._running.any():
                running = self._running.copy()
                self._step_once()
                if stop is not None:
                    stopped |= running & self._flags_of(stop)
                    self._running &= ~stopped
            self.sense()
        self._mark_lost()
        return stopped | self._stopped

    def _flags_of(self, stop: Callable[[Simulation], BoolArray]) -> BoolArray:
        """Return what ``stop`` says of each simulation; one flag stands for all of them."""
        flags = np.asarray(answer := stop(self))
        if flags.dtype != np.bool_ or flags.shape not in ((), (self.batch,)):
            raise ValueError(
                f"stop returned {answer!r}, but must return {self.batch} bools, one for each flow"
            )
        return flags

    def advance_steps(self, steps: int) -> None:
        """Take a number of steps with the step size of each flow.

        Raises
        ------
        ValueError
            For a number that is negative or no integer.
        """
        if not (is_whole(steps) and steps >= 0):
            raise ValueError(f"steps = {steps!r}: it must be an integer that is not negative")
        self._begin(None, np.inf)
        if self._each_step or self.control_volumes is not None:
            for _ in range(steps):
                self._step_once()
        else:
            self._repeat(steps)

    def _repeat(self, steps: int | None) -> None:
        """Take steps in compiled code; flows that wait for an instrument continue once it has measured them."""
        running, left, last = self._running.copy(), steps, self.steps + (steps or 0)
        while True:
            self._running[:] = running
            with self._on_the_device():
                self._device.repeat(self._step, self._device_state.running, left)
                self._look_at_sensors()
            running &= self._go_on()
            if steps is not None:
                running &= self.steps < last
                left = int((last - self.steps)[running].min(initial=steps))
            if not running.any():
                return

    def _go_on(self) -> BoolArray:
        """Let instruments collect their measurements, and return which flows have not reached their end."""
        for instrument in self.instruments:
            instrument.collect()
        unfinished: BoolArray = self.time < self._until - ROUND_OFF
        return unfinished & ~self.diverged & ~self._stopped

    @contextmanager
    def _on_the_device(self) -> Iterator[None]:
        """Copy the small arrays to the device, and back to the host afterwards."""
        self._device.send_state()
        try:
            yield
        finally:
            self._device.fetch_state()

    @contextmanager
    def _on_the_host(self) -> Iterator[None]:
        """Copy the small arrays to the host in the middle of a step, and back to the device afterwards."""
        self._device.fetch_state()
        yield
        self._device.send_state()

    def _begin(self, active: BoolArray | None, until: float | FloatArray) -> None:
        self._check_jets()
        self._check_written()
        self._mark_lost()
        self._running[:] = self._chosen("active", active) & ~self.diverged
        self._stopped[:] = False
        self._until[:] = until
        # a step over the rest of a time that is round-off would divide by it
        self._running &= self.time < self._until - ROUND_OFF

    def _check_written(self) -> None:
        """Refuse invalid fluid properties, and mean velocities across walls, that were written between steps."""
        going = ~self.diverged
        if self.is_forced:
            check_mean_velocity(self.target_mean_velocity[going], self.sides.periodic)
        refuse_unless_positive("viscosity", self.viscosity[going])
        if self.heat is not None:
            refuse_unless_positive("diffusivity", self.diffusivity[going])
            if not np.isfinite(self.buoyancy[going]).all():
                raise ValueError("buoyancy was written: it is not finite")

    def _mark_lost(self) -> None:
        """Mark a flow as diverged if the motion of a body or the state of a jet contains NaN, written or computed."""
        # positions are not checked: a body at a position that is not finite is absent; rates of change and fences
        # may be infinite
        for columns in (
            self._states[..., VX:ANGLE_BEFORE],
            self._states[..., APPLIED_X:],
            self._jet_states,
        ):
            self.diverged |= np.isnan(columns).any(axis=(1, 2))

    def _step_once(self) -> None:
        """Take one step and copy its result to the host, with the control volumes before and after it."""
        who = np.flatnonzero(self._running)
        if self.control_volumes is not None:
            self.control_volumes.begin(who)
        with self._on_the_device():
            self._step()
        if self.control_volumes is not None:
            self.control_volumes.end(who)
        if self.instruments:
            self._running[who] = self._go_on()[who]

    def _look_at_sensors(self) -> None:
        if self.sensed.size:
            self._sense()

    def sense(self) -> FloatArray:
        """Update the velocity at the sensors and return it; shape (B, n, 2)."""
        with self._on_the_device():
            self._look_at_sensors()
        return self.sensed

    def reset(self, which: BoolArray | None = None) -> None:
        """Restart impulsively: the stream everywhere, every body at its specified position, then :meth:`settle`.

        Parameters
        ----------
        which : (B,) bool, optional
            Which simulations; all unless given.
        """
        which = self._chosen("which", which)
        where = slice(None) if which.all() else self._index(np.flatnonzero(which).tolist())
        self.u[where], self.v[where] = self.stream
        f = self._device_state.fields
        for field in (f.rate_u, f.rate_v, f.new_u, f.new_v, f.pressure):
            field[where] = 0
        self._use_inflows(which)
        self._fill_given_sides(which)
        self._forget_departed(where)
        self.time[which], self.dt[which], self._lag[which] = 0.0, 0.0, 0.0
        self.steps[which] = 0
        self._speed[which] = np.hypot(*self.stream)
        state = self.body_state
        for array in vars(state).values():
            array[which] = 0
        self._jet_states[which] = 0.0
        self._forcing_columns[which] = self._first_forcing[which]
        self._begin_heat(which, where)
        for k, body in enumerate(self.bodies):
            state.position[which, k], state.angle[which, k] = body.center, body.angle
            for b in np.flatnonzero(which) if k in self._driven else ():
                self._place_driven(int(b), k, 0.0)
            if isinstance(body, Swimmer):
                self.gait[which, k], self.form[which, k] = 0.0, 0.0
                self.gait[which, k, PHASE] = body.phase
                self.gait[which, k, RATE_BEFORE] = self.gait[which, k, RATE] = 1.0 / body.period
        self.settle(which)
        if self.perturbation:
            self._push_wakes(which)
            self.settle(which)

    def _push_wakes(self, which: BoolArray) -> None:
        """Perturb the flow across the stream, 1 D behind the first body or in the middle of a box without bodies."""
        speed = float(np.hypot(*self.stream))
        along = np.array(self.stream) / speed if speed else np.array([1.0, 0.0])
        across = self.perturbation * np.array([-along[1], along[0]])
        for b in np.flatnonzero(which):
            place = np.array(self.grid.size) / 2
            if self.bodies:
                place = self.body_state.position[b, 0] + along
            push = [
                np.exp(-((x - place[0]) ** 2) - (y - place[1]) ** 2)
                for x, y in (self.grid.u_faces(), self.grid.v_faces())
            ]
            self.add_velocity(int(b), across[0] * push[0], across[1] * push[1])

    def set_inflow(self, side: str, profile: Profile, which: BoolArray | None = None) -> None:
        """Set the velocity profile of an ``inflow`` side; :meth:`reset` keeps it.

        Parameters
        ----------
        side : str
            ``"left"``, ``"right"``, ``"bottom"`` or ``"top"``.
        profile : str, array or callable
            ``"parabolic"``, with the stream as its mean; an array of the velocity normal to the side, positive towards
            +x or +y, at the cells along it, (n,) or (B, n), or of (u, v), (n, 2) or (B, n, 2); a function of the
            coordinates s along the side that returns such an array, which is called once; or a function of s and
            time, which is called in every step.
        which : (B,) bool, optional
            Simulations that use it at once; all unless given. The others use it from their next reset on.

        Raises
        ------
        ValueError
            For an unknown side or one that is not an inflow, a profile of the wrong shape, or an inflow into a box
            without an outlet.
        """
        self._add_inflow(side, profile)
        which = self._chosen("which", which)
        self._use_inflows(which)
        self._write_inflows(np.flatnonzero(which).tolist(), self.time.tolist())

    def inflow_profiles(self) -> dict[str, FloatArray]:
        """Return the current velocity (u, v) along each side with a profile, by the name of the side.

        Returns
        -------
        dict of (B, 2, n + 2 G)
            Values at the n cells of the side and the G ghost cells at either end.
        """
        given = self.to_host(self._device_state.box.given).astype(np.float64)
        sizes = {number: (self.grid.nx, self.grid.ny)[number < 2] for number in self._inflows}
        return {
            SIDE_NAMES[number]: given[:, number, :, : size + 2 * GHOSTS]
            for number, size in sizes.items()
        }

    def _add_inflow(self, side: str, profile: Profile) -> None:
        side_number(side)
        if getattr(self.sides, side) != "inflow":
            raise ValueError(f"side = {side!r}: only an inflow side has a profile")
        inflow = Inflow(side, profile, self.grid, self.batch, self.stream)
        if not has_outlet(self.sides):
            raise ValueError(
                f"the profile of side {side}: one side must be outflow, open or far_field for the fluid to leave"
            )
        self._inflows[inflow.number] = inflow
        if inflow.varies:
            self._step_by_halves()

    def set_jet_flow_rates(
        self, flow_rates: ArrayLike, over: float = 0.0, which: BoolArray | None = None
    ) -> None:
        """Change the flow rates of the jets linearly in time, starting now; this needs no Python code in a step.

        Parameters
        ----------
        flow_rates : (B, J) or (J,)
            New flow rates, in units of U D; negative values are suction.
        over : float
            Time until they are reached, in units of D/U; zero changes them in the next step.
        which : (B,) bool, optional
            Simulations whose jets change; all unless given.

        Raises
        ------
        ValueError
            For values that are not finite or of the wrong shape, or a net flow rate in a box without an outlet.
        """
        rates = np.asarray(flow_rates, np.float64)
        shape = self.jet_flow_rates.shape
        if rates.shape not in (shape, shape[1:]) or not np.isfinite(rates).all():
            raise ValueError(
                f"flow rates of jets must be {shape[1:]} or {shape} finite numbers, not {flow_rates!r}"
            )
        if not (is_finite(over) and over >= 0):
            raise ValueError(f"over = {over!r}: the time of a ramp is finite and not negative")
        which = self._chosen("which", which)
        target = np.broadcast_to(rates, shape)[which]
        way = np.abs(target - self.jet_flow_rates[which])
        self.target_jet_flow_rates[which] = target
        self.jet_ramp_rates[which] = way / over if over > 0 else np.inf
        self._check_jets()

    def _check_jets(self) -> None:
        """Refuse a net flow rate of the jets in a box without an outlet."""
        if self.jets and not has_outlet(self.sides):
            check_closed_box(self.jet_flow_rates, self.target_jet_flow_rates)

    @property
    def _each_step(self) -> bool:
        """Whether Python code must run in every step: bodies are driven, or a profile varied in time at least once."""
        return isinstance(self._step, functools.partial)

    def settle(self, which: BoolArray | None = None) -> None:
        """Adapt the flow to bodies that were placed in it or changed speed: an impulsive start.

        Penalisation and projection alternate, without advancing time or moving bodies, until the flow outside is the
        potential flow of the bodies' velocities, superposed on the existing vorticity. Call it after placing a body by
        hand. It clears ``diverged`` and the multi-step history of these simulations.
        """
        which = self._chosen("which", which)
        state = self.body_state
        self.dt[which] = self.cfl * self.grid.h
        self._running[:] = which
        before = [VX_BEFORE, VY_BEFORE, SPIN_BEFORE, ANGLE_BEFORE]
        self._states[..., before] = np.where(
            which[:, None, None],
            self._states[..., [VX, VY, SPIN, ANGLE]],
            self._states[..., before],
        )
        with self._on_the_device():
            self._device.repeat(self._settle, self._device_state.running, 1)
            self._look_at_sensors()
        for array in (
            state.force,
            state.torque,
            state.impulse,
            state.work,
            state.fluid_acceleration,
        ):
            array[which] = 0.0
        self.form[which, :, POWER:] = 0.0
        self.dt[which] = 0.0

    def steer(self, b: int, k: int, *, turn: float, period: float, over: float) -> None:
        """Give a swimmer a new turn and period, with a smooth transition from its current gait.

        Parameters
        ----------
        b, k : int
            Simulation b and its body k.
        turn : float
            Factor of its ``steering`` curvature; positive values turn it anticlockwise.
        period : float
            Period of the wave, in units of D/U.
        over : float
            Time until both are reached, in units of D/U.

        Raises
        ------
        ValueError
            For a body that is not a swimmer, a turn that is not finite, or a period or time that is not positive.
        """
        if not isinstance(self.bodies[k], Swimmer):
            raise ValueError(f"body {k} is a {type(self.bodies[k]).__name__}, which does not swim")
        if not is_finite(turn):
            raise ValueError(f"turn = {turn!r}: it must be finite")
        if not (period > 0 and over > 0):
            raise ValueError(f"period = {period!r}, over = {over!r}: both must be positive")
        gait = self.gait[b, k]
        now, _, rate = command_at(gait, self.time[b])
        gait[TURN_BEFORE], gait[RATE_BEFORE] = now, rate
        gait[TURN], gait[RATE], gait[SINCE], gait[OVER] = turn, 1.0 / period, self.time[b], over

    # --- measuring -------------------------------------------------------------------------------------------------

    def measure_control_volumes(self, margin: float = 0.25) -> ControlVolumes:
        """Also measure force and torque by control volumes, in every step from now on.

        Parameters
        ----------
        margin : float
            Distance from the bodies to the edges of their control volumes, in units of D.

        Raises
        ------
        ValueError
            For a flow with a temperature, whose buoyancy they do not include.
        """
        if self.heat is not None:
            raise ValueError(
                "control volumes do not count the buoyancy of a flow with a temperature"
            )
        self.control_volumes = ControlVolumes(self, margin)
        return self.control_volumes

    def power(self) -> FloatArray:
        """Return the power (B, K) that the fluid gave each body in the last step, in units of rho U^3 D.

        The integral of its negative is the work that a driven body did against the flow.
        """
        state = self.body_state
        power: FloatArray = (state.force * state.velocity).sum(
            axis=-1
        ) + state.torque * state.angular_velocity
        return power

    def describe(self) -> str:
        """Describe resolution, body thickness, blockage, penalty and step size in a line; jets and warnings add lines.

        The step size is that of a flow at the speed of the stream, including the viscous limit. A line is added for a
        thin body or edge, for lambda dt below 100, where more than 1 % of the flow leaks through bodies, and for a
        driven body that does not start at its center.

        The thickness of a body is the diameter of the largest circle that fits into it; for a union, into its thinnest
        part. An edge, such as the trailing edge of a foil, counts as thin where no circle four cells in diameter fits.
        The blockage is the largest fraction of a cross-section of the box that bodies cover at their current
        positions, in the worst simulation of the batch (:mod:`flowsim.bodies.resolution`).
        """
        return describe(self)


def _checked_viscosity(given: ArrayLike, batch: int) -> FloatArray:
    """Return a valid viscosity, one or one for each simulation."""
    try:
        viscosity = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"viscosity = {given!r}: it must be a number") from None
    if viscosity.shape not in ((), (batch,)):
        raise ValueError(
            f"viscosity has the shape {viscosity.shape}, but must be a number, or one for each flow, ({batch},)"
        )
    refuse_unless_positive("viscosity", viscosity)
    return viscosity
