"""A step of the projection method, an impulsive start and the reading of sensors, as sweeps of either backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flowsim.backend.device_state import DeviceState
from flowsim.backend.host.given import is_positive

DEFAULT_CFL = {"ab2": 0.5, "euler": 0.1}
STABLE_DECAY = {"ab2": 1.0, "euler": 2.0}
SETTLING_SWEEPS = 10

Array = Any
Look = Callable[[Array], None]
"""Function called before a step (damping) or after it (measurements), with the flags of the simulations that take
part."""


class Method(NamedTuple):
    """Time integration: see the parameters of :class:`flowsim.simulation.Simulation`."""

    integrator: str
    cfl: float
    penalty: float


def method_of(integrator: str, cfl: float | None, penalty: float) -> Method:
    """Return a method, with the default CFL number of its integrator unless one is given.

    Raises
    ------
    ValueError
        For an unknown integrator, or numbers out of range.
    """
    if not isinstance(integrator, str) or integrator not in DEFAULT_CFL:
        raise ValueError(f'integrator = {integrator!r}: the integrators are "ab2" and "euler"')
    method = Method(integrator, DEFAULT_CFL[integrator] if cfl is None else cfl, penalty)
    if not (is_positive(method.cfl) and method.cfl <= 1):
        raise ValueError(f"cfl = {method.cfl!r}: the CFL number must lie in (0, 1]")
    if not is_positive(penalty):
        raise ValueError(f"penalty = {penalty!r}: the penalty must be positive")
    # the solver is compiled for these types only
    return Method(integrator, float(method.cfl), float(penalty))


def take_step(
    flow: DeviceState, method: Method, looks: Sequence[Look], damp: Look | None = None
) -> None:
    """Take a whole step; independent parts may run concurrently."""
    choose_time_step(flow, method)
    placed = flow.beside(lambda: place_bodies(flow, method, moves=True))
    damp_and_predict(flow, damp)
    placed()
    finish_step(flow, method, looks)


def begin_step(flow: DeviceState, method: Method, damp: Look | None = None) -> None:
    """Take the first half of a step: its size, damping, and the predicted velocity."""
    choose_time_step(flow, method)
    damp_and_predict(flow, damp)


def damp_and_predict(flow: DeviceState, damp: Look | None) -> None:
    """Damp the flow towards its steady state, if damping is given, and predict its velocity."""
    if damp is not None:
        damp(flow.running)
    predict(flow)


def complete_step(flow: DeviceState, method: Method, looks: Sequence[Look]) -> None:
    """Take the second half of a step, after the host has moved bodies."""
    place_bodies(flow, method, moves=True)
    finish_step(flow, method, looks)


def finish_step(flow: DeviceState, method: Method, looks: Sequence[Look]) -> None:
    """Finish a step from the predicted velocity: bodies, projection, time, and measurements."""
    # uses the velocity at the beginning of the step
    found = flow.beside(lambda: find_far_field(flow, moves=True))
    penalize(flow, method, moves=True)
    keep_temperature(flow, method)
    found()
    project(flow, keep_pressure=True)
    follow_light_bodies(flow)
    end_step(flow, looks)


def settle(flow: DeviceState, method: Method) -> None:
    """Penalise and project alternately, without advancing time."""
    for _ in range(SETTLING_SWEEPS):
        flow.sweeps.copy_velocity(flow.running, flow.fields)
        place_bodies(flow, method, moves=False)
        penalize(flow, method, moves=False)
        find_far_field(flow, moves=False)
        project(flow, keep_pressure=False)
    follow_light_bodies(flow)


def sense(flow: DeviceState) -> None:
    """Compute the velocity at the sensors of all simulations."""
    fill_ghosts(flow)
    flow.sweeps.sense(flow.everyone, flow.fields, flow.bodies, flow.sensors, flow.box)


def fill_ghosts(flow: DeviceState) -> None:
    """Update the ghost points of all simulations."""
    flow.sweeps.fill_ghosts(flow.everyone, flow.fields, flow.box)


def find_divergence(flow: DeviceState) -> None:
    """Write h times the divergence of the velocity, minus the sources of jets, to phi of all simulations."""
    everyone, fields, bodies, box = flow.everyone, flow.fields, flow.bodies, flow.box
    flow.sweeps.divergence(everyone, fields.u, fields.v, fields.phi, box.sides)
    if bodies.jets is not None:
        flow.sweeps.subtract_sources(everyone, fields.phi, bodies, box)


def find_solid(flow: DeviceState, chi: Array) -> None:
    """Write the fraction of each cell that lies inside any body to chi (B, nx, ny)."""
    flow.sweeps.cover(flow.everyone, chi, flow.bodies, flow.box)


def sample(flow: DeviceState, points: Array, velocity: Array) -> None:
    """Write the velocity at ``points`` (B, n, 2) to ``velocity`` (B, n, 2)."""
    fields = flow.fields
    flow.sweeps.sample(flow.everyone, fields.u, fields.v, points, flow.box.h, velocity)


def choose_time_step(flow: DeviceState, method: Method) -> None:
    """Set the step size of each simulation from its speed, its viscosity and the time left."""
    decay, multistep = STABLE_DECAY[method.integrator], method.integrator == "ab2"
    flow.sweeps.begin_step(
        flow.running, flow.clock, flow.bodies, flow.box, method.cfl, decay, multistep
    )


def predict(flow: DeviceState) -> None:
    """Predict the velocity explicitly: advection, diffusion, last pressure gradient, buoyancy and driving force."""
    active, fields, clock, box = flow.running, flow.fields, flow.clock, flow.box
    flow.sweeps.fill_ghosts(active, fields, box)
    flow.sweeps.predict(active, fields, clock, box, flow.room)
    if flow.has_open_sides:
        flow.sweeps.predict_open_sides(active, fields, clock, box)
    if flow.heat is not None:
        fill_temperature(flow, active)
        flow.sweeps.advance_temperature(active, fields, flow.heat, clock, box, flow.room)
        flow.sweeps.lift(active, fields, flow.heat, clock, box)
    if flow.forcing is not None:
        flow.sweeps.push(active, fields, clock, flow.forcing)


def fill_temperature(flow: DeviceState, active: Array) -> None:
    """Update the ghost points of the temperature of some simulations."""
    flow.sweeps.fill_temperature(active, flow.fields, flow.heat, flow.clock, flow.box)


def keep_temperature(flow: DeviceState, method: Method) -> None:
    """Impose the given temperatures of bodies, and make the new temperature the current one."""
    if flow.heat is None:
        return
    active, bodies = flow.running, flow.bodies
    if flow.has_heated_bodies:
        flow.sweeps.heat_bodies(active, flow.heat, bodies, flow.clock, flow.box, method.penalty)
    flow.sweeps.keep_temperature(active, flow.heat)


def place_bodies(flow: DeviceState, method: Method, moves: bool) -> None:
    """Locate the bodies on the grid; with ``moves`` they first move to the end of the step, with their old velocity."""
    if not flow.has_bodies:
        return
    active, fields, bodies, clock, box = (
        flow.running, flow.fields, flow.bodies, flow.clock, flow.box,
    )  # fmt: skip
    if flow.has_bending_bodies:
        flow.sweeps.bend(active, bodies, clock, moves)
    flow.sweeps.place_bodies(active, fields, bodies, clock, box, flow.room, method.penalty, moves)


def penalize(flow: DeviceState, method: Method, moves: bool) -> None:
    """Solve the motion of free bodies and the penalty implicitly and together."""
    if not flow.has_bodies:
        return
    active, fields, bodies, clock, box = (
        flow.running, flow.fields, flow.bodies, flow.clock, flow.box,
    )  # fmt: skip
    flow.sweeps.penalize(active, fields, bodies, clock, box, flow.room, method.penalty, moves)


def find_far_field(flow: DeviceState, moves: bool) -> None:
    """Set the velocity of the unbounded flow on the far-field sides."""
    if flow.far_room is not None:
        flow.sweeps.far_field(
            flow.running, flow.fields, flow.clock, flow.box, moves, flow.far_spacing, flow.far_room
        )


def project(flow: DeviceState, keep_pressure: bool) -> None:
    """Make the velocity divergence-free; with ``keep_pressure`` the potential is added to the pressure."""
    active, fields, bodies, clock, box = (
        flow.running, flow.fields, flow.bodies, flow.clock, flow.box,
    )  # fmt: skip
    flow.sweeps.update_sides(active, fields, clock, box)
    if bodies.jets is not None:
        flow.sweeps.balance_jets(active, fields, bodies, box)
    flow.pressure_solver.solve_divergence(active, fields, bodies, box)
    flow.sweeps.correct(active, fields, clock, box, keep_pressure, flow.speeds)
    flow.sweeps.find_speed(active, fields, clock, box, flow.speeds)


def follow_light_bodies(flow: DeviceState) -> None:
    """Compute the acceleration of the fluid under bodies lighter than it, which the next step needs."""
    if flow.has_light_bodies:
        flow.sweeps.follow_light_bodies(
            flow.running, flow.fields, flow.bodies, flow.clock, flow.box, flow.room
        )


def end_step(flow: DeviceState, looks: Sequence[Look]) -> None:
    """Advance time, update which simulations are running, and measure."""
    flow.sweeps.end_step(flow.running, flow.clock, flow.bodies)
    for look in looks:
        look(flow.running)
