"""Build the wheel, check it, install it in a clean environment outside the repository, and use it as a new user would.

``make test-wheel`` runs this; it takes minutes, and temporarily 1.5 GB in the folder for temporary files.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASE = """\
nx: 64
ny: 32
h: 0.125
reynolds: 100
bodies: [{shape: disk, center: [2.0, 2.0]}]
"""
SOLVER = """
import importlib.util
from flowsim import Disk, Grid, Sides, Simulation
for name in ("torch", "gymnasium", "zmq", "tensorboard", "msgspec"):
    assert importlib.util.find_spec(name) is None, name
sim = Simulation(Grid(64, 32, 1 / 8), Sides(bottom="slip", top="slip"), [Disk(center=(2.0, 2.0))], viscosity=1 / 100)
sim.advance(1.0)
assert sim.body_state.force[0, 0, 0] > 0.0
"""
SMALL = ("run.steps=400", "agent.learning_starts=100", "workers.agents=4", "workers.processes=1")
SWIMMER = (
    "elliptical_swimmer/quick",
    *SMALL,
    "run.name=swim",
    "env_options={cells_per_diameter: 8}",
)


def build(folder: Path) -> Path:
    """Build source archive and wheel from a copy of the files tracked by git, check both, and return the wheel."""
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    archives = folder / "dist"
    say_only_failures([sys.executable, "-m", "build", "--outdir", str(archives), str(source)])
    say_only_failures(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives.iterdir())]
    )
    return next(archives.glob("*.whl"))


def say_only_failures(command: Sequence[str]) -> None:
    """Run a verbose command and print its output only if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


class Newcomer:
    """A user with a clean virtual environment outside the repository."""

    def __init__(self, folder: Path) -> None:
        self._bin, self._here = folder / "venv" / "bin", folder / "here"
        self._here.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        without = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        self._environment = without | {"XDG_CACHE_HOME": str(folder / "cache")}

    def run(self, *words: str, code: int = 0, says: str = "") -> None:
        """Run a command and check its exit code and its output."""
        begin = time.monotonic()
        command = [str(self._bin / words[0]), *words[1:]]
        done = subprocess.run(
            command,
            cwd=self._here,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=3600,
            check=False,
        )
        said = done.stdout + done.stderr
        print(
            f"{time.monotonic() - begin:6.0f} s  {' '.join(words)[:100]!r} ended with {done.returncode}",
            flush=True,
        )
        if done.returncode != code or says not in said or "Traceback" in said:
            sys.exit(f"expected exit code {code} and {says!r}, but it said:\n{said}")

    def install(self, what: str) -> None:
        """Install a requirement with the tested versions."""
        self.run(
            "python", "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), what
        )

    def write(self, name: str, text: str) -> None:
        """Write a file in the folder in which commands run."""
        (self._here / name).write_text(text, encoding="utf-8")

    def has(self, *names: str) -> None:
        """Check that files exist and are not empty."""
        for name in names:
            if not (self._here / name).exists() or not (self._here / name).stat().st_size:
                sys.exit(f"{name} is not there")


def try_out(folder: Path) -> None:
    """Build, install the solver alone and use it, then install the extra ``rl`` and train."""
    wheel = build(folder)
    newcomer = Newcomer(folder)
    newcomer.install(str(wheel))
    newcomer.run("python", "-c", SOLVER)
    newcomer.write("case.yaml", CASE)
    newcomer.run("flowsim", "simulate", "case.yaml", "--time", "1", "-o", "flow", "--frames", "5")
    newcomer.has("flow/forces.csv", "flow/restart.h5", "flow/fields.vtkhdf")
    newcomer.run("flowsim", "validate", "--case", "taylor-green", "--quick")
    newcomer.run(
        "flowsim", "train", "classic/cartpole", code=2, says="pip install 'flowsim-rl[rl]'"
    )
    newcomer.install(f"{wheel}[rl]")
    newcomer.run(
        "flowsim", "train", "classic/cartpole", "run.steps=1000", "run.name=pole", says="finished"
    )
    newcomer.run(
        "flowsim", "train", "mujoco/hopper", code=2, says="pip install 'flowsim-rl[mujoco]'"
    )
    newcomer.run("flowsim", "train", *SWIMMER, says="finished")
    newcomer.run("flowsim", "render", "runs/swim", "-o", "swim.mp4", "--actions", "5")
    newcomer.has("runs/pole/checkpoint.npz", "swim.mp4", "swim.gif")
    newcomer.run("flowsim", "agents", says="wake")
    newcomer.run("flowsim", "render", "wake", "-o", "wake.mp4", "--actions", "5")
    newcomer.has("wake.mp4")
    coarse = "env_options.cells_per_diameter=8"
    newcomer.run("flowsim", "evaluate", "wake", coarse, "--episodes", "1", says="pd")
    newcomer.run("flowsim", "init", "pond")
    newcomer.has("pond/pond.py", "pond/pond.yaml")


def main(words: Sequence[str] | None = None) -> None:
    """Try the wheel in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, help="where; one of the system's for temporary files unless given"
    )
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="flowsim-wheel-", dir=arguments.folder) as folder:
        try_out(Path(folder))
    print("the wheel works")


if __name__ == "__main__":
    main()
