"""Jets through arcs of a body's surface, shared by all backends.

A jet is the curl of a stream function that rises from 0 to 1 across its slot, as the integral of its profile: fluid
moves along straight lines through the slot and nowhere else, with a discrete divergence of zero and exactly the flow
rate through every row of faces, however few cells wide the slot is. The stream function ends :data:`DEEP` cells under
the surface, where the velocity of the solid falls to zero over :data:`FADES` cells. Its divergence there is the source
of the fluid, which the projection takes into account (docs/decisions/surfaces_and_sides.md).

As in :mod:`flowsim.kernels.cell`, these are plain functions that a backend compiles. ``jets`` is a
:class:`flowsim.bodies.jets.JetTable`, or None if there are none.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.boundary import BOTTOM, LEFT
from flowsim.kernels.body_geometry import face_range
from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import FORCE_X, FORCE_Y, TORQUE

Array = Any

# places (J, 6): where jets are, in the frame of their bodies
ORIGIN_X, ORIGIN_Y, TOWARDS_X, TOWARDS_Y, SURFACE, HALF = range(6)
"""Origin of the streamlines, direction of the central one, distance of the surface along it, and half of the width: an
angle for a radial jet, a length for a straight one."""
PLACE_COLUMNS = 6

# kinds (J, 3)
BODY, RADIAL, PARABOLIC = range(3)
"""The body, and whether the jet is radial and its profile parabolic."""
KIND_COLUMNS = 3

# states (B, J, 9)
FLOW_RATE, TARGET, RAMP = range(3)
"""Flow rate, its target, and the rate of approach; a rate of zero keeps the current flow rate."""
MOMENTUM, GAIN = 3, 6
"""First columns, of three each, of the momentum of the jet under the surface and of its gain in the last step: along x
and y, and angular momentum about the body's centre of mass."""
JET_COLUMNS = 9

DEEP, FADES = 3.0, 2.0
MARGIN = 5.0
"""Cells around a slot that contain all faces that the body holds and the jet moves."""


@device_function
def ramp_jets(jets: Any, n: int, dt: float) -> None:
    """Move the flow rates of the jets of simulation n towards their targets."""
    if jets is None:
        return
    for j in range(len(jets.kinds)):
        jet = jets.state[n, j]
        most = dt * jet[RAMP]
        jet[FLOW_RATE] += min(max(jet[TARGET] - jet[FLOW_RATE], -most), most)


@device_function
def net_flow_rate(jets: Any, n: int) -> float:
    """Return the sum of the flow rates of the jets of simulation n."""
    total = 0.0
    for j in range(len(jets.kinds)):
        total += jets.state[n, j, FLOW_RATE]
    return total


@device_function
def jet_frame(jets: Any, j: int, x: float, y: float, cos: float, sin: float) -> Any:
    """Return the frame of a jet in the box, from the reference point and the direction of its body.

    Its origin, its direction, the distance of the surface from the origin, half of its width, whether it is radial,
    whether its profile is parabolic.
    """
    place, kind = jets.places[j], jets.kinds[j]
    ox, oy, tx, ty = place[ORIGIN_X], place[ORIGIN_Y], place[TOWARDS_X], place[TOWARDS_Y]
    return (
        x + cos * ox - sin * oy,
        y + sin * ox + cos * oy,
        cos * tx - sin * ty,
        sin * tx + cos * ty,
        place[SURFACE],
        place[HALF],
        kind[RADIAL] != 0,
        kind[PARABOLIC] != 0,
    )


@device_function
def jet_window(frame: Any, h: float, nx: int, ny: int, sides: Array) -> tuple[int, int, int, int]:
    """Return the window of faces [i0, i1) x [j0, j1) about the slot of a jet."""
    ox, oy, tx, ty, surface, half, radial, _ = frame
    reach = (half * surface if radial else half) + MARGIN * h
    i0, i1 = face_range(ox + surface * tx, reach, h, nx, sides[LEFT])
    j0, j1 = face_range(oy + surface * ty, reach, h, ny, sides[BOTTOM])
    return i0, i1, j0, j1


