"""flowsim/BackwardStep-v0: a jet ahead of a backward-facing step damps the noise-amplifying flow behind it.

Units: the height h of the step, the peak velocity U of the inflow, T = h/U, density of the fluid 1. "D" in options and
messages is h.

Sources of the parameters
-------------------------
1.  Flow: Boujo & Gallaire (2015, J. Fluid Mech. 762) as in HydroGym's environment "Step": a channel that widens from h
    to 2 h, a parabolic inflow of peak velocity U, Re = U h/nu = 600. It is stable, but amplifies disturbances.
2.  Actuator: blowing or suction through the wall over the last 0.7 h before the edge, with a parabolic profile.
3.  Noise: it enters 2 h ahead of the edge, in the middle of the channel, and is 0.2 h wide. In HydroGym it is a random
    force, filtered with a time of 0.1 h/U.
4.  Quantity to be minimised: the kinetic energy of the deviation from the steady flow.

Our choices
-----------
1.  The channel begins 3 h ahead of the edge and ends 25 h behind it (HydroGym: 5 and 50 h).
2.  The noise is an impulse (`cases.disturbances`) at the beginning of each action, whose speed is normally distributed
    with the standard deviation `noise_speed`. All impulses of an episode are sampled when it starts; training,
    validation and test use different seeds.
3.  `sensors`: "upstream" is the velocity at six points between the noise and the slot; "both" adds the wall slope du/dy
    at seven points of the lower wall, from which the future energy can be predicted; "shear" is that slope near the end
    of the lower bubble only, where HydroGym measures it. Observed are the deviations from the steady flow of the last
    `past` actions. Disturbances seen at the wall have already been amplified, too late for the jet to cancel them.
4.  The flow rate of the jet is at most a sixteenth of HydroGym's 0.0156 U h: random commands of this size already
    increase the cost by half.
5.  The energy is taken at the end of an action, over the first `energy_length` of the wide channel only, so that the
    cost follows its cause sooner.
6.  Every episode starts from the steady flow, and the noise fills the channel from upstream.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from cases.disturbances import vertical_jet
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.initial_flows import Development
from cases.loads import FloatArray
from cases.steady_task import Point, Points, SteadyOptions, SteadyTask
from flowsim import Jet, Sides, polygon
from flowsim.render.units import units_of

INLET, OUTLET, HEIGHT = 3.0, 25.0, 2.0
"""Length of the channel before and behind the edge, and its height there."""
SLOT = 0.7
NOISE = (INLET - 2.0, 1.5)
NOISE_SIZE = 0.2
UPSTREAM = tuple((INLET + x, 1.0 + y) for x in (-1.25, -0.75) for y in (0.2, 0.5, 0.8))
WALL = {
    "upstream": (),
    "both": (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0),
    "shear": (11.8, 11.9, 12.0, 12.1, 12.2),
}
"""Distances behind the edge at which du/dy is sensed at the lower wall, for each value of `sensors`."""
DEVELOPMENT = Development(time=900.0, snapshots=1, spacing=1.0, push=0.0)
"""The time is long because the bubbles grow slowly."""


class BackwardStepOptions(SteadyOptions):
    """Options of flowsim/BackwardStep-v0; their defaults are those of the preset `quick`."""

    reynolds: float = Field(600.0, gt=0.0, description="U h / nu")
    cfl: float | None = Field(
        0.55, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    cells_per_diameter: float = Field(20.0, ge=4.0, description="cells per height of the step")
    episode_actions: int = Field(120, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(1.0, gt=0.0, le=100.0, description="time one action is held")
    noise_speed: float = Field(
        0.05, ge=0.0, le=1.0, description="standard deviation of the impulses of noise, in U"
    )
    sensors: Literal["upstream", "shear", "both"] = "both"
    energy_length: float = Field(
        10.0, ge=1.0, le=OUTLET, description="of the channel over which the energy is taken, in h"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in h."""
        return (INLET + OUTLET, HEIGHT)


