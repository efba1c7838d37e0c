"""Imports only run downwards: among the layers (coupling -> cases -> flowsim, coupling -> rl_agent) and in coupling.

Also: no circular imports, and at most a dozen entries at the root of a package.
"""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
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


def test_analytic_gradients_import_no_torch_and_have_a_loss_module() -> None:
    files = sorted((ROOT / "rl_agent" / "algorithms").glob("*/gradient.py"))
    assert len(files) > 4
    for file in files:
        assert not brings_torch(file), file
        assert brings_torch(file.with_name("loss.py")), file


def brings_torch(file: Path) -> bool:
    """Whether a file imports torch, directly or lazily."""
    nodes = [
        node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    return "torch" in imported(file) or any(
        node.module == "rl_agent.runtime.lazy_torch" for node in nodes
    )


def test_check_finds_an_upward_import(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f():\n    from torch.nn import Module\n    return Module\n")
    assert imported(file) & FORBIDDEN["flowsim"] == {"torch"}


SUBPACKAGES = [
    *("commands", "bench", "pages", "film", "simulation", "run"),
    *("evaluation", "launch", "service", "worker", "settings", "wire"),
]
"""Subpackages of coupling, each of which may import those after it."""
SHARED = {"errors", "files", "meanwhile", "modules", "origin", "signals"}
"""Modules of coupling that every subpackage may import."""


def subpackages_of(file: Path) -> set[str]:
    """Subpackages and shared modules of coupling that a file imports, anywhere in the file."""
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


def test_coupling_subpackages_import_only_downwards() -> None:
    coupling = ROOT / "coupling"
    assert {folder.name for folder in coupling.iterdir() if list(folder.glob("*.py"))} == set(
        SUBPACKAGES
    )
    assert {file.stem for file in coupling.glob("*.py")} == SHARED | {"__init__"}
    for level, name in enumerate(SUBPACKAGES):
        for file in (coupling / name).glob("*.py"):
            upwards = subpackages_of(file) - SHARED - set(SUBPACKAGES[level:])
            assert not upwards, f"{file.relative_to(ROOT)} imports {', '.join(sorted(upwards))}"
    for name in SHARED:
        assert subpackages_of(coupling / f"{name}.py") <= SHARED


AT_MOST = 12
"""Subpackages and modules at the root of a package, without ``__init__`` and ``__main__``."""


@pytest.mark.parametrize("package", ["flowsim", "rl_agent"])
def test_a_package_has_at_most_a_dozen_entries(package: str) -> None:
    entries = {
        entry.stem
        for entry in (ROOT / package).iterdir()
        if entry.suffix == ".py" or list(entry.glob("*.py"))
    }
    assert len(entries - {"__init__", "__main__"}) <= AT_MOST, sorted(entries)


def test_no_circular_imports() -> None:
    graph = imports_of_modules(ROOT)
    assert len(graph) > 200
    assert circle_in(graph) is None, " -> ".join(circle_in(graph) or [])


def test_circle_check_sees_function_imports_and_ignores_type_checking(tmp_path: Path) -> None:
    folder = tmp_path / "flowsim"
    folder.mkdir()
    (folder / "__init__.py").write_text("from flowsim.a import A\n")
    (folder / "a.py").write_text("def f():\n    from flowsim import b\n    return b\n")
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from flowsim.a import A\n"
    (folder / "b.py").write_text(types)
    assert circle_in(imports_of_modules(tmp_path)) is None
    (folder / "b.py").write_text("import flowsim.a\n")
    assert set(circle_in(imports_of_modules(tmp_path)) or []) == {"flowsim.a", "flowsim.b"}
    (folder / "b.py").write_text("import flowsim\n")
    assert set(circle_in(imports_of_modules(tmp_path)) or []) > {"flowsim", "flowsim.b"}


def circle_in(graph: dict[str, set[str]]) -> list[str] | None:
    """The modules of an import cycle, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def imports_of_modules(root: Path) -> dict[str, set[str]]:
    """Which of our modules each of them imports, wherever in its file it does."""
    files = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for package in FORBIDDEN
        for file in sorted((root / package).rglob("*.py"))
    }
    return {module: modules_imported(file, module, set(files)) for module, file in files.items()}


def modules_imported(file: Path, module: str, ours: set[str]) -> set[str]:
    """Our modules that one imports, with the packages on the way to them; the packages it is in are there already."""
    names = set()
    for node in nodes_that_run(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inside & ours
            if inside - ours:
                names.add(str(node.module))
    above = {package for name in names for package in packages_above(name)}
    return {
        name
        for name in (names | above) & ours
        if name != module and (name in names or name not in packages_above(module))
    }


def packages_above(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]


def nodes_that_run(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    yield node
    only_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    for child in node.orelse if only_types else ast.iter_child_nodes(node):  # type: ignore[attr-defined]
        yield from nodes_that_run(child)


@pytest.mark.parametrize("package", ["flowsim", "rl_agent", "coupling"])
def test_contributing_describes_every_folder(package: str) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"\| folder of `{package}` .*\n((?:\|.*\n)+)", page)
    described = re.findall(r"^\| `(\w+)/`", table, re.M)
    folders = [path.parent.name for path in (ROOT / package).glob("*/__init__.py")]
    assert set(folders) <= set(described)