@device_function
def _stream(along: float, across: float, half: float, radial: bool, parabolic: bool) -> float:
    """Return the fraction of the flow to the right of a point, seen along the jet: 0 to 1 from edge to edge."""
    s = (math.atan2(across, along) if radial else across) / half
    s = min(max(s, -1.0), 1.0)
    if parabolic:
        return 0.5 + 0.25 * s * (3.0 - s * s)
    return 0.5 + 0.5 * math.sin(0.5 * math.pi * s)


@device_function
def jet_height(frame: Any, px: float, py: float) -> float:
    """Return the height of a point above the surface, along the streamline of a jet."""
    ox, oy, tx, ty, surface, _, radial, _ = frame
    rx, ry = px - ox, py - oy
    along = rx * tx + ry * ty
    if radial and along > 0.0:
        along = math.sqrt(rx * rx + ry * ry)
    return along - surface


@device_function
def jet_velocity(frame: Any, along_x: bool, px: float, py: float, h: float) -> float:
    """Return the velocity of a face of u (``along_x``) or v at (px, py) in a jet of flow rate 1, up to the surface."""
    ox, oy, tx, ty, surface, half, radial, parabolic = frame
    rx, ry = px - ox, py - oy
    along, across = rx * tx + ry * ty, ry * tx - rx * ty
    widest = half * (surface + 2.0 * h) if radial else half
    if abs(across) > widest + h:
        return 0.0
    share = min(max((jet_height(frame, px, py) / h + DEEP) / FADES, 0.0), 1.0)
    if share == 0.0:
        return 0.0
    # the stream function at the two corners of the face
    if along_x:
        da, dc = 0.5 * h * ty, 0.5 * h * tx
    else:
        da, dc = -0.5 * h * tx, 0.5 * h * ty
    high = _stream(along + da, across + dc, half, radial, parabolic)
    low = _stream(along - da, across - dc, half, radial, parabolic)
    return share * (high - low) / h


@device_function
def jet_source(frame: Any, i: int, j: int, h: float) -> float:
    """Return h times the divergence of a jet of flow rate 1 in cell (i, j): its source, under the surface."""
    x, y = (i + 0.5) * h, (j + 0.5) * h
    if not -DEEP - 1.0 < jet_height(frame, x, y) / h < 0.0:
        return 0.0
    east, west = (
        jet_velocity(frame, True, x + 0.5 * h, y, h),
        jet_velocity(frame, True, x - 0.5 * h, y, h),
    )
    north, south = (
        jet_velocity(frame, False, x, y + 0.5 * h, h),
        jet_velocity(frame, False, x, y - 0.5 * h, h),
    )
    return (east - west) + (north - south)


@device_function
def note_jet(jet: Array, x: float, y: float, turn: float) -> None:
    """Store the momentum of a jet under the surface, and its gain since the last call."""
    jet[GAIN], jet[GAIN + 1], jet[GAIN + 2] = (
        x - jet[MOMENTUM],
        y - jet[MOMENTUM + 1],
        turn - jet[MOMENTUM + 2],
    )
    jet[MOMENTUM], jet[MOMENTUM + 1], jet[MOMENTUM + 2] = x, y, turn


@device_function
def add_gain(jets: Any, n: int, k: int, body: Array, arm_x: float, arm_y: float, dt: float) -> None:
    """Add the gain in momentum of the jets of body k under the surface to force and torque on the body.

    The result is the stress on the surface and the momentum that flows through it. (``arm_x``, ``arm_y``) is the vector
    from the reference point of the body to its centre of mass.
    """
    if jets is None:
        return
    for j in range(len(jets.kinds)):
        if jets.kinds[j, BODY] == k:
            jet = jets.state[n, j]
            fx, fy = jet[GAIN] / dt, jet[GAIN + 1] / dt
            body[FORCE_X] += fx
            body[FORCE_Y] += fy
            body[TORQUE] += jet[GAIN + 2] / dt + arm_x * fy - arm_y * fx
