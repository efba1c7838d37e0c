"""The physics of one cell, shared by all backends.

Plain functions of neighbouring values: a backend compiles them and sweeps them over its arrays. Constants are exact in
float32, and typed as such, so that float32 computations stay float32 and float64 computations stay float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowsim.boundary import Side
from flowsim.grid import GHOSTS as G
from flowsim.kernels.device_function import device_function

ONE = np.float32(1)
TWO = np.float32(2)
THREE = np.float32(3)
SEVEN = np.float32(7)
HALF = np.float32(0.5)
ZERO = np.float32(0)

PERIODIC, INFLOW, OUTFLOW, OPEN = (
    int(Side.PERIODIC),
    int(Side.INFLOW),
    int(Side.OUTFLOW),
    int(Side.OPEN),
)
NO_SLIP, FAR_FIELD = int(Side.NO_SLIP), int(Side.FAR_FIELD)

Real = Any  # a float32 or float64 scalar, whichever the arrays hold


@device_function
def flux(c: Real, mm: Real, m: Real, p: Real, pp: Real, per_12: Real, nu_per_h: Real) -> Real:
    """Return the flux of f by advection and diffusion through the middle between m and p, at speed c.

    Third-order upwind-biased: the fourth-order mean (7 (m + p) - (mm + pp)) / 12 plus a dissipation |c| h^3/12 d3f/ds3
    make (2 p + 5 m - mm) / 6 for c > 0 and its mirror image for c < 0, without a branch. The flux out of one cell
    enters the next, so momentum is conserved, and the force on a body is the same however it is measured.
    """
    central = SEVEN * (m + p) - (mm + pp)
    dissipation = THREE * (m - p) + (pp - mm)
    return (c * central + abs(c) * dissipation) * per_12 - nu_per_h * (p - m)


@device_function
def adams_bashforth(f: Real, rate: Real, old_rate: Real, dt: Real, ratio: Real) -> Real:
    """Advance f by dt with the second-order, variable-step Adams-Bashforth formula.

    ``ratio`` is dt over the previous dt; zero turns the formula into explicit Euler.
    """
    return f + dt * (rate + HALF * ratio * (rate - old_rate))


@device_function
def ghost_across(kind: int, edge: Real, inside: Real) -> Real:
    """Return the ghost value of the velocity normal to a side, opposite to ``inside``; ``edge`` is that on the side.

    Beyond a side through which fluid leaves it is the value on the side, beyond the others it is odd about this value.
    """
    return edge if kind == OUTFLOW or kind == OPEN else TWO * edge - inside


@device_function
def ghost_along(kind: int, inside: Real, wall: Real, turn: Real, enters: bool) -> Real:
    """Return the ghost value of the velocity tangential to a side, opposite to ``inside``.

    ``wall`` is the velocity given on the side, ``turn`` compensates for the change of its normal velocity where there
    is to be no vorticity on it. Fluid that ``enters`` through an open side has the given velocity.
    """
    if kind == INFLOW or kind == NO_SLIP:
        return TWO * wall - inside
    if kind == OPEN and enters:
        return wall
    return inside + turn if kind == FAR_FIELD else inside


@device_function
def convected(outwards: Real, edge: Real, inside: Real, courant: Real) -> Real:
    """Return the velocity on an outflow side after a step: convected outwards with the stream, and never inwards.

    ``outwards`` is 1 for a side at the upper end of its axis, -1 at the lower one. Backflow is suppressed, because
    nothing is known of the fluid outside: vortices that turn round on the side would feed on themselves.
    """
    return outwards * max(outwards * (edge - courant * (edge - inside)), ZERO)


@device_function
def open_side_rate(
    outwards: Real, edge: Real, centre: Real, before: Real, after: Real, outside: Real, per_h: Real
) -> Real:
    """Return the rate of change of the velocity ``edge`` normal to an open side, in the half cell behind the side.

    Fluid leaves against zero pressure and without viscous stress. Where it enters, the directional do-nothing condition
    of Braack and Mucha (2014) adds the normal stress (u.n)^- (u.n - U.n) / 2, so that no more energy enters than the
    stream U outside has, whatever the flow inside does. The pressure inside the box is not included in this rate.

    Parameters
    ----------
    outwards : Real
        1 for a side at the upper end of its axis, -1 at the lower one.
    centre : Real
        Flux of the velocity along the axis through the centre of the cell behind the side.
    before, after : Real
        Fluxes of this velocity along the side, into the half cell and out of it.
    outside : Real
        The given velocity normal to the side, U.n times ``outwards``.
    """
    stress = HALF * min(outwards * edge, ZERO) * outwards * (edge - outside)
    return per_h * (TWO * outwards * (centre - (edge * edge - stress)) + (before - after))


@device_function
def line_of_constants(
    slope: float, value: float, n: int, periodic: bool, held_low: bool, held_high: bool
) -> Any:
    """Return (tilt, offset) with which phi[i] = S[i] + tilt i + offset solves phi[i-1] - 2 phi[i] + phi[i+1] = r[i].

    S is the double sum of r with S[0] = 0 and S[1] = r[0], ``slope`` the sum of all n entries of r, and ``value`` S[n].
    phi is continued oddly beyond an end that is held, and evenly beyond others, unless the line is periodic.
    """
    if periodic:
        return -value / n, 0.0
    if held_low:
        tilt = (0.5 * slope - value) / n if held_high else -slope
        return tilt, 0.5 * tilt
    return 0.0, 0.5 * slope - value if held_high else 0.0


@device_function
def mask(distance: Real, h: Real) -> Real:
    """Return chi, the fraction of a cell of side h that lies inside, from the signed distance of its centre."""
    return min(max(0.5 - distance / h, 0.0), 1.0)


@device_function
def penalized_share(chi: Real, grip: tuple[Real, Real]) -> Real:
    """Return w in u <- u + w (u_s - u): the implicit penalisation of the solid share chi of a cell.

    Inside a body, where chi is 1, w = C / (1 + C), C = lambda dt, which is Angot's (u + C u_s) / (1 + C). A cut cell is
    penalised at the rate chi / (1 - chi) / dt_0, so that w / (1 - w) is proportional to dt, and the wall has a limit
    for dt -> 0. A step of the reference length dt_0 holds the share chi.

    Parameters
    ----------
    chi : float
        Solid share of the cell.
    grip : (float, float)
        C / (1 + C), and dt / dt_0 (:func:`flowsim.kernels.time.reference_step`).
    """
    inside, steps = grip
    held = chi * steps
    return inside * held / ((1.0 - chi) + held)


@device_function
def share_of_reference_step(w: Real, grip: tuple[Real, Real]) -> Real:
    """Return the share of a face that a step of the reference length holds without leak, if this step holds it by w.

    This is the inverse of :func:`penalized_share` and does not depend on dt.
    """
    inside, steps = grip
    held = w / inside
    return held / (held + steps * (1.0 - held))


@device_function
def surface_share(distance: Real, depth: Real, diffusion: Real, steps: Real) -> Real:
    """Return w of a point outside a body, some of whose four neighbours lie inside, so that the wall is at the surface.

    Near a wall u = u_s + S d, so a neighbour at the depth s inside should have u_s - S s, but it moves with the body,
    and in a step the point loses nu dt / h^2 S s too little to it. Penalised with w / (1 - w) = nu dt / h^2 (sum of the
    depths s) / d it loses the right amount. Otherwise the wall would be at the last point that is held, up to a cell
    away from the surface, depending on the position of the body in the grid (docs/decisions/surfaces_and_sides.md).

    Parameters
    ----------
    distance : float
        Distance d > 0 of the point from the surface.
    depth : float
        Sum of the depths of the neighbours inside.
    diffusion : float
        nu dt / h^2.
    steps : float
        dt / dt_0 (:func:`penalized_share`).
    """
    # at most the share on the surface itself, so that forces do not jump when the surface passes a point
    return min(diffusion * depth / (distance + diffusion * depth), steps / (1.0 + steps))


@device_function
def net_outflow(west: Real, east: Real, south: Real, north: Real) -> Real:
    """Return h div u of a cell from the normal velocities of its four faces."""
    return (east - west) + (north - south)


@device_function
def cell_speed(west: Real, east: Real, south: Real, north: Real) -> Real:
    """Return |u| + |v| of a cell, each the mean over its two faces: a mirrored cell has the same speed bit for bit."""
    return HALF * ((abs(west) + abs(east)) + (abs(south) + abs(north)))


@device_function
def _interpolated(f: Any, x: float, y: float) -> float:
    """Interpolate f (nx + 2G, ny + 2G) between its entries, at fractional inner indices."""
    i, j = int(math.floor(x)), int(math.floor(y))
    s, t = x - i, y - j
    i, j = i + G, j + G
    low = (1.0 - s) * f[i, j] + s * f[i + 1, j]
    high = (1.0 - s) * f[i, j + 1] + s * f[i + 1, j + 1]
    return (1.0 - t) * low + t * high


@device_function
def velocity_at(u: Any, v: Any, x: float, y: float, h: float) -> tuple[float, float]:
    """Return the velocity at a point by bilinear interpolation; a point outside the box is moved to its edge."""
    nx, ny = u.shape[0] - 2 * G, u.shape[1] - 2 * G
    x, y = x / h, y / h
    # this also excludes NaN, the position of a body that was lost
    x = x if x >= 0.0 else 0.0
    y = y if y >= 0.0 else 0.0
    x, y = min(x, float(nx)), min(y, float(ny))
    return _interpolated(u, x, y - 0.5), _interpolated(v, x - 0.5, y)
