"""Videos of a run's agent: the first episodes of its evaluation."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cases.baselines import Controller
from coupling.errors import ConfigError, RunError, describe_failure, is_theirs
from coupling.evaluation.evaluate import baselines_of
from coupling.evaluation.pool import held_out_seeds, refuse_unfit
from coupling.files import read_json, reporting_damage
from coupling.film.arrangement import Lines
from coupling.film.ending import Ending
from coupling.film.flow_film import check_films, render_film
from coupling.film.task_film import film_task
from coupling.modules import OwnFolder
from coupling.run.agents import find_agent
from coupling.run.folder import RunFolder
from coupling.run.policies import load_controller
from coupling.run.screen import progress_bar
from coupling.run.trust import config_to_run
from coupling.settings.config import on_another_task
from coupling.worker.env_registry import is_flow, load_task
from coupling.worker.environments import make_vector
from flowsim.render.films import FPS
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose

__all__ = ["evaluated", "render"]

_LABELS = {"zero": "no control", "pd": "PD controller", "random": "random actions"}
"""Labels of baselines in a video; others are labelled with their names."""
_AGENT = "trained agent"
_FLOW_ACTIONS, _TASK_ACTIONS = 100, 300


# one argument per option of the video, most with a default, so that a call in Python reads like a command
def render(
    path: Path,
    files: Sequence[Path],
    *,
    changes: Sequence[str] = (),
    against: Sequence[str],
    episodes: int = 6,
    actions: int | None = None,
    deterministic: bool = True,
    seed: int = EVALUATION_SEED,
    fps: float | None = None,
    look: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> list[Ending]:
    """Render the first episodes of an agent's evaluation, and baselines with the initial condition of the first one.

    Parameters
    ----------
    path
        Folder of the run, or name of an agent that is included in the package.
    files
        ``.mp4``, ``.gif``, ``.webp`` and ``.png`` files (a series if the name contains ``%04d``), at most one of each.
    changes
        ``env_options.KEY=VALUE`` words, for a video of a different task from the run's.
    against
        Names of baselines.
    episodes, actions
        Number of episodes, and length of the video in actions; by default 100 for a flow and 300 for other tasks.
    deterministic
        Whether to act with the mean of the policy instead of a sample.
    seed
        Seed of the evaluation whose first episodes are shown, and of sampled actions.
    fps
        Frames per second; by default 25 for a flow, and the task's own rate for other tasks.
    look
        Options for a flow: ``quantities``, ``limit``, ``follow`` and ``frames_per_action`` of
        :func:`coupling.film.flow_film.render_film`. Other tasks render themselves.
    trust
        Whether to run code that is not trusted yet, see :mod:`coupling.run.trust`.

    Raises
    ------
    ConfigError
        For a run that does not exist, code that is not trusted, an unknown baseline, a task that cannot be
        rendered, or files that cannot be written. It is raised before anything is simulated.
    RunError
        If the checkpoint cannot be used.
    """
    folder = find_agent(path)
    config = on_another_task(config_to_run(folder, trust), changes)
    load_task(config.env)  # may be in a module of the current folder
    flow, look = is_flow(config.env), look or {}
    if look and not flow:
        word = {"quantities": "fields", "limit": "range"}.get(next(iter(look)), next(iter(look)))
        word = word.replace("_", "-")
        raise ConfigError(f"--{word} is only for films of flows; {config.env} renders itself")
    if not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's default needs a display
    shipped = baselines_of(config.env, config.env_options, seed)
    for name in against:
        if name not in shipped:
            raise ConfigError(
                f"--baseline {name}: the baselines of {config.env} are {', '.join(shipped)}"
            )
    try:
        check_films(files)
        agent: Controller = load_controller(folder, deterministic=deterministic, seed=seed)
        with progress_bar("filming") as progress:
            controllers = {_AGENT: agent} | {_label(name): shipped[name] for name in against}
            seeds = _seeds(config.env, config.env_options, agent, seed, episodes)
            actions = actions or (_FLOW_ACTIONS if flow else _TASK_ACTIONS)
            tally = evaluated(path, changes, against=against, deterministic=deterministic)
            if not flow:
                return film_task(
                    controllers, files, env=config.env, env_options=config.env_options, seeds=seeds, actions=actions,
                    fps=fps, tally=tally, progress=progress,
                )  # fmt: skip
            with _reporting_errors(config.env):
                # a custom task may change the current folder
                absolute = [file.absolute() for file in files]
                return render_film(
                    controllers, absolute, env=config.env, env_options=config.env_options, seeds=seeds,
                    actions=actions, fps=fps or FPS, tally=tally, progress=progress, **look,
                )  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _seeds(
    env: str, env_options: dict[str, Any], agent: Controller, seed: int, episodes: int
) -> list[int]:
    """Return the seeds of the first episodes of an evaluation; raise if the agent does not fit the task."""
    with contextlib.closing(make_vector(env, env_options, 1)) as vector:
        refuse_unfit(agent, env, vector)
        return held_out_seeds(vector, Purpose.EVALUATION, seed, episodes)


def evaluated(
    path: Path, changes: Sequence[str] = (), *, against: Sequence[str], deterministic: bool = True
) -> Lines:
    """Return the results of the run's evaluation, one line per controller, since a video has too few episodes.

    For a flow the result is the last of the task's measures, such as the net power, or else the number of episodes
    survived; for other tasks it is the mean return. Empty if there is no evaluation, or if ``changes`` change the task.
    """
    if changes:
        return []
    folder = find_agent(path)
    return _evaluation_lines(folder, against, deterministic, is_flow(folder.config().env))


@contextlib.contextmanager
def _reporting_errors(env: str) -> Iterator[None]:
    """Convert exceptions from the code of a custom flow task to a RunError.

    Raises
    ------
    RunError
        With the location in the custom code; exceptions from our own code are re-raised.
    """
    try:
        with OwnFolder():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if not is_theirs(error):
            raise
        raise RunError(f"env = {env!r} cannot be filmed: {describe_failure(error)}") from error


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def _evaluation_lines(
    folder: RunFolder, against: Sequence[str], deterministic: bool, flow: bool = True
) -> Lines:
    evaluation = read_json(folder.evaluation) if folder.evaluation.exists() else {}
    own = "after" if deterministic else "drawing"
    if not evaluation.keys() >= {"after", own}:
        return []
    lines: list[tuple[str, str]] = []
    with reporting_damage(folder.evaluation):
        results: dict[str, dict[str, Any]] = {_AGENT: evaluation[own]}
        results |= {_label(name): evaluation["after"]["baselines"][name] for name in against}
        for label, result in results.items():
            if measures := list(result.get("measures", {}).values()):
                found = f"{measures[-1]['mean']:.4g}"  # the last one, as in videos
            elif flow:
                found = f"{round(result['survival'] * result['episodes'])} of {result['episodes']}"
            else:
                found = f"{result['mean_return']:.1f}"
            lines.append((f"evaluation: {label}", found))
    return lines
