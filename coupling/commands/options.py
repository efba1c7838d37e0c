"""Arguments and options shared by several commands, and the expansion of paths on the command line."""

import os
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
    """Expand ``~`` and ``$VARIABLES`` in a path or in a list of paths."""
    if isinstance(value, list):
        return [expanded(one) for one in value]
    try:
        return None if value is None else type(value)(expand_path(str(value)))
    except ValueError as error:
        raise typer.BadParameter(f"{value}: {error}") from error


def _runs(completed: Callable[..., Any], text: str) -> Any:
    """Return an argument for one or several run folders."""
    return typer.Argument(
        autocompletion=completed, metavar="RUN", help=text, show_default=False, callback=expanded
    )


def _settings(completed: Callable[..., Any], text: str) -> Any:
    """Return an argument for changes of settings."""
    return typer.Argument(autocompletion=completed, metavar="KEY=VALUE", help=text)


def written_to(text: str, *, show_default: bool = True) -> Any:
    """Return the option that names the output of a command."""
    return typer.Option("-o", "--output", callback=expanded, help=text, show_default=show_default)


Run = Annotated[Path, _runs(completion.runs, "folder of a run, such as runs/demo")]
Agent = Annotated[
    Path,
    _runs(completion.agents, "folder of a run, such as runs/demo, or the name of a shipped agent"),
]
Agents = Annotated[
    list[Path], _runs(completion.agents, "folders of runs or names of shipped agents")
]
Json = Annotated[
    bool, typer.Option("--json", help="print a single JSON object on stdout and nothing else")
]
Changes = Annotated[
    list[str] | None,
    _settings(
        completion.changes,
        "changes to the task, such as env_options.cells_per_diameter=32",
    ),
]
Fields = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="fields in the film of a flow: vorticity, speed, pressure, q, streamfunction, divergence, temperature "
        "or several of them (default: that of the task)",
    ),
]
Range = Annotated[
    str | None,
    typer.Option(
        "--range",
        help="limit of the colour scale: 12, or vorticity=12,speed=1.5",
        show_default=False,
    ),
]
Fps = Annotated[
    float | None,
    typer.Option(
        min=1.0,
        max=120.0,
        help="frames per second (default: 25 for a flow, else the rate that the environment's metadata give)",
    ),
]
EvaluationSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        help="seed of the evaluation episodes, which never repeat the initial conditions of training",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="run the code of an environment or algorithm that is not part of flowsim or Gymnasium and that you have "
        "not trained with yourself",
    ),
]
Overrides = Annotated[
    list[str] | None,
    _settings(
        completion.keys,
        "changes to the settings, such as agent.gamma=0.97",
    ),
]
Continued = Annotated[
    list[str] | None,
    _settings(
        completion.resumable,
        "new values of run.* (except run.seed, run.name and run.folder), agent.device or workers.* (except "
        "workers.agents), such as run.steps=40000; other settings cannot be changed, nor run.select_episodes after "
        "the selection",
    ),
]
CaseChanges = Annotated[
    list[str] | None,
    _settings(
        completion.changes,
        "changes to the settings, such as reynolds=200 for a YAML file or env_options.reynolds=200 for a preset",
    ),
]


def preset_or_word(preset: str, overrides: list[str] | None) -> tuple[str | None, list[str]]:
    """Treat the first argument as a change of the defaults if it contains ``=``: `flowsim train env=CartPole-v1`.

    The name of an existing file may contain ``=``.
    """
    words = overrides or []
    is_change = "=" in preset and not os.path.isfile(preset)
    return (None, [preset, *words]) if is_change else (preset, words)


def quantities(names: str, ranges: str | None) -> "list[Quantity]":
    """Return the quantities that a film shows, from ``--fields`` and ``--range``."""
    from flowsim.render.quantities import choose

    try:
        return choose(names, ranges)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error


def named_quantities(names: str | None, ranges: str | None) -> "list[Quantity]":
    """Return the quantities of ``--fields``, or else those named in ``--range``; empty if neither names one."""
    if names is None and ranges is not None and "=" in ranges:
        names = ",".join(word.partition("=")[0] for word in ranges.split(","))
    return [] if names is None else quantities(names, ranges)


def shown(names: str | None, ranges: str | None) -> "dict[str, Any]":
    """Return what a film of a task shows, as arguments of :func:`coupling.film.flow_film.render_film`.

    Without names, the film shows the default of the task, or the fields named in the range.
    """
    if chosen := named_quantities(names, ranges):
        return {"quantities": chosen}
    return {} if ranges is None else {"limit": quantities("vorticity", ranges)[0].limit}
