"""One training with each of several seeds, one after the other; completed ones are skipped."""

import contextlib
import fcntl
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError
from coupling.files import make_folders, private_opener, refuse_unwritable
from coupling.run.folder import RunFolder
from coupling.run.run import is_complete
from coupling.settings.config import RunConfig, load_config
from coupling.settings.content import folder_name, preset_name
from coupling.signals import Interrupted, number_of

__all__ = ["parse_seeds", "train_each"]

_MOST = 1000
_LARGEST = 2**63 - 1


def parse_seeds(text: str) -> list[int]:
    """Parse seeds: numbers and ranges, such as ``0-4``, ``0,3,7`` or ``0-2,9``.

    Raises
    ------
    ConfigError
        For other words, a descending range, a repeated seed, or more than 1000 seeds.
    """
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,19})(?:-([0-9]{1,19}))?\s*", part)
        if found is None:
            raise ConfigError(f"--seeds = {text}: give numbers or ranges, such as 0-4 or 0,3,7")
        first = int(found[1])
        last = int(found[2] or first)
        if last < first:
            raise ConfigError(f"--seeds = {text}: the range {first}-{last} is empty")
        if last > _LARGEST:
            raise ConfigError(f"--seeds = {text}: a seed is at most {_LARGEST}")
        if last - first >= _MOST or len(seeds) + last - first >= _MOST:
            raise ConfigError(
                f"--seeds = {text}: at most {_MOST} seeds can be trained by one command"
            )
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        twice = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise ConfigError(f"--seeds = {text}: seed {twice} appears twice")
    return seeds


def train_each(
    preset: str | None,
    overrides: Sequence[str],
    seeds: Sequence[int],
    begin: Callable[[list[str]], Any],
    resume: Callable[[Path], Any],
    say: Callable[[str], None],
) -> list[RunFolder]:
    """Train with each seed in a run of its own, ``NAME-seed0``, ...; continue those that were started before.

    Parameters
    ----------
    preset, overrides
        As in :func:`coupling.settings.config.load_config`; ``run.name`` is NAME.
    seeds
        Values of ``run.seed``.
    begin, resume
        Functions that carry out a new run, from its overrides, or continue a run, from its folder.
    say
        Function that shows a line.

    Returns
    -------
    list of RunFolder
        The finished runs.

    Raises
    ------
    ConfigError
        If the seed is given twice, or a run of the name was started with other settings; nothing was trained then.
    Interrupted
        If it was stopped; the text says how to continue.
    """
    if any(word.split("=")[0] == "run.seed" for word in overrides):
        raise ConfigError("run.seed and --seeds both set the seed; give only one of them")
    config = load_config(preset, overrides)
    name = config.run.name
    with contextlib.nullcontext(name) if name else _holding_name(config, preset, seeds) as base:
        folders = [RunFolder(Path(config.run.folder) / f"{base}-seed{seed}") for seed in seeds]
        begun = [folder.path.exists() for folder in folders]
        for folder, is_begun in zip(folders, begun, strict=True):
            if is_begun:
                _refuse_other_settings(folder, config)
        for seed, folder, is_begun in zip(seeds, folders, begun, strict=True):
            try:
                if is_begun and is_complete(folder):
                    say(f"{folder.path} is finished already")
                    continue
                say(f"{folder.path}: seed {seed} ({seeds.index(seed) + 1} of {len(seeds)})")
                if is_begun:
                    resume(folder.path)
                else:
                    begin([*overrides, f"run.seed={seed}", f"run.name={folder.path.name}"])
            except KeyboardInterrupt as stop:
                onward = (
                    "run the same command again for the remaining seeds, with "
                    f"run.name={base} if it is not given yet"
                )
                raise Interrupted(
                    "; ".join(filter(None, [str(stop), onward])), number_of(stop)
                ) from stop
    return folders


@contextlib.contextmanager
def _holding_name(config: RunConfig, preset: str | None, seeds: Sequence[int]) -> Iterator[str]:
    """Hold the first ``PRESET-N`` for which no run with one of these seeds exists and that no other command holds."""
    runs, name = Path(config.run.folder), preset_name(preset) if preset else folder_name(config.env)
    refuse_unwritable("run.folder", runs, is_folder=True)
    was_there = runs.exists()
    make_folders(runs)
    try:
        for base in (f"{name}-{n}" for n in range(1, 10**9)):
            with _locked(runs / f".{base}-seeds.lock") as is_ours:
                if is_ours and not any((runs / f"{base}-seed{seed}").exists() for seed in seeds):
                    yield base
                    return
    finally:
        if not was_there:
            with contextlib.suppress(OSError):  # not empty
                runs.rmdir()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a file that exists only meanwhile; yields False if another process has it."""
    with open(path, "w", opener=private_opener) as lock:
        try:  # the system frees the lock of a dead process
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        if not os.fstat(lock.fileno()).st_nlink:  # its holder has just removed it
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def _refuse_other_settings(folder: RunFolder, config: RunConfig) -> None:
    """Raise an error if a run was started with another value of a setting that is given now."""
    there = RunFolder.find(folder.path).config().model_dump(mode="json")
    named = config.model_dump(mode="json", exclude_unset=True)
    for key, value in _leaves(named):
        if key[0] == "workers" or key in {("run", "seed"), ("run", "name"), ("run", "folder")}:
            continue
        before: Any = there
        for word in key:
            before = before.get(word) if isinstance(before, dict) else None
        if before != value:
            name, line = ".".join(key), _resume_line(folder, key, value, before)
            raise ConfigError(
                f"run {folder.path} was begun with {name} = {before}, not {value}; choose another run.name"
                + (f", or continue it with `{line}`" if line else "")
            )


def _resume_line(folder: RunFolder, key: tuple[str, ...], value: Any, before: Any) -> str:
    """Return the command that continues a run whose setting differs; empty if it is finished and stays so."""
    if key == ("run", "steps") and value > before:
        return shlex.join(["flowsim", "resume", str(folder.path), f"run.steps={value}"])
    return "" if is_complete(folder) else folder.resume_line


def _leaves(
    settings: dict[str, Any], before: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], Any]]:
    """Return nested settings by their paths."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in settings.items():
        is_nested = isinstance(value, dict) and value
        found += _leaves(value, (*before, key)) if is_nested else [((*before, key), value)]
    return found
