"""A batch of flows as a user drives it: started, advanced, steered, measured.

All is in one file: half of it says what parameters and attributes mean, and the rest reads and writes the same arrays.
The algorithm of a step is in :mod:`flowsim.backend.step`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend import step
from flowsim.backend.forcing import ForceField, Vectors
from flowsim.backend.host.given import is_finite, refuse_unless_positive
from flowsim.backend.state import State
from flowsim.backend.step import Method, method_of
from flowsim.backend.temperature import Temperature
from flowsim.bodies import Body
from flowsim.bodies.checks import check_bodies, check_kinds
from flowsim.bodies.jets import Jet, check_closed_box
from flowsim.bodies.swimmers import Swimmer
from flowsim.boundary import SIDE_NAMES, Sides
from flowsim.grid import Grid
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
"""Times that differ by less are the same."""


class Simulation(State):
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
    body_force : (float, float) or (B, 2), optional
        Uniform force per unit mass that drives the flow, in units of U^2/D: the mean pressure gradient with the other
        sign, for channels with periodic sides. It pushes what is under bodies, too, so that the force on a body
        contains that of the mean pressure gradient, ``body_force`` times its area.
    mean_velocity : (float or None, float or None) or (B, 2), optional
        Mean velocity in the box, bodies included, that the force is to hold along x and y: between periodic sides.
        None leaves a direction alone.
    force_field : callable, optional
        A function of the coordinates x and y, two arrays, that returns a steady force per unit mass along x and along
        y there, arrays of the same shape or (B, ...), which is added. It is called once.
    sensors : sequence of (int, (float, float))
        Points that bodies carry along, in the frame of the body of that number, at which the flow is sensed.
    jets : sequence of Jet
        Slots in the surfaces of bodies through which fluid is blown or sucked.
    temperature : Temperature, optional
        A scalar that the flow carries and that makes it buoyant; without one nothing is computed for it.
    integrator : str
        ``"ab2"``, variable-step Adams-Bashforth of second order, or ``"euler"``.
    cfl : float, optional
        Bound of dt max(|u| + |v|) / h over the cells; 0.5 for ``ab2`` and 0.1 for ``euler`` unless given.
    penalty : float
        lambda, in units of U/D. The leak through a body is of the order |grad p| / lambda, and lambda dt well above 1
        keeps the flow near a body from depending on dt.
    dtype : str
        ``"float32"`` or ``"float64"``.
    backend : str
        ``"cpu"`` or ``"cuda"``.
    threads : int
        On the CPU. Each takes whole simulations of the batch; a single simulation is shared among them while that is
        faster. Results do not depend on their number.
    perturbation : float
        Speed, in units of U, of a push across the stream behind the first body with which every flow starts, so that a
        wake begins to shed at once; 0 leaves a symmetric flow symmetric. 0.5 spares 100 D/U of waiting at Re 100.

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
    ending_contacts : (B, K) float64
        What a body must not touch for :meth:`advance` to go on, a sum of :class:`~flowsim.bodies.table.Contact`; 0
        unless written.
    sensed : (B, n, 2) float64
        Velocity of the flow at the n sensors, brought up to date by :meth:`advance`, :meth:`settle` and :meth:`sense`.
    jet_flow_rates : (B, J) float64
        What each jet blows now, in units of U D; negative values suck. May be written, which acts at once.
    target_jet_flow_rates, jet_ramp_rates : (B, J) float64
        The flow rate that each jet approaches in a straight line, and by how much in a D/U, which may be infinite;
        zero keeps what it has. :meth:`set_jet_flow_rates` writes both.
    spring_stiffness, spring_damping, spring_rest : (B, K, 3) float64
        Of the springs and dampers of bodies along x, y and angle, as :class:`flowsim.Spring` declares them. They may be
        written, each flow of a batch on its own, for bodies that were made with springs or held degrees of freedom, and
        stay in :meth:`reset`.
    body_force, target_mean_velocity : (B, 2) float64
        What drives each flow now, and the mean velocity that it holds, NaN for none: a flow whose mean velocity is held
        shows here the force that it takes. Both may be written, where the simulation was made with a force.
    jet_widths : (J,) float64
        Of their slots along the surface, in units of D.
    control_volumes : ControlVolumes or None
        The second measure of force and torque, once :meth:`measure_control_volumes` was called.
    instruments : list of Instrument
        What measures in every step: each :class:`flowsim.Recorder` and
        :class:`flowsim.FieldStatistics` of this simulation.
    damping : SelectiveFrequencyDamping or None
        What draws the flow to its steady state, while :func:`flowsim.base_flow` looks for it.
    heat : Temperature or None
        What the temperature was given.
    heat_table : HeatTable or None
        The same as arrays, which :meth:`reset` begins with.
    temperature : (B, nx + 2 G, ny + 2 G)
        At the centres of the cells, with ghost points; where the backend lives (see :meth:`set_temperature`).
    diffusivity : (B,) float64
    buoyancy : (B, 2) float64
        Of the temperature; both may be written.
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

    # an argument for each choice of a flow and its method, most with a default: a script reads like its description
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
        check_kinds(bodies, sides)
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
        """Advance every running simulation by one step of its own size, never past its time."""
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
        """Call every sweep that a step, an impulsive start and a look at the sensors and the fields take."""
        self._settle_all()
        self._take_step()
        self._sense_all()

    def _method(self) -> Method:
        return Method(self.integrator, self.cfl, self.penalty)

    def _settings(self) -> tuple[Any, ...]:
        """Return what sweeps are called with that may be written at any time."""
        return *self._method(), *self.instruments, self.damping

    def _step_by_halves(self) -> None:
        halves = self._program(self._begin_step), self._program(self._complete_step)
        self._step = functools.partial(self._take_driven_step, *halves)

    def _take_driven_step(self, begin: Callable[[], None], complete: Callable[[], None]) -> None:
        """Take a step in the middle of which functions of the host move bodies and change profiles of inflows."""
        begin()
        with self._on_the_host():
            running = self._index(np.flatnonzero(self._running).tolist())
            self._write_inflows(running, (self.time + self.dt).tolist(), varying=True)
            for b in np.flatnonzero(self._running):
                for k in self._driven:
                    self._place_driven(int(b), k, self.time[b] + self.dt[b])
        complete()

    def _place_driven(self, b: int, k: int, time: float) -> None:
        motion = self.bodies[k].motion
        assert callable(motion)
        x, y, theta, vx, vy, omega = state_of_motion = motion(time)
        if not all(map(math.isfinite, state_of_motion)):
            raise ValueError(
                f"body {k}: its motion at time {time:g} is {state_of_motion}, but must be six finite numbers"
            )
        state = self.body_state
        state.position[b, k], state.angle[b, k] = (x, y), theta
        state.velocity[b, k], state.angular_velocity[b, k] = (vx, vy), omega

    # --- driving it ------------------------------------------------------------------------------------------------

    def step(self, active: BoolArray | None = None, until: FloatArray | None = None) -> None:
        """Advance every active simulation by one step of its own size, never past ``until``.

        :mod:`flowsim.backend.step` is the algorithm, sweep by sweep.

        Parameters
        ----------
        active : (B,) bool, optional
            Which simulations take part; all that have not diverged unless given.
        until : (B,) float64, optional
            Times to land on.
        """
        self._begin(active, np.inf if until is None else until)
        self._step_once()

    def advance(
        self,
        duration: float | FloatArray,
        active: BoolArray | None = None,
        stop: Callable[[Simulation], BoolArray] | None = None,
    ) -> BoolArray:
        """Step until every active simulation has advanced by ``duration``, or a body stops it at a fence or a contact.

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
        fits = np.shape(duration) in ((), (self.batch,)) and np.all(np.isfinite(duration))
        if not fits or np.any(np.asarray(duration) < -ROUND_OFF):
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
                    stopped |= running & stop(self)
                    self._running &= ~stopped
            self.sense()
        self._mark_lost()
        return stopped | self._stopped

    def advance_steps(self, steps: int) -> None:
        """Take a number of steps, each of its own size."""
        self._begin(None, np.inf)
        if self._each_step or self.control_volumes is not None:
            for _ in range(steps):
                self._step_once()
        else:
            self._repeat(steps)

    def _repeat(self, steps: int | None) -> None:
        """Take steps in compiled code; flows that wait for an instrument go on when that has measured."""
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
        """Let instruments collect what they have measured, and return which flows are not at their end."""
        for instrument in self.instruments:
            instrument.collect()
        unfinished: BoolArray = self.time < self._until - ROUND_OFF
        return unfinished & ~self.diverged & ~self._stopped

    @contextmanager
    def _on_the_device(self) -> Iterator[None]:
        """Hand the small arrays to the sweeps, and afterwards back to the host."""
        self._device.send_state()
        try:
            yield
        finally:
            self._device.fetch_state()

    @contextmanager
    def _on_the_host(self) -> Iterator[None]:
        """Hand the small arrays to the host in the middle of a step, and afterwards back to the sweeps."""
        self._device.fetch_state()
        yield
        self._device.send_state()

    def _begin(self, active: BoolArray | None, until: float | FloatArray) -> None:
        self._check_jets()
        self._check_written()
        self._mark_lost()
        self._running[:] = ~self.diverged if active is None else active & ~self.diverged
        self._stopped[:] = False
        self._until[:] = until

    def _check_written(self) -> None:
        """Refuse properties of the fluid that were written between steps and are none."""
        going = ~self.diverged
        refuse_unless_positive("viscosity", self.viscosity[going])
        if self.heat is not None:
            refuse_unless_positive("diffusivity", self.diffusivity[going])
            if not np.isfinite(self.buoyancy[going]).all():
                raise ValueError("buoyancy was written: it is not finite")

    def _mark_lost(self) -> None:
        """Take a flow for diverged where what moves a body or blows through a jet is NaN: written so, or blown up."""
        # a body whose place alone is not finite is nowhere; rates of change may be infinite, and fences are
        for columns in (
            self._states[..., VX:ANGLE_BEFORE],
            self._states[..., APPLIED_X:],
            self._jet_states,
        ):
            self.diverged |= np.isnan(columns).any(axis=(1, 2))

    def _step_once(self) -> None:
        """Take one step, with everything about it known to the host, and to control volumes, before and after."""
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
        """Bring the velocity at the sensors up to date and return it; shape (B, n, 2)."""
        with self._on_the_device():
            self._look_at_sensors()
        return self.sensed

    def reset(self, which: BoolArray | None = None) -> None:
        """Start again, impulsively: the stream everywhere, every body where it was specified, and settled.

        Parameters
        ----------
        which : (B,) bool, optional
            Which simulations; all unless given.
        """
        which = np.ones(self.batch, bool) if which is None else which
        where = slice(None) if which.all() else self._index(np.flatnonzero(which).tolist())
        self.u[where], self.v[where] = self.stream
        f = self._device_state.fields
        for field in (f.rate_u, f.rate_v, f.new_u, f.new_v, f.pressure):
            field[where] = 0
        self._fill_given_sides(where)
        self._forget_departed(where)
        self.time[which], self.dt[which], self.steps[which] = 0.0, 0.0, 0
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
        """Push the flow a D behind the first body across the stream, or in the middle of a box without bodies."""
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
        """Give an ``inflow`` side a velocity profile from now on, also after :meth:`reset`.

        Parameters
        ----------
        side : str
            ``"left"``, ``"right"``, ``"bottom"`` or ``"top"``.
        profile : str, array or callable
            ``"parabolic"``, with the stream as its mean; an array of the velocity normal to the side, in the direction
            of +x or +y, at the cells along it, (n,) or (B, n), or of (u, v) there, (n, 2) or (B, n, 2); a function of
            the coordinates s along the side that returns such an array, which is called once here; or a function of
            s and time, which is called in every step.
        which : (B,) bool, optional
            Simulations whose flow gets it at once; all unless given. The others get it when they are reset.

        Raises
        ------
        ValueError
            For a side that is no inflow, or a profile that does not fit or brings in more fluid than can leave.
        """
        self._add_inflow(side, profile)
        which = np.ones(self.batch, bool) if which is None else which
        where = slice(None) if which.all() else self._index(np.flatnonzero(which).tolist())
        self._write_inflows(where, self.time.tolist())

    def inflow_profiles(self) -> dict[str, FloatArray]:
        """Return the velocity (u, v) along each side that has been given a profile, by its name, at the present time.

        Returns
        -------
        dict of (B, 2, n + 2 G)
            At the n cells of the side and the G ghost cells at either end.
        """
        return {
            SIDE_NAMES[number]: inflow.at(float(self.time[0]))
            for number, inflow in self._inflows.items()
        }

    def _add_inflow(self, side: str, profile: Profile) -> None:
        if side not in SIDE_NAMES or getattr(self.sides, side) != "inflow":
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
        """Let jets change to new flow rates from now on, in a straight line; no Python runs in a step for that.

        Parameters
        ----------
        flow_rates : (B, J) or (J,)
            In units of U D; negative values suck.
        over : float
            Time until they are reached, in units of D/U; zero changes them in the next step.
        which : (B,) bool, optional
            Simulations whose jets change; all unless given.

        Raises
        ------
        ValueError
            For values that are not finite or do not fit, or a net flow rate in a box that nothing can leave.
        """
        rates = np.asarray(flow_rates, np.float64)
        shape = self.jet_flow_rates.shape
        if rates.shape not in (shape, shape[1:]) or not np.isfinite(rates).all():
            raise ValueError(
                f"flow rates of jets must be {shape[1:]} or {shape} finite numbers, not {flow_rates!r}"
            )
        if not (is_finite(over) and over >= 0):
            raise ValueError(f"over = {over!r}: the time of a ramp is finite and not negative")
        which = np.ones(self.batch, bool) if which is None else which
        target = np.broadcast_to(rates, shape)[which]
        way = np.abs(target - self.jet_flow_rates[which])
        self.target_jet_flow_rates[which] = target
        self.jet_ramp_rates[which] = way / over if over > 0 else np.inf
        self._check_jets()

    def _check_jets(self) -> None:
        """Refuse jets that blow into a box that nothing can leave."""
        if self.jets and not has_outlet(self.sides):
            check_closed_box(self.jet_flow_rates, self.target_jet_flow_rates)

    @property
    def _each_step(self) -> bool:
        """Whether Python has to do something in every step: bodies are driven, or a profile varies in time."""
        return bool(self._driven) or any(inflow.varies for inflow in self._inflows.values())

    def settle(self, which: BoolArray | None = None) -> None:
        """Let the flow meet bodies that appear in it or change speed at once: the impulsive start.

        Penalises and projects in turn, without advancing time and without moving any body, until the flow outside is
        the potential flow that the bodies' velocities demand on top of the vorticity that was there. Call it after
        placing a body by hand. Clears ``diverged`` of these simulations and their multi-step history.
        """
        which = np.ones(self.batch, bool) if which is None else which
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
        """Command a swimmer from now on, on a smooth way from what it does now.

        Parameters
        ----------
        b, k : int
            Which body of which simulation.
        turn : float
            Factor of its ``steering`` curvature; positive values turn it anticlockwise.
        period : float
            In units of D/U.
        over : float
            Time until both are reached.

        Raises
        ------
        ValueError
            For a body that is no swimmer, or a period or a time that is not positive.
        """
        if not isinstance(self.bodies[k], Swimmer):
            raise ValueError(f"body {k} is a {type(self.bodies[k]).__name__}, which does not swim")
        if not (period > 0 and over > 0):
            raise ValueError(f"period = {period!r}, over = {over!r}: both must be positive")
        gait = self.gait[b, k]
        now, _, rate = command_at(gait, self.time[b])
        gait[TURN_BEFORE], gait[RATE_BEFORE] = now, rate
        gait[TURN], gait[RATE], gait[SINCE], gait[OVER] = turn, 1.0 / period, self.time[b], over

    # --- looking at it ---------------------------------------------------------------------------------------------

    def measure_control_volumes(self, margin: float = 0.25) -> ControlVolumes:
        """Measure force and torque by control volumes, too, in every step from now on.

        Parameters
        ----------
        margin : float
            Distance from the bodies to the edges of their control volumes, in units of D.

        Raises
        ------
        ValueError
            For a flow with a temperature, whose buoyancy they do not count.
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
        """Say resolution, thickness of bodies, blockage, penalty and step size in a line; jets and warnings add lines.

        The step is the one that a flow of the speed of the stream takes, the viscous limit included. A line is added
        for a thin body or edge, for lambda dt below 100, where more than 1 % of the flow leaks through bodies, and for
        a driven body that does not start at its center.

        The thickness is that of the thickest part of a body, the diameter of the largest circle that fits into it; of a
        union, into its thinnest part. An edge, such as the trailing edge of a foil, counts as thin where no circle of
        four cells fits. The blockage is the largest share of a cross-section of the box that bodies cover, where they
        are now, in the worst simulation of the batch (:mod:`flowsim.bodies.resolution`).
        """
        return describe(self)


def _checked_viscosity(given: ArrayLike, batch: int) -> FloatArray:
    """Return one viscosity or those of all simulations, or refuse them."""
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
