"""Workers on a SLURM cluster: each one is a job of an array, which submitit submits and SLURM requeues.

The run folder has to be on a file system that the nodes share: jobs read the connection file there, and the learner
reads their output. submitit stores jobs as pickles in that folder, which contain only paths and numbers.
"""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coupling.errors import RunError
from coupling.files import write_atomically
from coupling.launch.launcher import (
    Death,
    MendingLauncher,
    Place,
    describe_exit,
    last_stderr_lines,
    size_of,
    start_worker,
    worker_command,
    worker_environment,
)
from coupling.settings.config import WorkerSettings

__all__ = ["Hosting", "SlurmLauncher"]

# seconds between checks of the jobs' files; the queue itself is queried rarely, by submitit
_LOOK_EVERY = 1.0
# states of a job whose worker is silent but does not hang
_QUEUED_AGAIN = ("PENDING", "REQUEUED", "PREEMPTED")


@dataclass(frozen=True)
class Hosting:
    """Function of a job, which runs one worker. submitit stores it, so it contains no secrets.

    Attributes
    ----------
    connection, stderr, mark, outbox
        Connection file; output of the worker; file that exists while the job runs; outbox, if there is one.
    slot, environments, threads
        Number of the worker, number of its environments, and its threads.
    learner
        Process ID of the learner on this machine, without which the job ends; 0 on a cluster, where SLURM ends it.
    """

    connection: Path
    stderr: Path
    mark: Path
    outbox: Path | None
    slot: int
    environments: int
    threads: int
    learner: int

    def __call__(self) -> int:
        """Run the worker and return its exit code."""
        write_atomically(
            self.mark, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode()
        )
        command = worker_command(self.connection, self.slot, self.environments, self.outbox)
        # SLURM's signal before the end of a job is meant for this process, so the worker has its own session
        process = start_worker(command, worker_environment(self.threads), self.stderr)
        try:
            while self._wanted():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(1.0)
            return 1
        finally:
            process.kill()
            self.mark.unlink(missing_ok=True)

    def _wanted(self) -> bool:
        with contextlib.suppress(PermissionError):
            try:
                os.kill(self.learner, 0)  # 0 means this process group, which exists
            except ProcessLookupError:
                return False
        return True

    def checkpoint(self) -> Any:
        """Return what SLURM runs when it requeues the job at its time limit or after a preemption: the same job."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass(kw_only=True)
class _Place(Place):
    hosting: Hosting
    began: float = 0.0  # when its mark was first seen
    given_up: str = ""  # why its session is over while the job stays in the queue


class SlurmLauncher(MendingLauncher[_Place]):
    """Launcher that keeps one job for each worker.

    Parameters
    ----------
    workers
        The settings.
    connection
        The ``connection.json`` of the learner.
    folder
        Folder for the jobs' files and their numbers, by which a resumed run finds them.

    Raises
    ------
    RunError
        If submitit does not accept the settings.
    """

    def __init__(self, workers: WorkerSettings, connection: Path, folder: Path) -> None:
        import submitit

        self._submitit, self._workers = submitit, workers
        folder.mkdir(mode=0o700, exist_ok=True)
        folder, settings = folder.resolve(), workers.slurm
        self._record, self._logs = folder / "jobs.json", folder / "jobs"
        self._logs.mkdir(mode=0o700, exist_ok=True)
        try:
            self._executor = submitit.AutoExecutor(
                self._logs, cluster=settings.cluster, slurm_max_num_timeout=max(1, workers.restarts)
            )
            self._executor.update_parameters(
                name="flowsim",
                timeout_min=settings.time,
                cpus_per_task=settings.cpus,
                gpus_per_node=settings.gpus or None,
                mem_gb=settings.memory,
                slurm_partition=settings.partition,
                slurm_account=settings.account,
                slurm_setup=settings.setup or None,
                slurm_array_parallelism=workers.processes,
                slurm_additional_parameters={"requeue": True, **settings.sbatch},
            )
        except (RuntimeError, ValueError, NameError) as error:
            raise RunError(f"workers.slurm: {' '.join(str(error).split())}") from error
        learner = os.getpid() if settings.cluster == "local" else 0
        places = [
            _Place(
                hosting=Hosting(
                    connection.resolve(),
                    folder / f"worker-{slot}.stderr",
                    folder / f"worker-{slot}.running",
                    folder / f"outbox-{slot}" if workers.outbox else None,
                    slot,
                    count,
                    workers.threads,
                    learner,
                )
            )
            for slot, count in enumerate(workers.agents_of_each())
        ]
        super().__init__(places, workers.restarts)
        self._next_look = 0.0

    def start(self) -> None:
        """Submit the jobs as one array; take over matching jobs of an earlier process of this run, cancel others."""
        for job, hosting in self._existing_jobs():
            place = self._places[hosting.slot] if hosting.slot < len(self._places) else None
            if place is not None and place.worker is None and place.hosting == hosting:
                place.worker = job
            else:
                job.cancel(check=False)
        self._begin([slot for slot, place in enumerate(self._places) if place.worker is None])

    def _existing_jobs(self) -> list[tuple[Any, Hosting]]:
        """Return the jobs left by an earlier process of this run, with their functions."""
        if self._workers.slurm.cluster == "local" or not self._record.exists():
            return []  # jobs on this machine end by themselves
        found = []
        for number, fields in json.loads(self._record.read_text()):
            job = self._submitit.SlurmJob(self._logs, number)
            if not job.done(force_check=True):
                paths = {
                    name: Path(fields[name])
                    for name in ("connection", "stderr", "mark", "outbox")
                    if fields[name]
                }
                found.append((job, Hosting(**(fields | paths))))
        return found

    def _begin(self, slots: Sequence[int]) -> None:
        """Submit the jobs of these workers, as an array if there are several, and note their numbers."""
        if not slots:
            return
        for place in (self._places[slot] for slot in slots):
            place.hosting.mark.unlink(missing_ok=True)
            place.began, place.killed_for = 0.0, ""
            place.said_before = size_of(place.hosting.stderr)
        try:
            with self._executor.batch():
                jobs = [self._executor.submit(self._places[slot].hosting) for slot in slots]
        except (OSError, RuntimeError) as error:
            raise RunError(
                f"SLURM did not take the jobs: {' '.join(str(error).split())}"
            ) from error
        for slot, job in zip(slots, jobs, strict=True):
            self._places[slot].worker = job
        record = [
            (
                place.worker.job_id,
                {key: _plain(value) for key, value in dataclasses.asdict(place.hosting).items()},
            )
            for place in self._places
            if place.worker is not None
        ]
        write_atomically(self._record, json.dumps(record).encode())

    def supervise(self) -> list[Death]:
        """Do as :meth:`MendingLauncher.supervise`, at most once a second."""
        now = time.monotonic()
        if now < self._next_look:
            return []
        self._next_look = now + _LOOK_EVERY
        return super().supervise()

    def _look_at(self, slot: int, place: _Place) -> Death | None:
        if place.given_up:
            death, place.given_up = Death(slot, place.given_up, None), ""
            return death
        job = place.worker
        if not job.done():
            if not place.began and place.hosting.mark.exists():
                place.began = time.monotonic()
            return None
        if job.paths.result_pickle.exists() and job.exception() is None:
            how = describe_exit(job.result())
        else:
            how = f"its job {job.job_id} ended as {job.state}"
        place.began = 0.0
        return self._bury(slot, how, last_stderr_lines(place.hosting.stderr, place.said_before))

    def running_for(self, slot: int) -> float:
        """Return the seconds since the job was first seen running, 0 while it is queued."""
        began = self._places[slot].began
        return time.monotonic() - began if began else 0.0

    def kill(self, slot: int, reason: str) -> None:
        """Cancel the job of a worker that hangs; one that SLURM has requeued stays in the queue."""
        place = self._places[slot]
        if place.worker is None or place.killed_for or place.given_up:
            return
        state = place.worker.get_info(mode="force").get("State", place.worker.state).upper()
        if state in _QUEUED_AGAIN:
            place.given_up = (
                f"{reason}; SLURM reports {state} for its job {place.worker.job_id}, which stays in the "
                "queue"
            )
            place.began = 0.0
        else:
            place.killed_for = reason
            place.worker.cancel(check=False)

    def waits_for(self) -> str:
        """Return which jobs are queued."""
        waiting = [
            place.worker.job_id
            for place in self._places
            if place.worker is not None and not place.began
        ]
        if not waiting:
            return ""
        numbers = ", ".join(waiting[:3]) + (", ..." if len(waiting) > 3 else "")
        return f"waiting for SLURM to start {len(waiting)} of {len(self._places)} jobs ({numbers})"

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, and cancel the jobs of those that do not."""
        until = time.monotonic() + patience
        jobs = [place.worker for place in self._places if place.worker is not None]
        running = [
            place.worker for place in self._places if place.worker is not None and place.began
        ]
        while time.monotonic() < until and not all(job.done() for job in running):
            time.sleep(0.1)
        for job in jobs:
            if not job.done():
                job.cancel(check=False)
        self._close()
        for place in self._places:
            place.hosting.mark.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
