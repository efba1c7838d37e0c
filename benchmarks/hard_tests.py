"""Run all tests repeatedly under adverse conditions and store the result of each run.

    make test-hard                                            # five runs of each kind, resumable
    python benchmarks/hard_tests.py --runs 0,3 --only tests/coupling/run/test_run.py -o /tmp/hard   # a quick subset

During a ``busy`` run, two other processes compute continuously. During a ``stopped`` run, random processes started by
the run, including pytest workers, are repeatedly stopped with SIGSTOP for two seconds. No test may fail because of
either. Each completed run is stored as a JSON file and is not repeated for the same code and tests; files outside the
packages and their tests may change in between. A run that takes longer than ``--limit`` is killed and counts as red.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from coupling.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "hard_tests"
TELL_EVERY = 60.0  # seconds
CODE = ("flowsim", "rl_agent", "coupling", "cases", "tests", "pyproject.toml", "constraints.txt")
LAST_LINES = 15
FAILURE_LINES = 60


@dataclass(frozen=True)
class Setting:
    """Settings of the runs: tests, number of pytest workers, mean seconds between stops, and seconds per stop."""

    tests: list[str]
    workers: int
    limit: float
    stop_every: float
    stop_for: float


def main() -> int:
    """Do the missing runs; return 1 if any is red."""
    options = _options()
    setting = Setting(
        options.only, options.workers, options.limit, options.stop_every, options.stop_for
    )
    origin, folder = _origin(), options.output
    folder.mkdir(parents=True, exist_ok=True)
    planned = [
        (kind, number)
        for kind, count in zip(("busy", "stopped"), options.runs, strict=True)
        for number in range(count)
    ]
    results: list[dict[str, Any]] = []
    for kind, number in planned:
        file = folder / f"{kind}-{number + 1}.json"
        result = _kept(file, origin["code"], setting)
        if result is None:
            result = _run(
                kind,
                f"run {len(results) + 1} of {len(planned)}, {kind}",
                setting,
                file,
                results,
                len(planned),
            )
            result = {"kind": kind, **origin, "tests": setting.tests} | result
            write_atomically(file, json.dumps(result, indent=1).encode())
            if folder == RESULTS:  # a page lists all results, and a test checks that it does
                subprocess.run(
                    [sys.executable, "benchmarks/evidence.py", "--page"],
                    cwd=ROOT,
                    check=True,
                    timeout=600,
                )
        results.append(result)
        print(f"{file.stem}: {_verdict(result)}", flush=True)
    red = [result for result in results if not result["green"]]
    print(f"{len(results) - len(red)} of {len(results)} runs are green; they are kept in {folder}")
    return int(bool(red))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=_counts, default=(5, 5), help="runs of the kinds busy,stopped (5,5)"
    )
    parser.add_argument(
        "--only", nargs="+", default=["tests"], help="files or tests, as pytest takes them"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=RESULTS, help="where the results are kept"
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="workers of pytest-xdist; 0 for none"
    )
    parser.add_argument(
        "--limit", type=float, default=7200.0, help="seconds after which a run counts as hung"
    )
    parser.add_argument("--stop-every", type=float, default=3.0, help="mean seconds between stops")
    parser.add_argument("--stop-for", type=float, default=2.0, help="seconds of a stop")
    return parser.parse_args()


def _counts(text: str) -> tuple[int, int]:
    busy, stopped = map(int, text.split(","))
    return busy, stopped


def _origin() -> dict[str, str]:
    """Return the commit and a digest of the packages and their tests, marked if there are uncommitted changes."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    changed = (
        " and uncommitted changes" if git("status", "--porcelain", "-uno", "--", *CODE) else ""
    )
    code = hashlib.sha256(git("ls-tree", "HEAD", *CODE).encode()).hexdigest()[:16]
    return {"commit": git("rev-parse", "HEAD") + changed, "code": code + changed}


def _kept(file: Path, code: str, setting: Setting) -> dict[str, Any] | None:
    """Return the stored result of a run, or None if it is not for this code and these tests."""
    if not file.exists():
        return None
    result: dict[str, Any] = json.loads(file.read_text())
    return result if (result["code"], result["tests"]) == (code, setting.tests) else None


def _verdict(result: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in result["counts"].items())
    failures = "".join(f"\n    {failure['test']}" for failure in result["failures"])
    how = "green" if result["green"] else f"RED ({result['end']})"
    return f"{how}: {counts or 'no counts'} in {result['seconds']:.0f} s, {result['stops']} stops{failures}"


