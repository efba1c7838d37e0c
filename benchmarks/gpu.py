"""Everything there is to check and to measure on a GPU, in one call of under nine minutes.

    python benchmarks/gpu.py -o benchmarks/results/gpu/NAME_OF_DEVICE

Tests and equality of both backends, the solver over grids and batches, every kernel with its bytes, jax-cfd's step
where it is installed, the updates of the learner, actions of the task from end to end, validation cases, and a short
training.
Every part writes what it found as soon as it has it; one that fails is named with its error, and the others go on.
A short table comes last.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
AGENTS = 24
PRESETS = ("quick", "default", "fine", "paper")
ACTION_SECONDS = 6.0
EFFORT = 0.1
"""Standard deviation of the random actions, as in ``flowsim bench tasks``."""
TEST_WORKERS = 12
TEST_TIMEOUT = 240.0
STEPS = 6000
"""Actions of the short training."""
VALIDATION = ("taylor-green", "lamb-oseen", "cavity-100", "short-times", "added-mass", "leak")


def machine() -> dict[str, Any]:
    """Name of the device and versions."""
    import cupy
    import numba

    from coupling.origin import provenance

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    return {
        "device": properties["name"].decode(), "multiprocessors": properties["multiProcessorCount"],
        "memory_gib": total / 2**30, "free_gib": free / 2**30, "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(), "cupy": cupy.__version__, "numba": numba.__version__,
        "python": sys.version.split()[0], "cores": os.cpu_count(), **provenance(),
    }  # fmt: skip


def elsewhere(command: list[str], log: Path, timeout: float) -> dict[str, Any]:
    """Run Python in a process of its own, which finds this repository whether it is installed or not."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    begin = time.perf_counter()
    with log.open("w") as file:
        try:
            ended = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, stdout=file,
                                   stderr=subprocess.STDOUT, timeout=timeout).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            ended = None
    seconds = time.perf_counter() - begin
    return {"exit": ended, "seconds": seconds, "tail": log.read_text()[-4000:]}


def tests(output: Path) -> dict[str, Any]:
    """The tests that need a GPU: kernels, equality with the CPU, graphs of the learner."""
    found: dict[str, Any] = {}
    workers = ["-n", str(TEST_WORKERS)] if importlib.util.find_spec("xdist") else []
    for place, only in (("tests/cuda", []), ("tests/rl_agent/test_device.py", ["-m", "gpu"])):
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", place, *only, *workers]
        log = output / f"{Path(place).stem}.log"
        found[place] = elsewhere(command, log, TEST_TIMEOUT)
    return found


def solver() -> dict[str, Any]:
    """Steps per second over grids and batches, in both precisions at the size of the benchmark."""
    from flowsim.backend.bench_cuda import bench_cuda

    return {"rows": bench_cuda() + bench_cuda(((512, 256, 24),), dtype="float64")}


def kernels() -> dict[str, Any]:
    """The share of each kernel in a step: of the solver's own wake, and of the task's."""
    from flowsim.backend.bench_cuda import kernel_times, wake

    found = {
        f"{batch} x {nx}x{ny}": kernel_times(wake(nx, ny, batch))
        for nx, ny, batch in ((512, 256, 24), (256, 128, 1), (4096, 2048, 1))
    }
    for preset in ("default", "fine"):
        env = task(preset)
        env.reset(seed=0)
        found[preset] = kernel_times(env.task.simulation)
    return found


def jax_cfd() -> dict[str, Any]:
    """The semi-implicit step of jax-cfd on this device (no bodies)."""
    from flowsim.backend.bench import _peer_step

    found = {}
    for nx, ny in ((256, 128), (512, 256), (2048, 1024)):
        step = _peer_step(nx, ny)
        if step is None:
            return {"skipped": "jax-cfd is not installed"}
        step(20)
        begin = time.perf_counter()
        step(100)
        found[f"{nx}x{ny}"] = 100 * nx * ny / (time.perf_counter() - begin)
    return {"cells_per_second": found}


def learner() -> dict[str, Any]:
    """Gradient steps per second; an algorithm that fails is named."""
    from coupling.commands.bench_learner import CASES, bench_learner

    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for case in CASES:
        try:
            rows += bench_learner(
                lambda text: print(text, file=sys.stderr), seconds=1.0, devices=("cuda",), cases=(case,)
            )  # fmt: skip
        except Exception as error:  # the others are worth having
            failed[" ".join(case[:2])] = f"{type(error).__name__}: {error}"
    return {"rows": rows, "failed": failed}


def task(preset: str) -> Any:
    """The wake's task, 24 agents in one batch."""
    from cases.d_cylinder_wake.env import DCylinderWakeVectorEnv

    return DCylinderWakeVectorEnv(
        AGENTS, autoreset_mode="SameStep", preset=preset, backend="cuda", start="impulsive"
    )


