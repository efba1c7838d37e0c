"""Source files that a module depends on, used as keys of caches: of compiled code, of simulated wakes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(
    r"^\s*(?:from (flowsim[\w.]*) import (\([^)]*\)|[^\n]*)|import (flowsim[\w.]*))", re.MULTILINE
)


def sources_of(*modules: str) -> list[Path]:
    """Return the files of modules and of everything in flowsim that they import, directly or indirectly.

    Parameters
    ----------
    modules : str
        Dotted names, such as ``flowsim.kernels.cell``. A package stands for its own file and those of all its modules.

    Returns
    -------
    list of Path
        Sorted. Parent packages of imported modules are not included, because nothing in them is called.
    """
    found: set[Path] = set()
    waiting = [file for module in modules for file in _files_of(module)]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported_by(file)
    return sorted(found)


def digest_of(files: list[Path]) -> bytes:
    """Return the SHA-256 hash of files and of their paths within the package."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.digest()


def _files_of(module: str) -> list[Path]:
    """Return the file of a module, or all files of a package."""
    path = ROOT.joinpath(*module.split("."))
    return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _imported_by(file: Path) -> list[Path]:
    """Return the files of flowsim that a file imports."""
    files = []
    for package, names, module in _IMPORT.findall(file.read_text(encoding="utf-8")):
        whole = [module or package]
        parts = [f"{package}.{name}" for name in re.findall(r"[^\W\d]\w*", names)]
        for dotted in whole + parts:
            path = ROOT.joinpath(*dotted.split("."))
            files += [path.with_suffix(".py"), path / "__init__.py"]
    return [candidate for candidate in files if candidate.is_file()]
