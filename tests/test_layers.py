"""Imports only run downwards: coupling -> cases -> flowsim, coupling -> rl_agent (the four layers), and its rooms."""

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


def test_gradients_by_hand_have_no_torch_and_a_loss_beside_them() -> None:
    folder = ROOT / "rl_agent" / "algorithms"
    files = sorted((folder / "by_hand").glob("[!_]*.py"))
    assert len(files) > 4
    for file in files:
        assert not brings_torch(file), file
        assert file.name == "critics.py" or brings_torch(folder / file.name), file


def brings_torch(file: Path) -> bool:
    """Whether a file imports torch, or what stands for it until it is used."""
    nodes = [
        node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    return "torch" in imported(file) or any(node.module == "rl_agent.later" for node in nodes)


def test_the_check_sees_an_upward_import(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f():\n    from torch.nn import Module\n    return Module\n")
    assert imported(file) & FORBIDDEN["flowsim"] == {"torch"}


ROOMS = ["commands", "run", "launch", "service", "worker", "settings", "wire"]
"""Rooms of coupling, each of which may import those after it; errors, files and origin are for all."""
FOR_ALL = {"errors", "files", "origin"}


def rooms_of(file: Path) -> set[str]:
    """Rooms, or modules for all, that a file of coupling imports, wherever in the file it does."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "coupling":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("coupling."):
            names.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith("coupling.")
            }
    return names


def test_every_module_of_coupling_is_in_a_room_and_none_imports_one_above_it() -> None:
    coupling = ROOT / "coupling"
    assert {folder.name for folder in coupling.iterdir() if list(folder.glob("*.py"))} == set(ROOMS)
    assert {file.stem for file in coupling.glob("*.py")} == FOR_ALL | {"__init__"}
    for floor, room in enumerate(ROOMS):
        for file in (coupling / room).glob("*.py"):
            upwards = rooms_of(file) - FOR_ALL - set(ROOMS[floor:])
            assert not upwards, f"{file.relative_to(ROOT)} imports {', '.join(sorted(upwards))}"
    for name in FOR_ALL:
        assert rooms_of(coupling / f"{name}.py") <= FOR_ALL
