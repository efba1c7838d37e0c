"""Check of the code that a run names, before anything of a run that someone else may have made is imported.

The folder of a run names its environment and possibly a custom algorithm, and creating either runs its code. Code of
flowsim, Gymnasium and the extras is known. Other code is trusted if this user has trained with it. That is recorded
outside of all run folders, so that no folder can claim it, and by the file of the module, not by its name or the run.
"""

import hashlib
import os
import stat
from pathlib import Path

import platformdirs

from coupling.errors import ConfigError
from coupling.files import write_atomically
from coupling.modules import find_module, is_known
from coupling.run.folder import RunFolder
from coupling.settings.algorithms import import_algorithm
from coupling.settings.config import RunConfig
from coupling.worker.env_registry import module_of
from rl_agent.config import registry

__all__ = ["config_to_run", "import_known_algorithm", "note_training", "refuse_unknown_code"]


def config_to_run(folder: RunFolder, trust: bool) -> RunConfig:
    """Read the settings of a run whose code is known or trusted, and import its algorithm if it is a custom one.

    Raises
    ------
    ConfigError
        As :func:`refuse_unknown_code` and :func:`coupling.settings.algorithms.import_algorithm`.
    RunError
        If the settings are damaged.
    """
    config = folder.config()
    refuse_unknown_code(config.env, trust, config.agent.written_name)
    return folder.config() if import_algorithm(config.agent.written_name) else config


def import_known_algorithm(folder: RunFolder, trust: bool) -> None:
    """Import the algorithm of a run that is needed without its environment; raises as :func:`config_to_run`."""
    name = folder.config().agent.written_name
    refuse_unknown_code("", trust, name)
    import_algorithm(name)


def refuse_unknown_code(env: str, trust: bool, algorithm: str = "") -> None:
    """Raise an error for an environment or an algorithm that is unknown code, before it is imported.

    Parameters
    ----------
    env, algorithm
        Names as written in a run folder.
    trust
        Whether the user trusts them this time.

    Raises
    ------
    ConfigError
        If one is neither known nor trained with by this user nor trusted now, or if there is no such module.
    """
    if trust:
        return
    for said, file in _unknown_code(env, algorithm):
        if not _is_noted(file):
            raise ConfigError(
                f"{said} runs the code in {file}, which is not part of flowsim or Gymnasium and with which you have "
                "not trained; add --trust if you trust this file"
            )


def note_training(env: str, algorithm: str = "") -> str | None:
    """Record that this user trains with the code of an environment and of an algorithm.

    Returns
    -------
    str or None
        Warning if it cannot be recorded.
    """
    for _, file in _unknown_code(env, algorithm):
        try:
            note = _note_of(file)
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(note, os.fsencode(file))
        except OSError as error:
            return (
                f"cannot note in {_folder()} that you train with {file} ({error.strerror}), so evaluate, render and "
                "resume will ask for --trust; set XDG_STATE_HOME to use another folder"
            )
    return None


def _unknown_code(env: str, algorithm: str) -> list[tuple[str, Path]]:
    """Return the settings that name code outside flowsim, Gymnasium and the extras, with the file of each."""
    named = {
        f"env = {env!r}": module_of(env),
        f"agent.algorithm = {algorithm!r}": registry.module_of(algorithm),
    }
    unknown = {said: module for said, module in named.items() if not is_known(module)}
    return [(said, find_module(module, said)) for said, module in unknown.items()]


def _is_noted(file: Path) -> bool:
    """Return whether this user, and nobody else, has recorded a file."""
    try:
        with _note_of(file).open("rb") as note:
            about = os.fstat(note.fileno())
            own = about.st_uid == os.geteuid() and not stat.S_IMODE(about.st_mode) & 0o022
            return own and note.read() == os.fsencode(file)
    except OSError:
        return False


def _note_of(file: Path) -> Path:
    return _folder() / hashlib.sha256(os.fsencode(file)).hexdigest()


def _folder() -> Path:
    return platformdirs.user_state_path("flowsim") / "trained_with"
