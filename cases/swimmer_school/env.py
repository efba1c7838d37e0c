"""flowsim/SwimmerSchool-v0: swimmers of one school that must not collide, after Weber et al. (2022), section 5.

N swimmers that bend in a travelling wave of curvature swim through still water in a box without sides. Each sees
itself, the school, its neighbours and the flow at its head, and commands twice in a period how it turns and how fast
it beats. The paper says little of this task; what was chosen stands in docs/studies/school.md.

Units: a swimmer's length L, the period T of its beat, the density of water; Re = L^2/(nu T).

`SwimmerSchool` follows the parallel interface of PettingZoo, which need not be installed: agents are named swimmer_0,
swimmer_1, and so on. `SwimmerSchoolEnv` is the same as one Gymnasium environment, whose agent commands all swimmers,
and `SwimmerSchoolVectorEnv` a batch of schools in one simulation.
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
"""Turn at a command of 1: this times the amplitude of the wave's curvature."""
PERIOD_RANGE = 0.25
"""Change of the period at a command of 1, in T."""
JITTER = (0.05, 0.05, 0.05)
"""Half width of the uniform noise of places along and across, in L, and of angles, at a start."""
LATERAL_LINE = 4, 0.05
"""Number of the point of the midline where the flow is felt on both sides, and how far outside, in L."""
BLASIUS = 1.328
"""Drag coefficient of one side of a flat plate, times the root of its Reynolds number."""
LIMIT = 1e3
"""Bound of every observation."""


class SchoolOptions(TaskOptions):
    """Options of flowsim/SwimmerSchool-v0; lengths in L, times in T."""

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
    """Return the places (N, 2) of the school's swimmers, its middle at the origin: columns, each shifted by a half."""
    places = []
    for column, members in enumerate(np.array_split(np.arange(options.swimmers), options.columns)):
        row = np.arange(len(members)) + 0.5 * (column % 2)
        places += [(-column * options.spacing[0], y * options.spacing[1]) for y in row]
    found = np.array(places)
    return np.asarray(found - found.mean(axis=0))


