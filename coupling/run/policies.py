"""Trained policies of run folders: loaded alone or as controllers, and written as the folder of an agent."""

from pathlib import Path

from coupling.errors import ConfigError, RunError
from coupling.evaluation.evaluate import PolicyController
from coupling.files import follow_umask, make_folders, write_atomically
from coupling.run.folder import RunFolder
from rl_agent.policy import Policy
from rl_agent.saving.checkpoint import CheckpointError, read_checkpoint

__all__ = [
    "describe_unusable",
    "load_controller",
    "load_policy",
    "read_policy",
    "refuse_policy_alone",
    "write_agent",
]


def load_policy(folder: RunFolder) -> Policy:
    """Load the policy of a run's last checkpoint.

    Raises
    ------
    RunError
        If the checkpoint is missing, truncated or damaged.
    """
    return read_policy(folder.checkpoint)


def read_policy(file: Path) -> Policy:
    """Read a policy from a file; raises as :func:`load_policy`."""
    try:
        return Policy.load(file)
    except (OSError, CheckpointError) as error:
        raise RunError(describe_unusable(file, error)) from error


def describe_unusable(file: Path, error: OSError | CheckpointError) -> str:
    """Return the message for a checkpoint that cannot be read or used."""
    if isinstance(error, OSError):
        missing = isinstance(error, FileNotFoundError)
        reason = "it is not there" if missing else error.strerror or str(error)
    else:
        reason = str(error).removeprefix("checkpoint ").removeprefix(str(file)).lstrip(": ")
        reason = f"it {reason}" if reason.startswith(("is ", "has ", "does ")) else reason
    return f"checkpoint {file} cannot be used: {reason}"


def load_controller(folder: RunFolder, *, deterministic: bool, seed: int) -> PolicyController:
    """Load the policy of a run's last checkpoint as a controller; raises as :func:`load_policy`."""
    return PolicyController(load_policy(folder), deterministic=deterministic, seed=seed)


def refuse_policy_alone(folder: RunFolder) -> None:
    """Raise an error if a checkpoint holds only a policy, from which no learner can continue; ignore unreadable files.

    Raises
    ------
    ConfigError
        If it was written by ``flowsim export`` or :meth:`rl_agent.Policy.save`.
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

    The files of the evaluation, the selection, the training episodes and the starts are copied if the run has them.
    Files have the mode of the umask, since none of them contains a session number.

    Raises
    ------
    ConfigError
        If the folder exists and is not empty.
    RunError
        If the run's checkpoint is missing or damaged.
    """
    policy = load_policy(run)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists already; choose another name")
    make_folders(folder)
    agent = RunFolder(folder)
    policy.save(agent.checkpoint)
    write_atomically(agent.config_file, run.config_text())  # no checksum: it may be edited
    for name in ("evaluation", "selection", "episodes", "starts"):
        source: Path = getattr(run, name)
        if source.is_file():
            write_atomically(getattr(agent, name), source.read_bytes())
    follow_umask(folder)
