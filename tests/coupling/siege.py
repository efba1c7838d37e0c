"""A run under siege: real commands, real processes, killed, stopped and cut off at random and at chosen moments.

:class:`Siege` starts `flowsim train`, disturbs it for a while, resumes it whenever it died, lets it finish in peace and
audits what the learner then holds against the journals of the environments. All that can be done to a run stands in
one file, so that each disturbance knows of the others.
"""

import contextlib
import csv
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil
import yaml
from audit import Audit, audit

from rl_agent.learner import Learner

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ORACLE = "oracle:test/Oracle-v0"
GUARD = 600.0  # seconds, against a hang only


class SiegeError(AssertionError):
    """The run did what it must not: ended by itself, hung, or left its ratio."""


class Siege:
    """One run and what is done to it.

    Parameters
    ----------
    folder
        Where the run is made.
    seed
        Of the moments and of the run.
    env
        The task, of ``oracle.py``.
    memory
        Steps that the replay memory holds: more than the run will have.
    env_options, agent, workers, run
        What differs from the defaults below. With ``workers.launcher: none`` the siege starts the workers, as somebody
        by hand would, and starts those again that end: they outlive the learner.

    Attributes
    ----------
    counts
        Kills, stops and starts, by kind.
    proxy
        What the workers reach the learner through, if anything; see :meth:`through`.
    """

    def __init__(
        self,
        folder: Path,
        seed=0,
        *,
        env=ORACLE,
        memory=2**17,
        env_options=None,
        agent=None,
        workers=None,
        run=None,
    ):
        self.folder, self.run_folder, self.journal = (
            folder,
            folder / "runs" / "run",
            folder / "journal",
        )
        self.journal.mkdir(parents=True)
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.proxy = None
        self._process: subprocess.Popen | None = None
        content = {
            "env": env,
            "env_options": {"journal": str(self.journal), "step_seconds": 0.001}
            | (env_options or {}),
            "agent": {
                "learning_starts": 500,
                "buffer_size": memory,
                "batch_size": 16,
                "hidden": [8],
            }
            | (agent or {}),
            "workers": {
                "processes": 2,
                "agents": 6,
                "restarts": 10**6,
                "heartbeat": 0.2,
                "dead_after": 2.0,
            }
            | (workers or {}),
            "run": {"steps": 10**9, "name": "run", "checkpoint_every": 1.0, "seed": seed}
            | (run or {}),
        }
        (folder / "preset.yaml").write_text(yaml.safe_dump(content))
        self._hands = (
            Hands(self, content["workers"])
            if content["workers"].get("launcher") == "none"
            else None
        )
        self._outboxes = (
            self.run_folder / "workers" if content["workers"].get("outbox", True) else None
        )
        self._notes = folder / "deaths"
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
            "OMP_NUM_THREADS": "1",
            "FLOWSIM_FAULT_NOTES": str(self._notes),
        }

    # --- the run --------------------------------------------------------------------------------------------

    def through(self, make) -> None:
        """Let the workers reach the learner through a proxy that ``make(endpoint function)`` makes."""
        self.proxy = make(self.learner_endpoint)
        self.environment["FLOWSIM_PROXY"] = str(self.proxy.port)

    def learner_endpoint(self) -> str | None:
        """Return where the learner itself listens."""
        try:
            return json.loads((self.run_folder / "direct.json").read_text())["endpoint"]
        except (OSError, ValueError):
            return None

    def learner_address(self) -> tuple[str, int] | None:
        """Return the same as host and port."""
        endpoint = self.learner_endpoint()
        return (split.hostname, split.port) if endpoint and (split := urlsplit(endpoint)) else None

    def start(self, faults="", overrides=()) -> None:
        """Begin the run, or go on with it; ``faults`` as of ``faults.py``."""
        begun = (self.run_folder / "checkpoint.npz").exists()
        words = ["resume", "runs/run"] if begun else ["train", "preset.yaml"]
        self.counts["resumes" if begun else "starts"] += 1
        with (self.folder / "stderr").open("ab") as stderr:
            stderr.write(f"--- {' '.join(words)} {faults}\n".encode())
            stderr.flush()
            self._said_before = stderr.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "faulty", *words, *overrides],
                cwd=self.folder,
                env=self.environment | {"FLOWSIM_FAULTS": faults},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """Return what the learner has said since it was started last."""
        with (self.folder / "stderr").open("rb") as file:
            file.seek(self._said_before)
            return file.read().decode(errors="replace")

    def wait_end(self, seconds=GUARD) -> int:
        """Wait until the learner has ended; returns its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.close()
            raise SiegeError(
                f"the learner did not end within {seconds:g} s:\n{self.said()[-3000:]}"
            ) from None

    def wait_steps(self, steps: int, seconds=GUARD) -> None:
        """Wait until the run has done so many environment steps since it was started last, or has died."""
        until, first = time.monotonic() + seconds, None
        while self.running:
            now = self.status_of_this_start().get("environment_steps")
            first = now if first is None else first
            if now is not None and now - first >= steps:
                return
            if time.monotonic() > until:
                raise SiegeError(
                    f"{steps} steps were not done within {seconds:g} s:\n{self.said()[-3000:]}"
                )
            time.sleep(0.05)

    def status(self) -> dict:
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.run_folder / "status.json").read_text())
        return {}

    def status_of_this_start(self) -> dict:
        status = self.status()
        return status if status.get("pid") == self._process.pid else {}

    def workers(self) -> list[psutil.Process]:
        """Return the living worker processes that the learner has started, or somebody by hand."""
        if self._hands is not None:
            return self._hands.living()
        found = []
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children():
                with contextlib.suppress(psutil.Error):
                    if any(
                        "coupling.worker" in word or "stand_by" in word for word in child.cmdline()
                    ):
                        found.append(child)
        return found

    # --- what is done to it ---------------------------------------------------------------------------------

    def kill_worker(self) -> None:
        """Kill a worker by SIGKILL."""
        if workers := self.workers():
            with contextlib.suppress(psutil.Error):
                self.random.choice(workers).kill()
                self.counts["worker_kills"] += 1

    def stop_worker(self) -> None:
        """Stop a worker by SIGSTOP for a while; often for longer than the learner believes in it."""
        if workers := self.workers():
            worker = self.random.choice(workers)
            with contextlib.suppress(psutil.Error):
                worker.suspend()
                self.counts["worker_stops"] += 1
                time.sleep(self.random.uniform(0.1, 3.0))
                worker.resume()

    def kill_learner(self) -> None:
        """Kill the learner by SIGKILL; its workers die with it."""
        if self.running:
            self._process.kill()
            self._process.wait()
            self.counts["learner_kills"] += 1

    def stop_learner(self) -> None:
        """Stop the learner by SIGSTOP for a while."""
        if self.running:
            self._process.send_signal(signal.SIGSTOP)
            self.counts["learner_stops"] += 1
            time.sleep(self.random.uniform(0.1, 3.0))
            self._process.send_signal(signal.SIGCONT)

    def kill_all(self) -> None:
        """Kill learner and workers at once."""
        workers = self.workers()
        if self.running:
            os.kill(self._process.pid, signal.SIGKILL)
            for worker in workers:
                with contextlib.suppress(psutil.Error):
                    worker.kill()
            self._process.wait()
            self.counts["kills_of_everything"] += 1

    def kill_all_amid_records(self, size=1500) -> None:
        """Kill learner and workers at a moment when the log holds some records that are in no checkpoint."""
        until = time.monotonic() + GUARD
        while time.monotonic() < until:
            self._process.send_signal(signal.SIGSTOP)  # so that no checkpoint comes between
            # it stops a little later, perhaps within a checkpoint
            with contextlib.suppress(OSError, ValueError):
                segments = (self.run_folder / "experience").glob("*.log")
                if max(segments, key=lambda path: path.name).stat().st_size >= size:
                    self.kill_all()
                    return
            self._process.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        raise SiegeError(f"the log never held {size} bytes:\n{self.said()[-3000:]}")

    def fill_disk(self) -> None:
        """Leave the learner no room for a while; a limit on the size of files stands for the disk."""
        if self.running:
            resource.prlimit(
                self._process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)
            )
            self.counts["full_disks"] += 1
            time.sleep(self.random.uniform(0.5, 4.0))
            with contextlib.suppress(ProcessLookupError):
                unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
                resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, unlimited)

    def cut(self) -> None:
        """Reset a connection."""
        self.proxy.cut()

    def swallow(self) -> None:
        """Let a connection carry nothing for a while."""
        self.proxy.swallow(self.random.uniform(0.5, 5.0))

    def disturb(
        self, seconds: float, rates: dict[str, float], faults=lambda random: "", needed=()
    ) -> None:
        """Do things to the run at Poisson moments, and resume it whenever it is dead.

        Parameters
        ----------
        seconds
            How long.
        rates
            How often per second, by the name of a method above.
        faults
            Gives the labelled deaths of each start.
        needed
            What has to have happened in the end, by its name in :meth:`done`, however long that takes.
        """
        until = time.monotonic() + seconds
        guard = until + GUARD
        while time.monotonic() < until or (not self._has_done(needed) and time.monotonic() < guard):
            if not self.running:
                self._check_death()
                self.start(faults(self.random))
                self._wait_for_workers()
            left = until - time.monotonic()
            time.sleep(min(self.random.expovariate(sum(rates.values())), left if left > 0 else 1.0))
            if self.running:
                getattr(self, self.random.choices(list(rates), list(rates.values()))[0])()

    def _has_done(self, needed) -> bool:
        done = self.done()
        return all(done.get(name, 0) for name in needed)

    def die_at(self, point: str, count: int, seconds=GUARD) -> None:
        """Start the run and wait until it, or a worker, has died at a labelled point."""
        before = self.deaths()[point]
        self.start(f"{point}={count}")
        until = time.monotonic() + seconds
        while self.deaths()[point] == before:
            if time.monotonic() > until or not (self.running or self.deaths()[point] > before):
                raise SiegeError(f"nothing died at {point}:\n{self.said()[-3000:]}")
            time.sleep(0.02)
        if point.startswith("learner."):
            self.wait_end()

    def deaths(self) -> Counter[str]:
        """Return how often something died at each labelled point."""
        return Counter(self._notes.read_text().split()) if self._notes.exists() else Counter()

    def _wait_for_workers(self, seconds=GUARD) -> None:
        """Wait until something can be disturbed."""
        until = time.monotonic() + seconds
        while self.running and not self.workers():
            if time.monotonic() > until:
                raise SiegeError(
                    f"no worker was started within {seconds:g} s:\n{self.said()[-3000:]}"
                )
            time.sleep(0.05)

    def _check_death(self) -> None:
        """Make sure that the learner was killed and did not end by itself."""
        if self._process is not None and self._process.returncode != -signal.SIGKILL:
            raise SiegeError(
                f"the learner ended with {self._process.returncode}:\n{self.said()[-3000:]}"
            )

    # --- the end --------------------------------------------------------------------------------------------

    def finish(self, more=500, overrides=()) -> Audit:
        """Let the run finish in peace, and check that nothing is lost or doubled and that the ratio is exact."""
        if self.running:
            # one that still loads has no handler yet, and none at all where who has started it ignores SIGINT
            self.wait_steps(0)
            self._process.send_signal(signal.SIGINT)
            code = self.wait_end()
            if code not in (130, -signal.SIGKILL):
                raise SiegeError(
                    f"told to stop, the learner ended with {code}:\n{self.said()[-3000:]}"
                )
        for attempt in range(3):
            done = Learner.load(self.checkpoint).environment_steps
            steps = max(self.status().get("environment_steps", 0), done) + more
            # the log may hold more than the status had said
            self.start(overrides=[f"run.steps={steps + attempt * 10_000}", *overrides])
            if self.wait_end() == 0:
                break
        else:
            raise SiegeError(f"the run did not finish:\n{self.said()[-3000:]}")
        if self.status()["gradient_steps"] > self._planned():
            # all that was left came from the log: what was learned for actions that the last death took back is a
            # credit for the steps that follow
            steps = self.status()["environment_steps"] + more
            self.start(overrides=[f"run.steps={steps}", *overrides])
            self.wait_end()
        status, learner = self.status(), Learner.load(self.checkpoint)
        if status["state"] != "finished" or status["gradient_steps"] != self._planned():
            raise SiegeError(
                f"the run is {status['state']}, with {status['gradient_steps']} of {self._planned()} updates"
            )
        if sum(status["agents"].values()) != learner.environment_steps:
            raise SiegeError(
                f"agents reported {sum(status['agents'].values())}, not {learner.environment_steps} steps"
            )
        with (self.run_folder / "episodes.csv").open(newline="") as file:
            lengths = [int(row["length"]) for row in csv.DictReader(file)]
        if (len(lengths), sum(lengths)) != (
            learner.episodes,
            learner.memory.storage.env_steps,
        ):
            raise SiegeError(
                f"episodes.csv has {len(lengths)} episodes of {sum(lengths)} steps, not {learner.episodes}"
            )
        return audit(learner, self.journal, self._outboxes)

    def _planned(self) -> int:
        """Return the gradient steps that belong to the actions after warm-up."""
        status = self.status()
        return int(status["steps_after_warm_up"] / status["env_steps_per_gradient_step"])

    @property
    def checkpoint(self) -> Path:
        return self.run_folder / "checkpoint.npz"

    def done(self) -> dict[str, int]:
        """Return all that was done to the run."""
        labelled = {f"died_at_{point}": count for point, count in sorted(self.deaths().items())}
        return dict(self.counts) | labelled | (dict(self.proxy.counts) if self.proxy else {})

    def close(self) -> None:
        """End whatever still runs."""
        if self._hands is not None:
            self._hands.close()
        workers = self.workers() if self.running else []
        if self.running:
            self._process.kill()
            self._process.wait()
        for worker in workers:
            with contextlib.suppress(psutil.Error):
                worker.kill()
        if self.proxy is not None:
            self.proxy.close()


class Hands:
    """Somebody who starts the workers of a run, and starts those again that have ended."""

    def __init__(self, siege: Siege, workers):
        self._siege = siege
        self._agents = np.array_split(np.arange(workers["agents"]), workers["processes"])
        self._processes: dict[int, subprocess.Popen] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tend, daemon=True)
        self._thread.start()

    def _tend(self):
        while not self._ended.wait(0.3):
            if not (self._siege.run_folder / "connection.json").exists():
                continue
            for slot, agents in enumerate(self._agents):
                process = self._processes.get(slot)
                if process is None or process.poll() is not None:
                    self._processes[slot] = self._start(slot, len(agents))

    def _start(self, slot, environments):
        folder = self._siege.run_folder / "workers"
        folder.mkdir(exist_ok=True)
        words = ["--connect", str(self._siege.run_folder / "connection.json"), "--slot", str(slot)]
        words += ["--environments", str(environments), "--outbox", str(folder / f"outbox-{slot}")]
        with (folder / f"worker-{slot}.stderr").open("ab") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "coupling.worker", *words],
                env=self._siege.environment, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
            )  # fmt: skip

    def living(self):
        """Return the processes that are there."""
        found = []
        for process in list(self._processes.values()):
            with contextlib.suppress(psutil.Error):
                if process.poll() is None:
                    found.append(psutil.Process(process.pid))
        return found

    def close(self):
        """Start no more, and end those that are there."""
        self._ended.set()
        self._thread.join(10)
        for process in self._processes.values():
            process.kill()
            process.wait()
