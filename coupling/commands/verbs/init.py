"""flowsim init: write a task to start from."""

import keyword
import re
import shutil
import tempfile
from enum import StrEnum
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import print_next, reporting_errors
from coupling.commands.options import expanded
from coupling.errors import ConfigError
from coupling.files import refuse_unwritable

__all__ = ["init", "write_task"]

SHORT_HELP = "Write a small working task as a starting point for your own."
EXAMPLE = "flowsim init my_task --kind gymnasium"

_CLIENT = ("flowsim_client.c", "flowsim_client.h")


class Kind(StrEnum):
    """Kind of a new task."""

    flow = "flow"
    gymnasium = "gymnasium"
    c = "c"


@reporting_errors
def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="new folder; its name becomes the name of the task",
            show_default=False,
            callback=expanded,
        ),
    ],
    kind: Annotated[
        Kind,
        typer.Option(help="a FlowTask with a body, an environment of your own, or a solver in C"),
    ] = Kind.flow,
) -> None:
    """Write a small working task, with its settings and a test, as a starting point for your own."""
    for file in write_task(folder, kind):
        print(file)
    print_next(next_steps.after_init(folder, kind))


def write_task(folder: Path, kind: str) -> list[Path]:
    """Write a task into a new folder, whose name becomes the name of the task.

    Parameters
    ----------
    folder
        The folder; it must not exist or be empty.
    kind
        ``flow``, ``gymnasium`` or ``c``.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ConfigError
        For a name that is not a valid module name, or a folder that is not empty.
    """
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise ConfigError(
            f"{folder}: a task name starts with a lowercase letter and contains only lowercase letters, digits and _, "
            "such as my_task"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} already exists; choose another name")
    if keyword.iskeyword(name) or find_spec(name) is not None:
        why = (
            "is a Python keyword"
            if keyword.iskeyword(name)
            else "would hide the module of that name"
        )
        raise ConfigError(f"{folder}: a task named {name} {why}; choose another name")
    refuse_unwritable("FOLDER", folder)
    title = "".join(word.capitalize() for word in name.split("_"))
    contents = {}
    package = resources.files("coupling")
    for template in package.joinpath("templates", kind).iterdir():
        if template.is_file():
            text = (
                template.read_text(encoding="utf-8")
                .replace("my_task", name)
                .replace("MyTask", title)
            )
            contents[template.name.replace("my_task", name)] = text
    if kind == "c":
        contents |= {
            file: package.joinpath("c", file).read_text(encoding="utf-8") for file in _CLIENT
        }
        contents[f"{name}.c"] = package.joinpath("c", "example.c").read_text(encoding="utf-8")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        for file, text in contents.items():
            (beside / file).write_text(text, encoding="utf-8")
        beside.chmod(0o755)
        beside.replace(folder)  # all of it, or nothing
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return sorted(folder / file for file in contents)