class BackwardStep(SteadyTask[BackwardStepOptions]):
    """The task of `BackwardStepEnv`; its only body is the step."""

    options_class = BackwardStepOptions
    folder = Path(__file__).parent
    units = units_of("h")
    wall_height = 0.0
    vorticity_limit = 0.3

    def __init__(self, options: BackwardStepOptions, batch: int) -> None:
        super().__init__(options, batch)
        self.memory["noise"] = np.zeros((batch, options.episode_actions))
        self.memory["played"] = np.zeros(batch, np.int64)
        self._impulse = vertical_jet(self.simulation.grid, NOISE, NOISE_SIZE)

    def flow(self) -> Flow:
        """Return the channel; the lower half of its inlet section is solid."""
        x, y = 0.5 * INLET, 0.25 * HEIGHT
        step = polygon([(-x, -y), (x, -y), (x, y), (-x, y)], center=(x, y))
        return Flow(
            bodies=[step],
            sides=Sides("inflow", "outflow", "no_slip", "no_slip"),
            stream=(1.0 / 3.0, 0.0),
            jets=[Jet(point=(x - 0.5 * SLOT, y), width=SLOT, profile="parabolic")],
            inflows={"left": lambda s: 4.0 * np.maximum(s - 1.0, 0.0) * np.maximum(2.0 - s, 0.0)},
        )

    @property
    def development(self) -> Development:
        """Development of the steady flow, from which every episode starts."""
        return DEVELOPMENT

    def energy_window(self) -> tuple[Point, Point]:
        """Return the first `energy_length` of the channel behind the edge."""
        return (INLET, INLET + self.options.energy_length), (0.0, HEIGHT)

    def sensed(self) -> tuple[Points, Sequence[float]]:
        """Return the points between the noise and the slot, and the x of those at the lower wall."""
        sensors = self.options.sensors
        return UPSTREAM if sensors != "shear" else (), [INLET + x for x in WALL[sensors]]

    # --- noise --------------------------------------------------------------------------------------------------

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Sample the speed of the impulse at the beginning of every action."""
        options = self.options
        return options.noise_speed * generator.standard_normal(options.episode_actions)

    def place(self, index: int, drawn: FloatArray) -> None:
        """Store the noise of an episode."""
        self.memory["noise"][index], self.memory["played"][index] = drawn, 0

    def actuate(self, commands: FloatArray) -> None:
        """Apply the commands, and add the noise of this action."""
        super().actuate(commands)
        played, noise = self.memory["played"], self.memory["noise"]
        u, v = self._impulse
        for b in np.flatnonzero(played < noise.shape[1]).tolist():
            if (speed := float(noise[b, played[b]])) != 0.0:
                self.simulation.add_velocity(b, speed * u, speed * v)
        played += 1


class BackwardStepEnv(FlowEnv):
    """flowsim/BackwardStep-v0: a jet ahead of a backward-facing step damps the noise-amplifying flow behind it.

    Lengths are in the height h of the step, velocities in the peak velocity U of the inflow, times in h/U; rho is the
    density of the fluid. x runs along the stream and y upwards; Re = U h/nu = 600.

    Observation, float32 of shape (60,): deviations from the steady flow at six points ahead of the slot, two columns
    of three, and at seven points of the lower wall, 2 to 14 h behind the edge.

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 11 | velocity x and y at each point at the end of the last action | U | 50 |
    | 12 to 18 | du/dy at each point of the wall at that time | U/h | 50 |
    | 19 to 56 | the same for the two actions before | | 50 |
    | 57 to 59 | the last three actions | | 1 |

    `sensors`: "upstream" omits the wall, "shear" has only five points at the wall, 11.8 to 12.2 h behind the edge.

    Action, float32 of shape (1,), from -1 to 1 (clipped): the flow rate of the jet, 0.001 U h at 1, which is reached
    by a linear ramp over h/U; negative values are suction.

    Reward of an action: minus the energy of the deviation at its end divided by `energy_reference`, minus
    `effort_weight` times the square of the action.

    An episode starts from the steady flow; an impulse of noise is added at every action. It is truncated after 120
    actions, 120 h/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid).
    Options are the fields of `BackwardStepOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = BackwardStep


class BackwardStepVectorEnv(FlowVectorEnv):
    """flowsim/BackwardStep-v0, a batch of flows in one simulation.

    Observations (num_envs, 60), actions (num_envs, 1), rewards and options are those of `BackwardStepEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = BackwardStep
