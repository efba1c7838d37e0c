"""A step of the projection method, an impulsive start and a look at the sensors, sweep by sweep on either backend."""

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
"""What works before or measures after a step; it is called with the flags of the simulations that take part."""


class Method(NamedTuple):
    """How a step is taken: see the parameters of :class:`flowsim.simulation.Simulation`."""

    integrator: str
    cfl: float
    penalty: float


def method_of(integrator: str, cfl: float | None, penalty: float) -> Method:
    """Return a method, with the CFL number of its integrator unless another is given.

    Raises
    ------
    ValueError
        For an unknown integrator, and numbers out of range.
    """
    if integrator not in DEFAULT_CFL:
        raise ValueError(f'integrator = {integrator!r}: the integrators are "ab2" and "euler"')
    method = Method(integrator, DEFAULT_CFL[integrator] if cfl is None else cfl, penalty)
    if not (is_positive(method.cfl) and method.cfl <= 1):
        raise ValueError(f"cfl = {method.cfl!r}: the CFL number must lie in (0, 1]")
    if not is_positive(penalty):
        raise ValueError(f"penalty = {penalty!r}: the penalty must be positive")
    return method


def take_step(
    flow: DeviceState, method: Method, looks: Sequence[Look], damp: Look | None = None
) -> None:
    """Take a whole step; what does not depend on each other may go on at the same time."""
    choose_time_step(flow, method)
    placed = flow.beside(lambda: place_bodies(flow, method, moves=True))
    damp_and_predict(flow, damp)
    placed()
    finish_step(flow, method, looks)


def begin_step(flow: DeviceState, method: Method, damp: Look | None = None) -> None:
    """Take the first half of a step: its size, damping, and the velocity but for bodies and pressure."""
    choose_time_step(flow, method)
    damp_and_predict(flow, damp)


def damp_and_predict(flow: DeviceState, damp: Look | None) -> None:
    """Draw the flow to its steady state, if it is damped, and predict its velocity."""
    if damp is not None:
        damp(flow.running)
    predict(flow)


def complete_step(flow: DeviceState, method: Method, looks: Sequence[Look]) -> None:
    """Take the second half, after the host has moved bodies."""
    place_bodies(flow, method, moves=True)
    finish_step(flow, method, looks)


def finish_step(flow: DeviceState, method: Method, looks: Sequence[Look]) -> None:
    """Go on from the predicted velocity: bodies, the projection, time, and what measures."""
    # from the velocity at the beginning of the step
    found = flow.beside(lambda: find_far_field(flow, moves=True))
    penalize(flow, method, moves=True)
    keep_temperature(flow, method)
    found()
    project(flow, keep_pressure=True)
    follow_light_bodies(flow)
    end_step(flow, looks)


def settle(flow: DeviceState, method: Method) -> None:
    """Penalise and project in turn, without advancing time."""
    for _ in range(SETTLING_SWEEPS):
        flow.sweeps.copy_velocity(flow.running, flow.fields)
        place_bodies(flow, method, moves=False)
        penalize(flow, method, moves=False)
        find_far_field(flow, moves=False)
        project(flow, keep_pressure=False)
    follow_light_bodies(flow)


def sense(flow: DeviceState) -> None:
    """Find the velocity at the sensors of all simulations."""
    fill_ghosts(flow)
    flow.sweeps.sense(flow.everyone, flow.fields, flow.bodies, flow.sensors, flow.box)


def fill_ghosts(flow: DeviceState) -> None:
    """Bring the ghost points of all simulations up to date."""
    flow.sweeps.fill_ghosts(flow.everyone, flow.fields, flow.box)


def find_divergence(flow: DeviceState) -> None:
    """Write to phi of all simulations h times the divergence of the velocity, less the sources of jets."""
    everyone, fields, bodies, box = flow.everyone, flow.fields, flow.bodies, flow.box
    flow.sweeps.divergence(everyone, fields.u, fields.v, fields.phi, box.sides)
    if bodies.jets is not None:
        flow.sweeps.subtract_sources(everyone, fields.phi, bodies, box)


def find_solid(flow: DeviceState, chi: Array) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    flow.sweeps.cover(flow.everyone, chi, flow.bodies, flow.box)


def sample(flow: DeviceState, points: Array, velocity: Array) -> None:
    """Write to ``velocity`` (B, n, 2) that at ``points`` (B, n, 2)."""
    fields = flow.fields
    flow.sweeps.sample(flow.everyone, fields.u, fields.v, points, flow.box.h, velocity)


def choose_time_step(flow: DeviceState, method: Method) -> None:
    """Find the size of the step of each simulation, by its speed, its viscosity and its time left."""
    decay, multistep = STABLE_DECAY[method.integrator], method.integrator == "ab2"
    flow.sweeps.begin_step(
        flow.running, flow.clock, flow.bodies, flow.box, method.cfl, decay, multistep
    )


def predict(flow: DeviceState) -> None:
    """Advection, diffusion, the last pressure gradient, buoyancy and the force that drives the flow, explicit."""
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
    """Bring the ghost points of the temperature of some simulations up to date."""
    flow.sweeps.fill_temperature(active, flow.fields, flow.heat, flow.clock, flow.box)


def keep_temperature(flow: DeviceState, method: Method) -> None:
    """Let the temperature of the end of the step be that of the flow, and of bodies that have one."""
    if flow.heat is None:
        return
    active, bodies = flow.running, flow.bodies
    if flow.has_heated_bodies:
        flow.sweeps.heat_bodies(active, flow.heat, bodies, flow.clock, flow.box, method.penalty)
    flow.sweeps.keep_temperature(active, flow.heat)


def place_bodies(flow: DeviceState, method: Method, moves: bool) -> None:
    """Bring bodies to where they are at the end of the step, with the velocity that they have had."""
    if not flow.has_bodies:
        return
    active, fields, bodies, clock, box = (
        flow.running, flow.fields, flow.bodies, flow.clock, flow.box,
    )  # fmt: skip
    if flow.has_bending_bodies:
        flow.sweeps.bend(active, bodies, clock, moves)
    flow.sweeps.place_bodies(active, fields, bodies, clock, box, flow.room, method.penalty, moves)


def penalize(flow: DeviceState, method: Method, moves: bool) -> None:
    """Free bodies' motion and the penalty, implicit and together."""
    if not flow.has_bodies:
        return
    active, fields, bodies, clock, box = (
        flow.running, flow.fields, flow.bodies, flow.clock, flow.box,
    )  # fmt: skip
    flow.sweeps.penalize(active, fields, bodies, clock, box, flow.room, method.penalty, moves)


def find_far_field(flow: DeviceState, moves: bool) -> None:
    """Give the far-field sides the velocity of the unbounded flow."""
    if flow.far_room is not None:
        flow.sweeps.far_field(
            flow.running, flow.fields, flow.clock, flow.box, moves, flow.far_spacing, flow.far_room
        )


def project(flow: DeviceState, keep_pressure: bool) -> None:
    """Make the velocity divergence-free; the potential is the change of the pressure, unless that is not kept."""
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
    """Look at the acceleration of the fluid under bodies lighter than it, which the next step needs."""
    if flow.has_light_bodies:
        flow.sweeps.follow_light_bodies(
            flow.running, flow.fields, flow.bodies, flow.clock, flow.box, flow.room
        )


def end_step(flow: DeviceState, looks: Sequence[Look]) -> None:
    """Let time go by, see who goes on, and measure."""
    flow.sweeps.end_step(flow.running, flow.clock, flow.bodies)
    for look in looks:
        look(flow.running)
