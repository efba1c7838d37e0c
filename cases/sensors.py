"""What an observation consists of: small parts that a `FlowTask` declares.

A part gives some numbers of each agent's observation, shape (B, N, size) for B simulations of N agents; what all agents
see alike may have shape (B, 1, size) or (B, size). Parts that look back keep what they need in the memory of the task,
which is saved and restored with an environment. Each number of one simulation depends on that simulation only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from cases.loads import BoolArray, FloatArray, Loads
from flowsim import Simulation

# An agent that met a numerical blow-up still has to hand out an observation that lies in its space.
VELOCITY_LIMIT = 50.0
ANGULAR_VELOCITY_LIMIT = 200.0
PRESSURE_LIMIT = 1000.0
LOAD_LIMIT = 1000.0

Carried = tuple[int, tuple[float, float]]
"""A body, and a point of its frame that it carries along."""


class Measured(Protocol):
    """What sensors look at: a task, once it has its simulation."""

    simulation: Simulation
    loads: Loads
    memory: dict[str, npt.NDArray[Any]]

    @property
    def agents(self) -> int:
        """How many act."""

    @property
    def command_size(self) -> int:
        """How many numbers an action of one of them has."""


class Sensor(ABC):
    """One part of an observation.

    Attributes
    ----------
    task : Measured
        The task that it belongs to, from :meth:`bind` on.
    limits : (size,)
        Bounds of the numbers; the lower ones are their negatives.
    """

    task: Measured
    limits: FloatArray

    @abstractmethod
    def read(self) -> FloatArray:
        """Return what is measured now, shape (B, N, size)."""

    def carried(self) -> Sequence[Carried]:
        """Return the points that bodies carry along, at which the flow is sensed."""
        return ()

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Belong to a task; ``name`` is free for values in its memory, ``first`` the place of the carried points."""
        self.task = task

    def begin(self, which: BoolArray) -> None:  # noqa: B027  (most parts do not look back)
        """Note that episodes begin."""

    def note(self, commands: FloatArray) -> None:  # noqa: B027
        """Note that an action of these commands, shape (B, N, m), has been played."""

    def places(self, index: int) -> FloatArray:
        """Return where a picture of a simulation shows the sensors, shape (n, 2)."""
        return np.zeros((0, 2))


class Computed(Sensor):
    """Anything that a task computes.

    Parameters
    ----------
    function : callable
        Returns the numbers, shape (B, size) or (B, N, size).
    limits : sequence of float
    """

    def __init__(self, function: Callable[[], FloatArray], limits: Sequence[float]) -> None:
        self._function, self.limits = function, np.array(limits, np.float64)

    def read(self) -> FloatArray:
        """Return what the task computes."""
        return self._function()


class Motion(Sensor):
    """Angle in (-pi, pi], velocity (2) and angular velocity of one body for each agent."""

    def __init__(self, bodies: Sequence[int]) -> None:
        self._bodies = list(bodies)
        self.limits = np.array([np.pi, VELOCITY_LIMIT, VELOCITY_LIMIT, ANGULAR_VELOCITY_LIMIT])

    def read(self) -> FloatArray:
        """Return the motion."""
        state, bodies = self.task.simulation.body_state, self._bodies
        angle, spin = wrap_angle(state.angle[:, bodies]), state.angular_velocity[:, bodies]
        return np.concatenate(
            [angle[..., None], state.velocity[:, bodies], spin[..., None]], axis=-1
        )


