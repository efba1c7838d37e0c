"""Videos of a flow task: several episodes and controllers side by side, in one batch and with one colour range.

This is one module because the panel, the film that arranges panels and the function that creates both share options.
"""

from __future__ import annotations

import math
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
from cases.episodes import Episodes
from cases.flow_env import FlowVectorEnv
from coupling.evaluation.result import second_half
from coupling.film.arrangement import Arrangement, Lines
from coupling.film.ending import HOLD_SECONDS, Ending
from flowsim import Simulation
from flowsim.render.action_plot import History, draw_traces
from flowsim.render.fields import (
    Caption,
    Picture,
    Scene,
    draw_legends,
    draw_panel,
    draw_small_panel,
    text_size,
)
from flowsim.render.films import FPS, is_series, write_films
from flowsim.render.quantities import Quantity

FRAMES_PER_ACTION = 5
_ZOOM = 2.0
_SUFFIXES = (".mp4", ".gif", ".webp", ".png")
_ALLOWED = ".mp4, .gif, .webp or .png"

_Moment = tuple[list[Scene], Caption]
"""Content of a panel at a solver step: the scenes of its quantities, and the caption."""


@dataclass(frozen=True)
class Look:
    """Appearance of a video.

    Attributes
    ----------
    quantities : sequence of Quantity
        Quantities shown in large panels, from top to bottom; small panels show the first.
    follow : bool
        Whether the camera follows the agent, showing half of the box in each direction.
    width : int
        Width of a large panel in pixels, even.
    span : float
        Time at the right end of the action plots, counted from the first frame of the video.
    """

    quantities: Sequence[Quantity]
    follow: bool = False
    width: int = 480
    span: float = 1.0

    def scenes(self, episodes: Episodes, index: int, most: int) -> list[Scene]:
        """Return the scenes of a simulation, one for each of the first `most` quantities."""
        task, view = episodes.task, None
        scene = task.scene(index)
        if self.follow:
            x, y = task.focus(index)
            half_width, half_height = (0.5 * side / _ZOOM for side in scene.size)
            view = (x - half_width, x + half_width, y - half_height, y + half_height)
        shown = []
        for quantity in self.quantities[:most]:
            same = quantity.of is scene.quantity.of
            values = scene.values if same else quantity.of(task.simulation, index)
            shown.append(replace(scene, values=values, quantity=quantity, view=view))
        return shown


class _Panel:
    """The panel of one simulation of the batch; it freezes when the episode ends."""

    def __init__(
        self, episodes: Episodes, index: int, title: str, look: Look, small_width: int | None = None
    ) -> None:
        self._episodes, self.index, self._look, self._small_width = (
            episodes,
            index,
            look,
            small_width,
        )
        self.large = small_width is None
        self.ending = Ending(title, 0.0, 0, failed=False)
        self.over = False
        self._note = ""
        self._measured: list[Mapping[str, float]] = []
        self._history = History()
        self._moments: list[_Moment] = []
        self.last = self._draw(self._moment())

    def _moment(self) -> _Moment:
        caption = self._episodes.caption(self.index)
        caption = replace(
            caption, title=self.ending.title, note=self._note, failed=self.ending.failed
        )
        most = len(self._look.quantities) if self.large else 1
        return self._look.scenes(self._episodes, self.index, most), caption

    def _draw(self, moment: _Moment) -> Picture:
        (scene, *others), caption = moment
        if self._small_width is not None:
            return draw_small_panel(scene, caption, self._small_width)
        width, span = self._look.width, self._look.span
        traces = draw_traces(
            self._history, caption.time, span, width, text_size(width), scene.units.time,
            caption.action_names,
        )  # fmt: skip
        return draw_panel(scene, caption, width, others=others, traces=traces, legend=False)

    def begin(self, action: Sequence[float]) -> None:
        """Record the action that is about to be played."""
        if not self.over:
            self._history.add(self._episodes.caption(self.index).time, action)

    def watch(self, begun: float, frames: int) -> None:
        """Store the current step if it is nearest to the next of the `frames` of the action that began at `begun`."""
        if self.over or len(self._moments) >= frames - 1:
            return
        simulation = self._episodes.task.simulation
        due = begun + self._episodes.task.options.action_time * (len(self._moments) + 1) / frames
        if simulation.time[self.index] + 0.5 * simulation.dt[self.index] >= due:
            self._moments.append(self._moment())

    def pictures(
        self, frames: int, terminated: bool, truncated: bool, measures: Mapping[str, float]
    ) -> list[Picture]:
        """Return the frames of the action that was just played; `measures` are the task's measures of it."""
        if self.over:
            return [self.last] * frames
        count, index = int(self._episodes.actions_done[self.index]), self.index
        diverged = self._episodes.task.simulation.diverged[index]
        self._measured.append(measures)
        self.ending = replace(
            self.ending,
            episode_return=float(self._episodes.returns[index]),
            actions=count,
            failed=terminated,
            how="diverged" if diverged else "left the box" if terminated else "survived",
            measures={name: mean for name, (mean, _) in second_half(self._measured).items()},
        )
        self.over = terminated or truncated
        if terminated:
            self._note = f"{self.ending.how} after {count} action{'s' if count != 1 else ''}"
        elif truncated:
            self._note = self._found() or f"survived all {count} actions"
        pictures = [self._draw(moment) for moment in self._moments]
        self._moments.clear()
        self.last = self._draw(self._moment())
        # The last frame of an action shows its return; if the episode ended early, it is repeated.
        return pictures + [self.last] * (frames - len(pictures))

    def finish(self) -> None:
        """Add to the last frame a note that the video ends before the episode."""
        if not self.over:
            self._note = self._found() or f"survived {self.ending.actions} actions so far"
            self.last = self._draw(self._moment())

    def _found(self) -> str:
        """Return the first and the last of the task's measures as text, in a small panel only the last."""
        found = [f"{name} {mean:.3g}" for name, mean in self.ending.measures.items()]
        return ", ".join(found[:: max(len(found) - 1, 1)]) if self.large else "".join(found[-1:])


