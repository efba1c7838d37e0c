"""Films of a flow task: several controllers from the same start, at one colour range, panel beside panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import cases  # noqa: F401  (registers the tasks)
from cases.baselines import Controller
from cases.flow_env import FlowEnv
from flowsim import Simulation
from flowsim.films import write_films
from flowsim.viz import VORTICITY_LIMIT, Caption, Picture, Scene, draw_panel

HOLD_SECONDS = 1.5
"""How long the last picture stands."""
_GAP = 4


class _Panel:
    """One controller in one environment: its pictures, frozen from the end of its episode on."""

    def __init__(self, label: str, env: FlowEnv, controller: Controller, seed: int, width: int, limit: float) -> None:
        self._label, self._env, self._controller = label, env, controller
        self._width, self._limit = width, limit
        self._observation, _ = env.reset(seed=seed)
        controller.reset(1)
        self.over = False
        self._note = ""
        self.last = self._draw(*self._look())

    def _look(self) -> tuple[Scene, Caption]:
        caption = replace(self._env.episodes.caption(0), title=self._label, note=self._note)
        return self._env.task.scene(0), caption

    def _draw(self, scene: Scene, caption: Caption) -> Picture:
        return draw_panel(scene, caption, self._width, self._limit)

    def play(self, frames: int) -> list[Picture]:
        """Play one action and return so many pictures of it."""
        if self.over:
            return [self.last] * frames
        moments: list[tuple[Scene, Caption]] = []
        begin = float(self._env.task.simulation.time[0])
        span = self._env.task.options.action_time

        def watch(simulation: Simulation) -> None:
            due = begin + span * (len(moments) + 1) / frames
            if simulation.time[0] >= due - 1e-6 and len(moments) < frames:
                moments.append(self._look())

        self._env.episodes.watch = watch
        action = self._controller(self._observation[None])[0]
        self._observation, _, terminated, truncated, info = self._env.step(action)
        self._env.episodes.watch = None
        self.over = terminated or truncated
        if self.over:
            self._note = self._verdict(terminated, info)
        pictures = [self._draw(*moment) for moment in moments]
        self.last = self._draw(*self._look())
        # The end of an action shows the return it brought; an action cut short is held for its whole time.
        return pictures[: frames - 1] + [self.last] * (frames - min(len(pictures), frames - 1))

    def _verdict(self, terminated: bool, info: dict[str, Any]) -> str:
        count = int(self._env.episodes.actions_done[0])
        if not terminated:
            return f"lived to the end: {count} actions"
        verb = "diverged" if info["diverged"] else "left the box"
        return f"{verb} after {count} action{'s' if count != 1 else ''}"

    def finish(self) -> None:
        """Say, in the last picture, that the film ends before the episode."""
        if not self.over:
            self._note = f"alive after {int(self._env.episodes.actions_done[0])} actions"
            self.last = self._draw(*self._look())


def render_film(
    controllers: Mapping[str, Controller],
    paths: Path | str | Sequence[Path | str],
    *,
    env: str = "flowsim/DCylinderWake-v0",
    env_options: Mapping[str, Any] | None = None,
    seed: int = 0,
    actions: int = 100,
    frames_per_action: int = 4,
    fps: float = 20.0,
    width: int = 640,
    limit: float = VORTICITY_LIMIT,
) -> dict[str, float]:
    """Film controllers that start from the same seed.

    The panel of an episode that ends freezes and says why; the film ends with the last of them, or after
    `actions`.

    Parameters
    ----------
    controllers : dict
        Label of the panel and its controller, e.g. ``{"trained": policy, "no control": ZeroController()}``.
    paths : path or two
        Files to write, an `.mp4`, a `.gif` (at most 1.5 MB) or both; each appears only when it is complete.
    env, env_options
        Id and options (or ``{"preset": name}``) of the flow task.
    seed : int
        Of the start.
    actions, frames_per_action : int
        Length, and pictures per action.
    fps : float
        Pictures per second of the MP4; the GIF takes the same time with fewer.
    width : int
        Width of a panel in pixels, even.
    limit : float
        Vorticity at which the colours saturate, in U/D.

    Returns
    -------
    dict
        Return of each panel, by label.

    Raises
    ------
    ValueError
        For no controllers, an unknown kind of file, or numbers out of range; nothing is written then.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, (str, Path)) else paths)]
    for file in files:
        if file.suffix not in (".mp4", ".gif"):
            raise ValueError(f"the film {file} has the suffix {file.suffix!r}, but must be a .mp4 or .gif file")
    if len({file.suffix for file in files}) != len(files):
        raise ValueError(f"there are {len(files)} files to write, but there must be at most one .mp4 and one .gif")
    for name, value in (("actions", actions), ("frames_per_action", frames_per_action)):
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    if width < 160 or width % 2:
        raise ValueError(f"width is {width}, but must be an even number of at least 160 pixels")
    if not controllers:
        raise ValueError("there are no controllers to film, but there must be at least one")
    panels = [
        _Panel(label, _make(env, env_options), controller, seed, width, limit)
        for label, controller in controllers.items()
    ]
    frames = _frames(panels, actions, frames_per_action, round(HOLD_SECONDS * fps))
    named = {file.suffix[1:]: file for file in files}
    write_films(frames, **named, fps=fps, expected=actions * frames_per_action)
    return {label: float(panel._env.episodes.returns[0]) for label, panel in zip(controllers, panels, strict=True)}


def _make(env_id: str, options: Mapping[str, Any] | None) -> FlowEnv:
    env = gymnasium.make(env_id, **(options or {})).unwrapped
    if not isinstance(env, FlowEnv):
        raise ValueError(f"the environment {env_id!r} is no flow task, but only flow tasks can be filmed")
    return env


def _frames(panels: list[_Panel], actions: int, frames_per_action: int, hold: int) -> Iterator[Picture]:
    yield _arrange([panel.last for panel in panels])
    for _ in range(actions):
        for pictures in zip(*(panel.play(frames_per_action) for panel in panels), strict=True):
            yield _arrange(pictures)
        if all(panel.over for panel in panels):
            break
    for panel in panels:
        panel.finish()
    last = _arrange([panel.last for panel in panels])
    for _ in range(hold):
        yield last


def _arrange(pictures: Sequence[Picture]) -> Picture:
    """Put panels below each other if they are wide, side by side if they are not."""
    height, width, _ = pictures[0].shape
    axis = 0 if width > 1.3 * height else 1
    gap = np.full((_GAP, width, 3) if axis == 0 else (height, _GAP, 3), 255, np.uint8)
    parts = [part for picture in pictures for part in (picture, gap)][:-1]
    return np.concatenate(parts, axis=axis)
