"""Arguments and options that several commands have, and how a path on the command line is read."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coupling.commands import completion
from coupling.errors import ConfigError
from coupling.files import expand_path

if TYPE_CHECKING:
    from flowsim.render.quantities import Quantity

__all__ = [
    "Agent",
    "Agents",
    "CaseChanges",
    "Changes",
    "Continued",
    "EvaluationSeed",
    "Fields",
    "Fps",
    "Json",
    "Overrides",
    "Range",
    "Run",
    "Trust",
    "expanded",
    "preset_or_word",
    "quantities",
    "written_to",
]


def expanded(value: Any) -> Any:
    """Return a path, or several, with ``~`` and ``$VARIABLES`` as a shell expands them."""
    if isinstance(value, list):
        return [expanded(one) for one in value]
    try:
        return None if value is None else type(value)(expand_path(str(value)))
    except ValueError as error:
        raise typer.BadParameter(f"{value}: {error}") from error


def _runs(completed: Callable[..., Any], text: str) -> Any:
    """Return an argument that is the folder of a run, or several."""
    return typer.Argument(
        autocompletion=completed, metavar="RUN", help=text, show_default=False, callback=expanded
    )


def _settings(completed: Callable[..., Any], text: str) -> Any:
    """Return an argument of changes of settings."""
    return typer.Argument(autocompletion=completed, metavar="KEY=VALUE", help=text)


def written_to(text: str, *, show_default: bool = True) -> Any:
    """Return the option that names what a command writes."""
    return typer.Option("-o", "--output", callback=expanded, help=text, show_default=show_default)


Run = Annotated[Path, _runs(completion.runs, "folder of a run, such as runs/demo")]
Agent = Annotated[
    Path,
    _runs(completion.agents, "folder of a run, such as runs/demo, or name of a shipped agent"),
]
Agents = Annotated[
    list[Path], _runs(completion.agents, "folders of runs, or names of shipped agents")
]
Json = Annotated[
    bool, typer.Option("--json", help="print one JSON object on stdout and nothing else there")
]
Changes = Annotated[
    list[str] | None,
    _settings(
        completion.changes,
        "another task for it, such as env_options.cells_per_diameter=32",
    ),
]
Fields = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="what the film of a flow shows: vorticity, speed, pressure or several; what the task shows unless given",
    ),
]
Range = Annotated[
    str | None,
    typer.Option(
        "--range", help="where its colours end: 12, or vorticity=12,speed=1.5", show_default=False
    ),
]
Fps = Annotated[
    float | None,
    typer.Option(
        min=1.0,
        max=120.0,
        help="pictures of the film a second: 25 of a flow unless given, of another task what it says itself",
    ),
]
EvaluationSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        help="seed of the evaluation; none has the initial conditions of a training",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="run an environment or algorithm that comes with neither flowsim nor Gymnasium, and that you did not "
        "train with",
    ),
]
Overrides = Annotated[
    list[str] | None,
    _settings(
        completion.keys,
        "changes, such as agent.gamma=0.97",
    ),
]
Continued = Annotated[
    list[str] | None,
    _settings(
        completion.resumable,
        "run.steps, run.evaluate_episodes, run.checkpoint_every, agent.device or workers.* but workers.agents, "
        "such as run.steps=40000; the rest of a run stays as it is",
    ),
]
CaseChanges = Annotated[
    list[str] | None,
    _settings(
        completion.changes,
        "changes, such as reynolds=200 of a YAML file, env_options.reynolds=200 of a preset",
    ),
]


def preset_or_word(preset: str, overrides: list[str] | None) -> tuple[str | None, list[str]]:
    """Take the first argument for a change of the defaults where it is one: `flowsim train env=CartPole-v1`."""
    words = overrides or []
    return (None, [preset, *words]) if "=" in preset else (preset, words)


def quantities(names: str, ranges: str | None) -> "list[Quantity]":
    """Return what a film shows, from ``--fields`` and ``--range``."""
    from flowsim.render.quantities import choose

    try:
        return choose(names, ranges)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error


def shown(names: str | None, ranges: str | None) -> "dict[str, Any]":
    """Return what a film of a task shows, as arguments of :func:`coupling.film.flow_film.render_film`.

    Without names it is what the task shows of itself, or the fields that the range names.
    """
    if names is None and ranges is None:
        return {}
    if names is not None or "=" in str(ranges):
        named = (word.partition("=")[0] for word in str(ranges).split(","))
        return {"quantities": quantities(names or ",".join(named), ranges)}
    return {"limit": quantities("vorticity", ranges)[0].limit}
