"""Actuators of a `FlowTask`, which apply the components of an action to the simulation.

An actuator receives some components of each agent's action, shape (B, N, size) for B simulations of N agents, each in
[-1, 1], and sets the quantities of the simulation that they control until the next action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from flowsim import Simulation
from flowsim.backend.host.given import is_finite, is_positive, is_vector, is_whole

FloatArray = npt.NDArray[np.float64]


class Actuator(ABC):
    """Base class of actuators, each of which takes some components of an action."""

    names: ClassVar[Sequence[str]]
    """Names of the action components."""

    @property
    def size(self) -> int:
        """Number of components of each agent's action."""
        return len(self.names)

    @abstractmethod
    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Apply the commands, shape (B, N, size), until the next call."""

    def check(self, simulation: Simulation) -> None:  # noqa: B027  (not every actuator acts on bodies)
        """Refuse a simulation without the bodies or jets that the actuator acts on.

        Raises
        ------
        ValueError
        """

    def arrow(self, simulation: Simulation, index: int) -> tuple[FloatArray, FloatArray] | None:
        """Return position and vector of the arrow drawn for a simulation; a command of 1 has length 1."""
        return None


@dataclass(frozen=True)
class Push(Actuator):
    """Force and torque on free bodies, one body for each agent.

    Attributes
    ----------
    bodies : sequence of int
    force, torque : float
        Values at a command of 1, in rho U^2 D and rho U^2 D^2.
    """

    bodies: Sequence[int]
    force: float
    torque: float
    names = ("force x", "force y", "torque")

    def __post_init__(self) -> None:
        """Check the parameters."""
        refuse_unless_bodies(self, "bodies", self.bodies)
        _refuse_unless_finite(self, "force", "torque")

    def check(self, simulation: Simulation) -> None:
        """Refuse bodies that are not free: a force would not move them."""
        _check_bodies(self, self.bodies, simulation, "free")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Apply the force and the torque."""
        state, bodies = simulation.body_state, list(self.bodies)
        state.applied_force[:, bodies] = self.force * commands[..., :2]
        state.applied_torque[:, bodies] = self.torque * commands[..., 2]

    def arrow(self, simulation: Simulation, index: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the position of the first body and the force on it, if there can be one."""
        if self.force == 0.0:
            return None
        state, body = simulation.body_state, self.bodies[0]
        return (
            state.position[index, body].copy(),
            state.applied_force[index, body] * (1.0 / self.force),
        )


@dataclass(frozen=True)
class Spin(Actuator):
    """Angular velocity of fixed bodies, one body for each agent; positive is anticlockwise.

    Attributes
    ----------
    bodies : sequence of int
        Bodies with the motion "fixed".
    rate : float
        Angular velocity at a command of 1, in U/D.
    ramp : float
        Time of the linear ramp to the commanded rate. With 0 the rate jumps, which causes a peak of the fluid torque.
    """

    bodies: Sequence[int]
    rate: float
    ramp: float = 0.0
    names = ("spin",)

    def __post_init__(self) -> None:
        """Check the parameters."""
        refuse_unless_bodies(self, "bodies", self.bodies)
        _refuse_unless_finite(self, "rate")
        _refuse_unless_duration(self, "ramp")

    def check(self, simulation: Simulation) -> None:
        """Refuse bodies that are not fixed: the flow or a function of time turns them."""
        _check_bodies(self, self.bodies, simulation, "fixed")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Ramp the bodies to their angular velocities."""
        state, bodies = simulation.body_state, list(self.bodies)
        target = self.rate * commands[..., 0]
        way = np.abs(target - state.angular_velocity[:, bodies])
        state.target_angular_velocity[:, bodies] = target
        # an angular acceleration of zero would make a body keep its angle
        state.angular_acceleration[:, bodies] = (
            np.maximum(way / self.ramp, 1e-12) if self.ramp > 0.0 else np.inf
        )


@dataclass(frozen=True)
class PitchAcceleration(Actuator):
    """Angular acceleration of fixed bodies about their reference points, one body for each agent.

    Positive is anticlockwise.

    Attributes
    ----------
    bodies : sequence of int
        Bodies with the motion "fixed".
    acceleration : float
        Angular acceleration at a command of 1, in U^2/D^2.
    duration : float
        Duration of an action.
    largest_rate : float
        Limit of the angular velocity, in U/D; an action that would exceed it accelerates less.
    angles : (float, float)
        Limits of the angle, in radians; an action after which a body could not stop before them accelerates less, or
        brakes.
    """

    bodies: Sequence[int]
    acceleration: float
    duration: float
    largest_rate: float
    angles: tuple[float, float]
    names = ("pitch acceleration",)

    def __post_init__(self) -> None:
        """Check the parameters."""
        refuse_unless_bodies(self, "bodies", self.bodies)
        _refuse_unless_positive(self, "acceleration", "duration", "largest_rate")
        if not (is_vector(self.angles) and self.angles[0] < self.angles[1]):
            _refuse(self, "angles", "must be two finite numbers, the lower one first")

    def check(self, simulation: Simulation) -> None:
        """Refuse bodies that are not fixed: the flow or a function of time turns them."""
        _check_bodies(self, self.bodies, simulation, "fixed")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Accelerate the bodies within the limits of rate and angle."""
        state, bodies, time = simulation.body_state, list(self.bodies), self.duration
        rate, angle = state.angular_velocity[:, bodies], state.angle[:, bodies]
        change = time * self.acceleration
        target = rate + change * commands[..., 0]
        target = np.clip(target, -self.largest_rate, self.largest_rate)
        # at constant acceleration the angle changes by the mean of both rates times the duration
        low, high = (end - (angle + 0.5 * time * rate) for end in self.angles)
        target = np.clip(target, -self._fastest(-low), self._fastest(high))
        target = np.clip(target, rate - change, rate + change)
        state.target_angular_velocity[:, bodies] = target
        # an angular acceleration of zero would make a body keep its angle
        state.angular_acceleration[:, bodies] = np.maximum(np.abs(target - rate) / time, 1e-12)

    def _fastest(self, way: FloatArray) -> FloatArray:
        """Return the largest rate at the end of an action from which a body can stop, shape (B, N).

        ``way`` is the angle that is left for the share of this rate in the action, and for braking in the next ones. A
        rate that n actions can brake needs n (n + 1) / 2 times the angle ``most``; between these the rate is linear.
        """
        change, way = self.duration * self.acceleration, np.maximum(way, 0.0)
        most = self.duration * change
        whole = np.floor(0.5 * np.sqrt(1.0 + 8.0 * way / most) - 0.5)
        rest = way / most - 0.5 * whole * (whole + 1.0)
        return np.asarray(change * (whole + rest / (whole + 1.0)))


@dataclass(frozen=True)
class Blow(Actuator):
    """Flow rate of one jet, or of two jets with opposite flow rates (zero net mass flux).

    Attributes
    ----------
    jets : (int,) or (int, int)
    rate : float
        Flow rate of the first jet at a command of 1, in U D.
    ramp : float
        Time of the linear ramp to the commanded flow rate. With 0 the flow rate jumps, and so do the forces.
    """

    jets: tuple[int] | tuple[int, int]
    rate: float
    ramp: float = 0.0
    names = ("jet",)

    def __post_init__(self) -> None:
        """Check the parameters."""
        refuse_unless_bodies(self, "jets", self.jets)
        if len(self.jets) > 2:
            _refuse(self, "jets", "must be one jet or two")
        _refuse_unless_finite(self, "rate")
        _refuse_unless_duration(self, "ramp")

    def check(self, simulation: Simulation) -> None:
        """Refuse jets that do not exist."""
        for jet in self.jets:
            if not 0 <= jet < len(simulation.jets):
                raise ValueError(
                    f"Blow acts on jet {jet}, but there are {len(simulation.jets)} jets"
                )

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Ramp the flow rates to their targets."""
        jets = list(self.jets)
        target = self.rate * commands[:, 0] * np.array([1.0, -1.0])[: len(jets)]
        way = np.abs(target - simulation.jet_flow_rates[:, jets])
        simulation.target_jet_flow_rates[:, jets] = target
        simulation.jet_ramp_rates[:, jets] = way / self.ramp if self.ramp > 0.0 else np.inf


@dataclass(frozen=True)
class Heaters(Actuator):
    """Temperatures of segments of the bottom side, one for each action component, or for each agent.

    The mean over the segments is subtracted; if the deviation of any segment then exceeds ``amplitude``, all are scaled
    down. Across the edge between two segments the temperature follows a cubic (Vignon et al. 2023).

    Attributes
    ----------
    names : sequence of str
        Names of the components of an agent's action.
    mean : float
        Mean temperature of the side.
    amplitude : float
        Largest deviation from the mean, reached at a command of 1.
    smoothing : float
        Half of the length over which the temperature changes at an edge.
    """

    names: Sequence[str]  # type: ignore[misc]
    mean: float
    amplitude: float
    smoothing: float

    def __post_init__(self) -> None:
        """Check the parameters."""
        if isinstance(self.names, str) or not isinstance(self.names, Sequence) or not self.names:
            _refuse(self, "names", "must be a list of names")
        _refuse_unless_finite(self, "mean")
        _refuse_unless_positive(self, "amplitude", "smoothing")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Set the temperatures of the segments, without a ramp."""
        wanted = self.amplitude * commands.reshape(len(commands), -1)
        wanted = wanted - wanted.mean(axis=1, keepdims=True)
        most = np.abs(wanted).max(axis=1, keepdims=True) / self.amplitude
        simulation.set_side_temperature(
            "bottom", self.mean + self.along(wanted / np.maximum(most, 1.0), simulation)
        )

    def along(self, segments: FloatArray, simulation: Simulation) -> FloatArray:
        """Return the smoothed values of segments, shape (B, m), at the cells along the side, shape (B, n)."""
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
    """Turn and period of undulating swimmers, one for each agent.

    Attributes
    ----------
    bodies : sequence of int
    turn : float
        Turn to the left at a command of 1, as passed to `Simulation.steer`.
    period : float
        Change of the period, which is 1 without control, at a command of 1.
    over : float
        Time of the smooth transition to the commanded values.
    """

    bodies: Sequence[int]
    turn: float
    period: float
    over: float
    names = ("turn", "period")

    def __post_init__(self) -> None:
        """Check the parameters."""
        refuse_unless_bodies(self, "bodies", self.bodies)
        _refuse_unless_finite(self, "turn")
        if not (is_finite(self.period) and abs(self.period) < 1.0):
            _refuse(self, "period", "must be between -1 and 1, so that the period stays positive")
        _refuse_unless_positive(self, "over")

    def apply(self, simulation: Simulation, commands: FloatArray) -> None:
        """Steer every swimmer."""
        for b in range(simulation.batch):
            for (turn, slower), k in zip(commands[b].tolist(), self.bodies, strict=True):
                simulation.steer(
                    b, k, turn=self.turn * turn, period=1.0 + self.period * slower, over=self.over
                )


def refuse_unless_bodies(part: object, key: str, given: object) -> None:
    """Raise unless a parameter of an actuator or a sensor is a list of numbers of bodies or jets.

    Raises
    ------
    ValueError
    """
    listed = isinstance(given, Sequence | np.ndarray)
    if not listed or not all(is_whole(number) for number in given):  # type: ignore[attr-defined]
        raise ValueError(
            f"{type(part).__name__}: {key} = {given!r}, but must be a list of numbers of {key}"
        )


def _refuse_unless_finite(actuator: Actuator, *keys: str) -> None:
    for key in keys:
        if not is_finite(getattr(actuator, key)):
            _refuse(actuator, key, "must be a finite number")


def _refuse_unless_positive(actuator: Actuator, *keys: str) -> None:
    for key in keys:
        if not is_positive(getattr(actuator, key)):
            _refuse(actuator, key, "must be a positive number")


def _refuse_unless_duration(actuator: Actuator, key: str) -> None:
    time = getattr(actuator, key)
    if not (is_finite(time) and time >= 0.0):
        _refuse(actuator, key, "must be a finite time that is not negative")


def _refuse(actuator: Actuator, key: str, demand: str) -> NoReturn:
    raise ValueError(f"{type(actuator).__name__}: {key} = {getattr(actuator, key)!r}, but {demand}")


def _check_bodies(
    actuator: Actuator, bodies: Sequence[int], simulation: Simulation, motion: str
) -> None:
    """Refuse bodies that do not exist or have another motion."""
    name = type(actuator).__name__
    for k in bodies:
        if not 0 <= k < len(simulation.bodies):
            raise ValueError(
                f"{name} acts on body {k}, but there are {len(simulation.bodies)} bodies"
            )
        if simulation.bodies[k].motion != motion:
            raise ValueError(f'{name} acts on body {k}, so its motion must be "{motion}"')
