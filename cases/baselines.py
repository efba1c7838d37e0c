"""Baseline controllers: zero and random actions, and the usual baselines of each task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Actions = npt.NDArray[np.float32]

# Columns of the observation in both tasks with an ellipse.
_POSITION, _ANGLE, _VELOCITY, _SPIN = slice(0, 2), 2, slice(3, 5), 5


class Controller(Protocol):
    """A controller of n environments at once; a trained policy has the same interface."""

    def reset(self, n: int) -> None:
        """Clear the internal state and prepare for n environments."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return actions, shape (n, action size), for observations, shape (n, observation size)."""


def _shape_of(action_size: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an environment's action, (A,) or, for several agents, (N, A)."""
    return action_size if isinstance(action_size, tuple) else (action_size,)


class ZeroController:
    """The zero action."""

    def __init__(self, action_size: int | tuple[int, ...] = 3) -> None:
        self._shape = _shape_of(action_size)

    def reset(self, n: int) -> None:
        """Do nothing: there is no state."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return zeros."""
        return np.zeros((len(observations), *self._shape), dtype=np.float32)


class RandomController:
    """Actions sampled uniformly from [-1, 1]."""

    def __init__(self, action_size: int | tuple[int, ...] = 3, seed: int = 0) -> None:
        self._shape, self._seed = _shape_of(action_size), seed
        self._generator = np.random.default_rng(seed)

    def reseed(self, part: int) -> None:
        """Switch to the random stream of one part of an evaluation."""
        self._generator = np.random.default_rng((self._seed, part))

    def reset(self, n: int) -> None:
        """Do nothing: the generator is not reset."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return random actions."""
        shape = len(observations), *self._shape
        return self._generator.uniform(-1.0, 1.0, shape).astype(np.float32)


@dataclass(frozen=True)
class FunctionController:
    """A function that returns the actions (n, action size) for observations (n, observation size), without a state."""

    function: Callable[[npt.NDArray[np.floating]], Actions]

    def reset(self, n: int) -> None:
        """Do nothing: there is no state."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the actions."""
        return self.function(observations)


@dataclass(frozen=True)
class PDController:
    """Proportional-derivative feedback on position and angle.

    The force is position_gain * (position error) - velocity_gain * velocity + bias in x and y; the torque follows from
    angle and angular velocity in the same way, without a bias. The gains assume one action per T, held constant, and
    the default scales of force and torque.

    Attributes
    ----------
    position_gain, velocity_gain : (x, y)
    angle_gain, spin_gain : float
    goal : (x, y) or None
        Target position in the coordinates of the observation. With None, the first two observations are taken as the
        position error.
    goal_angle : float
        Target angle of the major axis, modulo pi.
    bias : (x, y)
        Constant force command that balances a steady drag.
    """

    position_gain: tuple[float, float]
    velocity_gain: tuple[float, float]
    angle_gain: float
    spin_gain: float
    goal: tuple[float, float] | None = None
    goal_angle: float = 0.0
    bias: tuple[float, float] = (0.0, 0.0)

    def reset(self, n: int) -> None:
        """Do nothing: there is no state."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the feedback, clipped."""
        position = np.asarray(observations)[:, _POSITION]
        error = position if self.goal is None else np.asarray(self.goal) - position
        push = (
            np.asarray(self.position_gain) * error
            - np.asarray(self.velocity_gain) * observations[:, _VELOCITY]
            + np.asarray(self.bias)
        )
        tilt = observations[:, _ANGLE] - self.goal_angle
        tilt = tilt - np.pi * np.round(tilt / np.pi)
        turn = -self.angle_gain * tilt - self.spin_gain * observations[:, _SPIN]
        actions = np.column_stack([push, turn])
        return np.clip(actions, -1.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class ConstantController:
    """A constant action."""

    action: tuple[float, ...]

    def reset(self, n: int) -> None:
        """Do nothing: there is no state."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the action."""
        return np.tile(np.array(self.action, np.float32), (len(observations), 1))


@dataclass
class HarmonicController:
    """Open-loop control in which each action component is a sine of time.

    Attributes
    ----------
    amplitude : tuple of float
        Amplitude of each action component.
    period : float
        Period, in actions.
    """

    amplitude: tuple[float, ...]
    period: float
    _actions: int = field(default=0, init=False, repr=False)

    def reset(self, n: int) -> None:
        """Restart at phase zero."""
        self._actions = 0

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the next action, the sine at the middle of the action's interval."""
        self._actions += 1
        phase = 2.0 * np.pi * (self._actions - 0.5) / self.period
        action = np.array(self.amplitude) * np.sin(phase)
        return np.tile(action.astype(np.float32), (len(observations), 1))


@dataclass
class FeedbackController:
    """Delayed proportional feedback of the difference of two observations.

    Attributes
    ----------
    gain : tuple of float
        Gain of each action component.
    plus, minus : int
        Indices of the two observations; the difference plus - minus is fed back.
    delay : int
        Delay, in actions.
    """

    gain: tuple[float, ...]
    plus: int
    minus: int
    delay: int = 0
    _past: list[npt.NDArray[np.floating]] = field(default_factory=list, init=False, repr=False)

    def reset(self, n: int) -> None:
        """Clear the past; actions are zero until the delay has passed."""
        self._past = [np.zeros(n)] * self.delay

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the feedback, clipped."""
        self._past.append(observations[:, self.plus] - observations[:, self.minus])
        actions = self._past.pop(0)[:, None] * np.array(self.gain)
        return np.clip(actions, -1.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class LinearController:
    """Linear feedback of some observations.

    Attributes
    ----------
    observed : tuple of int
        Indices of the k observations that are fed back.
    gains : (k,) or (n, k)
        Gain of each observation on the first action component, for all environments or for each of n environments;
        the other components are zero.
    action_size : int
    """

    observed: tuple[int, ...]
    gains: npt.ArrayLike
    action_size: int = 1

    def reset(self, n: int) -> None:
        """Do nothing: there is no state."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the feedback, clipped."""
        fed = np.asarray(observations)[:, list(self.observed)]
        actions = np.zeros((len(fed), self.action_size), np.float32)
        actions[:, 0] = np.clip((fed * np.asarray(self.gains)).sum(axis=1), -1.0, 1.0)
        return actions


@dataclass
class AveragedPDController:
    """Proportional-derivative feedback of each action component on the mean of some observations.

    The action is -(gain e + damping (e - e_before)), where e is the mean now and e_before that of the action before.

    Attributes
    ----------
    observations : (m, k) int
        Indices of the k observations averaged for each of the m action components.
    gain, damping : float
        Gains of the mean and of its change since the action before.
    """

    observations: npt.NDArray[np.int64]
    gain: float
    damping: float = 0.0
    _before: npt.NDArray[np.floating] | None = field(default=None, init=False, repr=False)

    def reset(self, n: int) -> None:
        """Clear the past."""
        self._before = None

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the feedback, clipped."""
        error = np.asarray(observations, np.float64)[:, self.observations].mean(axis=2)
        before = error if self._before is None else self._before
        self._before = error
        actions = -(self.gain * error + self.damping * (error - before))
        return np.clip(actions, -1.0, 1.0).astype(np.float32)


def above_heaters(component: int, rows: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the indices of the observations of flowsim/RayleighBenard-v0 above each of its ten heaters.

    ``component`` is 0 for u, 1 for v and 2 for the temperature; rows are counted from below.
    """
    numbers = np.arange(720).reshape(3, 10, 3, 8)
    return numbers[component][:, :, list(rows)].reshape(10, -1)


PD = {
    # The goal is close behind the cylinder, with the major axis across the stream: the low pressure there holds A, and
    # a slender body in a wake turns across the stream by itself. Tuned by hand and with a random search over the gains
    # (preset sketch).
    "flowsim/DCylinderWake-v0": PDController(
        position_gain=(0.85, 0.3),
        velocity_gain=(0.95, 1.5),
        angle_gain=0.4,
        spin_gain=0.25,
        goal=(0.75, 0.0),
        goal_angle=1.75,
    ),
    "flowsim/EllipticalSwimmer-v0": PDController(
        position_gain=(0.5, 0.5), velocity_gain=(1.0, 1.0), angle_gain=0.3, spin_gain=0.6
    ),
}
"""The hand-tuned controller of each task."""

NAMED: dict[str, dict[str, Controller]] = {
    "flowsim/CylinderJets-v0": {
        # these and the baselines of the next three tasks: benchmarks/learning/baseline_search.py
        "suction": ConstantController((-0.177,)),
        "harmonic": HarmonicController((0.709,), 10.0),
        "opposition": FeedbackController((1.0,), plus=1, minus=0, delay=1),
    },
    "flowsim/SquareJets-v0": {
        "suction": ConstantController((0.1,)),
        "harmonic": HarmonicController((0.25,), 17.0),
        "opposition": FeedbackController((4.0,), plus=55, minus=8, delay=3),
    },
    "flowsim/FluidicPinball-v0": {
        "boat_tailing": ConstantController((0.0, -1.0, 1.0)),
        # costs power at every amplitude: this one is not from the search
        "base_bleed": ConstantController((0.0, 0.25, -0.25)),
        "magnus": ConstantController((-0.1, -0.1, -0.1)),
        "forward_stagnation": ConstantController((-0.354, 0.0, 0.0)),
        "harmonic": HarmonicController((0.0, 0.1, 0.1), 5.0),
    },
    "flowsim/RotatingCylinder-v0": {
        "constant_spin": ConstantController((0.1,)),
        "harmonic": HarmonicController((0.709,), 15.0),
        "feedback": FeedbackController((5.657,), plus=2, minus=0),
    },
    "flowsim/PitchingFoil-v0": {
        # gains of the lift deviation now and one action before, of angle and angular velocity: PD feedback of the lift
        # with a restoring term for the angle, from a cross-entropy search (benchmarks/learning/pitching_foil.py)
        "linear_feedback": LinearController((0, 3, 1, 2), (0.5, -0.42, -0.49, -0.64)),
    },
    "flowsim/BackwardStep-v0": {
        # gains of velocities ahead of the slot, now and one action before, from a cross-entropy search
        # (benchmarks/learning/backward_step.py)
        "linear_feedback": LinearController(
            (0, 3, 6, 9, 19, 22, 25, 28), (2.4, -20.0, 10.1, 14.8, -13.9, -7.6, 2.9, -0.2)
        ),
    },
    "flowsim/OpenCavity-v0": {
        "blowing": ConstantController((1.0,)),
        # gains of the vertical velocity at four points of the shear layer, now and one action before, from a
        # cross-entropy search (benchmarks/learning/open_cavity.py)
        "linear_feedback": LinearController(
            (1, 3, 5, 7, 10, 12, 14, 16), (-36.7, -4.7, -0.0, -0.4, -53.7, -0.1, -5.6, -1.1)
        ),
    },
    "flowsim/RayleighBenard-v0": {
        "pd": AveragedPDController(above_heaters(1, range(8)), gain=7.071, damping=-10.0),
    },
}
"""The usual baselines of each task, by name."""

READS: dict[tuple[str, str], dict[str, Collection[Any]]] = {
    ("flowsim/SquareJets-v0", "opposition"): {"sensors": ("base",), "base_pressures": (64,)},
    ("flowsim/PitchingFoil-v0", "linear_feedback"): {"past": range(2, 51)},
    ("flowsim/BackwardStep-v0", "linear_feedback"): {"past": range(2, 51), "sensors": ("both",)},
    ("flowsim/OpenCavity-v0", "linear_feedback"): {"past": range(2, 51), "sensors": ("both",)},
}
"""Option values for which the observations of a task match those that a baseline expects."""


def baselines(
    env_id: str,
    action_size: int | tuple[int, ...] = 3,
    seed: int = 0,
    env_options: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Controller]:
    """Return the baselines of an environment by name: "zero", "random", and those defined for the task.

    A feedback controller is left out if ``env_options`` select sensors that it was not made for (:data:`READS`).
    """
    controllers: dict[str, Controller] = {
        "zero": ZeroController(action_size),
        "random": RandomController(action_size, seed),
    }
    name = env_id.rsplit(":", 1)[-1]
    if name in PD:
        controllers["pd"] = PD[name]
    for key, controller in NAMED.get(name, {}).items():
        needed = READS.get((name, key), {})
        if all(env_options[option] in needed[option] for option in needed if option in env_options):
            controllers[key] = controller
    return controllers
