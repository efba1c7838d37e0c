"""Shapes of bodies defined in a Python file of the user."""

import importlib.util
from pathlib import Path
from typing import Any

from flowsim import Body

__all__ = ["shape_from"]


def shape_from(path: Path, function: str, arguments: dict[str, Any]) -> Body:
    """Run a Python file and return the body that one of its functions returns for the given arguments.

    Raises
    ------
    ValueError
        If the file or the function does not exist or fails, or if the result is not a body.
    """
    if not path.is_file():
        raise ValueError(f"file = {str(path)!r}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"file = {str(path)!r}: shapes must be defined in a .py file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"{path} fails: {_told(error)}") from error
    make = getattr(module, function, None)
    if not callable(make):
        raise ValueError(f"function = {function!r}: {path} has no function of this name")
    try:
        body = make(**arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"{function} of {path} fails: {_told(error)}") from error
    if not isinstance(body, Body):
        raise ValueError(
            f"{function} of {path} returns a {type(body).__name__}, but must return a body such as polygon(corners)"
        )
    return body


def _told(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
