"""One-sentence error messages for invalid settings of environments, runs and flows."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

import pydantic
from pydantic import BaseModel

__all__ = ["all_keys", "did_you_mean", "nearest", "refuse_unknown", "sentence_of"]


def nearest(name: str, names: Iterable[str], likeness: float = 0.75) -> str | None:
    """Return the most similar of the names if its similarity is at least `likeness` (1 means equal), otherwise None."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=likeness)), None)


def did_you_mean(meant: str | None, otherwise: str) -> str:
    """Return "did you mean ...?" for a name, or the alternative text if there is no similar name."""
    return otherwise if meant is None else f"did you mean {meant!r}?"


def refuse_unknown(options: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise for the first option whose name is unknown.

    Raises
    ------
    TypeError
        With the wording of Python's error for an unknown keyword argument, since libraries that wrap environments
        search for it to find out which arguments they can pass.
    """
    known = list(names)
    for key, value in options.items():
        if key not in known:
            instead = did_you_mean(nearest(key, known), f"allowed are {', '.join(known)}")
            raise TypeError(f"got an unexpected keyword argument {key!r} = {value!r}: {instead}")


def sentence_of(
    error: pydantic.ValidationError, model: type[BaseModel], content: Any = None
) -> str:
    """Return a one-sentence message about the first mistake in a pydantic validation error.

    Parameters
    ----------
    error, model
        The error, and the model that raised it.
    content
        The validated content; needed to name keys of models with discriminated unions, such as shapes of bodies.

    If the model has ``old_keys``, a mapping from old keys to present ones, a key similar to an old one is corrected to
    the present one.
    """
    # unknown keys first, since a misspelt key often makes another one missing; then wrong values, then missing keys
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
    # the message of a model-level check contains the values; printing the whole section would bury it
    value = "" if isinstance(first["input"], dict) else f" = {first['input']!r}"
    return f"{key}{value}: {message[0].lower()}{message[1:]}{more}"


def _choice(given: Any, expected: str, before: str) -> str:
    """Return a hint with the most similar of the expected words, or the list of all of them."""
    meant = nearest(str(given), re.findall(r"'([^']*)'", expected), likeness=0.6)
    return did_you_mean(meant, before + expected)


_MESSAGES = {
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}
"""Messages in terms of YAML that replace pydantic's, which are in terms of Python types."""


def _place(loc: tuple[int | str, ...], content: Any, missing: bool) -> list[str]:
    """Return the location of a mistake as keys of the content, without the union tags that pydantic includes."""
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
    """Return the valid keys of the section that contains a wrong key."""
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
        # entries of lists, tuples and dicts are addressed by an index or a name, not by a fixed key
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
    """Return a hint: the most similar key of the section, the same key in another section, or the list of keys."""
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
