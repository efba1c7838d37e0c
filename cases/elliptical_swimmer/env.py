"""flowsim/EllipticalSwimmer-v0: an ellipse swims to a random target and stays there with little effort.

Units: the body's major axis L, a reference speed U, T = L/U, density of the fluid 1. The body, its actuation,
its sensors and its observation are those of flowsim/DCylinderWake-v0, except that the first two observations
are the position of the target relative to the body, and velocities are those in the box. Re = U L/nu.

The box is 4 L x 4 L and contains still water between frictionless walls. The options `stream` (the sides are
then inflow, outflow and slip) and `vortex` (a vortex in the middle with this circulation, in U L, and a
Gaussian core of radius 0.3 L) add a flow.

Initial state: the body is at rest; its centre and the target are sampled uniformly in the inner 2 L x 2 L, at
least 0.5 L apart, and the angle uniformly in (-pi, pi].

Reward per action: the progress towards the target in L, minus 0.05 |a|^2, plus 0.1 while the body's centre is
within 0.1 L of the target. The episode is truncated after 100 actions. It is terminated with the reward -10
when the body's centre comes closer than half its length to a side, which it could then touch, or when the
simulation diverges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import Field

from cases.actuators import Actuator
from cases.ellipse_agent import EllipseOptions, effort, ellipse, own_state, push
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow, FlowTask
from cases.loads import BoolArray, FloatArray
from cases.sensors import Computed, Sensor
from flowsim import Sides
from flowsim.render.fields import Scene
from flowsim.render.units import units_of

BOX = (4.0, 4.0)
MARGIN = 0.5
"""Distance from the sides at which the episode ends, in L."""
INNER = ((1.0, 3.0), (1.0, 3.0))
"""Ranges of x and y of initial positions and targets."""
CLOSEST_TARGET = 0.5
TARGET_RADIUS = 0.1
TARGET_BONUS = 0.1
EFFORT_WEIGHT = 0.05
VORTEX_CORE = 0.3


class SwimmerOptions(EllipseOptions):
    """Options of flowsim/EllipticalSwimmer-v0; their defaults are those of the preset `quick`."""

    cells_per_diameter: float = Field(16.0, ge=4.0, description="resolution L/h")
    episode_actions: int = Field(100, ge=1, description="actions until an episode is truncated")
    stream: float = Field(0.0, ge=0.0, le=2.0, description="speed of the water along x, in U")
    vortex: float = Field(
        0.0, ge=-10.0, le=10.0, description="circulation of a vortex in the middle, in U L"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in L."""
        return BOX


