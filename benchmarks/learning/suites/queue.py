"""Run jobs in parallel processes: complete jobs are skipped, and a failed job is reported without stopping the others.

Only this process adds complete jobs to the file of their study.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.learning.suites.job import INTERRUPTED, is_complete, keep
from benchmarks.learning.suites.plan import Job
from coupling.files import Table, write_atomically

__all__ = ["Places", "run_jobs"]

ROOT = Path(__file__).resolve().parents[3]
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
LOOK_EVERY = 0.2  # seconds
TELL_EVERY = 60.0  # seconds between progress lines if the output is not a terminal
STOP_TIMEOUT = 120.0  # seconds that jobs have to write their checkpoint


@dataclasses.dataclass(frozen=True)
class Places:
    """File of the results, work folder of the jobs, and seconds between checkpoints."""

    results: Path
    work: Path
    checkpoint_every: float


def list_jobs(jobs: list[Job], results: Path) -> None:
    """Print which jobs are complete, all in one write, so that `| head` does not close the pipe in between."""
    print("\n".join(
        f"{'complete' if is_complete(job, results) else 'to do':9} {job.steps:>9,} steps  {job.name}"
        for job in jobs
    ))  # fmt: skip


def carry_out(jobs: list[Job], processes: int, places: Places) -> int:
    """Run the jobs; return the exit code of the command: 1 if a job failed, 130 if interrupted."""
    try:
        failed = run_jobs(jobs, processes, places)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from the checkpoints", file=sys.stderr)
        return 130
    for sentence in failed:
        print(f"failed: {sentence}", file=sys.stderr)
    return 1 if failed else 0


def run_jobs(jobs: list[Job], processes: int, places: Places) -> list[str]:
    """Run all jobs that are not complete yet.

    Returns
    -------
    list of str
        The failed jobs, each with its error.

    Raises
    ------
    KeyboardInterrupt
        On SIGINT or SIGTERM, after the running jobs have written their checkpoints and stopped.
    """
    waiting = [job for job in jobs if not is_complete(job, places.results)]
    print(f"{len(jobs)} jobs, {len(jobs) - len(waiting)} complete already", flush=True)
    running: dict[str, tuple[Job, subprocess.Popen[bytes]]] = {}
    failed: list[str] = []
    progress = _Progress(jobs, processes, places)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                job = waiting.pop(0)
                running[job.name] = job, _start(job, places)
            for job, process in list(running.values()):
                if process.poll() is None:
                    continue
                del running[job.name]
                if process.returncode == 0:
                    keep(job, places.results, places.work)
                if process.returncode != 0 or not is_complete(job, places.results):
                    failed.append(f"{job.name}: {_reason(process.returncode, _log(job, places))}")
                    progress.say(f"FAILED {failed[-1]}")
                else:
                    progress.say(f"complete: {job.name}")
            progress.show([job for job, _ in running.values()], waiting)
            time.sleep(LOOK_EVERY)
    finally:
        _stop([process for _, process in running.values()])
        signal.signal(signal.SIGTERM, before)
    return failed


def _start(job: Job, places: Places) -> subprocess.Popen[bytes]:
    log = _log(job, places)
    log.parent.mkdir(parents=True, exist_ok=True)
    order = {
        "job": dataclasses.asdict(job),
        "parent": os.getpid(),
        "results": str(places.results.resolve()),
        "work": str(places.work.resolve()),
        "checkpoint_every": places.checkpoint_every,
    }
    write_atomically(log.with_name("order.json"), json.dumps(order, indent=1).encode())
    command = [
        sys.executable,
        "-m",
        "benchmarks.learning.suites.job",
        str(log.with_name("order.json").resolve()),
    ]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, cwd=ROOT, env=os.environ | ONE_THREAD, stdout=output, stderr=output
        )


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Let the processes write their checkpoints; a process that takes too long is killed."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def _log(job: Job, places: Places) -> Path:
    return places.work / job.name / "log.txt"


def _reason(status: int, log: Path) -> str:
    if status == INTERRUPTED:
        return "was told to stop by somebody else; it goes on from its checkpoint"
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"exit status {status}, {lines[-1] if lines else 'without a word'} ({log})"


class _Progress:
    """A progress line with the state of the jobs and the estimated time left."""

    def __init__(self, jobs: list[Job], processes: int, places: Places) -> None:
        self._jobs, self._processes, self._places = jobs, processes, places
        self._told = -TELL_EVERY
        self._line = ""

    def say(self, text: str) -> None:
        """Print a line that is not overwritten."""
        print("\r" + text.ljust(len(self._line)), flush=True)
        self._line, self._told = "", -TELL_EVERY

    def show(self, running: list[Job], waiting: list[Job]) -> None:
        """Print the current state; on a terminal it overwrites the last one."""
        on_terminal = sys.stdout.isatty()
        now = time.monotonic()
        if not running or now - self._told < (1.0 if on_terminal else TELL_EVERY):
            return
        self._told = now
        lengths = {job.name: self._length(job) for job in self._jobs}
        speeds = {
            self._kind(job): steps / wall
            for job in self._jobs
            for steps, wall in [lengths[job.name]]
            if wall > 0
        }
        done = len(self._jobs) - len(running) - len(waiting)
        parts = [
            f"{done} of {len(self._jobs)} jobs done",
            self._left(running, waiting, lengths, speeds),
        ]
        for job in running:
            steps, wall = lengths[job.name]
            rate = f"{steps / wall:.0f} steps/s" if wall else "starting"
            parts.append(f"{job.name} {100 * steps / job.steps:.0f} % {rate}")
        line = "; ".join(parts)
        if on_terminal:
            print("\r" + line.ljust(len(self._line)), end="", flush=True)
        else:
            print(line, flush=True)
        self._line = line

    def _left(
        self,
        running: list[Job],
        waiting: list[Job],
        lengths: dict[str, tuple[int, float]],
        speeds: dict[tuple[str, str], float],
    ) -> str:
        """Return the estimated time left; kinds of jobs without a measured speed use the mean of the others."""
        if not speeds:
            return "time left not known yet"
        per_step = {kind: 1 / speed for kind, speed in speeds.items()}
        usual = sum(per_step.values()) / len(per_step)
        seconds = []
        for job in running + waiting:
            steps, wall = lengths[job.name]
            each = per_step.get(self._kind(job), usual)
            rest = max(0.0, (job.steps - steps) * each)
            seconds.append(min(rest, max(0.0, job.cpu_seconds - wall)) if job.cpu_seconds else rest)
        minutes = max(sum(seconds) / self._processes, max(seconds)) / 60
        return (
            f"about {minutes:.0f} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"
        )

    @staticmethod
    def _kind(job: Job) -> tuple[str, str]:
        return job.task, job.method

    def _length(self, job: Job) -> tuple[int, float]:
        """Return the environment steps and wall seconds of the curve so far."""
        rows = Table(self._places.work / job.name / "curve.csv").read()
        return (
            (int(rows[-1]["environment_steps"]), float(rows[-1]["wall_seconds"]))
            if rows
            else (0, 0.0)
        )
