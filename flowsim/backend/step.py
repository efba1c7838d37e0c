"""A step of the projection method, an impulsive start and a look at the sensors, sweep by sweep on either backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flowsim.backend.records import DeviceState

DEFAULT_CFL = {"ab2": 0.5, "euler": 0.1}
STABLE_DECAY = {"ab2": 1.0, "euler": 2.0}
SETTLING_SWEEPS = 10

Array = Any
Look = Callable[[Array], None]
"""What measures at the end of a step; it is called with the flags of the simulations that take part."""


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
    if not 0 < method.cfl <= 1:
        raise ValueError(f"cfl = {method.cfl!r}: the CFL number must lie in (0, 1]")
    if not (math.isfinite(penalty) and penalty > 0):
        raise ValueError(f"penalty = {penalty!r}: the penalty must be positive")
    return method


def begin_step(flow: DeviceState, method: Method) -> None:
    """Take the first half of a step: its size, and the velocity but for bodies and pressure."""
    choose_time_step(flow, method)
    predict(flow)


def complete_step(flow: DeviceState, method: Method, looks: Sequence[Look]) -> None:
    """Take the second half: bodies, the projection, time, and what measures."""
    penalize(flow, method, moves=True)
    project(flow, keep_pressure=True)
    follow_light_bodies(flow)
    end_step(flow, looks)


def settle(flow: DeviceState, method: Method) -> None:
    """Penalise and project in turn, without advancing time."""
    for _ in range(SETTLING_SWEEPS):
        fields = flow.fields
        velocity = fields.u, fields.v, fields.new_u, fields.new_v
        flow.sweeps.copy_velocity(flow.running, *velocity)
        penalize(flow, method, moves=False)
        project(flow, keep_pressure=False)
    follow_light_bodies(flow)


def sense(flow: DeviceState) -> None:
    """Find the velocity at the sensors of all simulations."""
    fill_ghosts(flow)
    fields, box, sensors = flow.fields, flow.box, flow.sensors
    flow.sweeps.sense(
        flow.everyone,
        fields.u,
        fields.v,
        flow.bodies.state,
        sensors.points,
        sensors.carriers,
        box.h,
        box.sides,
        sensors.velocity,
    )


def fill_ghosts(flow: DeviceState) -> None:
    """Bring the ghost points of all simulations up to date."""
    fields, box = flow.fields, flow.box
    flow.sweeps.fill_ghosts(flow.everyone, fields.u, fields.v, box.sides, box.given)


def find_divergence(flow: DeviceState) -> None:
    """Write to phi of all simulations h times the divergence of the velocity, less the sources of jets."""
    f, sides, bodies = flow.fields, flow.box.sides, flow.bodies
    flow.sweeps.divergence(flow.everyone, f.u, f.v, f.phi, sides)
    if bodies.jets is not None:
        flow.sweeps.subtract_sources(
            flow.everyone, f.phi, bodies.jets, bodies.state, flow.box.h, sides
        )


def find_solid(flow: DeviceState, chi: Array) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    bodies, box = flow.bodies, flow.box
    flow.sweeps.cover(flow.everyone, chi, bodies.table, bodies.state, box.h, box.sides)


def sample(flow: DeviceState, points: Array, velocity: Array) -> None:
    """Write to ``velocity`` (B, n, 2) that at ``points`` (B, n, 2)."""
    fields = flow.fields
    flow.sweeps.sample(flow.everyone, fields.u, fields.v, points, flow.box.h, velocity)


def choose_time_step(flow: DeviceState, method: Method) -> None:
    """Find the size of the step of each simulation, by its speed, its viscosity and its time left."""
    decay, multistep = STABLE_DECAY[method.integrator], method.integrator == "ab2"
    clock, state = flow.clock.columns, flow.bodies.state
    flow.sweeps.begin_step(flow.running, clock, state, flow.box.h, method.cfl, decay, multistep)


def predict(flow: DeviceState) -> None:
    """Advection, diffusion, the last pressure gradient and the force that drives the flow, explicit."""
    f, box, clock, active = flow.fields, flow.box, flow.clock.columns, flow.running
    fields = f.u, f.v, f.new_u, f.new_v, f.rate_u, f.rate_v, f.pressure
    flow.sweeps.fill_ghosts(active, f.u, f.v, box.sides, box.given)
    flow.sweeps.predict(active, *fields, box.sides, clock, box.h, flow.room)
    if flow.has_open_sides:
        flow.sweeps.predict_open_sides(active, *fields, box.sides, box.given, clock, box.h)
    if flow.forcing is not None:
        flow.sweeps.push(active, f.u, f.v, f.new_u, f.new_v, flow.forcing, clock)


def penalize(flow: DeviceState, method: Method, moves: bool) -> None:
    """Free bodies' motion and the penalty, implicit and together."""
    bodies, fields, box = flow.bodies, flow.fields, flow.box
    if not len(bodies.table.order):
        return
    active, clock = flow.running, flow.clock.columns
    if flow.has_bending_bodies:
        flow.sweeps.bend(active, bodies.table, bodies.gait, bodies.form, clock, moves)
    flow.sweeps.penalize(
        active,
        flow.room,
        fields.new_u,
        fields.new_v,
        fields.shares,
        fields.drifts,
        bodies.form,
        bodies.table,
        moves,
        bodies.state,
        bodies.contact,
        box.gravity,
        clock,
        method.penalty,
        box.h,
        box.sides,
        bodies.jets,
    )


def project(flow: DeviceState, keep_pressure: bool) -> None:
    """Make the velocity divergence-free; the potential is the change of the pressure, unless that is not kept."""
    f, box, clock, active, sweeps = (
        flow.fields,
        flow.box,
        flow.clock,
        flow.running,
        flow.sweeps,
    )
    now, new, jets = (f.u, f.v), (f.new_u, f.new_v), flow.bodies.jets
    if flow.far_room is not None:
        given = box.given, box.sides, box.stream, clock.columns
        sweeps.far_field(
            active, *now, *given, keep_pressure, box.h, flow.far_spacing, flow.far_room
        )
    sweeps.update_sides(active, *now, *new, box.sides, box.given, clock.columns, box.h)
    sources = None
    if jets is not None:
        sweeps.balance_jets(active, *new, jets, box.sides, box.h)
        sources = jets, flow.bodies.state, box.h
    flow.pressure_solver.solve_divergence(active, *new, f.phi, box.sides, sources)
    sweeps.correct(
        active,
        *new,
        *now,
        f.phi,
        f.pressure,
        box.sides,
        clock.columns,
        box.h,
        keep_pressure,
        flow.speeds,
    )
    sweeps.find_speed(active, *now, box.sides, flow.speeds, clock.columns, clock.flags)


def follow_light_bodies(flow: DeviceState) -> None:
    """Look at the acceleration of the fluid under bodies lighter than it, which the next step needs."""
    if not flow.has_light_bodies:
        return
    f, bodies, box = flow.fields, flow.bodies, flow.box
    flow.sweeps.follow_light_bodies(
        flow.running,
        flow.room,
        f.u,
        f.v,
        f.shares,
        bodies.table,
        bodies.state,
        flow.clock.columns,
        box.h,
        box.sides,
    )


def end_step(flow: DeviceState, looks: Sequence[Look]) -> None:
    """Let time go by, see who goes on, and measure."""
    clock = flow.clock
    flow.sweeps.end_step(flow.running, clock.columns, clock.steps, clock.flags, flow.bodies.state)
    for look in looks:
        look(flow.running)