class EllipticalSwimmer(FlowTask[SwimmerOptions]):
    """The task of `EllipticalSwimmerEnv`; its only body is the swimmer."""

    options_class = SwimmerOptions
    folder = Path(__file__).parent
    agent_bodies = (0,)
    failure_reward = -10.0
    alive_box = (MARGIN, BOX[0] - MARGIN, MARGIN, BOX[1] - MARGIN)
    units = units_of("L")

    def __init__(self, options: SwimmerOptions, batch: int) -> None:
        super().__init__(options, batch)
        self.memory |= {"target": np.zeros((batch, 2)), "distance": np.zeros(batch)}

    def flow(self) -> Flow:
        """Return the body in the middle of the box."""
        streaming = Sides(left="inflow", right="outflow", bottom="slip", top="slip")
        return Flow(
            bodies=[ellipse((BOX[0] / 2.0, BOX[1] / 2.0))],
            sides=streaming if self.options.stream > 0.0 else Sides.all("slip"),
            stream=(self.options.stream, 0.0),
        )

    def actuators(self) -> Sequence[Actuator]:
        """Return force and torque on the body."""
        return [push(0, self.options)]

    def sensors(self) -> Sequence[Sensor]:
        """Return the relative position of the target, the body's motion, and the flow past its surface."""
        return [Computed(self._way, [BOX[0]] * 2), *own_state(0, self.options)]

    def _way(self) -> FloatArray:
        """Return the position of the target relative to the body."""
        return np.asarray(self.memory["target"] - self.simulation.body_state.position[:, 0])

    def draw(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, float]:
        """Sample the positions of body and target, and the angle."""
        body, target = _draw_point(generator), _draw_point(generator)
        while np.hypot(*(target - body)) < CLOSEST_TARGET:
            target = _draw_point(generator)
        return body, target, -generator.uniform(-np.pi, np.pi)

    def place(self, index: int, drawn: tuple[FloatArray, FloatArray, float]) -> None:
        """Place the body at rest, and its target."""
        body, target, angle = drawn
        state = self.simulation.body_state
        state.position[index, 0], state.angle[index, 0] = body, angle
        self.memory["target"][index] = target
        self.memory["distance"][index] = np.hypot(*(target - body))

    def prepare(self, which: BoolArray) -> None:
        """Add a Lamb-Oseen vortex in the middle of the box if the option `vortex` is not zero."""
        if self.options.vortex == 0.0:
            return
        grid = self.simulation.grid
        swirls = []
        for x, y in (grid.u_faces(), grid.v_faces()):
            x, y = x - BOX[0] / 2.0, y - BOX[1] / 2.0
            r2 = np.maximum(x * x + y * y, 1e-12)
            around = self.options.vortex / (2.0 * np.pi * r2) * -np.expm1(-r2 / VORTEX_CORE**2)
            swirls.append((around * -y, around * x))
        self.simulation.add_velocity(np.flatnonzero(which).tolist(), swirls[0][0], swirls[1][1])

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return progress minus effort, plus the bonus at the target."""
        dx, dy = self._way().T
        distance = np.sqrt(dx * dx + dy * dy)
        progress = self.memory["distance"] - distance
        self.memory["distance"] = distance
        cost = EFFORT_WEIGHT * effort(commands)
        return np.asarray(progress - cost + np.where(distance <= TARGET_RADIUS, TARGET_BONUS, 0.0))

    def scene(self, index: int) -> Scene:
        """Return the flow, the body and its target."""
        x, y = self.memory["target"][index]
        return replace(super().scene(index), target=(float(x), float(y), TARGET_RADIUS))


def _draw_point(generator: np.random.Generator) -> FloatArray:
    return np.array([generator.uniform(low, high) for low, high in INNER])


class EllipticalSwimmerEnv(FlowEnv):
    """flowsim/EllipticalSwimmer-v0: an ellipse swims to a random target and stays there with little effort.

    Lengths are in the body's major axis L, velocities in a reference speed U, times in L/U; rho is the density of
    fluid and ellipse. x runs to the right and y upwards; Re = U L/nu = 400; still water in a box of 4 L x 4 L.

    Observation, float32 of shape (14,), in the axes of the box; each number lies between plus and minus its bound:

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0, 1 | centre of the target, x and y, relative to that of the ellipse | L | 4 |
    | 2 | angle of the major axis | rad | pi |
    | 3, 4 | velocity of its centre, x and y | U | 50 |
    | 5 | angular velocity | U/L | 200 |
    | 6 to 13 | flow velocity past the surface at the front, top, rear and bottom ends of the axes, x and y | U | 50 |

    Action, float32 of shape (3,), each from -1 to 1 (clipped), constant for 1 L/U:

    | index | what | at 1 |
    | --- | --- | --- |
    | 0, 1 | force on the ellipse along x and y | 0.5 rho U^2 L |
    | 2 | torque on the ellipse, anticlockwise | 0.05 rho U^2 L^2 |

    Reward of an action: the progress towards the target in L, minus 0.05 (a0^2 + a1^2 + a2^2), plus 0.1 while the
    centre is within 0.1 L of the target; -10 for the one in which the agent comes too close to a side.

    An episode starts with the ellipse at rest, with ellipse and target at random positions in the inner 2 L x 2 L, at
    least 0.5 L apart. It is terminated when the centre comes closer than 0.5 L to a side of the box (or when the
    simulation diverges, see `info["diverged"]`), and truncated after 100 actions.

    These numbers apply to the default preset, `quick` (16 cells per L). Other presets: `default` (32 cells per L).
    Options are the fields of `SwimmerOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = EllipticalSwimmer


class EllipticalSwimmerVectorEnv(FlowVectorEnv):
    """flowsim/EllipticalSwimmer-v0, a batch of agents in one simulation.

    Observations (num_envs, 14), actions (num_envs, 3), rewards and options are those of `EllipticalSwimmerEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = EllipticalSwimmer
