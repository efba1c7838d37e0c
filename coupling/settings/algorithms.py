"""Import of the user's own algorithms, named by ``agent.algorithm=module:name``."""

import re
from typing import Any

from cases.error_messages import did_you_mean, nearest
from coupling.errors import ConfigError
from coupling.modules import import_module
from rl_agent.config import algorithms
from rl_agent.config.registry import is_known, module_of, written_name

__all__ = ["import_algorithm"]


def import_algorithm(name: str) -> bool:
    """Import the module that registers an algorithm, unless the algorithm comes with the package.

    Parameters
    ----------
    name
        ``module:name``, or only the name for an algorithm of the package.

    Returns
    -------
    bool
        Whether a module was imported.

    Raises
    ------
    ConfigError
        If there is no such module, it cannot be imported, or it registers no such algorithm.
    """
    said, module = f"agent.algorithm = {name!r}", module_of(name)
    if re.search(r"\.py(:|$)", name):
        file, _, plain = name.partition(".py")
        meant = f"{file.removeprefix('./').replace('/', '.')}:{plain.lstrip(':') or 'NAME'}"
        raise ConfigError(f"{said}: a module has no .py: did you mean {meant!r}?")
    if not module or is_known(name):
        return False
    found = import_module(module, said)
    if not is_known(name):
        raise ConfigError(f"{said}: {_instead_of(name, module, found)}")
    return True


def _instead_of(name: str, module: str, found: Any) -> str:
    """Return what a module contains instead of an algorithm of that name."""
    plain = name.rpartition(":")[2]
    kinds = algorithms().values()
    own = [kind for kind in kinds if f"{kind.__module__}.".startswith(f"{module}.")]
    if (thing := getattr(found, plain, None)) is not None:
        meant = next((written_name(kind) for kind in own if thing is kind), None)
        how = "that is no registered algorithm: decorate its settings with rl_agent.config.register"
        return f"{module} has {plain}, but {did_you_mean(meant, how)}"
    if not own:
        return (
            f"{module} registers no algorithm: decorate its settings with rl_agent.config.register"
        )
    names = [written_name(kind) for kind in own]
    return f"{module} registers no {plain}: " + did_you_mean(
        nearest(name, names), f"it has {', '.join(names)}"
    )
