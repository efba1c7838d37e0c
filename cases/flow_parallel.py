"""Flow tasks of several agents with the parallel interface of PettingZoo, which need not be installed."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding

from cases.episodes import Episodes
from cases.flow_env import FlowVectorEnv, Portable, check_render_mode, make_task
from cases.flow_task import FlowTask
from flowsim import Simulation
from flowsim.render.fields import Picture

FRAMES_PER_ACTION = 5
"""Images per action in the mode "rgb_array_list"."""
ACTIONS_A_SECOND = 5
"""Speed of a video."""

Observations = dict[str, npt.NDArray[np.float32]]
Infos = dict[str, dict[str, Any]]


class FlowParallelEnv(Portable):
    """A flow with several agents that act simultaneously; each has its own observation, action and reward.

    Agents are named after the task, `swimmer_0` and so on; an episode ends for all of them together. The `info` of an
    agent contains `time`, `solver_steps`, `diverged`, the loads on its body (see `Loads`), and what the task adds.

    Parameters
    ----------
    preset : str, optional
        Name of a shipped preset whose `env_options` are the base of `options`.
    render_mode : {"rgb_array", "rgb_array_list"}, optional
        With "rgb_array_list", `render` returns all images since its last call, five per action.
    **options
        The task's options.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or out of range.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array", "rgb_array_list"],
        "render_fps": ACTIONS_A_SECOND * FRAMES_PER_ACTION,
    }
    task_class: ClassVar[type[FlowTask[Any]]]
    vector_class: ClassVar[type[FlowVectorEnv]]
    """Class of the same task in a batch of flows."""

    def __init__(
        self, *, preset: str | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.episodes = Episodes(make_task(type(self), preset, options, batch=1))
        self.task = self.episodes.task
        self.options = self.task.options
        self.render_mode = render_mode
        if render_mode == "rgb_array":
            self.metadata = self.metadata | {"render_fps": ACTIONS_A_SECOND}  # type: ignore[misc]
        name, count = self.task.agent_name, self.task.agents
        self.possible_agents = [f"{name}_{number}" for number in range(count)]
        self.agents: list[str] = []
        self._generator = seeding.np_random(None)[0]
        self._pictures: list[Picture] = []

    @property
    def unwrapped(self) -> Self:
        """The environment itself, since it is not wrapped."""
        return self

    @property
    def simulation(self) -> Simulation:
        """The flow, a batch of one."""
        return self.task.simulation

    @property
    def num_agents(self) -> int:
        """Number of agents whose episode has not ended."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """Number of agents at the start of an episode."""
        return len(self.possible_agents)

    def observation_space(self, agent: str) -> spaces.Box:
        """Return the observation space of an agent."""
        return self.task.observation_space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of an agent."""
        return self.task.action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Start an episode, sampled with the seed or, without one, from the current generator; there are no options."""
        if seed is not None:
            self._generator = seeding.np_random(seed)[0]
        self.episodes.start({0: self._generator})
        self.agents = list(self.possible_agents)
        self._pictures = []
        self._note_picture()
        return self._observations(), {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, npt.ArrayLike]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Apply the actions of all agents for one action time."""
        if not self.agents:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() before step()")
        names = self.agents
        if self.render_mode == "rgb_array_list":
            self.episodes.watch = self._watch()
        outcome = self.episodes.play(np.array([[actions[name] for name in names]]))
        self.episodes.watch = None
        self._note_picture()
        ended, late = bool(outcome.terminated[0]), bool(outcome.truncated[0])
        self.agents = [] if ended or late else names
        return (
            self._observations(),
            dict(zip(names, outcome.rewards[0].tolist(), strict=True)),
            dict.fromkeys(names, ended),
            dict.fromkeys(names, late),
            self._infos(),
        )

    def _observations(self) -> Observations:
        return dict(zip(self.possible_agents, self.episodes.observations()[0], strict=True))

    def _infos(self) -> Infos:
        info, bodies = self.episodes.infos()[0], self.task.agent_bodies
        alike = {name: info[name] for name in ("time", "solver_steps", "diverged")}
        loads = {name: info[name][list(bodies)] for name in self.task.loads.averages() if bodies}
        own = loads | {name: info[name] for name in self.task.info()}
        return {
            agent: alike | {name: values[number].item() for name, values in own.items()}
            for number, agent in enumerate(self.possible_agents)
        }

    def render(self) -> Picture | list[Picture] | None:
        """Return an image, or in the mode "rgb_array_list" all images since the last call."""
        if self.render_mode is None:
            return None
        if self.render_mode == "rgb_array":
            return self.episodes.picture(0)
        pictures, self._pictures = self._pictures, []
        return pictures

    def _note_picture(self) -> None:
        if self.render_mode == "rgb_array_list":
            self._pictures.append(self.episodes.picture(0))

    def _watch(self) -> Any:
        """Return a callback that stores images at the steps nearest to evenly spaced times within an action.

        The last image of an action is stored by `step`.
        """
        begun, noted, span = float(self.simulation.time[0]), 0, self.options.action_time

        def look(sim: Simulation) -> None:
            nonlocal noted
            due = begun + span * (noted + 1) / FRAMES_PER_ACTION
            if noted + 1 < FRAMES_PER_ACTION and sim.time[0] + 0.5 * sim.dt[0] >= due:
                noted += 1
                self._note_picture()

        return look

    def close(self) -> None:
        """Do nothing, since there is nothing to close."""
