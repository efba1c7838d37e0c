"""my_task:MyTask-v0: a cylinder in a stream rotates back and forth to save power. Units: diameter D, velocity U."""

from pathlib import Path

import gymnasium
import numpy as np
from pydantic import Field

from cases.actuators import Actuator, Spin
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow, FlowTask
from cases.initial_flows import Development
from cases.loads import FloatArray
from cases.options import FlowOptions
from cases.sensors import PastActions, Probes, Sensor
from flowsim import Disk

CENTER = (2.5, 3.0)


class MyTaskOptions(FlowOptions):
    """Options that can be changed by `env_options.KEY=VALUE`, in addition to those of every flow task."""

    reynolds: float = Field(100.0, gt=0.0, description="U D / nu")
    cells_per_diameter: float = Field(12.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(80, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.5, gt=0.0, le=100.0, description="time one action is held")
    lift_weight: float = Field(0.1, ge=0.0, description="weight of |C_L| in the reward")

    def box(self) -> tuple[float, float]:
        """Return width and height of the box."""
        return (9.0, 6.0)


class MyTask(FlowTask[MyTaskOptions]):
    """The task. Its only body is held in place and turned by one agent."""

    options_class = MyTaskOptions
    folder = Path(__file__).parent

    def flow(self) -> Flow:
        """Return a cylinder in an unbounded stream."""
        return Flow(bodies=[Disk(diameter=1.0, center=CENTER)])

    @property
    def development(self) -> Development:
        """Development of the shedding wake, simulated on first use; episodes start from one of its 24 states."""
        return Development(time=80.0)

    def actuators(self) -> list[Actuator]:
        """Return the rotation; at an action of 1 the wall moves at U, which is reached after half of the action."""
        return [Spin([0], rate=2.0, ramp=0.5 * self.options.action_time)]

    def sensors(self) -> list[Sensor]:
        """Return the velocity at twelve points of the wake, and the last action."""
        points = [(CENTER[0] + x, CENTER[1] + y) for x in (1, 2, 3, 4) for y in (-0.75, 0, 0.75)]
        return [Probes(points), PastActions()]

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the power saved, of towing and rotation together, minus the weighted lift."""
        loads = self.loads.averages()
        power, lift = 2.0 * loads["power"][:, 0], 2.0 * loads["lift"][:, 0]
        return np.asarray(1.4 - power - self.options.lift_weight * np.abs(lift))


class MyTaskEnv(FlowEnv):
    """The task in one flow, as a Gymnasium environment."""

    task_class = MyTask


class MyTaskVectorEnv(FlowVectorEnv):
    """The task in a batch of flows, as a Gymnasium vector environment."""

    task_class = MyTask


gymnasium.register("MyTask-v0", entry_point=MyTaskEnv, vector_entry_point=MyTaskVectorEnv)
