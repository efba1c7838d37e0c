"""Suggestions for unknown presets and keys, and for options that are settings."""

import contextlib
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases.error_messages import all_keys, nearest

__all__ = [
    "meant_by_option",
    "meant_env",
    "meant_key",
    "meant_module",
    "meant_preset",
    "meant_registered",
]

_ID = re.compile(r"(?:[\w.]+:)?(?:[\w-]+/)?[\w.-]+-v\d+")
_REGISTERED = re.compile(r"""\bregister\(\s*(?:id\s*=\s*)?["']([^"']+)["']""")


def meant_preset(name: str, shipped: Sequence[str]) -> str | list[str]:
    """Return the preset that was probably meant, or the presets of such a folder; an empty list if none is similar."""
    if "/" not in name and (folder := nearest(name, {one.split("/")[0] for one in shipped})):
        inside = [one for one in shipped if one.startswith(f"{folder}/")]
        quick = f"{folder}/quick"
        return quick if quick in inside else inside
    if (close := nearest(name, shipped)) is not None:
        return close
    # a part of a name is enough if it is the distinctive one: cartpole, wake
    parts: dict[str, str] = {}
    for preset in sorted(shipped, key=lambda one: not one.endswith("/quick")):
        folder, _, last = preset.rpartition("/")
        for part in {last, *folder.split("_")} - {"quick", "default"}:
            parts.setdefault(part, preset)
    meant = nearest(name, parts)
    return [] if meant is None else parts[meant]


def meant_env(name: str) -> str | None:
    """Return the ``env=`` word for a text that looks like an environment or a Python file with one."""
    if name.endswith(".py"):
        return f"env={meant_module(name)}"
    return f"env={name}" if name.startswith("parallel:") or _ID.fullmatch(name) else None


def meant_module(file: str) -> str:
    """Return the ``module:ID`` of a Python file in the current folder, whose text is read but not run."""
    path, _, name = file.partition(".py")
    text = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = Path(f"{path}.py").read_text(encoding="utf-8")
    known = _REGISTERED.findall(text)
    name = name.lstrip(":") or (known[-1] if known else "ID")
    return f"{path.removeprefix('./').replace('/', '.')}:{name}"


def meant_registered(name: str) -> str | None:
    """Return the ``env=`` word of the environment with this name, ignoring version and case."""
    try:
        import gymnasium

        import cases  # noqa: F401  (registers the flow tasks)
    except ModuleNotFoundError:
        return None
    # the newest version is the last
    plain = {
        short: known
        for known, spec in gymnasium.registry.items()
        if spec.namespace in (None, "flowsim")
        for short in (known.lower(), spec.name.lower(), known.lower().removeprefix("flowsim/"))
    }
    return f"env={plain[name.lower()]}" if name.lower() in plain else None


def meant_key(key: str, env: str | None) -> str | None:
    """Return the task option that was probably meant by a key without a section."""
    name = nearest(key.removeprefix("env_options."), _options_of(env), likeness=0.8)
    return None if name is None else f"env_options.{name}"


def _options_of(env: str | None) -> list[str]:
    """Return the names of the options of a task of flowsim or Gymnasium; no other code is run."""
    with contextlib.suppress(Exception):  # a missing task has no options
        import gymnasium
        from gymnasium.envs.registration import load_env_creator

        import cases  # noqa: F401  (registers the flow tasks)

        entry = gymnasium.spec((env or "").rpartition(":")[2]).entry_point
        if isinstance(entry, str) and entry.startswith(("gymnasium.", "cases.")):
            make: Any = load_env_creator(entry)
            options = getattr(getattr(make, "task_class", None), "options_class", None)
            named = [*inspect.signature(make).parameters, *getattr(options, "model_fields", ())]
            return [name for name in named if name not in ("self", "kwargs", "options")]
    return []


def meant_by_option(option: str, value: str | None, models: Sequence[type]) -> str | None:
    """Return the ``key=value`` word that was probably meant by an option such as ``--steps``."""
    name = option.lstrip("-").replace("-", "_").lower()
    keys: dict[str, str] = {}
    for model in models:
        keys |= getattr(model, "old_keys", {}) | {key: key for key in all_keys(model)}
    last = {key.rpartition(".")[2]: meant for key, meant in reversed(keys.items())}
    key = last.get(name) or last.get(nearest(name, last, likeness=0.85) or "")
    key = key or meant_key(name, "flowsim/DCylinderWake-v0")  # every flow has these options
    return None if key is None else f"{key}={'VALUE' if value is None else value}"
