"""Settings that are not read, given other settings or the task, such as ``convolutions`` with ``network`` mlp.

Settings that only some algorithms have are refused wherever they come from (``AgentConfig``). Those below are refused
in a call of ``AgentConfig(...)``. From a file or the command line they are reported at the start of the run, because a
run folder has a value for every setting, and a preset may be used with another algorithm (docs/decisions/learner.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rl_agent.config import registry

if TYPE_CHECKING:
    from rl_agent.config.agent import AgentConfig

__all__ = ["unread_by_task", "unread_settings"]


class Row(NamedTuple):
    """Settings that are read only if the setting ``by`` has one of the values ``readers``."""

    keys: tuple[str, ...]
    by: str
    readers: tuple[Any, ...]


ROWS = (
    Row(("activation",), "network", ("mlp",)),
    Row(("acting",), "network", ("lstm",)),
    Row(("window",), "network", ("lstm", "conv")),
    Row(("convolutions",), "network", ("conv",)),
    Row(
        ("priority_exponent", "importance_exponent", "importance_steps"),
        "sampler",
        ("rank", "proportional", "ners"),
    ),
    Row(("beta", "far_policy_target"), "replay", ("refer", "refer-2")),
    Row(("epsilon", "epsilon_steps"), "noisy", (False,)),
    Row(("noise_sigma",), "noisy", (True,)),
    Row(("policy_learning_rate",), "shared_network", (False,)),
)
"""Settings read depending on other ones; those that an algorithm does not read are in ``AgentConfig.unread``."""

OF_COMPONENTS = {"dueling": ("dueling_samples",), "trust_region": ("trust_region", "tau")}
"""Settings of components of ACER, which ``without`` may leave out."""

OF_CONTINUOUS_ACTIONS = (
    "sigma",
    "sigma_min",
    "squash",
    "state_dependent_std",
    "dueling_samples",
    "advantage_hidden",
)
OF_SEVERAL_AGENTS = ("relation", "dynamics", "policies")


def unread_settings(config: AgentConfig) -> Iterator[tuple[str, str]]:
    """Yield the given settings that are not read and differ from their defaults, each with a message."""
    changed = config.changed
    for key in (key for key in config.unread if key in changed):
        owners = [
            name
            for name, kind in registry.algorithms().items()
            if key in kind.model_fields and key not in kind.unread
        ]
        yield key, _message(config, key, f"algorithm = {_either(owners)}", "algorithm")
    for row in ROWS:
        if row.by in type(config).model_fields and getattr(config, row.by) not in row.readers:
            readers = f"{row.by} = {_either([_value(reader) for reader in row.readers])}"
            for key in (key for key in row.keys if key in changed):
                yield key, _message(config, key, readers, row.by)
    for component in getattr(config, "without", ()):
        for key in (key for key in OF_COMPONENTS.get(component, ()) if key in changed):
            setting = _equation(config, key)
            yield (
                key,
                f"{setting} is a setting of the component {component}, which without leaves out",
            )
    if "value_limit" in changed and getattr(config, "atoms", None) == 1:
        setting = _equation(config, "value_limit")
        yield (
            "value_limit",
            f"{setting} is a setting of several atoms, which atoms = 1 does not read",
        )


def unread_by_task(
    config: AgentConfig, *, discrete: bool, agents_per_env: int
) -> Iterator[tuple[str, str]]:
    """Yield the given settings that are not read in a task, as ``unread_settings``."""
    changed = config.changed
    for is_unread, keys, what in (
        (discrete, OF_CONTINUOUS_ACTIONS, "continuous actions"),
        (agents_per_env == 1, OF_SEVERAL_AGENTS, "several agents per environment"),
    ):
        for key in (key for key in keys if is_unread and key in changed):
            setting = _equation(config, key)
            yield key, f"{setting} is a setting for {what}, which the task does not have"


def _message(config: AgentConfig, key: str, readers: str, by: str) -> str:
    """Say which setting does not read another one, and which values of it do."""
    return f"{_equation(config, key)} is a setting of {readers}, which {_equation(config, by)} does not read"


def _equation(config: AgentConfig, key: str) -> str:
    return f"{key} = {_value(getattr(config, key))}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _either(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
