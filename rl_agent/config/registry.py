"""Which algorithms there are: one folder of ``rl_agent/algorithms`` each, whose ``config.py`` registers its settings.

Nothing here, or elsewhere, lists them. Reading settings imports no loss, and so no torch.

An algorithm of somebody's own is registered when its module is imported, and is written as ``module:name``. Settings
that name one whose module is not imported are read, and nothing is imported for it: no file may say what code runs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from pydantic import Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

if TYPE_CHECKING:
    from rl_agent.config.agent import AgentConfig

__all__ = [
    "NotImportedError",
    "algorithms",
    "any_agent_config",
    "default_settings",
    "implementation",
    "is_known",
    "module_of",
    "register",
    "stands_for_others",
    "validate",
    "with_algorithm",
    "written_name",
]

Kind = TypeVar("Kind", bound="AgentConfig")

DEFAULT_ALGORITHM = "vracer"
"""What settings are of that name none."""

PACKAGE = "rl_agent.algorithms"

_kinds: dict[str, type[AgentConfig]] = {}
_implementations: dict[str, str] = {}
_not_imported: list[type[AgentConfig]] = []


class NotImportedError(ValueError):
    """Settings name an algorithm of somebody's own, whose module is not imported."""


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


def stands_for_others(kind: type[Kind]) -> type[Kind]:
    """Make these the settings of algorithms that are not imported, as a decorator."""
    _not_imported[:] = [kind]
    return kind


def algorithms() -> Mapping[str, type[AgentConfig]]:
    """Return the settings of all algorithms by name: those in the folders, in their order, and then the others."""
    _import_folders()
    ours = {name: kind for name, kind in _kinds.items() if _is_ours(kind)}
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
    """Import what an algorithm learns and acts with: its module, which has ``make_actor``, and its class.

    Raises
    ------
    NotImportedError
        When the module that registers the algorithm is not imported.
    ValueError
        When what was registered is not there.
    """
    algorithms()
    if (where := _implementations.get(config.algorithm)) is None:
        name = config.algorithm
        raise NotImportedError(f"algorithm = {name}: import {module_of(name)} first, which has it")
    module, _, name = where.partition(":")
    found = importlib.import_module(module)
    for wanted in ("make_actor", name):
        if not callable(getattr(found, wanted, None)):
            raise ValueError(
                f"algorithm = {config.algorithm} is registered as {where}, but {module} has no {wanted}"
            )
    return found, getattr(found, name)


def module_of(name: str) -> str:
    """Return the module in the name of an algorithm, as it is written; empty for those of this package."""
    return name.rpartition(":")[0]


def written_name(kind: type[AgentConfig]) -> str:
    """Return the name that settings are written with, which has the module of an algorithm of somebody's own."""
    name: str = kind.model_fields["algorithm"].default
    return name if _is_ours(kind) else f"{kind.__module__}:{name}"


def is_known(name: str) -> bool:
    """Tell whether an algorithm, by its name or as it is written, is registered."""
    return _plain(name) in algorithms()


def _plain(name: str) -> str:
    """Return the name without the module that has registered it; of another module it stays as it is."""
    module, _, plain = name.rpartition(":")
    kind = _kinds.get(plain)
    if kind is None or not f"{kind.__module__}.".startswith(f"{module}."):
        return name
    return plain


def _is_ours(kind: type[AgentConfig]) -> bool:
    return kind.__module__.startswith(f"{PACKAGE}.")


@functools.cache
def default_settings() -> dict[str, Any]:
    """Return the default of every setting that an algorithm of this package has, which are those that are written.

    Where a class overrides the default of one that it inherits from, it is that of the latter.
    """
    known: dict[str, Any] = {}
    for kind in algorithms().values():
        if not _is_ours(kind):
            continue
        for base in reversed(kind.__mro__):
            for key, field in getattr(base, "model_fields", {}).items():
                known.setdefault(key, field.default)
    return known


class _OfAnyAlgorithm:
    """Validates settings as those of the algorithm that they name, also of one that is registered later."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(validate)


def any_agent_config() -> Any:
    """Return the type of the settings of whichever algorithm they name, of those that are known now and later."""
    return Annotated[Union[tuple(algorithms().values())], _OfAnyAlgorithm]  # noqa: UP007


@functools.lru_cache(maxsize=1)
def _adapter(kinds: tuple[type[AgentConfig], ...]) -> TypeAdapter[AgentConfig]:
    named: Any = Annotated[Union[kinds], Field(discriminator="algorithm")]  # noqa: UP007
    return TypeAdapter(named)


def with_algorithm(settings: Any) -> Any:
    """Return settings with the plain name of their algorithm, which they may be, or leave out."""
    if isinstance(settings, str):
        settings = {"algorithm": settings}
    if not isinstance(settings, dict):
        return settings
    algorithms()
    named = {"algorithm": DEFAULT_ALGORITHM} | settings
    name = named["algorithm"]
    return named | {"algorithm": _plain(name) if isinstance(name, str) else name}


def validate(settings: Any) -> AgentConfig:
    """Make the settings of the algorithm that they name, or those that stand for one that is not imported."""
    settings = with_algorithm(settings)
    name = (
        settings["algorithm"] if isinstance(settings, dict) else getattr(settings, "algorithm", "")
    )
    if _not_imported and module_of(str(name)):
        return _not_imported[0].model_validate(settings)
    return _adapter(tuple(algorithms().values())).validate_python(settings)
