"""flowsim/RotatingCylinder-v0: a cylinder in a stream rotates back and forth to lower the power that holds it.

Units: the cylinder's diameter D, the velocity U of the stream, T = D/U, density of the fluid 1.

Sources of the parameters
-------------------------
1.  Re 100 (Tokarev et al. 2020, Energies 13 5920; drlfoam; HydroGym) and Re 200 (Bergmann, Cordier & Brancher 2005,
    Phys. Fluids 17 097101, harmonic rotation), preset `re200`.
2.  Free stream: HydroGym's box is 20 x 10 D between slip walls, which increases drag and Strouhal number by a tenth.
    Here the box of 16 x 8 D is cut out of an unbounded stream (`far_field` sides).
3.  Channel, preset `channel`: that of Schaefer & Turek (1996), as in drlfoam and GymPrecice, with Re 100 based on the
    mean velocity; an action of 0.25 D/U (GymPrecice, FluidGym), a thirteenth of a shedding period.
4.  Wall speed of at most 0.25 U, twelve pressure probes, and 40 D/U of control: drlfoam's rotatingCylinder2D, which is
    in a channel. Its probes are 1, 2, 3 and 4 D behind the centre in rows at -0.5, 0 and 0.5 D.

Our choices
-----------
1.  An action of 0.5 D/U, a twelfth of a shedding period (drlfoam: 0.1, GymPrecice and FluidGym 0.25), so that 80
    actions last drlfoam's 40 D/U.
2.  Reward: the reduction of the total power of towing and rotation, in 1/2 rho U^3 D. Others reward drag reduction,
    with a share of the lift and without the power of the rotation; if that is included, harmonic rotation loses energy
    (Bergmann et al. 2005). No power is gained from a cylinder that the flow turns.
3.  The angular velocity follows a linear ramp to its command over the action; the last action is observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from cases import schaefer_turek
from cases.actuators import Actuator, Spin
from cases.drag_task import DragOptions, SpinTask
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.initial_flows import Development
from cases.sensors import PastActions, Probes, Sensor
from flowsim import Disk, Sides

BOX = (16.0, 8.0)
CENTER = (4.0, 4.0)
PROBES = tuple((x, y) for x in (1.0, 2.0, 3.0, 4.0) for y in (-0.5, 0.0, 0.5))
"""Positions relative to the centre of the cylinder."""
DEVELOPMENT = Development(time=100.0, snapshots=30, spacing=1.9, split=True)
"""Long enough for the vortex street to be periodic; each third of the states covers three periods."""


class RotatingCylinderOptions(DragOptions):
    """Options of flowsim/RotatingCylinder-v0; their defaults are those of the preset `quick`."""

    flow: Literal["unbounded", "channel"] = "unbounded"
    cells_per_diameter: float = Field(12.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(80, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.5, gt=0.0, le=100.0, description="time one action is held")
    wall_speed: float = Field(
        0.25, gt=0.0, le=10.0, description="of the cylinder at a command of 1, in U"
    )
    drag_reference: float = Field(
        1.376, description="C_D without control, from which the reward counts"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX if self.flow == "unbounded" else schaefer_turek.BOX

    @property
    def center(self) -> tuple[float, float]:
        """Position of the cylinder in the box."""
        return CENTER if self.flow == "unbounded" else schaefer_turek.CENTER


class RotatingCylinder(SpinTask[RotatingCylinderOptions]):
    """The task of `RotatingCylinderEnv`; its only body is held in place and turned by one agent."""

    options_class = RotatingCylinderOptions
    folder = Path(__file__).parent

    def flow(self) -> Flow:
        """Return a cylinder in an unbounded stream or in the channel."""
        sides = Sides() if self.options.flow == "unbounded" else schaefer_turek.SIDES
        return Flow(bodies=[Disk(diameter=1.0, center=self.options.center)], sides=sides)

    @property
    def development(self) -> Development:
        """Development of the shedding wake, from whose stored states episodes start."""
        return DEVELOPMENT if self.options.flow == "unbounded" else schaefer_turek.DEVELOPMENT

    def actuators(self) -> Sequence[Actuator]:
        """Return the rotation; at a command of 1 the wall moves at `wall_speed`, and the ramp lasts one action."""
        return [Spin([0], rate=2.0 * self.options.wall_speed, ramp=self.options.action_time)]

    def sensors(self) -> Sequence[Sensor]:
        """Return the pressure at twelve points of the wake, and the last action."""
        probes = np.array(PROBES) + self.options.center
        return [Probes(probes, "pressure"), PastActions()]


class RotatingCylinderEnv(FlowEnv):
    """flowsim/RotatingCylinder-v0: a cylinder in a stream rotates back and forth to lower the power that holds it.

    Lengths are in the cylinder's diameter D, velocities in the stream's U, times in D/U; rho is the density of the
    fluid. x runs along the stream and y upwards; Re = U D/nu = 100.

    Observation, float32 of shape (13,):

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 11 | pressure at x = 1, 2, 3 and 4 behind the centre, at y = -0.5, 0 and 0.5 each | rho U^2 | 1000 |
    | 12 | the last action | | 1 |

    Action, float32 of shape (1,), from -1 to 1 (clipped): the angular velocity, positive anticlockwise; at 1 the wall
    moves at 0.25 U. It is reached by a linear ramp over 0.5 D/U.

    Reward of an action: `drag_reference` - C_D - C_P, where C_P is the coefficient of the power that turns the
    cylinder. `power_weight` and `lift_weight` change the weights.

    An episode starts from a stored state of the shedding wake; training, validation and test use different states. It
    is truncated after 80 actions, 40 D/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid), `re200`, `channel`.
    Options are the fields of `RotatingCylinderOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = RotatingCylinder


class RotatingCylinderVectorEnv(FlowVectorEnv):
    """flowsim/RotatingCylinder-v0, a batch of flows in one simulation.

    Observations (num_envs, 13), actions (num_envs, 1), rewards and options are those of `RotatingCylinderEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = RotatingCylinder
