"""flowsim/OpenCavity-v0: a jet ahead of an open cavity calms the shear layer over it.

Units: the length L of the cavity, the stream's U, T = L/U, density of the fluid 1. "D" of options and messages is L.

Where the numbers come from
---------------------------
1.  The flow: Sipp & Lebedev (2007, J. Fluid Mech. 593), Barbagallo et al. (2009, J. Fluid Mech. 641), as HydroGym's
    environment "Cavity" has it: a square cavity under a stream 0.5 high, Re = U L/nu = 7500. The boundary layer begins
    0.4 ahead of the cavity. The steady flow is unstable from about Re 4140 on; at 7500 it has four unstable modes.
2.  The actuator: fluid blown or sucked through the wall over the last 0.35 before the cavity, as a parabola.
3.  `sensors: shear`: du/dy at the wall, averaged over the first 0.1 behind the cavity.
4.  What is to be small: the kinetic energy of the deviation from the steady flow.

Deviations from HydroGym
------------------------
1.  The box begins where the boundary layer does, with a uniform stream, and ends 1 behind the cavity, all of it with
    friction; HydroGym has 0.8 of a wall without friction ahead of that, and such a wall from 0.75 behind the cavity on.
2.  `sensors: both` adds the velocity at four points of the shear layer, `mouth` has these alone. What is observed is
    the deviation from the steady flow, of the last `past` actions.
3.  The flow rate of the jet is at most a tenth of HydroGym's 0.0078 U L.
4.  An action lasts 0.1 L/U, about a sixth of a period; HydroGym's 1e-4.
5.  The energy is taken at the end of an action, from the cavity's upstream edge to the end of the box and down to
    `energy_depth` below the edges. Deeper the vortex of the cavity turns, which an episode is too short to change.
6.  Episodes start from stored states of the flow without control.
7.  Cells of the grid: at 80 per L the boundary layer is three cells thick where it leaves the wall. The eigenvalues of
    the steady flow beside published ones: docs/open_cavity.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from cases.bank import Development, load_or_build
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.loads import FloatArray
from cases.steady_task import Point, Points, SteadyOptions, SteadyTask
from flowsim import Jet, Sides, polygon
from flowsim.bodies import Body
from flowsim.render.units import units_of

AHEAD, BEHIND, DEPTH, HEIGHT = 0.4, 1.0, 1.0, 0.5
"""Length of the walls ahead of the cavity and behind it, its depth, and the height of the box above them."""
SLOT = 0.35
MOUTH = tuple((AHEAD + x, DEPTH) for x in (0.2, 0.4, 0.6, 0.8))
WALL = tuple(AHEAD + 1.0 + x for x in (0.01, 0.03, 0.05, 0.07, 0.09))
DEVELOPMENT = Development(time=40.0, snapshots=30, spacing=1.3, push=0.0, split=True)
"""Until the oscillation is that of the flow without control; each third of the states covers 13 L/U."""
STEADY = Development(time=100.0, snapshots=1, spacing=1.0, push=0.0, damping=(1.2, 0.5))
"""More damping than the fastest mode grows, and a filter wider than the period of the slowest over 2 pi."""


class OpenCavityOptions(SteadyOptions):
    """Options of flowsim/OpenCavity-v0; their defaults are those of the preset `quick`."""

    reynolds: float = Field(7500.0, gt=0.0, description="U L / nu")
    cells_per_diameter: float = Field(80.0, ge=4.0, description="cells per length of the cavity")
    episode_actions: int = Field(100, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.1, gt=0.0, le=100.0, description="time one action is held")
    flow_rate: float = Field(
        0.0008, gt=0.0, le=0.5, description="of the jet at a command of 1, in U L"
    )
    sensors: Literal["shear", "mouth", "both"] = "both"
    energy_depth: float = Field(
        0.2, gt=0.0, le=DEPTH, description="down to which the energy is taken, in L"
    )
    energy_reference: float = Field(
        0.002, gt=0.0, description="energy that costs 1, in rho U^2 L^2"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in L."""
        return (AHEAD + 1.0 + BEHIND, DEPTH + HEIGHT)


