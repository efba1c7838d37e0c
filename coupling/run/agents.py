"""Folders of trained agents, shipped or of runs; no heavy imports, so that `flowsim agents` starts at once."""

import json
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from coupling.run.folder import RunFolder
from coupling.settings.content import read_yaml

__all__ = ["SHIPPED", "describe_agents", "find_agent", "find_agents", "given_name", "is_shipped"]

SHIPPED = Path(str(resources.files("coupling"))) / "agents"
"""Folder of the agents that come with the package."""


def find_agent(path: Path) -> RunFolder:
    """Return the folder of a run or, if there is none, of the shipped agent with this name.

    Raises
    ------
    ConfigError
        If there is neither.
    """
    shipped = RunFolder(SHIPPED / path)
    if path.name == str(path) and not path.exists() and shipped.config_file.is_file():
        return shipped
    return RunFolder.find(path, [file.parent.name for file in SHIPPED.glob("*/config.yaml")])


def find_agents(paths: Iterable[Path]) -> list[RunFolder]:
    """Return the folders of runs or shipped agents, each once: a run given twice would count as two seeds.

    Raises
    ------
    ConfigError
        If there is no such folder.
    """
    found: dict[Path, RunFolder] = {}
    for folder in map(find_agent, paths):
        found.setdefault(folder.path.resolve(), folder)
    return list(found.values())


def given_name(folder: RunFolder) -> Path:
    """Return what :func:`find_agent` found a folder by: the name of a shipped agent, or the path of a run."""
    return Path(folder.path.name) if is_shipped(folder) else folder.path


def is_shipped(folder: RunFolder) -> bool:
    """Return whether a folder is that of a shipped agent."""
    return folder.path.parent == SHIPPED


def describe_agents(root: Path = SHIPPED) -> list[dict[str, Any]]:
    """Return a row for each shipped agent: name, task, learner, steps and the result of its own evaluation."""
    rows = []
    for config in sorted(root.glob("*/config.yaml")):
        settings, folder = read_yaml(config), RunFolder(config.parent)
        evaluation = json.loads(folder.evaluation.read_text(encoding="utf-8"))["after"]
        low, high = evaluation["ci95"]
        rows.append({
            "agent": config.parent.name,
            "env": settings["env"],
            "learner": settings["agent"]["algorithm"],
            "steps": settings["run"]["steps"],
            "seed": settings["run"]["seed"],
            "episodes": evaluation["episodes"],
            "survival": f"{100 * evaluation['survival']:.0f} %",
            "return": f"{evaluation['mean_return']:.1f} [{low:.1f}, {high:.1f}]",
        })  # fmt: skip
    return rows