def _run(
    kind: str, name: str, setting: Setting, file: Path, before: list[dict[str, Any]], planned: int
) -> dict[str, Any]:
    """Do one run and return its result."""
    log, report = file.with_suffix(".log"), file.with_suffix(".xml")
    report.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-m",
        "not cluster",
        f"--junitxml={report}",
        *setting.tests,
    ]
    if setting.workers:
        command += ["-n", str(setting.workers), "--dist", "worksteal"]
    earlier = [result["seconds"] for result in before]
    began = time.monotonic()
    with log.open("wb") as output, contextlib.ExitStack() as stack:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True
        )
        stack.callback(_end, process)
        if kind == "busy":
            stack.enter_context(_busy())
        stops = stack.enter_context(_stops(process.pid, setting)) if kind == "stopped" else [0]
        end = _wait(process, name, log, began + setting.limit, earlier, planned)
    lines = log.read_text(errors="replace").splitlines()
    counts, failures = _read(report)
    result = {
        "green": end == 0,
        "end": f"exit code {end}" if end is not None else f"killed after {setting.limit:g} s",
        "seconds": round(time.monotonic() - began, 1),
        "stops": stops[0],
        "counts": counts,
        "failures": failures,
        "last_lines": [_without_places(line) for line in lines[-LAST_LINES:]],
    }
    report.unlink(missing_ok=True)
    if end == 0:
        log.unlink()  # the log of a red run is kept: it shows the cause
    return result


def _wait(
    process: subprocess.Popen[bytes],
    name: str,
    log: Path,
    until: float,
    earlier: list[float],
    planned: int,
) -> int | None:
    """Wait for a run to end, printing its progress; return its exit code, or None if it takes too long."""
    began = time.monotonic()
    while time.monotonic() < until:
        try:
            return process.wait(min(TELL_EVERY, max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            here = time.monotonic() - began
            done = int((re.findall(rb"\[ *(\d+)%\]", log.read_bytes()) or [b"0"])[-1])
            each = sum(earlier) / len(earlier) if earlier else 100 * here / done if done else 0.0
            left = max(0.0, each * (planned - len(earlier)) - here)
            print(f"{name}: {done} % after {here:.0f} s" + (f"; about {left / 60:.0f} min for all" if left else ""),
                  flush=True)  # fmt: skip
    return None


def _without_places(text: str) -> str:
    """Return the text with file paths relative to the repository or to their package."""
    return re.sub(r"\S*/site-packages/", "", text).replace(f"{ROOT}/", "")


def _read(report: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Return the counts, and the name and traceback of each failed test, from pytest's XML report."""
    if not report.exists():
        return {}, []
    suites = ET.parse(report).getroot().findall("testsuite")
    number = {
        key: sum(int(suite.get(key, 0)) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    }
    counts = {"passed": number["tests"] - number["failures"] - number["errors"] - number["skipped"]}
    counts |= {
        "failed": number["failures"],
        "errors": number["errors"],
        "skipped": number["skipped"],
    }
    bad = [
        {
            "test": f"{case.get('classname')}::{case.get('name')}",
            "traceback": _without_places(failure.text or failure.get("message") or "").splitlines()[
                :FAILURE_LINES
            ],
        }
        for suite in suites
        for case in suite.findall("testcase")
        for failure in (*case.findall("failure"), *case.findall("error"))
    ]
    return counts, bad


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """Keep two processes computing inside the context, at most as long as this process lives."""
    code = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _stops(pid: int, setting: Setting) -> Iterator[list[int]]:
    """Repeatedly stop random descendants of a process; yield a list that holds the number of stops."""
    over, count, chance = threading.Event(), [0], random.Random()

    def stop_some() -> None:
        while not over.wait(chance.expovariate(1 / setting.stop_every)):
            with contextlib.suppress(psutil.Error, IndexError):
                victim = chance.choice(psutil.Process(pid).children(recursive=True))
                victim.suspend()
                count[0] += 1
                over.wait(setting.stop_for)
                victim.resume()

    thread = threading.Thread(target=stop_some)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a run: the process, its descendants, and its whole session."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # a script's background job ignores SIGINT
        signal.signal(
            number, signal.default_int_handler
        )  # otherwise the processes it started would keep running
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the finished runs are kept, and the same command goes on", file=sys.stderr)
        sys.exit(130)
