"""flowsim/SwimmerSchool-v0: a school of swimmers that must not collide, after Weber et al. (2022), section 5.

N swimmers that undulate with a travelling wave of curvature swim through still water in a periodic box. Each observes
its own state, the school, its neighbours and the flow at its head, and commands its turn and its beat period twice per
period. The paper gives few details of this task; docs/studies/school.md documents our choices.

Units: a swimmer's length L, the period T of its beat, the density of water; Re = L^2/(nu T).

`SwimmerSchool` has the parallel interface of PettingZoo, which need not be installed; agents are named swimmer_0,
swimmer_1, and so on. `SwimmerSchoolEnv` is the same task as a Gymnasium environment with one agent that commands all
swimmers, and `SwimmerSchoolVectorEnv` is a batch of schools in one simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from cases.actuators import Actuator, Gait
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_parallel import FlowParallelEnv
from cases.flow_task import Flow, FlowTask
from cases.loads import BoolArray, FloatArray
from cases.options import TaskOptions
from cases.sensors import Computed, Sensor
from flowsim import Contact, Grid, Sides
from flowsim.bodies.swimmers import carangiform, slender
from flowsim.kernels.midline import PHASE, TWIST, WORK
from flowsim.render.units import units_of

STRONGEST_TURN = 0.5
"""Turn at a command of 1, relative to the amplitude of the wave's curvature."""
PERIOD_RANGE = 0.25
"""Change of the period at a command of 1, in T."""
JITTER = (0.05, 0.05, 0.05)
"""Half width of the uniform noise of initial positions (along and across, in L) and angles."""
LATERAL_LINE = 4, 0.05
"""Index of the point of the midline where the flow is sensed on both sides, and the distance from the skin, in L."""
BLASIUS = 1.328
"""Drag coefficient of one side of a flat plate times the square root of its Reynolds number."""
LIMIT = 1e3
"""Bound of every observation."""


