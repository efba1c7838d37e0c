"""Best mean returns of the small tasks, from the Riccati equation, dynamic programming, or the task's definition.

Run ``python -m cases.small.best`` to print them all, together with the return of zero actions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cases.small.env import Chain, Glide, LinearQuadratic
from flowsim.backend.jit_cache import at_once

__all__ = ["TASKS", "Reference", "chain", "glide", "linear_quadratic", "pendulum"]

LQ_STEPS, GLIDE_STEPS, CHAIN_STEPS, PENDULUM_STEPS = 20, 500, 50, 200
"""The registered time limits."""


@functools.cache
def linear_quadratic(dimension: int, places: int = 1001, actions: int = 201) -> float:
    """Return the best return by dynamic programming on a grid over 20 steps; the components are independent."""
    x, a = np.linspace(-1.0, 1.0, places), np.linspace(-1.0, 1.0, actions)
    after = x[:, None] + LinearQuadratic.STEP * a
    reward = -(after**2) - LinearQuadratic.EFFORT * a**2
    value = np.zeros_like(x)
    for _ in range(LQ_STEPS):
        # leaving [-1, 1] is never optimal, so the value outside is not needed
        value = (reward + np.interp(after.ravel(), x, value).reshape(after.shape)).max(axis=1)
    return dimension * float(np.trapezoid(value, x) / 2.0)


def glide() -> float:
    """Return the best return by the Riccati equation over 500 steps.

    The value of an initial state at rest is -P_xx x^2, and the mean of x^2 is 1/3.
    """
    dt = Glide.DT
    forward = np.array([[1.0, dt * (1.0 - dt)], [0.0, 1.0 - dt]])
    push = np.array([[dt * dt], [dt]])
    cost, effort = np.diag([dt, 0.0]), np.array([[dt]])
    p = np.zeros((2, 2))
    for _ in range(GLIDE_STEPS):
        gain = np.linalg.solve(effort + push.T @ p @ push, push.T @ p @ forward)
        p = cost + forward.T @ p @ (forward - push @ gain)
    return -float(p[0, 0]) / 3.0


def chain() -> float:
    """Return the best return by dynamic programming over 50 steps and eight states."""
    places = np.arange(Chain.PLACES)
    reward = np.where(places == Chain.PLACES - 1, 1.0, np.where(places == 0, Chain.LOW, 0.0))
    up, down = np.minimum(places + 1, Chain.PLACES - 1), np.maximum(places - 1, 0)
    value = np.zeros(Chain.PLACES)
    for _ in range(CHAIN_STEPS):
        then = reward + value
        climb = Chain.UP * then[up] + Chain.STAY * then + (1.0 - Chain.UP - Chain.STAY) * then[down]
        value = np.maximum(climb, then[down])
    return float(value[1])


@at_once
def _pendulum_back(value: np.ndarray, angles: int, top: float, torques: np.ndarray) -> np.ndarray:
    """Return the value one step earlier in Pendulum-v1 (g = 10, m = l = 1, dt = 0.05), with bilinear interpolation."""
    rates = value.shape[1]
    best = np.empty_like(value)
    for i in range(angles):
        angle = -np.pi + 2.0 * np.pi * i / angles
        for j in range(rates):
            rate = -top + 2.0 * top * j / (rates - 1)
            best[i, j] = -np.inf
            for u in torques:
                new = min(max(rate + (15.0 * np.sin(angle) + 3.0 * u) * 0.05, -top), top)
                at = (angle + 0.05 * new + np.pi) / (2.0 * np.pi) * angles
                low = int(np.floor(at))
                to = (new + top) / (2.0 * top) * (rates - 1)
                k = min(int(to), rates - 2)
                s, t, here, there = at - low, to - k, low % angles, (low + 1) % angles
                then = (1 - s) * ((1 - t) * value[here, k] + t * value[here, k + 1])
                then += s * ((1 - t) * value[there, k] + t * value[there, k + 1])
                best[i, j] = max(best[i, j], then - angle**2 - 0.1 * rate**2 - 0.001 * u**2)
    return best


def pendulum(angles: int = 400, rates: int = 321, torques: int = 9) -> float:
    """Return the best return by dynamic programming over 200 steps of Pendulum-v1 on a grid of angles and rates.

    The results are -138.9, -137.9 and -137.5 on grids of 200 x 161, 400 x 321 and 800 x 641 with 9 torques: the error
    is below 1.
    """
    top, value = 8.0, np.zeros((angles, rates))
    for _ in range(PENDULUM_STEPS):
        value = _pendulum_back(value, angles, top, np.linspace(-2.0, 2.0, torques))
    rate = np.linspace(-top, top, rates)
    starts = np.linspace(-1.0, 1.0, 41)
    of_starts = [np.trapezoid(np.interp(starts, rate, row), starts) / 2.0 for row in value]
    return float(np.mean(of_starts))


@dataclass(frozen=True)
class Reference:
    """Reference returns of a task.

    Attributes
    ----------
    preset
        Preset of the task.
    best
        Computes the best mean return.
    nothing
        Mean return of zero actions (for discrete actions of the first one, for recall of the mean of the cues).
    how
        How the best return was determined.
    """

    preset: str
    best: Callable[[], float]
    nothing: float
    how: str


TASKS: dict[str, Reference] = {
    "lq1": Reference("small/lq1", lambda: linear_quadratic(1), -20 / 3, "dynamic programming"),
    "lq2": Reference("small/lq2", lambda: linear_quadratic(2), -40 / 3, "dynamic programming"),
    "lq4": Reference("small/lq4", lambda: linear_quadratic(4), -80 / 3, "dynamic programming"),
    "glide": Reference("small/glide", glide, -GLIDE_STEPS * Glide.DT / 3, "Riccati"),
    "pendulum": Reference("small/pendulum", pendulum, -1218.7, "dynamic programming"),
    "hidden_pendulum": Reference(
        "small/hidden_pendulum", pendulum, -1218.7, "that of the pendulum, which no policy exceeds"
    ),
    "recall": Reference("small/recall", lambda: 1.0, 0.0, "by its definition"),
    "reach": Reference("small/reach", lambda: 1.0, 0.0, "by its definition"),
    "chain": Reference("small/chain", chain, CHAIN_STEPS * Chain.LOW, "dynamic programming"),
}
"""The nine tasks, by name."""


if __name__ == "__main__":
    for name, task in TASKS.items():
        print(f"{name:15} best {task.best():9.4f}, nothing {task.nothing:9.4f}, {task.how}")
