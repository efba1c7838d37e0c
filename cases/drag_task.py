"""Tasks of less drag at a price: what the flow costs with and without control, in power.

The power that tows the bodies is drag times U, so with U = 1 its coefficient is C_D; that of the actuators is added
to it, and the sum is what a controller has to lower. Coefficients are those of the frontal length D: C = 2 F / (rho
U^2 D).
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
    """Options of these tasks."""

    reynolds: float = Field(100.0, gt=0.0, description="U D / nu")
    cfl: float | None = Field(
        0.55, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    drag_reference: float = Field(
        description="C_D, of all bodies together, from which the reward counts: that of the flow without control"
    )
    power_weight: float = Field(
        1.0, ge=0.0, description="weight of the actuators' power in the reward; 1 is its price"
    )
    lift_weight: float = Field(
        0.0, ge=0.0, description="weight of |C_L| of an action in the reward"
    )


DragOptionsT = TypeVar("DragOptionsT", bound=DragOptions)


class DragTask(FlowTask[DragOptionsT]):
    """A task whose reward is the power saved, of towing and of the actuators together."""

    @abstractmethod
    def actuation_power(self) -> FloatArray:
        """Return the coefficient of the power that the actuators took in the last action, (B,), never negative."""

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return C_D and C_L of all bodies together, averaged over the last action."""
        loads = self.loads.averages()
        return 2.0 * loads["drag"].sum(axis=1), 2.0 * loads["lift"].sum(axis=1)

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the power saved against the flow without control, less a share of the lift."""
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
    """A task whose actuators are bodies that spin."""

    def actuation_power(self) -> FloatArray:
        """Return what turns the bodies, each where it takes power: one that the flow turns gives nothing back."""
        loads: dict[str, Any] = self.loads.averages()
        turning = loads["power"] - loads["drag"]  # the rest tows held bodies through the stream
        return np.asarray(2.0 * np.maximum(turning, 0.0).sum(axis=1))
