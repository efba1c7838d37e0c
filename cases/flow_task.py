"""What a task in a flow has to say about itself; everything else is in `flow_env`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from cases.actuators import Actuator
from cases.bank import Development, load_or_build, with_bodies
from cases.loads import BoolArray, FloatArray, Loads
from cases.options import OptionsT
from cases.sensors import Sensor, each_agent
from flowsim import Contact, Jet, Sides, Simulation, Temperature
from flowsim.bodies import Body
from flowsim.bodies.swimmers import Swimmer
from flowsim.inflow import Profile
from flowsim.render.fields import Outline, Scene, outline
from flowsim.render.units import DIAMETERS, Units

Generators = Mapping[int, np.random.Generator]
"""The generators of some simulations of a batch, by their numbers."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What a task is played in; grid, viscosity, numerics and backend are among its options.

    Attributes
    ----------
    bodies : sequence of Body
    sides : Sides
        An unbounded stream unless given.
    stream : (float, float)
        Velocity of the undisturbed fluid, in U.
    gravity : (float, float)
    jets : sequence of Jet
        Slots in the bodies' surfaces.
    temperature : Temperature, optional
    inflows : mapping
        Profiles of the velocity by the name of their side, as :meth:`flowsim.Simulation.set_inflow` takes them.
    """

    bodies: Sequence[Body] = ()
    sides: Sides = field(default_factory=Sides)
    stream: tuple[float, float] = (1.0, 0.0)
    gravity: tuple[float, float] = (0.0, 0.0)
    jets: Sequence[Jet] = ()
    temperature: Temperature | None = None
    inflows: Mapping[str, Profile] = field(default_factory=dict)


class FlowTask(ABC, Generic[OptionsT]):
    """A task in each flow of a batch: what acts, what is seen, what it is worth, where it begins and ends.

    A subclass declares the flow, actuators and sensors, and computes the reward; the rest has defaults. It may keep
    values per simulation (a target, say) in `memory`, as arrays with a leading batch axis: these are saved and
    restored with an environment.

    One agent decides for all actuators, unless several bodies are agents: then each of these acts and observes for
    itself, and actions, observations and rewards have an axis of N agents after that of the batch.

    Every number of one simulation may depend on this simulation only, and not on the size of the batch, so that a
    batch of B equals B single environments to the bit.

    Parameters
    ----------
    options : TaskOptions
        Validated options.
    batch : int
        Number of simulations B.
    """

    options_class: ClassVar[type[Any]]
    folder: ClassVar[Path]
    """Where the presets lie."""
    failure_reward: ClassVar[float | None] = None
    """Reward of the action in which an agent leaves its box or the simulation diverges; None: that of `reward`."""
    alive_box: ClassVar[tuple[float, float, float, float] | None] = None
    """x0, x1, y0, y1 within which every body that is an agent must stay; checked after every solver step."""
    choices: ClassVar[Sequence[Sequence[float]] | None] = None
    """Commands of each discrete action; None: the action is the commands, each from -1 to 1."""
    units: ClassVar[Units] = DIAMETERS
    """What the units are called in pictures."""
    agent_name: ClassVar[str] = "agent"
    """What several agents are called, with a number behind it."""

    def __init__(self, options: OptionsT, batch: int) -> None:
        self.options = options
        self.batch = batch
        self.memory: dict[str, npt.NDArray[Any]] = {}
        self._actuators, self._sensors = tuple(self.actuators()), tuple(self.sensors())
        self._flow = self.flow()
        self.simulation: Simulation = self.build(batch)
        if self.alive_box is not None:
            self.simulation.fences[:, list(self.agent_bodies)] = self.alive_box
        self.simulation.ending_contacts[:, list(self.agent_bodies)] = self.ending_contact
        self.loads = Loads(self.simulation)
        self._bind_sensors()
        self._impulsive: dict[str, Any] | None = None
        self._bank: dict[str, Any] | None = None
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

    # --- what a task says ------------------------------------------------------------------------------------------

    @abstractmethod
    def flow(self) -> Flow:
        """Return the bodies and the sides of the box."""

    @abstractmethod
    def actuators(self) -> Sequence[Actuator]:
        """Return the parts of an action, in its order."""

    @abstractmethod
    def sensors(self) -> Sequence[Sensor]:
        """Return the parts of an observation, in its order."""

    @abstractmethod
    def reward(self, commands: FloatArray) -> FloatArray:
        """Return what an action was worth, shape (B,), or (B, N) for several agents; called once per action.

        Parameters
        ----------
        commands : (B, m), or (B, N, m) for several agents
            As they were applied, after clipping.
        """

    @property
    def agent_bodies(self) -> Sequence[int]:
        """The bodies that are agents: none (a task of control), one, or several, each of which acts for itself."""
        return ()

    @property
    def ending_contact(self) -> Contact:
        """What ends an episode when a body of an agent touches it: the box, another body, or both."""
        return Contact.NONE

    @property
    def stop(self) -> Callable[[Simulation], BoolArray] | None:
        """What to ask after every solver step for the simulations whose episode ends; leaves the compiled loop."""
        return None

    @property
    def development(self) -> Development | None:
        """How the flows come about that episodes start from; None: they start impulsively."""
        return None

    def draw(self, generator: np.random.Generator) -> Any:
        """Return all that is random about a start but the state of the flow; None if bodies stay where they are."""
        return None

    def place(self, index: int, drawn: Any) -> None:
        """Put the bodies of simulation `index` where `draw` says; the flow then adapts to them."""

    def begin(self, which: BoolArray) -> None:
        """Note in `memory` what later rewards compare with; called when everything is in its place."""

    def info(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what else is logged in `info`, by its names; arrays with a leading batch axis."""
        return {}

    @property
    def held_out_states(self) -> int:
        """In how many states episodes for validation, and for tests, can begin; 0 where each draws its own."""
        return self._development.held_out_states if self._development is not None else 0

    def measures(self) -> Mapping[str, FloatArray]:
        """Return what an evaluation reports beside the return, as it was in the last action, shape (B,) each.

        The last of them is what a film says of each episode, so it should be what the task is about.
        """
        return {}

    def disturb(self, simulation: Simulation) -> None:
        """Disturb the flow that is developed: push the fluid behind the first body upwards."""
        assert self._development is not None
        x, y = simulation.grid.v_faces()
        x0, y0 = simulation.body_state.position[0, 0] + (1.0, 0.0)
        bump = np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / 0.5**2)
        simulation.add_velocity(0, 0.0, self._development.push * bump)
        simulation.settle()

    def scene(self, index: int) -> Scene:
        """Return what a picture of simulation `index` shows, with the vorticity; films show other quantities, too."""
        simulation = self.simulation
        arrows = (part.arrow(simulation, index) for part in self._actuators)
        grid = simulation.grid
        return Scene(
            values=simulation.vorticity(index),
            size=(grid.nx * grid.h, grid.ny * grid.h),
            outlines=self._outlines(index),
            sensors=np.concatenate([part.places(index) for part in self._sensors]),
            force=next((arrow for arrow in arrows if arrow is not None), None),
            alive_box=self.alive_box,
            units=self.units,
        )

    # --- what follows from it --------------------------------------------------------------------------------------

    @property
    def agents(self) -> int:
        """How many act: the bodies that are agents, one where none is."""
        return max(1, len(self.agent_bodies))

    @property
    def command_size(self) -> int:
        """How many numbers an agent commands."""
        return sum(part.size for part in self._actuators)

    @property
    def command_names(self) -> tuple[str, ...]:
        """The names of these numbers."""
        return tuple(name for part in self._actuators for name in part.names)

    def build(self, batch: int, bodies: int | None = None) -> Simulation:
        """Return the simulation, with all bodies, or with the first ones alone and on the CPU."""
        options, flow = self.options, self._flow
        whole = bodies is None
        simulation = Simulation(
            options.grid(),
            flow.sides,
            flow.bodies[:bodies],
            viscosity=options.viscosity,
            batch=batch,
            stream=flow.stream,
            gravity=flow.gravity,
            jets=flow.jets,
            temperature=flow.temperature,
            sensors=[point for part in self._sensors for point in part.carried()] if whole else (),
            integrator=options.integrator,
            cfl=options.cfl,
            penalty=options.penalty,
            dtype=options.dtype,
            # A bank is part of the start, so it must not depend on how a machine computes.
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
        alone = self.build(1, count if development.bodies is None else development.bodies)
        bank = with_bodies(load_or_build(alone, development, self.disturb), count)
        self._bank = self.simulation.store_states(bank)

    def start(self, which: BoolArray, generators: Generators) -> None:
        """Put several simulations into new initial states, each sampled from its own generator only.

        Parameters
        ----------
        which : (B,) bool
            The simulations.
        generators : mapping
            The generator of each of them, by its number.
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
        if any(values is not None for values in drawn.values()):
            self.simulation.settle(which)
        else:
            self.simulation.sense()
        self.loads.clear(which)
        self.begin(which)
        for part in self._sensors:
            part.begin(which)

    def prepare(self, which: BoolArray) -> None:
        """Change the flow that several simulations start with, before bodies are placed: add a vortex, say."""

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

    def commands(self, actions: npt.NDArray[Any]) -> FloatArray:
        """Return the commands of actions of `action_space`, clipped: (B, m), or (B, N, m) for several agents."""
        if self.choices is not None:
            return np.asarray(self.choices, np.float64)[actions]
        return np.clip(actions.astype(np.float64), -1.0, 1.0)

    def actuate(self, commands: FloatArray) -> None:
        """Do what the commands say, until further notice."""
        each, first = commands.reshape(self.batch, self.agents, -1), 0
        for part in self._actuators:
            part.apply(self.simulation, each[..., first : first + part.size])
            first += part.size

    def note(self, commands: FloatArray) -> None:
        """Tell the sensors that an action of these commands has been played."""
        for part in self._sensors:
            part.note(commands.reshape(self.batch, self.agents, -1))

    def observe(self) -> FloatArray:
        """Return the observations, shape (B, N, n), before they are made finite and clipped to their space."""
        parts = [each_agent(part.read(), self.agents) for part in self._sensors]
        return np.concatenate(parts, axis=-1)

    def focus(self, index: int) -> FloatArray:
        """Return where a camera looks that follows: at the first body that is an agent, otherwise at the first one."""
        body = self.agent_bodies[0] if self.agent_bodies else 0
        return self.simulation.body_state.position[index, body]

    def _outlines(self, index: int) -> list[Outline]:
        """Return the bodies, and their images where they reach over a periodic side."""
        simulation, shapes = self.simulation, []
        state, grid = simulation.body_state, simulation.grid
        size = np.array([grid.nx * grid.h, grid.ny * grid.h])
        periodic = np.array(simulation.sides.periodic)
        for k, body in enumerate(simulation.bodies):
            points = (
                simulation.surface(index, k)
                if isinstance(body, Swimmer)
                else outline(body, state.position[index, k], float(state.angle[index, k]))
            )
            agent = k in self.agent_bodies
            if not periodic.any():
                shapes.append(Outline(points, agent=agent))
                continue
            points = points - np.where(
                periodic, size * np.floor(np.nanmean(points, axis=0) / size), 0.0
            )
            for image in np.ndindex(3, 3):
                moved = points + (np.array(image) - 1) * size
                inside = (np.nanmax(moved, axis=0) > 0).all() and (
                    np.nanmin(moved, axis=0) < size
                ).all()
                if inside and not ((np.array(image) != 1) & ~periodic).any():
                    shapes.append(Outline(moved, agent=agent))
        return shapes
