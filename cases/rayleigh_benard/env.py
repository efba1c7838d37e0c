"""flowsim/RayleighBenard-v0: heaters in the lower plate reduce the convection between two plates.

Units: the height H of the box, the difference DT of the plates' temperatures, the free-fall velocity sqrt(beta g DT H),
so that the viscosity is sqrt(Pr/Ra) and the diffusivity 1/sqrt(Pr Ra).

Sources of the parameters
-------------------------
1.  Vignon et al. (2023, Phys. Fluids 35 065146) and their code (KTH-FlowAI): a box of 2 pi x 2, Pr 0.7, Ra 1e4 based on
    half the height. Based on the whole height it is Ra 8e4, as in FluidGym.
2.  Heaters: ten segments, amplitude 0.75, with the mean subtracted, scaled down if the amplitude is then exceeded, and
    cubic smoothing over 0.03 of half the height on either side of an edge.
3.  An action of 1.5 of their units of time, 1.06 of ours; 200 actions.
4.  Sensors: velocity and temperature at 8 x 32 points. If each heater is an agent, it observes all points, shifted such
    that its own are in the middle.
5.  Reward of a heater: Nu_ref - (0.9985 Nu + 0.0015 Nu_local). For a single agent with all heaters, Nu_ref - Nu.

Our choices
-----------
1.  Nu is that of the volume, computed from the fluxes of the solver. The authors estimate it from 8 x 32 points close
    to the plates, and obtain 2.67 without control where the heat through the plates is 4.95 times that of conduction
    (`flowsim validate --case rayleigh-benard`).
2.  8 x 30 points, three columns for each heater, so that a shift by one heater is a shift of the sensors.
3.  The box is 3.125 long, not pi, so that ten segments are whole cells.
4.  An episode starts from a stored state of the developed flow, two pairs of oscillating convection cells, shifted
    along the plates by a random number of grid cells. Training, validation and test use different states.
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
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_parallel import FlowParallelEnv
from cases.flow_task import Flow, FlowTask
from cases.initial_flows import Development
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
"""Rows of sensors, and columns of sensors above each heater."""
LENGTH = math.pi
"""Nominal length of the box; rounding to whole cells makes it slightly shorter."""
SMOOTHING = 0.015
DEVELOPMENT = Development(time=60.0, snapshots=30, spacing=1.7, split=True)
"""Long enough for two pairs of convection cells to form; each third of the states covers 17 units of time."""
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
        """Return a grid with a whole number of cells in the box and in each segment."""
        cells = self.cells_per_height
        return Grid(SEGMENTS * round(LENGTH * cells / SEGMENTS), cells, 1.0 / cells)

    @property
    def viscosity(self) -> float:
        """Viscosity, sqrt(Pr/Ra)."""
        return math.sqrt(self.prandtl / self.rayleigh)

    @property
    def diffusivity(self) -> float:
        """Thermal diffusivity, 1/sqrt(Pr Ra)."""
        return 1.0 / math.sqrt(self.prandtl * self.rayleigh)

    @model_validator(mode="after")
    def _cells_are_even(self) -> Self:
        if self.cells_per_height % 2:
            raise ValueError(f"'cells_per_height' is {self.cells_per_height}, but must be even")
        return self


class RayleighBenard(FlowTask[RayleighBenardOptions]):
    """The task in which one agent commands all heaters."""

    options_class = RayleighBenardOptions
    folder = Path(__file__).parent
    units = units_of("H")

    def flow(self) -> Flow:
        """Return the plates with temperatures 1 and 0, and the conducting fluid between them."""
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
        """Development of the convection, from whose stored states episodes start."""
        return DEVELOPMENT

    def disturb(self, simulation: Simulation) -> None:
        """Set an initial temperature with two pairs of convection cells of different widths, which oscillate."""
        x, y = simulation.grid.centres()
        along = 2.0 * np.pi * x / simulation.grid.size[0]
        waves = 0.1 * np.cos(2.0 * along) + 0.1 * np.cos(3.0 * along + 0.5)
        simulation.set_temperature(0, 1.0 - y + waves * np.sin(np.pi * y))

    def draw(self, generator: np.random.Generator) -> int:
        """Sample the number of cells by which the flow is shifted.

        A copy of the generator is used, so that the sampling of the stored state is not affected.
        """
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
        """Return the sensor of velocity and temperature at all points."""
        size = ROWS * COLUMNS * SEGMENTS
        limits = [VELOCITY_LIMIT] * (2 * size) + [TEMPERATURE_LIMIT] * size
        return [Computed(self._seen, limits)]

    def _grid_of_sensors(self) -> FloatArray:
        """Return u, v and T - 1/2 at the points, shape (B, 3, columns, rows), from the left and from below."""
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
        """Return the Nusselt number of the fluid above each heater, shape (B, 10); the mean is that of the volume."""
        profile = nusselt_profile(self.simulation, "bottom")
        return np.asarray(profile.reshape(self.batch, SEGMENTS, -1).mean(axis=2))

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the reduction of the Nusselt number relative to the flow without control."""
        return np.asarray(self.options.nusselt_reference - self.nusselt_numbers().mean(axis=1))

    def measures(self) -> Mapping[str, FloatArray]:
        """Return the Nusselt number at the end of the action."""
        return {"Nu": np.asarray(self.nusselt_numbers().mean(axis=1))}

    def scene(self, index: int) -> Scene:
        """Return an image of the temperature."""
        values = self.simulation.temperature_at_centres(index)
        return replace(super().scene(index), values=values, quantity=TEMPERATURE)


