"""Measure a learner's workers while another process opens a thousand connections per second to its port, on loopback.

    python benchmarks/service/flood.py
    python benchmarks/service/flood.py --kinds noise --seconds 2 --rounds 2
    python benchmarks/service/flood.py --curve -o flood_curve.json

A learner without computation serves worker processes whose environment step sleeps for a few milliseconds. Phases
alternate: quiet; a flood at the port of another process that accepts and closes, which measures the cost of flooding on
this machine; a flood at the learner's port. The report has the workers' rates relative to the quiet phases of the same
run, the learner process's CPU seconds per second of the phase, split into the serving thread and those of ZeroMQ, and
how much of the flood reached Python. The kinds of connections are those of flooder.py.

The flood is limited to `--seconds` per phase and 1,000 connections per second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from coupling.bench.service import NullLearner
from coupling.launch.local import LocalLauncher
from coupling.origin import machine, provenance
from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.security import Keys

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("noise", "silence", "greeting", "frames")  # defined in flooder.py
TASK = "coupling.bench.service:flowsim/Null-v0"


class Service:
    """A learner without computation, with worker processes."""

    def __init__(self, folder: Path, workers: int, step_seconds: float, keys: Keys | None) -> None:
        options = {"step_seconds": step_seconds}
        split = [1] * workers
        terms = Terms(
            split, 14, [-1.0] * 3, [1.0] * 3, task_hash(TASK, options), lambda agent, session: agent
        )
        self.log = ExperienceLog(folder / "experience")
        self.log.begin(0)
        self.server = Server(NullLearner(), "tcp://127.0.0.1:*", terms, 2**62, self.log, keys)
        file = folder / "connection.json"
        pair = keys.for_workers() if keys else {}
        write_connection(
            file, Connection(self.server.endpoint, "flood", TASK, options, 60.0, split, **pair)
        )
        self.launcher = LocalLauncher(file, split, folder / "workers", threads=1, restarts=0)
        self.launcher.start()
        self.deaths: list[str] = []

    def serve(self, seconds: float) -> dict[str, Any]:
        """Serve for a number of seconds and return rates and costs per second."""
        before = self.counted()
        threads, began = (time.thread_time(), time.process_time()), time.perf_counter()
        slots = range(len(self.server.exchange.agent_steps))
        last, gaps = np.full(len(slots), began), np.zeros(len(slots))
        steps = self.server.exchange.agent_steps.copy()
        while (now := time.perf_counter()) - began < seconds:
            self.server.turn(0.01)
            moved = self.server.exchange.agent_steps != steps
            steps = self.server.exchange.agent_steps.copy()
            gaps = np.where(moved, np.maximum(gaps, now - last), gaps)
            last[moved] = now
            self.deaths += [str(death) for death in self.launcher.supervise()]
        gaps = np.maximum(gaps, now - last)
        elapsed = time.perf_counter() - began
        main, whole = time.thread_time() - threads[0], time.process_time() - threads[1]
        after = self.counted()
        return {
            "steps_per_second": (after["steps"] - before["steps"]) / elapsed,
            "longest_pause_of_a_worker_s": float(gaps.max()),
            "cpu_serving": main / elapsed,
            "cpu_zeromq": (whole - main) / elapsed,
            "descriptors": len(os.listdir("/proc/self/fd")),
        } | {key: after[key] - before[key] for key in ("refused", "violations", "unheard")}

    def counted(self) -> dict[str, int]:
        """Return the counters so far."""
        server = self.server
        return {
            "steps": server.counts.round_trips,
            "refused": server.refused,
            "violations": server.counts.violations,
            "unheard": server.counts.unheard,
        }

    def close(self) -> None:
        """Stop the workers and close the server."""
        self.server.close("the measurement is over")
        self.launcher.stop()
        self.log.close()


def phase(
    service: Service, helper: subprocess.Popen[str], seconds: float, order: str
) -> dict[str, Any]:
    """Serve for a phase, with a flood unless the order is empty."""
    if not order:
        return service.serve(seconds)
    assert helper.stdin
    print(order, seconds + 1, file=helper.stdin, flush=True)
    service.serve(0.5)  # until the flood has begun
    row = service.serve(seconds)
    service.serve(1.0)  # until the flood has ended and its connections are cleaned up
    return row | {"flood": json.loads(answer_of(helper))}


def answer_of(helper: subprocess.Popen[str]) -> str:
    """Return the next output line of a helper process."""
    assert helper.stdout
    return helper.stdout.readline()


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return medians over the rounds for each kind; rates are also given relative to the quiet phase of the round."""
    names = list(dict.fromkeys(row["phase"] for row in rows))
    rounds = [rows[begin : begin + len(names)] for begin in range(0, len(rows), len(names))]
    table = {}
    for place, name in enumerate(names):
        of = [each[place] | {"quiet": each[0]["steps_per_second"]} for each in rounds]
        ratio = float(np.median([row["steps_per_second"] / row["quiet"] for row in of]))
        keys = [
            key for key, value in of[0].items() if isinstance(value, int | float) and key != "quiet"
        ]
        table[name] = {"ratio": round(ratio, 3)} | {
            key: round(float(np.median([r[key] for r in of])), 4) for key in keys
        }
    return table


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rate", type=float, default=1000.0, help="connections a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a phase")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--step-seconds", type=float, default=0.01, help="how long an environment step sleeps"
    )
    parser.add_argument(
        "--curve", action="store_true", help="encrypt, as at an address that others reach"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=ROOT / "benchmarks" / "results" / "coupling" / "flood.json",
    )
    return parser.parse_args()


def main() -> int:
    """Measure and write the report."""
    options = arguments()
    rate, seconds = min(options.rate, 1000.0), min(options.seconds, 60.0)
    kinds = options.kinds.split(",")
    made_by, rows = provenance(), []
    other, helper = (
        subprocess.Popen(
            [sys.executable, ROOT / "benchmarks" / "service" / "flooder.py", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in ("decoy", "flooder")
    )
    aside, _ = int(answer_of(other)), answer_of(helper)
    with tempfile.TemporaryDirectory(prefix="flowsim-flood-") as name:
        service = Service(
            Path(name),
            options.workers,
            options.step_seconds,
            Keys.draw() if options.curve else None,
        )
        try:
            until = time.monotonic() + 120
            while not service.server.exchange.agent_steps.all():
                service.serve(0.2)
                if service.deaths or time.monotonic() > until:
                    raise RuntimeError(f"the workers did not all come: {service.deaths}")
            port = int(service.server.endpoint.rpartition(":")[2])
            for _ in range(options.rounds):
                orders = {"quiet": "", "elsewhere": f"{aside} noise {rate}"}
                orders |= {kind: f"{port} {kind} {rate}" for kind in kinds}
                for name, order in orders.items():
                    row = {"phase": name} | phase(service, helper, seconds, order)
                    rows.append(row)
                    print(json.dumps(row), file=sys.stderr)
        finally:
            service.close()
            for process in (other, helper):
                process.communicate(timeout=90)
    report = {
        **made_by, "machine": machine(), "workers": options.workers, "step_seconds": options.step_seconds,
        "curve": options.curve, "connections_per_second": rate, "seconds": seconds,
        "deaths": service.deaths, "summary": summary(rows), "rows": rows,
    }  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1))
    for name, row in report["summary"].items():
        print(name, json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
