"""Trained agents: folders with what it takes to evaluate, render and share a policy, and the policies in them."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError, RunError
from coupling.evaluation.evaluate import PolicyController
from coupling.files import make_folders, write_atomically
from coupling.run.folder import RunFolder
from coupling.settings.content import read_yaml
from rl_agent.policy import Policy
from rl_agent.saving.checkpoint import CheckpointError, read_checkpoint

__all__ = [
    "SHIPPED",
    "describe_agents",
    "find_agent",
    "is_shipped",
    "load_controller",
    "load_policy",
    "read_policy",
    "refuse_policy_alone",
    "write_agent",
]

SHIPPED = Path(str(resources.files("coupling"))) / "agents"
"""Folder of the agents that come with the package."""


def find_agent(path: Path) -> RunFolder:
    """Return the folder of a run or, where there is none, of the shipped agent with this name.

    Raises
    ------
    ConfigError
        When there is neither.
    """
    shipped = RunFolder(SHIPPED / path)
    if path.name == str(path) and not path.exists() and shipped.config_file.is_file():
        return shipped
    return RunFolder.find(path, [file.parent.name for file in SHIPPED.glob("*/config.yaml")])


def is_shipped(folder: RunFolder) -> bool:
    """Tell whether a folder is that of an agent that comes with the package."""
    return folder.path.parent == SHIPPED


def describe_agents(root: Path = SHIPPED) -> list[dict[str, Any]]:
    """Return a row for each shipped agent: name, task, learner, steps, and how its own evaluation ended."""
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


def load_policy(folder: RunFolder) -> Policy:
    """Load the policy of a run's last checkpoint.

    Raises
    ------
    RunError
        When the checkpoint is missing, cut off or damaged.
    """
    return read_policy(folder.checkpoint)


def read_policy(file: Path) -> Policy:
    """Read a policy from a file; errors of :func:`load_policy`."""
    try:
        return Policy.load(file)
    except (OSError, CheckpointError) as error:
        raise RunError(f"checkpoint {file} cannot be used: {error}") from error


def load_controller(folder: RunFolder, *, deterministic: bool, seed: int) -> PolicyController:
    """Load the policy of a run's last checkpoint as a controller; errors of :func:`load_policy`."""
    return PolicyController(load_policy(folder), deterministic=deterministic, seed=seed)


def refuse_policy_alone(folder: RunFolder) -> None:
    """Refuse a folder whose checkpoint a learner cannot continue from; one that cannot be read is refused later.

    Raises
    ------
    ConfigError
        When it was written by ``flowsim export`` or :meth:`rl_agent.Policy.save`.
    """
    try:
        _, meta = read_checkpoint(folder.checkpoint, lambda name: False)
    except (OSError, CheckpointError):
        return
    if "counters" not in meta:
        raise ConfigError(
            f"{folder.path} has a policy without its learner: it can be evaluated, rendered and exported, "
            "but not trained further"
        )


def write_agent(run: RunFolder, folder: Path) -> None:
    """Write the policy of a run as the folder of an agent: ``checkpoint.npz`` and the ``config.yaml`` of its task.

    The evaluation, the training episodes and what the run was started with are copied where the run has them.

    Raises
    ------
    ConfigError
        When the folder exists and is not empty.
    RunError
        When the run's checkpoint is missing or damaged.
    """
    policy = load_policy(run)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists already; choose another name")
    make_folders(folder)
    agent = RunFolder(folder)
    policy.save(agent.checkpoint)
    write_atomically(agent.config_file, run.config_text())  # no checksum: it may be changed by hand
    for name in ("evaluation", "selection", "episodes", "starts"):
        source: Path = getattr(run, name)
        if source.is_file():
            write_atomically(getattr(agent, name), source.read_bytes())
