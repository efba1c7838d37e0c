"""flowsim/RayleighBenard-v0: heaters in the lower plate calm the convection between two plates.

Units: the height H of the box, the difference DT of the plates' temperatures, the free-fall velocity sqrt(beta g DT H),
so that the viscosity is sqrt(Pr/Ra) and the diffusivity 1/sqrt(Pr Ra).

Where the numbers come from
---------------------------
1.  Vignon et al. (2023, Phys. Fluids 35 065146) and their code (KTH-FlowAI): a box of 2 pi x 2, Pr 0.7, Ra 1e4 with
    half the height as the length of their scales. Of the whole height it is Ra 8e4, as FluidGym has it.
2.  Heaters: ten segments, amplitude 0.75, the mean taken off, scaled back where that asks for more than the amplitude,
    cubic smoothing over 0.03 of half the height on either side of an edge.
3.  An action of 1.5 of their units of time, 1.06 of ours; 200 actions.
4.  Sensors: velocity and temperature at 8 x 32 points, of which a heater that decides alone sees those of all, its own
    in the middle.
5.  Reward of a heater: Nu_ref - (0.9985 Nu + 0.0015 Nu_local). For one agent of all heaters, Nu_ref - Nu.

Ours
----
1.  Nu is that of the volume, from the fluxes of the solver. Theirs is estimated from 8 x 32 points close to the plates,
    and is 2.67 without control where the heat through the plates is 4.95 times that of conduction
    (`flowsim validate --case rayleigh-benard`).
2.  8 x 30 points, three columns for each heater, so that a shift by one heater is a shift of the sensors.
3.  The box is 3.125 long, not pi, so that ten segments are whole cells.
4.  An episode starts from a stored state of the developed flow, two pairs of cells that sway, shifted along the plates
    by a number of cells drawn from its seed; those of training, validation and test differ.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from cases.actuators import Actuator, Heaters
from cases.bank import Development
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_parallel import FlowParallelEnv
from cases.flow_task import Flow, FlowTask
from cases.loads import FloatArray
from cases.options import SolverOptions
from cases.sensors import VELOCITY_LIMIT, Computed, Sensor
from flowsim import Grid, Sides, Simulation, Temperature
from flowsim.grid import GHOSTS
from flowsim.measure.heat import nusselt_profile
from flowsim.render.fields import Scene
from flowsim.render.quantities import TEMPERATURE
from flowsim.render.units import units_of

SEGMENTS = 10
ROWS, COLUMNS = 8, 3
"""Rows of sensors, and columns of them above each heater."""
LENGTH = math.pi
"""Of the box that is meant; whole cells make it a little shorter."""
SMOOTHING = 0.015
DEVELOPMENT = Development(time=60.0, snapshots=30, spacing=1.7, split=True)
"""Until there are two pairs of cells; each third of the states covers 17 units of time of their swaying."""
TEMPERATURE_LIMIT = 50.0
FACES = ("u", "v", "rate_u", "rate_v", "temperature", "rate_temperature")


class RayleighBenardOptions(SolverOptions):
    """Options of flowsim/RayleighBenard-v0; their defaults are those of the preset `quick`."""

    rayleigh: float = Field(8e4, gt=0.0, description="beta g DT H^3 / (nu kappa)")
    prandtl: float = Field(0.7, gt=0.0, description="nu / kappa")
    cells_per_height: int = Field(32, ge=8, description="resolution H/h, even")
    episode_actions: int = Field(200, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(1.06, gt=0.0, le=100.0, description="time one action is held")
    cfl: float | None = Field(0.5, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler")
    amplitude: float = Field(
        0.75, gt=0.0, le=1.0, description="of the heaters' temperature about their mean, in DT"
    )
    nusselt_reference: float = Field(
        5.03, description="Nu without control, from which the reward counts"
    )
    local_weight: float = Field(
        0.0015,
        ge=0.0,
        le=1.0,
        description="share of the fluid above a heater in its own reward, where each is an agent",
    )

    def grid(self) -> Grid:
        """Return a grid that cuts the box into whole cells, and each segment, too."""
        cells = self.cells_per_height
        return Grid(SEGMENTS * round(LENGTH * cells / SEGMENTS), cells, 1.0 / cells)

    @property
    def viscosity(self) -> float:
        """sqrt(Pr/Ra)."""
        return math.sqrt(self.prandtl / self.rayleigh)

    @property
    def diffusivity(self) -> float:
        """1/sqrt(Pr Ra)."""
        return 1.0 / math.sqrt(self.prandtl * self.rayleigh)

    @model_validator(mode="after")
    def _cells_are_even(self) -> Self:
        if self.cells_per_height % 2:
            raise ValueError(f"'cells_per_height' is {self.cells_per_height}, but must be even")
        return self


class RayleighBenard(FlowTask[RayleighBenardOptions]):
    """The task, in which one agent decides for all heaters."""

    options_class = RayleighBenardOptions
    folder = Path(__file__).parent
    units = units_of("H")

    def flow(self) -> Flow:
        """Return plates at 1 and 0, with fluid that conducts between them."""
        heat = Temperature(
            self.options.diffusivity,
            sides={"bottom": 1.0, "top": 0.0},
            buoyancy=(0.0, 1.0),
            reference=0.5,
            initial=lambda x, y: 1.0 - y,
        )
        plates = Sides("periodic", "periodic", "no_slip", "no_slip")
        return Flow(sides=plates, stream=(0.0, 0.0), temperature=heat)

    @property
    def development(self) -> Development:
        """Episodes start from stored states of developed convection."""
        return DEVELOPMENT

    def disturb(self, simulation: Simulation) -> None:
        """Begin with two pairs of cells of different widths, which sway."""
        x, y = simulation.grid.centres()
        along = 2.0 * np.pi * x / simulation.grid.size[0]
        waves = 0.1 * np.cos(2.0 * along) + 0.1 * np.cos(3.0 * along + 0.5)
        simulation.set_temperature(0, 1.0 - y + waves * np.sin(np.pi * y))

    def draw(self, generator: np.random.Generator) -> int:
        """Return by how many cells the flow is shifted; the generator itself is left for the state that is drawn."""
        own = copy.deepcopy(generator)
        own.random(8)
        return int(own.integers(self.simulation.grid.nx))

    def place(self, index: int, drawn: int) -> None:
        """Shift the flow along the plates."""
        state, nx = self.simulation.get_state(index), self.simulation.grid.nx
        inside = slice(GHOSTS, GHOSTS + nx)
        for name in FACES:
            state[name][inside] = np.roll(state[name][inside], drawn, axis=0)
        state["pressure"] = np.roll(state["pressure"], drawn, axis=0)
        self.simulation.set_state(index, state)

    def actuators(self) -> Sequence[Actuator]:
        """Return the heaters."""
        names = tuple(f"h{n}" for n in range(SEGMENTS))
        return [Heaters(names, 1.0, self.options.amplitude, SMOOTHING)]

    def sensors(self) -> Sequence[Sensor]:
        """Return velocity and temperature at all points."""
        size = ROWS * COLUMNS * SEGMENTS
        limits = [VELOCITY_LIMIT] * (2 * size) + [TEMPERATURE_LIMIT] * size
        return [Computed(self._seen, limits)]

    def _grid_of_sensors(self) -> FloatArray:
        """Return u, v and T - 1/2 at the points, (B, 3, columns, rows), columns from the left, rows from below."""
        simulation, columns = self.simulation, COLUMNS * SEGMENTS
        length = simulation.grid.size[0]
        x, y = np.meshgrid(
            (np.arange(columns) + 0.5) * length / columns,
            (np.arange(ROWS) + 0.5) / ROWS,
            indexing="ij",
        )
        points = np.stack([x.ravel(), y.ravel()], axis=-1)
        velocity = simulation.sample_velocity(points)
        heat = simulation.sample_temperature(points)[..., None] - 0.5
        seen = np.concatenate([velocity, heat], axis=-1)
        return np.moveaxis(seen.reshape(self.batch, columns, ROWS, 3), 3, 1)

    def _seen(self) -> FloatArray:
        return self._grid_of_sensors().reshape(self.batch, -1)

    def nusselt_numbers(self) -> FloatArray:
        """Return the Nusselt number of the fluid above each heater, (B, 10); their mean is that of the volume."""
        profile = nusselt_profile(self.simulation, "bottom")
        return np.asarray(profile.reshape(self.batch, SEGMENTS, -1).mean(axis=2))

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return how much less heat passes than without control."""
        return np.asarray(self.options.nusselt_reference - self.nusselt_numbers().mean(axis=1))

    def measures(self) -> Mapping[str, FloatArray]:
        """Return the Nusselt number at the end of the action."""
        return {"Nu": np.asarray(self.nusselt_numbers().mean(axis=1))}

    def focus(self, index: int) -> FloatArray:
        """Return the middle of the box."""
        return np.array(self.simulation.grid.size) / 2

    def scene(self, index: int) -> Scene:
        """Return a picture of the temperature."""
        values = self.simulation.temperature_at_centres(index)
        return replace(super().scene(index), values=values, quantity=TEMPERATURE)


