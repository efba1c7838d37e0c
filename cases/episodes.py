"""Episodes of a flow task in a batch of simulations: starts, actions, ends, infos and images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from cases.flow_task import FlowTask, Generators
from cases.loads import BoolArray, FloatArray
from cases.sensors import described
from flowsim import Simulation
from flowsim.render.fields import Caption, draw_panel

Info = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Result of one action; all arrays have shape (B,) except `rewards`, which has shape (B, N) for N agents.

    `reward` is the mean over the agents. An episode ends for all agents together.
    """

    rewards: FloatArray
    reward: FloatArray
    terminated: BoolArray
    truncated: BoolArray


class Episodes:
    """Episodes of one task in a batch of simulations: starts, actions, ends, infos and images.

    Attributes
    ----------
    watch : callable or None
        Called with the simulation after every solver step, for videos; it must not change anything.
    """

    def __init__(self, task: FlowTask[Any]) -> None:
        self.task = task
        self.watch: Callable[[Simulation], None] | None = None
        batch = task.batch
        self.loads = task.loads
        size, agents = task.command_size, task.agents
        self._many = agents > 1
        self.actions_done = np.zeros(batch, dtype=np.int64)
        self.returns = np.zeros(batch)
        self.rewards = np.zeros((batch, agents))
        self.applied = np.zeros((batch, agents, size) if self._many else (batch, size))
        self.solver_steps = np.zeros(batch, dtype=np.int64)
        self.start_time = np.zeros(batch)

    def start(self, generators: Generators) -> None:
        """Start new episodes in the simulations with these indices, each from its own generator."""
        if not generators:
            return
        which = np.zeros(self.task.batch, dtype=np.bool_)
        which[list(generators)] = True
        self.task.start(which, generators)
        self.start_time[which] = self.task.simulation.time[which]
        self.actions_done[which] = self.solver_steps[which] = 0
        self.returns[which] = 0.0
        self.rewards[which] = self.applied[which] = 0.0

    def play(self, actions: npt.ArrayLike, active: BoolArray | None = None) -> Outcome:
        """Apply actions, shape (B, m) or (B, N, m) for several agents, for one action time or until an episode ends.

        Simulations that are not `active`, shape (B,), are not advanced; their outcome is meaningless, and they have to
        be started before they are used again.
        """
        task, options = self.task, self.task.options
        simulation = task.simulation
        self.applied[:] = task.commands(self._checked(actions))
        task.actuate(self.applied)
        self.loads.clear()
        steps_before = simulation.steps.copy()
        watched = self.watch is not None or task.stop is not None
        left = simulation.advance(options.action_time, active, self._look if watched else None)
        self.solver_steps[:] = simulation.steps - steps_before
        self.actions_done += 1
        terminated = left | simulation.diverged
        with np.errstate(invalid="ignore", over="ignore"):  # of a simulation that diverged
            self.rewards[:] = self._rewarded()
        if task.failure_reward is not None:
            self.rewards[terminated] = task.failure_reward
        self.rewards[simulation.diverged] = task.divergence_reward
        task.note(self.applied)
        reward = self.rewards.mean(axis=1)
        self.returns += reward
        truncated = (self.actions_done >= options.episode_actions) & ~terminated
        return Outcome(self.rewards.copy(), reward, terminated, truncated)

    def _rewarded(self) -> FloatArray:
        """Return the rewards of the last action, shape (B, N), or (B, 1) for the same one for all agents."""
        given = self.task.reward(self.applied)
        rewards, (batch, agents) = np.asarray(given), self.rewards.shape
        if rewards.dtype.kind not in "biuf" or rewards.shape not in (
            (batch,),
            (batch, 1),
            (batch, agents),
        ):
            each = f" or ({batch}, {agents})" if self._many else ""
            raise ValueError(
                f"reward returned {described(given)}, but must return numbers of the shape ({batch},){each}"
            )
        return rewards.reshape(batch, -1)

    def _look(self, simulation: Simulation) -> BoolArray:
        if self.watch is not None:
            self.watch(simulation)
        if self.task.stop is not None:
            return self.task.stop(simulation)
        return np.zeros(self.task.batch, dtype=np.bool_)

    def _checked(self, actions: npt.ArrayLike) -> npt.NDArray[Any]:
        space, values = self.task.action_space, np.asarray(actions)
        wanted = (*self.applied.shape[:-1], *(space.shape or ()))
        if values.shape != wanted:
            raise ValueError(f"actions have shape {values.shape}, but must have {wanted}")
        if isinstance(space, Discrete):
            if not np.isin(values, np.arange(space.n)).all():
                raise ValueError(
                    f"actions must be whole numbers from 0 to {space.n - 1}, but are {values.tolist()}"
                )
            return values.astype(np.int64)
        if not np.isfinite(values).all():
            raise ValueError(f"actions must be finite numbers, but are {values.tolist()}")
        return values

    def observations(self) -> npt.NDArray[np.float32]:
        """Return the observations, finite and within their space even if a simulation diverged.

        Shape (B, n), or (B, N, n) for several agents.
        """
        high = self.task.observation_space.high
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.nan_to_num(self.task.observe(), nan=0.0, posinf=np.inf, neginf=-np.inf)
        seen = np.clip(values, -high, high).astype(np.float32)
        return seen if self._many else seen[:, 0]

    def infos(self) -> list[Info]:
        """Return the `info` of every simulation, as documented in `FlowEnv`."""
        simulation = self.task.simulation
        arrays = {**self.loads.averages(), **self.task.info()}
        measures = self.task.measures()
        if self._many:
            arrays["rewards"] = self.rewards
        return [
            {
                "time": float(simulation.time[b] - self.start_time[b]),
                "applied_action": self.applied[b].copy(),
                **{name: values[b].copy() for name, values in arrays.items()},
                **(
                    {"measures": {name: float(values[b]) for name, values in measures.items()}}
                    if measures
                    else {}
                ),
                "solver_steps": int(self.solver_steps[b]),
                "diverged": bool(simulation.diverged[b]),
            }
            for b in range(self.task.batch)
        ]

    def caption(self, index: int) -> Caption:
        """Return the numbers written into an image of simulation `index`."""
        return Caption(
            time=float(self.task.simulation.time[index] - self.start_time[index]),
            episode_return=float(self.returns[index]),
            action=tuple(self.applied[index].ravel().tolist()),
            action_names=self.task.command_names if not self._many else (),
        )

    def picture(self, index: int) -> npt.NDArray[np.uint8]:
        """Return an image of simulation `index`, shape (height, width, 3)."""
        return np.asarray(draw_panel(self.task.scene(index), self.caption(index)))

    def get_state(self, index: int) -> dict[str, Any]:
        """Return a copy of the complete state of simulation `index` and its episode."""
        return {
            "simulation": self.task.simulation.get_state(index),
            "memory": {name: array[index].copy() for name, array in self.task.memory.items()},
            "loads": self.loads.get_state(index),
            "actions_done": int(self.actions_done[index]),
            "return": float(self.returns[index]),
            "rewards": self.rewards[index].copy(),
            "applied": self.applied[index].copy(),
            "solver_steps": int(self.solver_steps[index]),
            "start_time": float(self.start_time[index]),
        }

    def set_state(self, index: int, state: dict[str, Any]) -> None:
        """Restore a state returned by `get_state`, bit for bit."""
        self.task.simulation.set_state(index, state["simulation"])
        for name, value in state["memory"].items():
            self.task.memory[name][index] = value
        self.loads.set_state(index, state["loads"])
        self.actions_done[index] = state["actions_done"]
        self.returns[index] = state["return"]
        self.rewards[index] = state["rewards"]
        self.applied[index] = state["applied"]
        self.solver_steps[index] = state["solver_steps"]
        self.start_time[index] = state["start_time"]
