"""YAML as everything here reads it."""

import re
from pathlib import Path
from typing import Any

import yaml

__all__ = ["parse_yaml", "read_mapping"]


class _Loader(yaml.SafeLoader):
    """YAML whose numbers are what a scientist means (1e-4 is one) and whose keys stand once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.MarkedYAMLError(
                problem=f"key {twice[0]!r} stands twice", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def parse_yaml(text: str) -> Any:
    """Return what a text says; errors are those of ``yaml``."""
    return yaml.load(text, Loader=_Loader)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Raises
    ------
    ValueError
        When it cannot be read or is no mapping; one sentence.
    """
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a mapping, such as `env: Pendulum-v1`")
    return content
