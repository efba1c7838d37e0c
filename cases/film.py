"""Films of a flow task: starts and controllers side by side, in one batch of simulations and at one colour range."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding

import cases  # noqa: F401  (registers the tasks)
from cases.baselines import Controller
from cases.flow_env import Episodes, FlowVectorEnv
from flowsim import Simulation
from flowsim.films import write_films
from flowsim.viz import (
    VORTICITY_LIMIT,
    Caption,
    Picture,
    Scene,
    draw_legend,
    draw_panel,
    draw_small_panel,
    draw_table,
    text_size,
)

HOLD_SECONDS = 1.5
"""How long the last picture stands."""
_GAP = 4
_SUFFIXES = (".mp4", ".gif", ".png")
_ALLOWED = ".mp4, .gif or .png"


@dataclass(frozen=True)
class Ending:
    """How one simulation of a film ended.

    Attributes
    ----------
    title : str
        What its panel is called.
    episode_return : float
        Undiscounted sum of the rewards.
    actions : int
        How many there were.
    lost : bool
        Whether the agent was lost, or the simulation diverged.
    """

    title: str
    episode_return: float
    actions: int
    lost: bool


class _Panel:
    """One simulation of the batch: its pictures, frozen from the end of its episode on."""

    def __init__(self, episodes: Episodes, index: int, title: str, width: int, limit: float, large: bool) -> None:
        self._episodes, self.index, self._width, self._limit, self.large = episodes, index, width, limit, large
        self.ending = Ending(title, 0.0, 0, lost=False)
        self.over = False
        self._note = ""
        self._moments: list[tuple[Scene, Caption]] = []
        self.last = self._draw(*self._look())

    def _look(self) -> tuple[Scene, Caption]:
        caption = self._episodes.caption(self.index)
        caption = replace(caption, title=self.ending.title, note=self._note, lost=self.ending.lost)
        return self._episodes.task.scene(self.index), caption

    def _draw(self, scene: Scene, caption: Caption) -> Picture:
        if self.large:
            return draw_panel(scene, caption, self._width, self._limit, legend=False)
        return draw_small_panel(scene, caption, self._width, self._limit)

    def watch(self, begun: float, frames: int) -> None:
        """Remember the moment if it is time for one of the `frames` pictures of the action that began at `begun`."""
        if self.over or len(self._moments) >= frames - 1:
            return
        due = begun + self._episodes.task.options.action_time * (len(self._moments) + 1) / frames
        if self._episodes.task.simulation.time[self.index] >= due - 1e-6:
            self._moments.append(self._look())

    def pictures(self, frames: int, terminated: bool, truncated: bool) -> list[Picture]:
        """Return the pictures of an action that was just played."""
        if self.over:
            return [self.last] * frames
        count, index = int(self._episodes.actions_done[self.index]), self.index
        self.ending = replace(
            self.ending, episode_return=float(self._episodes.returns[index]), actions=count, lost=terminated
        )
        self.over = terminated or truncated
        if terminated:
            verb = "diverged" if self._episodes.task.simulation.diverged[index] else "lost"
            self._note = f"{verb} after {count} action{'s' if count != 1 else ''}"
        elif truncated:
            self._note = f"held to the end: {count} actions"
        pictures = [self._draw(*moment) for moment in self._moments]
        self._moments.clear()
        self.last = self._draw(*self._look())
        # The end of an action shows the return it brought; an action cut short is held for its whole time.
        return pictures + [self.last] * (frames - len(pictures))

    def finish(self) -> None:
        """Say, in the last picture, that the film ends before the episode."""
        if not self.over:
            self._note = f"held so far: {self.ending.actions} actions"
            self.last = self._draw(*self._look())


def render_film(
    controllers: Mapping[str, Controller],
    paths: Path | str | Sequence[Path | str],
    *,
    env: str = "flowsim/DCylinderWake-v0",
    env_options: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (0,),
    actions: int = 100,
    frames_per_action: int = 4,
    fps: float = 20.0,
    width: int = 480,
    limit: float = VORTICITY_LIMIT,
    tally: Sequence[tuple[str, str]] = (),
    progress: Callable[[float], None] = lambda done: None,
) -> list[Ending]:
    """Film the first controller from all starts, and beside it the others from the first start.

    The panels of the first start are large, the others small. The panel of an episode that ends freezes and says how;
    the film ends with the last of them, or after `actions`. All are simulated in one batch.

    Parameters
    ----------
    controllers : dict
        Label of the panel and its controller, e.g. ``{"trained": policy, "no control": ZeroController()}``.
    paths : path or several
        Files to write: an `.mp4`, a `.gif` (at most 1.5 MB), a `.png` of the last picture; each appears only when it is
        complete.
    env, env_options
        Id and options (or ``{"preset": name}``) of the flow task.
    seeds : sequence of int
        Of the starts.
    actions, frames_per_action : int
        Length, and pictures per action.
    fps : float
        Pictures per second of the MP4; the GIF takes the same time with fewer.
    width : int
        Width of a large panel in pixels, even.
    limit : float
        Vorticity at which the colours saturate, in U/D.
    tally : sequence of (str, str)
        Lines of two columns to write below how many of several starts were held.
    progress : callable
        Called with the part that is done, 0 to 1.

    Returns
    -------
    list of Ending
        The first controller's in the order of the seeds, then those of the others.

    Raises
    ------
    ValueError
        For no controllers or starts, an unknown kind of file, a folder that is not there or cannot be written, or
        numbers out of range; nothing is simulated or written then.
    """
    files = check_films(paths)
    for name, value in (("actions", actions), ("frames_per_action", frames_per_action)):
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    if width < 160 or width % 2:
        raise ValueError(f"width is {width}, but must be an even number of at least 160 pixels")
    for what, things in (("controllers", controllers), ("starts", seeds)):
        if not len(things):
            raise ValueError(f"there are no {what} to film, but there must be at least one")
    episodes = _start(env, env_options, [*seeds, *[seeds[0]] * (len(controllers) - 1)])
    film = _Film(episodes, controllers, len(seeds), width, limit, tally)
    actions = min(actions, episodes.task.options.episode_actions)
    frames = film.frames(actions, frames_per_action, round(HOLD_SECONDS * fps), progress)
    named = {file.suffix[1:]: file for file in files}
    write_films(frames, **named, fps=fps, expected=actions * frames_per_action)
    return [panel.ending for panel in film.panels]


def check_films(paths: Path | str | Sequence[Path | str]) -> list[Path]:
    """Return the files to write.

    Raises
    ------
    ValueError
        If one of them is no film, or cannot be written where it is to be.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, (str, Path)) else paths)]
    for file in files:
        if file.suffix not in _SUFFIXES:
            raise ValueError(f"the film {file} has the suffix {file.suffix!r}, but must be a {_ALLOWED} file")
        if not file.parent.is_dir():
            raise ValueError(f"the film {file} cannot be written: there is no folder {file.parent}")
        if file.is_dir():
            raise ValueError(f"the film {file} cannot be written: it is a folder")
        try:
            tempfile.TemporaryFile(dir=file.parent).close()
        except OSError as error:
            raise ValueError(f"the film {file} cannot be written to {file.parent}: {error.strerror}") from error
    if len({file.suffix for file in files}) != len(files):
        raise ValueError(f"there are {len(files)} files to write, but there must be at most one of a kind ({_ALLOWED})")
    return files


