"""Compare learners and flows of another commit with those of this one in short alternating turns.

    python benchmarks/speed/against.py /tmp/before --only solver learner  # the script that uses this module

Each checkout has a process with a warm learner or flow, and both take turns of a sixth of a second, so that any other
load of the machine affects both. A process is stopped between its turns, since threads waiting for the next step would
occupy a core. Updates of a learner need one core, and their processor time is measured; steps of a flow need all its
threads, and their wall time is measured. Two processes of the same commit differ by some 3 per cent, so both are
started several times.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTS, TURNS, SECONDS, WARM = 4, 12, 0.15, 20
"""Number of starts of both processes, turns after each start, seconds per turn, and warm-up steps."""
LEARNERS = (
    ("vracer", "mlp", 17, 6, "uniform"),
    ("vracer", "lstm", 14, 3, "uniform"),
    ("ddpg", "mlp", 17, 6, "uniform"),
    ("naf", "mlp", 17, 6, "uniform"),
    ("td3", "mlp", 17, 6, "uniform"),
    ("sac", "mlp", 17, 6, "uniform"),
    ("acer", "mlp", 17, 6, "uniform"),
    ("sac", "mlp", 17, 6, "proportional"),
    ("sac", "mlp", 17, 6, "rank"),
    ("sac", "mlp", 17, 6, "ners"),
    ("td3", "mlp", 17, 6, "ero"),
)
"""Algorithm, network, observation size, action size, sampler."""
FLOWS = (
    (128, 64, 1, 2),
    (128, 64, 24, 2),
    (256, 128, 1, 2),
    (512, 256, 1, 2),
    (1024, 512, 1, 2),
    (640, 320, 1, 2),
)
"""Cells along x and y, batch, threads: the rows of ``flowsim bench solver``, but with a school without swimmers."""
Case = tuple[str | int, ...]
Steps = Callable[[int], Any]


def learner(algorithm: str, network: str, observation: str, action: str, sampler: str) -> Steps:
    """Return a function that does a number of updates of a warm learner."""
    try:
        from coupling.bench.learner import FILLED, warm_learner
    except ModuleNotFoundError:  # older checkouts: before the packages had folders
        from rl_agent.bench import FILLED, warm_learner  # type: ignore[import-not-found,no-redef]
    from rl_agent.config import AgentConfig

    settings: dict[str, Any] = {"algorithm": algorithm, "network": network, "sampler": sampler}
    if sampler != "uniform":
        settings["replay"] = "none"
    config = AgentConfig.model_validate(settings | {"threads": 1} | FILLED)
    warm = warm_learner(config, int(observation), int(action))

    def run(times: int) -> None:
        for _ in range(times):
            warm.update()

    return run


def flow(nx: str, ny: str, batch: str, threads: str) -> Steps:
    """Return a function that does a number of steps of a flow of the benchmark."""
    try:
        from flowsim.backend import bench
    except ImportError:  # older checkouts: before the packages had folders
        from flowsim import bench  # type: ignore[attr-defined,no-redef]
    if (int(nx), int(ny)) == bench.SCHOOL_CELLS:
        return bench._school(0, int(threads)).advance_steps
    return bench._wake_steps(bench._wake(int(nx), int(ny), int(batch), int(threads)))


def serve(kind: str, *words: str) -> None:
    """For each number on standard input, do that many steps and print the seconds they took."""
    run, clock = (learner, time.process_time) if kind == "learner" else (flow, time.perf_counter)
    steps = run(*words)
    for line in sys.stdin:
        began = clock()
        steps(int(line))
        print(clock() - began, flush=True)


class Other:
    """A process with a learner or a flow of a checkout, stopped between its turns."""

    def __init__(self, checkout: Path, kind: str, case: Case) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), kind, *map(str, case)],
            cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def step(self, times: int) -> float:
        """Let the process do a number of steps; return the seconds per step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(f"{times}\n")
        self._process.stdin.flush()
        seconds = float(self._process.stdout.readline())
        self._process.send_signal(signal.SIGSTOP)
        return seconds / times

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


def turns(kind: str, case: Case, there: Path, here: Path) -> list[list[float]]:
    """Start a process for each checkout; return pairs of steps per second (other, this) for each turn."""
    others = Other(there, kind, case), Other(here, kind, case)
    try:
        for other in others:
            other.step(WARM)
        times = max(2, round(SECONDS / others[0].step(WARM)))
        speeds = []
        for turn in range(TURNS):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            took = {which: others[which].step(times) for which in order}
            speeds.append([1.0 / took[0], 1.0 / took[1]])
    finally:
        for other in others:
            other.end()
    return speeds


def row_of(kind: str, case: Case, there: Path, here: Path) -> list[list[float]]:
    """Return the speeds of a case in both checkouts for each turn."""
    speeds = [pair for _ in range(STARTS) for pair in turns(kind, case, there, here)]
    ratio = statistics.median(mine / its for its, mine in speeds)
    print(f"{kind} {case}: {ratio:.3f}", flush=True)
    return speeds


def learner_rows(there: Path, here: Path) -> list[dict[str, Any]]:
    """Return the updates per processor second of all learners."""
    return [
        {
            "row": f"{algorithm}, {network}, observation {observation}, action {action}, {sampler}",
            "speeds": row_of(
                "learner", (algorithm, network, observation, action, sampler), there, here
            ),
        }
        for algorithm, network, observation, action, sampler in LEARNERS
    ]


def flow_rows(there: Path, here: Path) -> list[dict[str, Any]]:
    """Return the cell updates per second of all flows."""
    rows = []
    for nx, ny, batch, threads in FLOWS:
        cells = nx * ny * batch
        speeds = row_of("flow", (nx, ny, batch, threads), there, here)
        name = f"nx {nx}, ny {ny}, batch {batch}, threads {threads}, float32, busy 0"
        rows.append({"row": name, "speeds": [[cells * s for s in pair] for pair in speeds]})
    return rows


if __name__ == "__main__":
    sys.path[0] = os.environ["PYTHONPATH"]  # instead of the folder of this file
    serve(*sys.argv[1:])
