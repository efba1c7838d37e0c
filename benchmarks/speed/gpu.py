"""Run all checks and measurements that need a GPU, in under ten minutes.

    python benchmarks/speed/gpu.py -o benchmarks/results/gpu/NAME_OF_DEVICE

The parts are: tests, including the equality of both backends; compute-sanitizer; whole steps over grids and batches;
each kernel with its bytes; complete actions of the task; updates of the learner; a training and its evaluation; the
step of jax-cfd, if installed; and validation cases.
Each part is a process with its own time limit, so a part that fails, hangs or corrupts the device does not affect the
others. The results so far of a part that is cut off are kept.
A line is appended to ``results.jsonl`` as soon as a part has ended; a short table is printed last, failures first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
AGENTS = 24
PRESETS = ("quick", "default", "fine")
ACTION_SECONDS = 5.0
EFFORT = 0.1
"""Standard deviation of the random actions, as in ``flowsim bench tasks``."""
STEP_CASES = (
    (128, 64, 24), (256, 128, 1), (256, 128, 24), (512, 256, 1), (512, 256, 24), (512, 256, 256), (4096, 2048, 1),
)  # fmt: skip
TRAINING_STEPS = 30_000
TRAINING_SECONDS = 240.0
VALIDATION = ("taylor-green", "lamb-oseen", "cavity-100", "short-times", "added-mass", "leak")
Found = dict[str, Any]
Note = Callable[[Found], None]
"""Callback that receives the results of a part so far."""


def machine(output: Path, note: Note) -> Found:
    """Return the name of the device, versions, and the bandwidth of a copy of 1 GiB and of 25 MB."""
    import cupy
    import numba

    from coupling.origin import provenance
    from flowsim.backend.bench_cuda import copy_bandwidth

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    return {
        "device": properties["name"].decode(), "multiprocessors": properties["multiProcessorCount"],
        "memory_gib": total / 2**30, "free_gib": free / 2**30, "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(), "cupy": cupy.__version__, "numba": numba.__version__,
        "python": sys.version.split()[0], "cores": os.cpu_count(), "copy_bandwidth": copy_bandwidth(),
        "copy_bandwidth_25_mb": copy_bandwidth(25_000_000), **provenance(),
    }  # fmt: skip


def environment() -> dict[str, str]:
    """Return environment variables with which Python finds this repository, installed or not."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command in its own process group."""
    with log.open("wb") as file:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )  # fmt: skip


def ended(process: subprocess.Popen[bytes], log: Path, timeout: float) -> Found:
    """Wait for a command, and kill it and its descendants after a timeout; return its exit code and last output."""
    try:
        code: int | None = process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = None
    text = without_paths(log.read_text(errors="replace"))
    log.write_text(text)
    return {"exit": code, "tail": text[-4000:]}


def without_paths(text: str) -> str:
    """Return a text, which is stored in the repository, without the folders of this machine."""
    folders = {str(ROOT): ".", sys.prefix: "python", str(Path.home()): "~"}
    for folder in sorted(folders, key=len, reverse=True):  # longest first, they may be nested
        if folder != "/":
            text = text.replace(folder, folders[folder])
    return text


def tests(output: Path, note: Note) -> Found:
    """Run the tests that need a GPU, and compute-sanitizer on a few steps in parallel."""
    xdist = importlib.util.find_spec("xdist") is not None
    pytest = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider"]
    pressure = "tests/cuda/test_pressure.py"
    skipped = [f"--ignore={name}" for name in ("tests/cuda/test_compiles.py", pressure)]
    commands = {
        "cuda": [*pytest, "tests/cuda", *skipped, *(("-n", "10") if xdist else ())],
        "pressure": [*pytest, pressure, *(("-n", "5") if xdist else ())],
        "learner": [*pytest, "tests/rl_agent/runtime/test_device.py", "-m", "gpu"],
    }
    sanitizer = shutil.which("compute-sanitizer")
    few = [sys.executable, str(Path(__file__).resolve()), "--part", "few_steps", "-o", str(output)]
    for tool in ("memcheck", "racecheck") if sanitizer else ():
        commands[tool] = [str(sanitizer), "--tool", tool, "--report-api-errors", "no", *few]
    logs = {name: output / f"{name}.log" for name in commands}
    begun = {name: start(command, logs[name]) for name, command in commands.items()}
    found: Found = {}
    end = time.perf_counter() + LIMITS["tests"] - 10.0
    for name, process in begun.items():
        found[name] = ended(process, logs[name], max(end - time.perf_counter(), 0.1))
        note(found)
    return found


