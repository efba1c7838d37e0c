"""Films of a run's agent: what it does from the starts that its evaluation began with."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases.baselines import Controller, baselines
from cases.film import FRAMES_PER_ACTION, Ending, check_films, render_film
from coupling.errors import ConfigError
from coupling.run.agents import find_agent
from coupling.run.evaluate import EVALUATION_SEED
from coupling.run.folder import RunFolder
from coupling.run.policies import load_controller
from coupling.run.screen import progress_bar
from coupling.settings.config import on_another_task
from coupling.worker.environments import episode_seed, make_vector
from coupling.worker.named import load_task
from flowsim.films import FPS
from flowsim.quantities import VORTICITY, Quantity

__all__ = ["render"]

_LABELS = {"zero": "no control", "pd": "PD controller", "random": "random actions"}


def render(
    path: Path,
    files: Sequence[Path],
    *,
    changes: Sequence[str] = (),
    beside: Sequence[str],
    starts: int = 6,
    actions: int = 100,
    deterministic: bool = True,
    seed: int | None = None,
    shown: Sequence[Quantity] = (VORTICITY,),
    follow: bool = False,
    fps: float = FPS,
    frames_per_action: int = FRAMES_PER_ACTION,
) -> list[Ending]:
    """Film a run's agent from the first starts of its evaluation, and baselines from the very first.

    Parameters
    ----------
    path
        The run's folder, or the name of an agent that comes with the package.
    files
        ``.mp4``, ``.gif``, ``.webp`` and ``.png`` (with ``%04d`` in its name a series), one of each at most.
    changes
        ``env_options.KEY=VALUE`` words, for a film of another task than the run's.
    beside
        Names of baselines.
    starts, actions
        How many starts, and the length of the film.
    deterministic
        Act with the mean of the policy instead of drawing.
    seed
        Of the starts, in the place of the evaluation's.
    shown
        What the large panels show, below each other.
    follow
        Keep the agent in the middle.
    fps, frames_per_action
        Pictures per second, and per action.

    Raises
    ------
    ConfigError
        For a run that is not there, an unknown baseline, a task that cannot be filmed, or files that cannot be
        written; before anything is simulated.
    RunError
        When the checkpoint cannot be used.
    """
    folder = find_agent(path)
    config = on_another_task(folder.config(), changes)
    load_task(config.env)  # a module of the current folder, perhaps
    shipped = baselines(config.env, seed=seed or 0)
    for name in beside:
        if name not in shipped:
            raise ConfigError(
                f"--beside {name}: the baselines of {config.env} are {', '.join(shipped)}"
            )
    if changes:
        make_vector(config.env, config.env_options, 1).close()  # which says what is wrong with them
    try:
        check_films(files)
        agent: Controller = load_controller(folder, deterministic=deterministic, seed=seed or 0)
        with progress_bar("filming") as progress:
            return render_film(
                {"trained agent": agent} | {_LABELS[name]: shipped[name] for name in beside},
                files,
                env=config.env,
                env_options=config.env_options,
                seeds=[
                    episode_seed(EVALUATION_SEED if seed is None else seed, n)
                    for n in range(starts)
                ],
                actions=actions,
                frames_per_action=frames_per_action,
                fps=fps,
                quantities=shown,
                follow=follow,
                tally=[] if changes else _tally(folder, beside, deterministic),
                progress=progress,
            )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _tally(folder: RunFolder, beside: Sequence[str], deterministic: bool) -> list[tuple[str, str]]:
    """Return how many starts of the run's evaluation were held, a line for each controller; none without one."""
    judged = json.loads(folder.evaluation.read_text()) if folder.evaluation.exists() else {}
    if not judged.keys() >= {"after", "drawing"}:
        return []
    results: dict[str, dict[str, Any]] = {
        "trained agent": judged["after" if deterministic else "drawing"]
    }
    results |= {_LABELS[name]: judged["after"]["baselines"][name] for name in beside}
    lines = []
    for label, result in results.items():
        held = round(result["survival"] * result["episodes"])
        lines.append((f"evaluation: {label}", f"{held} of {result['episodes']}"))
    return lines
