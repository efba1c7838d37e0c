"""How long a visitor waits for the first film of a trained agent and for its evaluation, after the installation.

    python benchmarks/speed/first_film.py  # into benchmarks/results/first_film.json and docs/agents.md

Cold is a machine on which flowsim was never used: its caches (``NUMBA_CACHE_DIR``, ``FLOWSIM_CACHE``) are empty, so the
solver is compiled and the wake of the cylinder alone is simulated once. Warm is what comes after it. Seconds depend on
what else the machine does; processor time, that of all processes, hardly does.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.origin import machine, provenance  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "first_film.json"
FLOWSIM = str(Path(sys.executable).parent / "flowsim")
COMMANDS = ("render wake -o wake.mp4", "evaluate wake")
CACHES = ("cold", "warm")


def wait_for(words: str, folder: Path) -> dict[str, float]:
    """Run a command with the caches of a folder; return seconds of the clock and of all processors."""
    caches = {"NUMBA_CACHE_DIR": str(folder / "numba"), "FLOWSIM_CACHE": str(folder / "cache")}
    variables = os.environ | caches | {"PYTHONPATH": str(ROOT)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [FLOWSIM, *words.split()]
    subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 1), "processor": round(processor, 1)}


def table(rows: list[dict[str, Any]]) -> str:
    """Return a row for each command, in Markdown."""
    lines = ["| command | caches | seconds | of processors |", "| --- | --- | --: | --: |"]
    lines += [
        f"| `flowsim {row['command']}` | {row['caches']} | {row['seconds']:.0f} | {row['processor']:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, keep, and fill in the page."""
    made_by, rows = provenance(), []
    for words in COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            for caches in CACHES:
                load = round(os.getloadavg()[0], 1)
                rows.append(
                    {
                        "command": words,
                        "caches": caches,
                        **wait_for(words, Path(folder)),
                        "load": load,
                    }
                )
                print(rows[-1], flush=True)
    result = {"cores": len(os.sched_getaffinity(0)), "machine": machine(), **made_by, "rows": rows}
    write_atomically(RESULT, json.dumps(result, indent=1).encode())
    fill_in(ROOT / "docs" / "agents.md", "speed/first_film", "times", table(rows))


if __name__ == "__main__":
    main()
