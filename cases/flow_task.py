"""Base class of flow tasks. A subclass defines what is specific to its task; everything else is in `flow_env`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from cases.actuators import Actuator
from cases.initial_flows import Development, load_or_build, with_bodies
from cases.loads import BoolArray, FloatArray, Loads
from cases.options import OptionsT
from cases.sensors import Sensor, each_agent
from flowsim import Contact, Jet, Sides, Simulation, Temperature
from flowsim.backend.host.given import is_finite
from flowsim.bodies import Body
from flowsim.inflow import Profile
from flowsim.render.fields import Scene, outlines
from flowsim.render.units import DIAMETERS, Units

PartT = TypeVar("PartT")
Generators = Mapping[int, np.random.Generator]
"""Random generators of some simulations of a batch, by index."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The flow of a task; grid, viscosity, numerics and backend are set by its options.

    Attributes
    ----------
    bodies : sequence of Body
    sides : Sides
        Boundary conditions; an unbounded stream by default.
    stream : (float, float)
        Velocity of the undisturbed fluid, in U.
    gravity : (float, float)
    jets : sequence of Jet
        Slots in the surfaces of the bodies.
    temperature : Temperature, optional
    inflows : mapping
        Velocity profiles by side, as taken by :meth:`flowsim.Simulation.set_inflow`.
    """

    bodies: Sequence[Body] = ()
    sides: Sides = field(default_factory=Sides)
    stream: tuple[float, float] = (1.0, 0.0)
    gravity: tuple[float, float] = (0.0, 0.0)
    jets: Sequence[Jet] = ()
    temperature: Temperature | None = None
    inflows: Mapping[str, Profile] = field(default_factory=dict)


class FlowTask(ABC, Generic[OptionsT]):
    """A task in a batch of flows: actuators, sensors, reward, initial states and ends of episodes.

    A subclass declares the flow, the actuators and the sensors, and computes the reward; the rest has defaults. It can
    store values per simulation (such as a target) in `memory`, as arrays with a leading batch axis, which are saved and
    restored with an environment.

    One agent commands all actuators unless several bodies are agents. Then each of these acts and observes
    separately, and actions, observations and rewards have an axis of N agents after the batch axis.

    The values of one simulation must not depend on other simulations or on the batch size, so that a batch of B is
    bitwise equal to B single environments.

    Parameters
    ----------
    options : TaskOptions
        Validated options.
    batch : int
        Number of simulations B.
    """

    options_class: ClassVar[type[Any]]
    folder: ClassVar[Path]
    """Folder of the presets."""
    failure_reward: ClassVar[float | None] = None
    """Reward of the action in which an agent leaves its box or the simulation diverges; None uses `reward`, and
    `divergence_reward`."""
    alive_box: ClassVar[tuple[float, float, float, float] | None] = None
    """x0, x1, y0, y1 of the box that every agent body must stay in; checked after every solver step."""
    choices: ClassVar[Sequence[Sequence[float]] | None] = None
    """Commands of each discrete action; with None actions are continuous and equal the commands, each in [-1, 1]."""
    units: ClassVar[Units] = DIAMETERS
    """Names of the units in images."""
    agent_name: ClassVar[str] = "agent"
    """Name of the agents if there are several, followed by a number."""

    def __init__(self, options: OptionsT, batch: int) -> None:
        self.options = options
        self.batch = batch
        self.memory: dict[str, npt.NDArray[Any]] = {}
        self._actuators = _parts("actuators", Actuator, self.actuators())
        self._sensors = _parts("sensors", Sensor, self.sensors())
        if not self._sensors:
            raise ValueError("sensors() returned none, but an observation needs at least one")
        if not (self.failure_reward is None or is_finite(self.failure_reward)):
            raise ValueError(
                f"failure_reward = {self.failure_reward!r}, but must be a finite number or None"
            )
        self._flow = self.flow()
        if not isinstance(self._flow, Flow):
            raise ValueError(f"flow() returned {self._flow!r}, but must return a Flow")
        self.simulation: Simulation = self.build(batch)
        for part in self._actuators:
            part.check(self.simulation)
        if self.alive_box is not None:
            self.simulation.fences[:, list(self.agent_bodies)] = self.alive_box
        self.simulation.ending_contacts[:, list(self.agent_bodies)] = self.ending_contact
        self.loads = Loads(self.simulation)
        self._bind_sensors()
        self._impulsive: dict[str, Any] | None = None
        self._bank: dict[str, Any] | None = None
        self._others_appear = False
        self._development = self.development
        if self._development is not None:
            self._load_bank(self._development)
        limits = np.concatenate([part.limits for part in self._sensors]).astype(np.float32)
        self.observation_space = spaces.Box(-limits, limits, dtype=np.float32)
        self.action_space: spaces.Space[Any] = (
            spaces.Box(-1.0, 1.0, (self.command_size,), np.float32)
            if self.choices is None
            else spaces.Discrete(len(self.choices))
        )

    # --- defined by a task -----------------------------------------------------------------------------------------

    @abstractmethod
    def flow(self) -> Flow:
        """Return the flow: bodies, sides of the box, jets and so on."""

    @abstractmethod
    def actuators(self) -> Sequence[Actuator]:
        """Return the actuators, in the order of the action components."""

    @abstractmethod
    def sensors(self) -> Sequence[Sensor]:
        """Return the sensors, in the order of the observation components."""

    @abstractmethod
    def reward(self, commands: FloatArray) -> FloatArray:
        """Return the reward of an action, shape (B,), or (B, N) for several agents; called once per action.

        Parameters
        ----------
        commands : (B, m), or (B, N, m) for several agents
            Commands as applied, after clipping.
        """

    @property
    def agent_bodies(self) -> Sequence[int]:
        """Indices of the bodies that are agents: none (pure flow control), one, or several that act separately."""
        return ()

    @property
    def ending_contact(self) -> Contact:
        """Contact of an agent's body that ends the episode: with the box, with another body, or with both."""
        return Contact.NONE

    @property
    def stop(self) -> Callable[[Simulation], BoolArray] | None:
        """Function called after every solver step to find which episodes end; the compiled loop returns for it."""
        return None

    @property
    def divergence_reward(self) -> float:
        """Reward of the action in which the simulation diverges, when `reward` means nothing; a bad one."""
        return -100.0 if self.failure_reward is None else self.failure_reward

    @property
    def development(self) -> Development | None:
        """Development of the initial flows; with None episodes start impulsively."""
        return None

    def draw(self, generator: np.random.Generator) -> Any:
        """Sample the random part of an initial state, except for the flow; return None if bodies keep their places."""
        return None

    def place(self, index: int, drawn: Any) -> None:
        """Place the bodies of simulation `index` as sampled by `draw`; the flow then adapts to them."""

    def begin(self, which: BoolArray) -> None:
        """Store reference values for later rewards in `memory`; called after all bodies have been placed."""

    def info(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return additional entries of `info`, as arrays with a leading batch axis."""
        return {}

    @property
    def held_out_states(self) -> int:
        """Number of initial states for validation, and for tests; 0 if every episode samples its state."""
        return self._development.held_out_states if self._development is not None else 0

    def measures(self) -> Mapping[str, FloatArray]:
        """Return the values in the last action that an evaluation reports besides the return, each of shape (B,).

        Videos show the last of them for each episode, so it should be the main quantity of the task.
        """
        return {}

    def disturb(self, simulation: Simulation) -> None:
        """Disturb the flow before it develops: push it upwards behind the first body, or in the middle without one.

        It must not be random, because the developed flow is looked up in the cache by the disturbed one.
        """
        assert self._development is not None
        x, y = simulation.grid.v_faces()
        position = simulation.body_state.position[0]
        x0, y0 = position[0] + (1.0, 0.0) if len(position) else 0.5 * np.array(simulation.grid.size)
        bump = np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / 0.5**2)
        simulation.add_velocity(0, 0.0, self._development.push * bump)
        simulation.settle()

    def scene(self, index: int) -> Scene:
        """Return the content of an image of simulation `index`, with the vorticity as the quantity shown."""
        simulation = self.simulation
        arrows = (part.arrow(simulation, index) for part in self._actuators)
        grid = simulation.grid
        return Scene(
            values=simulation.vorticity(index),
            size=(grid.nx * grid.h, grid.ny * grid.h),
            outlines=outlines(simulation, index, self.agent_bodies),
            sensors=np.concatenate([part.places(index) for part in self._sensors]),
            force=next((arrow for arrow in arrows if arrow is not None), None),
            alive_box=self.alive_box,
            units=self.units,
        )

    # --- derived from the definitions ------------------------------------------------------------------------------

    @property
    def agents(self) -> int:
        """Number of agents: that of the agent bodies, or 1 if there are none."""
        return max(1, len(self.agent_bodies))

    @property
    def command_size(self) -> int:
        """Number of commands of an agent."""
        return sum(part.size for part in self._actuators)

    @property
    def command_names(self) -> tuple[str, ...]:
        """Names of the commands."""
        return tuple(name for part in self._actuators for name in part.names)

    def build(self, batch: int, bodies: int | None = None) -> Simulation:
        """Return the simulation with all bodies, or, on the CPU, with the first `bodies` bodies only."""
        options, flow = self.options, self._flow
        whole, heat = bodies is None, flow.temperature
        present = range(len(flow.bodies))[:bodies]
        if heat is not None:
            heat = replace(heat, bodies={k: t for k, t in heat.bodies.items() if k in present})
        simulation = Simulation(
            options.grid(),
            flow.sides,
            flow.bodies[:bodies],
            viscosity=options.viscosity,
            batch=batch,
            stream=flow.stream,
            gravity=flow.gravity,
            jets=[jet for jet in flow.jets if jet.body in present],
            temperature=heat,
            sensors=[point for part in self._sensors for point in part.carried()] if whole else (),
            integrator=options.integrator,
            cfl=options.cfl,
            penalty=options.penalty,
            dtype=options.dtype,
            # A bank defines initial states, so it must not depend on backend and threads.
            backend=options.backend if whole else "cpu",
            threads=options.threads if whole else 1,
        )
        for side, profile in flow.inflows.items():
            simulation.set_inflow(side, profile)
        return simulation

    def _bind_sensors(self) -> None:
        first = 0
        for number, part in enumerate(self._sensors):
            part.bind(self, f"sensor {number}", first)
            first += len(part.carried())

    def _load_bank(self, development: Development) -> None:
        count = len(self._flow.bodies)
        present = count if development.bodies is None else development.bodies
        if not 0 <= present <= count:
            raise ValueError(f"development.bodies = {present}, but the flow has {count} bodies")
        bank = load_or_build(self.build(1, present), development, self.disturb)
        self._bank = self.simulation.store_states(with_bodies(bank, self.simulation.get_state(0)))
        self._others_appear = present < count

    def start(self, which: BoolArray, generators: Generators) -> None:
        """Put some simulations into new initial states, each sampled from its own generator.

        Parameters
        ----------
        which : (B,) bool
            Mask of the simulations.
        generators : mapping
            Generator of each of them, by index.
        """
        drawn, snapshots = {}, {}
        for index, generator in generators.items():
            drawn[index] = self.draw(generator)
            if self._development is not None:
                snapshots[index] = self._development.draw(generator)
        if self._bank is None:
            self.reset(which)
        else:
            self.simulation.restore_states(list(snapshots), self._bank, list(snapshots.values()))
        self.prepare(which)
        for index, values in drawn.items():
            self.place(index, values)
        if self._others_appear or any(values is not None for values in drawn.values()):
            self.simulation.settle(which)
        else:
            self.simulation.sense()
        self.loads.clear(which)
        self.begin(which)
        for part in self._sensors:
            part.begin(which)

    def prepare(self, which: BoolArray) -> None:
        """Modify the initial flow of some simulations before bodies are placed, for example by adding a vortex."""

    def reset(self, which: BoolArray) -> None:
        """Start the flow of some simulations impulsively: `Simulation.reset`, computed once and then copied."""
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

    def commands(self, actions: npt.NDArray[Any]) -> FloatArray:
        """Return the clipped commands of actions of `action_space`, shape (B, m), or (B, N, m) for several agents."""
        if self.choices is not None:
            return np.asarray(self.choices, np.float64)[actions]
        return np.clip(actions.astype(np.float64), -1.0, 1.0)

    def actuate(self, commands: FloatArray) -> None:
        """Apply the commands until the next call."""
        each, first = commands.reshape(self.batch, self.agents, -1), 0
        for part in self._actuators:
            part.apply(self.simulation, each[..., first : first + part.size])
            first += part.size

    def note(self, commands: FloatArray) -> None:
        """Notify the sensors that an action with these commands has been played."""
        for part in self._sensors:
            part.note(commands.reshape(self.batch, self.agents, -1))

    def observe(self) -> FloatArray:
        """Return the observations, shape (B, N, n), before they are made finite and clipped to their space."""
        parts = [each_agent(part.read(), self.agents) for part in self._sensors]
        return np.concatenate(parts, axis=-1)

    def focus(self, index: int) -> FloatArray:
        """Return the position that a moving camera follows: the first agent or else body, or the middle of the box."""
        simulation = self.simulation
        if not simulation.bodies:
            return 0.5 * np.array(simulation.grid.size)
        body = self.agent_bodies[0] if self.agent_bodies else 0
        return simulation.body_state.position[index, body]


def _parts(method: str, kind: type[Any], given: Sequence[PartT]) -> tuple[PartT, ...]:
    """Return the parts that a method of a task declares.

    Raises
    ------
    ValueError
        For anything but a list of parts of this kind.
    """
    if not isinstance(given, Sequence) or not all(isinstance(part, kind) for part in given):
        raise ValueError(f"{method}() returned {given!r}, but must return a list of {method}")
    return tuple(given)
