"""A task of your own on `FlowTask`: an ellipse crosses the wake of a cylinder, from one bank to the other.

Units: the cylinder's diameter D, the speed U of the stream, times in D/U. The body, its force and torque, its sensors
and its 14 observations are those of the shipped tasks; what is new here is the flow, the start, the reward and the end.

    flowsim train env=crossing:Crossing-v0 run.name=crossing run.steps=40000
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
from pydantic import Field

from cases.ellipse_agent import ASPECT_RATIO, FloatArray, sensors, vertices
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import BoolArray, FlowTask, Generators
from cases.options import FlowOptions
from flowsim import Disk, Ellipse, Sides, Simulation
from flowsim.render.fields import Outline, Scene, outline

BOX = (8.0, 5.0)
CYLINDER = (1.5, 2.5)
FAR_BANK = 3.75
"""The height y at which the other bank is reached."""
EFFORT_WEIGHT = 0.05
BONUS = 1.0


class CrossingOptions(FlowOptions):
    """Options of the task; `flowsim train ... env_options.reynolds=200` changes one."""

    reynolds: float = Field(100.0, gt=0.0, description="U D / nu")
    cells_per_diameter: float = Field(16.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(40, ge=1, description="actions until an episode is truncated")

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX


class Crossing(FlowTask[CrossingOptions]):
    """The task; bodies are the cylinder (0) and the swimmer (1)."""

    options_class = CrossingOptions
    folder = Path(__file__).parent
    agent = 1
    failure_reward = -5.0
    position_limit = BOX[0]
    alive_box = (2.5, 6.5, 0.75, 4.25)

    def __init__(self, options: CrossingOptions, batch: int) -> None:
        super().__init__(options, batch)
        # what a reward compares with is saved with an environment
        self.memory = {"height": np.zeros(batch)}

    def build(self, batch: int) -> Simulation:
        """Return the flow: a cylinder in an unbounded stream, and the swimmer behind it."""
        options = self.options
        swimmer = Ellipse(
            major=1.0, aspect=ASPECT_RATIO, center=(4.0, 1.25), motion="free", density=1.0
        )
        return Simulation(
            options.grid(),
            Sides(),
            [Disk(center=CYLINDER), swimmer],
            viscosity=1.0 / options.reynolds,
            batch=batch,
            stream=self.stream(),
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
        return (1.0, 0.0)

    def start(self, which: BoolArray, generators: Generators) -> None:
        """Put swimmers at rest near the lower bank, in streams that have just begun."""
        self.reset(which)
        position, angle = self.simulation.body_state.position, self.simulation.body_state.angle
        for index, generator in generators.items():
            position[index, self.agent] = generator.uniform(3.5, 5.0), generator.uniform(1.0, 1.5)
            angle[index, self.agent] = generator.uniform(-np.pi / 8, np.pi / 8)
        self.simulation.settle(which)
        self.memory["height"][which] = position[which, self.agent, 1]

    def relative_position(self) -> FloatArray:
        """Return where the swimmer is, from the cylinder."""
        return np.asarray(self.simulation.body_state.position[:, self.agent] - CYLINDER)

    def reward(self, actions: FloatArray) -> FloatArray:
        """Return the way gained towards the other bank, less the effort, and a bonus while it is there."""
        height = self.simulation.body_state.position[:, self.agent, 1].copy()
        gained, self.memory["height"] = height - self.memory["height"], height
        a0, a1, a2 = actions.T
        effort = EFFORT_WEIGHT * (a0 * a0 + a1 * a1 + a2 * a2)
        return np.asarray(gained - effort + np.where(height >= FAR_BANK, BONUS, 0.0))

    def scene(self, index: int) -> Scene:
        """Return vorticity, bodies, sensors, force and the box in which the swimmer lives."""
        state = self.simulation.body_state
        position, angle = state.position[index], state.angle[index]
        return Scene(
            values=self.simulation.vorticity(index),
            size=BOX,
            outlines=[
                Outline(outline(body, position[k], float(angle[k])), agent=k == self.agent)
                for k, body in enumerate(self.simulation.bodies)
            ],
            sensors=vertices(
                position[self.agent][None], angle[self.agent][None], self.options.sensor_offset
            )[0],
            force=(
                position[self.agent].copy(),
                state.applied_force[index, self.agent] / self.options.force_scale,
            ),
            alive_box=self.alive_box,
        )


class CrossingEnv(FlowEnv):
    """One swimmer."""

    task_class = Crossing


class CrossingVectorEnv(FlowVectorEnv):
    """A batch of swimmers in one simulation."""

    task_class = Crossing


gym.register(id="Crossing-v0", entry_point=CrossingEnv, vector_entry_point=CrossingVectorEnv)
