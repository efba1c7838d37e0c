"""Inject faults into runs for up to twenty minutes, and audit the learners' experience.

    make chaos
    python benchmarks/service/chaos.py --seconds 300 --seed 5 --parts messages everything
    python benchmarks/service/chaos.py --page  # only rewrite docs/studies/chaos.md from the stored results

Each part is one run of the oracle environment, whose journals record which steps returned. The run is killed, stopped
and disconnected as the part specifies, resumed whenever it dies, and finally completed without faults; then the replay
memory is compared with the journals, and the ratio of environment to gradient steps is checked. Writes
benchmarks/results/coupling/chaos.json and the tables of docs/studies/chaos.md; the exit code is 1 if anything was lost,
doubled or otherwise wrong. The folder of a failed part is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "coupling"))

from faults import LEARNER, WORKER  # noqa: E402
from proxy import MessageProxy, TcpProxy  # noqa: E402
from siege import Siege, SiegeError  # noqa: E402

from coupling.origin import machine, provenance  # noqa: E402

RESULTS, PAGE = ROOT / "benchmarks" / "results" / "coupling", ROOT / "docs" / "studies" / "chaos.md"
FINISH = 20.0  # approximate seconds that the end of a part takes
MEMORY = 2**20  # steps; more than any part takes


def processes(siege: Siege, seconds: float) -> None:
    """Kill and stop workers and learner at random moments, and leave them no room on the disk now and then."""
    kills = {"kill_worker": 0.6, "kill_learner": 0.07, "kill_all": 0.03}
    siege.disturb(seconds, kills | {"stop_worker": 0.1, "stop_learner": 0.05, "fill_disk": 0.03})


def points(siege: Siege, seconds: float) -> None:
    """Kill the learner and workers at each labelled point, in turn, after a random number of passes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for point in [*LEARNER, *WORKER]:
            if time.monotonic() > until:
                return
            if point == "learner.replaying":
                siege.start()
                siege.wait_steps(300)
                time.sleep(0.5)  # so that some records follow the last checkpoint
                siege.kill_learner()
            most = {
                "learner.replaying": 5,
                "learner.before-save": 3,
                "learner.before-rename": 3,
            }.get(point, 100)
            most = 3 if point in ("learner.after-rename", "learner.before-forget") else most
            siege.die_at(point, siege.random.randint(1, most))
            siege.kill_learner()


def restarts(siege: Siege, seconds: float) -> None:
    """Kill the learner twenty times in a row, each time as soon as it has gone on."""
    for _ in range(20):
        siege.start()
        siege.wait_steps(20)
        siege.kill_learner()


def everything(siege: Siege, seconds: float) -> None:
    """Kill learner and workers at once, again and again."""
    siege.disturb(seconds, {"kill_all": 0.25})


def elsewhere(siege: Siege, seconds: float) -> None:
    """Kill the learner at random moments under workers that outlive it, and some of them."""
    siege.disturb(
        seconds,
        {"kill_learner": 0.2, "kill_worker": 0.2, "stop_learner": 0.05, "stop_worker": 0.05},
    )


def messages(siege: Siege, seconds: float) -> None:
    """Drop, duplicate, delay and reorder messages, and kill now and then."""
    seed = siege.random.randrange(2**32)
    siege.through(
        lambda target: MessageProxy(
            target, drop=0.02, duplicate=0.05, hold=0.1, delay=0.5, seed=seed
        )
    )
    siege.disturb(seconds, {"kill_worker": 0.2, "kill_learner": 0.03, "stop_worker": 0.05})


def connections(siege: Siege, seconds: float) -> None:
    """Delay bytes, reset connections, let some carry nothing for seconds, and kill now and then."""
    seed = siege.random.randrange(2**32)
    siege.through(lambda target: TcpProxy(siege.learner_address, delay=0.01, seed=seed))
    siege.disturb(seconds, {"cut": 1.0, "swallow": 0.2, "kill_worker": 0.1, "kill_learner": 0.03})