class Segments(RayleighBenard):
    """The task in which each heater is an agent."""

    agent_name = "heater"

    @property
    def agents(self) -> int:
        """Number of heaters."""
        return SEGMENTS

    def actuators(self) -> Sequence[Actuator]:
        """Return the heater of an agent."""
        return [Heaters(("heater",), 1.0, self.options.amplitude, SMOOTHING)]

    def _seen(self) -> FloatArray:
        """Return the observation of each agent, shape (B, N, n): all points, with its own columns in the middle."""
        grid = self._grid_of_sensors()
        middle = COLUMNS * (SEGMENTS // 2)
        views = [np.roll(grid, middle - COLUMNS * n, axis=2) for n in range(SEGMENTS)]
        return np.stack([view.reshape(self.batch, -1) for view in views], axis=1)

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the reduction of the Nusselt number, with a share for the fluid above the agent's own heater."""
        own, weight = self.nusselt_numbers(), self.options.local_weight
        all_of_them = own.mean(axis=1, keepdims=True)
        return np.asarray(
            self.options.nusselt_reference - (1.0 - weight) * all_of_them - weight * own
        )

    def info(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the Nusselt number of the fluid above each heater."""
        return {"nusselt": self.nusselt_numbers()}


class RayleighBenardEnv(FlowEnv):
    """flowsim/RayleighBenard-v0: heaters in the lower plate reduce the convection between two plates.

    Lengths are in the height H, temperatures in the difference DT of the plates, velocities in the free-fall velocity
    sqrt(beta g DT H), times in H over that; x runs along the plates and y upwards. Ra = 8e4, Pr = 0.7, and the box of
    3.125 x 1 is periodic in x.

    Observation, float32 of shape (720,), at 8 x 30 points: the horizontal velocity, then the vertical velocity, then
    the temperature minus 0.5, each by columns from left to right, and from bottom to top within a column.

    Action, float32 of shape (10,), each from -1 to 1 (clipped): the temperatures of ten segments of the lower plate,
    up to 0.75 from their mean of 1. The mean of the ten is subtracted; if any then exceeds 0.75, all are scaled down.

    Reward of an action: `nusselt_reference` - Nu at its end, where Nu is the ratio of the heat flux to that of
    conduction.

    An episode starts from a stored state of developed convection, shifted along the plates; training, validation and
    test use different states. It is truncated after 200 actions of 1.06.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid).
    Options are the fields of `RayleighBenardOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = RayleighBenard


class RayleighBenardVectorEnv(FlowVectorEnv):
    """flowsim/RayleighBenard-v0, a batch of flows in one simulation.

    Observations (num_envs, 720), actions (num_envs, 10), rewards and options are those of `RayleighBenardEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = RayleighBenard


class HeatersVectorEnv(FlowVectorEnv):
    """Batch of flows of `HeatersParallelEnv`, with the observations and actions of the ten agents concatenated."""

    task_class = Segments


class HeatersParallelEnv(FlowParallelEnv):
    """Each heater is an agent, with PettingZoo's parallel interface; agents are named heater_0 to heater_9.

    Observation of a heater, float32 of shape (720,): that of `RayleighBenardEnv`, with its own three columns of points
    in the middle, so that all heaters can share a policy. Action, float32 of shape (1,): its temperature, scaled as in
    `RayleighBenardEnv`.

    Reward of an action: `nusselt_reference` - (0.9985 Nu + 0.0015 Nu_local), where Nu_local is that of the fluid above
    the heater.

    See `FlowParallelEnv` for parameters and rendering; options are the fields of `RayleighBenardOptions`. The `info` of
    a heater also contains `nusselt`, the Nusselt number of the fluid above it.
    """

    metadata: ClassVar[dict[str, Any]] = FlowParallelEnv.metadata | {"name": "rayleigh_benard_v0"}
    task_class = Segments
    vector_class = HeatersVectorEnv


parallel_env = HeatersParallelEnv
"""Environment made by the setting ``env: parallel:cases.rayleigh_benard.env`` of a run."""
