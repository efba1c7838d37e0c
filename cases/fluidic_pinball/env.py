"""flowsim/FluidicPinball-v0: three cylinders rotate to lower the power that holds them in a stream.

Units: the diameter D of each cylinder, the velocity U of the stream, T = D/U, density of the fluid 1.

Three cylinders are at the corners of an equilateral triangle of side 1.5 D that points upstream, in a box of 26 x 12 D
(Deng et al. 2020, J. Fluid Mech. 884 A37). The controller rotates each of them.

Sources of the parameters
-------------------------
1.  Geometry: all sources agree. Box: x from -6 to 20 and y from -6 to 6 relative to the front cylinder, with slip
    sides, as in HydroGym, whose numbers we compare with. Deng et al. have the origin between the rear cylinders; Holm
    (2020, thesis, Oslo) prescribes the stream's velocity at the sides. The cylinders cover 21 % of the box's height, so
    the coefficients are specific to this box: in an unbounded stream the drag at Re 30 is a third lower.
2.  Wall speed of at most U: Holm. Others allow 2.5 U (drlfoam) and 5 U (HydroGym).
3.  Actions of 0.875 D/U, a tenth of a shedding period at Re 100, and episodes of 80 actions: Holm.
4.  Reward: the reduction of the total power of towing and rotation, in 1/2 rho U^3 D, as in Li et al. (2022, J. Fluid
    Mech. 932), who minimize the net drag power. No power is gained from a cylinder that the flow turns. Others reward
    drag and lift only.
5.  Branch: above Re 68 the mean flow is deflected to one side. `branch` is the direction in which the jet between the
    rear cylinders is deflected; "up" and "down" are mirror images.

Our choices
-----------
1.  Sensors: the velocity at nine points of the wake, as many as Cornejo Maceda et al. (2021, J. Fluid Mech. 917 A42)
    have, but at other positions; drag and lift of each cylinder, averaged over the last action (HydroGym has only
    these); and the last action.
2.  The angular velocity follows a linear ramp to its command over the action.
3.  Grid: see the presets. The penalisation is first-order accurate at the wall: at 12 cells per D the drag at Re 100 is
    3 % above that of body-fitted grids (docs/pinball.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from cases.actuators import Actuator, Spin
from cases.drag_task import DragOptions, SpinTask
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.initial_flows import Development
from cases.sensors import MeanLoads, PastActions, Probes, Sensor
from flowsim import Disk, Sides

BOX = (26.0, 12.0)
FRONT = (6.0, 6.0)
MIDDLE = (FRONT[0] + 0.75 * np.sqrt(3.0), FRONT[1])
"""Midpoint between the rear cylinders."""
CENTERS = (
    FRONT,
    (MIDDLE[0], MIDDLE[1] + 0.75),
    (MIDDLE[0], MIDDLE[1] - 0.75),
)
"""Centres of the front, the top and the bottom cylinder."""
PROBES = tuple((MIDDLE[0] + x, MIDDLE[1] + y) for x in (1.0, 2.5, 4.0) for y in (-1.25, 0.0, 1.25))
DEVELOPMENT = Development(time=150.0, snapshots=30, spacing=4.1, split=True)
"""Long enough for the flow to be on its branch; each third of the states covers four to five periods at Re 100."""


class PinballOptions(DragOptions):
    """Options of flowsim/FluidicPinball-v0; their defaults are those of the preset `quick`."""

    cells_per_diameter: float = Field(12.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(80, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.875, gt=0.0, le=100.0, description="time one action is held")
    wall_speed: float = Field(
        1.0, gt=0.0, le=10.0, description="of a cylinder at a command of 1, in U"
    )
    branch: Literal["up", "down"] = "up"
    drag_reference: float = Field(
        3.82, description="C_D of the three cylinders without control, from which the reward counts"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX


class FluidicPinball(SpinTask[PinballOptions]):
    """The task of `FluidicPinballEnv`; bodies are the front, top and bottom cylinder, and one agent turns them all."""

    options_class = PinballOptions
    folder = Path(__file__).parent

    def flow(self) -> Flow:
        """Return the cylinders between slip sides."""
        sides = Sides("inflow", "outflow", "slip", "slip")
        return Flow(bodies=[Disk(diameter=1.0, center=center) for center in CENTERS], sides=sides)

    @property
    def development(self) -> Development:
        """Development of one branch; an upward push deflects the jet between the rear cylinders downwards."""
        push = -DEVELOPMENT.push if self.options.branch == "up" else DEVELOPMENT.push
        return replace(DEVELOPMENT, push=push)

    def actuators(self) -> Sequence[Actuator]:
        """Return the rotations; at a command of 1 the wall moves at `wall_speed`, and the ramp lasts one action."""
        rate, ramp = 2.0 * self.options.wall_speed, self.options.action_time
        return [Spin([k], rate=rate, ramp=ramp) for k in range(len(CENTERS))]

    @property
    def command_names(self) -> tuple[str, ...]:
        """Cylinder that each action component turns."""
        return ("front", "top", "bottom")

    def sensors(self) -> Sequence[Sensor]:
        """Return the velocity at nine points of the wake, drag and lift of each cylinder, and the last action."""
        return [Probes(PROBES), MeanLoads(range(3)), PastActions()]


class FluidicPinballEnv(FlowEnv):
    """flowsim/FluidicPinball-v0: three cylinders rotate to lower the power that holds them in a stream.

    Lengths are in the diameter D of a cylinder, velocities in the stream's U, times in D/U; rho is the density of the
    fluid. x runs along the stream and y upwards; Re = U D/nu = 100.

    Observation, float32 of shape (27,):

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 17 | velocity at nine points, 1, 2.5 and 4 behind the rear cylinders, y -1.25, 0, 1.25, x and y | U | 50 |
    | 18 to 20 | drag of the front, the top and the bottom cylinder, averaged over the last action | rho U^2 D | 1000 |
    | 21 to 23 | lift of these, averaged likewise | rho U^2 D | 1000 |
    | 24 to 26 | the last action | | 1 |

    Action, float32 of shape (3,), each from -1 to 1 (clipped): the angular velocity of the front, the top and the
    bottom cylinder, positive anticlockwise; at 1 the wall moves at U. It is reached by a linear ramp over 0.875 D/U.

    Reward of an action: `drag_reference` - C_D - C_P for all cylinders together, where C_P is the coefficient of the
    power that turns them. `power_weight` and `lift_weight` change the weights.

    An episode starts from a stored state of the branch in which the jet between the rear cylinders is deflected
    upwards; training, validation and test use different states. It is truncated after 80 actions, 70 D/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid).
    Options are the fields of `PinballOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = FluidicPinball


class FluidicPinballVectorEnv(FlowVectorEnv):
    """flowsim/FluidicPinball-v0, a batch of flows in one simulation.

    Observations (num_envs, 27), actions (num_envs, 3), rewards and options are those of `FluidicPinballEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = FluidicPinball