SINGLE: dict[str, Any] = {
    "workers": {"processes": 8, "agents": 8},
    "env_options": {"step_seconds": 0.01},
}
BATCHES = {
    "workers": {"processes": 3, "agents": 24},
    "env_options": {"step_seconds": 0.002, "fail_at": 997},
}
LSTM = {
    "agent": {"network": "lstm", "hidden": [8], "window": 4, "env_steps_per_gradient_step": 4.0}
}
BY_HAND = {
    "workers": SINGLE["workers"] | {"launcher": "none"},
    "env_options": SINGLE["env_options"],
}
# the proxy reads messages and creates its own, so they must not be encrypted
UNENCRYPTED = SINGLE | {"workers": SINGLE["workers"] | {"curve": "never"}}
NO_OUTBOX = {"workers": SINGLE["workers"] | {"outbox": False}, "env_options": SINGLE["env_options"]}
FSYNC = {
    "run": {"durability": "fsync"},
    "agent": {"algorithm": "ddpg", "replay": "none", "env_steps_per_gradient_step": 2.0},
}

PARTS: dict[str, tuple[Any, dict[str, Any], float]] = {
    "processes": (processes, SINGLE, 3.0),
    "batches": (processes, BATCHES, 2.0),
    "points": (points, {}, 4.0),
    "restarts": (restarts, {}, 2.0),
    "everything": (everything, SINGLE | FSYNC, 1.5),
    "elsewhere": (elsewhere, BY_HAND, 2.0),
    "messages": (messages, UNENCRYPTED | LSTM, 3.0),
    "connections": (connections, SINGLE, 3.0),
    "no_outbox": (processes, NO_OUTBOX, 1.5),
}
"""Function of each part, settings of its run, and its share of the time."""

OTHERWISE = {"restarts": ["workers.processes=3"]}
"""Overrides for the last start of a part; here the agents are split among a different number of workers."""


