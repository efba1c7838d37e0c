"""Launchers of workers: as processes on this machine, on a Ray or SLURM cluster, or by hand."""

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from coupling.errors import ConfigError
from coupling.launch.launcher import Death, Launcher
from coupling.settings.config import WorkerSettings
from coupling.wire.address import endpoint_to_bind

if TYPE_CHECKING:
    from coupling.launch.prewarm import PrewarmedWorkers

__all__ = ["Death", "Launcher", "check_launcher", "make_launcher"]

_LIBRARIES = {"ray": "ray", "slurm": "submitit"}


def check_launcher(workers: WorkerSettings) -> None:
    """Check, before anything is written, that the address can be bound and the launcher's library is installed.

    Raises
    ------
    ConfigError
        If one of them fails.
    """
    endpoint_to_bind(workers.transport, workers.bind)
    library = _LIBRARIES.get(workers.launcher)
    if library and not _installed(library):
        raise ConfigError(
            f"workers.launcher = {workers.launcher} needs {library}: pip install 'flowsim-rl[{workers.launcher}]'"
        )
    if (
        workers.launcher == "slurm"
        and workers.slurm.cluster == "slurm"
        and not shutil.which("srun")
    ):
        raise ConfigError(
            "workers.launcher = slurm: srun was not found, so this machine is not part of a SLURM cluster; "
            "workers.slurm.cluster=local tries the launcher without one"
        )


def _installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ValueError:  # it has been disabled
        return False


def make_launcher(
    workers: WorkerSettings,
    connection: Path,
    folder: Path,
    *,
    external: bool = False,
    prewarmed: "PrewarmedWorkers | None" = None,
) -> Launcher:
    """Create the launcher named in the configuration; the library that it needs is imported only now.

    Parameters
    ----------
    workers
        The settings.
    connection
        The ``connection.json`` that workers read.
    folder
        Where it stores the workers' output, and what it needs to find them again.
    external
        Whether the environments are outside Python and ``flowsim worker`` cannot host them.
    prewarmed
        Prestarted processes that can become workers on this machine.

    Returns
    -------
    Launcher
        A launcher that has not started anything yet.

    Raises
    ------
    RunError
        If its engine is not available or refuses the settings.
    """
    if workers.launcher == "none":
        from coupling.launch.manual import ManualLauncher

        return ManualLauncher(connection, workers.agents_of_each(), external=external)
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
        prewarmed=prewarmed,
    )
