"""The lid-driven cavity, compared with Ghia, Ghia and Shin (1982)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.validation.result import Curve, Effort, Picture, Plot, Result, Setup, advance, compare

FloatArray = NDArray[np.float64]

GHIA = {
    100: ((-0.2109, 0.4531), (0.1753, 0.2344)),
    400: ((-0.3273, 0.2813), (0.3020, 0.2266)),
    1000: ((-0.3829, 0.1719), (0.3710, 0.1563)),
}
"""Reynolds number: (min u, its y) on the vertical centreline, (max v, its x) on the horizontal one."""

CONVERGED = {100: (-0.2140, 0.1796), 400: (-0.3287, 0.3038), 1000: (-0.3886, 0.3769)}
"""Later values of min u and max v, up to 2.5 % beyond those of Ghia et al. on 129 x 129 points.

Re 100 and 400: Marchi, Suero and Araki (2009), extrapolated from 1024 x 1024 cells; Re 1000: Botella and Peyret (1998),
spectral.
"""

STEADY = 1e-5
"""Change of the velocity per unit of time, in units of the lid speed, below which the flow counts as steady."""


def cavity(reynolds_number: int, effort: Effort) -> Result:
    """Compare the velocity extrema on the centrelines of the steady flow; the lid (speed 1) is the upper side."""
    # at small Reynolds numbers steps are short on fine grids, and coarser grids suffice
    n = effort.choose({100: 96, 400: 128, 1000: 128}, {100: 32, 400: 48, 1000: 64})[reynolds_number]
    sim = Simulation(
        Grid(n, n, 1 / n),
        Sides("no_slip", "no_slip", "no_slip", "no_slip", top_velocity=1.0),
        viscosity=1 / reynolds_number,
        stream=(0.0, 0.0),
        dtype="float64",
        **effort.solver,
    )
    longest = 100.0
    last = sim.to_host(sim.u).copy()
    while sim.time[0] < longest:
        advance(sim, 1.0)
        change = float(np.abs(sim.to_host(sim.u) - last).max())
        if change < STEADY:
            break
        last = sim.to_host(sim.u).copy()
        effort.progress(float(sim.time[0]) / longest)
    s = (np.arange(n) + 0.5) / n
    middle = np.full_like(s, 0.5)
    u = sim.sample_velocity(np.stack([middle, s], axis=-1)[None])[0, :, 0]
    v = sim.sample_velocity(np.stack([s, middle], axis=-1)[None])[0, :, 1]
    (least_u, y), (most_v, x) = GHIA[reynolds_number]
    later_u, later_v = CONVERGED[reynolds_number]
    later = (
        "Botella and Peyret (1998)" if reynolds_number == 1000 else "Marchi, Suero and Araki (2009)"
    )
    source, setup, tolerance = (
        f"from Ghia, Ghia and Shin (1982) to {later}",
        Setup.of(sim),
        effort.choose(0.02, 0.04),
    )
    rows = [
        compare(
            "min u on the vertical centreline",
            -_peak(-u),
            (later_u, least_u),
            tolerance,
            setup,
            source,
        ),
        compare(
            "max v on the horizontal centreline",
            _peak(v),
            (most_v, later_v),
            tolerance,
            setup,
            source,
        ),
    ]
    curves = [
        Curve.of("u(y) at x = 0.5", s, u),
        Curve.of("v(x) at y = 0.5", s, v),
        Curve.of("extremes of Ghia et al.", [y, x], [least_u, most_v], points=True),
        Curve.of("later extremes", [y, x], [later_u, later_v], points=True),
    ]
    plots = [Plot("centrelines", "y or x", "velocity over that of the lid", curves)]
    return Result(rows, plots, [Picture.of("steady", sim)])


def _peak(values: FloatArray) -> float:
    """Return the maximum of equally spaced values, by a parabola through the largest inner one and its neighbours."""
    i = 1 + int(np.argmax(values[1:-1]))
    left, top, right = values[i - 1 : i + 2]
    return float(top + (right - left) ** 2 / (8 * (2 * top - left - right)))
