"""What the methods of a table were trained with: their names, and in what they differ beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.learning.suites.plan import Result
from rl_agent.config import algorithms
from rl_agent.config.old_names import current_settings

__all__ = ["differences", "row_name"]

_FOREIGN = "all others"
"""The settings of another library's learner that are not named."""


def row_name(name: str, seeds: Sequence[Result]) -> str:
    """Return the name of a row: one of V-RACER says that it has centred advantages, which the paper's has not."""
    agent = seeds[0]["settings"].get("agent") or {}
    if agent.get("algorithm") == "vracer" and agent.get("center_advantages"):
        return name.replace("V-RACER", "V-RACER + centred advantages", 1)
    return name


def differences(methods: Mapping[str, Sequence[Result]]) -> list[str]:
    """Return, in Markdown, the settings that methods share and have otherwise; empty if there are none.

    Two rows of a table may be compared with a view to one thing where they differ in that alone.
    """
    settings = {name: _settings(seeds[0]["settings"]) for name, seeds in methods.items()}
    values: dict[str, set[str]] = defaultdict(set)
    for each in settings.values():
        for key, value in each.items():
            values[key].add(_value(value))
    varied = {key for key, own in values.items() if len(own) > 1}
    if not varied:
        return []
    lines = ["| method | settings that are not the same in all rows |", "| --- | --- |"]
    for name, each in settings.items():
        row = row_name(name, methods[name])
        cells = [f"{key} {_value(each[key])}" for key in each if key in varied | {_FOREIGN}]
        lines.append(f"| {row} | {', '.join(cells)} |")
    return lines


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a training was made with, as far as its algorithm reads it."""
    agent, foreign = settings.get("agent"), settings.get("sb3") or {}
    if not agent:
        own = {key: value for key, value in foreign.items() if key != "sb3"}
        return {_FOREIGN: "stable-baselines3's own", **own}
    kind, agent = algorithms()[agent["algorithm"]], current_settings(agent)
    config = kind.model_validate({key: agent[key] for key in agent if key in kind.model_fields})
    read = config.model_dump(mode="json") | {
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
