"""Sensors of a `FlowTask`, from which its observations are composed.

A sensor returns some components of each agent's observation, shape (B, N, size) for B simulations of N agents; values
that are the same for all agents may have shape (B, 1, size) or (B, size). Sensors with a history store it in the memory
of the task, which is saved and restored with an environment. The values of one simulation depend on that simulation
only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from cases.actuators import refuse_unless_bodies
from cases.loads import LOAD_NAMES, BoolArray, FloatArray, Loads
from flowsim import Simulation
from flowsim.backend.host.given import is_whole

# Bounds of observations, far beyond usual values: an observation must lie in its space even if the simulation diverged.
VELOCITY_LIMIT = 50.0
ANGULAR_VELOCITY_LIMIT = 200.0
PRESSURE_LIMIT = 1000.0
LOAD_LIMIT = 1000.0

Carried = tuple[int, tuple[float, float]]
"""Index of a body, and a point fixed in the frame of that body."""


class Measured(Protocol):
    """The attributes of a task that sensors use, available once its simulation has been built."""

    simulation: Simulation
    loads: Loads
    memory: dict[str, npt.NDArray[Any]]

    @property
    def agents(self) -> int:
        """Number of agents."""

    @property
    def command_size(self) -> int:
        """Number of commands of an agent."""


class Sensor(ABC):
    """One part of an observation.

    Attributes
    ----------
    task : Measured
        The task of the sensor, set by :meth:`bind`.
    limits : (size,)
        Upper bounds of the values; the lower bounds are their negatives.
    """

    task: Measured
    limits: FloatArray

    @abstractmethod
    def read(self) -> FloatArray:
        """Return the current measurements, shape (B, N, size)."""

    def carried(self) -> Sequence[Carried]:
        """Return the body-fixed points at which the flow is sensed."""
        return ()

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task.

        ``name`` is its key in the memory of the task, and ``first`` the index of its first body-fixed point.

        Raises
        ------
        ValueError
            For bodies or points that the flow of the task does not have.
        """
        self.task = task

    def begin(self, which: BoolArray) -> None:  # noqa: B027  (most parts do not look back)
        """Handle the start of episodes in the simulations of a mask."""

    def note(self, commands: FloatArray) -> None:  # noqa: B027
        """Handle the end of an action with these commands, shape (B, N, m)."""

    def places(self, index: int) -> FloatArray:
        """Return the positions of the sensors in an image of a simulation, shape (n, 2)."""
        return np.zeros((0, 2))


class Computed(Sensor):
    """Values computed by a function of the task.

    Parameters
    ----------
    function : callable
        Returns the values, shape (B, size) or (B, N, size).
    limits : sequence of float
    """

    def __init__(self, function: Callable[[], FloatArray], limits: Sequence[float]) -> None:
        if not callable(function):
            raise ValueError(f"Computed: function = {function!r}, but must be a function")
        self._function, self.limits = function, _numbers(self, "limits", limits)
        if self.limits.ndim != 1 or not (self.limits > 0.0).all():
            raise ValueError(
                f"Computed: limits = {limits!r}, but must be a list of positive numbers"
            )

    def read(self) -> FloatArray:
        """Return the computed values.

        Raises
        ------
        ValueError
            For values of another shape.
        """
        given = self._function()
        batch, agents, size = self.task.simulation.batch, self.task.agents, len(self.limits)
        shapes = (batch, size), (batch, 1, size), (batch, agents, size)
        values = np.asarray(given)
        if values.dtype.kind not in "biuf" or values.shape not in shapes:
            each = f" or {shapes[-1]}" if agents > 1 else ""
            raise ValueError(
                f"Computed: the function returned {described(given)}, "
                f"but must return numbers of the shape {shapes[0]}{each}"
            )
        return values