class Segments(RayleighBenard):
    """The task, in which each heater is an agent."""

    agent_name = "heater"

    @property
    def agents(self) -> int:
        """One for each heater."""
        return SEGMENTS

    def actuators(self) -> Sequence[Actuator]:
        """Return the heater of an agent."""
        return [Heaters(("heater",), 1.0, self.options.amplitude, SMOOTHING)]

    def _seen(self) -> FloatArray:
        """Return what each sees, (B, N, n): all points, its own columns in the middle."""
        grid = self._grid_of_sensors()
        middle = COLUMNS * (SEGMENTS // 2)
        views = [np.roll(grid, middle - COLUMNS * n, axis=2) for n in range(SEGMENTS)]
        return np.stack([view.reshape(self.batch, -1) for view in views], axis=1)

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return how much less heat passes, with a share of the fluid above the agent's own heater."""
        own, weight = self.nusselt_numbers(), self.options.local_weight
        all_of_them = own.mean(axis=1, keepdims=True)
        return np.asarray(
            self.options.nusselt_reference - (1.0 - weight) * all_of_them - weight * own
        )

    def info(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the Nusselt number of the fluid above each heater."""
        return {"nusselt": self.nusselt_numbers()}


class RayleighBenardEnv(FlowEnv):
    """flowsim/RayleighBenard-v0: heaters in the lower plate calm the convection between two plates.

    Lengths are in the height H, temperatures in the difference DT of the plates, velocities in the free-fall velocity
    sqrt(beta g DT H), times in H over that; x runs along the plates and y upwards. Ra = 8e4, Pr = 0.7, and the box of
    3.125 x 1 is periodic in x.

    Observation, float32 of shape (720,), at 8 x 30 points: the horizontal velocity, then the vertical one, then the
    temperature less 0.5, each column by column from the left, from below to above.

    Action, float32 of shape (10,), each from -1 to 1 (clipped): the temperatures of ten segments of the lower plate,
    0.75 about their mean of 1. The mean of the ten is taken off, and all are scaled back where one is further off.

    Reward of an action: `nusselt_reference` - Nu at its end, Nu being the heat that passes over that of conduction.

    An episode starts from a stored state of developed convection, shifted along the plates; those of training,
    validation and test differ. It is truncated after 200 actions of 1.06.

    These are the numbers of the preset `quick`, which `gymnasium.make` takes unless another one is named (`preset=`
    `default`: a finer grid). Options: the fields of `RayleighBenardOptions`. Contents of `info`: `FlowEnv`.
    """

    task_class = RayleighBenard


class RayleighBenardVectorEnv(FlowVectorEnv):
    """flowsim/RayleighBenard-v0, a batch of flows in one simulation.

    Observations (num_envs, 720), actions (num_envs, 10), rewards and options are those of `RayleighBenardEnv`; how
    episodes start again: `FlowVectorEnv`.
    """

    task_class = RayleighBenard


class HeatersVectorEnv(FlowVectorEnv):
    """The batch of flows behind `HeatersParallelEnv`: what the ten agents see, and do, stands one after the other."""

    task_class = Segments


class HeatersParallelEnv(FlowParallelEnv):
    """Each heater is an agent, with PettingZoo's parallel interface; agents are named heater_0 to heater_9.

    Observation of a heater, float32 of shape (720,): that of `RayleighBenardEnv`, with its own three columns of points
    in the middle, so that all heaters can share a policy. Action, float32 of shape (1,): its temperature, as there.

    Reward of an action: `nusselt_reference` - (0.9985 Nu + 0.0015 Nu of the fluid above the heater).

    Parameters and rendering: `FlowParallelEnv`; options: the fields of `RayleighBenardOptions`. The information of a
    heater adds `nusselt`, that of the fluid above it.
    """

    metadata: ClassVar[dict[str, Any]] = FlowParallelEnv.metadata | {"name": "rayleigh_benard_v0"}
    task_class = Segments
    vector_class = HeatersVectorEnv


parallel_env = HeatersParallelEnv
"""What ``env: parallel:cases.rayleigh_benard.env`` of a run makes."""
