"""Videos of tasks that render themselves: games, robots, multi-agent environments, your own environment.

Panels are arranged as in the videos of flows (``flow_film.py``); their images are rendered by the environments.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box

from coupling.errors import ConfigError, RunError
from coupling.evaluation.evaluate import Controller
from coupling.film.arrangement import Arrangement, Lines
from coupling.film.ending import HOLD_SECONDS, Ending
from coupling.worker.environments import make_single
from coupling.worker.guard import FailureError
from flowsim.render.fields import Caption, Picture, frame_picture
from flowsim.render.films import FPS, write_films

__all__ = ["film_task"]

_MANY, _ONE = "rgb_array_list", "rgb_array"
_FASTEST = 1000.0  # frames per second; the held last frame of a film takes as many for each second


# one argument per option of the video, most with a default, so that a call in Python reads like a command
def film_task(
    controllers: Mapping[str, Controller],
    files: Sequence[Path],
    *,
    env: str,
    env_options: Mapping[str, Any],
    seeds: Sequence[int],
    actions: int,
    fps: float | None = None,
    width: int = 480,
    tally: Lines = (),
    progress: Callable[[float], None] = lambda done: None,
) -> list[Ending]:
    """Render the first controller with all initial conditions, and the others with the first one.

    An environment with the render mode ``rgb_array`` returns one image per action, one with ``rgb_array_list`` all
    images since the last call.

    Parameters
    ----------
    controllers
        Controllers by label of their panel.
    files
        Files to write, as accepted by :func:`coupling.film.flow_film.check_films`.
    env, env_options
        The task, as in :func:`coupling.worker.environments.make_single`.
    seeds
        Seeds of the initial conditions.
    actions
        Maximum length of the video, in actions.
    fps
        Frames per second; by default the task's own ``render_fps``.
    width
        Width of a large panel in pixels, even.
    tally
        Lines of two columns, written below the mean return of these episodes.
    progress
        Called with the fraction done, 0 to 1.

    Returns
    -------
    list of Ending
        Endings of the first controller in the order of the seeds, then those of the others.

    Raises
    ------
    ConfigError
        If the task cannot be made, or cannot render images.
    RunError
        If the task returns no image, or fails in all panels; a failure in only some panels ends their episodes.
    """
    mode = _mode(env, env_options)
    options = {**env_options, "render_mode": mode}
    form = Arrangement(len(controllers), len(seeds), width)
    film = _Film(form, tally, env)
    try:
        for label, controller in controllers.items():
            shown = seeds[:1] if film.panels else seeds
            titles = [
                label if len(seeds) == 1 else f"{label}: episode 1",
                *(f"episode {n}" for n in range(2, len(shown) + 1)),
            ]
            film.add(env, options, controller, dict(zip(titles, shown, strict=True)))
        named: dict[str, Any] = {file.suffix[1:]: file for file in files}
        rate = fps or _own_rate(env, film.panels[0].environment.metadata)
        write_films(
            film.pictures(actions, round(HOLD_SECONDS * rate), progress),
            **named,
            fps=rate,
            quantities=(),
        )
    finally:
        for panel in film.panels:
            panel.environment.close()
    return [panel.ending for panel in film.panels]


def _own_rate(env: str, metadata: Mapping[str, Any]) -> float:
    """Return the frames per second in the metadata of a task, or those of flows if it names none.

    Raises
    ------
    ConfigError
        If that is not a positive number, or too large a one.
    """
    rate = metadata.get("render_fps") or FPS
    if not isinstance(rate, int | float | np.number) or not 0 < rate <= _FASTEST:
        raise ConfigError(
            f"env = {env!r}: the render_fps of its metadata is {rate!r}, but must be a positive number of at most "
            f"{_FASTEST:g}; --fps gives another one"
        )
    return float(rate)


def _mode(env: str, env_options: Mapping[str, Any]) -> str:
    """Return the render mode to use for a task.

    Raises
    ------
    ConfigError
        If the task cannot render images.
    """
    environment = make_single(env, dict(env_options))
    modes = environment.metadata.get("render_modes") or ()
    environment.close()
    for mode in (_MANY, _ONE):
        if mode in modes:
            return mode
    raise ConfigError(
        f"env = {env!r} cannot be filmed: it cannot render images (the render_modes of its metadata lack {_ONE!r})"
    )


class _Panel:
    """The panel of one environment, with its images and the ending of its episode."""

    def __init__(
        self, env: str, options: dict[str, Any], seed: int, title: str, width: int
    ) -> None:
        self._env, self._width = env, width
        self.environment = make_single(env, options)
        self.ending = Ending(title, 0.0, 0, failed=False, how="filmed")
        self.over, self._frame = False, list[Picture]()
        try:
            self.observation, info = self.environment.reset(seed=seed)
        except FailureError as error:
            raise RunError(f"env = {env!r} cannot be filmed: {error}") from error
        self.failure = info.get("reset_failed", "")  # not the initial condition of its seed
        if self.failure:
            self._fail()
        self.last = self._draw(self._frames()[-1])

    def _fail(self) -> None:
        self.over, self.ending = True, replace(self.ending, how="failed")

    def step(self, action: np.ndarray) -> list[Picture]:
        """Act, and return the images of the action; none after the episode has ended."""
        if self.over:
            return []
        space = self.environment.action_space
        assert isinstance(space, Box)
        fitting = np.clip(action, space.low, space.high).astype(space.dtype)
        self.observation, reward, terminated, truncated, info = self.environment.step(fitting)
        self.failure = info.get("failed", "")
        if self.failure:  # the state is unknown, so it is not rendered again
            self._fail()
            self.last = self._draw(self._frame[0])
            return [self.last]
        self.over = terminated or truncated
        self.ending = replace(
            self.ending,
            episode_return=self.ending.episode_return + reward,
            actions=self.ending.actions + 1,
            how="terminated" if terminated else "truncated" if truncated else "filmed",
        )
        pictures = [self._draw(frame) for frame in self._frames()]
        self.last = pictures[-1]
        return pictures

    def _frames(self) -> list[Picture]:
        """Return the images that the environment renders, at least one."""
        try:
            shown = self.environment.render()
        except FailureError as error:
            if isinstance(error.__cause__, DependencyNotInstalled):
                cause = error.__cause__
                raise ConfigError(f"env = {self._env!r} cannot be filmed: {cause}") from error
            raise RunError(f"env = {self._env!r}: {error}") from error
        frames = [np.asarray(each) for each in (shown if isinstance(shown, list) else [shown])]
        for frame in frames:
            if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8 or not frame.size:
                what = f"{frame.dtype} of shape {frame.shape}"
                needs = "but a film needs uint8 of shape (rows, columns, 3)"
                raise RunError(f"env = {self._env!r}: its render() returned {what}, {needs}")
        if not frames:
            raise RunError(f"env = {self._env!r}: its render() returned no image")
        shapes = {frame.shape for frame in (*self._frame, *frames)}
        if len(shapes) > 1:
            sizes = " and ".join(f"{rows} x {columns}" for rows, columns, _ in sorted(shapes))
            raise RunError(
                f"env = {self._env!r}: its render() returned images of {sizes} pixels, but a film needs one size"
            )
        self._frame = frames[-1:]
        return frames

    def _draw(self, frame: Picture) -> Picture:
        ending, note = self.ending, ""
        if self.over:
            note = f"{ending.how} after {ending.actions} action{'s' if ending.actions != 1 else ''}"
        caption = Caption(0.0, title=ending.title, note=note)
        return frame_picture(frame, caption, f"return {ending.episode_return:.1f}", self._width)


class _Film:
    """All panels, the controller of each, and their arrangement."""

    def __init__(self, form: Arrangement, tally: Lines, name: str) -> None:
        self._form, self._tally, self._name = form, tally, name
        self.panels: list[_Panel] = []
        self._acting: list[tuple[Controller, list[_Panel]]] = []

    def add(
        self, env: str, options: dict[str, Any], controller: Controller, seeds: dict[str, int]
    ) -> None:
        """Add the episodes of a controller; `seeds` maps the title of each panel to its seed."""
        mine: list[_Panel] = []
        for title, seed in seeds.items():
            width = self._form.small if mine else self._form.width
            panel = _Panel(env, options, seed, title, width)
            mine.append(panel)
            self.panels.append(panel)
        controller.reset(len(mine))
        self._acting.append((controller, mine))

    def pictures(
        self, actions: int, hold: int, progress: Callable[[float], None]
    ) -> Iterator[Picture]:
        """Play the episodes and yield the frames; the last one is repeated."""
        last = self._arranged()
        yield last
        for n in range(actions):
            played: list[list[Picture]] = []
            for controller, panels in self._acting:
                seen = np.stack([np.asarray(panel.observation, np.float32) for panel in panels])
                chosen = controller(seen)
                played += [panel.step(a) for panel, a in zip(panels, chosen, strict=True)]
            # a panel whose episode has ended, or that has fewer images, shows its last one
            for shown in zip_longest(*played):
                last = self._arranged(shown)
                yield last
            progress((n + 1) / actions)
            if all(panel.failure for panel in self.panels):
                raise RunError(
                    f"env = {self._name!r} failed in each panel: {self.panels[0].failure}"
                )
            if all(panel.over for panel in self.panels):
                break
        for _ in range(hold):
            yield last

    def _arranged(self, shown: Sequence[Picture | None] = ()) -> Picture:
        pictures = [
            panel.last if picture is None else picture
            for panel, picture in zip_longest(self.panels, shown)
        ]
        large = [first for _, (first, *_) in self._acting]
        returns = [panel.ending.episode_return for panel in self._acting[0][1]]
        return self._form.arrange(
            [
                picture
                for picture, panel in zip(pictures, self.panels, strict=True)
                if panel in large
            ],
            [
                picture
                for picture, panel in zip(pictures, self.panels, strict=True)
                if panel not in large
            ],
            None,
            "mean return",
            [("these episodes", f"{np.mean(returns):.1f}"), *self._tally],
        )