def few_steps(output: Path, note: Note) -> Found:
    """Run three steps of two small flows for compute-sanitizer, with a separate allocation for each array."""
    import cupy

    from flowsim import Disk, Grid, Sides, Simulation
    from flowsim.backend.bench_cuda import wake

    cupy.cuda.set_allocator(None)
    sides = Sides("far_field", "outflow", "far_field", "far_field")
    far = Simulation(
        Grid(72, 50, 0.1), sides, [Disk(center=(2.0, 2.5))], viscosity=0.01, batch=2, backend="cuda"
    )
    for sim in (wake(128, 64, 2), far):
        for _ in range(3):
            sim.step()
    return {}


def steps(output: Path, note: Note) -> Found:
    """Measure whole steps over grids and batches, and each kernel launch of a step."""
    from flowsim.backend.bench_cuda import bench_cuda, kernel_times, wake

    found: Found = {"rows": [], "kernels": {}}
    for case in STEP_CASES:
        found["rows"] += bench_cuda((case,), seconds=0.3)
        note(found)
    for nx, ny, batch in ((512, 256, 24), (256, 128, 1), (4096, 2048, 1)):
        found["kernels"][f"{batch} x {nx}x{ny}"] = kernel_times(wake(nx, ny, batch))
        note(found)
    found["rows"] += bench_cuda(((512, 256, 24),), dtype="float64", seconds=0.3)
    return found


def systems(output: Path, note: Note) -> Found:
    """Time all possible splittings of the linear systems along x; print the three fastest and the one in use."""
    from flowsim.backend.bench_cuda import systems_times

    found: Found = {}
    for nx, ny, batch in ((512, 256, 24), (256, 128, 1), (4096, 2048, 1)):
        rows, used = systems_times(nx, ny, batch)
        found[f"{batch} x {nx}x{ny}"] = rows
        note(found)
        for n, row in enumerate(rows):
            ours = (row["rows"], row["entries"]) == used
            if n < 3 or ours:
                print(f"{batch} x {nx}x{ny}: {row['us']:6.1f} us, pieces of {row['rows']} rows, blocks of "
                      f"{row['entries']} entries{' (in use)' if ours else ''}")  # fmt: skip
    return found


def actions(output: Path, note: Note) -> Found:
    """Measure actions per second of 24 and 96 agents in one batch, including episode starts and transfers.

    The actions are small and random. ``advance_ms`` is the time of one action of the whole batch in the solver, in
    ``most_steps`` steps.
    """
    found: Found = {}
    for preset, agents in [(preset, AGENTS) for preset in PRESETS] + [("fine", 4 * AGENTS)]:
        found[f"{preset}, {agents} agents"] = measure_actions(preset, agents)
        note(found)
    return found


def measure_actions(preset: str, agents: int) -> Found:
    """Return the measurements of one preset."""
    import numpy as np

    from cases.d_cylinder_wake.env import DCylinderWakeVectorEnv
    from flowsim.backend.bench_cuda import kernel_times

    env = DCylinderWakeVectorEnv(
        agents, autoreset_mode="SameStep", preset=preset, backend="cuda", start="impulsive"
    )
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    env.step(EFFORT * rng.standard_normal((agents, 3)))  # warm-up: compiles and captures the graph
    sim, grid = env.task.simulation, env.task.simulation.grid
    before, begin = sim.steps.copy(), time.perf_counter()
    sim.advance(1.0)
    advance_ms, most = 1e3 * (time.perf_counter() - begin), int((sim.steps - before).max())
    env.reset(seed=0)
    taken = done = over = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < ACTION_SECONDS:
        _, _, lost, _, info = env.step(EFFORT * rng.standard_normal((agents, 3)))
        taken += int(np.sum(info["solver_steps"]))
        done, over = done + agents, over + int(np.sum(lost))
    rate = done / (time.perf_counter() - begin)
    return {
        "grid": f"{grid.nx}x{grid.ny}", "agents": agents, "actions_per_second": rate,
        "hours_per_100000_actions": 1e5 / rate / 3600, "actions_per_start": done / max(over, 1),
        "solver_steps_per_action": taken / done, "cells_per_second": taken / done * rate * grid.nx * grid.ny,
        "advance_ms": advance_ms, "most_steps": most, "batch_action_ms": 1e3 * agents / rate,
        "kernels": kernel_times(sim) if agents == AGENTS else None,
    }  # fmt: skip


