"""Settings of the methods in a table: row names, and the settings in which the methods differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.learning.suites.plan import Result
from rl_agent.config import algorithms
from rl_agent.config.old_names import current_settings

__all__ = ["differences", "read_settings", "row_name", "shared_differences", "what_differs"]

_FOREIGN = "all others:"
"""Key for all unlisted settings of another library's learner."""
_TERMS = {
    "a horizon that grows": "increasing gamma",
    "half by episodes": "half of each batch by episode",
    "a sigma for each state": "state-dependent sigma",
    "four times the memory": "replay memory of 16,384 steps",
    "four updates an action": "four updates per action",
    "its average at a rate of 0.02": "tau 0.02",
    "sigma to 0.05": "sigma_min 0.05",
    "sigma to 0.15": "sigma_min 0.15",
}
"""Common terms for parts of method names, which stay as they are in suites and results."""


def row_name(name: str, seeds: Sequence[Result]) -> str:
    """Return the name of a row, in common terms.

    V-RACER with centred advantages, unlike the paper's V-RACER, is named as such.
    """
    name = ", ".join(_TERMS.get(part, part) for part in name.split(", "))
    agent = seeds[0]["settings"].get("agent") or {}
    if agent.get("algorithm") == "vracer" and agent.get("center_advantages"):
        return name.replace("V-RACER", "V-RACER + centred advantages", 1)
    return name


def differences(methods: Mapping[str, Sequence[Result]]) -> list[str]:
    """Return a Markdown table of the settings in which methods differ, or an empty list if there are none.

    Two rows of a results table isolate the effect of a setting only if they differ in nothing else.
    """
    settings = {name: _settings(seeds[0]["settings"]) for name, seeds in methods.items()}
    values: dict[str, set[str]] = defaultdict(set)
    for each in settings.values():
        for key, value in each.items():
            values[key].add(_value(value))
    # an option that only some of the algorithms have is shown if it differs from its default
    read = [each.keys() for each in settings.values() if _FOREIGN not in each]
    for key in {key for keys in read for key in keys if not all(key in own for own in read)}:
        values[key] |= _defaults(key, methods)
    varied = {key for key, own in values.items() if len(own) > 1}
    if not varied:
        return []
    lines = ["| method | settings that differ between rows |", "| --- | --- |"]
    for name, each in settings.items():
        row = row_name(name, methods[name])
        cells = [f"{key} {_value(each[key])}" for key in each if key in varied | {_FOREIGN}]
        lines.append(f"| {row} | {', '.join(cells)} |")
    return lines


def _defaults(key: str, methods: Mapping[str, Sequence[Result]]) -> set[str]:
    """Return the defaults of an option in the algorithms of the methods."""
    agents = (seeds[0]["settings"].get("agent") for seeds in methods.values())
    fields = [algorithms()[agent["algorithm"]].model_fields for agent in agents if agent]
    defaults = (each[key].get_default(call_default_factory=True) for each in fields if key in each)
    return {
        _value(list(default) if isinstance(default, tuple) else default)
        for default in defaults
        if default is not None
    }


def read_settings(one: Result) -> dict[str, Any]:
    """Return the algorithm of a training and the settings that it uses."""
    agent = one["settings"].get("agent") or {}
    return {"algorithm": agent.get("algorithm")} | _settings(one["settings"])


def shared_differences(one: Sequence[Result], other: Sequence[Result]) -> list[str]:
    """Return the settings that both methods use with different values, and ``steps`` if their lengths differ.

    A setting that only one of the algorithms has is part of that algorithm, as C and D are part of ReF-ER.
    """
    first, second = read_settings(one[0]), read_settings(other[0])
    found = [key for key in first if key in second and first[key] != second[key]]
    lengths = [{seed["steps"] for seed in seeds} for seeds in (one, other)]
    return [*found, "steps"] if lengths[0] != lengths[1] else found


def what_differs(one: Result, base: Result) -> list[str] | None:
    """Return the differences of a training from another one of its algorithm, as ``KEY VALUE``: task, then agent.

    The length and settings that the algorithm does not use are left out. None if the algorithms differ.
    """
    first, second = one["settings"], base["settings"]
    agents = [each.get("agent") or {} for each in (first, second)]
    if not agents[0] or agents[0].get("algorithm") != agents[1].get("algorithm"):
        return None
    found: dict[str, tuple[str, str]] = {}
    for options in ("env_options", "training_options"):
        own, other = first.get(options) or {}, second.get(options) or {}
        found |= {key: (_value(own.get(key)), _value(other.get(key))) for key in own | other}
    evaluated = [each["evaluation"]["deterministic"]["episodes"] for each in (one, base)]
    found["evaluation episodes"] = (str(evaluated[0]), str(evaluated[1]))
    read, there = _settings(first), _settings(second)
    found |= {key: (_value(read.get(key)), _value(there.get(key))) for key in read | there}
    return [f"{key} {own}" for key, (own, other) in found.items() if own != other]


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a training that its algorithm uses."""
    agent, foreign = settings.get("agent"), settings.get("sb3") or {}
    if not agent:
        own = {key: value for key, value in foreign.items() if key != "sb3"}
        return {_FOREIGN: "the defaults of stable-baselines3", **own}
    kind, agent = algorithms()[agent["algorithm"]], current_settings(agent)
    config = kind.model_validate({key: agent[key] for key in agent if key in kind.model_fields})
    # the stored settings have a value for every setting, including those of other algorithms
    written = config.model_dump(mode="json")
    read = {key: written[key] for key in written if key in kind.model_fields} | {
        "hidden": list(config.hidden_sizes),
        "policy_learning_rate": config.policy_rate,
    }
    unread = {"algorithm", "defaults", "acting", "device", "threads", "convolutions", "image_shape"}
    unread |= {"beta", "c_max_scale", "far_policy_target"} if read["replay"] == "none" else set()
    unread |= {"noise", "sigma"} if read.get("squash") == "tanh" else set()
    if "horizon" in read:
        unread |= {"buffer_size", "learning_starts", "env_steps_per_gradient_step", "tau"}
    unread |= {"window"} if read["network"] != "lstm" else set()
    return {key: value for key, value in read.items() if key not in unread and value is not None}


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else f"{value}"
