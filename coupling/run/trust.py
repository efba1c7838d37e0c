"""Whose code a run's environment is: asked before anything of a run that somebody else may have made is imported.

The folder of a run names its environment, and to make that is to run its code. Environments of flowsim, of Gymnasium
and of the extras are known. Any other one is trusted if this user has trained with it, which is noted outside of all
run folders, so that no folder can claim it: by the file of the module, not by its name or by the run.
"""

import hashlib
import os
import stat
from pathlib import Path

import platformdirs

from coupling.errors import ConfigError
from coupling.files import write_atomically
from coupling.worker.env_registry import KNOWN, find_module, module_of

__all__ = ["note_training", "refuse_unknown_code"]


def refuse_unknown_code(env: str, trust: bool) -> None:
    """Refuse an environment that is unknown code, before it is imported.

    Parameters
    ----------
    env
        The environment of a run folder.
    trust
        Whether the user trusts it this time.

    Raises
    ------
    ConfigError
        When it neither comes with what is installed, nor has been trained with, nor is trusted now; and when there is
        no such module.
    """
    if trust or _is_known(env):
        return
    file = find_module(env)
    if not _is_noted(file):
        raise ConfigError(
            f"env = {env!r} runs code of {file}, which comes neither with flowsim nor with Gymnasium, and with which "
            "you have not trained; if you would run that file, add --trust"
        )


def note_training(env: str) -> str | None:
    """Note that this user trains with the code of an environment.

    Returns
    -------
    str or None
        What to say where it cannot be noted.
    """
    if _is_known(env):
        return None
    file = find_module(env)
    try:
        note = _note_of(file)
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(note, os.fsencode(file))
    except OSError as error:
        return (
            f"it cannot be noted in {_folder()} that you train with {file} ({error.strerror}), so evaluate, render and "
            "resume will ask for --trust; XDG_STATE_HOME names another place"
        )
    return None


def _is_known(env: str) -> bool:
    """Tell whether an environment is one of flowsim, of Gymnasium's registry or of the extras, or has no code here."""
    module = module_of(env)
    return not module or module.partition(".")[0] in KNOWN


def _is_noted(file: Path) -> bool:
    """Whether this user, and nobody else, has noted a file."""
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
