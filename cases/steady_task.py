"""Tasks in which a jet keeps a flow near its steady state; observations and cost are deviations from that state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from cases.actuators import Actuator, Blow
from cases.deviation_energy import DeviationEnergy
from cases.flow_task import FlowTask
from cases.loads import FloatArray
from cases.options import FlowOptions
from cases.sensors import VELOCITY_LIMIT, Computed, History, PastActions, Probes, Sensor
from flowsim import Simulation
from flowsim.render.fields import Scene
from flowsim.render.quantities import Quantity

Point = tuple[float, float]
Points = Sequence[Point]


class SteadyOptions(FlowOptions):
    """Options of tasks that stabilise a steady flow."""

    flow_rate: float = Field(
        0.001, gt=0.0, le=0.5, description="of the jet at a command of 1, in U D"
    )
    past: int = Field(3, ge=1, le=50, description="how many measurements and actions are observed")
    energy_reference: float = Field(
        0.001, gt=0.0, description="energy that costs 1, in rho U^2 D^2"
    )
    effort_weight: float = Field(
        0.01, ge=0.0, description="weight of the square of the action in the reward"
    )


SteadyOptionsT = TypeVar("SteadyOptionsT", bound=SteadyOptions)


class SteadyTask(FlowTask[SteadyOptionsT]):
    """A task whose flow has exactly one jet."""

    wall_height: ClassVar[float]
    """y of the wall at which du/dy is sensed, in D."""
    slope_limit: ClassVar[float] = VELOCITY_LIMIT
    """Bound of du/dy in an observation, in U/D."""
    vorticity_limit: ClassVar[float]
    """Limit of the colour scale of an image, in U/D."""

    def __init__(self, options: SteadyOptionsT, batch: int) -> None:
        super().__init__(options, batch)
        self.simulation.restore_states([0], self.steady_state(), [0])
        self.simulation.settle(np.arange(batch) == 0)  # as at the start of an episode
        self.energy = DeviationEnergy(self.simulation, *self.energy_window())
        self._calm = self._sense()[0].copy()
        self._calm_vorticity = self.simulation.vorticity(0).copy()

    def steady_state(self) -> dict[str, Any]:
        """Return the steady flow from `Simulation.store_states`; by default the bank that episodes start from."""
        assert self._bank is not None
        return self._bank

    @abstractmethod
    def energy_window(self) -> tuple[Point, Point]:
        """Return the limits in x and in y of the region over which the deviation's energy is summed."""

    @abstractmethod
    def sensed(self) -> tuple[Points, Sequence[float]]:
        """Return the points where the velocity is sensed, and the x of the wall points where du/dy is sensed."""

    def at_wall(self, velocity: FloatArray) -> FloatArray:
        """Reduce the velocities at the wall points, shape (B, number of points); by default return them all."""
        return velocity

    def disturb(self, simulation: Simulation) -> None:
        """Do nothing: the flow becomes steady or oscillates by itself."""

    def actuators(self) -> Sequence[Actuator]:
        """Return the jet, which ramps to its flow rate over one action."""
        return [Blow((0,), rate=self.options.flow_rate, ramp=self.options.action_time)]

    def sensors(self) -> Sequence[Sensor]:
        """Return the last deviations from the steady flow, and the last actions."""
        # the velocity at the wall is zero, so the slope follows from the velocity at the centre of the first cell
        self._height = 0.5 / self.options.cells_per_diameter
        points, wall = self.sensed()
        at_wall = [(x, self.wall_height + self._height) for x in wall]
        self._points, self._probes = len(points), Probes([*points, *at_wall])
        slopes = self.at_wall(np.zeros((1, len(wall)))).shape[1]
        limits = [VELOCITY_LIMIT] * (2 * len(points)) + [self.slope_limit] * slopes
        felt = Computed(self._deviation, limits)
        return [History(felt, self.options.past), PastActions(self.options.past)]

    def _sense(self) -> FloatArray:
        """Return the velocities at the points and du/dy at the wall points, shape (B, size)."""
        points = self._probes.places(0)
        points = np.broadcast_to(points, (self.batch, *points.shape))
        velocity, n = self.simulation.sample_velocity(points), self._points
        slopes = self.at_wall(velocity[:, n:, 0]) / self._height
        return np.concatenate([velocity[:, :n].reshape(self.batch, -1), slopes], axis=1)

    def _deviation(self) -> FloatArray:
        return self._sense() - self._calm

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return -(energy / energy_reference + effort_weight * action^2)."""
        options = self.options
        cost = self.energy() / options.energy_reference
        return np.asarray(-(cost + options.effort_weight * commands[:, 0] ** 2))

    def measures(self) -> Mapping[str, FloatArray]:
        """Return the flow rate of the jet, and the energy of the deviation."""
        return {"flow rate": self.simulation.jet_flow_rates[:, 0].copy(), "energy": self.energy()}

    def scene(self, index: int) -> Scene:
        """Return an image of the deviation of the vorticity from that of the steady flow."""
        scene = super().scene(index)
        limit = self.vorticity_limit
        quantity = Quantity("deviation of vorticity", "{rate}", limit, True, "balance")
        return replace(scene, values=scene.values - self._calm_vorticity, quantity=quantity)
