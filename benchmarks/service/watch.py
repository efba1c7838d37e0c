"""Measure the cost of `flowsim watch` for the watched run: steps per second with and without it, in one run.

    python benchmarks/service/watch.py                 # a minute, into benchmarks/results/watch.json

In a run of the wake with 24 agents, two phases alternate: the page is open (the state is requested once and the flow
five times per second), or `flowsim watch` is running without requests. Steps per second depend on the other load of the
machine, to which the page itself contributes; the processor time of learner and workers per step depends on it less,
and the time that a worker spends on a picture hardly at all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil

from coupling.files import write_atomically
from coupling.origin import machine, provenance
from coupling.run.folder import RunFolder
from coupling.worker.window import FRESH, Window

PRESET, RESULT = "d_cylinder_wake/quick", Path("benchmarks/results/watch.json")
PICTURES = 200
"""Pictures whose processor time is averaged."""


def look(address: str, over: threading.Event, seen: list[int]) -> None:
    """Send the requests of the page, and count the pictures."""
    rounds = 0
    while not over.wait(0.2):
        with contextlib.suppress(urllib.error.HTTPError):  # there is no picture yet
            urllib.request.urlopen(address + "flow", timeout=60).read()
            seen[0] += 1
        if rounds % 5 == 0:
            urllib.request.urlopen(address + "state", timeout=60).read()
        rounds += 1


def rates(folder: RunFolder, run: psutil.Process, seconds: float) -> dict[str, float]:
    """Return steps per second, and processor milliseconds of learner and workers per step, over some seconds."""

    def status() -> tuple[int, float, float]:
        now = json.loads(folder.status.read_text())
        used = sum(sum(process.cpu_times()[:2]) for process in (run, *run.children(recursive=True)))
        return int(now["environment_steps"]), float(now["written"]), used

    time.sleep(1.1)  # until a status is written that lies within this phase
    before = status()
    while (after := status())[1] - before[1] < seconds:
        time.sleep(0.05)
    steps, span, used = (end - begin for begin, end in zip(before, after, strict=True))
    return {
        "steps_per_second": round(steps / span, 1),
        "processor_ms_per_step": round(1000 * used / steps, 2),
    }


def window_milliseconds(folder: Path) -> float:
    """Return the processor milliseconds that a worker spends on a picture, including writing its file."""
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    flows = gymnasium.make_vec(
        "cases:flowsim/DCylinderWake-v0", num_envs=12, vectorization_mode=mode
    )
    flows.reset(seed=0)
    flows.step(np.zeros((12, 3)))
    window = Window(folder, every=0.0)
    (folder / "watch").touch()
    window.show(flows)
    began = time.process_time()
    for _ in range(PICTURES):
        window.show(flows)
    return 1000 * (time.process_time() - began) / PICTURES


def measure(
    folder: RunFolder, run: psutil.Process, turns: int, seconds: float
) -> list[dict[str, Any]]:
    """Alternate both phases and return the rates of each turn."""
    rows = []
    command = [sys.executable, "-m", "coupling.commands.cli", "watch", str(folder.path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as page:
        assert page.stdout is not None
        address = page.stdout.readline().strip()
        try:
            for _ in range(turns + 1):
                over, seen = threading.Event(), [0]
                looking = threading.Thread(target=look, args=(address, over, seen))
                looking.start()
                row: dict[str, Any] = {"watched": rates(folder, run, seconds)}
                over.set()
                looking.join()
                time.sleep(FRESH)  # until the worker considers the page closed
                rows.append(row | {"not": rates(folder, run, seconds), "pictures": seen[0]})
                print(rows[-1], flush=True)
        finally:
            page.send_signal(signal.SIGINT)
    return rows[1:]  # in the first turn, plotting libraries are loaded


def main() -> None:
    """Measure, print and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments, made_by = parser.parse_args(), provenance()
    with tempfile.TemporaryDirectory() as place:
        milliseconds = window_milliseconds(Path(place))
        command = [
            sys.executable,
            "-m",
            "coupling.commands.cli",
            "train",
            PRESET,
            "run.name=run",
            "agent.learning_starts=256",
        ]
        process = subprocess.Popen(
            command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            folder = RunFolder(Path(place) / "runs" / "run")
            while (
                not folder.status.exists()
                or not json.loads(folder.status.read_text())["gradient_steps"]
            ):
                if process.poll() is not None:
                    raise SystemExit(f"flowsim train ended with {process.returncode}")
                time.sleep(0.1)
            rows = measure(folder, psutil.Process(process.pid), arguments.turns, arguments.seconds)
        finally:
            process.terminate()
            process.wait()
    summary: dict[str, Any] = {
        "worker_ms_per_picture": round(milliseconds, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    for number in ("steps_per_second", "processor_ms_per_step"):
        means = {
            name: float(np.mean([row[name][number] for row in rows])) for name in ("not", "watched")
        }
        summary[number] = {name: round(value, 2) for name, value in means.items()}
        summary[number]["ratio"] = round(means["watched"] / means["not"], 3)
        summary[number]["ratios"] = sorted(
            round(row["watched"][number] / row["not"][number], 3) for row in rows
        )
    print(summary)
    result = {
        "preset": PRESET,
        "cores": len(os.sched_getaffinity(0)),
        "machine": machine(),
        **made_by,
        "rows": rows,
    }
    write_atomically(RESULT, json.dumps(result | summary, indent=1).encode())


if __name__ == "__main__":
    main()
