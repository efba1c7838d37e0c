"""flowsim/OpenCavity-v0: a jet ahead of an open cavity stabilises the shear layer over it.

Units: the length L of the cavity, the velocity U of the stream, T = L/U, density of the fluid 1. "D" in options and
messages is L.

Sources of the parameters
-------------------------
1.  Flow: Sipp & Lebedev (2007, J. Fluid Mech. 593), Barbagallo et al. (2009, J. Fluid Mech. 641), as in HydroGym's
    environment "Cavity": a square cavity under a stream 0.5 high, Re = U L/nu = 7500. The boundary layer begins 0.4
    ahead of the cavity. The steady flow is unstable above about Re 4140; at 7500 it has four unstable modes.
2.  Actuator: blowing or suction through the wall over the last 0.35 before the cavity, with a parabolic profile.
3.  `sensors: shear`: du/dy at the wall, averaged over the first 0.1 behind the cavity.
4.  Quantity to be minimised: the kinetic energy of the deviation from the steady flow.

Differences from HydroGym
-------------------------
1.  The box begins at the start of the boundary layer, with a uniform stream, and ends 1 behind the cavity; all walls
    are no-slip. HydroGym has a slip wall 0.8 long upstream of that, and another one from 0.75 behind the cavity on.
2.  `sensors: both` adds the velocity at four points of the shear layer, `mouth` has only these. Observed are the
    deviations from the steady flow of the last `past` actions.
3.  The flow rate of the jet is at most a tenth of HydroGym's 0.0078 U L.
4.  An action lasts 0.1 L/U, about a sixth of a period; in HydroGym 1e-4.
5.  The energy is taken at the end of an action, from the cavity's upstream edge to the end of the box and down to
    `energy_depth` below the edges. The vortex further down in the cavity changes too slowly for an episode.
6.  Episodes start from stored states of the flow without control.
7.  Grid: at 80 cells per L the boundary layer is three cells thick where it leaves the wall. docs/open_cavity.md
    compares the eigenvalues of the steady flow with published ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.initial_flows import Development, load_or_build
from cases.loads import FloatArray
from cases.steady_task import Point, Points, SteadyOptions, SteadyTask
from flowsim import Jet, Sides, polygon
from flowsim.bodies import Body
from flowsim.render.units import units_of

AHEAD, BEHIND, DEPTH, HEIGHT = 0.4, 1.0, 1.0, 0.5
"""Length of the walls ahead of the cavity and behind it, depth of the cavity, and height of the box above the walls."""
SLOT = 0.35
MOUTH = tuple((AHEAD + x, DEPTH) for x in (0.2, 0.4, 0.6, 0.8))
WALL = tuple(AHEAD + 1.0 + x for x in (0.01, 0.03, 0.05, 0.07, 0.09))
DEVELOPMENT = Development(time=40.0, snapshots=30, spacing=1.3, push=0.0, split=True)
"""Long enough for the oscillation to be developed; each third of the states covers 13 L/U."""
STEADY = Development(time=100.0, snapshots=1, spacing=1.0, push=0.0, damping=(1.2, 0.5))
"""The damping exceeds the largest growth rate, and the filter width exceeds the longest period divided by 2 pi."""


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
    """Return the flow over two walls with a gap between them, and the jet."""
    return Flow(
        bodies=[block(0.0, AHEAD), block(AHEAD + 1.0, AHEAD + 1.0 + BEHIND)],
        sides=Sides("inflow", "outflow", "no_slip", "slip"),
        jets=[Jet(point=(0.5 * (AHEAD - SLOT), 0.5 * DEPTH), width=SLOT, profile="parabolic")],
        inflows={"left": lambda s: np.where(s > DEPTH, 1.0, 0.0)},
    )


class OpenCavity(SteadyTask[OpenCavityOptions]):
    """The task of `OpenCavityEnv`; bodies are the walls ahead of the cavity and behind it."""

    options_class = OpenCavityOptions
    folder = Path(__file__).parent
    units = units_of("L")
    wall_height = DEPTH
    slope_limit = 1000.0
    vorticity_limit = 5.0

    def flow(self) -> Flow:
        """Return the flow over the cavity, and the jet."""
        return open_cavity()

    @property
    def development(self) -> Development:
        """Development of the flow without control, from whose stored states episodes start."""
        return DEVELOPMENT

    def steady_state(self) -> dict[str, Any]:
        """Return the steady flow, computed with selective frequency damping."""
        steady = load_or_build(self.build(1, len(self._flow.bodies)), STEADY, self.disturb)
        return self.simulation.store_states(steady)

    def energy_window(self) -> tuple[Point, Point]:
        """Return the region behind the upstream edge, down to `energy_depth`."""
        width, height = self.options.box()
        return (AHEAD, width), (DEPTH - self.options.energy_depth, height)

    def sensed(self) -> tuple[Points, Sequence[float]]:
        """Return the points of the shear layer, and the x of those at the wall behind the cavity."""
        sensors = self.options.sensors
        return MOUTH if sensors != "shear" else (), WALL if sensors != "mouth" else ()

    def at_wall(self, velocity: FloatArray) -> FloatArray:
        """Return the mean over the points, if there are any."""
        return velocity.mean(axis=1, keepdims=True) if velocity.shape[1] else velocity


class OpenCavityEnv(FlowEnv):
    """flowsim/OpenCavity-v0: a jet ahead of an open cavity stabilises the shear layer over it.

    Lengths are in the length L of the cavity, velocities in the stream's U, times in L/U; rho is the density of the
    fluid. x runs along the stream and y upwards; Re = U L/nu = 7500.

    Observation, float32 of shape (30,): deviations from the steady flow at four points in the shear layer, 0.2, 0.4,
    0.6 and 0.8 behind the upstream edge, and at the wall behind the cavity.

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 7 | velocity x and y at each point at the end of the last action | U | 50 |
    | 8 | du/dy at the wall at that time, averaged over the first 0.1 behind the cavity | U/L | 1000 |
    | 9 to 26 | the same for the two actions before | | |
    | 27 to 29 | the last three actions | | 1 |

    `sensors`: "shear" has the wall only, "mouth" the points in the shear layer only.

    Action, float32 of shape (1,), from -1 to 1 (clipped): the flow rate of the jet, 0.0008 U L at 1, which is reached
    by a linear ramp over 0.1 L/U; negative values are suction.

    Reward of an action: minus the energy of the deviation at its end divided by `energy_reference`, minus
    `effort_weight` times the square of the action.

    An episode starts from a stored state of the flow without control; training, validation and test use different
    states. It is truncated after 100 actions, 10 L/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid).
    Options are the fields of `OpenCavityOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = OpenCavity


class OpenCavityVectorEnv(FlowVectorEnv):
    """flowsim/OpenCavity-v0, a batch of flows in one simulation.

    Observations (num_envs, 30), actions (num_envs, 1), rewards and options are those of `OpenCavityEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = OpenCavity
