"""Gymnasium environments over batched flow simulations.

`FlowVectorEnv` is a batch of simulations that step together, and `FlowEnv` a batch of one. Both implement the
Gymnasium API; `Episodes` handles the episodes, and a `FlowTask` defines the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from cases.episodes import Episodes, Info
from cases.flow_task import FlowTask
from cases.initial_flows import seed_of
from cases.loads import BoolArray, FloatArray
from cases.options import parse_options
from flowsim.render.fields import Window


def make_task(env_class: type[Any], preset: str | None, options: Info, batch: int) -> FlowTask[Any]:
    """Return the task of an environment class, with validated options.

    Raises
    ------
    TypeError
        For a class that does not define what it must, as for an abstract method.
    ValueError
        If there is no environment.
    """
    if batch < 1:
        raise ValueError(f"the number of environments is {batch}, but must be at least 1")
    task_class = _defined(env_class, "task_class", "its FlowTask")
    model = _defined(task_class, "options_class", "a subclass of FlowOptions with its options")
    folder = _defined(task_class, "folder", "that of its presets, Path(__file__).parent")
    return task_class(parse_options(model, folder, preset, options), batch)


def _defined(owner: type[Any], name: str, what: str) -> Any:
    """Return a class attribute without a default."""
    if not hasattr(owner, name):
        raise TypeError(f"the class {owner.__name__} must define {name}: {what}")
    return getattr(owner, name)


def check_render_mode(render_mode: str | None, allowed: Sequence[str]) -> None:
    """Raise if an environment does not have the render mode."""
    if render_mode is not None and render_mode not in allowed:
        raise ValueError(
            f"render_mode is {render_mode!r}, but must be None or one of {', '.join(allowed)}"
        )


def _autoreset_mode(value: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(value)
    except ValueError:
        allowed = ", ".join(mode.value for mode in AutoresetMode)
        raise ValueError(f"autoreset_mode is {value!r}, but must be one of {allowed}") from None


def joint_space(space: spaces.Space[Any], agents: int) -> spaces.Space[Any]:
    """Return the joint space of N agents, the concatenation of their spaces."""
    if agents == 1:
        return space
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n] * agents)
    assert isinstance(space, spaces.Box)
    low, high = np.tile(space.low, agents), np.tile(space.high, agents)
    return spaces.Box(low, high, dtype=np.float32)


def _of_each(task: FlowTask[Any], actions: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return actions of the joint space, shape (B, ...), with an axis of agents if there are several."""
    values = np.asarray(actions)
    if task.agents == 1 or values.ndim != 2 or values.shape[1] % task.agents:
        return values  # `Episodes` raises if the shape is wrong
    return values.reshape(len(values), task.agents, *([-1] if task.action_space.shape else []))


def _seen(episodes: Episodes) -> npt.NDArray[np.float32]:
    """Return the observations in the joint space, shape (B, n)."""
    return episodes.observations().reshape(episodes.task.batch, -1)


def saved_generator(generator: np.random.Generator) -> Info:
    """Return the state of a generator and its seed, which determines the purpose of its episodes."""
    return {"generator": generator.bit_generator.state, "seed": seed_of(generator)}


def restored_generator(state: Info) -> np.random.Generator:
    """Return the generator restored from `saved_generator`."""
    generator = seeding.np_random(state.get("seed", 0))[0]
    generator.bit_generator.state = state["generator"]
    return generator


class Portable:
    """Mixin for copying and pickling: stores options and state, and rebuilds the simulation from them."""

    episodes: Episodes
    task: FlowTask[Any]
    _at_home: ClassVar[tuple[str, ...]] = ("episodes", "task", "_window")

    def __getstate__(self) -> dict[str, Any]:
        rest = {name: value for name, value in vars(self).items() if name not in self._at_home}
        batch = self.task.batch
        return {
            "rest": rest,
            "options": self.task.options,
            "flow": [self.episodes.get_state(b) for b in range(batch)],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["rest"])
        self.episodes = Episodes(type(self).task_class(state["options"], len(state["flow"])))  # type: ignore[attr-defined]
        self.task = self.episodes.task
        for index, flow in enumerate(state["flow"]):
            self.episodes.set_state(index, flow)