def carry_out(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Run one part and return its row."""
    do, settings, _ = PARTS[name]
    folder = Path(tempfile.mkdtemp(prefix=f"flowsim-chaos-{name}-"))
    siege, began = Siege(folder, seed, memory=MEMORY, **settings), time.monotonic()
    row: dict[str, Any] = {"part": name, "what": do.__doc__.strip(), "seed": seed}
    try:
        do(siege, seconds)
        audit = siege.finish(overrides=OTHERWISE.get(name, ()))
        row |= {"audit": audit.counts(), "passed": audit.is_clean}
        if not audit.is_clean:
            row["found"] = str(audit)
    except SiegeError as error:
        row |= {"passed": False, "found": str(error)}
    finally:
        siege.close()
    status = siege.status()
    row |= {"done": siege.done(), "seconds": round(time.monotonic() - began, 1)}
    row |= {
        key: status.get(key)
        for key in ("environment_steps", "steps_after_warm_up", "gradient_steps", "epoch")
    }
    if row["passed"]:
        shutil.rmtree(folder)
    else:
        row["folder"] = str(folder)
    return row


def kinds(done: dict[str, int]) -> Counter[str]:
    """Return the number of faults injected into a run, by kind of the table."""
    died = {
        key.removeprefix("died_at_"): count
        for key, count in done.items()
        if key.startswith("died_at_")
    }
    return Counter(
        {
            "kills of workers": done.get("worker_kills", 0)
            + sum(died[key] for key in died if key in WORKER),
            "kills of the learner": done.get("learner_kills", 0)
            + sum(died[key] for key in died if key in LEARNER),
            "of those at labelled points": sum(died.values()),
            "kills of everything": done.get("kills_of_everything", 0),
            "stops": done.get("worker_stops", 0) + done.get("learner_stops", 0),
            "full disks": done.get("full_disks", 0),
            "resumes": done.get("resumes", 0),
            "cuts": done.get("cuts", 0) + done.get("black_holes", 0),
            "messages dropped": done.get("dropped", 0),
            "duplicated": done.get("duplicated", 0),
            "held back": done.get("held_back", 0),
        }
    )


def chaos_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of a campaign, with its seed, machine and commit."""
    columns = [
        "part",
        "kills of workers, learner, all at once",
        "other faults",
        "resumes",
        "steps checked",
        "lost",
        "doubled",
        "wrong",
        "window",
    ]
    lines = [
        "| " + " | ".join(columns) + " |",
        "| --- | --- | --- |" + " --: |" * (len(columns) - 3),
    ]
    every = Counter(report["done"]), Counter(report["audit"])
    rows = [
        (row["part"], kinds(row["done"]), Counter(row.get("audit", {}))) for row in report["parts"]
    ]
    for name, done, audit in [*rows, ("**all**", *every)]:
        died = ", ".join(
            str(done[key])
            for key in ("kills of workers", "kills of the learner", "kills of everything")
        )
        besides = ("stops", "full disks", "cuts", "messages dropped", "duplicated", "held back")
        others = ", ".join(f"{done[key]} {key}" for key in besides if done[key])
        wrong = audit["wrong"] + audit["invented"] + audit["disordered"]
        window = f"{audit['in_window'] - audit['in_batch']} + {audit['in_batch']}"
        window = f"({audit['without_outbox']})" if name == "no_outbox" else window
        numbers = (
            done["resumes"],
            audit["returned"],
            audit["lost"],
            audit["doubled"],
            wrong,
            window,
        )
        lines.append(f"| {name} | {died} | {others} | " + " | ".join(map(str, numbers)) + " |")
    made = f"{report['seconds']:.0f} s on {report['machine']['cpu']} ({report['machine']['cores']} cores)"
    lines += ["", f"Seed {report['seed']}, {made}, commit `{report['commit']}`."]
    return "\n".join(lines)


def soak_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of a soak, with its size and commit."""
    learner, worker, units = (
        report["rise_of_learner"],
        report["largest_rise_of_a_worker"],
        {"memory": 1e-6},
    )
    lines = [
        "| rise of the fitted line | learner | largest of the workers | allowed |",
        "| --- | --: | --: | --: |",
    ]
    for key, allowed in report["allowed_rise"].items():
        numbers = (number * units.get(key, 1.0) for number in (learner[key], worker[key], allowed))
        name = f"{key}, MB" if key == "memory" else key
        cells = " | ".join(f"{round(number, 2) + 0.0:.2f}" for number in numbers)
        lines.append(f"| {name} | {cells} |")
    done = f"{report['workers']} workers, {report['seconds'] / 60:.0f} minutes, {report['environment_steps']} steps"
    lines += ["", f"{done}, {report['restarts']} restarts, commit `{report['commit']}`."]
    return "\n".join(lines)


def write_page(results: Path) -> None:
    """Fill in the tables of docs/studies/chaos.md from the stored results."""
    text = PAGE.read_text()
    for name, table in (("chaos", chaos_table), ("soak", soak_table)):
        if (file := results / f"{name}.json").exists():
            begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
            before, rest = text.split(begin)
            text = (
                f"{before}{begin}\n{table(json.loads(file.read_text()))}\n{end}{rest.split(end)[1]}"
            )
    PAGE.write_text(text)


def main() -> int:
    """Run the parts and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=1080.0, help="of all parts together, about"
    )
    parser.add_argument("--seed", type=int, default=None, help="of all moments; drawn unless given")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    parser.add_argument(
        "--page", action="store_true", help="only write docs/studies/chaos.md again"
    )
    options = parser.parse_args()
    if options.page:
        write_page(options.output)
        return 0
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    made_by, began = provenance(), time.monotonic()
    rows: list[dict[str, Any]] = []
    shares = {name: PARTS[name][2] for name in options.parts}
    for number, name in enumerate(options.parts):
        left = options.seconds - (time.monotonic() - began) - FINISH * (len(shares) - number)
        seconds = max(10.0, left * shares[name] / sum(list(shares.values())[number:]))
        row = carry_out(name, seconds, seed + number)
        rows.append(row)
        print(json.dumps({key: row[key] for key in row if key != "what"}), flush=True)
    total: Counter[str] = sum((kinds(row["done"]) for row in rows), Counter())
    audits: Counter[str] = sum((Counter(row.get("audit", {})) for row in rows), Counter())
    passed = all(row["passed"] for row in rows)
    report = {
        **made_by,
        "machine": machine(),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "passed": passed,
        "done": dict(total),
        "audit": {
            key: audits[key]
            for key in sorted({key for row in rows for key in row.get("audit", {})})
        },
        "parts": rows,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "chaos.json").write_text(json.dumps(report, indent=1))
    if options.output == RESULTS:
        write_page(RESULTS)
    print(
        json.dumps({key: report[key] for key in ("passed", "seconds", "done", "audit")}, indent=1)
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