def training(output: Path, note: Note) -> Found:
    """Train the preset `fine`, with 24 agents in one batch on the device, and evaluate.

    The learner runs on the CPU, because an update on the device would wait for the kernels of the flow.
    """
    flowsim = [sys.executable, "-m", "coupling.commands.cli"]
    runs, log, verdict = output / "runs", output / "training.log", output / "evaluation.log"
    train = [
        *flowsim, "train", "d_cylinder_wake/fine", "env_options.backend=cuda",
        "workers.processes=1", "agent.threads=2", f"run.steps={TRAINING_STEPS}",
        f"run.folder={runs}", "run.name=fine",
    ]  # fmt: skip
    found: Found = {"command": train[1:], "steps": TRAINING_STEPS}
    begin = time.perf_counter()
    found["training"] = ended(start(train, log), log, TRAINING_SECONDS)
    found["training_seconds"] = time.perf_counter() - begin
    note(found)
    evaluate = [*flowsim, "evaluate", str(runs / "fine"), "--deterministic", "--episodes", "24"]
    found["evaluation"] = ended(start(evaluate, verdict), verdict, 90.0)
    shutil.rmtree(runs / "fine" / "experience", ignore_errors=True)  # only the policy is kept
    if runs.exists():
        shutil.make_archive(str(output / "run"), "gztar", runs)
    shutil.rmtree(runs, ignore_errors=True)
    return found


def learner(output: Path, note: Note) -> Found:
    """Measure gradient steps per second; record algorithms that fail."""
    from coupling.bench.learner import all_cases, bench_learner

    found: Found = {"rows": [], "failed": {}}
    for case in all_cases():
        try:
            found["rows"] += bench_learner(
                lambda text: print(text, file=sys.stderr), seconds=1.0, devices=("cuda",), cases=(case,)
            )  # fmt: skip
        except Exception as error:  # still measure the others
            found["failed"][" ".join(case[:2])] = f"{type(error).__name__}: {error}"
        note(found)
    return found


def jax_cfd(output: Path, note: Note) -> Found:
    """Measure the semi-implicit step of jax-cfd on this device (without bodies)."""
    from flowsim.backend.bench import _peer_step

    found: Found = {}
    for nx, ny in ((256, 128), (512, 256), (2048, 1024)):
        step = _peer_step(nx, ny)
        if step is None:
            return {"skipped": "jax-cfd is not installed"}
        step(20)
        begin = time.perf_counter()
        step(100)
        found[f"{nx}x{ny}"] = 100 * nx * ny / (time.perf_counter() - begin)
    return {"cells_per_second": found}


def validation(output: Path, note: Note) -> Found:
    """Run validation cases on this device in their quick forms."""
    from coupling.simulation.validation import run_cases

    return run_cases(list(VALIDATION), output / "validation", quick=True, threads=1, backend="cuda")


PARTS: dict[str, Callable[[Path, Note], Found]] = {
    part.__name__: part
    for part in (machine, steps, systems, actions, tests, training, learner, jax_cfd, validation)
}
GROUPS = (
    ("machine",), ("steps",), ("systems",), ("actions",), ("tests", "training"), ("learner",), ("jax_cfd",),
    ("validation",),
)  # fmt: skip
"""Groups run one after the other, the parts of a group in parallel. Tests and training, which measure no times, run in
parallel because they wait for compilers and the initial wake."""
LIMITS = {
    "machine": 40.0, "tests": 230.0, "steps": 90.0, "systems": 60.0, "actions": 110.0, "training": 345.0,
    "learner": 60.0, "jax_cfd": 40.0, "validation": 90.0,
}  # fmt: skip
"""Time limit of each part in seconds."""


def run_part(name: str, output: Path) -> None:
    """Run one part in this process; write its results or its error to ``part_NAME.json``."""
    path = output / f"part_{name}.json"

    def note(found: Found) -> None:
        path.write_text(json.dumps(found, default=str))

    try:
        note((PARTS | {"few_steps": few_steps})[name](output, note))
    except Exception as error:
        found = json.loads(path.read_text()) if path.exists() else {}
        trace = traceback.format_exc()[-3000:]
        note(found | {"error": f"{type(error).__name__}: {error}", "traceback": trace})
        sys.exit(f"{name}: {type(error).__name__}: {error}")