class FlowEnv(Portable, gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """A task in one flow, as a Gymnasium environment.

    `info` contains `time` (since the start of the episode), `applied_action` (the commands after clipping to [-1, 1]),
    `solver_steps` of this action, `diverged`, the averages `drag`, `lift`, `torque` and `power` over the action for
    each body in the task's order (see `Loads`), the entries of `FlowTask.info`, and in `measures` the quantities that
    an evaluation reports in addition to the return (`FlowTask.measures`).

    If there are several agents, their observations and actions are concatenated, the reward is the mean, and
    `info["rewards"]` contains the reward of each agent; `FlowParallelEnv` keeps the agents separate.

    Parameters
    ----------
    preset : str, optional
        Name of a shipped preset whose `env_options` are the base of `options`. Without one, options that are not
        given have the defaults of the task's `options_class`; in the tasks of flowsim these are those of `quick`.
    render_mode : {"rgb_array", "human"}, optional
        "human" shows every action in a window, if there is a display.
    **options
        The task's options.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or out of range.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012
    task_class: ClassVar[type[FlowTask[Any]]]
    _window: Window | None = None

    def __init__(
        self, *, preset: str | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.episodes = Episodes(make_task(type(self), preset, options, batch=1))
        self.task = self.episodes.task
        self.observation_space = joint_space(self.task.observation_space, self.task.agents)
        self.action_space = joint_space(self.task.action_space, self.task.agents)
        self.render_mode = render_mode
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[npt.NDArray[np.float32], Info]:
        """Start an episode, sampled with the seed or, without one, from the current generator; there are no options."""
        super().reset(seed=seed)
        self.episodes.start({0: self.np_random})
        self._over = False
        self._show()
        return _seen(self.episodes)[0], self.episodes.infos()[0]

    def step(
        self, action: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, Info]:
        """Apply an action for one action time."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() before step()")
        outcome = self.episodes.play(_of_each(self.task, np.asarray(action)[None]))
        terminated, truncated = bool(outcome.terminated[0]), bool(outcome.truncated[0])
        self._over = terminated or truncated
        self._show()
        info = self.episodes.infos()[0]
        return (
            _seen(self.episodes)[0],
            float(outcome.reward[0]),
            terminated,
            truncated,
            info,
        )

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return an image in the mode "rgb_array"; update the window in the mode "human"."""
        if self.render_mode == "rgb_array":
            return self.episodes.picture(0)
        self._show()
        return None

    def _show(self) -> None:
        if self.render_mode == "human":
            if self._window is None:
                self._window = Window(type(self).__name__)
            self._window.show(self.episodes.picture(0))

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def get_state(self) -> dict[str, Any]:
        """Return a copy of the state, including the random generator, as nested dictionaries."""
        generator = saved_generator(self.np_random)
        return {**self.episodes.get_state(0), **generator, "over": self._over}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `get_state` of an environment with the same options; continue bit for bit."""
        self.episodes.set_state(0, state)
        self.np_random = restored_generator(state)
        self._over = state["over"]


