"""Tasks of less drag whose actuators are two jets on one body: what one blows, the other sucks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np
from pydantic import Field

from cases.actuators import Actuator, Blow
from cases.drag_task import DragOptions, DragTask
from cases.loads import BoolArray, FloatArray


class JetOptions(DragOptions):
    """Options of these tasks."""

    flow_rate: float = Field(0.1, gt=0.0, le=1.0, description="Q at a command of 1, in U D")


JetOptionsT = TypeVar("JetOptionsT", bound=JetOptions)


class JetTask(DragTask[JetOptionsT]):
    """A task whose jets are the only two of its flow."""

    slot_width: ClassVar[float]
    """Of each jet, in D."""

    def actuators(self) -> Sequence[Actuator]:
        """Return the jets; the first one blows at a positive command, and both get there within the action."""
        return [Blow((0, 1), rate=self.options.flow_rate, ramp=self.options.action_time)]

    def actuate(self, commands: FloatArray) -> None:
        """Note what the jets blow before the action, too."""
        self.memory["blown"] = self.simulation.jet_flow_rates.copy()
        super().actuate(commands)

    def begin(self, which: BoolArray) -> None:
        """Note that nothing has been blown."""
        self.memory.setdefault("blown", np.zeros_like(self.simulation.jet_flow_rates))
        self.memory["blown"][which] = self.simulation.jet_flow_rates[which]

    def actuation_power(self) -> FloatArray:
        """Return the power that the jets gave the fluid: |Q|^3 / S^2 of both together, S the width of a slot.

        As Xia et al. (2024) count it, as if the fluid left the slot uniformly; the flow rate went in a straight line.
        """
        before, after = self.memory["blown"], self.simulation.jet_flow_rates
        way = after - before
        rose = 0.25 * (after * np.abs(after) ** 3 - before * np.abs(before) ** 3)
        steady = np.abs(way) < 1e-9
        cubes = np.where(steady, np.abs(after) ** 3, rose / np.where(steady, 1.0, way))
        return np.asarray(cubes.sum(axis=1) / self.slot_width**2)
