"""The physics of one cell, written once for every backend.

Plain functions of neighbouring values: a backend compiles them and sweeps them over its arrays. Constants are exact in
float32, and typed as such, so that float32 work stays float32 and float64 work stays float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

ONE = np.float32(1)
THREE = np.float32(3)
SEVEN = np.float32(7)
HALF = np.float32(0.5)
ZERO = np.float32(0)

Real = Any  # a float32 or float64 scalar, whichever the arrays hold


@register_jitable
def flux(c: Real, mm: Real, m: Real, p: Real, pp: Real, per_12: Real, nu_per_h: Real) -> Real:
    """Return the flux of f by advection and diffusion through the middle between m and p, at speed c.

    Third-order upwind-biased: the fourth-order mean (7 (m + p) - (mm + pp)) / 12 plus a dissipation |c| h^3/12 d3f/ds3
    make (2 p + 5 m - mm) / 6 for c > 0 and its mirror image for c < 0, without a branch. What leaves one cell enters
    the next, so momentum is conserved, and the force on a body is the same by any measure.
    """
    central = SEVEN * (m + p) - (mm + pp)
    dissipation = THREE * (m - p) + (pp - mm)
    return (c * central + abs(c) * dissipation) * per_12 - nu_per_h * (p - m)


@register_jitable
def adams_bashforth(f: Real, rate: Real, old_rate: Real, dt: Real, ratio: Real) -> Real:
    """Advance f by dt with the second-order, variable-step Adams-Bashforth formula.

    ``ratio`` is dt over the previous dt; zero turns the formula into explicit Euler.
    """
    return f + dt * (rate + HALF * ratio * (rate - old_rate))


@register_jitable
def mask(distance: Real, h: Real) -> Real:
    """Return chi, the share of a cell of side h that lies inside, from the signed distance of its centre."""
    return min(max(0.5 - distance / h, 0.0), 1.0)


@register_jitable
def penalized_share(chi: Real, lambda_dt: Real) -> Real:
    """Return w in u <- u + w (u_s - u): the implicit penalisation of the solid share chi of a cell.

    w = chi C / (1 + C), C = lambda dt, is Angot's (u + C u_s) / (1 + C) inside a body, where chi is 1.
    """
    return chi * lambda_dt / (1.0 + lambda_dt)


@register_jitable
def surface_share(distance: Real, depth: Real, diffusion: Real) -> Real:
    """Return w of a point outside a body, some of whose four neighbours lie inside, so that the surface is the wall.

    Near a wall u = u_s + S d, so a neighbour at the depth s inside ought to have u_s - S s, but it moves with the body,
    and in a step the point loses nu dt / h^2 S s too little to it. Penalised with w / (1 - w) = nu dt / h^2 (sum of
    the depths s) / d it loses what it should. Without this the wall is at the last point that is held, up to a cell
    away from the surface, by how much depending on where the body lies in the grid (docs/decisions.md).

    Parameters
    ----------
    distance : float
        d > 0 of the point from the surface.
    depth : float
        Sum of the depths of the neighbours inside.
    diffusion : float
        nu dt / h^2.
    """
    # no more than on the surface itself, lest forces jump when it passes a point
    return min(diffusion * depth / (distance + diffusion * depth), 0.5)


@register_jitable
def net_outflow(west: Real, east: Real, south: Real, north: Real) -> Real:
    """Return h div u of a cell from the normal velocities of its four faces."""
    return (east - west) + (north - south)