class FlowVectorEnv(
    Portable, VectorEnv[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[Any]]
):
    """A task in a batch of flows, all in one `Simulation`, as a Gymnasium vector environment.

    Results are bitwise equal to those of `num_envs` single environments (`FlowEnv`) reset with the same seeds if there
    is one thread. More threads split the sums of a single simulation differently.

    Parameters
    ----------
    num_envs : int
        Number of environments.
    autoreset_mode : gymnasium.vector.AutoresetMode or its value
        When an environment starts a new episode after one has ended. `NEXT_STEP`, Gymnasium's default: on the next
        step, which ignores its action and has reward 0. `SAME_STEP`: immediately; the observation returned is the
        first of the new episode, and the last one of the old episode is in `info["final_obs"]`, with
        `info["final_info"]`. `DISABLED`: when `reset` is called for it.
    preset, render_mode, **options
        As in `FlowEnv`; a batch renders "rgb_array" only.

    Attributes
    ----------
    resting : bool array, shape (num_envs,)
        Set an entry when the environment is no longer needed: until its reset it is not advanced, costs nothing, has
        reward 0 and does not end.
    held_out_states : int
        Number of initial states for validation seeds, and for test seeds. The first episode of such a seed starts from
        the state with the index seed modulo this number. 0 if every episode samples its state.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }
    task_class: ClassVar[type[FlowTask[Any]]]

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        preset: str | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.episodes = Episodes(make_task(type(self), preset, options, num_envs))
        self.task = self.episodes.task
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.num_envs = num_envs
        # maximum episode length, from which a learner derives defaults
        self.episode_steps = self.task.options.episode_actions
        self.held_out_states = self.task.held_out_states
        self.single_observation_space = joint_space(self.task.observation_space, self.task.agents)
        self.single_action_space = joint_space(self.task.action_space, self.task.agents)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self.resting = np.zeros(num_envs, dtype=np.bool_)
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._over = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Info | None = None,
    ) -> tuple[npt.NDArray[np.float32], Info]:
        """Start episodes in all environments, or only where `options["reset_mask"]` is true.

        Parameters
        ----------
        seed : int, list or None
            An integer s stands for s, s + 1, ...; with None the current generators continue.
        options : dict, optional
            `reset_mask`, a boolean array of shape (num_envs,); others are ignored, as in Gymnasium's own environments.
        """
        mask = self._reset_mask(options)
        seeds: Sequence[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, (int, np.integer)):
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise ValueError(
                f"there are {len(seeds)} seeds, but there must be {self.num_envs}, one per environment"
            )
        self._start(mask, seeds)
        infos: Info = {}
        each = self.episodes.infos()
        for index in np.flatnonzero(mask).tolist():
            infos = self._add_info(infos, each[index], index)
        return _seen(self.episodes), infos

    def _reset_mask(self, options: Info | None) -> BoolArray:
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"reset_mask is {mask!r}, but must be a boolean array of shape ({self.num_envs},) with a true value"
            )
        return mask

    def _start(self, which: BoolArray, seeds: Sequence[int | None] | None = None) -> None:
        """Start episodes in the environments selected by a mask; those with a seed get a new generator."""
        generators = {}
        for index in np.flatnonzero(which).tolist():
            generator, seed = self._generators[index], seeds[index] if seeds is not None else None
            if generator is None or seed is not None:
                generator = self._generators[index] = seeding.np_random(seed)[0]
            generators[index] = generator
        self.episodes.start(generators)
        self._over[which] = self.resting[which] = False

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], FloatArray, BoolArray, BoolArray, Info]:
        """Apply the actions of all environments for one action time."""
        if None in self._generators:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        if (
            self.autoreset_mode is AutoresetMode.DISABLED
            and (waiting := self._over & ~self.resting).any()
        ):
            over = np.flatnonzero(waiting).tolist()
            raise gymnasium.error.ResetNeeded(
                f"the episodes of environments {over} are over: reset() these first"
            )
        begun = self._over.copy()
        playing = ~(begun | self.resting)
        outcome = self.episodes.play(_of_each(self.task, actions), active=playing)
        self._start(begun & ~self.resting)
        rewards = np.where(playing, outcome.reward, 0.0)
        terminated, truncated = outcome.terminated & playing, outcome.truncated & playing
        self._over[:] = terminated | truncated
        observations = _seen(self.episodes)
        infos: Info = {}
        at_once = (
            self._over.copy()
            if self.autoreset_mode is AutoresetMode.SAME_STEP
            else np.zeros_like(self._over)
        )
        last, each = observations, self.episodes.infos()
        ended = each
        if at_once.any():
            self._start(at_once)
            observations = np.where(at_once[:, None], _seen(self.episodes), last)
            each = self.episodes.infos()
        for index in range(self.num_envs):
            if at_once[index]:
                final = {"final_obs": last[index].copy(), "final_info": ended[index]}
                infos = self._add_info(infos, final, index)
            infos = self._add_info(infos, each[index], index)
        return observations, rewards, terminated, truncated, infos

    def render(self) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """Return one image per environment in the mode "rgb_array"."""
        if self.render_mode is None:
            return None
        return tuple(self.episodes.picture(index) for index in range(self.num_envs))

    def get_state(self) -> list[dict[str, Any]]:
        """Return a copy of the state of every environment, including the random generators."""
        if None in self._generators:
            raise gymnasium.error.ResetNeeded("call reset() before get_state()")
        return [
            {
                **self.episodes.get_state(index),
                **saved_generator(generator),
                "over": bool(self._over[index]),
                "resting": bool(self.resting[index]),
            }
            for index, generator in enumerate(self._generators)
            if generator is not None
        ]

    def set_state(self, states: Sequence[dict[str, Any]]) -> None:
        """Restore states returned by `get_state`; continue bit for bit."""
        if len(states) != self.num_envs:
            raise ValueError(f"there are {len(states)} states, but there must be {self.num_envs}")
        for index, state in enumerate(states):
            self.episodes.set_state(index, state)
            self._generators[index] = restored_generator(state)
            self._over[index], self.resting[index] = state["over"], state.get("resting", False)
