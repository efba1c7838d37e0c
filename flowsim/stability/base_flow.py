"""The steady flow, also where it is unstable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_positive
from flowsim.stability.damping import SelectiveFrequencyDamping

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

DEFAULT_TOLERANCE = {"float32": 1e-5, "float64": 1e-7}
"""In units of U^2/D; in float32 round-off keeps the change of a flow from falling much further."""


@dataclass(frozen=True)
class BaseFlow:
    """How steady the flows of a batch became.

    Attributes
    ----------
    converged : (B,) bool
    change : (B,) float64
        Root mean square rate of change of the filtered velocity at the end, in units of U^2/D.
    duration : (B,) float64
        Time that it took, in units of D/U.
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

    The steady flow around a body at a Reynolds number at which it sheds is unstable; the damping makes it stable
    without a change of it. It finds no flow whose instability does not oscillate, such as the conducting state of
    convection: start there. The defaults suit wakes, that of a cylinder between Re 20 and 150.

    Parameters
    ----------
    flow : Simulation
        Goes on from where it is, and is left at the steady state. An impulsive start is fine.
    damping : float
        chi, in units of U/D: two to four times the growth rate of the instability. More is slower.
    filter_width : float
        Delta, in units of D/U: about twice the period of the instability over 2 pi. More is slower.
    tolerance : float, optional
        Root mean square rate of change of the velocity at which a flow is steady, in units of U^2/D; 1e-5 in float32
        and 1e-7 in float64 unless given.
    duration : float
        After which to give up, in units of D/U.

    Returns
    -------
    BaseFlow
        Flows that did not become steady in this time, or diverged, are not ``converged``.

    Raises
    ------
    ValueError
        For numbers that are not positive, and flows that cannot be steady: with a free body, a swimmer or an inflow
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
            # at least as long as the filter takes to tell the flow from what it makes of it
            flow.advance(filter_width, wanting)
            change[wanting] = selective.change()[wanting]
            wanting &= (change > goal) & ~flow.diverged & (flow.time - begun < duration - 1e-9)
    return BaseFlow((change <= goal) & ~flow.diverged, change, flow.time - begun)


def check_steady(flow: Simulation) -> None:
    """Refuse a flow that cannot be steady.

    Raises
    ------
    ValueError
    """
    for k, body in enumerate(flow.bodies):
        if body.motion == "free":
            raise ValueError(f"body {k} is free, so that the flow has no steady state: hold it")
    if any(inflow.varies for inflow in flow._inflows.values()):
        raise ValueError("an inflow varies in time, so that the flow has no steady state")
