"""What the numbers of an action do: small parts that a `FlowTask` declares.

A part takes some numbers of each agent's action, shape (B, N, size) for B simulations of N agents, each from -1 to 1,
and writes what follows from them into the simulation, until the next action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from flowsim import Simulation

FloatArray = npt.NDArray[np.float64]


class Actuator(ABC):
    """One part of an action."""

    names: ClassVar[Sequence[str]]
    """Of the numbers that it takes."""

    @property
    def size(self) -> int:
        """How many numbers it takes of each agent's action."""
        return len(self.names)

    @abstractmethod
    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Do what the commands say, shape (B, N, size), from now on."""

    def arrow(self, simulation: Simulation, index: int) -> tuple[FloatArray, FloatArray] | None:
        """Return place and vector of the arrow in a picture of a simulation, the vector 1 long at a command of 1."""
        return None


@dataclass(frozen=True)
class Push(Actuator):
    """Force and torque on free bodies, one for each agent.

    Attributes
    ----------
    bodies : sequence of int
    force, torque : float
        At a command of 1, in rho U^2 D and rho U^2 D^2.
    """

    bodies: Sequence[int]
    force: float
    torque: float
    names = ("force x", "force y", "torque")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Apply force and torque."""
        state, bodies = simulation.body_state, list(self.bodies)
        state.applied_force[:, bodies] = self.force * commands[..., :2]
        state.applied_torque[:, bodies] = self.torque * commands[..., 2]

    def arrow(self, simulation: Simulation, index: int) -> tuple[FloatArray, FloatArray]:
        """Return the force on the first of the bodies."""
        state, body = simulation.body_state, self.bodies[0]
        return (
            state.position[index, body].copy(),
            state.applied_force[index, body] * (1.0 / self.force),
        )


@dataclass(frozen=True)
class Spin(Actuator):
    """Angular velocity of held bodies, one for each agent, anticlockwise.

    Attributes
    ----------
    bodies : sequence of int
        Bodies with the motion "fixed".
    rate : float
        Angular velocity at a command of 1, in U/D.
    ramp : float
        Time in which it is reached, in a straight line; at once if 0, which the fluid answers with a peak of torque.
    """

    bodies: Sequence[int]
    rate: float
    ramp: float = 0.0
    names = ("spin",)

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Let the bodies approach their angular velocity."""
        state, bodies = simulation.body_state, list(self.bodies)
        target = self.rate * commands[..., 0]
        way = np.abs(target - state.angular_velocity[:, bodies])
        state.target_angular_velocity[:, bodies] = target
        # a rate of zero would have a body keep its angle
        state.angular_acceleration[:, bodies] = (
            np.maximum(way / self.ramp, 1e-12) if self.ramp > 0.0 else np.inf
        )


@dataclass(frozen=True)
class PitchAcceleration(Actuator):
    """Angular acceleration of held bodies about their reference points, one for each agent, anticlockwise.

    Attributes
    ----------
    bodies : sequence of int
        Bodies with the motion "fixed".
    acceleration : float
        At a command of 1, in U^2/D^2.
    duration : float
        Of an action.
    largest_rate : float
        In U/D; an action that would lead beyond accelerates less.
    angles : (float, float)
        Between which an action may end, in radians, likewise.
    """

    bodies: Sequence[int]
    acceleration: float
    duration: float
    largest_rate: float
    angles: tuple[float, float]
    names = ("pitch acceleration",)

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Accelerate, as far as rate and angle allow."""
        state, bodies, time = simulation.body_state, list(self.bodies), self.duration
        rate, angle = state.angular_velocity[:, bodies], state.angle[:, bodies]
        # at a constant acceleration the angle changes by the mean of both rates
        low, high = (2.0 * (end - angle) / time - rate for end in self.angles)
        target = rate + time * self.acceleration * commands[..., 0]
        target = np.clip(np.clip(target, -self.largest_rate, self.largest_rate), low, high)
        state.target_angular_velocity[:, bodies] = target
        # a rate of zero would have a body keep its angle
        state.angular_acceleration[:, bodies] = np.maximum(np.abs(target - rate) / time, 1e-12)


