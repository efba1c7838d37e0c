"""Imports only run downwards: coupling -> cases -> flowsim, coupling -> rl_agent (the four layers)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "flowsim": {"cases", "rl_agent", "coupling", "torch", "gymnasium", "zmq"},
    "rl_agent": {"flowsim", "cases", "coupling", "zmq"},
    "cases": {"rl_agent", "coupling", "torch", "zmq"},
    "coupling": set(),
}


def imported(file: Path) -> set[str]:
    """Top-level names of everything that a file imports, wherever in the file it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} uses a relative import"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_run_downwards(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        upwards = imported(file) & FORBIDDEN[package]
        assert not upwards, f"{file.relative_to(ROOT)} imports {', '.join(sorted(upwards))}"


def test_the_check_sees_an_upward_import(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f():\n    from torch.nn import Module\n    return Module\n")
    assert imported(file) & FORBIDDEN["flowsim"] == {"torch"}
