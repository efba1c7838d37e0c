"""Shell completion of presets, runs, agents and keys, without heavy imports."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import typer

__all__ = ["agents", "cases", "changes", "keys", "presets", "presets_and_runs", "resumable", "runs"]

_ENV = re.compile(r"^env: flowsim/(\w+)-v0", re.M)


def presets(incomplete: str) -> list[str]:
    """Propose the names of presets, and ``env=`` for a task without one."""
    from coupling.settings.content import shipped_presets

    return _beginning(incomplete, [*shipped_presets(), "env="])


def cases(incomplete: str) -> list[str]:
    """Propose presets whose task is a flow."""
    from cases import FLOW_TASKS
    from coupling.settings.content import find_preset, shipped_presets

    envs = {
        name: _ENV.search(find_preset(name).read_text(encoding="utf-8"))
        for name in shipped_presets()
    }
    return _beginning(
        incomplete, [name for name, env in envs.items() if env and env[1] in FLOW_TASKS]
    )


def runs(incomplete: str) -> list[str]:
    """Propose run folders, in ``runs`` or in the folder typed so far."""
    place = incomplete.rpartition("/")[0] or "runs"
    found = [str(file.parent) for file in sorted(Path(place).glob("*/config.yaml"))]
    return _beginning(incomplete, found)


def agents(incomplete: str) -> list[str]:
    """Propose run folders and shipped agents."""
    from importlib import resources

    shipped = Path(str(resources.files("coupling"))) / "agents"
    names = [file.parent.name for file in sorted(shipped.glob("*/config.yaml"))]
    return [*runs(incomplete), *_beginning(incomplete, names)]


def presets_and_runs(incomplete: str) -> list[str]:
    """Propose the arguments of ``serve``: runs and presets."""
    return [*runs(incomplete), *presets(incomplete)]


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Propose settings of a run as ``KEY=``, and the values of settings with a fixed set of choices."""
    options = _options_of(context.params.get("preset") or context.params.get("what"))
    return _settings(incomplete, options)


def resumable(incomplete: str) -> list[str]:
    """Propose the settings that may change when a run is continued."""
    fixed = r"(agent\.(?!device=)|workers\.agents=|run\.(seed|name|folder)=|env|training_options)"
    return [one for one in _settings(incomplete) if not re.match(fixed, one)]


def changes(context: typer.Context, incomplete: str) -> list[str]:
    """Propose the keys of a case file, or the task options of a run or preset."""
    content = _content(context.params.get("case") or context.params.get("path"))
    if "env" in content:
        content = {"env_options": content.get("env_options") or {}}
    return _beginning(incomplete, [f"{key}=" for key in _leaves(content)])


def _settings(incomplete: str, options: Iterable[str] = ()) -> list[str]:
    from cases.error_messages import all_keys
    from cases.yaml_files import declared_at

    try:
        from coupling.settings.config import RunConfig
    except ModuleNotFoundError:  # an installation of the solver alone has no runs
        return []
    key, equals, _ = incomplete.partition("=")
    if equals:
        words = [word for one in declared_at(RunConfig, key) for word in get_args(one)]
        return _beginning(incomplete, [f"{key}={word}" for word in words if isinstance(word, str)])
    every = all_keys(RunConfig)
    sections = {key.rpartition(".")[0] for key in every}
    leaves = [key for key in every if key not in sections and key != "env_options"]
    return _beginning(
        incomplete, [f"{key}=" for key in [*leaves, *(f"env_options.{name}" for name in options)]]
    )


def _options_of(name: Any) -> list[str]:
    """Return the task options in the file of a preset, a run or a shipped agent."""
    return list(_content(name).get("env_options") or {})


def _leaves(content: Any, before: str = "") -> list[str]:
    """Return the dotted keys of the values that have no keys of their own."""
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list) and any(isinstance(one, dict | list) for one in content):
        entries = list(enumerate(content))
    else:
        return [before]
    dot = f"{before}." if before else ""
    return [leaf for key, value in entries for leaf in _leaves(value, f"{dot}{key}")]


def _content(name: Any) -> dict[str, Any]:
    from importlib import resources

    from coupling.errors import ConfigError
    from coupling.settings.content import find_preset, read_yaml

    shipped = Path(str(resources.files("coupling"))) / "agents"
    try:
        for folder in (Path(str(name)), shipped / str(name)):
            if (folder / "config.yaml").is_file():
                return read_yaml(folder / "config.yaml")
        return read_yaml(find_preset(str(name)))
    except ConfigError:
        return {}


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
