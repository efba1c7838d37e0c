"""YAML files, shipped presets and ``key=value`` words, of runs and flows; needs only the solver's dependencies."""

import re
import shlex
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from cases.error_messages import did_you_mean
from cases.yaml_files import declared_at, is_text, parse_yaml, read_mapping
from coupling.errors import ConfigError
from coupling.files import expand_path
from coupling.settings.suggestions import meant_env, meant_preset, meant_registered

__all__ = [
    "apply_overrides",
    "find_preset",
    "folder_name",
    "preset_name",
    "read_yaml",
    "sections_first",
    "shipped_presets",
]


def shipped_presets() -> list[str]:
    """Return the names of the shipped presets, such as ``d_cylinder_wake/quick``."""
    root = Path(str(resources.files("cases")))
    return sorted(
        path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml")
    )


def find_preset(preset: str, *, or_env: bool = False) -> Path:
    """Return the file of a preset given by path or by shipped name.

    Parameters
    ----------
    preset
        Path or name.
    or_env
        Whether the error message may suggest an environment instead, as ``env=ID``.

    Raises
    ------
    ConfigError
        If there is neither.
    """
    try:
        path = Path(expand_path(preset))
    except ValueError as error:
        raise ConfigError(f"preset {preset}: {error}") from error
    if path.is_file() and path.suffix != ".py":
        return path
    root = Path(str(resources.files("cases")))
    name = preset.removeprefix("cases/").removesuffix(".yaml")
    shipped = shipped_presets()
    if name in shipped:
        return root / f"{name}.yaml"
    if or_env and (path / "config.yaml").is_file():
        raise ConfigError(
            f"{preset} is the folder of a run: `{shlex.join(['flowsim', 'resume', preset])}` continues it"
        )
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"preset file {preset} does not exist")
    raise ConfigError(
        f"no preset named {preset!r}: {_instead_of(name.rstrip('/'), shipped, or_env)}"
    )


def _instead_of(name: str, shipped: list[str], or_env: bool) -> str:
    """Return a suggestion of the preset or environment that was probably meant."""
    meant = meant_env(name) if or_env else None
    presets = meant_preset(name, shipped)
    if isinstance(presets, list) and presets and meant is None:
        return f"give one of {', '.join(presets)}"
    if meant is None and isinstance(presets, str):
        meant = presets
    if meant is None and or_env:
        meant = meant_registered(name)
    otherwise = "give a YAML file, or a name that `flowsim presets` lists"
    return did_you_mean(meant, otherwise + (", or env=ID" if or_env else ""))


def preset_name(preset: str) -> str:
    """Return a folder name for a preset, such as ``d_cylinder_wake-quick`` for its file or its name."""
    path = find_preset(preset)
    root = Path(str(resources.files("cases")))
    inside = path.resolve().is_relative_to(root.resolve())
    stem = (
        path.resolve().relative_to(root.resolve()).with_suffix("").as_posix()
        if inside
        else path.stem
    )
    return folder_name(stem)


def folder_name(text: str) -> str:
    """Return a text as the stem of a valid name of a run, to which a number and a seed are appended."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:60] or "run"


def read_yaml(path: Path, declared: Any = Any) -> dict[str, Any]:
    """Read a mapping from a YAML file; values stay text where the model ``declared`` has strings.

    Raises
    ------
    ConfigError
        If it cannot be read or is not a mapping.
    """
    try:
        return read_mapping(path, declared)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def sections_first(overrides: Iterable[str]) -> list[str]:
    """Return ``dotted.key=value`` words with those of whole sections first, which would discard their keys."""
    return sorted(overrides, key=lambda word: word.partition("=")[0].count("."))


def apply_overrides(
    content: dict[str, Any], overrides: Iterable[str], declared: Any = Any
) -> dict[str, Any]:
    """Apply ``dotted.key=value`` words to the content in place, and return it.

    A section (``agent=sac``) is set before its keys, in whatever order the words are. A value is read as YAML, but
    stays as written where the model ``declared`` has strings.

    Raises
    ------
    ConfigError
        For a word of another form.
    """
    for word in sections_first(overrides):
        key, equals, text = word.partition("=")
        if not equals or not key:
            meant = None if equals else meant_env(word) or meant_registered(word)
            raise ConfigError(
                f"{word!r} is not of the form key=value"
                + (f": did you mean {meant!r}?" if meant else ", for example agent.gamma=0.97")
            )
        value = _value(key, text, declared_at(declared, key))
        *sections, last = key.split(".")
        place: Any = content
        for section in sections:
            if isinstance(place, dict):
                place.setdefault(section, {})
            index = _index(place, section, key)
            if section == "agent" and isinstance(place[index], str):
                place[index] = {"algorithm": place[index]}
            place = place[index]
        place[_index(place, last, key)] = value
    return content


def _value(key: str, text: str, declared: Any) -> Any:
    """Return the value of a text; where a string is declared, it is the text without quotes around it."""
    try:
        value = parse_yaml(text, declared)
    except yaml.YAMLError as error:
        if is_text(declared):  # such as @home
            return text
        raise ConfigError(f"the value of {key} is not valid YAML: {text!r}") from error
    is_plain = isinstance(value, str) and not text.lstrip().startswith(("'", '"'))
    return text.strip() if is_plain and is_text(declared) else value


def _index(place: Any, part: str, key: str) -> Any:
    """Return the index for one part of a dotted key: a name, or the number of an entry."""
    if isinstance(place, dict):
        return part
    if not isinstance(place, list):
        raise ConfigError(f"{key} cannot be set: there is {place!r}, which has no keys of its own")
    if not part.isdecimal() or int(part) >= len(place):
        raise ConfigError(
            f"{key} cannot be set: {part!r} must be the number of an entry, 0 to {len(place) - 1}"
        )
    return int(part)