class Motion(Sensor):
    """Angle in (-pi, pi], velocity (2 components) and angular velocity of one body for each agent."""

    def __init__(self, bodies: Sequence[int]) -> None:
        refuse_unless_bodies(self, "bodies", bodies)
        self._bodies = list(bodies)
        self.limits = np.array([np.pi, VELOCITY_LIMIT, VELOCITY_LIMIT, ANGULAR_VELOCITY_LIMIT])

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task."""
        super().bind(task, name, first)
        _check_bodies(self, self._bodies, task)
        _check_one_each(self, self._bodies, task)

    def read(self) -> FloatArray:
        """Return angle, velocity and angular velocity."""
        state, bodies = self.task.simulation.body_state, self._bodies
        angle, spin = wrap_angle(state.angle[:, bodies]), state.angular_velocity[:, bodies]
        return np.concatenate(
            [angle[..., None], state.velocity[:, bodies], spin[..., None]], axis=-1
        )


class Skin(Sensor):
    """Velocity of the flow relative to the surface of one body per agent, at several points, in the axes of the box.

    Parameters
    ----------
    bodies : sequence of int
    skin : (n, 2)
        Points on the surface, in the frame of the body; their velocity is subtracted from that of the flow.
    outside : (n, 2)
        Points where the flow is sensed. They lie outside the surface, where no slip would make the difference vanish.
    """

    def __init__(self, bodies: Sequence[int], skin: npt.ArrayLike, outside: npt.ArrayLike) -> None:
        refuse_unless_bodies(self, "bodies", bodies)
        self._bodies = list(bodies)
        self._skin, self._outside = _numbers(self, "skin", skin), _numbers(self, "outside", outside)
        if self._skin.shape != self._outside.shape or self._skin.shape[1:] != (2,):
            raise ValueError(
                f"skin and outside have the shapes {self._skin.shape} and {self._outside.shape}, "
                "but must both have (n, 2)"
            )
        if not (np.isfinite(self._skin).all() and np.isfinite(self._outside).all()):
            raise ValueError("skin and outside must be finite")
        self.limits = np.full(self._skin.size, VELOCITY_LIMIT)
        self._first = 0

    def carried(self) -> Sequence[Carried]:
        """Return the sensing points, body by body."""
        return [(body, (float(x), float(y))) for body in self._bodies for x, y in self._outside]

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task."""
        super().bind(task, name, first)
        _check_one_each(self, self._bodies, task)
        self._first = first

    def read(self) -> FloatArray:
        """Return the velocity of the flow minus that of the surface, V + omega x r."""
        simulation, bodies, points = self.task.simulation, self._bodies, len(self._skin)
        state, count = simulation.body_state, len(bodies) * points
        # Contiguous copies: for a strided array, numpy may compute cosines that differ in the last bits.
        arm = turned(self._skin, state.angle[:, bodies].copy())
        omega = state.angular_velocity[:, bodies, None]
        surface = state.velocity[:, bodies, None, :] + np.stack(
            [-omega * arm[..., 1], omega * arm[..., 0]], axis=-1
        )
        flow = simulation.sensed[:, self._first : self._first + count]
        shape = (simulation.batch, len(bodies), points, 2)
        return (flow.reshape(shape) - surface).reshape(*shape[:2], -1)

    def places(self, index: int) -> FloatArray:
        """Return the current positions of the sensing points."""
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
        ``"velocity"`` or ``"pressure"``; the constant of the pressure is that of the solver.
    """

    def __init__(
        self, points: npt.ArrayLike, quantity: Literal["velocity", "pressure"] = "velocity"
    ) -> None:
        if quantity not in ("velocity", "pressure"):
            raise ValueError(f"quantity = {quantity!r}: a probe measures velocity or pressure")
        self._points, self._quantity = _numbers(self, "points", points), quantity
        if self._points.ndim != 2 or self._points.shape[1] != 2:
            raise ValueError(
                f"points have shape {self._points.shape}, but must have (n, 2), x and y each"
            )
        velocity = np.full(self._points.size, VELOCITY_LIMIT)
        pressure = np.full(len(self._points), PRESSURE_LIMIT)
        self.limits = velocity if quantity == "velocity" else pressure

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task."""
        super().bind(task, name, first)
        width, height = task.simulation.grid.size
        for x, y in self._points:
            if not (0.0 <= x <= width and 0.0 <= y <= height):
                raise ValueError(
                    f"Probes: ({x:g}, {y:g}) is not in the box of {width:g} x {height:g}"
                )

    def read(self) -> FloatArray:
        """Return the measurements of the probes."""
        simulation = self.task.simulation
        if self._quantity == "pressure":
            return simulation.sample_pressure(self._points)
        points = np.broadcast_to(self._points, (simulation.batch, *self._points.shape))
        return simulation.sample_velocity(points).reshape(simulation.batch, -1)

    def places(self, index: int) -> FloatArray:
        """Return the positions of the probes."""
        return self._points