def _start(env_id: str, options: Mapping[str, Any] | None, seeds: Sequence[int]) -> Episodes:
    """Return episodes in one batch, begun as single environments that are reset with these seeds would."""
    refusal = f"the environment {env_id!r} is no flow task, but only flow tasks can be filmed"
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    try:
        env = gymnasium.make_vec(env_id, len(seeds), vectorization_mode=mode, **(options or {})).unwrapped
    except gymnasium.error.Error as error:
        raise ValueError(f"{refusal}: {error}") from error
    if not isinstance(env, FlowVectorEnv):
        raise ValueError(refusal)
    for index, seed in enumerate(seeds):
        env.episodes.start(index, seeding.np_random(seed)[0])
    return env.episodes


class _Film:
    """The panels of a batch, who acts in which, and how they are arranged."""

    def __init__(
        self,
        episodes: Episodes,
        controllers: Mapping[str, Controller],
        starts: int,
        width: int,
        limit: float,
        tally: Sequence[tuple[str, str]],
    ) -> None:
        self._episodes, self._starts, self._tally = episodes, starts, tally
        self._whole = len(controllers) * (width + _GAP) - _GAP
        self._columns = len(controllers) + 1
        small = (self._whole + _GAP) // self._columns // 2 * 2 - _GAP
        self.panels: list[_Panel] = []
        self._acting: list[tuple[Controller, slice]] = []
        for k, (label, controller) in enumerate(controllers.items()):
            count, first = (1 if k else starts), len(self.panels)
            controller.reset(count)
            self._acting.append((controller, slice(first, first + count)))
            title = label if starts == 1 else f"{label}: start 1"
            self.panels.append(_Panel(episodes, first, title, width, limit, large=True))
            for n in range(1, count):
                self.panels.append(_Panel(episodes, first + n, f"start {n + 1}", small, limit, large=False))
        size, scale = text_size(width), width / self._scene().size[0]
        self._small, self._size = small, size
        self._stacked = starts == 1 and self.panels[0].last.shape[1] > 1.3 * self.panels[0].last.shape[0]
        self._legend = draw_legend(width if self._stacked else self._whole, size, scale, limit, self._scene().length)

    def _scene(self) -> Scene:
        return self._episodes.task.scene(0)

    def frames(
        self, actions: int, frames_per_action: int, hold: int, progress: Callable[[float], None]
    ) -> Iterator[Picture]:
        """Play the episodes and give the pictures."""
        yield self._arrange([panel.last for panel in self.panels])
        for n in range(actions):
            for pictures in zip(*self._play(frames_per_action), strict=True):
                yield self._arrange(pictures)
            progress((n + 1) / actions)
            if all(panel.over for panel in self.panels):
                break
        for panel in self.panels:
            panel.finish()
        last = self._arrange([panel.last for panel in self.panels])
        for _ in range(hold):
            yield last

    def _play(self, frames: int) -> list[list[Picture]]:
        """Play one action in all simulations; those that are over are carried along, and nobody looks at them."""
        begun = self._episodes.task.simulation.time.copy()

        def watch(simulation: Simulation) -> None:
            for panel in self.panels:
                panel.watch(begun[panel.index], frames)

        observations = self._episodes.observations()
        actions = np.concatenate([controller(observations[rows]) for controller, rows in self._acting])
        self._episodes.watch = watch
        outcome = self._episodes.play(actions)
        self._episodes.watch = None
        return [
            panel.pictures(frames, bool(outcome.terminated[panel.index]), bool(outcome.truncated[panel.index]))
            for panel in self.panels
        ]

    def _arrange(self, pictures: Sequence[Picture]) -> Picture:
        """Put the large ones in a row and small ones in rows below, or few large and wide ones below each other."""
        large = [picture for picture, panel in zip(pictures, self.panels, strict=True) if panel.large]
        small = [picture for picture, panel in zip(pictures, self.panels, strict=True) if not panel.large]
        if self._stacked:
            return _column([*large, self._legend])
        rows = [_row(large), self._legend]
        if self._starts > 1:
            cells = [*small, self._score(self._small, small[0].shape[0])]
            for first in range(0, len(cells), self._columns):
                rows.append(_row(cells[first : first + self._columns]))
        return _column(rows)

    def _score(self, width: int, height: int) -> Picture:
        """Return how many starts were held so far, and the tally."""
        held = sum(not panel.ending.lost for panel in self.panels[: self._starts])
        lines = [("these starts", f"{held} of {self._starts}"), *self._tally]
        return draw_table(width, height, self._size, "held", lines)


def _row(pictures: Sequence[Picture]) -> Picture:
    gap = np.full((pictures[0].shape[0], _GAP, 3), 255, np.uint8)
    return np.concatenate([part for picture in pictures for part in (picture, gap)][:-1], axis=1)


def _column(pictures: Sequence[Picture]) -> Picture:
    """Put pictures below each other, on white where they are not as wide as the widest."""
    width = max(picture.shape[1] for picture in pictures)
    parts = []
    for picture in pictures:
        parts.append(np.pad(picture, ((0, _GAP), (0, width - picture.shape[1]), (0, 0)), constant_values=255))
    return np.concatenate(parts)
