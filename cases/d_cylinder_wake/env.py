"""flowsim/DCylinderWake-v0: an ellipse keeps its position in a cylinder's wake with little effort.

The benchmark of Novati & Koumoutsakos, "Remember and Forget for Experience Replay" (2019), section 5.4 and
appendix D. Units: the cylinder's diameter D, its speed U, T = D/U, density of the fluid 1.

O, a half disk with its curved side upstream, moves to the left at U, Re = U D/nu = 400; the frame of reference moves
with it. A, an ellipse with the major axis D, aspect ratio 0.2 and the density of the fluid, is free in x, y and theta.
Once per T the agent chooses a force and a torque on A. The reward is -|a|^2, and -100 if A leaves the box
0.5 <= x <= 3.5, |y| <= 1.5 around O.

Choices where the paper gives no details
----------------------------------------
1.  Scales of the action: force 0.5 rho U^2 D and torque 0.05 rho U^2 D^2 at |a_i| = 1, with actions clipped to
    [-1, 1]. The original code (January 2019) used 1 and 1 without limits; with these the paper's exploration
    noise alone rotates A by several radians per action. The reward is computed from the clipped action.
2.  Sign: force and torque act on A (the paper: "on the flow").
3.  Sensors: at the four ends of A's axes, in the order front, top, rear, bottom; both components (in the axes
    of the box) of the flow velocity relative to the surface, sampled 0.05 D outside it (`sensor_offset`), since
    this velocity vanishes on the surface because of no slip.
4.  Observation: position of A's centre relative to the middle of O's flat side, angle in (-pi, pi], velocity
    relative to O, angular velocity, then the sensors. The clipping limits are far beyond what occurs (8 D, 50 U,
    200 U/D).
5.  Box of the flow: 8 D x 4 D, with the middle of O's flat side at (1.8, 2.0).
6.  The alive box is that of the original code; it is checked after every solver step, and leaving it ends the
    action.
7.  Initial states: A at rest relative to O. `start_range="paper"`: x in [0.75, 3.25], y in [-1.25, 1.25], theta in
    [-pi/4, pi/4]; "narrow": x in [1, 2.5], y in [-0.5, 0.5], theta in [-pi/8, pi/8].
8.  Initial flow: "impulsive" (a uniform stream meets bodies at rest, as in the original) or "developed": one of 24
    stored snapshots of the periodic wake of O alone, into which A is put at rest.

Differences from the paper
--------------------------
1.  Grid: the paper states h = 2^-10 D; we interpret it as 2^-10 of the box's length (1024 x 512 cells, preset
    `paper`). The other presets are coarser, and integrate with a second-order method at CFL 0.55 instead of
    explicit Euler at 0.1.
2.  Sides: the paper has Neumann conditions everywhere, with which drag and wake depend on the box. Here the box is
    cut out of an unbounded stream (`far_field`) with an outflow on the right: drag coefficient and period are
    within 4 % of those in a box of 40 x 24 D (docs/studies/boxes.md, 16 cells per D). The preset `paper` has Neumann
    conditions at bottom and top, the preset `sketch` has walls; both nearly double the drag.
3.  If a simulation diverges, its episode ends with -100 and `info["diverged"]`.
4.  The frame moves with O; the equations are the same, since O does not accelerate.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from cases.actuators import Actuator
from cases.ellipse_agent import EllipseOptions, effort, ellipse, own_state, push
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow, FlowTask
from cases.initial_flows import Development
from cases.loads import FloatArray
from cases.options import SideOptions
from cases.sensors import Computed, Sensor
from flowsim import HalfDisk, Sides

BOX = (8.0, 4.0)
CYLINDER = (1.8, 2.0)
START_RANGES = {
    "paper": ((0.75, 3.25), (-1.25, 1.25), (-np.pi / 4.0, np.pi / 4.0)),
    "narrow": ((1.0, 2.5), (-0.5, 0.5), (-np.pi / 8.0, np.pi / 8.0)),
}
STREAM = (1.0, 0.0)
DEVELOPMENT = Development(time=80.0, snapshots=24, spacing=1.9, bodies=1)
"""Wake of O alone, until the vortex street is periodic (between far-field sides its amplitude is smaller before). The
24 snapshots cover nine to fourteen shedding periods, all at different phases."""


class WakeOptions(EllipseOptions):
    """Options of flowsim/DCylinderWake-v0; their defaults are those of the preset `quick`."""

    cells_per_diameter: float = Field(16.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(400, ge=1, description="actions until an episode is truncated")
    cfl: float | None = Field(
        0.55, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    start: Literal["developed", "impulsive"] = "developed"
    start_range: Literal["paper", "narrow"] = "narrow"
    sides: SideOptions = Field(default_factory=SideOptions)

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX


class DCylinderWake(FlowTask[WakeOptions]):
    """The task of `DCylinderWakeEnv`; bodies are O (0) and A (1)."""

    options_class = WakeOptions
    folder = Path(__file__).parent
    agent_bodies = (1,)
    failure_reward = -100.0
    alive_box = (CYLINDER[0] + 0.5, CYLINDER[0] + 3.5, CYLINDER[1] - 1.5, CYLINDER[1] + 1.5)

    def flow(self) -> Flow:
        """Return O and A in a stream."""
        cylinder = HalfDisk(diameter=1.0, center=CYLINDER)
        sides = Sides(**self.options.sides.model_dump())
        body = ellipse((CYLINDER[0] + 1.75, CYLINDER[1]))
        return Flow(bodies=[cylinder, body], sides=sides, stream=STREAM)

    @property
    def development(self) -> Development | None:
        """Development of the wake of O; None for impulsive starts."""
        return DEVELOPMENT if self.options.start == "developed" else None

    def actuators(self) -> Sequence[Actuator]:
        """Return force and torque on A."""
        return [push(1, self.options)]

    def sensors(self) -> Sequence[Sensor]:
        """Return the position of A, its motion, and the flow past its surface."""
        return [Computed(self._position, [BOX[0]] * 2), *own_state(1, self.options)]

    def _position(self) -> FloatArray:
        """Return the position of A relative to O."""
        position = self.simulation.body_state.position
        return position[:, 1] - position[:, 0]

    def draw(self, generator: np.random.Generator) -> list[float]:
        """Sample the position of A relative to the middle of O's flat side, and its angle."""
        ranges = START_RANGES[self.options.start_range]
        return [generator.uniform(low, high) for low, high in ranges]

    def place(self, index: int, drawn: list[float]) -> None:
        """Place A at rest at the sampled position and angle."""
        x, y, angle = drawn
        state = self.simulation.body_state
        state.position[index, 1] = CYLINDER[0] + x, CYLINDER[1] + y
        state.angle[index, 1] = angle

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return -|a|^2."""
        return -effort(commands)


class DCylinderWakeEnv(FlowEnv):
    """flowsim/DCylinderWake-v0: an ellipse keeps its position in the wake of a D-section cylinder with little effort.

    Lengths are in the cylinder's diameter D, velocities in its speed U, times in D/U; rho is the density of fluid and
    ellipse. x runs along the stream and y upwards; Re = U D/nu = 400.

    Observation, float32 of shape (14,), relative to the cylinder; each number lies between plus and minus its bound:

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0, 1 | centre of the ellipse, x and y, relative to the middle of the cylinder's flat side | D | 8 |
    | 2 | angle of the major axis | rad | pi |
    | 3, 4 | velocity of its centre, x and y | U | 50 |
    | 5 | angular velocity | U/D | 200 |
    | 6 to 13 | flow velocity past the surface at the front, top, rear and bottom ends of the axes, x and y | U | 50 |

    Action, float32 of shape (3,), each from -1 to 1 (clipped), constant for 1 D/U:

    | index | what | at 1 |
    | --- | --- | --- |
    | 0, 1 | force on the ellipse along x and y | 0.5 rho U^2 D |
    | 2 | torque on the ellipse, anticlockwise | 0.05 rho U^2 D^2 |

    Reward of an action: -(a0^2 + a1^2 + a2^2), from -3 to 0; -100 for the one in which the agent leaves the box.

    An episode starts with the ellipse at rest at random x from 1 to 2.5, y from -0.5 to 0.5 and angle from -pi/8 to
    pi/8, at a random phase of the wake. It is terminated when the centre leaves 0.5 <= x <= 3.5, |y| <= 1.5
    (or when the simulation diverges, see `info["diverged"]`), and truncated after 400 actions.

    These numbers apply to the default preset, `quick`. Other presets: `default`, `fine` and `paper` (wider initial
    range, finer grids, longer trainings), `drafting` (the flow of `default` on the grid of `quick`) and `sketch`
    (coarser, 40 actions).
    Options are the fields of `WakeOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = DCylinderWake


class DCylinderWakeVectorEnv(FlowVectorEnv):
    """flowsim/DCylinderWake-v0, a batch of agents in one simulation.

    Observations (num_envs, 14), actions (num_envs, 3), rewards and options are those of `DCylinderWakeEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = DCylinderWake
