"""Finding and importing the user's own modules, which names such as ``module:ID`` refer to.

They may be in the current folder. Names of environments and of algorithms are resolved in the same way.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, TracebackType

from coupling.errors import ConfigError, describe_failure

__all__ = ["KNOWN", "OwnFolder", "find_module", "import_module", "is_known"]

KNOWN = frozenset({
    "ale_py", "cases", "coupling", "flowsim", "gymnasium", "minatar", "mujoco", "pettingzoo", "rl_agent"
})  # fmt: skip
"""Packages of flowsim, its extras or Gymnasium; not searched for in the current folder."""


class OwnFolder:
    """Context in which an environment is called, so that a change of the current folder affects only this environment.

    Its folder is restored at the next call; the folder of the process is restored afterwards.
    """

    def __init__(self) -> None:
        self._theirs = self._ours = ""

    def __enter__(self) -> None:
        self._ours = _current_folder()
        if self._theirs:
            _go_to(self._theirs)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        now = _current_folder()
        self._theirs = now if now != self._ours else ""
        if self._theirs:
            _go_to(self._ours)


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _go_to(folder: str) -> None:
    with contextlib.suppress(OSError):  # the environment's was removed
        os.chdir(folder)


def is_known(module: str) -> bool:
    """Return whether a module belongs to flowsim, its extras or Gymnasium; True for an empty name."""
    return not module or module.partition(".")[0] in KNOWN


def import_module(module: str, said: str) -> ModuleType:
    """Import a module, also one in the current folder.

    Parameters
    ----------
    module
        Its name.
    said
        Where it was named, such as ``env = 'mine:Task-v0'``, for error messages.

    Raises
    ------
    ConfigError
        If it does not exist, is a folder without code, or cannot be imported.
    """
    if not is_known(module):
        _look_in(os.getcwd())
    try:
        with OwnFolder():
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            missing = f"{module} needs the module {error.name!r}, which is not installed"
            raise ConfigError(f"{said}: {missing}") from error
        raise _module_not_found(module, said) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(
            f"{said}: {module} cannot be imported: {describe_failure(error)}"
        ) from error
    if hasattr(found, "__path__") and getattr(found, "__file__", None) is None:
        raise _mere_folder(module, said, Path(next(iter(found.__path__))))
    return found


def find_module(module: str, said: str) -> Path:
    """Return the file of a module or the folder of a package without importing it; arguments as ``import_module``.

    Raises
    ------
    ConfigError
        If there is none.
    """
    top, *parts = module.split(".")
    spec: ModuleSpec | None
    with contextlib.suppress(ImportError, ValueError):
        spec = PathFinder.find_spec(top, [os.getcwd()]) or importlib.util.find_spec(top)
        name = top
        for part in parts:
            name = f"{name}.{part}"
            places = spec.submodule_search_locations if spec else None
            spec = PathFinder.find_spec(name, list(places)) if places else None
        if spec and (
            found := spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        ):
            return Path(found).resolve()
    raise _module_not_found(module, said)


def _module_not_found(module: str, said: str) -> ConfigError:
    where = f"neither in the current folder {os.getcwd()} nor installed"
    return ConfigError(f"{said}: there is no module {module!r}, {where}")


def _mere_folder(module: str, said: str, folder: Path) -> ConfigError:
    """Return the error for a folder without code of its own, which Python imports as an empty package."""
    name = module.rpartition(".")[2]
    if (folder / f"{name}.py").is_file():
        hint = f"{name}.py is in it: run the command there (cd {os.path.relpath(folder)})"
    else:
        hint = f"name one of its files, such as {module}.FILE"
    return ConfigError(f"{said}: {module} is a folder, not a module; {hint}")


def _look_in(folder: str) -> None:
    """Make modules in a folder importable, but no copy of flowsim in it, such as a clone, instead of this package."""
    if folder in sys.path:
        return
    for package in ("flowsim", "rl_agent", "coupling", "cases"):
        if Path(folder, package).is_dir():
            importlib.import_module(package)
    sys.path.insert(0, folder)  # as `python -m` does, and a console script does not
