"""YAML files, shipped presets and ``key=value`` words, of runs and of flows; needs no more than the solver does."""

import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from cases.sentences import did_you_mean, nearest
from cases.yaml_files import parse_yaml, read_mapping
from coupling.errors import ConfigError

__all__ = [
    "apply_overrides",
    "find_preset",
    "folder_name",
    "preset_name",
    "read_yaml",
    "shipped_presets",
]


def shipped_presets() -> list[str]:
    """Return the names of the presets that come with the package, such as ``d_cylinder_wake/quick``."""
    root = Path(str(resources.files("cases")))
    return sorted(
        path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml")
    )


def find_preset(preset: str) -> Path:
    """Resolve a path or a shipped name to the file.

    Raises
    ------
    ConfigError
        When there is neither.
    """
    path = Path(preset)
    if path.is_file():
        return path
    root = Path(str(resources.files("cases")))
    name = preset.removeprefix("cases/").removesuffix(".yaml")
    shipped = shipped_presets()
    if name in shipped:
        return root / f"{name}.yaml"
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"preset file {preset} does not exist")
    raise ConfigError(f"no preset named {preset!r}: {_instead_of(name.rstrip('/'), shipped)}")


def _instead_of(name: str, shipped: list[str]) -> str:
    """Say which preset was probably meant: of a folder its quick one, since any of them is as like its name."""
    if "/" not in name and (folder := nearest(name, {one.split("/")[0] for one in shipped})):
        inside = [one for one in shipped if one.startswith(f"{folder}/")]
        quick = f"{folder}/quick"
        return did_you_mean(quick if quick in inside else None, f"give one of {', '.join(inside)}")
    return did_you_mean(nearest(name, shipped), f"give a YAML file or one of {', '.join(shipped)}")


def preset_name(preset: str) -> str:
    """Return a folder-friendly name for a preset: ``d_cylinder_wake-quick`` for its file or its name."""
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
    """Return a text as a name for a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-") or "run"


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Raises
    ------
    ConfigError
        When it cannot be read or is no mapping.
    """
    try:
        return read_mapping(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def apply_overrides(content: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Set what ``dotted.key=value`` words say, in place, and return the content.

    Raises
    ------
    ConfigError
        For a word of another form.
    """
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(
                f"{word!r} is not of the form key=value, for example agent.gamma=0.97"
            )
        try:
            value = parse_yaml(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"the value of {key} is not valid YAML: {text!r}") from error
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


def _index(place: Any, part: str, key: str) -> Any:
    """Return what to put into the brackets for one part of a dotted key: a name, or the number of an entry."""
    if isinstance(place, dict):
        return part
    if not isinstance(place, list):
        raise ConfigError(f"{key} cannot be set: there is {place!r}, which has no keys of its own")
    if not part.isdecimal() or int(part) >= len(place):
        raise ConfigError(
            f"{key} cannot be set: {part!r} must be the number of an entry, 0 to {len(place) - 1}"
        )
    return int(part)
