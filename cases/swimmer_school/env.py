"""flowsim/SwimmerSchool-v0: swimmers of one school that must not collide, after Weber et al. (2022), section 5.

N swimmers that bend in a travelling wave of curvature swim through still water in a box without sides. Each sees
itself, the school, its neighbours and the flow at its head, and commands twice in a period how it turns and how fast
it beats. The paper says little of this task; what was chosen stands in docs/school.md.

Units: a swimmer's length L, the period T of its beat, the density of water; Re = L^2/(nu T).

`SwimmerSchool` follows the parallel interface of PettingZoo, which need not be installed: agents are named swimmer_0,
swimmer_1, and so on. `SwimmerSchoolEnv` is the same as one Gymnasium environment, whose agent commands all swimmers.
What a swimmer sees, does and is paid stands in one file, to be read beside the section of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from pydantic import BaseModel, ConfigDict, Field, model_validator

from cases.options import parse_options
from flowsim import Contact, Grid, Sides, Simulation
from flowsim.bodies.swimmers import carangiform, slender
from flowsim.kernels.midline import PHASE, TWIST, WORK
from flowsim.render.fields import Caption, Outline, Picture, Scene, draw_panel

FloatArray = npt.NDArray[np.float64]
Observations = dict[str, npt.NDArray[np.float32]]

OBSERVATIONS = 16
ACTION_TIME = 0.5
"""In T."""
FRAMES_PER_ACTION, ACTIONS_A_SECOND = 5, 5
"""Pictures of an action, and how fast a film goes."""
STRONGEST_TURN = 0.5
"""Turn at a command of 1: this times the amplitude of the wave's curvature."""
PERIOD_RANGE = 0.25
"""Change of the period at a command of 1, in T."""
JITTER = (0.05, 0.05, 0.05)
"""Half width of the uniform noise of places along and across, in L, and of angles, at a start."""
LATERAL_LINE = 4, 0.05
"""Number of the point of the midline where the flow is felt on both sides, and how far outside, in L."""
BLASIUS = 1.328
"""Drag coefficient of one side of a flat plate, times the root of its Reynolds number."""


class SchoolOptions(BaseModel):
    """Options of flowsim/SwimmerSchool-v0; lengths in L, times in T."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    swimmers: int = Field(4, ge=2, le=100, description="number of swimmers N")
    columns: int = Field(2, ge=1, description="columns of the school, one behind the other")
    reynolds: float = Field(1000.0, gt=0.0, description="L^2 / (nu T)")
    cells_per_length: float = Field(24.0, ge=8.0, description="resolution L/h")
    box: tuple[float, float] = Field(
        (5.0, 3.0), description="width and height of the box, whose sides are joined"
    )
    spacing: tuple[float, float] = Field(
        (1.2, 0.5), description="way between columns, and between their swimmers"
    )
    thickness: float = Field(0.06, gt=0.0, le=0.2, description="radius of the head")
    episode_actions: int = Field(40, ge=1, description="actions until an episode is truncated")
    collision_penalty: float = Field(
        1.0, ge=0.0, description="what a swimmer that touches another one is charged"
    )
    dtype: Literal["float32", "float64"] = "float32"
    backend: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(1, ge=1)

    def grid(self) -> Grid:
        """Return the grid of the box."""
        nx, ny = (round(side * self.cells_per_length) for side in self.box)
        return Grid(nx, ny, 1.0 / self.cells_per_length)

    @model_validator(mode="after")
    def _school_fits(self) -> Self:
        places = formation(self)
        need = np.ptp(places, axis=0) + np.array([1.2, 0.3])
        if (need > self.box).any():
            raise ValueError(f"'box' is {self.box}, but the school needs {need[0]:g} x {need[1]:g}")
        if any(round(side * self.cells_per_length) % 2 for side in self.box):
            raise ValueError(
                f"'cells_per_length' is {self.cells_per_length:g}: the box needs an even number of cells"
            )
        return self


def formation(options: SchoolOptions) -> FloatArray:
    """Return the places (N, 2) of the school's swimmers, its middle at the origin: columns, each shifted by a half."""
    places = []
    for column, members in enumerate(np.array_split(np.arange(options.swimmers), options.columns)):
        row = np.arange(len(members)) + 0.5 * (column % 2)
        places += [(-column * options.spacing[0], y * options.spacing[1]) for y in row]
    found = np.array(places)
    return np.asarray(found - found.mean(axis=0))


