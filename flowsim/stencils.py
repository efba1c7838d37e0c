"""The physics of one cell, written once for every backend.

Plain functions of neighbouring values: a backend compiles them and sweeps them over its arrays. Constants are exact in
float32, and typed as such, so that float32 work stays float32 and float64 work stays float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

ONE = np.float32(1)
FOUR = np.float32(4)
SIX = np.float32(6)
EIGHT = np.float32(8)
HALF = np.float32(0.5)
QUARTER = np.float32(0.25)
ZERO = np.float32(0)

Real = Any  # a float32 or float64 scalar, whichever the arrays hold


@register_jitable
def advection(c: Real, mm: Real, m: Real, f: Real, p: Real, pp: Real, per_12h: Real) -> Real:
    """Return c df/ds, third-order upwind-biased, from f at five points along s.

    A fourth-order central difference plus a fourth-order dissipation |c| h^3/12 d4f/ds4; together they are the
    classical (2 f_{i+1} + 3 f_i - 6 f_{i-1} + f_{i-2}) / 6h for c > 0 and its mirror image for c < 0, without a branch.
    """
    central = EIGHT * (p - m) - (pp - mm)
    dissipation = (pp + mm) - FOUR * (p + m) + SIX * f
    return (c * central + abs(c) * dissipation) * per_12h


@register_jitable
def laplacian(f: Real, west: Real, east: Real, south: Real, north: Real, per_h2: Real) -> Real:
    """Return the five-point Laplacian."""
    return ((west + east) + (south + north) - FOUR * f) * per_h2


@register_jitable
def mean_of_four(a: Real, b: Real, c: Real, d: Real) -> Real:
    """Return the velocity across a face from its four neighbours on the other family of faces."""
    return QUARTER * ((a + b) + (c + d))


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
    """Return w in u <- u + w (u_s - u): the implicit penalisation of the solid share of a cell.

    w = chi C / (1 + C), C = lambda dt, is Angot's (u + C u_s) / (1 + C) inside and moves a cut cell by its solid share.
    The usual w = C chi / (1 + C chi) turns every cut cell solid when C is large, which thickens bodies by a good part
    of a cell, by how much depending on where they lie in the grid (docs/decisions.md).
    """
    return chi * lambda_dt / (1.0 + lambda_dt)


@register_jitable
def net_outflow(west: Real, east: Real, south: Real, north: Real) -> Real:
    """Return h div u of a cell from the normal velocities of its four faces."""
    return (east - west) + (north - south)
