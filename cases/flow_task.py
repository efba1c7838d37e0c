"""What a new flow task has to say about itself; everything else is in `flow_env`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from cases.ellipse_agent import FloatArray, body_observation, observation_limits
from cases.options import OptionsT
from flowsim import Simulation
from flowsim.render.fields import Scene

BoolArray = npt.NDArray[np.bool_]
Generators = Mapping[int, np.random.Generator]
"""The generators of some simulations of a batch, by their numbers."""


class FlowTask(ABC, Generic[OptionsT]):
    """A task for one body, the agent, in each simulation of a batch.

    A subclass builds its simulation, starts episodes, and says what is seen, what is paid and when it is
    over. It may keep values per simulation (a target, say) as arrays with a leading batch axis in `memory`:
    these are saved and restored with an environment.

    Every number that `observe` and `reward` return for one simulation may depend on this simulation
    only, and not on the size of the batch, so that a batch of B equals B single environments to the bit.

    Parameters
    ----------
    options : FlowOptions
        Validated options.
    batch : int
        Number of simulations B.
    """

    options_class: ClassVar[type[Any]]
    folder: ClassVar[Path]
    """Where the presets lie."""
    agent: ClassVar[int]
    """Which of the simulation's bodies is the agent."""
    failure_reward: ClassVar[float]
    """Reward of the action in which the agent leaves the box or the simulation diverges."""
    position_limit: ClassVar[float]
    """Bound of the first two observations."""
    alive_box: ClassVar[tuple[float, float, float, float]]
    """x0, x1, y0, y1 within which the agent must stay, in D; asked after every solver step."""

    def __init__(self, options: OptionsT, batch: int) -> None:
        self.options = options
        self.batch = batch
        self.memory: dict[str, npt.NDArray[Any]] = {}
        self.simulation: Simulation = self.build(batch)
        self.simulation.fences[:, self.agent] = self.alive_box
        self._impulsive: dict[str, Any] | None = None
        limits = observation_limits(self.position_limit)
        self.observation_space = spaces.Box(-limits, limits, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    @abstractmethod
    def build(self, batch: int) -> Simulation:
        """Return the simulation with all bodies."""

    @abstractmethod
    def stream(self) -> tuple[float, float]:
        """Return the velocity of the undisturbed water, in U."""

    @abstractmethod
    def start(self, which: BoolArray, generators: Generators) -> None:
        """Put several simulations into new initial states, each sampled from its own generator only.

        Parameters
        ----------
        which : (B,) bool
            The simulations, as `reset` here and `Simulation.settle` take them: one call of each for all.
        generators : mapping
            The generator of each of them, by its number.
        """

    @abstractmethod
    def relative_position(self) -> FloatArray:
        """Return the first two observations, shape (B, 2), in D."""

    @abstractmethod
    def reward(self, actions: FloatArray) -> FloatArray:
        """Return the reward of the applied actions while alive, shape (B,); called once per action."""

    @abstractmethod
    def scene(self, index: int) -> Scene:
        """Return what a picture of simulation `index` shows, with the vorticity; films show other quantities, too."""

    def observe(self) -> FloatArray:
        """Return the observations, shape (B, 14), before they are made finite and clipped to their space."""
        return body_observation(self.simulation, self.agent, self.relative_position())

    def reset(self, which: BoolArray) -> None:
        """Start the flow of several simulations impulsively: `Simulation.reset`, computed once and then copied."""
        simulation = self.simulation
        if self._impulsive is None:
            first = int(np.flatnonzero(which)[0])
            simulation.reset(np.arange(self.batch) == first)
            state = simulation.get_state(first)
            self._impulsive = simulation.store_states(
                {name: values[None] for name, values in state.items()}
            )
        alike = simulation.viscosity == self._impulsive["viscosity"][0]
        if (which & ~alike).any():
            simulation.reset(which & ~alike)
        if members := np.flatnonzero(which & alike).tolist():
            simulation.restore_states(members, self._impulsive, [0] * len(members))

    def actuate(self, actions: FloatArray) -> None:
        """Apply force and torque of `actions`, shape (B, 3), to the agents until further notice."""
        state = self.simulation.body_state
        state.applied_force[:, self.agent] = self.options.force_scale * actions[:, :2]
        state.applied_torque[:, self.agent] = self.options.torque_scale * actions[:, 2]
