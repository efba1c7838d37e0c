"""Drag-reduction tasks with two jets of zero net mass flux on one body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np
from pydantic import Field

from cases.actuators import Actuator, Blow
from cases.drag_task import DragOptions, DragTask
from cases.loads import BoolArray, FloatArray


class JetOptions(DragOptions):
    """Options of tasks with two jets."""

    flow_rate: float = Field(0.1, gt=0.0, le=1.0, description="Q at a command of 1, in U D")


JetOptionsT = TypeVar("JetOptionsT", bound=JetOptions)


class JetTask(DragTask[JetOptionsT]):
    """A task whose flow has exactly two jets."""

    slot_width: ClassVar[float]
    """Width of each slot, in D."""

    def __init__(self, options: JetOptionsT, batch: int) -> None:
        super().__init__(options, batch)
        self.memory["blown"] = np.zeros_like(self.simulation.jet_flow_rates)

    def actuators(self) -> Sequence[Actuator]:
        """Return the jets; the first one blows at a positive command, and the ramp lasts one action."""
        return [Blow((0, 1), rate=self.options.flow_rate, ramp=self.options.action_time)]

    def actuate(self, commands: FloatArray) -> None:
        """Store the flow rates before the action, then apply the commands."""
        self.memory["blown"][:] = self.simulation.jet_flow_rates
        super().actuate(commands)

    def begin(self, which: BoolArray) -> None:
        """Store the flow rates at the start of an episode."""
        self.memory["blown"][which] = self.simulation.jet_flow_rates[which]

    def actuation_power(self) -> FloatArray:
        """Return the power that both jets gave the fluid: the sum of |Q|^3 / S^2, where S is the width of a slot.

        The definition is that of Xia et al. (2024), with a uniform velocity in the slot. The mean over the action is
        exact for the linear ramp of the flow rate.
        """
        before, after = self.memory["blown"], self.simulation.jet_flow_rates
        way = after - before
        rose = 0.25 * (after * np.abs(after) ** 3 - before * np.abs(before) ** 3)
        steady = np.abs(way) < 1e-9
        cubes = np.where(steady, np.abs(after) ** 3, rose / np.where(steady, 1.0, way))
        return np.asarray(cubes.sum(axis=1) / self.slot_width**2)
