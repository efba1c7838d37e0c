"""Trained policies of run folders as controllers."""

from coupling.errors import RunError
from coupling.run.evaluate import PolicyController
from coupling.run.folder import RunFolder
from rl_agent.checkpoint import CheckpointError
from rl_agent.policy import Policy

__all__ = ["load_controller"]


def load_controller(folder: RunFolder, *, deterministic: bool, seed: int) -> PolicyController:
    """Load the policy of a run's last checkpoint.

    Raises
    ------
    RunError
        When the checkpoint is missing, cut off or damaged.
    """
    try:
        policy = Policy.load(folder.checkpoint)
    except (OSError, CheckpointError) as error:
        raise RunError(f"checkpoint {folder.checkpoint} cannot be used: {error}") from error
    return PolicyController(policy, deterministic=deterministic, seed=seed)
