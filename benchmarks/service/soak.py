"""Run 24 workers for half an hour and check that memory, descriptors and threads do not grow.

    python benchmarks/service/soak.py
    python benchmarks/service/soak.py --seconds 60 --workers 4

Every process of the run is sampled with psutil. A straight line is fitted to each curve after the first tenth of the
time, during which caches and buffers fill; the line must rise by less than the limits below. Writes soak.json with fits
and curves into benchmarks/results/coupling/, and docs/studies/images/soak.png.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import psutil
import yaml

from coupling.origin import machine, provenance

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "coupling"
RISE = {"memory": 5e6, "descriptors": 1.0, "threads": 1.0}
"""Largest allowed rise of the fitted line of a process over the fitted time: bytes, descriptors, threads."""


def preset(workers: int, step_seconds: float) -> dict[str, Any]:
    """Return the settings of a run whose replay memory is full before the fit begins, so that nothing should grow."""
    return {
        "env": "oracle:test/Oracle-v0",
        "env_options": {"step_seconds": step_seconds},
        "agent": {
            "learning_starts": 2000,
            "buffer_size": 2**14,
            "batch_size": 32,
            "hidden": [32, 32],
            "env_steps_per_gradient_step": 4.0,
        },
        "workers": {"processes": workers, "agents": workers},
        "run": {"steps": 10**9, "name": "soak", "checkpoint_every": 30.0},
    }


def sample(process: psutil.Process) -> tuple[int, int, int]:
    """Return the unshared memory (bytes), descriptors and threads of a process."""
    memory = process.memory_full_info()
    return memory.uss, process.num_fds(), process.num_threads()


def soak(
    folder: Path, workers: int, seconds: float, every: float, step_seconds: float
) -> dict[str, Any]:
    """Run and sample; return the curves of each process and the final status."""
    (folder / "preset.yaml").write_text(yaml.safe_dump(preset(workers, step_seconds)))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)]),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / "output").open("wb") as output:
        learner = subprocess.Popen(
            [sys.executable, "-m", "coupling.commands.cli", "train", "preset.yaml"],
            cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for_workers(learner, folder, workers)
        began = time.monotonic()
        names = {learner.pid: "learner"}
        curves: dict[str, list[tuple[float, int, int, int]]] = defaultdict(list)
        while (now := time.monotonic() - began) < seconds:
            parent = psutil.Process(learner.pid)
            for process in [parent, *parent.children()]:
                name = names.setdefault(process.pid, f"worker {len(names) - 1}")
                curves[name].append((round(now, 2), *sample(process)))
            time.sleep(max(0.0, every - (time.monotonic() - began - now)))
        learner.send_signal(signal.SIGINT)
        code = learner.wait(120)
    finally:
        if learner.poll() is None:
            learner.kill()
    status = json.loads((folder / "runs" / "soak" / "status.json").read_text())
    return {"curves": curves, "status": status, "exit_code": code}


def wait_for_workers(learner: subprocess.Popen[bytes], folder: Path, workers: int) -> None:
    """Wait until all workers are connected and learning has begun."""
    until = time.monotonic() + 300
    status = folder / "runs" / "soak" / "status.json"
    while time.monotonic() < until:
        if learner.poll() is not None:
            break
        if status.exists():
            now = json.loads(status.read_text())
            if len(now["workers"]) == workers and now["gradient_steps"] > 0:
                return
        time.sleep(0.5)
    raise RuntimeError(f"the workers did not all begin:\n{(folder / 'output').read_text()[-3000:]}")


def rises(curve: list[tuple[float, int, int, int]]) -> dict[str, float]:
    """Fit a line to each curve after its first tenth; return its rise from there to the end."""
    time_, *columns = np.array(curve, float).T
    late = time_ >= 0.1 * time_[-1]
    span = time_[late][-1] - time_[late][0]
    slopes = [np.polyfit(time_[late], column[late], 1)[0] for column in columns]
    return {name: float(slope * span) for name, slope in zip(RISE, slopes, strict=True)}


def plot(curves: dict[str, list[tuple[float, int, int, int]]], file: Path) -> None:
    """Plot memory and descriptors of the learner and all workers over time."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), constrained_layout=True)
    for axis, column, scale, label in (
        (axes[0], 1, 1e6, "unshared memory / MB"),
        (axes[1], 2, 1, "descriptors"),
    ):
        for name, curve in curves.items():
            points = np.array(curve, float)
            is_learner = name == "learner"
            axis.plot(
                points[:, 0] / 60,
                points[:, column] / scale,
                color="C3" if is_learner else "C0",
                lw=1.5 if is_learner else 0.5,
                label="learner" if is_learner else "workers" if name == "worker 0" else None,
            )
        axis.set(xlabel="minutes", ylabel=label, ylim=(0, None))
    axes[0].legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=200)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--workers", type=int, default=24)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument(
        "--step-seconds", type=float, default=0.05, help="how long an environment step sleeps"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=ROOT / "benchmarks" / "results" / "coupling"
    )
    parser.add_argument(
        "--image", type=Path, default=ROOT / "docs" / "studies" / "images" / "soak.png"
    )
    parser.add_argument("--draw", action="store_true", help="draw what the last soak kept, no more")
    return parser.parse_args()


def main() -> int:
    """Run the soak, fit and plot; return 1 if a curve rises beyond its limit."""
    options = arguments()
    kept = options.output / "soak.json"
    if options.draw:
        plot(json.loads(kept.read_text())["curves"], options.image)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="flowsim-soak-"))
    made_by = provenance()
    try:
        result = soak(folder, options.workers, options.seconds, options.every, options.step_seconds)
    finally:
        shutil.rmtree(folder)
    status = result["status"]
    rise = {name: rises(curve) for name, curve in result["curves"].items()}
    workers = [rise[name] for name in rise if name != "learner"]
    worst = {key: max(each[key] for each in workers) for key in RISE}
    counted = (
        "restarts",
        "repeats",
        "pauses",
        "stale",
        "recovered",
        "violations",
        "unheard",
        "failed",
    )
    flat = all(rise[name][key] <= limit for name in rise for key, limit in RISE.items())
    passed = flat and len(rise) == options.workers + 1 and result["exit_code"] == 130
    report = {
        **made_by,
        "machine": machine(),
        "workers": options.workers,
        "seconds": options.seconds,
        "environment_steps": status["environment_steps"],
        "gradient_steps": status["gradient_steps"],
        **{key: status[key] for key in counted},
        "allowed_rise": RISE,
        "rise_of_learner": rise["learner"],
        "largest_rise_of_a_worker": worst,
        "processes_seen": len(rise),
        "passed": passed,
        "columns": ["seconds", "unshared memory in bytes", "descriptors", "threads"],
        "curves": result["curves"],
    }
    options.output.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(report))
    plot(result["curves"], options.image)
    print(json.dumps({key: value for key, value in report.items() if key != "curves"}, indent=1))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
