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
    columns : (B, 6) float64
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
