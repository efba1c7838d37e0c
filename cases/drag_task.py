"""Drag-reduction tasks, in which a controller minimises the total power of towing and actuation.

The towing power is drag times U, so with U = 1 its coefficient is C_D. The power of the actuators is added to it.
Coefficients refer to the frontal length D: C = 2 F / (rho U^2 D).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from pydantic import Field

from cases.flow_task import FlowTask
from cases.loads import FloatArray
from cases.options import FlowOptions


class DragOptions(FlowOptions):
    """Options of drag-reduction tasks."""

    reynolds: float = Field(100.0, gt=0.0, description="U D / nu")
    cfl: float | None = Field(
        0.55, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    drag_reference: float = Field(
        description="reference C_D of all bodies in the reward: that of the flow without control"
    )
    power_weight: float = Field(
        1.0, ge=0.0, description="weight of the actuators' power in the reward; 1 for the net power"
    )
    lift_weight: float = Field(
        0.0, ge=0.0, description="weight of |C_L| of an action in the reward"
    )


DragOptionsT = TypeVar("DragOptionsT", bound=DragOptions)


class DragTask(FlowTask[DragOptionsT]):
    """A task whose reward is the reduction of the total power of towing and actuation."""

    @abstractmethod
    def actuation_power(self) -> FloatArray:
        """Return the non-negative coefficient of the actuators' power in the last action, shape (B,)."""

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return C_D and C_L of all bodies together, averaged over the last action."""
        loads = self.loads.averages()
        return 2.0 * loads["drag"].sum(axis=1), 2.0 * loads["lift"].sum(axis=1)

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the power saved relative to the flow without control, minus the weighted lift."""
        options = self.options
        drag, lift = self.coefficients()
        cost = drag + options.power_weight * self.actuation_power()
        return np.asarray(options.drag_reference - cost - options.lift_weight * np.abs(lift))

    def measures(self) -> Mapping[str, FloatArray]:
        """Return the coefficients of drag, lift, actuation power, and of the power of towing and actuation together."""
        drag, lift = self.coefficients()
        power = self.actuation_power()
        return {"C_D": drag, "C_L": lift, "actuation power": power, "net power": drag + power}


class SpinTask(DragTask[DragOptionsT]):
    """A task whose actuators are rotating bodies."""

    def actuation_power(self) -> FloatArray:
        """Return the power that turns the bodies; a body that the flow turns counts as zero, not as a gain."""
        loads: dict[str, Any] = self.loads.averages()
        turning = loads["power"] - loads["drag"]  # the rest is the towing power
        return np.asarray(2.0 * np.maximum(turning, 0.0).sum(axis=1))
