"""Trained policies of run folders, alone and as controllers."""

from coupling.errors import RunError
from coupling.run.evaluate import PolicyController
from coupling.run.folder import RunFolder
from rl_agent.checkpoint import CheckpointError
from rl_agent.policy import Policy

__all__ = ["load_controller", "load_policy"]


def load_policy(folder: RunFolder) -> Policy:
    """Load the policy of a run's last checkpoint.

    Raises
    ------
    RunError
        When the checkpoint is missing, cut off or damaged.
    """
    try:
        return Policy.load(folder.checkpoint)
    except (OSError, CheckpointError) as error:
        raise RunError(f"checkpoint {folder.checkpoint} cannot be used: {error}") from error


def load_controller(folder: RunFolder, *, deterministic: bool, seed: int) -> PolicyController:
    """Load the policy of a run's last checkpoint as a controller; errors of :func:`load_policy`."""
    return PolicyController(load_policy(folder), deterministic=deterministic, seed=seed)
