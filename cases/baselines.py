"""Controllers to measure a learner against: zero and random action, and what the field compares with in each task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Actions = npt.NDArray[np.float32]

# Columns of the observation of both tasks.
_POSITION, _ANGLE, _VELOCITY, _SPIN = slice(0, 2), 2, slice(3, 5), 5


class Controller(Protocol):
    """Chooses actions for n environments at once; a trained policy has the same form."""

    def reset(self, n: int) -> None:
        """Forget the past and get ready for n environments."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return actions, shape (n, action size), for observations, shape (n, observation size)."""


def _shape_of(action_size: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the action of an environment: (N, A), if it has several agents."""
    return action_size if isinstance(action_size, tuple) else (action_size,)


class ZeroController:
    """Does nothing."""

    def __init__(self, action_size: int | tuple[int, ...] = 3) -> None:
        self._shape = _shape_of(action_size)

    def reset(self, n: int) -> None:
        """Nothing to forget."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return zeros."""
        return np.zeros((len(observations), *self._shape), dtype=np.float32)


class RandomController:
    """Draws every action uniformly from [-1, 1]."""

    def __init__(self, action_size: int | tuple[int, ...] = 3, seed: int = 0) -> None:
        self._shape, self._seed = _shape_of(action_size), seed
        self._generator = np.random.default_rng(seed)

    def reseed(self, part: int) -> None:
        """Draw from the stream of a part of an evaluation."""
        self._generator = np.random.default_rng((self._seed, part))

    def reset(self, n: int) -> None:
        """Nothing to forget: the generator goes on."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return random actions."""
        shape = len(observations), *self._shape
        return self._generator.uniform(-1.0, 1.0, shape).astype(np.float32)


@dataclass(frozen=True)
class PDController:
    """Proportional-derivative feedback on position and angle.

    The body is moved as (error of the position) * gain - velocity * damping, in x and y, and turned likewise.
    The gains assume one action per T, constant in between, and to the default scales of force and torque.

    Attributes
    ----------
    position_gain, velocity_gain : (x, y)
    angle_gain, spin_gain : float
    goal : (x, y) or None
        Where the body should be, in the coordinates of the observation. None: the first two observations are
        already the way to go.
    goal_angle : float
        Which way its major axis should point; an ellipse is the same after half a turn.
    bias : (x, y)
        Constant action, against a steady drag.
    """

    position_gain: tuple[float, float]
    velocity_gain: tuple[float, float]
    angle_gain: float
    spin_gain: float
    goal: tuple[float, float] | None = None
    goal_angle: float = 0.0
    bias: tuple[float, float] = (0.0, 0.0)

    def reset(self, n: int) -> None:
        """Nothing to forget."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return clipped feedback."""
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
    """Always the same action."""

    action: tuple[float, ...]

    def reset(self, n: int) -> None:
        """Nothing to forget."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the action."""
        return np.tile(np.array(self.action, np.float32), (len(observations), 1))


@dataclass
class HarmonicController:
    """Open loop: each number of the action is a sine of the time.

    Attributes
    ----------
    amplitude : tuple of float
        Of each number of the action.
    period : float
        In actions.
    """

    amplitude: tuple[float, ...]
    period: float
    _actions: int = field(default=0, init=False, repr=False)

    def reset(self, n: int) -> None:
        """Begin the first period."""
        self._actions = 0

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the action of this moment, the mean of the sine over it."""
        self._actions += 1
        phase = 2.0 * np.pi * (self._actions - 0.5) / self.period
        action = np.array(self.amplitude) * np.sin(phase)
        return np.tile(action.astype(np.float32), (len(observations), 1))


@dataclass
class FeedbackController:
    """Proportional feedback of differences of two observations, with a delay.

    Attributes
    ----------
    gain : tuple of float
        Of each number of the action.
    plus, minus : int
        Numbers of the observations whose difference is fed back.
    delay : int
        In actions.
    """

    gain: tuple[float, ...]
    plus: int
    minus: int
    delay: int = 0
    _past: list[npt.NDArray[np.floating]] = field(default_factory=list, init=False, repr=False)

    def reset(self, n: int) -> None:
        """Forget the past; nothing is done until the delay has passed."""
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
        Numbers of the observations that are fed back.
    gains : (k,) or (n, k)
        Of each of them, for all environments or for each of n, onto the first number of the action; the others are
        zero.
    action_size : int
    """

    observed: tuple[int, ...]
    gains: npt.ArrayLike
    action_size: int = 1

    def reset(self, n: int) -> None:
        """Nothing to forget."""

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the feedback, clipped."""
        fed = np.asarray(observations)[:, list(self.observed)]
        actions = np.zeros((len(fed), self.action_size), np.float32)
        actions[:, 0] = np.clip((fed * np.asarray(self.gains)).sum(axis=1), -1.0, 1.0)
        return actions


@dataclass
class AveragedPDController:
    """Proportional-derivative feedback that takes each number of the action from the mean of some observations.

    The action is -(gain e + damping (e - e before)), e being the mean.

    Attributes
    ----------
    observations : (m, k) int
        Numbers of the observations that each number of the action is the feedback of.
    gain, damping : float
        The second for the change in an action.
    """

    observations: npt.NDArray[np.int64]
    gain: float
    damping: float = 0.0
    _before: npt.NDArray[np.floating] | None = field(default=None, init=False, repr=False)

    def reset(self, n: int) -> None:
        """Forget the past."""
        self._before = None

    def __call__(self, observations: npt.NDArray[np.floating]) -> Actions:
        """Return the feedback, clipped."""
        error = np.asarray(observations, np.float64)[:, self.observations].mean(axis=2)
        before = error if self._before is None else self._before
        self._before = error
        actions = -(self.gain * error + self.damping * (error - before))
        return np.clip(actions, -1.0, 1.0).astype(np.float32)


def above_heaters(component: int, rows: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the numbers of the observations of flowsim/RayleighBenard-v0 above each of its ten heaters.

    ``component`` is 0 for u, 1 for v, 2 for the temperature; rows count from below.
    """
    numbers = np.arange(720).reshape(3, 10, 3, 8)
    return numbers[component][:, :, list(rows)].reshape(10, -1)


PD = {
    # Close behind the cylinder and across the stream: the low pressure there holds A, and a slender body in a wake
    # turns across the stream anyway. Found by trial, aided by a random search over the gains (preset sketch).
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
        "suction": ConstantController((0.25,)),
        "harmonic": HarmonicController((0.25,), 7.0),
        "opposition": FeedbackController((1.0,), plus=1, minus=0, delay=2),
    },
    "flowsim/SquareJets-v0": {
        "suction": ConstantController((0.25,)),
        "harmonic": HarmonicController((0.25,), 18.0),
        "opposition": FeedbackController((4.0,), plus=55, minus=8, delay=2),
    },
    "flowsim/FluidicPinball-v0": {
        "boat_tailing": ConstantController((0.0, -1.0, 1.0)),
        "base_bleed": ConstantController((0.0, 0.25, -0.25)),
        "magnus": ConstantController((-0.25, -0.25, -0.25)),
        "forward_stagnation": ConstantController((-0.25, 0.0, 0.0)),
        "harmonic": HarmonicController((0.0, 0.25, 0.25), 5.0),
    },
    "flowsim/RotatingCylinder-v0": {
        "constant_spin": ConstantController((0.25,)),
        "harmonic": HarmonicController((0.25,), 15.0),
        "feedback": FeedbackController((8.0,), plus=2, minus=0),
    },
    "flowsim/PitchingFoil-v0": {
        # of the deviation of the lift, the one before, angle, angular velocity: proportional and derivative feedback
        # of the lift that lets the angle return, from a cross-entropy search (benchmarks/learning/pitching_foil.py)
        "linear_feedback": LinearController((0, 3, 1, 2), (0.5, -0.42, -0.49, -0.64)),
    },
    "flowsim/BackwardStep-v0": {
        # of velocities ahead of the slot, now and an action before, from a cross-entropy search
        # (benchmarks/learning/backward_step.py)
        "linear_feedback": LinearController(
            (0, 3, 6, 9, 19, 22, 25, 28), (1.0, -29.1, 10.7, 9.5, -11.1, -9.3, 2.7, -2.3)
        ),
    },
    "flowsim/OpenCavity-v0": {
        "blowing": ConstantController((1.0,)),
        # of the velocity along y at four points of the shear layer, now and an action before, from a cross-entropy
        # search (benchmarks/learning/open_cavity.py)
        "linear_feedback": LinearController(
            (1, 3, 5, 7, 10, 12, 14, 16), (-36.7, -4.7, -0.0, -0.4, -53.7, -0.1, -5.6, -1.1)
        ),
    },
    "flowsim/RayleighBenard-v0": {
        "pd": AveragedPDController(above_heaters(1, (3, 4)), gain=5.0, damping=-5.0),
    },
}
"""What the field compares with in each task, by name."""

READS: dict[tuple[str, str], dict[str, Collection[Any]]] = {
    ("flowsim/SquareJets-v0", "opposition"): {"sensors": ("base",), "base_pressures": (64,)},
    ("flowsim/PitchingFoil-v0", "linear_feedback"): {"past": range(2, 51)},
    ("flowsim/BackwardStep-v0", "linear_feedback"): {"past": range(2, 51), "sensors": ("both",)},
    ("flowsim/OpenCavity-v0", "linear_feedback"): {"past": range(2, 51), "sensors": ("both",)},
}
"""Options of a task, and their values, with which the observations are those that a baseline was made for."""


def baselines(
    env_id: str,
    action_size: int | tuple[int, ...] = 3,
    seed: int = 0,
    env_options: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Controller]:
    """Return the baselines of an environment by name: "zero" and "random" of any, and what a task ships.

    Feedback of certain sensors is left out where ``env_options`` name others (:data:`READS`).
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