class SchoolOptions(TaskOptions):
    """Options of flowsim/SwimmerSchool-v0; lengths are in L, times in T."""

    swimmers: int = Field(4, ge=2, le=100, description="number of swimmers N")
    columns: int = Field(2, ge=1, description="columns of the school, one behind the other")
    reynolds: float = Field(1000.0, gt=0.0, description="L^2 / (nu T)")
    cells_per_length: float = Field(24.0, ge=8.0, description="resolution L/h")
    box: tuple[float, float] = Field(
        (5.0, 3.0), description="width and height of the box, whose sides are joined"
    )
    spacing: tuple[float, float] = Field(
        (1.2, 0.5), description="distance between columns, and between their swimmers"
    )
    thickness: float = Field(0.06, gt=0.0, le=0.2, description="radius of the head")
    episode_actions: int = Field(40, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(
        0.5, gt=0.0, le=100.0, description="time one action is held and is reached in"
    )
    collision_penalty: float = Field(
        1.0, ge=0.0, description="penalty of a swimmer that touches another one"
    )

    def grid(self) -> Grid:
        """Return the grid of the box."""
        nx, ny = (round(side * self.cells_per_length) for side in self.box)
        return Grid(nx, ny, 1.0 / self.cells_per_length)

    @model_validator(mode="after")
    def _school_fits(self) -> Self:
        places = formation(self)
        need = np.ptp(places, axis=0) + np.array([1.2, 0.3])
        if (need > self.box).any():
            raise ValueError(f"'box' is {self.box}, but the school needs {need[0]:g} x {need[1]:g}")
        if any(round(side * self.cells_per_length) % 2 for side in self.box):
            raise ValueError(
                f"'cells_per_length' is {self.cells_per_length:g}: the box needs an even number of cells"
            )
        return self


def formation(options: SchoolOptions) -> FloatArray:
    """Return the positions of the swimmers relative to the centre of the school, shape (N, 2).

    The swimmers are arranged in columns, of which every second one is shifted by half a spacing.
    """
    places = []
    for column, members in enumerate(np.array_split(np.arange(options.swimmers), options.columns)):
        row = np.arange(len(members)) + 0.5 * (column % 2)
        places += [(-column * options.spacing[0], y * options.spacing[1]) for y in row]
    found = np.array(places)
    return np.asarray(found - found.mean(axis=0))


class School(FlowTask[SchoolOptions]):
    """The task of the school, in which all bodies are agents; see `SwimmerSchool` for observations and actions."""

    options_class = SchoolOptions
    folder = Path(__file__).parent
    units = units_of("L", "T")
    agent_name = "swimmer"

    def __init__(self, options: SchoolOptions, batch: int) -> None:
        super().__init__(options, batch)
        each = (batch, options.swimmers)
        # time, position and work at the beginning of an action, and its results
        self.memory |= {
            "time": np.zeros(batch), "place": np.zeros(each), "work": np.zeros(each),
            "efficiency": np.zeros(each), "speed": np.zeros(each), "collided": np.zeros(each, bool),
        }  # fmt: skip

    @property
    def agent_bodies(self) -> Sequence[int]:
        """Indices of all swimmers."""
        return range(self.options.swimmers)

    @property
    def _places(self) -> FloatArray:
        return formation(self.options) + 0.5 * np.array(self.options.box)

    @property
    def ending_contact(self) -> Contact:
        """Contact with another swimmer, which ends the episode."""
        return Contact.BODY

    def flow(self) -> Flow:
        """Return the school in still water."""
        head = self.options.thickness
        swimmers = [
            carangiform(center=(x, y), half_width=lambda s: slender(s, head))
            for x, y in self._places
        ]
        return Flow(bodies=swimmers, sides=Sides.all("periodic"), stream=(0.0, 0.0))

    def actuators(self) -> Sequence[Actuator]:
        """Return the actuator of turn and period."""
        over = self.options.action_time
        return [Gait(self.agent_bodies, STRONGEST_TURN, PERIOD_RANGE, over)]

    def sensors(self) -> Sequence[Sensor]:
        """Return the sensors, in the order documented in `SwimmerSchool`."""
        parts = (
            (self._in_the_school, 3), (self._motion, 3), (self._neighbours, 4), (self._lateral_line, 4),
            (self._phase, 2),
        )  # fmt: skip
        return [Computed(part, [LIMIT] * size) for part, size in parts]

    def draw(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Sample the noise of positions and angles, shape (N, 3), and the phases, shape (N,)."""
        count = self.options.swimmers
        noise = generator.uniform(-1.0, 1.0, (count, 3)) * JITTER
        return noise, generator.uniform(0.0, 1.0, count)

    def place(self, index: int, drawn: tuple[FloatArray, FloatArray]) -> None:
        """Place straight swimmers near their positions in the school."""
        noise, phases = drawn
        state = self.simulation.body_state
        state.position[index] = self._places + noise[:, :2]
        state.angle[index] = noise[:, 2]
        self.simulation.gait[index, :, PHASE] = phases

    def begin(self, which: BoolArray) -> None:
        """Store time, position and work at the beginning of an action."""
        simulation, memory = self.simulation, self.memory
        for name in ("efficiency", "speed", "collided"):
            memory[name][which] = 0.0
        memory["time"][which] = simulation.time[which]
        memory["place"][which] = simulation.body_state.position[which, :, 0]
        memory["work"][which] = simulation.form[which, :, WORK]

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the efficiency of each swimmer, minus the penalty if it touches another one."""
        simulation, memory = self.simulation, self.memory
        state = simulation.body_state
        passed = np.maximum(simulation.time - memory["time"], 1e-9)[:, None]
        speed = np.maximum((state.position[..., 0] - memory["place"]) / passed, 0.0)
        spent = np.maximum((simulation.form[..., WORK] - memory["work"]) / passed, 0.0)
        useful = BLASIUS * np.sqrt(speed / self.options.reynolds) * speed**2
        efficiency = np.nan_to_num(useful / np.maximum(useful + spent, 1e-12))
        touching = (state.contact & Contact.BODY) > 0
        self.begin(np.ones(self.batch, bool))
        memory["efficiency"][:], memory["speed"][:], memory["collided"][:] = (
            efficiency,
            speed,
            touching,
        )
        return np.asarray(efficiency - self.options.collision_penalty * touching)

    @property
    def divergence_reward(self) -> float:
        """Reward of every swimmer when the simulation diverges: that of a collision."""
        return -self.options.collision_penalty

    def info(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return efficiency, speed and contact of each swimmer."""
        return {name: self.memory[name] for name in ("efficiency", "speed", "collided")}

    # --- observations ----------------------------------------------------------------------------------------------

    def _own_axes(self, *vectors: FloatArray) -> FloatArray:
        """Return vectors, shape (B, N, 2), in the axes of each swimmer (ahead, to its left), concatenated."""
        angle = self.simulation.body_state.angle.copy()
        ahead = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        left = np.stack([-ahead[..., 1], ahead[..., 0]], axis=-1)
        return np.stack(
            [(vector * axis).sum(axis=-1) for vector in vectors for axis in (ahead, left)], axis=-1
        )

    def _in_the_school(self) -> FloatArray:
        """Return position (2) and angle relative to the centre of the school and its direction."""
        state = self.simulation.body_state
        place = state.position - state.position.mean(axis=1, keepdims=True)
        heading = np.mod(state.angle + self.simulation.gait[..., TWIST] + np.pi, 2 * np.pi) - np.pi
        return np.concatenate([place, heading[..., None]], axis=-1)

    def _motion(self) -> FloatArray:
        """Return velocity (2) and angular velocity."""
        state = self.simulation.body_state
        return np.concatenate(
            [self._own_axes(state.velocity), state.angular_velocity[..., None]], axis=-1
        )

    def _neighbours(self) -> FloatArray:
        """Return the relative positions of the two nearest swimmers (4); zeros if there is only one other."""
        place, box = self.simulation.body_state.position, np.array(self.options.box)
        away = place[:, None, :] - place[:, :, None]
        away -= box * np.round(away / box)
        distance = np.hypot(away[..., 0], away[..., 1])
        distance = distance + np.where(np.eye(place.shape[1]), np.inf, 0.0)
        order = np.argsort(distance, axis=2)[..., : min(2, place.shape[1] - 1)]
        nearest = np.take_along_axis(away, order[..., None], axis=2)
        seen = self._own_axes(*np.moveaxis(nearest, 2, 0))
        return np.pad(seen, [(0, 0), (0, 0), (0, 4 - seen.shape[-1])])

    def _lateral_line(self) -> FloatArray:
        """Return the velocity of the water past the head on the left and on the right (4)."""
        simulation, (point, outside) = self.simulation, LATERAL_LINE
        count = self.options.swimmers
        lines = np.array([
            [simulation.midline(b, k)[point] for k in range(count)] for b in range(self.batch)
        ])  # fmt: skip
        normal = np.stack([-lines[..., 3], lines[..., 2]], axis=-1)
        normal *= outside + self.options.thickness
        sides = np.concatenate([lines[..., :2] + normal, lines[..., :2] - normal], axis=1)
        # swimmers of a flow that diverged are nowhere; the others of the batch still have to observe
        places = np.nan_to_num(np.mod(sides, np.array(self.options.box)))
        flow = simulation.sample_velocity(places)
        velocity = simulation.body_state.velocity
        return self._own_axes(flow[:, :count] - velocity, flow[:, count:] - velocity)

    def _phase(self) -> FloatArray:
        """Return cosine and sine of the phase."""
        phase = 2 * np.pi * self.simulation.gait[..., PHASE]
        return np.stack([np.cos(phase), np.sin(phase)], axis=-1)


class SwimmerSchoolVectorEnv(FlowVectorEnv):
    """flowsim/SwimmerSchool-v0, a batch of schools in one simulation, each with one agent as in `SwimmerSchoolEnv`.

    See `FlowVectorEnv` for autoreset.
    """

    task_class = School


class SwimmerSchool(FlowParallelEnv):
    """The school of N swimmers, with PettingZoo's parallel interface.

    Observation of a swimmer, float32 of shape (16,), with vectors in its own axes (ahead, to its left) unless stated
    otherwise:

    | index | what | unit |
    | --- | --- | --- |
    | 0, 1 | its position relative to the centre of the school, along and across the school's direction | L |
    | 2 | its angle relative to the school's direction | rad |
    | 3, 4 | its velocity | L/T |
    | 5 | its angular velocity | 1/T |
    | 6 to 9 | relative positions of the two nearest swimmers | L |
    | 10 to 13 | velocity of the water past its head on the left and on the right | L/T |
    | 14, 15 | cosine and sine of its phase | |

    Action, float32 of shape (2,), each from -1 to 1 (clipped), reached smoothly over the next half period T/2: turn to
    the left, and period (1 + 0.25 a1) T.

    Reward of an action: the efficiency P_u/(P_u + P_d), minus the penalty if the swimmer touches another one. P_u is
    the power that tows a flat plate at the swimmer's speed along the school's direction, and P_d is the power of its
    deformation. The first contact ends the episode for all.

    See `FlowParallelEnv` for parameters and rendering; options are the fields of `SchoolOptions`. The `info` of a
    swimmer also contains `efficiency`, `speed` and `collided`.
    """

    metadata: ClassVar[dict[str, Any]] = FlowParallelEnv.metadata | {"name": "swimmer_school_v0"}
    task_class = School
    vector_class = SwimmerSchoolVectorEnv


parallel_env = SwimmerSchool
"""Environment made by the setting ``env: parallel:cases.swimmer_school.env`` of a run."""


class SwimmerSchoolEnv(FlowEnv):
    """flowsim/SwimmerSchool-v0 with one agent for the whole school.

    Observation (N * 16,) and action (N * 2,) are those of `SwimmerSchool`, concatenated over the swimmers; the reward
    is the mean, and `info["rewards"]` contains that of each. See `FlowEnv` for parameters; options are the fields of
    `SchoolOptions`.
    """

    task_class = School
