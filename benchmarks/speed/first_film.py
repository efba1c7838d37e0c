"""Time until the first film of a trained agent and its evaluation are done after the installation.

    python benchmarks/speed/first_film.py  # into benchmarks/results/first_film.json and docs/agents.md

A cold run has empty caches (``NUMBA_CACHE_DIR``, ``FLOWSIM_CACHE``), as on a machine on which flowsim was never used:
the solver is compiled, and the wake of the cylinder alone is simulated once. A warm run follows it. Seconds depend on
the other load of the machine; the processor time of all processes hardly does.
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
    """Run a command with the caches in a folder; return its wall seconds and processor seconds."""
    caches = {"NUMBA_CACHE_DIR": str(folder / "numba"), "FLOWSIM_CACHE": str(folder / "cache")}
    variables = os.environ | caches | {"PYTHONPATH": str(ROOT)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [FLOWSIM, *words.split()]
    subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 1), "processor": round(processor, 1)}


def table(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each command."""
    lines = ["| command | caches | seconds | processor seconds |", "| --- | --- | --: | --: |"]
    lines += [
        f"| `flowsim {row['command']}` | {row['caches']} | {row['seconds']:.0f} | {row['processor']:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store the results, and fill in the page."""
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
