"""The arrays of a batch of flows in a few records, which all sweeps and kernels take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from flowsim.bodies.jets import JetTable
    from flowsim.bodies.table import BodyTable

Array = Any


class Fields(NamedTuple):
    """What lives on the grid, of the precision of the simulation.

    Attributes
    ----------
    u, v, new_u, new_v, rate_u, rate_v : (B, nx + 2 G, ny + 2 G)
        Velocity on the faces; the velocity that is not divergence-free yet; the rates of the last step.
    pressure, phi : (B, nx, ny)
        Pressure, and the potential of the projection, which is dt/h times the change of the pressure.
    shares, drifts : (2, B, nx + 2 G, ny + 2 G)
        Of faces of u and of v: the share that a body has, and its velocity of deformation. No ``drifts`` without bodies
        that bend.
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
    """Time of each simulation, and whether it goes on.

    Attributes
    ----------
    columns : (B, 7) float64
        Time, step, viscosity and more: see :mod:`flowsim.kernels.layout`.
    steps : (B,) int64
    flags : (3, B) bool
        Running, diverged, outside.
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
        What is added to it on the faces of u and of v.
    """

    columns: Array
    along_x: Array | None
    along_y: Array | None


class Heat(NamedTuple):
    """The temperature of a flow, and what heats it.

    Attributes
    ----------
    temperature, new_temperature, rate : (B, nx + 2 G, ny + 2 G)
        At the centres of the cells; that of the end of the step; the rate of the last step.
    columns : (B, 3) float64
        See :mod:`flowsim.kernels.heat`.
    kinds : (4,) int64
        What each side does.
    given : (B, 4, n) float64
        Temperature of each side, or the flux that it lets in, along it.
    of_bodies : (K,) float64 or None
        Temperature of each body, NaN where it has the one of the fluid; None without bodies that have one.
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
        What they are.
    state : (B, K, 41) float64
        Where they are and what acts on them: see :mod:`flowsim.kernels.layout`.
    contact : (B, K) int8
        What they touch.
    gait, form : (B, K, n) float64
        How those that bend do: see :mod:`flowsim.kernels.midline`.
    jets : JetTable or None
    """

    table: BodyTable
    state: Array
    contact: Array
    gait: Array
    form: Array
    jets: JetTable | None


class Sensors(NamedTuple):
    """Points that bodies carry along, at which the flow is sensed.

    Attributes
    ----------
    points : (n, 2) float64
        In the frames of their carriers.
    carriers : (n,) int64
        Numbers of the bodies.
    velocity : (B, n, 2) float64
        Of the flow there.
    """

    points: Array
    carriers: Array
    velocity: Array
