"""Your own task on `FlowTask`: an ellipse crosses the wake of a cylinder, from one bank to the other.

Units: the cylinder's diameter D, the speed U of the stream, times in D/U. The body, its force and torque, its sensors
and its 14 observations are those of the shipped tasks; the flow, the initial condition, the reward and the termination
are defined here.

    flowsim train env=crossing:Crossing-v0 run.name=crossing run.steps=40000
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import numpy as np
from pydantic import Field

from cases.actuators import Actuator
from cases.ellipse_agent import EllipseOptions, effort, ellipse, own_state, push
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow, FlowTask
from cases.loads import BoolArray, FloatArray
from cases.sensors import Computed, Sensor
from flowsim import Disk

BOX = (8.0, 5.0)
CYLINDER = (1.5, 2.5)
FAR_BANK = 3.75
"""Height y at which the other bank is reached."""
EFFORT_WEIGHT = 0.05
BONUS = 1.0


class CrossingOptions(EllipseOptions):
    """Options of the task; `flowsim train ... env_options.reynolds=200` changes one."""

    reynolds: float = Field(100.0, gt=0.0, description="U D / nu")
    cells_per_diameter: float = Field(16.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(40, ge=1, description="actions until an episode is truncated")

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX


class Crossing(FlowTask[CrossingOptions]):
    """The task, with the cylinder (body 0) and the swimmer (body 1)."""

    options_class = CrossingOptions
    folder = Path(__file__).parent
    agent_bodies = (1,)
    failure_reward = -5.0
    alive_box = (2.5, 6.5, 0.75, 4.25)

    def __init__(self, options: CrossingOptions, batch: int) -> None:
        super().__init__(options, batch)
        # the reward compares with the previous height; `memory` is saved with the environment
        self.memory["height"] = np.zeros(batch)

    def flow(self) -> Flow:
        """Return the flow: a cylinder in an unbounded stream, and the swimmer behind it."""
        return Flow(bodies=[Disk(center=CYLINDER), ellipse((4.0, 1.25))])

    def actuators(self) -> Sequence[Actuator]:
        """Return the actuator: force and torque on the swimmer."""
        return [push(1, self.options)]

    def sensors(self) -> Sequence[Sensor]:
        """Return the sensors: position and motion of the swimmer, and the flow along its surface."""
        return [Computed(self._position, [BOX[0]] * 2), *own_state(1, self.options)]

    def _position(self) -> FloatArray:
        """Return the position of the swimmer relative to the cylinder."""
        return np.asarray(self.simulation.body_state.position[:, 1] - CYLINDER)

    def draw(self, generator: np.random.Generator) -> list[float]:
        """Return a random position near the lower bank, and a random angle."""
        ranges = ((3.5, 5.0), (1.0, 1.5), (-np.pi / 8, np.pi / 8))
        return [generator.uniform(low, high) for low, high in ranges]

    def place(self, index: int, drawn: list[float]) -> None:
        """Place the swimmer there at rest, in a stream that has just started."""
        state = self.simulation.body_state
        state.position[index, 1], state.angle[index, 1] = drawn[:2], drawn[2]

    def begin(self, which: BoolArray) -> None:
        """Store the height at which the first action starts."""
        self.memory["height"][which] = self.simulation.body_state.position[which, 1, 1]

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the progress towards the other bank, minus the effort, plus a bonus while the swimmer is there."""
        height = self.simulation.body_state.position[:, 1, 1].copy()
        gained, self.memory["height"] = height - self.memory["height"], height
        bonus = np.where(height >= FAR_BANK, BONUS, 0.0)
        return np.asarray(gained - EFFORT_WEIGHT * effort(commands) + bonus)


class CrossingEnv(FlowEnv):
    """One swimmer."""

    task_class = Crossing


class CrossingVectorEnv(FlowVectorEnv):
    """A batch of swimmers in one simulation."""

    task_class = Crossing


gym.register(id="Crossing-v0", entry_point=CrossingEnv, vector_entry_point=CrossingVectorEnv)