@dataclass(frozen=True)
class Blow(Actuator):
    """Flow rate of one jet, or of two: what the first one blows, the second one sucks, so that no fluid is added.

    Attributes
    ----------
    jets : (int,) or (int, int)
    rate : float
        Flow rate of the first jet at a command of 1, in U D.
    ramp : float
        Time in which it is reached, in a straight line; at once if 0, which the forces answer with a jump.
    """

    jets: tuple[int] | tuple[int, int]
    rate: float
    ramp: float = 0.0
    names = ("jet",)

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Let the flow rates approach their targets."""
        jets = list(self.jets)
        target = self.rate * commands[:, 0] * np.array([1.0, -1.0])[: len(jets)]
        way = np.abs(target - simulation.jet_flow_rates[:, jets])
        simulation.target_jet_flow_rates[:, jets] = target
        simulation.jet_ramp_rates[:, jets] = way / self.ramp if self.ramp > 0.0 else np.inf


@dataclass(frozen=True)
class Heaters(Actuator):
    """Temperature of segments of the bottom side, one for each number of the action, or for each agent.

    The mean over the segments is taken off, and where one is further than ``amplitude`` from it all are scaled back.
    Across the edge of two segments the temperature goes along a cubic (Vignon et al. 2023).

    Attributes
    ----------
    names : sequence of str
        Of the numbers of an agent's action.
    mean : float
        Of the side.
    amplitude : float
        Largest difference from the mean, that of a command of 1.
    smoothing : float
        Half of the length over which the temperature changes at an edge.
    """

    names: Sequence[str]  # type: ignore[misc]
    mean: float
    amplitude: float
    smoothing: float

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Give the segments their temperatures at once."""
        wanted = self.amplitude * commands.reshape(len(commands), -1)
        wanted = wanted - wanted.mean(axis=1, keepdims=True)
        most = np.abs(wanted).max(axis=1, keepdims=True) / self.amplitude
        simulation.set_side_temperature(
            "bottom", self.mean + self.along(wanted / np.maximum(most, 1.0), simulation)
        )

    def along(self, segments: FloatArray, simulation: Simulation) -> FloatArray:
        """Return values of segments (B, m) at the cells along the side, (B, n)."""
        nx, h, count = simulation.grid.nx, simulation.grid.h, segments.shape[1]
        x, width = (np.arange(nx) + 0.5) * h, nx * h / count
        here = np.minimum((x / width).astype(np.int64), count - 1)
        edge = np.round(x / width).astype(np.int64)  # the nearest one
        way = np.clip((x - edge * width) / self.smoothing, -1.0, 1.0)
        low, high = segments[:, (edge - 1) % count], segments[:, edge % count]
        smooth = low + 0.25 * (low - high) * (way - 2.0) * (way + 1.0) ** 2
        return np.where(np.abs(way) < 1.0, smooth, segments[:, here])


@dataclass(frozen=True)
class Gait(Actuator):
    """Turn and period of bodies that swim by bending, one for each agent.

    Attributes
    ----------
    bodies : sequence of int
    turn : float
        At a command of 1, to the left, as `Simulation.steer` takes it.
    period : float
        Change of the period 1 at a command of 1.
    over : float
        Time in which both are reached, on a smooth way.
    """

    bodies: Sequence[int]
    turn: float
    period: float
    over: float
    names = ("turn", "period")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Command every swimmer."""
        for b in range(simulation.batch):
            for (turn, slower), k in zip(commands[b].tolist(), self.bodies, strict=True):
                simulation.steer(
                    b, k, turn=self.turn * turn, period=1.0 + self.period * slower, over=self.over
                )