def actions() -> dict[str, Any]:
    """Actions per second of 24 agents in one batch, small random actions, starts and transfers included.

    ``start_ms`` is what one of the batch takes to start again, ``advance_ms`` an action of all of them in the solver,
    which takes ``most_steps`` of it.
    """
    import numpy as np

    found = {}
    for preset in PRESETS:
        env = task(preset)
        rng = np.random.default_rng(0)
        env.reset(seed=0)
        env.step(EFFORT * rng.standard_normal((AGENTS, 3)))  # compiles and captures
        starts = env.task.simulation
        begin = time.perf_counter()
        for agent in range(AGENTS):
            env.task.start(agent, rng)
        start_ms = 1e3 * (time.perf_counter() - begin) / AGENTS
        before, begin = starts.steps.copy(), time.perf_counter()
        starts.advance(1.0)
        advance_ms, most = 1e3 * (time.perf_counter() - begin), int((starts.steps - before).max())
        env.reset(seed=0)
        steps = done = lost = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < ACTION_SECONDS:
            _, _, ended, _, info = env.step(EFFORT * rng.standard_normal((AGENTS, 3)))
            steps += int(np.sum(info["solver_steps"]))
            done, lost = done + AGENTS, lost + int(np.sum(ended))
        rate = done / (time.perf_counter() - begin)
        grid = starts.grid
        found[preset] = {
            "grid": f"{grid.nx}x{grid.ny}", "actions_per_second": rate, "hours_per_100000_actions": 1e5 / rate / 3600,
            "actions_per_start": done / max(lost, 1), "solver_steps_per_action": steps / done,
            "cells_per_second": steps / done * rate * grid.nx * grid.ny,
            "start_ms": start_ms, "advance_ms": advance_ms, "most_steps": most,
        }  # fmt: skip
    return found


def validation(output: Path) -> dict[str, Any]:
    """Cases of the validation on this device, quick forms."""
    from coupling.commands.validate import run_cases

    return run_cases(list(VALIDATION), output / "validation", quick=True, threads=1, backend="cuda")


def training(output: Path) -> dict[str, Any]:
    """A short run of the task through the service: 24 agents in one worker, updates on the device."""
    command = ["-m", "coupling.commands.cli", "train", "d_cylinder_wake/default",
               "env_options.backend=cuda", "env_options.start=impulsive", "workers.processes=1", "agent.device=cuda",
               "agent.start=1024", f"run.steps={STEPS}", f"run.folder={output / 'runs'}",
               "run.name=training"]  # fmt: skip
    ended = elsewhere(command, output / "training.log", 120.0)
    return ended | {"actions_per_second": STEPS / ended["seconds"]}


def summary(found: dict[str, Any]) -> None:
    """Print the short table."""
    print(f"\n{found['machine'].get('device', 'no device')}")
    for folder, part in found.get("tests", {}).items():
        if isinstance(part, dict):
            print(f"{folder}: {part['tail'].strip().splitlines()[-1]}")
    for row in found.get("solver", {}).get("rows", []):
        grid = f"{row['batch']} x {row['nx']}x{row['ny']} {row['dtype']}"
        print(f"{grid:28s}{row['us_per_step']:10.1f} us/step {row['cells_per_second'] / 1e9:8.2f} G cells/s "
              f"{100 * row['of_bandwidth']:5.0f} % of the copy")  # fmt: skip
    for name, rows in found.get("kernels", {}).items():
        if isinstance(rows, list):
            print(name, ", ".join(f"{row['kernel']} {row['us']:.1f} us" for row in rows))
    for row in found.get("learner", {}).get("rows", []):
        print(
            f"{row['algorithm']} {row['network']} on {row['device']}: {row['updates_per_second']:.0f} updates/s"
        )
    for name, error in found.get("learner", {}).get("failed", {}).items():
        print(f"{name} FAILED: {error}")
    for preset, row in found.get("actions", {}).items():
        if isinstance(row, dict):
            print(f"{preset}: {row['actions_per_second']:.1f} actions/s, {row['hours_per_100000_actions']:.2f} h per "
                  f"100,000; a start {row['start_ms']:.1f} ms, {row['most_steps']} steps of all "
                  f"{row['advance_ms']:.1f} ms")  # fmt: skip
    for name, part in found.items():
        if "error" in part:
            print(f"{name} FAILED: {part['error']}")


def main() -> None:
    """Run all parts for which there is time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu"))
    parser.add_argument("--minutes", type=float, default=8.5, help="no part begins later than this")
    parser.add_argument("--only", nargs="*", help="names of the parts; all unless given")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # jax takes most of the memory otherwise
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "machine": machine, "tests": lambda: tests(options.output), "solver": solver, "kernels": kernels,
        "actions": actions, "learner": learner, "training": lambda: training(options.output), "jax_cfd": jax_cfd,
        "validation": lambda: validation(options.output),
    }  # fmt: skip
    begin = time.perf_counter()
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if options.only and name not in ("machine", *options.only):
            continue
        minutes = (time.perf_counter() - begin) / 60
        if minutes > options.minutes:
            found[name] = {"skipped": f"{minutes:.1f} minutes were gone"}
            continue
        print(f"[{minutes:4.1f} min] {name}", flush=True)
        try:
            found[name] = part()
        except Exception as error:  # whatever it is, the other parts are worth having
            found[name] = {
                "error": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc()[-3000:],
            }
        (options.output / "gpu.json").write_text(json.dumps(found, indent=1, default=str))
    summary(found)
    if "error" in found["machine"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
