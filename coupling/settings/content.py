"""YAML files, shipped presets, ``key=value`` words, and what is wrong with them in a sentence: of runs and of flows.

Nothing here needs more than the solver does.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pydantic
import yaml
from pydantic import BaseModel

from coupling.errors import ConfigError

__all__ = [
    "apply_overrides",
    "find_preset",
    "folder_name",
    "preset_name",
    "read_yaml",
    "sentence_of",
    "shipped_presets",
]


class _Loader(yaml.SafeLoader):
    """YAML whose numbers are what a scientist means (1e-4 is one) and whose keys stand once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.MarkedYAMLError(problem=f"key {twice[0]!r} stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def shipped_presets() -> list[str]:
    """Return the names of the presets that come with the package, such as ``d_cylinder_wake/quick``."""
    root = Path(str(resources.files("cases")))
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


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
    close = difflib.get_close_matches(name, shipped, n=1, cutoff=0.75)
    hint = f"did you mean {close[0]!r}?" if close else f"give a YAML file or one of {', '.join(shipped)}"
    raise ConfigError(f"no preset named {preset!r}: {hint}")


def preset_name(preset: str) -> str:
    """Return a folder-friendly name for a preset: ``d_cylinder_wake-quick`` for its file or its name."""
    path = find_preset(preset)
    root = Path(str(resources.files("cases")))
    inside = path.resolve().is_relative_to(root.resolve())
    stem = path.resolve().relative_to(root.resolve()).with_suffix("").as_posix() if inside else path.stem
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
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a mapping, such as `env: Pendulum-v1`")
    return content


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
            raise ConfigError(f"{word!r} is not of the form key=value, for example agent.gamma=0.97")
        try:
            value = yaml.load(text, Loader=_Loader)
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
        raise ConfigError(f"{key} cannot be set: {part!r} must be the number of an entry, 0 to {len(place) - 1}")
    return int(part)


def sentence_of(error: pydantic.ValidationError, model: type[BaseModel], content: Any = None) -> str:
    """Turn pydantic's report about a model into one sentence about the first mistake.

    Parameters
    ----------
    error, model
        The report, and the model that refused.
    content
        What was refused; needed to name keys where a model has kinds of something, such as shapes of bodies.
    """
    # an unknown key often is the reason why another one is missing
    first, *others = sorted(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
    missing = first["type"] == "missing"
    key = ".".join(_place(first["loc"], content, missing))
    more = f" (and {len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}: {_instead_of(key, _keys_beside(first['loc'], model), _all_keys(model))}{more}"
    if missing:
        return f"key {key!r} is missing{more}"
    if first["type"].startswith("union_tag"):
        kind, given = first["ctx"]["discriminator"].strip("'"), first["ctx"].get("tag")
        if given is None:
            return f"key '{key}.{kind}' is missing{more}"
        return f"{key}.{kind} = {given!r}: allowed are {first['ctx']['expected_tags']}{more}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] in _MESSAGES:
        message = _MESSAGES[first["type"]].format(**first.get("ctx", {}))
    if not key or key in message:
        return f"{message}{more}"
    # a model-level check names its own values; the whole section would only bury the sentence
    value = "" if isinstance(first["input"], dict) else f" = {first['input']!r}"
    return f"{key}{value}: {message[0].lower()}{message[1:]}{more}"


_MESSAGES = {
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}
"""What pydantic says in the words of Python, said in those of YAML."""


def _place(loc: tuple[int | str, ...], content: Any, missing: bool) -> list[str]:
    """Return where a mistake is in the words of the content: pydantic also names the kinds on its way there."""
    if content is None:
        return [str(part) for part in loc]
    place = []
    for part in loc:
        entries = range(len(content)) if isinstance(content, list) else content if isinstance(content, dict) else ()
        if part in entries:
            content = content[part]
            place.append(str(part))
    return [*place, str(loc[-1])] if missing else place


def _keys_beside(loc: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """Return the keys that the section of a wrong key may hold."""
    models = [model]
    for part in map(str, loc[:-1]):
        named = [known.model_fields[part] for known in models if part in known.model_fields]
        inner = [found for field in named for found in _models_in(field.annotation)]
        models = inner or [known for known in models if _is_kind(known, part)] or models
    return list(dict.fromkeys(name for known in models for name in known.model_fields))


def _is_kind(model: type[BaseModel], word: str) -> bool:
    return any(word in get_args(field.annotation) for field in model.model_fields.values())


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        keys.append(prefix + name)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys += _all_keys(inner, f"{prefix}{name}.")
    return keys


def _instead_of(wrong: str, beside: Sequence[str], everywhere: Sequence[str]) -> str:
    """Say what was probably meant: the nearest key of the section, the same key of another one, or else the list."""
    section, dot, name = wrong.rpartition(".")
    close = [section + dot + key for key in difflib.get_close_matches(name, beside, n=1, cutoff=0.75)]
    close += [key for key in everywhere if key.rpartition(".")[2] == name]
    return f"did you mean {close[0]!r}?" if close else f"allowed are {', '.join(beside)}"