def call_part(name: str, output: Path, limit: float) -> Found:
    """Run one part in its own process and return its results."""
    path, log = output / f"part_{name}.json", output / f"part_{name}.log"
    path.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).resolve()), "--part", name, "-o", str(output)]
    begin = time.perf_counter()
    outcome = ended(start(command, log), log, limit)
    found: Found = json.loads(path.read_text()) if path.exists() else {}
    found |= {"seconds": time.perf_counter() - begin, "exit": outcome["exit"]}
    if outcome["exit"] is None:
        found["error"] = f"cut off after {limit:.0f} s"
    elif outcome["exit"] != 0 and "error" not in found:
        found |= {"error": f"ended with {outcome['exit']}", "tail": outcome["tail"]}
    path.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    return found


def part_in_time(name: str, output: Path, left: float) -> Found:
    """Run a part if the ``left`` seconds are enough."""
    if left < 5.0:
        return {"skipped": "no time was left"}
    return call_part(name, output, min(LIMITS[name], left))


def failures(found: dict[str, Found]) -> list[str]:
    """Return a line for everything that failed."""
    lines = [f"{name} FAILED: {part['error']}" for name, part in found.items() if "error" in part]
    for name, part in found.get("tests", {}).items():
        if isinstance(part, dict) and part.get("exit") != 0:
            lines.append(f"tests, {name}: exit {part.get('exit')}: {last_line(part)}")
    lines += [
        f"learner, {name} FAILED: {error}"
        for name, error in found.get("learner", {}).get("failed", {}).items()
    ]
    return lines


def last_line(part: Found) -> str:
    """Return the last line that a command printed."""
    return next(reversed(part.get("tail", "").strip().splitlines()), "")


def summary(found: dict[str, Found]) -> None:
    """Print the short table, failures first."""
    for line in failures(found):
        print(line)
    print(f"\n{found.get('machine', {}).get('device', 'no device')}")
    for name, part in found.get("tests", {}).items():
        if isinstance(part, dict):
            print(f"{name}: {last_line(part)}")
    for row in found.get("steps", {}).get("rows", []):
        grid = f"{row['batch']} x {row['nx']}x{row['ny']} {row['dtype']}"
        print(f"{grid:28s}{row['us_per_step']:10.1f} us/step {row['cells_per_second'] / 1e9:8.2f} G cells/s "
              f"{100 * row['of_bandwidth']:5.0f} % of the floor")  # fmt: skip
    for name, rows in found.get("steps", {}).get("kernels", {}).items():
        print(name, ", ".join(f"{row['kernel']} {row['us']:.1f}" for row in rows))
    for name, row in found.get("actions", {}).items():
        if isinstance(row, dict):
            print(f"{name}: {row['actions_per_second']:.1f} actions/s, a batch {row['batch_action_ms']:.1f} ms, "
                  f"{row['most_steps']} steps of all {row['advance_ms']:.1f} ms")  # fmt: skip
            for kernel in row.get("kernels") or []:
                print(f"{kernel['kernel']} {kernel['us']:.1f}", end=", ")
            print()
    for row in found.get("learner", {}).get("rows", []):
        print(
            f"{row['algorithm']} {row['network']} on {row['device']}: {row['updates_per_second']:.0f} updates/s"
        )
    if "training" in found:
        part = found["training"]
        print(
            f"training, {part.get('training_seconds', 0):.0f} s: {last_line(part.get('training', {}))}"
        )
        print(part.get("evaluation", {}).get("tail", "")[-600:])


def main() -> None:
    """Run all parts for which there is enough time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu"))
    parser.add_argument("--minutes", type=float, default=9.5, help="when the last part is cut off")
    parser.add_argument(
        "--only", nargs="*", help=f"names of the parts; all unless given: {', '.join(PARTS)}"
    )
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    if options.part:
        run_part(options.part, output)
        return
    unknown = [name for name in options.only or [] if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}: the parts are {', '.join(PARTS)}")
    begin = time.perf_counter()
    found: dict[str, Found] = {}
    for group in GROUPS:
        chosen = [name for name in group if name in ("machine", *(options.only or PARTS))]
        if not chosen:
            continue
        spent = time.perf_counter() - begin
        left = 60.0 * options.minutes - spent
        print(f"[{spent:5.0f} s] {' and '.join(chosen)}", flush=True)
        with ThreadPoolExecutor() as pool:
            parts = {pool.submit(part_in_time, name, output, left): name for name in chosen}
            for future in as_completed(parts):
                name = parts[future]
                found[name] = future.result()
                with (output / "results.jsonl").open("a") as file:
                    file.write(without_paths(json.dumps({"part": name, **found[name]})) + "\n")
        if "machine" in chosen and "error" in found["machine"]:
            sys.exit(f"no usable GPU: {found['machine']['error']}")
    summary(found)
    sys.exit(bool(failures(found)))


if __name__ == "__main__":
    main()
