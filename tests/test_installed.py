"""Installation: the solver works without the learners, and the wheel contains the data files."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from coupling.commands.cli import main
from coupling.errors import describe_missing
from coupling.origin import flowsim_version

ROOT = Path(__file__).parents[1]
RL = {"torch", "gymnasium", "pyzmq", "msgspec", "tensorboard", "jinja2", "prometheus_client"}
WITHOUT = """
import sys
for name in ("torch", "gymnasium", "zmq", "msgspec", "tensorboard", "jinja2", "prometheus_client"):
    sys.modules[name] = None
"""
SOLVE = """
from flowsim import Disk, Grid, Sides, Simulation
sim = Simulation(Grid(32, 32, 1 / 8), Sides.all("slip"), [Disk(center=(2.0, 2.0))], viscosity=1 / 100)
sim.advance_steps(2)
assert sim.steps[0] == 2
"""
MODULE = "import runpy, sys\nsys.argv = ['flowsim', *{words!r}]\nrunpy.run_module('flowsim', run_name='__main__')\n"
COMMAND = "from coupling.commands.cli import main\nsys.argv = ['flowsim', *{words!r}]\nmain()\n"
CASE = "{nx: 32, ny: 32, h: 0.125, reynolds: 100, bodies: [{shape: disk, center: [2.0, 2.0]}]}"


def python(code, folder):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_solver_and_its_commands_work_without_extras(tmp_path):
    (tmp_path / "case.yaml").write_text(CASE)
    words = ["simulate", "case.yaml", "--time", "0.05", "-o", "flow", "--frames", "2"]
    done = python(WITHOUT + SOLVE + COMMAND.format(words=words), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "flow" / "forces.csv").exists()


@pytest.mark.parametrize(
    "words", [["validate", "--case", "nothing"], ["presets"], ["bench", "--help"]]
)
def test_commands_that_work_without_extras(tmp_path, words):
    done = python(WITHOUT + COMMAND.format(words=words), tmp_path)
    assert "extra" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if "nothing" in words else 0)


@pytest.mark.parametrize(
    "words", [["train", "classic/cartpole"], ["simulate", "d_cylinder_wake/quick"]]
)
def test_commands_that_need_an_extra_name_it(tmp_path, words):
    done = python(WITHOUT + COMMAND.format(words=words), tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("this needs ") == 1
    assert "which the extra rl installs: pip install 'flowsim-rl[rl]'" in done.stderr


def test_python_m_flowsim_equals_the_command(tmp_path):
    """With the same messages and exit codes, also if the learners' extra is missing."""

    def module(*words):
        command = [sys.executable, "-m", "flowsim", *words]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )

    helped, version, refused = module("--help"), module("--version"), module("trian")
    assert helped.returncode == 0
    assert "Usage: flowsim " in helped.stdout
    assert (version.returncode, version.stdout) == (0, f"flowsim {flowsim_version()}\n")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "flowsim: no such command 'trian': did you mean 'train'?\n"
    solver_only = python(WITHOUT + MODULE.format(words=["train", "classic/cartpole"]), tmp_path)
    assert solver_only.returncode == 2
    assert "which the extra rl installs: pip install 'flowsim-rl[rl]'" in solver_only.stderr
    assert "Traceback" not in solver_only.stderr


def test_uninstalled_copy_has_no_version(monkeypatch, capsys):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setattr("sys.argv", ["flowsim", "--version"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert capsys.readouterr().out == "flowsim (not installed, so without a version)\n"


def test_missing_cupy_message_names_both_cuda_extras():
    sentence = describe_missing(ModuleNotFoundError("No module named 'cupy'", name="cupy"))
    assert "the extra cuda12 or cuda13 installs" in sentence
    assert sentence.endswith(
        ": pip install 'flowsim-rl[cuda12]' or pip install 'flowsim-rl[cuda13]'"
    )


def test_solver_imports_only_its_own_dependencies():
    """Everything that flowsim imports is in its list of dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = {
        re.split(r"[>=<\[]", name)[0].lower().replace("-", "_") for name in project["dependencies"]
    }
    named = {"PIL": "pillow", "yaml": "pyyaml"}
    trees = [
        ast.parse(path.read_text())
        for path in (ROOT / "flowsim").rglob("*.py")
        if "cuda" not in str(path)
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {
        node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level
    }
    tops = (
        {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) - {"flowsim"}
    )
    assert "numba" in tops
    came_with_numba, beside_which_the_bench_measures = {"llvmlite"}, {"jax", "jax_cfd"}
    asked_for_by_an_extra = {"xarray", "h5netcdf"}  # with a sentence where it is missing
    tops -= came_with_numba | beside_which_the_bench_measures | asked_for_by_an_extra
    assert {named.get(name, name) for name in tops} <= installed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel of this tree with the installed setuptools."""
    folder = tmp_path_factory.mktemp("wheel")
    code = (
        "import os, shutil, sys\n"
        "root, folder = sys.argv[1:]\n"
        "source = os.path.join(folder, 'source')\n"
        "os.mkdir(source)\n"
        "for name in ('flowsim', 'rl_agent', 'coupling', 'cases'):\n"
        "    shutil.copytree(os.path.join(root, name), os.path.join(source, name))\n"
        "for name in ('pyproject.toml', 'README.md', 'LICENSE'):\n"
        "    shutil.copy(os.path.join(root, name), source)\n"
        "os.chdir(source)\n"
        "from setuptools import build_meta\n"
        "build_meta.build_wheel(folder)\n"
    )
    pytest.importorskip("setuptools", minversion="77")
    subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(folder)], check=True, capture_output=True
    )
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_wheel_contains_presets_c_sources_and_the_protocol(wheel):
    names = set(wheel.namelist())
    assert {"coupling/pages/report.html", "coupling/pages/watch.html"} <= names
    templates = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "coupling" / "templates").glob("*/*.*")
    }
    assert (
        {"coupling/templates/flow/my_task.py", "coupling/templates/c/my_task.yaml"}
        <= templates
        <= names
    )
    presets = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cases").rglob("*.yaml")}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "coupling" / "c").iterdir()
        if path.is_file()
    }
    assert presets
    assert sources
    assert presets | sources | {"coupling/wire/PROTOCOL.md", "flowsim/py.typed"} <= names


def test_wheel_requires_learner_libraries_only_with_the_extra(wheel):
    name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    lines = [
        line
        for line in wheel.read(name).decode().splitlines()
        if line.startswith("Requires-Dist: ")
    ]
    core = {line.split()[1].split(">")[0] for line in lines if "extra ==" not in line}
    extra = {line.split()[1].split(">")[0] for line in lines if 'extra == "rl"' in line}
    assert not core & RL
    assert extra == RL
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for builds_on_rl in ("video", "ray", "slurm", "mujoco"):
        assert "flowsim-rl[rl]" in extras[builds_on_rl]
