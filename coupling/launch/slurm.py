"""Workers on a SLURM cluster: each one is a job of an array, which submitit submits and SLURM queues again.

The run folder has to be on a file system that the nodes share: jobs find the connection file there, and the learner
finds there what they say. submitit passes jobs on as pickles in that folder, which hold paths and numbers only.
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
from coupling.files import private_opener, write_atomically
from coupling.launch.launcher import Death, Mending, describe_exit, last_words, worker_command, worker_environment
from coupling.settings.config import WorkerSettings

__all__ = ["Hosting", "SlurmLauncher"]

_LOOK_EVERY = 1.0  # seconds between looks at the jobs' files; the queue itself is asked rarely, and by submitit
_QUEUED_AGAIN = ("PENDING", "REQUEUED", "PREEMPTED")  # states of a job whose worker is silent, but does not hang


@dataclass(frozen=True)
class Hosting:
    """What a job does: run one worker. submitit stores it, so it holds nothing that is secret.

    Attributes
    ----------
    connection, stderr, mark, outbox
        The connection file; what the worker says; a file that is there while the job runs; the outbox, if there is one.
    slot, environments, threads
        Of the worker.
    learner
        Process of the learner on this machine, without which the job ends; 0 on a cluster, where SLURM ends it.
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
        write_atomically(self.mark, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
        with open(self.stderr, "ab", opener=private_opener) as stderr:
            process = subprocess.Popen(
                worker_command(self.connection, self.slot, self.environments, self.outbox),
                env=worker_environment(self.threads),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,  # the signal by which SLURM announces the end of a job is for this process
            )
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
                os.kill(self.learner, 0)  # 0 means this process, which is there
            except ProcessLookupError:
                return False
        return True

    def checkpoint(self) -> Any:
        """Return what SLURM runs when it queues the job again, at its time limit or after a preemption: the same."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass
class _Place:
    """One worker's place, through all its jobs."""

    hosting: Hosting
    job: Any = None
    said_before: int = 0
    began: float = 0.0  # when its mark was seen first
    killed_for: str = ""
    given_up: str = ""  # why its session is over while the job stays in the queue
    restart_at: float = 0.0


class SlurmLauncher:
    """Keeps one job for each worker.

    Parameters
    ----------
    workers
        The settings.
    connection
        The ``connection.json`` of the learner.
    folder
        Where the jobs' files are kept, and their numbers, by which a resumed run finds them.

    Raises
    ------
    RunError
        When submitit does not accept the settings.
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
        self._places = [
            _Place(
                Hosting(
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
        self._mending = Mending(len(self._places), workers.restarts)
        self._next_look = 0.0
        self.restarts = 0

    def start(self) -> None:
        """Submit the jobs as one array; take over those of a run that has died, or cancel them if they do not fit."""
        for job, hosting in self._jobs_there():
            place = self._places[hosting.slot] if hosting.slot < len(self._places) else None
            if place is not None and place.job is None and place.hosting == hosting:
                place.job = job
            else:
                job.cancel(check=False)
        self._submit([slot for slot, place in enumerate(self._places) if place.job is None])

    def _jobs_there(self) -> list[tuple[Any, Hosting]]:
        """Return the jobs that an earlier process of this run has left, with what they do."""
        if self._workers.slurm.cluster == "local" or not self._record.exists():
            return []  # jobs of this machine end by themselves
        found = []
        for number, fields in json.loads(self._record.read_text()):
            job = self._submitit.SlurmJob(self._logs, number)
            if not job.done(force_check=True):
                paths = {
                    name: Path(fields[name]) for name in ("connection", "stderr", "mark", "outbox") if fields[name]
                }
                found.append((job, Hosting(**(fields | paths))))
        return found

    def _submit(self, slots: Sequence[int]) -> None:
        """Submit the jobs of these workers, as an array if there are several, and note their numbers."""
        if not slots:
            return
        for place in (self._places[slot] for slot in slots):
            place.hosting.mark.unlink(missing_ok=True)
            place.began, place.killed_for = 0.0, ""
            stderr = place.hosting.stderr
            place.said_before = stderr.stat().st_size if stderr.exists() else 0
        try:
            with self._executor.batch():
                jobs = [self._executor.submit(self._places[slot].hosting) for slot in slots]
        except (OSError, RuntimeError) as error:
            raise RunError(f"SLURM did not take the jobs: {' '.join(str(error).split())}") from error
        for slot, job in zip(slots, jobs, strict=True):
            self._places[slot].job = job
        record = [
            (place.job.job_id, {key: _plain(value) for key, value in dataclasses.asdict(place.hosting).items()})
            for place in self._places
            if place.job is not None
        ]
        write_atomically(self._record, json.dumps(record).encode())

    def supervise(self) -> list[Death]:
        """Collect the workers that have died and submit those again whose pause is over.

        Returns
        -------
        list of Death
            The deaths since the last call.

        Raises
        ------
        RunError
            When a worker died more often than is mended, or SLURM does not take its job.
        """
        now, deaths = time.monotonic(), list[Death]()
        if now < self._next_look:
            return deaths
        self._next_look = now + _LOOK_EVERY
        due = []
        for slot, place in enumerate(self._places):
            if place.job is None:
                due += [slot] if now >= place.restart_at else []
            elif place.given_up:
                deaths.append(Death(slot, place.given_up, None))
                place.given_up = ""
            elif place.job.done():
                deaths.append(self._bury(slot, place))
            elif not place.began and place.hosting.mark.exists():
                place.began = now
        self.restarts += len(due)
        self._submit(due)
        return deaths

    def _bury(self, slot: int, place: _Place) -> Death:
        if place.job.paths.result_pickle.exists() and place.job.exception() is None:
            how = describe_exit(place.job.result())
        else:
            how = f"its job {place.job.job_id} ended as {place.job.state}"
        death = Death(slot, place.killed_for or how, last_words(place.hosting.stderr, place.said_before))
        place.job, place.began = None, 0.0
        place.restart_at = self._mending.restart_at(death)
        return death

    def running_for(self, slot: int) -> float:
        """Return the seconds since the job was seen to run, 0 while it stands in the queue."""
        began = self._places[slot].began
        return time.monotonic() - began if began else 0.0

    def kill(self, slot: int, reason: str) -> None:
        """Cancel the job of a worker that hangs; one that SLURM has put back into its queue stays there."""
        place = self._places[slot]
        if place.job is None or place.killed_for or place.given_up:
            return
        state = place.job.get_info(mode="force").get("State", place.job.state).upper()
        if state in _QUEUED_AGAIN:
            place.given_up = f"{reason}; SLURM says {state} of its job {place.job.job_id}, which stays in the queue"
            place.began = 0.0
        else:
            place.killed_for = reason
            place.job.cancel(check=False)

    def waits_for(self) -> str:
        """Return which jobs stand in the queue."""
        waiting = [place.job.job_id for place in self._places if place.job is not None and not place.began]
        if not waiting:
            return ""
        numbers = ", ".join(waiting[:3]) + (", ..." if len(waiting) > 3 else "")
        return f"waiting for SLURM to begin {len(waiting)} of {len(self._places)} jobs ({numbers})"

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, and cancel the jobs of those that do not."""
        until = time.monotonic() + patience
        jobs = [place.job for place in self._places if place.job is not None]
        running = [place.job for place in self._places if place.job is not None and place.began]
        while time.monotonic() < until and not all(job.done() for job in running):
            time.sleep(0.1)
        for job in jobs:
            if not job.done():
                job.cancel(check=False)
        for place in self._places:
            place.job, place.restart_at = None, float("inf")
            place.hosting.mark.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
