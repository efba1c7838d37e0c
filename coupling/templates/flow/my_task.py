"""my_task:MyTask-v0: an ellipse in a stream turns across it and stays where it is, with little effort.

A start for a task of your own on flowsim's solver: change bodies, starts and reward. Lengths are in D, the major axis
of the ellipse, velocities in U, the speed of the stream, times in D/U. The agent pushes with a force and a torque, and
sees its place, its motion and the flow at four points of its skin (`FlowTask.observe`).
"""

from pathlib import Path

import gymnasium
import numpy as np
from pydantic import Field

from cases.ellipse_agent import FloatArray, sensors, vertices
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import BoolArray, FlowTask, Generators
from cases.options import FlowOptions
from flowsim import Ellipse, Sides, Simulation
from flowsim.render.fields import Outline, Scene, outline

BOX = (6.0, 3.0)
GOAL = (2.0, 1.5)
STREAM = (1.0, 0.0)


class MyTaskOptions(FlowOptions):
    """What can be changed as `env_options.KEY=VALUE`, beside what every flow task has."""

    reynolds: float = Field(200.0, gt=0.0, description="U D / nu")
    cells_per_diameter: float = Field(16.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(50, ge=1, description="actions until an episode is truncated")
    effort: float = Field(0.1, ge=0.0, description="weight of |a|^2 in the reward")

    def box(self) -> tuple[float, float]:
        """Return width and height of the box."""
        return BOX


class MyTask(FlowTask[MyTaskOptions]):
    """The task; its only body is the ellipse."""

    options_class = MyTaskOptions
    folder = Path(__file__).parent
    agent = 0
    failure_reward = -50.0
    position_limit = BOX[0]
    alive_box = (0.8, 5.0, 0.7, 2.3)

    def build(self, batch: int) -> Simulation:
        """Return the simulation with all bodies."""
        options = self.options
        return Simulation(
            options.grid(),
            Sides(left="inflow", right="outflow", bottom="slip", top="slip"),
            [Ellipse(major=1.0, aspect=0.2, center=GOAL, motion="free", density=1.0)],
            viscosity=1.0 / options.reynolds,
            batch=batch,
            stream=STREAM,
            sensors=sensors(self.agent, options.sensor_offset),
            integrator=options.integrator,
            cfl=options.cfl,
            penalty=options.penalty,
            dtype=options.dtype,
            backend=options.backend,
            threads=options.threads,
        )

    def stream(self) -> tuple[float, float]:
        """Return the velocity of the undisturbed water."""
        return STREAM

    def start(self, which: BoolArray, generators: Generators) -> None:
        """Put ellipses at rest near their goals, along the stream; all chance comes from each one's generator."""
        self.reset(which)
        state = self.simulation.body_state
        for index, generator in generators.items():
            state.position[index, self.agent] = np.add(GOAL, generator.uniform(-0.3, 0.3, 2))
            state.angle[index, self.agent] = generator.uniform(-0.2, 0.2)
        self.simulation.settle(which)

    def relative_position(self) -> FloatArray:
        """Return the first two observations."""
        return np.asarray(np.subtract(GOAL, self.simulation.body_state.position[:, self.agent]))

    def reward(self, actions: FloatArray) -> FloatArray:
        """Return what an action was worth: near the goal, across the stream, with little effort."""
        across = np.sin(self.simulation.body_state.angle[:, self.agent]) ** 2
        distance2 = (self.relative_position() ** 2).sum(axis=1)
        return np.asarray(across - distance2 - self.options.effort * (actions**2).sum(axis=1))

    def scene(self, index: int) -> Scene:
        """Return what a picture shows."""
        state, body = self.simulation.body_state, self.simulation.bodies[self.agent]
        position, angle = state.position[index, self.agent].copy(), state.angle[index, self.agent]
        return Scene(
            values=self.simulation.vorticity(index),
            size=BOX,
            outlines=[Outline(outline(body, position, float(angle)), agent=True)],
            sensors=vertices(position[None], np.array([angle]), self.options.sensor_offset)[0],
            force=(position, state.applied_force[index, self.agent] / self.options.force_scale),
            alive_box=self.alive_box,
            target=(*GOAL, 0.1),
        )


class MyTaskEnv(FlowEnv):
    """One agent."""

    task_class = MyTask


class MyTaskVectorEnv(FlowVectorEnv):
    """A batch of agents in one simulation."""

    task_class = MyTask


gymnasium.register("MyTask-v0", entry_point=MyTaskEnv, vector_entry_point=MyTaskVectorEnv)