def _any_touch(sim: Simulation) -> npt.NDArray[np.bool_]:
    """Return in which simulations a body touches another one, shape (B,)."""
    return np.asarray(((sim.body_state.contact & Contact.BODY) > 0).any(axis=1))


class SwimmerSchool:
    """Multi-agent environment of N swimmers, with PettingZoo's parallel interface.

    Observation of a swimmer, float32 of shape (16,), vectors in its own axes (ahead, to its left) unless said
    otherwise:

    | index | what | unit |
    | --- | --- | --- |
    | 0, 1 | its place, seen from the middle of the school, along and across the school's way | L |
    | 2 | its angle against the school's way | rad |
    | 3, 4 | its velocity | L/T |
    | 5 | its angular velocity | 1/T |
    | 6 to 9 | where the nearest two other swimmers are | L |
    | 10 to 13 | velocity of the water past its head on the left and on the right | L/T |
    | 14, 15 | cosine and sine of its phase | |

    Action, float32 of shape (2,), each from -1 to 1 (clipped), on a smooth way over the next half period T/2: turn to
    the left, and period (1 + 0.25 a1) T.

    Reward of an action: the efficiency P_u/(P_u + P_d), P_u being the power that tows a flat plate at the speed that
    the swimmer made along the school's way, and P_d the power of its deformation; less the penalty when it touches
    another swimmer. The first contact ends the episode for all.

    Parameters
    ----------
    preset : str, optional
        Name of a shipped preset whose `env_options` are the base of `options`.
    render_mode : {"rgb_array", "rgb_array_list"}, optional
        The second gives all pictures since it was last asked, five of an action.
    **options
        Fields of `SchoolOptions`.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown, or out of range.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "swimmer_school_v0",
        "render_modes": ["rgb_array", "rgb_array_list"],
        "render_fps": ACTIONS_A_SECOND * FRAMES_PER_ACTION,
    }

    def __init__(
        self, *, preset: str | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode is {render_mode!r}, but must be None, rgb_array or rgb_array_list"
            )
        self.options = parse_options(SchoolOptions, Path(__file__).parent, preset, options)
        self.render_mode = render_mode
        if render_mode == "rgb_array":
            self.metadata = self.metadata | {"render_fps": ACTIONS_A_SECOND}  # type: ignore[misc]
        count = self.options.swimmers
        self.possible_agents = [f"swimmer_{number}" for number in range(count)]
        self.agents: list[str] = []
        self._middle = 0.5 * np.array(self.options.box)
        self._starts = formation(self.options) + self._middle
        self.simulation = self._simulate()
        limit = np.full(OBSERVATIONS, 1e3, np.float32)
        self._observation_space = spaces.Box(-limit, limit, dtype=np.float32)
        self._action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._generator = seeding.np_random(None)[0]
        self._actions = 0
        self._pictures: list[Picture] = []

    def _simulate(self) -> Simulation:
        head = self.options.thickness
        bodies = [
            carangiform(center=(x, y), half_width=lambda s: slender(s, head))
            for x, y in self._starts
        ]
        return Simulation(
            self.options.grid(), Sides.all("periodic"), bodies, viscosity=1.0 / self.options.reynolds,
            stream=(0.0, 0.0), dtype=self.options.dtype, backend=self.options.backend, threads=self.options.threads,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"simulation": self.simulation.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.simulation = self._simulate()
        self.simulation.set_state(0, state["simulation"])

    @property
    def unwrapped(self) -> Self:
        """The environment itself: there is no wrapper around it."""
        return self

    @property
    def num_agents(self) -> int:
        """Swimmers whose episode goes on."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """Swimmers of the school."""
        return len(self.possible_agents)

    def observation_space(self, agent: str) -> spaces.Box:
        """Return what a swimmer observes."""
        return self._observation_space

    def action_space(self, agent: str) -> spaces.Box:
        """Return what a swimmer commands."""
        return self._action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, dict[str, Any]]]:
        """Begin an episode: straight swimmers near their places, whose phases follow from the seed."""
        if seed is not None:
            self._generator = seeding.np_random(seed)[0]
        sim, count = self.simulation, self.options.swimmers
        sim.reset()
        noise = self._generator.uniform(-1.0, 1.0, (count, 3)) * JITTER
        sim.body_state.position[0] = self._starts + noise[:, :2]
        sim.body_state.angle[0] = noise[:, 2]
        sim.gait[0, :, PHASE] = self._generator.uniform(0.0, 1.0, count)
        sim.settle()
        self.agents, self._actions = list(self.possible_agents), 0
        self._pictures = []
        self._note_picture()
        return self._observe(), {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, npt.ArrayLike]
    ) -> tuple[
        Observations, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Let all swimmers follow their commands for half a period T."""
        if not self.agents:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() before step()")
        sim, names = self.simulation, self.agents
        for k, name in enumerate(self.possible_agents):
            turn, slower = np.clip(np.asarray(actions[name], np.float64), -1.0, 1.0)
            period = 1.0 + PERIOD_RANGE * float(slower)
            sim.steer(0, k, turn=STRONGEST_TURN * float(turn), period=period, over=ACTION_TIME)
        place, work, time = (
            sim.body_state.position[0].copy(),
            sim.form[0, :, WORK].copy(),
            sim.time[0],
        )
        sim.advance(ACTION_TIME, stop=self._looking(sim.time[0]))
        self._note_picture()
        self._actions += 1
        passed = max(float(sim.time[0] - time), 1e-9)
        speed = np.maximum((sim.body_state.position[0, :, 0] - place[:, 0]) / passed, 0.0)
        spent = np.maximum((sim.form[0, :, WORK] - work) / passed, 0.0)
        useful = BLASIUS * np.sqrt(speed / self.options.reynolds) * speed**2
        diverged = bool(sim.diverged[0])
        touching = (sim.body_state.contact[0] & Contact.BODY) > 0
        efficiency = np.nan_to_num(useful / np.maximum(useful + spent, 1e-12))
        rewards = efficiency - self.options.collision_penalty * (touching | diverged)
        ended, late = (
            diverged or bool(touching.any()),
            self._actions >= self.options.episode_actions,
        )
        seen = self._observe()
        infos = {
            name: {"time": float(sim.time[0]), "efficiency": float(efficiency[k]), "speed": float(speed[k]),
                   "collided": bool(touching[k]), "diverged": diverged}
            for k, name in enumerate(names)
        }  # fmt: skip
        self.agents = [] if ended or late else names
        return (
            seen,
            {name: float(rewards[k]) for k, name in enumerate(names)},
            dict.fromkeys(names, ended),
            dict.fromkeys(names, late and not ended),
            infos,
        )

    def _observe(self) -> Observations:
        """Return what every swimmer sees."""
        sim, count = self.simulation, self.options.swimmers
        state, gait = sim.body_state, sim.gait[0]
        place, box = state.position[0], np.array(self.options.box)
        heading = np.mod(state.angle[0] + gait[:, TWIST] + np.pi, 2 * np.pi) - np.pi
        ahead = np.stack([np.cos(state.angle[0]), np.sin(state.angle[0])], axis=-1)
        left = np.stack([-ahead[:, 1], ahead[:, 0]], axis=-1)
        away = place[None, :] - place[:, None]
        away -= box * np.round(away / box)
        distance = np.hypot(away[..., 0], away[..., 1]) + np.where(np.eye(count), np.inf, 0.0)
        order = np.argsort(distance, axis=1)[:, : min(2, count - 1)]
        point, outside = LATERAL_LINE
        lines = np.stack([sim.midline(0, k)[point] for k in range(count)])
        normal = np.stack([-lines[:, 3], lines[:, 2]], axis=-1) * (outside + self.options.thickness)
        felt = sim.sample_velocity(
            np.mod(np.concatenate([lines[:, :2] + normal, lines[:, :2] - normal]), box)[None]
        )[0]
        felt = felt.reshape(2, count, 2) - state.velocity[0]
        seen = np.zeros((count, OBSERVATIONS))
        seen[:, 0:2], seen[:, 2] = place - place.mean(axis=0), heading
        seen[:, 5] = state.angular_velocity[0]
        own = [
            state.velocity[0],
            *(away[np.arange(count), order[:, m]] for m in range(order.shape[1])),
        ]
        for column, vectors in zip((3, 6, 8), own, strict=False):
            seen[:, column], seen[:, column + 1] = (
                (vectors * ahead).sum(axis=1),
                (vectors * left).sum(axis=1),
            )
        for column, vectors in zip((10, 12), felt, strict=True):
            seen[:, column], seen[:, column + 1] = (
                (vectors * ahead).sum(axis=1),
                (vectors * left).sum(axis=1),
            )
        seen[:, 14], seen[:, 15] = (
            np.cos(2 * np.pi * gait[:, PHASE]),
            np.sin(2 * np.pi * gait[:, PHASE]),
        )
        seen = np.clip(np.nan_to_num(seen), -1e3, 1e3).astype(np.float32)
        return dict(zip(self.possible_agents, seen, strict=True))

    def scene(self) -> Scene:
        """Return what a picture shows: vorticity and swimmers, also where they reach over a side."""
        sim, (width, height) = self.simulation, self.options.box
        outlines = []
        for k in range(self.options.swimmers):
            points = sim.surface(0, k)
            points = points - np.array(self.options.box) * np.floor(
                points.mean(axis=0) / self.options.box
            )
            for x in (-width, 0.0, width):
                for y in (-height, 0.0, height):
                    moved = points + np.array([x, y])
                    if (moved.max(axis=0) > 0).all() and (
                        moved.min(axis=0) < self.options.box
                    ).all():
                        outlines.append(Outline(moved, agent=True))
        return Scene(values=sim.vorticity(0), size=self.options.box, outlines=outlines, length="L")

    def render(self) -> Picture | list[Picture] | None:
        """Return a picture, or in the mode "rgb_array_list" those since the last call."""
        if self.render_mode is None:
            return None
        if self.render_mode == "rgb_array":
            return self._draw()
        pictures, self._pictures = self._pictures, []
        return pictures

    def _draw(self) -> Picture:
        return draw_panel(
            self.scene(), Caption(time=float(self.simulation.time[0]), title="swimmer school")
        )

    def _note_picture(self) -> None:
        if self.render_mode == "rgb_array_list":
            self._pictures.append(self._draw())

    def _looking(self, begun: float) -> Callable[[Simulation], npt.NDArray[np.bool_]]:
        """Return what is asked after each step of an action: whether a swimmer touches another one.

        On the way it notes pictures at the steps nearest to equal times; the last is that of the action's end.
        """
        noted = 0

        def look(sim: Simulation) -> npt.NDArray[np.bool_]:
            nonlocal noted
            due = begun + ACTION_TIME * (noted + 1) / FRAMES_PER_ACTION
            if noted + 1 < FRAMES_PER_ACTION and sim.time[0] + 0.5 * sim.dt[0] >= due:
                noted += 1
                self._note_picture()
            return _any_touch(sim)

        return look

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


