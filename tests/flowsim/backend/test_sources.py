"""The caches of compiled code and of wakes depend on all source files that they are made from."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flowsim.backend.sources import ROOT, sources_of

NAMES = """
from cases.initial_flows import solver_fingerprint
from flowsim.backend.jit_cache import cache_folder
print(cache_folder().name, solver_fingerprint())
"""


def imports_of(file: Path) -> set[Path]:
    """Files of flowsim that one imports, by its syntax tree."""
    files = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            path = ROOT.joinpath(*name.split("."))
            files |= {path.with_suffix(".py"), path / "__init__.py"}
    return {path for path in files if path.is_file() and "flowsim" in path.parts}


@pytest.mark.parametrize("package", ["flowsim.backend.cpu", "flowsim.backend.cuda"])
def test_source_lists_match_the_imports(package: str) -> None:
    found = sources_of(package)
    expected = set(ROOT.joinpath(*package.split(".")).glob("*.py"))
    while new := {path for file in expected for path in imports_of(file)} - expected:
        expected |= new
    assert set(found) == expected
    assert ROOT / "flowsim" / "kernels" / "cell.py" in found
    assert ROOT / "flowsim" / "render" / "films.py" not in found


@pytest.mark.parametrize(
    ("changed", "compiled", "simulated"),
    [
        ("flowsim/kernels/cell.py", True, True),
        ("flowsim/grid.py", True, True),
        ("flowsim/simulation.py", False, True),
        ("flowsim/render/films.py", False, False),
    ],
)
def test_changing_a_source_invalidates_its_caches(
    changed: str, compiled: bool, simulated: bool, tmp_path: Path
) -> None:
    for package in ("flowsim", "cases"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    before = names_in(tmp_path)
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    after = names_in(tmp_path)
    assert [a != b for a, b in zip(before, after, strict=True)] == [compiled, simulated]


def names_in(folder: Path) -> list[str]:
    """Name of the folder of compiled functions, and fingerprint of the solver, of a copy of the packages."""
    variables = os.environ | {"PYTHONPATH": str(folder), "FLOWSIM_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", NAMES]
    return subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()
