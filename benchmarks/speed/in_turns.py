"""The updates of learners of another commit beside those of this one, in short turns and by processor time.

    python benchmarks/speed/against.py /tmp/before --only learner  # is who asks for it

Updates need one core and no other process. So each checkout has a process with a warm learner, and both take turns of
a sixth of a second. What slows the machine slows both, and time in which somebody else has the core does not count.
Two processes of the same commit differ by some 3 per cent, so both are started several times.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STARTS, TURNS, SECONDS, WARM = 4, 12, 0.15, 20
"""How often both processes are started, turns after each start, length of a turn, updates before the first."""
CASES = (
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
"""Algorithm, network, sizes of observation and action, sampler."""
Case = tuple[str, str, int, int, str]


def serve(algorithm: str, network: str, observation: str, action: str, sampler: str) -> None:
    """Make a learner warm; then, for each line with a number, update as often, and say how long that took."""
    try:
        from coupling.bench.learner import FILLED, warm_learner
    except ModuleNotFoundError:  # before the packages had rooms
        from rl_agent.bench import FILLED, warm_learner  # type: ignore[import-not-found,no-redef]
    from rl_agent.config import AgentConfig

    settings: dict[str, Any] = {"algorithm": algorithm, "network": network, "sampler": sampler}
    if sampler != "uniform":
        settings["replay"] = "none"
    config = AgentConfig(**settings, threads=1, **FILLED)
    learner = warm_learner(config, int(observation), int(action))
    for line in sys.stdin:
        began = time.process_time()
        for _ in range(int(line)):
            learner.update()
        print(time.process_time() - began, flush=True)


class Other:
    """A process with a learner of a checkout."""

    def __init__(self, checkout: Path, case: Case) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *map(str, case)],
            cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def update(self, times: int) -> float:
        """Have it update so often; return the processor seconds of one update."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{times}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline()) / times

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def turns(case: Case, there: Path, here: Path) -> list[list[float]]:
    """Start a process for each checkout; return their updates per processor second turn by turn, the other's first."""
    others = Other(there, case), Other(here, case)
    try:
        for other in others:
            other.update(WARM)
        times = max(2, round(SECONDS / others[0].update(WARM)))
        speeds = []
        for turn in range(TURNS):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            took = {which: others[which].update(times) for which in order}
            speeds.append([1.0 / took[0], 1.0 / took[1]])
    finally:
        for other in others:
            other.end()
    return speeds


def row_of(case: Case, there: Path, here: Path) -> dict[str, Any]:
    """Return updates per processor second of a case in both checkouts, the medians after each start."""
    starts = [turns(case, there, here) for _ in range(STARTS)]
    speeds = [[statistics.median(each) for each in zip(*found, strict=True)] for found in starts]
    algorithm, network, observation, action, sampler = case
    name = f"{algorithm}, {network}, observation {observation}, action {action}, {sampler}"
    ratio = statistics.median(mine / its for its, mine in speeds)
    print(f"learner: {name}: {ratio:.3f}", flush=True)
    return {"part": "learner", "row": name, "speeds": speeds}


if __name__ == "__main__":
    sys.path[0] = os.environ["PYTHONPATH"]  # instead of the folder of this file
    serve(*sys.argv[1:])
