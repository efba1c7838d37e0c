"""Startup time of a first training run: seconds to the first output line and to the first step.

    python benchmarks/speed/first_step.py  # cold and warm, into benchmarks/results/first_step.json
    python benchmarks/speed/first_step.py --runs 3

Each cold start has its own empty caches (``NUMBA_CACHE_DIR``, ``FLOWSIM_CACHE``); the warm start uses the same caches
afterwards. The first step counts as done when it appears in ``runs/NAME/status.json``. Processor time is that of the
run and all its processes until its few steps are done; it hardly depends on the other load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from coupling.files import write_atomically
from coupling.origin import machine, provenance

PRESET, STEPS = "d_cylinder_wake/quick", 100
RESULT = Path("benchmarks/results/first_step.json")
LONGEST = 1200.0
FLOWSIM = str(Path(sys.executable).parent / "flowsim")


def start(folder: Path) -> dict[str, float]:
    """Train for a few steps with the caches in a folder; return the seconds to the first line, first step and end."""
    variables = os.environ | {
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "FLOWSIM_CACHE": str(folder / "cache"),
    }
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has cached bytecode
    name = f"run-{time.monotonic_ns()}"
    status = folder / "runs" / name / "status.json"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        [FLOWSIM, "train", PRESET, f"run.steps={STEPS}", f"run.name={name}", "run.select_episodes=0"],
        cwd=folder, env=variables, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    seen: dict[str, float] = {}
    last, silence = began, 0.0
    while process.poll() is None:
        now = time.monotonic()
        if now - began > LONGEST:
            process.kill()
            raise SystemExit(f"no end after {LONGEST:g} s")
        if process.stderr.read():
            silence, last = max(silence, now - last), now
            seen.setdefault("first_line", now - began)
        if (
            "first_step" not in seen
            and status.exists()
            and json.loads(status.read_text())["environment_steps"]
        ):
            seen["first_step"] = now - began
        time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"flowsim train ended with {process.returncode}")
    seen["end"], seen["longest_silence"] = time.monotonic() - began, silence
    seen["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {name: round(value, 2) for name, value in seen.items()}


def main() -> None:
    """Measure, print and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    made_by, rows = provenance(), []
    for _ in range(parser.parse_args().runs):
        with tempfile.TemporaryDirectory() as folder:
            for caches in ("cold", "warm"):
                row: dict[str, Any] = {
                    "caches": caches,
                    **start(Path(folder)),
                    "load": round(os.getloadavg()[0], 1),
                }
                print(row, flush=True)
                rows.append(row)
    result = {
        "preset": PRESET,
        "cores": len(os.sched_getaffinity(0)),
        "machine": machine(),
        **made_by,
        "rows": rows,
    }
    write_atomically(RESULT, json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main()
