"""The arrays of a batch of flows, grouped in a few records, which all sweeps and kernels take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from flowsim.bodies.jets import JetTable
    from flowsim.bodies.table import BodyTable

Array = Any


class Fields(NamedTuple):
    """Fields on the grid, in the precision of the simulation.

    Attributes
    ----------
    u, v, new_u, new_v, rate_u, rate_v : (B, nx + 2 G, ny + 2 G)
        Velocity on the faces; the velocity before it is divergence-free; the rates of the last step.
    pressure, phi : (B, nx, ny)
        Pressure, and the potential of the projection, which is dt/h times the change of the pressure.
    shares, drifts : (2, B, nx + 2 G, ny + 2 G)
        For faces of u and of v: the share that a body has, and its deformation velocity. ``drifts`` is empty without
        bending bodies.
    """

    u: Array
    v: Array
    new_u: Array
    new_v: Array
    rate_u: Array
    rate_v: Array
    pressure: Array
    phi: Array
    shares: Array
    drifts: Array


class Clock(NamedTuple):
    """Time of each simulation, and whether it is running.

    Attributes
    ----------
    columns : (B, 7) float64
        Time, step, viscosity and more: see :mod:`flowsim.kernels.layout`.
    steps : (B,) int64
    flags : (3, B) bool
        Running, diverged, stopped.
    """

    columns: Array
    steps: Array
    flags: Array


class Box(NamedTuple):
    """The box, its sides, and what acts everywhere in it.

    Attributes
    ----------
    h : float
        Width of a cell.
    sides : (4,) int64
        Kinds of the sides.
    given : (B, 4, 2, n)
        Velocity (u, v) on each side, at the padded indices of the faces there.
    stream, gravity : (2,) float64
    """

    h: float
    sides: Array
    given: Array
    stream: Array
    gravity: Array


class Forcing(NamedTuple):
    """The force per unit mass that drives a flow.

    Attributes
    ----------
    columns : (B, 7) float64
        See :mod:`flowsim.kernels.forcing`.
    along_x, along_y : (B, nx + 2 G, ny + 2 G) or None
        Field that is added to the uniform force, on the faces of u and of v.
    """

    columns: Array
    along_x: Array | None
    along_y: Array | None


class Heat(NamedTuple):
    """The temperature of a flow and its parameters.

    Attributes
    ----------
    temperature, new_temperature, rate : (B, nx + 2 G, ny + 2 G)
        Temperature at the cell centres; that at the end of the step; the rate of the last step.
    columns : (B, 3) float64
        See :mod:`flowsim.kernels.heat`.
    kinds : (4,) int64
        Thermal condition of each side.
    given : (B, 4, n) float64
        Temperature of each side, or the flux into the box, along it.
    of_bodies : (K,) float64 or None
        Given temperature of each body, NaN for bodies without one; None if no body has one.
    """

    temperature: Array
    new_temperature: Array
    rate: Array
    columns: Array
    kinds: Array
    given: Array
    of_bodies: Array | None


class Bodies(NamedTuple):
    """The K bodies and J jets of each simulation.

    Attributes
    ----------
    table : BodyTable
        Shapes and properties of the bodies.
    state : (B, K, 42) float64
        Positions and velocities of the bodies, and what acts on them: see :mod:`flowsim.kernels.layout`.
    contact : (B, K) int8
        What the bodies touch.
    gait, form : (B, K, n) float64
        Motion and shape of bending bodies: see :mod:`flowsim.kernels.midline`.
    jets : JetTable or None
    """

    table: BodyTable
    state: Array
    contact: Array
    gait: Array
    form: Array
    jets: JetTable | None


class Sensors(NamedTuple):
    """Points that bodies carry along, at which the velocity of the flow is measured.

    Attributes
    ----------
    points : (n, 2) float64
        Positions in the frames of their carriers.
    carriers : (n,) int64
        Indices of the bodies.
    velocity : (B, n, 2) float64
        Velocity of the flow there.
    """

    points: Array
    carriers: Array
    velocity: Array