def block(left: float, right: float) -> Body:
    """Return the solid below a wall, from x = left to right."""
    x, y = 0.5 * (right - left), 0.5 * DEPTH
    return polygon([(-x, -y), (x, -y), (x, y), (-x, y)], center=(left + x, y))


def open_cavity() -> Flow:
    """Return a stream over two walls with a gap between them, and the jet."""
    return Flow(
        bodies=[block(0.0, AHEAD), block(AHEAD + 1.0, AHEAD + 1.0 + BEHIND)],
        sides=Sides("inflow", "outflow", "no_slip", "slip"),
        jets=[Jet(point=(0.5 * (AHEAD - SLOT), 0.5 * DEPTH), width=SLOT, profile="parabolic")],
        inflows={"left": lambda s: np.where(s > DEPTH, 1.0, 0.0)},
    )


class OpenCavity(SteadyTask[OpenCavityOptions]):
    """The task; bodies are the walls ahead of the cavity and behind it."""

    options_class = OpenCavityOptions
    folder = Path(__file__).parent
    units = units_of("L")
    wall_height = DEPTH
    slope_limit = 1000.0
    vorticity_limit = 5.0

    def flow(self) -> Flow:
        """Return the stream over the cavity, and the jet."""
        return open_cavity()

    @property
    def development(self) -> Development:
        """Episodes start from stored states of the flow without control."""
        return DEVELOPMENT

    def steady_state(self) -> dict[str, Any]:
        """Return the flow that becomes steady under damping."""
        steady = load_or_build(self.build(1, len(self._flow.bodies)), STEADY, self.disturb)
        return self.simulation.store_states(steady)

    def energy_window(self) -> tuple[Point, Point]:
        """Return the part from the upstream edge on, down to `energy_depth`."""
        width, height = self.options.box()
        return (AHEAD, width), (DEPTH - self.options.energy_depth, height)

    def sensed(self) -> tuple[Points, Sequence[float]]:
        """Return the points of the shear layer, and those of the wall behind the cavity."""
        sensors = self.options.sensors
        return MOUTH if sensors != "shear" else (), WALL if sensors != "mouth" else ()

    def at_wall(self, velocity: FloatArray) -> FloatArray:
        """Return the mean over the points, where there are any."""
        return velocity.mean(axis=1, keepdims=True) if velocity.shape[1] else velocity


class OpenCavityEnv(FlowEnv):
    """flowsim/OpenCavity-v0: a jet ahead of an open cavity calms the shear layer over it.

    Lengths are in the length L of the cavity, velocities in the stream's U, times in L/U; rho is the density of the
    fluid. x runs along the stream and y upwards; Re = U L/nu = 7500.

    Observation, float32 of shape (30,): deviations from the steady flow at four points in the shear layer, 0.2, 0.4,
    0.6 and 0.8 behind the upstream edge, and at the wall behind the cavity.

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 7 | velocity x and y at each point at the end of the last action | U | 50 |
    | 8 | du/dy at the wall at that time, averaged over the first 0.1 behind the cavity | U/L | 1000 |
    | 9 to 26 | the same of the action before, and of the one before that | | |
    | 27 to 29 | the last three actions | | 1 |

    `sensors`: "shear" has the wall alone, "mouth" the points alone.

    Action, float32 of shape (1,), from -1 to 1 (clipped): the flow rate of the jet, 0.0008 U L at 1, which is reached
    in a straight line within 0.1 L/U; negative values suck.

    Reward of an action: less the energy of the deviation at its end over `energy_reference`, less `effort_weight` times
    the square of the action.

    An episode starts from a stored state of the flow without control; those of training, validation and test differ.
    It is truncated after 100 actions, 10 L/U.

    These are the numbers of the preset `quick`, which `gymnasium.make` takes unless another one is named (`preset=`
    `default`: a finer grid). Options: the fields of `OpenCavityOptions`. Contents of `info`: `FlowEnv`.
    """

    task_class = OpenCavity


class OpenCavityVectorEnv(FlowVectorEnv):
    """flowsim/OpenCavity-v0, a batch of flows in one simulation.

    Observations (num_envs, 30), actions (num_envs, 1), rewards and options are those of `OpenCavityEnv`; how
    episodes start again: `FlowVectorEnv`.
    """

    task_class = OpenCavity