class MeanLoads(Sensor):
    """Loads on bodies (`Loads`), averaged over the last action, the same for all agents.

    Parameters
    ----------
    bodies : sequence of int
    names : sequence of str
        Any of ``drag``, ``lift``, ``torque`` and ``power``.
    """

    def __init__(self, bodies: Sequence[int], names: Sequence[str] = ("drag", "lift")) -> None:
        refuse_unless_bodies(self, "bodies", bodies)
        known = isinstance(names, Sequence) and all(name in LOAD_NAMES for name in names)
        if isinstance(names, str) or not known or not names:
            raise ValueError(
                f"names = {names!r}: a sequence of loads, each one of {', '.join(LOAD_NAMES)}"
            )
        self._bodies, self._names = list(bodies), tuple(names)
        self.limits = np.full(len(self._bodies) * len(self._names), LOAD_LIMIT)

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task."""
        super().bind(task, name, first)
        _check_bodies(self, self._bodies, task)

    def read(self) -> FloatArray:
        """Return the averages, quantity by quantity."""
        averages = self.task.loads.averages()
        return np.concatenate([averages[name][:, self._bodies] for name in self._names], axis=-1)


class _PastValues(Sensor):
    """Values of the last n actions, newest first, stored in the memory of the task; shape (B, N, n, size)."""

    def __init__(self, length: int) -> None:
        if not (is_whole(length) and length >= 1):
            raise ValueError(f"length = {length!r}: it must be a whole number, at least 1")
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
        """Return the stored values, newest first."""
        batch, agents = self._values.shape[:2]
        return self._values.reshape(batch, agents, -1).copy()


class History(_PastValues):
    """The last n measurements of a sensor, one per action, newest first.

    At the start of an episode all n are filled with the first measurement.

    Parameters
    ----------
    sensor : Sensor
    length : int
        Number of measurements n.
    """

    def __init__(self, sensor: Sensor, length: int) -> None:
        super().__init__(length)
        if not isinstance(sensor, Sensor):
            raise ValueError(f"History: sensor = {sensor!r}, but must be a sensor")
        self._sensor = sensor

    def carried(self) -> Sequence[Carried]:
        """Return the body-fixed points of the sensor."""
        return self._sensor.carried()

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task."""
        super().bind(task, name, first)
        self._sensor.bind(task, f"{name}, now", first)
        # some sensors, such as PastActions, know their limits only now
        self.limits = np.tile(self._sensor.limits, self._length)
        self._remember(len(self._sensor.limits), name)

    def _now(self) -> FloatArray:
        return each_agent(self._sensor.read(), self.task.agents)

    def begin(self, which: BoolArray) -> None:
        """Fill the history with the current measurement."""
        self._sensor.begin(which)
        self._values[which] = self._now()[which, :, None]

    def note(self, commands: FloatArray) -> None:
        """Add the current measurement and drop the oldest."""
        self._sensor.note(commands)
        self._add(self._now())

    def places(self, index: int) -> FloatArray:
        """Return the positions of the sensor."""
        return self._sensor.places(index)


class PastActions(_PastValues):
    """The commands of the last n actions, newest first; zero before the first action."""

    def __init__(self, length: int = 1) -> None:
        super().__init__(length)

    def bind(self, task: Measured, name: str, first: int) -> None:
        """Attach the sensor to a task."""
        super().bind(task, name, first)
        self.limits = np.ones(self._length * task.command_size)
        self._remember(task.command_size, name)

    def begin(self, which: BoolArray) -> None:
        """Set the stored commands to zero."""
        self._values[which] = 0.0

    def note(self, commands: FloatArray) -> None:
        """Store the newest commands."""
        self._add(commands)


def _numbers(sensor: Sensor, key: str, given: npt.ArrayLike) -> FloatArray:
    """Return a parameter of a sensor as an array.

    Raises
    ------
    ValueError
        For anything that is not an array of numbers.
    """
    try:
        return np.array(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{type(sensor).__name__}: {key} = {given!r}, but must be numbers"
        ) from None


def _check_bodies(sensor: Sensor, bodies: Sequence[int], task: Measured) -> None:
    count, name = len(task.simulation.bodies), type(sensor).__name__
    for k in bodies:
        if not 0 <= k < count:
            raise ValueError(f"{name} is on body {k}, but there are {count} bodies")


def _check_one_each(sensor: Sensor, bodies: Sequence[int], task: Measured) -> None:
    if len(bodies) not in (1, task.agents):
        raise ValueError(
            f"{type(sensor).__name__} is on {len(bodies)} bodies, but takes one for each of {task.agents} agents"
        )


def described(values: object) -> str:
    """Return a value as text on one line: an array or a list by its type and shape."""
    array = np.asarray(values)
    return repr(values) if array.ndim == 0 else f"{array.dtype} of the shape {array.shape}"


def each_agent(values: FloatArray, agents: int) -> FloatArray:
    """Broadcast values of shape (B, size), (B, 1, size) or (B, N, size) to (B, N, size)."""
    values = values.reshape(values.shape[0], -1, values.shape[-1])
    return np.broadcast_to(values, (values.shape[0], agents, values.shape[-1]))


def wrap_angle(angle: FloatArray) -> FloatArray:
    """Wrap angles to (-pi, pi]."""
    return angle - 2.0 * np.pi * np.ceil((angle - np.pi) / (2.0 * np.pi))


def turned(points: FloatArray, angle: FloatArray) -> FloatArray:
    """Return points, shape (n, 2), rotated by angles, shape (...); the result has shape (..., n, 2)."""
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = points.T
    return np.stack([c * x - s * y, s * x + c * y], axis=-1)
