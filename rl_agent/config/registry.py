"""Registry of algorithms: the ``config.py`` of each folder in ``rl_agent/algorithms`` registers its settings.

The folders are discovered; there is no list of algorithms. Reading settings imports no loss, and therefore no torch.

A user's algorithm is registered when its module is imported, and is written to files as ``module:name``. Settings that
name an algorithm whose module is not imported can be read, but reading them never imports the module, so that a file
cannot determine which code runs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

if TYPE_CHECKING:
    from rl_agent.config.agent import AgentConfig

__all__ = [
    "NotImportedError",
    "algorithms",
    "any_agent_config",
    "default_settings",
    "for_unimported_algorithms",
    "implementation",
    "is_known",
    "module_of",
    "register",
    "validate",
    "with_algorithm",
    "written_name",
]

Kind = TypeVar("Kind", bound="AgentConfig")

DEFAULT_ALGORITHM = "vracer"
"""Algorithm of settings that name none."""

PACKAGE = "rl_agent.algorithms"

_kinds: dict[str, type[AgentConfig]] = {}
_implementations: dict[str, str] = {}
_not_imported: list[type[AgentConfig]] = []


class NotImportedError(ValueError):
    """Raised if settings name a user's algorithm whose module is not imported."""


def register(implementation: str) -> Callable[[type[Kind]], type[Kind]]:
    """Register an algorithm; decorator of its settings class, a subclass of ``AgentConfig``.

    The name of the algorithm is the default of the field ``algorithm``, a ``Literal``.

    Parameters
    ----------
    implementation
        The subclass of ``Algorithm``, as ``module:Class``. The module is imported when an agent is created, and must
        also define ``make_actor(config, sizes)``, which builds the actor.

    Raises
    ------
    ValueError
        If another settings class has registered the name.
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


def for_unimported_algorithms(kind: type[Kind]) -> type[Kind]:
    """Use the decorated class for the settings of algorithms that are not imported."""
    _not_imported[:] = [kind]
    return kind


def algorithms() -> Mapping[str, type[AgentConfig]]:
    """Return the settings classes of all algorithms by name: those of this package by folder, then the others."""
    _import_folders()
    ours = {name: kind for name, kind in _kinds.items() if _is_ours(kind)}
    # the order of registration depends on the order of imports, which differs between programs
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
    """Import the implementation of an algorithm: its module, which defines ``make_actor``, and its class.

    Raises
    ------
    NotImportedError
        If the module that registers the algorithm is not imported.
    ValueError
        If the module lacks ``make_actor`` or the registered class.
    """
    algorithms()
    if (where := _implementations.get(config.algorithm)) is None:
        name = config.algorithm
        raise NotImportedError(
            f"algorithm = {name}: import {module_of(name)} first, which registers it"
        )
    module, _, name = where.partition(":")
    found = importlib.import_module(module)
    for wanted in ("make_actor", name):
        if not callable(getattr(found, wanted, None)):
            raise ValueError(
                f"algorithm = {config.algorithm} is registered as {where}, but {module} has no {wanted}"
            )
    return found, getattr(found, name)


def module_of(name: str) -> str:
    """Return the module part of a written algorithm name; empty for those of this package."""
    return name.rpartition(":")[0]


def written_name(kind: type[AgentConfig]) -> str:
    """Return the algorithm's name in files; for a user's algorithm it includes the module."""
    name: str = kind.model_fields["algorithm"].default
    return name if _is_ours(kind) else f"{kind.__module__}:{name}"


def is_known(name: str) -> bool:
    """Return whether an algorithm, given by its plain or its written name, is registered."""
    return _plain(name) in algorithms()


def _plain(name: str) -> str:
    """Return the name without the module that registered it; a name with another module is returned unchanged."""
    module, _, plain = name.rpartition(":")
    kind = _kinds.get(plain)
    if kind is None or not f"{kind.__module__}.".startswith(f"{module}."):
        return name
    return plain


def _is_ours(kind: type[AgentConfig]) -> bool:
    return kind.__module__.startswith(f"{PACKAGE}.")


@functools.cache
def default_settings() -> dict[str, Any]:
    """Return the default of every setting of the algorithms in this package; these are the settings that are written.

    If a class overrides an inherited default, the base class's default is returned.
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
    """Validates settings as those of the algorithm that they name, including algorithms registered later."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(validate)


def any_agent_config() -> Any:
    """Return a pydantic type for the settings of any algorithm, including algorithms registered later."""
    return Annotated[Union[tuple(algorithms().values())], _OfAnyAlgorithm]  # noqa: UP007


@functools.lru_cache(maxsize=1)
def _adapter(kinds: tuple[type[AgentConfig], ...]) -> TypeAdapter[AgentConfig]:
    named: Any = Annotated[Union[kinds], Field(discriminator="algorithm")]  # noqa: UP007
    return TypeAdapter(named, config=ConfigDict(title="AgentConfig"))


def with_algorithm(settings: Any) -> Any:
    """Return settings with the plain name of their algorithm; ``settings`` may be just a name, or omit it."""
    if isinstance(settings, str):
        settings = {"algorithm": settings}
    if not isinstance(settings, dict):
        return settings
    algorithms()
    named = {"algorithm": DEFAULT_ALGORITHM} | settings
    name = named["algorithm"]
    return named | {"algorithm": _plain(name) if isinstance(name, str) else name}


def validate(settings: Any, **options: Any) -> AgentConfig:
    """Create the settings object of the named algorithm, or the substitute for an algorithm that is not imported.

    The options are those of ``pydantic.BaseModel.model_validate``.
    """
    settings = with_algorithm(settings)
    name = (
        settings["algorithm"] if isinstance(settings, dict) else getattr(settings, "algorithm", "")
    )
    if _not_imported and module_of(str(name)):
        return _not_imported[0].model_validate(settings, **options)
    return _adapter(tuple(algorithms().values())).validate_python(settings, **options)
