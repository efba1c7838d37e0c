"""Episodes of a flow task in a batch of simulations: starts, actions, ends, what the bodies feel, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cases.ellipse_agent import FloatArray
from cases.flow_task import BoolArray, FlowTask, Generators
from flowsim import Simulation
from flowsim.render.fields import Caption, draw_panel

Info = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What one action led to; all arrays have shape (B,)."""

    reward: FloatArray
    terminated: BoolArray
    truncated: BoolArray


class Loads:
    """Time averages, over one action, of what the bodies feel; shape (B, K) each for K bodies.

    drag and lift are the hydrodynamic forces along x and y, torque the hydrodynamic torque about the body's centre of
    mass. power is what the force and torque that hold or push the body spend in the frame of the undisturbed water:
    the agent's are constant over an action, the others' are opposite to those of the fluid.
    """

    def __init__(self, task: FlowTask[Any]) -> None:
        self._task = task
        shape = task.simulation.body_state.torque.shape
        self._begin = np.zeros(shape[0])
        self._place = np.zeros((*shape, 3))

    def clear(self, which: BoolArray | slice = slice(None)) -> None:
        """Start averaging again, in the simulations of a mask or in all."""
        self._task.simulation.body_state.impulse[which] = 0.0
        self._begin[which] = self._task.simulation.time[which]
        self._place[which] = self._places()[which]

    def _places(self) -> FloatArray:
        state = self._task.simulation.body_state
        return np.concatenate([state.position, state.angle[..., None]], axis=-1)

    def averages(self) -> dict[str, FloatArray]:
        """Return the averages of all simulations, shape (B, K) each; zero before the first step."""
        simulation, agent = self._task.simulation, self._task.agent
        state = simulation.body_state
        span = (simulation.time - self._begin)[:, None, None]
        per_span = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0.0)
        mean = state.impulse * per_span
        pushing = -mean
        pushing[:, agent, :2] = state.applied_force[:, agent]
        pushing[:, agent, 2] = state.applied_torque[:, agent]
        moved = self._places() - self._place
        moved[..., :2] -= np.asarray(self._task.stream()) * span
        power = (pushing * moved).sum(axis=-1) * per_span[..., 0]
        # a diverged simulation reports no power rather than an infinite one
        return {
            "drag": mean[..., 0],
            "lift": mean[..., 1],
            "torque": mean[..., 2],
            "power": np.nan_to_num(power, posinf=0.0),
        }

    def get_state(self, index: int) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of what the averages of one simulation begin with."""
        return {"begin": self._begin[index].copy(), "place": self._place[index].copy()}

    def set_state(self, index: int, state: dict[str, npt.NDArray[Any]]) -> None:
        """Restore what `get_state` returned."""
        self._begin[index], self._place[index] = state["begin"], state["place"]


class Episodes:
    """Episodes of one task in a batch of simulations: starts, actions, ends, information and pictures.

    Attributes
    ----------
    watch : callable or None
        Called with the simulation after every solver step, for films; it must not change anything.
    """

    def __init__(self, task: FlowTask[Any]) -> None:
        self.task = task
        self.watch: Callable[[Simulation], None] | None = None
        batch = task.batch
        self.loads = Loads(task)
        self.actions_done = np.zeros(batch, dtype=np.int64)
        self.returns = np.zeros(batch)
        self.applied = np.zeros((batch, 3))
        self.solver_steps = np.zeros(batch, dtype=np.int64)
        self.start_time = np.zeros(batch)

    def start(self, generators: Generators) -> None:
        """Begin new episodes, all at once, in the simulations of these numbers, each from its own generator."""
        if not generators:
            return
        which = np.zeros(self.task.batch, dtype=np.bool_)
        which[list(generators)] = True
        self.task.start(which, generators)
        self.loads.clear(which)
        self.start_time[which] = self.task.simulation.time[which]
        self.actions_done[which] = self.solver_steps[which] = 0
        self.returns[which] = 0.0
        self.applied[which] = 0.0

    def play(self, actions: npt.ArrayLike, active: BoolArray | None = None) -> Outcome:
        """Apply the actions, shape (B, 3), for one action time, or until the agent leaves the box.

        Simulations that are not `active`, shape (B,), stand still, and their outcome means nothing: each has to be
        started next.
        """
        simulation, options = self.task.simulation, self.task.options
        self.applied[:] = self._checked(actions)
        self.task.actuate(self.applied)
        self.loads.clear()
        steps_before = simulation.steps.copy()
        left = simulation.advance(
            options.action_time, active, None if self.watch is None else self._watched
        )
        self.solver_steps[:] = simulation.steps - steps_before
        self.actions_done += 1
        terminated = left | simulation.diverged
        reward = np.where(terminated, self.task.failure_reward, self.task.reward(self.applied))
        self.returns += reward
        truncated = (self.actions_done >= options.episode_actions) & ~terminated
        return Outcome(reward, terminated, truncated)

    def _watched(self, simulation: Simulation) -> BoolArray:
        if self.watch is not None:
            self.watch(simulation)
        return np.zeros(self.task.batch, dtype=np.bool_)

    def _checked(self, actions: npt.ArrayLike) -> FloatArray:
        values = np.asarray(actions, dtype=np.float64)
        if values.shape != self.applied.shape:
            raise ValueError(
                f"actions have the shape {values.shape}, but must have {self.applied.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"actions must be finite numbers, but are {values.tolist()}")
        return np.clip(values, -1.0, 1.0)

    def observations(self) -> npt.NDArray[np.float32]:
        """Return finite observations within their space, shape (B, n), even of diverged simulations."""
        high = self.task.observation_space.high
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.nan_to_num(self.task.observe(), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.clip(values, -high, high).astype(np.float32)

    def infos(self) -> list[Info]:
        """Return the information of every simulation as documented in `FlowEnv`."""
        simulation, averages = self.task.simulation, self.loads.averages()
        return [
            {
                "time": float(simulation.time[b] - self.start_time[b]),
                "applied_action": self.applied[b].copy(),
                **{name: values[b].copy() for name, values in averages.items()},
                "solver_steps": int(self.solver_steps[b]),
                "diverged": bool(simulation.diverged[b]),
            }
            for b in range(self.task.batch)
        ]

    def caption(self, index: int) -> Caption:
        """Return the numbers written into a picture of simulation `index`."""
        return Caption(
            time=float(self.task.simulation.time[index] - self.start_time[index]),
            episode_return=float(self.returns[index]),
            action=tuple(float(a) for a in self.applied[index]),
        )

    def picture(self, index: int) -> npt.NDArray[np.uint8]:
        """Return a picture of simulation `index`, shape (height, width, 3)."""
        return np.asarray(draw_panel(self.task.scene(index), self.caption(index)))

    def get_state(self, index: int) -> dict[str, Any]:
        """Return a copy of everything that the future of simulation `index` depends on."""
        return {
            "simulation": self.task.simulation.get_state(index),
            "memory": {name: array[index].copy() for name, array in self.task.memory.items()},
            "loads": self.loads.get_state(index),
            "actions_done": int(self.actions_done[index]),
            "return": float(self.returns[index]),
            "applied": self.applied[index].copy(),
            "solver_steps": int(self.solver_steps[index]),
            "start_time": float(self.start_time[index]),
        }

    def set_state(self, index: int, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned, to the bit."""
        self.task.simulation.set_state(index, state["simulation"])
        for name, value in state["memory"].items():
            self.task.memory[name][index] = value
        self.loads.set_state(index, state["loads"])
        self.actions_done[index] = state["actions_done"]
        self.returns[index] = state["return"]
        self.applied[index] = state["applied"]
        self.solver_steps[index] = state["solver_steps"]
        self.start_time[index] = state["start_time"]
