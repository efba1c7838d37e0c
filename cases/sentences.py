"""What is wrong with settings, in one sentence: of environments, runs and flows."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

import pydantic
from pydantic import BaseModel

__all__ = ["all_keys", "did_you_mean", "nearest", "refuse_unknown", "sentence_of"]


def nearest(name: str, names: Iterable[str], likeness: float = 0.75) -> str | None:
    """Return the name that was probably meant, if any is as like the given one as that (of 1, the same)."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=likeness)), None)


def did_you_mean(meant: str | None, otherwise: str) -> str:
    """Ask whether a name was meant, or say something else where none is near."""
    return otherwise if meant is None else f"did you mean {meant!r}?"


def refuse_unknown(options: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse the first option that has none of the names.

    Raises
    ------
    TypeError
        As functions do with an unknown keyword argument: libraries that wrap environments look for these very words to
        find out what they may pass.
    """
    known = list(names)
    for key, value in options.items():
        if key not in known:
            instead = did_you_mean(nearest(key, known), f"allowed are {', '.join(known)}")
            raise TypeError(f"got an unexpected keyword argument {key!r} = {value!r}: {instead}")


def sentence_of(
    error: pydantic.ValidationError, model: type[BaseModel], content: Any = None
) -> str:
    """Turn pydantic's report about a model into one sentence about the first mistake.

    Parameters
    ----------
    error, model
        The report, and the model that refused.
    content
        What was refused; needed to name keys where a model has kinds of something, such as shapes of bodies.

    Where the model has ``old_keys``, which name the present key of each old one, what is near an old key means the
    present one.
    """
    # an unknown key often is the reason why another one is missing, and a wrong value is nearer than what nobody wrote
    order = {"extra_forbidden": 0, "missing": 2}
    first, *others = sorted(error.errors(), key=lambda mistake: order.get(mistake["type"], 1))
    missing = first["type"] == "missing"
    key = ".".join(_place(first["loc"], content, missing))
    more = f" (and {len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        beside, old = _keys_beside(first["loc"], model), getattr(model, "old_keys", {})
        return f"unknown key {key!r}: {_instead_of(key, beside, all_keys(model), old)}{more}"
    if missing:
        return f"key {key!r} is missing{more}"
    if first["type"].startswith("union_tag"):
        kind, given = first["ctx"]["discriminator"].strip("'"), first["ctx"].get("tag")
        if given is None:
            return f"key '{key}.{kind}' is missing{more}"
        return f"{key}.{kind} = {given!r}: {_choice(given, first['ctx']['expected_tags'], 'allowed are ')}{more}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] in _MESSAGES:
        message = _MESSAGES[first["type"]].format(**first.get("ctx", {}))
    if first["type"] == "literal_error":
        message = _choice(first["input"], first["ctx"]["expected"], "input should be ")
    if not key or re.search(rf"(?<![\w.]){re.escape(key)}(?![\w])", message):
        return f"{message}{more}"
    # a model-level check names its own values; the whole section would only bury the sentence
    value = "" if isinstance(first["input"], dict) else f" = {first['input']!r}"
    return f"{key}{value}: {message[0].lower()}{message[1:]}{more}"


def _choice(given: Any, expected: str, before: str) -> str:
    """Say which of some words was meant, or name them all."""
    meant = nearest(str(given), re.findall(r"'([^']*)'", expected), likeness=0.6)
    return did_you_mean(meant, before + expected)


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
        entries = (
            range(len(content))
            if isinstance(content, list)
            else content
            if isinstance(content, dict)
            else ()
        )
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


def all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the dotted keys of a model and its sections."""
    keys = []
    for name, field in model.model_fields.items():
        keys.append(prefix + name)
        # their entries have numbers or names of their own
        if get_origin(field.annotation) not in (list, tuple, dict):
            keys += [
                key
                for inner in _models_in(field.annotation)
                for key in all_keys(inner, f"{prefix}{name}.")
            ]
    return list(dict.fromkeys(keys))


def _instead_of(
    wrong: str, beside: Sequence[str], present: Sequence[str], old: Mapping[str, str]
) -> str:
    """Say what was probably meant: the nearest key of the section, the same key of another one, or else the list."""
    everywhere = [*old, *present]
    section, dot, name = wrong.rpartition(".")
    of_other_kinds = [
        key.rpartition(".")[2] for key in everywhere if key.rpartition(".")[0] == section
    ]
    near = [nearest(name, known) for known in (beside, of_other_kinds)]
    close = [section + dot + key for key in near if key is not None] + [
        key for key in everywhere if key.rpartition(".")[2] == name
    ]
    meant = next((old.get(key, key) for key in close), None)
    return did_you_mean(meant, f"allowed are {', '.join(beside)}")
