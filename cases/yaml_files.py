"""YAML reading and writing: scientific notation for numbers, and text wherever a model declares text."""

import re
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel

__all__ = ["declared_at", "dump_yaml", "is_text", "parse_yaml", "read_mapping"]

_TAG = "tag:yaml.org,2002:"
_NUMBERS = {
    "int": r"^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|\d[\d_]*)$",
    "float": r"^[-+]?(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)?|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$",
}
"""Unlike in YAML 1.1, 1e-4 is a number, 010 is ten, and neither 1:30 nor 2024-01-01 is a number."""

_MOST = 1_000_000  # maximum number of values with aliases expanded


class _Loader(yaml.SafeLoader):
    """YAML loader with these numbers that rejects duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.MarkedYAMLError(
                problem=f"key {twice[0]!r} appears twice", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag in (f"{_TAG}bool", f"{_TAG}null", f"{_TAG}merge")]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}  # fmt: skip
for _kind, _form in _NUMBERS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(_form), list("-+0123456789."))


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    return int(text, 0 if re.match("[-+]?0[xob]", text) else 10)


_Loader.add_constructor(f"{_TAG}int", _construct_int)


class _Dumper(yaml.SafeDumper):
    """YAML dumper that quotes strings which the loader would read as numbers."""


_Dumper.add_implicit_resolver(f"{_TAG}float", re.compile(_NUMBERS["float"]), list("-+0123456789."))


def dump_yaml(content: Any) -> str:
    """Return content as YAML text that :func:`parse_yaml` reads back unchanged."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False)


def parse_yaml(text: str, declared: Any = Any) -> Any:
    """Return the content of a YAML text; errors are those of ``yaml``.

    Parameters
    ----------
    text
        YAML text.
    declared
        Type of the content, such as a model. Where it declares text, 123, 1e5, no and 2024-01-01 are read as text.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _size(node, {})
        _keep_words(node, _alternatives(declared))
        return loader.construct_document(node)
    except (RecursionError, ValueError) as error:  # thousands of brackets, digits or aliases
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values of a node with its aliases expanded.

    Raises
    ------
    ValueError
        If an alias refers to itself, or if there are too many values.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = _MOST + 1  # marks the node as open: an alias to it now is recursive
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    if known[id(node)] > _MOST:
        raise ValueError("an alias refers to itself, or the aliases expand to too much data")
    return known[id(node)]


def read_mapping(path: Path, declared: Any = Any) -> dict[str, Any]:
    """Read a mapping from a YAML file, as :func:`parse_yaml` does.

    Raises
    ------
    ValueError
        If the file cannot be read or is not a mapping; the message is one sentence.
    """
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"), declared)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a mapping, such as `env: Pendulum-v1`")
    return content


def declared_at(model: Any, key: str) -> Any:
    """Return the type that a model declares for a dotted key, or ``Any`` if it declares none."""
    place = _alternatives(model)
    for part in key.split("."):
        place = _inside(place, part)
    return tuple(place)


def is_text(declared: Any) -> bool:
    """Return whether all values of a type are text."""
    return _is_text(_alternatives(declared))


def _keep_words(node: yaml.Node, declared: list[Any]) -> None:
    """Tag the values that are declared as text as strings, recursively."""
    if isinstance(node, yaml.MappingNode):
        named = any(_is_model(one) or get_args(one)[:1] == (str,) for one in declared)
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                _keep_words(value, _inside(declared, str(key.value)))
                if named:
                    key.tag = f"{_TAG}str"
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _keep_words(value, _inside(declared, str(number)))
    elif isinstance(node, yaml.ScalarNode) and node.style is None and _is_text(declared):
        is_none = node.tag == f"{_TAG}null" and NoneType in declared
        node.tag = node.tag if is_none else f"{_TAG}str"


def _alternatives(declared: Any) -> list[Any]:
    """Return the members of a union, without annotations."""
    if isinstance(declared, tuple):  # already several types
        return [one for each in declared for one in _alternatives(each)]
    origin = get_origin(declared)
    if origin is Annotated:
        return _alternatives(get_args(declared)[0])
    if origin in (None, list, tuple, dict, Literal) or isinstance(declared, type):
        return [declared]
    return [one for each in get_args(declared) for one in _alternatives(each)]


def _inside(declared: list[Any], part: str) -> list[Any]:
    """Return the types that are declared for a field, a key or an index; ``Any`` if there are none."""
    found: list[Any] = []
    for one in declared:
        arguments = get_args(one)
        if _is_model(one) and part in one.model_fields:
            found += _alternatives(one.model_fields[part].annotation)
        elif get_origin(one) is dict:
            found += _alternatives(arguments[1])
        elif get_origin(one) in (list, tuple) and part.isdecimal():
            same = get_origin(one) is list or arguments[1:] == (...,)
            number = 0 if same else min(int(part), len(arguments) - 1)
            found += _alternatives(arguments[number])
    return found or [Any]


def _is_model(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, BaseModel)


def _is_text(declared: list[Any]) -> bool:
    """Return whether a scalar must be text: strings, choices of strings, and tags of the kinds of a model."""
    others = [one for one in declared if one is not NoneType]
    return bool(others) and all(
        one is str
        or _is_model(one)
        or (get_origin(one) is Literal and all(isinstance(word, str) for word in get_args(one)))
        for one in others
    )