class School(FlowTask[SchoolOptions]):
    """The task; all bodies are agents. What they observe and do: `SwimmerSchool`."""

    options_class = SchoolOptions
    folder = Path(__file__).parent
    units = units_of("L", "T")
    agent_name = "swimmer"

    def __init__(self, options: SchoolOptions, batch: int) -> None:
        super().__init__(options, batch)
        each = (batch, options.swimmers)
        # where an action began, and what it came to
        self.memory |= {
            "time": np.zeros(batch), "place": np.zeros(each), "work": np.zeros(each),
            "efficiency": np.zeros(each), "speed": np.zeros(each), "collided": np.zeros(each, bool),
        }  # fmt: skip

    @property
    def agent_bodies(self) -> Sequence[int]:
        """All swimmers."""
        return range(self.options.swimmers)

    @property
    def _places(self) -> FloatArray:
        return formation(self.options) + 0.5 * np.array(self.options.box)

    @property
    def ending_contact(self) -> Contact:
        """Contact of two swimmers ends the episode."""
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
        """Return turn and period."""
        over = self.options.action_time
        return [Gait(self.agent_bodies, STRONGEST_TURN, PERIOD_RANGE, over)]

    def sensors(self) -> Sequence[Sensor]:
        """Return what each swimmer observes, in the order of `SwimmerSchool`."""
        parts = (
            (self._in_the_school, 3), (self._motion, 3), (self._neighbours, 4), (self._lateral_line, 4),
            (self._phase, 2),
        )  # fmt: skip
        return [Computed(part, [LIMIT] * size) for part, size in parts]

    def draw(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return the noise of places and angles (N, 3), and phases (N,)."""
        count = self.options.swimmers
        noise = generator.uniform(-1.0, 1.0, (count, 3)) * JITTER
        return noise, generator.uniform(0.0, 1.0, count)

    def place(self, index: int, drawn: tuple[FloatArray, FloatArray]) -> None:
        """Put straight swimmers near their places."""
        noise, phases = drawn
        state = self.simulation.body_state
        state.position[index] = self._places + noise[:, :2]
        state.angle[index] = noise[:, 2]
        self.simulation.gait[index, :, PHASE] = phases

    def begin(self, which: BoolArray) -> None:
        """Note where and when the first action begins."""
        simulation, memory = self.simulation, self.memory
        for name in ("efficiency", "speed", "collided"):
            memory[name][which] = 0.0
        memory["time"][which] = simulation.time[which]
        memory["place"][which] = simulation.body_state.position[which, :, 0]
        memory["work"][which] = simulation.form[which, :, WORK]

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the efficiency of each swimmer, less the penalty if it touches another one or the flow diverged."""
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
        lost = simulation.diverged[:, None]
        return np.asarray(efficiency - self.options.collision_penalty * (touching | lost))

    def info(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return efficiency, speed and contact of each swimmer."""
        return {name: self.memory[name] for name in ("efficiency", "speed", "collided")}

    # --- what a swimmer observes -----------------------------------------------------------------------------------

    def _own_axes(self, *vectors: FloatArray) -> FloatArray:
        """Return vectors (B, N, 2) in the axes of each swimmer, ahead and to its left, one after the other."""
        angle = self.simulation.body_state.angle.copy()
        ahead = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        left = np.stack([-ahead[..., 1], ahead[..., 0]], axis=-1)
        return np.stack(
            [(vector * axis).sum(axis=-1) for vector in vectors for axis in (ahead, left)], axis=-1
        )

    def _in_the_school(self) -> FloatArray:
        """Return place (2) and angle, seen from the middle of the school and its way."""
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
        """Return where the nearest two others are (4); zeros for one that is not there."""
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
        flow = simulation.sample_velocity(np.mod(sides, np.array(self.options.box)))
        velocity = simulation.body_state.velocity
        return self._own_axes(flow[:, :count] - velocity, flow[:, count:] - velocity)

    def _phase(self) -> FloatArray:
        """Return cosine and sine of the phase."""
        phase = 2 * np.pi * self.simulation.gait[..., PHASE]
        return np.stack([np.cos(phase), np.sin(phase)], axis=-1)


class SwimmerSchoolVectorEnv(FlowVectorEnv):
    """flowsim/SwimmerSchool-v0, a batch of schools in one simulation, each with one agent as `SwimmerSchoolEnv`.

    How episodes start again: `FlowVectorEnv`.
    """

    task_class = School


class SwimmerSchool(FlowParallelEnv):
    """The school of N swimmers, with PettingZoo's parallel interface.

    Observation of a swimmer, float32 of shape (16,), vectors in its own axes (ahead, to its left) unless said
    otherwise:

    | index | what | unit |
    | --- | --- | --- |
    | 0, 1 | its place, seen from the middle of the school, along and across the school's way | L |
    | 2 | its angle against the school's way | rad |
    | 3, 4 | its velocity | L/T |
    | 5 | its angular velocity | 1/T |
    | 6 to 9 | where the nearest two other swimmers are | L |
    | 10 to 13 | velocity of the water past its head on the left and on the right | L/T |
    | 14, 15 | cosine and sine of its phase | |

    Action, float32 of shape (2,), each from -1 to 1 (clipped), on a smooth way over the next half period T/2: turn to
    the left, and period (1 + 0.25 a1) T.

    Reward of an action: the efficiency P_u/(P_u + P_d), P_u being the power that tows a flat plate at the speed that
    the swimmer made along the school's way, and P_d the power of its deformation; less the penalty when it touches
    another swimmer. The first contact ends the episode for all.

    Parameters and rendering: `FlowParallelEnv`; options: the fields of `SchoolOptions`. The information of a swimmer
    adds `efficiency`, `speed` and `collided`.
    """

    metadata: ClassVar[dict[str, Any]] = FlowParallelEnv.metadata | {"name": "swimmer_school_v0"}
    task_class = School
    vector_class = SwimmerSchoolVectorEnv


parallel_env = SwimmerSchool
"""What ``env: parallel:cases.swimmer_school.env`` of a run makes."""


class SwimmerSchoolEnv(FlowEnv):
    """flowsim/SwimmerSchool-v0 with one agent for the whole school.

    Observation (N * 16,) and action (N * 2,) are those of `SwimmerSchool`, one swimmer after the other; the reward is
    the mean, and `info["rewards"]` has that of each. Parameters: `FlowEnv`; options: the fields of `SchoolOptions`.
    """

    task_class = School