parallel_env = SwimmerSchool
"""What ``env: parallel:cases.swimmer_school.env`` of a run makes."""


class SwimmerSchoolEnv(gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """flowsim/SwimmerSchool-v0 with one agent for the whole school.

    Observation (N * 16,) and action (N * 2,) are those of `SwimmerSchool`, one swimmer after the other; the reward is
    the mean. Parameters as there.
    """

    metadata: dict[str, Any] = SwimmerSchool.metadata

    def __init__(
        self, *, preset: str | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        self.world = SwimmerSchool(preset=preset, render_mode=render_mode, **options)
        self.render_mode, self.metadata = render_mode, self.world.metadata
        count = self.world.options.swimmers
        self.observation_space = spaces.Box(-1e3, 1e3, (count * OBSERVATIONS,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (count * 2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode whose start follows from the seed (or from the generator, without one)."""
        super().reset(seed=seed)
        seen, _ = self.world.reset(seed=int(self.np_random.integers(2**31)))
        return np.concatenate(list(seen.values())), {}

    def step(
        self, action: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Let all swimmers follow their commands for half a period T."""
        each = np.asarray(action).reshape(-1, 2)
        seen, rewards, ended, late, infos = self.world.step(
            dict(zip(self.world.possible_agents, each, strict=True))
        )
        joint = np.concatenate(list(seen.values()))
        reward = float(np.mean(list(rewards.values())))
        return joint, reward, all(ended.values()), all(late.values()), {"swimmers": infos}

    def render(self) -> Any:
        """Return a picture, or in the mode "rgb_array_list" those since the last call."""
        return self.world.render()
