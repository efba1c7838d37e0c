"""Which algorithms there are: one folder of ``rl_agent/algorithms`` each, whose ``config.py`` registers its settings.

Nothing here, or elsewhere, lists them. Reading settings imports no loss, and so no torch.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from pydantic import Field, TypeAdapter

if TYPE_CHECKING:
    from rl_agent.config.agent import AgentConfig

__all__ = [
    "algorithms",
    "any_agent_config",
    "default_settings",
    "implementation",
    "register",
    "validate",
    "with_algorithm",
]

Kind = TypeVar("Kind", bound="AgentConfig")

DEFAULT_ALGORITHM = "vracer"
"""What settings are of that name none."""

PACKAGE = "rl_agent.algorithms"

_kinds: dict[str, type[AgentConfig]] = {}
_implementations: dict[str, str] = {}


def register(implementation: str) -> Callable[[type[Kind]], type[Kind]]:
    """Make an algorithm known, as a decorator of its settings, a heir of ``AgentConfig``.

    Its name is the value of their field ``algorithm``, a ``Literal``.

    Parameters
    ----------
    implementation
        The class that learns, an heir of ``Algorithm``, as ``module:Class``. The module is imported when an agent is
        made; it has ``make_actor(config, sizes)``, too, which builds what acts.

    Raises
    ------
    ValueError
        When other settings have registered the name.
    """

    def decorate(kind: type[Kind]) -> type[Kind]:
        name = kind.model_fields["algorithm"].default
        other = _kinds.get(name)
        if other is not None and (other.__module__, other.__name__) != (
            kind.__module__,
            kind.__name__,
        ):
            raise ValueError(
                f"algorithm = {name} is registered by {other.__module__}.{other.__name__} already, and again by "
                f"{kind.__module__}.{kind.__name__}"
            )
        _kinds[name], _implementations[name] = kind, implementation
        default_settings.cache_clear()
        return kind

    return decorate


def algorithms() -> Mapping[str, type[AgentConfig]]:
    """Return the settings of all algorithms by name: those in the folders, in their order, and then the others."""
    _import_folders()
    ours = {name: kind for name, kind in _kinds.items() if kind.__module__.startswith(PACKAGE)}
    # the order of registration is that of imports, which differs between programs
    first = dict(sorted(ours.items(), key=lambda known: known[1].__module__))
    return first | _kinds


@functools.cache
def _import_folders() -> None:
    package = importlib.import_module(PACKAGE)
    for folder in sorted(
        module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg
    ):
        name = f"{PACKAGE}.{folder}.config"
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)


def implementation(config: AgentConfig) -> tuple[ModuleType, type[Any]]:
    """Import what an algorithm learns and acts with: its module, which has ``make_actor``, and its class."""
    algorithms()
    module, _, name = _implementations[config.algorithm].partition(":")
    found = importlib.import_module(module)
    return found, getattr(found, name)


@functools.cache
def default_settings() -> dict[str, Any]:
    """Return the default of every setting that an algorithm of this package has, which are those that are written.

    Where a class overrides the default of one that it inherits from, it is that of the latter.
    """
    known: dict[str, Any] = {}
    for kind in algorithms().values():
        if not kind.__module__.startswith(PACKAGE):
            continue
        for base in reversed(kind.__mro__):
            for key, field in getattr(base, "model_fields", {}).items():
                known.setdefault(key, field.default)
    return known


def any_agent_config() -> Any:
    """Return the type of the settings of whichever algorithm they name, of those that are known now."""
    return Annotated[Union[tuple(algorithms().values())], Field(discriminator="algorithm")]  # noqa: UP007


@functools.cache
def _adapter(names: tuple[str, ...]) -> TypeAdapter[AgentConfig]:
    return TypeAdapter(any_agent_config())


def with_algorithm(settings: Any) -> Any:
    """Return settings with the name of their algorithm, which they may be, or leave out."""
    if isinstance(settings, str):
        return {"algorithm": settings}
    return {"algorithm": DEFAULT_ALGORITHM} | settings if isinstance(settings, dict) else settings


def validate(settings: Any) -> AgentConfig:
    """Make the settings of the algorithm that they name."""
    return _adapter(tuple(algorithms())).validate_python(with_algorithm(settings))
