"""Loads on the bodies of a batch of flows, averaged over an action."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flowsim import Simulation

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

LOAD_NAMES = ("drag", "lift", "torque", "power")


class Loads:
    """Time averages of the loads on the bodies over one action, each of shape (B, K) for K bodies.

    drag and lift are the hydrodynamic forces along x and y, torque is the hydrodynamic torque about the body's
    reference point. power is the power, in the frame of the undisturbed fluid, of the force and torque that hold or
    push the body, summed step by step: the applied ones of a free body, otherwise those that balance the hydrodynamic
    ones.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        shape = simulation.body_state.torque.shape
        self._begin = np.zeros(shape[0])
        self._place = np.zeros((*shape, 3))
        self._free = [k for k, body in enumerate(simulation.bodies) if body.motion == "free"]
        centroids = [body.centroid for body in simulation.bodies]
        self._centroids = np.array(centroids, np.float64).reshape(shape[1], 2)

    def clear(self, which: BoolArray | slice = slice(None)) -> None:
        """Restart the averages in the simulations selected by a mask, or in all."""
        self._simulation.body_state.impulse[which] = 0.0
        self._simulation.body_state.work[which] = 0.0
        self._begin[which] = self._simulation.time[which]
        self._place[which] = self._places()[which]

    def _places(self) -> FloatArray:
        """Return centre of mass, where an applied force acts, and angle of the bodies, shape (B, K, 3)."""
        state, (x, y) = self._simulation.body_state, self._centroids.T
        cos, sin = np.cos(state.angle), np.sin(state.angle)
        arm = np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)
        return np.concatenate([state.position + arm, state.angle[..., None]], axis=-1)

    def averages(self) -> dict[str, FloatArray]:
        """Return the averages of all simulations, each of shape (B, K); zero before the first step."""
        simulation, free = self._simulation, self._free
        state = simulation.body_state
        span = (simulation.time - self._begin)[:, None, None]
        per_span = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0.0)
        mean = state.impulse * per_span
        stream = np.asarray(simulation.stream)
        power = (mean[..., :2] * stream).sum(axis=-1) - state.work * per_span[..., 0]
        # the force and torque applied to a free body are constant during an action
        pushing = np.concatenate([state.applied_force, state.applied_torque[..., None]], axis=-1)
        moved = self._places() - self._place
        moved[..., :2] -= stream * span
        power[:, free] = ((pushing * moved).sum(axis=-1) * per_span[..., 0])[:, free]
        # a diverged simulation reports no power rather than an infinite one
        return {
            "drag": mean[..., 0],
            "lift": mean[..., 1],
            "torque": mean[..., 2],
            "power": np.nan_to_num(power, posinf=0.0),
        }

    def get_state(self, index: int) -> dict[str, npt.NDArray[np.float64]]:
        """Return a copy of the start time and the start positions of the averages of one simulation."""
        return {"begin": self._begin[index].copy(), "place": self._place[index].copy()}

    def set_state(self, index: int, state: dict[str, npt.NDArray[np.float64]]) -> None:
        """Restore a state returned by `get_state`."""
        self._begin[index], self._place[index] = state["begin"], state["place"]