# one argument per option of the video, most with a default, so that a call in Python reads like a command
def render_film(
    controllers: Mapping[str, Controller],
    paths: Path | str | Sequence[Path | str],
    *,
    env: str = "flowsim/DCylinderWake-v0",
    env_options: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (0,),
    actions: int = 100,
    frames_per_action: int = FRAMES_PER_ACTION,
    fps: float = FPS,
    width: int = 480,
    quantities: Sequence[Quantity] = (),
    limit: float | None = None,
    follow: bool = False,
    tally: Lines = (),
    progress: Callable[[float], None] = lambda done: None,
) -> list[Ending]:
    """Render the first controller with all initial conditions, and the others with the first one.

    The panels of the first initial condition are large, the others small. When an episode ends, its panel freezes and
    shows how it ended. The video ends with the last episode, or after `actions`. All are simulated in one batch.

    Each action has `frames_per_action` frames: the last solver step, at which the next action is chosen, and the steps
    nearest to evenly spaced times before it. The solver takes the same steps as without a video, so the video shows
    the episodes of the evaluation; each frame shows the time of its own step, which is at most half a step off.

    Parameters
    ----------
    controllers : dict
        Controllers by label of their panel, e.g. ``{"trained": policy, "no control": ZeroController()}``.
    paths : path or several
        Files to write: an `.mp4`, a `.gif` or `.webp` (at most 1.5 MB each), a `.png` of the last frame, or of all
        frames if the name contains a number format (`wake-%04d.png`). Each file appears only when it is complete.
    env, env_options
        Id and options (or ``{"preset": name}``) of the flow task.
    seeds : sequence of int
        Seeds of the initial conditions.
    actions, frames_per_action : int
        Length in actions, and frames per action.
    fps : float
        Frames per second of the MP4; GIF and WebP have the same duration with fewer frames.
    width : int
        Width of a large panel in pixels, even.
    quantities : sequence of Quantity
        Quantities shown in the large panels, from top to bottom; the small ones show the first. The default is the
        task's own quantity, for most tasks the vorticity.
    limit : float or None
        Limit of the colour scale of the task's own quantity, in its unit. `quantities` have limits of their own.
    follow : bool
        Whether the camera follows the agent, showing half of the box.
    tally : sequence of (str, str)
        Lines of two columns, written below the number of episodes survived, or below the task's measure.
    progress : callable
        Called with the fraction done, 0 to 1.

    Returns
    -------
    list of Ending
        Endings of the first controller in the order of the seeds, then those of the others.

    Raises
    ------
    ValueError
        If there are no controllers or seeds, or for an unknown file type, a folder that cannot be created or written
        to, or values out of range; nothing is simulated or written then.
    """
    files = check_films(paths)
    for name, value in (("actions", actions), ("frames_per_action", frames_per_action)):
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    if limit is not None and not 0.0 < limit < math.inf:
        raise ValueError(f"limit is {limit}, but must be a positive number")
    if width < 160 or width % 2:
        raise ValueError(f"width is {width}, but must be an even number of at least 160 pixels")
    for what, things in (
        ("controllers", controllers),
        ("seeds", seeds),
    ):
        if not len(things):
            raise ValueError(f"there are no {what} to film, but there must be at least one")
    episodes = _start(env, env_options, [*seeds, *[seeds[0]] * (len(controllers) - 1)])
    options = episodes.task.options
    actions = min(actions, options.episode_actions)
    own = episodes.task.scene(0).quantity
    quantities = tuple(quantities) or (own if limit is None else replace(own, limit=limit),)
    look = Look(quantities, follow, width, span=actions * options.action_time)
    film = _Film(episodes, controllers, len(seeds), look, tally)
    frames = film.frames(actions, frames_per_action, round(HOLD_SECONDS * fps), progress)
    named = {file.suffix[1:]: file for file in files}
    write_films(frames, **named, fps=fps, quantities=quantities)
    return [panel.ending for panel in film.panels]