class Skin(Sensor):
    """Velocity of the flow past the skin of one body for each agent, at several points, x and y in the axes of the box.

    Parameters
    ----------
    bodies : sequence of int
    skin : (n, 2)
        Points of the surface, in the frame of the body; their velocity is taken off that of the flow.
    outside : (n, 2)
        Where the flow is sensed: on the surface itself no slip makes the difference vanish.
    """

    def __init__(self, bodies: Sequence[int], skin: npt.ArrayLike, outside: npt.ArrayLike) -> None:
        self._bodies = list(bodies)
        self._skin, self._outside = np.asarray(skin, np.float64), np.asarray(outside, np.float64)
        self.limits = np.full(self._skin.size, VELOCITY_LIMIT)
        self._first = 0

    def carried(self) -> Sequence[Carried]:
        """Return the points outside, body by body."""
        return [(body, (float(x), float(y))) for body in self._bodies for x, y in self._outside]

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Belong to a task."""
        super().bind(task, name, first)
        self._first = first

    def read(self) -> FloatArray:
        """Return the velocity of the flow less that of the surface, V + omega x r."""
        simulation, bodies, points = self.task.simulation, self._bodies, len(self._skin)
        state, count = simulation.body_state, len(bodies) * points
        # Contiguous copies: numpy may compute cosines of a strided array in another way, with other last bits.
        arm = turned(self._skin, state.angle[:, bodies].copy())
        omega = state.angular_velocity[:, bodies, None]
        surface = state.velocity[:, bodies, None, :] + np.stack(
            [-omega * arm[..., 1], omega * arm[..., 0]], axis=-1
        )
        flow = simulation.sensed[:, self._first : self._first + count]
        shape = (simulation.batch, len(bodies), points, 2)
        return (flow.reshape(shape) - surface).reshape(*shape[:2], -1)

    def places(self, index: int) -> FloatArray:
        """Return the points outside where the bodies are now."""
        state = self.task.simulation.body_state
        angle = state.angle[index, self._bodies].copy()
        points = state.position[index, self._bodies][:, None] + turned(self._outside, angle)
        return points.reshape(-1, 2)


class Probes(Sensor):
    """Velocity (x and y) or pressure of the flow at points of the box, the same for all agents.

    Parameters
    ----------
    points : (n, 2)
    quantity : str
        ``"velocity"`` or ``"pressure"``, whose level is that of the solver.
    """

    def __init__(
        self, points: npt.ArrayLike, quantity: Literal["velocity", "pressure"] = "velocity"
    ) -> None:
        if quantity not in ("velocity", "pressure"):
            raise ValueError(f"quantity = {quantity!r}: a probe measures velocity or pressure")
        self._points, self._quantity = np.asarray(points, np.float64), quantity
        if self._points.ndim != 2 or self._points.shape[1] != 2:
            raise ValueError(
                f"points have the shape {self._points.shape}, but must have (n, 2), x and y each"
            )
        velocity = np.full(self._points.size, VELOCITY_LIMIT)
        pressure = np.full(len(self._points), PRESSURE_LIMIT)
        self.limits = velocity if quantity == "velocity" else pressure

    def read(self) -> FloatArray:
        """Return what the probes measure."""
        simulation = self.task.simulation
        if self._quantity == "pressure":
            return simulation.sample_pressure(self._points)
        points = np.broadcast_to(self._points, (simulation.batch, *self._points.shape))
        return simulation.sample_velocity(points).reshape(simulation.batch, -1)

    def places(self, index: int) -> FloatArray:
        """Return the probes."""
        return self._points


class MeanLoads(Sensor):
    """Averages over the last action of what bodies feel (`Loads`), the same for all agents.

    Parameters
    ----------
    bodies : sequence of int
    names : sequence of str
        Of ``drag``, ``lift``, ``torque`` and ``power``.
    """

    def __init__(self, bodies: Sequence[int], names: Sequence[str] = ("drag", "lift")) -> None:
        self._bodies, self._names = list(bodies), tuple(names)
        self.limits = np.full(len(self._bodies) * len(self._names), LOAD_LIMIT)

    def read(self) -> FloatArray:
        """Return the averages, quantity by quantity."""
        averages = self.task.loads.averages()
        return np.concatenate([averages[name][:, self._bodies] for name in self._names], axis=-1)


class _LookingBack(Sensor):
    """Values of the last n moments, the newest first, in the memory of the task; shape (B, N, n, size)."""

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f"length = {length}: the past must have at least one moment")
        self._length, self._name = length, ""

    def _remember(self, size: int, name: str) -> None:
        batch, agents = self.task.simulation.batch, self.task.agents
        self._name = name
        self.task.memory[name] = np.zeros((batch, agents, self._length, size))

    @property
    def _values(self) -> FloatArray:
        return self.task.memory[self._name]

    def _add(self, newest: FloatArray) -> None:
        values = self._values
        values[:, :, 1:] = values[:, :, :-1].copy()
        values[:, :, 0] = newest

    def read(self) -> FloatArray:
        """Return the past, the newest moment first."""
        batch, agents = self._values.shape[:2]
        return self._values.reshape(batch, agents, -1).copy()


class History(_LookingBack):
    """The last n measurements of a part, one for each action, the newest first; the first fills them all.

    Parameters
    ----------
    sensor : Sensor
    length : int
        n.
    """

    def __init__(self, sensor: Sensor, length: int) -> None:
        super().__init__(length)
        self._sensor = sensor
        self.limits = np.tile(sensor.limits, length)

    def carried(self) -> Sequence[Carried]:
        """Return what the part carries."""
        return self._sensor.carried()

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Belong to a task."""
        super().bind(task, name, first)
        self._sensor.bind(task, f"{name}, now", first)
        self._remember(len(self._sensor.limits), name)

    def _now(self) -> FloatArray:
        return each_agent(self._sensor.read(), self.task.agents)

    def begin(self, which: BoolArray) -> None:
        """Fill the past with what is measured now."""
        self._sensor.begin(which)
        self._values[which] = self._now()[which, :, None]

    def note(self, commands: FloatArray) -> None:
        """Measure, and forget the oldest."""
        self._sensor.note(commands)
        self._add(self._now())

    def places(self, index: int) -> FloatArray:
        """Return those of the part."""
        return self._sensor.places(index)


class PastActions(_LookingBack):
    """The commands of the last n actions, the newest first; zero before the first."""

    def __init__(self, length: int = 1) -> None:
        super().__init__(length)

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Belong to a task."""
        super().bind(task, name, first)
        self.limits = np.ones(self._length * task.command_size)
        self._remember(task.command_size, name)

    def begin(self, which: BoolArray) -> None:
        """Forget."""
        self._values[which] = 0.0

    def note(self, commands: FloatArray) -> None:
        """Keep the newest commands."""
        self._add(commands)


def each_agent(values: FloatArray, agents: int) -> FloatArray:
    """Return values (B, size), (B, 1, size) or (B, N, size) as (B, N, size)."""
    values = values.reshape(values.shape[0], -1, values.shape[-1])
    return np.broadcast_to(values, (values.shape[0], agents, values.shape[-1]))


def wrap_angle(angle: FloatArray) -> FloatArray:
    """Return the angle in (-pi, pi]."""
    return angle - 2.0 * np.pi * np.ceil((angle - np.pi) / (2.0 * np.pi))


def turned(points: FloatArray, angle: FloatArray) -> FloatArray:
    """Return points (n, 2) turned by angles (...), shape (..., n, 2)."""
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = points.T
    return np.stack([c * x - s * y, s * x + c * y], axis=-1)
