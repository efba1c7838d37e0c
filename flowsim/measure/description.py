"""Text summary of a batch of flows: resolution, bodies, penalty, step size, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flowsim.backend.step import STABLE_DECAY
from flowsim.bodies.resolution import (
    FEWEST_CELLS,
    blockage,
    edge_in_words,
    thickness,
    thin_edge,
)
from flowsim.kernels.time import time_step

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

LEAK = 0.01
"""Fraction of the flow that leaks through a body, 1 / (lambda dt), above which :func:`describe` warns."""


def describe(flow: Simulation) -> str:
    """See :meth:`flowsim.Simulation.describe`."""
    h, fastest = flow.grid.h, float(np.hypot(*flow.stream))
    decay = STABLE_DECAY[flow.integrator]
    diffusing = flow.viscosity
    if flow.heat is not None:
        diffusing = np.maximum(diffusing, flow.diffusivity)
    steps = [time_step(fastest, nu, h, flow.cfl, decay, np.inf) for nu in diffusing]
    dt, held = max(steps), flow.penalty * min(steps)
    cells = [thickness(body) / h for body in flow.bodies]
    across = f"bodies {', '.join(f'{n:.3g}' for n in cells)} cells thick, " if cells else ""
    line = (
        f"{flow.batch} x {flow.grid.nx} x {flow.grid.ny} cells, D/h = {1 / h:.3g}, {across}"
        f"blockage {100 * blockage(flow).max():.3g} %, dt <= {dt:.3g} D/U, "
        f"lambda dt <= {flow.penalty * dt:.3g}, {flow.dtype}, {flow.integrator} at CFL {flow.cfl:g}"
    )
    if flow.bodies and held < 1 / LEAK:
        line += (
            f"\nlambda dt = {held:.3g}: about {100 / (1 + held):.2g} % of the flow leaks through bodies; "
            f"penalty = {1 / LEAK * flow.penalty / held:.2g} keeps it below {100 * LEAK:g} %"
        )
    for k in flow._driven:
        start = flow.body_state.position[0, k]
        if flow.time[0] == 0 and not np.allclose(start, flow.bodies[k].center):
            line += f"\nbody {k} is driven: it starts at ({start[0]:g}, {start[1]:g}), whatever its center"
    for j, width in enumerate(flow.jet_widths):
        line += f"\njet {j} is {width / h:.3g} cells wide"
        if width < FEWEST_CELLS * h:
            line += ": its flow rate is exact, its profile is not resolved"
    leaks = f"below {FEWEST_CELLS} it leaks, and its forces are rough"
    for k, (body, n) in enumerate(zip(flow.bodies, cells, strict=True)):
        if n < FEWEST_CELLS:
            line += f"\nbody {k} is only {n:.3g} cells thick: {leaks}"
        elif (thin := thin_edge(body, FEWEST_CELLS * h)) == np.inf:
            line += f"\nbody {k} is nowhere more than {FEWEST_CELLS} cells thick: {leaks}"
        elif thin > 2 * h:
            line += (
                f"\nbody {k} is thinner than {FEWEST_CELLS} cells over the last {thin:.2g} D "
                f"({thin / h:.2g} cells) before {edge_in_words(body)}: {leaks}"
            )
    return line