def check_films(paths: Path | str | Sequence[Path | str]) -> list[Path]:
    """Return the files to write, and create their folders if needed.

    Raises
    ------
    ValueError
        If one of them is not a supported file type, or cannot be written.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, (str, Path)) else paths)]
    for file in files:
        if file.suffix not in _SUFFIXES:
            raise ValueError(
                f"the film {file} has the suffix {file.suffix!r}, but must be a {_ALLOWED} file"
            )
        if "%" in file.name and not (file.suffix == ".png" and is_series(file)):
            raise ValueError(
                f"the film {file} has a % in its name, but only a series of PNG images is numbered, such as "
                "frame-%04d.png"
            )
        if file.is_dir():
            raise ValueError(f"the film {file} cannot be written: it is a folder")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=file.parent).close()
        except OSError as error:
            raise ValueError(
                f"the film {file} cannot be written to {file.parent}: {error.strerror}"
            ) from error
    if len({file.suffix for file in files}) != len(files):
        raise ValueError(
            f"there are {len(files)} files to write, but there must be at most one of a kind ({_ALLOWED})"
        )
    return files


def _start(env_id: str, options: Mapping[str, Any] | None, seeds: Sequence[int]) -> Episodes:
    """Return episodes in one batch, started as in single environments that are reset with these seeds."""
    refusal = (
        f"the environment {env_id!r} is not a flow task, and render_film films flow tasks only"
    )
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    try:
        env = gymnasium.make_vec(
            env_id, len(seeds), vectorization_mode=mode, **(options or {})
        ).unwrapped
    except gymnasium.error.Error as error:
        raise ValueError(f"{refusal}: {error}") from error
    except ImportError as error:  # the part before a colon is not a module with Gymnasium tasks
        raise ValueError(refusal) from error
    if not isinstance(env, FlowVectorEnv):
        raise ValueError(refusal)
    env.episodes.start({index: seeding.np_random(seed)[0] for index, seed in enumerate(seeds)})
    return env.episodes


class _Film:
    """The panels of a batch, the controller of each, and their arrangement."""

    def __init__(
        self,
        episodes: Episodes,
        controllers: Mapping[str, Controller],
        shown: int,
        look: Look,
        tally: Lines,
    ) -> None:
        self._episodes, self._shown, self._tally = episodes, shown, tally
        scene = look.scenes(episodes, 0, 1)[0]
        wide = scene.size[0] > 1.3 * scene.size[1]
        self._form = Arrangement(
            len(controllers),
            shown,
            look.width,
            stacked=shown == 1 and len(look.quantities) == 1 and wide,
        )
        self.panels: list[_Panel] = []
        self._acting: list[tuple[Controller, slice]] = []
        for k, (label, controller) in enumerate(controllers.items()):
            count, first = (1 if k else shown), len(self.panels)
            controller.reset(count)
            self._acting.append((controller, slice(first, first + count)))
            title = label if shown == 1 else f"{label}: episode 1"
            self.panels.append(_Panel(episodes, first, title, look))
            for n in range(1, count):
                self.panels.append(
                    _Panel(episodes, first + n, f"episode {n + 1}", look, self._form.small)
                )
        self._legend = draw_legends(
            self._form.whole,
            self._form.size,
            scene.scale(look.width),
            look.quantities,
            scene.units,
        )

    def frames(
        self, actions: int, frames_per_action: int, hold: int, progress: Callable[[float], None]
    ) -> Iterator[Picture]:
        """Play the episodes and yield the frames."""
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
        """Play one action in all simulations; those whose episode has ended are simulated, but not drawn."""
        begun = self._episodes.task.simulation.time.copy()

        def watch(simulation: Simulation) -> None:
            for panel in self.panels:
                panel.watch(begun[panel.index], frames)

        observations = self._episodes.observations()
        actions = np.concatenate(
            [controller(observations[rows]) for controller, rows in self._acting]
        )
        for panel in self.panels:
            panel.begin(np.clip(actions[panel.index], -1.0, 1.0).tolist())
        self._episodes.watch = watch
        outcome = self._episodes.play(actions)
        self._episodes.watch = None
        infos = self._episodes.infos()
        return [
            panel.pictures(
                frames,
                bool(outcome.terminated[panel.index]),
                bool(outcome.truncated[panel.index]),
                infos[panel.index].get("measures", {}),
            )
            for panel in self.panels
        ]

    def _arrange(self, pictures: Sequence[Picture]) -> Picture:
        """Arrange the images of all panels in one frame, with a table of the results of these episodes and the tally.

        The result is the last of the task's measures, or else the number of episodes survived.
        """
        pairs = list(zip(pictures, self.panels, strict=True))
        endings = [panel.ending for panel in self.panels[: self._shown]]
        title = "survived"
        these = f"{sum(not ending.failed for ending in endings)} of {self._shown}"
        for title in endings[0].measures:
            these = f"{np.mean([e.measures.get(title, np.nan) for e in endings]):.4g}"
        return self._form.arrange(
            [picture for picture, panel in pairs if panel.large],
            [picture for picture, panel in pairs if not panel.large],
            self._legend,
            title,
            [("these episodes", these), *self._tally],
        )
