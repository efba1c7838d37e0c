"""Who starts workers: processes of this machine, a Ray cluster, a SLURM cluster, or somebody by hand."""

from pathlib import Path

from coupling.config import WorkerSettings
from coupling.launch.launcher import Death, Launcher

__all__ = ["Death", "Launcher", "make_launcher"]


def make_launcher(workers: WorkerSettings, connection: Path, folder: Path) -> Launcher:
    """Make the launcher that the configuration names; the library it needs is imported only now.

    Parameters
    ----------
    workers
        The settings.
    connection
        The ``connection.json`` that workers read.
    folder
        Where it keeps what workers say, and what it needs to find them again.

    Returns
    -------
    Launcher
        With nothing started yet.

    Raises
    ------
    ConfigError
        When its library is missing, or the engine refuses the settings.
    """
    if workers.launcher == "none":
        from coupling.launch.hands import ByHand

        return ByHand(connection, workers.agents_of_each())
    if workers.launcher == "ray":
        from coupling.launch.ray import RayLauncher

        return RayLauncher(workers, connection, folder)
    if workers.launcher == "slurm":
        from coupling.launch.slurm import SlurmLauncher

        return SlurmLauncher(workers, connection, folder)
    from coupling.launch.local import LocalLauncher

    return LocalLauncher(
        connection,
        workers.agents_of_each(),
        folder,
        threads=workers.threads,
        restarts=workers.restarts,
        devices=workers.devices,
        outboxes=workers.outbox,
    )
