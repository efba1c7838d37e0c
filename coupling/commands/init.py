"""A small task that works, to start one's own from: a flow with a body, a Gymnasium environment, or a solver in C."""

import re
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from coupling.errors import ConfigError
from coupling.files import refuse_unwritable

__all__ = ["init"]

_CLIENT = ("flowsim_client.c", "flowsim_client.h")


def init(folder: Path, kind: str) -> list[Path]:
    """Write a task into a new folder, whose name becomes that of the task.

    Parameters
    ----------
    folder
        It must not exist yet, or be empty.
    kind
        ``flow``, ``gymnasium`` or ``c``.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    ConfigError
        For a name that cannot be that of a module, or a folder that holds something.
    """
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise ConfigError(
            f"{folder}: the name of a task is made of small letters, digits and _, such as my_task"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already; choose another name")
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
