"""Computation of steady flows, stable or unstable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_positive
from flowsim.bodies.swimmers import Swimmer
from flowsim.stability.damping import SelectiveFrequencyDamping

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

DEFAULT_TOLERANCE = {"float32": 1e-5, "float64": 1e-7}
"""Tolerances in units of U^2/D; in float32, round-off prevents a much smaller rate of change."""


@dataclass(frozen=True)
class BaseFlow:
    """Convergence of the flows of a batch to steady states.

    Attributes
    ----------
    converged : (B,) bool
    change : (B,) float64
        Root mean square rate of change of the filtered velocity at the end, in units of U^2/D.
    duration : (B,) float64
        Simulated time, in units of D/U.
    """

    converged: NDArray[np.bool_]
    change: NDArray[np.float64]
    duration: NDArray[np.float64]


def base_flow(
    flow: Simulation,
    *,
    damping: float = 0.3,
    filter_width: float = 3.0,
    tolerance: float | None = None,
    duration: float = 1000.0,
) -> BaseFlow:
    """Bring every flow of a batch to its steady state by selective frequency damping, in place.

    The steady flow around a body is unstable at Reynolds numbers with vortex shedding; the damping stabilises it but
    does not change it. Flows whose instability does not oscillate, such as the conducting state of convection, are not
    stabilised: start there. The defaults suit wakes, such as that of a cylinder between Re 20 and 150.

    Parameters
    ----------
    flow : Simulation
        Advanced from its current state and left at the steady state. An impulsive start is fine.
    damping : float
        chi, in units of U/D: two to four times the growth rate of the instability. Larger values are slower.
    filter_width : float
        Delta, in units of D/U: about twice the period of the instability over 2 pi. Larger values are slower.
    tolerance : float, optional
        Root mean square rate of change of the velocity below which a flow counts as steady, in units of U^2/D; 1e-5 in
        float32 and 1e-7 in float64 unless given.
    duration : float
        Largest simulated time, in units of D/U, rounded up to whole filter widths.

    Returns
    -------
    BaseFlow
        Flows that did not become steady in this time, or that diverged, are not ``converged``.

    Raises
    ------
    ValueError
        For numbers that are not positive, or flows that cannot be steady: with a free body, a swimmer or an inflow
        that varies in time.
    """
    check_steady(flow)
    goal = DEFAULT_TOLERANCE[flow.dtype.name] if tolerance is None else tolerance
    for name, value in (("tolerance", goal), ("duration", duration)):
        if not is_positive(value):
            raise ValueError(f"{name} = {value!r}: it must be positive")
    begun = flow.time.copy()
    change = np.full(flow.batch, np.inf)
    with SelectiveFrequencyDamping(flow, damping, filter_width) as selective:
        wanting = ~flow.diverged
        while wanting.any():
            # at least the time that the filter needs to separate the flow from the filtered flow
            flow.advance(filter_width, wanting)
            change[wanting] = selective.change()[wanting]
            wanting &= (change > goal) & ~flow.diverged & (flow.time - begun < duration - 1e-9)
    return BaseFlow((change <= goal) & ~flow.diverged, change, flow.time - begun)


def check_steady(flow: Simulation) -> None:
    """Refuse a flow that cannot be steady.

    Raises
    ------
    ValueError
        For a free body, a swimmer or an inflow that varies in time.
    """
    for k, body in enumerate(flow.bodies):
        if body.motion == "free":
            raise ValueError(f"body {k} is free, so the flow has no steady state: hold the body")
        if isinstance(body, Swimmer):
            raise ValueError(f"body {k} is a swimmer, so the flow has no steady state")
    if flow._has_varying_inflow():
        raise ValueError("an inflow varies in time, so the flow has no steady state")
