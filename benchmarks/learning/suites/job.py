"""Run one training in its own process: ``python -m benchmarks.learning.suites.job JOB.json``.

The job resumes from its checkpoint. On SIGINT or SIGTERM, or when its parent process has ended, it saves a checkpoint
and stops. A complete job has its curve (curve.csv) and its result (result.json) in its work folder. Seconds count
training only, without evaluation and checkpoints.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from filelock import FileLock

from benchmarks.learning.suites.plan import Job
from benchmarks.studies import CURVE, RESULT, pack, read, read_table
from coupling.evaluation.evaluate import Controller, PolicyController, evaluate
from coupling.files import Table, write_atomically
from coupling.origin import machine, provenance
from coupling.worker.environments import describe_task, make_vector
from rl_agent.config import AgentConfig, default_settings
from rl_agent.config.old_names import current_settings
from rl_agent.learner import Learner
from rl_agent.rollout.in_process import SerialRun
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed

ROWS = 200  # per curve
LEAST_ROW = 100  # environment steps between rows, at least
LOOK_EVERY = 250  # environment steps between checks whether to stop
INTERRUPTED = 3  # exit status
LOGGED = (
    "beta",
    "far_fraction",
    "kl",
)  # logged by the learner at the end of a row: beta, and means over the memory
EVALUATED = ("mean_return", "mean_length", "survival")  # of evaluations during training

Episodes = Sequence[tuple[float, int]]  # return and length


class Interrupted(Exception):  # noqa: N818
    """The job was interrupted before it was complete."""


class Clock:
    """Stopwatch for the CPU seconds of this process and wall seconds between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def start(self) -> None:
        """Start or resume counting."""
        self._begin = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        """Stop counting."""
        self.cpu += time.process_time() - self._begin[0]
        self.wall += time.perf_counter() - self._begin[1]


class Curve:
    """The curve of a training, written row by row, and its clock.

    Parameters
    ----------
    path
        The CSV file; its rows up to ``steps`` are kept.
    steps
        Environment steps at which the training starts or resumes.
    """

    def __init__(self, path: Path, steps: int) -> None:
        self.clock = Clock()
        self._table = Table(path)
        kept = [row for row in self._table.read() if int(row["environment_steps"]) <= steps]
        self._table.replace(kept)
        if kept:
            self.clock.cpu, self.clock.wall = (
                float(kept[-1]["cpu_seconds"]),
                float(kept[-1]["wall_seconds"]),
            )

    def add(
        self,
        steps: int,
        episodes: Episodes,
        evaluated: Mapping[str, Any] | None = None,
        logged: Mapping[str, float] | None = None,
    ) -> None:
        """Append a row: means over the training episodes since the last row, an evaluation, and learner statistics."""
        mean_return, mean_length = np.mean(episodes, axis=0) if episodes else ("", "")
        row = {
            "environment_steps": steps,
            "cpu_seconds": round(self.clock.cpu, 3),
            "wall_seconds": round(self.clock.wall, 3),
            "episodes": len(episodes),
            "mean_return": mean_return,
            "mean_length": mean_length,
            **(
                {f"evaluated_{key}": evaluated[key] for key in EVALUATED if key in evaluated}
                if evaluated
                else {}
            ),
            **{key: logged[key] for key in LOGGED if logged},
        }
        self._table.append([row])


def train_own(
    job: Job, folder: Path, checkpoint_every: float, told_to_stop: Callable[[], bool]
) -> Curve:
    """Train an agent of rl_agent, deterministically between checkpoints, and save a final checkpoint."""
    checkpoint = folder / "checkpoint"
    task = describe_task(job.env, job.options_in_training)
    if checkpoint.exists():
        learner = Learner.load(checkpoint)
    else:
        config = AgentConfig.model_validate(job.agent)
        learner = Learner(
            config,
            task.observation_space,
            task.action_space,
            agents=job.agents,
            seed=job.seed,
            agents_per_env=task.agents_per_env,
        )
    curve = _begin_curve(folder, learner.environment_steps)
    environments = make_vector(job.env, job.options_in_training, job.agents, guarded=False)
    run = SerialRun(learner, environments, _first_seeds(job, learner.environment_steps))
    learner.finished_episodes()  # discard episodes cut short by an interruption
    saved = time.monotonic()
    while not job.is_enough(learner.environment_steps, curve.clock.cpu):
        before = learner.environment_steps
        goal = _next_row(job, before)
        curve.clock.start()
        while learner.environment_steps < goal and not told_to_stop():
            run.run(min(LOOK_EVERY, goal - learner.environment_steps))
        curve.clock.stop()
        is_told = told_to_stop()
        is_due = (
            job.evaluate_every
            and learner.environment_steps // job.evaluate_every > before // job.evaluate_every
        )
        curve.add(
            learner.environment_steps,
            [(episode.episode_return, episode.length) for episode in learner.finished_episodes()],
            _evaluate(job, PolicyController(learner.policy(), deterministic=True, seed=job.seed))
            if is_due
            else None,
            learner.statistics(),
        )
        if is_told or time.monotonic() - saved >= checkpoint_every:
            learner.save(checkpoint)
            saved = time.monotonic()
        if is_told:
            raise Interrupted
    environments.close()
    learner.save(checkpoint)
    return curve


def _first_seeds(job: Job, steps: int) -> list[int]:
    """Return the seed of each environment at the step at which the training starts or resumes."""
    return [episode_seed(Purpose.TRAINING, job.seed, agent, steps) for agent in range(job.agents)]


def _evaluate(job: Job, controller: Controller) -> dict[str, Any]:
    """Evaluate a policy on held-out episodes, without the options used in training only."""
    return evaluate(
        job.env,
        job.env_options,
        controller,
        episodes=job.evaluate_episodes,
        seed=EVALUATION_SEED,
    ).summary()


def own_controller(job: Job, folder: Path, *, deterministic: bool) -> Controller:
    """Return the trained policy of rl_agent as a controller."""
    policy = Learner.load(folder / "checkpoint").policy()
    return PolicyController(policy, deterministic=deterministic, seed=job.seed)


def train_sb3(
    job: Job, folder: Path, checkpoint_every: float, told_to_stop: Callable[[], bool]
) -> Curve:
    """Train an algorithm of stable-baselines3, always from the start, because its replay memory is not saved."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.learning.suites.sb3 import Environments

    torch.set_num_threads(1)
    assert job.sb3 is not None
    algorithm = getattr(stable_baselines3, job.sb3["sb3"])
    settings = {key: value for key, value in job.sb3.items() if key != "sb3"}
    agents_per_env = describe_task(job.env, job.options_in_training).agents_per_env
    vector = make_vector(job.env, job.options_in_training, job.agents, guarded=False)
    environments = Environments(vector, _first_seeds(job, 0), agents_per_env)
    model = algorithm("MlpPolicy", environments, seed=job.seed, device="cpu", **settings)
    curve = _begin_curve(folder, 0)

    class Rows(BaseCallback):
        """Callback that writes the rows of the curve."""

        goal = _next_row(job, 0)

        def _on_step(self) -> bool:
            steps = self.num_timesteps // agents_per_env
            if steps >= self.goal:
                curve.clock.stop()
                curve.add(steps, environments.take_episodes())
                self.goal = _next_row(job, steps)
                curve.clock.start()
            return not (told_to_stop() or job.is_enough(steps, curve.clock.cpu))

    curve.clock.start()
    model.learn(total_timesteps=job.steps * agents_per_env, callback=Rows())
    curve.clock.stop()
    if not job.is_enough(model.num_timesteps // agents_per_env, curve.clock.cpu):
        raise Interrupted
    model.save(folder / "model.zip")
    environments.close()
    return curve


def sb3_controller(job: Job, folder: Path, *, deterministic: bool) -> Controller:
    """Return the trained policy of stable-baselines3 as a controller."""
    import stable_baselines3

    from benchmarks.learning.suites.sb3 import ModelController

    assert job.sb3 is not None
    model = getattr(stable_baselines3, job.sb3["sb3"]).load(folder / "model.zip", device="cpu")
    return ModelController(
        model,
        deterministic=deterministic,
        agents_per_env=describe_task(job.env, job.options_in_training).agents_per_env,
    )


def _next_row(job: Job, steps: int) -> int:
    every = max(LEAST_ROW, job.steps // ROWS)
    return min((steps // every + 1) * every, max(job.steps, steps + 1))


def _begin_curve(folder: Path, steps: int) -> Curve:
    """Open the curve and record the step at which the training starts or resumes."""
    starts = folder / "starts.json"
    before = json.loads(starts.read_text()) if starts.exists() else []
    write_atomically(starts, json.dumps([*before, steps]).encode())
    return Curve(folder / CURVE, steps)


def carry_out(
    job: Job, results: Path, work: Path, checkpoint_every: float, told_to_stop: Callable[[], bool]
) -> None:
    """Train, evaluate and write the result into ``work``, unless the study already has it.

    Raises
    ------
    Interrupted
        If interrupted; the checkpoint is in ``work``.
    ValueError
        If there is a training of the same name with other settings.
    """
    folder = work / job.name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock", timeout=120):
        kept, left = _kept(job, results), folder / RESULT
        if kept and not _is_of(kept, job):
            raise ValueError(f"{results} has a training {job.name} with other settings")
        for path in (folder / "settings.json", left):
            if path.exists() and not _is_of(json.loads(path.read_text()), job):
                raise ValueError(
                    f"{path} is of a training with other settings; move it away to train again"
                )
        if is_complete(job, results) or (
            left.exists() and _is_enough(json.loads(left.read_text()), job)
        ):
            return
        write_atomically(
            folder / "settings.json", json.dumps({"settings": job.settings()}, indent=1).encode()
        )
        train, controller = (train_sb3, sb3_controller) if job.sb3 else (train_own, own_controller)
        curve = train(job, folder, checkpoint_every, told_to_stop)
        last = Table(folder / CURVE).read()[-1]
        evaluation = {
            kind: _evaluate(job, controller(job, folder, deterministic=kind == "deterministic"))
            for kind in ("deterministic", "drawing")
        }
        found = {
            "name": job.name,
            "settings": job.settings(),
            "steps": int(last["environment_steps"]),
            "cpu_seconds": round(curve.clock.cpu, 3),
            "wall_seconds": round(curve.clock.wall, 3),
            "starts": json.loads((folder / "starts.json").read_text()),
            "evaluation": evaluation,
            **provenance(),
            "machine": machine(),
            "task_versions": {
                "gymnasium": gymnasium.__version__,
                **_versions("mujoco", "stable-baselines3"),
            },
        }
        write_atomically(left, json.dumps(found, indent=1).encode())


def keep(job: Job, results: Path, work: Path) -> None:
    """Add the result of a complete job to the file of its study, replacing a shorter training of the same job."""
    folder = work / job.name
    if (folder / RESULT).exists():
        row = json.loads((folder / RESULT).read_text())
        pack(results, [row | {"curve": read_table(folder / CURVE)}], replace=True)


def _versions(*packages: str) -> dict[str, str]:
    installed = {
        found.metadata["Name"]: found.version for found in importlib.metadata.distributions()
    }
    return {package: installed[package] for package in packages if package in installed}


def is_complete(job: Job, results: Path) -> bool:
    """Return whether the results contain this job with these settings and at least this length."""
    found = _kept(job, results)
    return found is not None and _is_of(found, job) and _is_enough(found, job)


def _kept(job: Job, results: Path) -> dict[str, Any] | None:
    """Return the row of a job in a study, or None."""
    return next((row for row in read(results) if row["name"] == job.name), None)


def _is_enough(found: dict[str, Any], job: Job) -> bool:
    return job.is_enough(found["steps"], found["cpu_seconds"])


def _is_of(found: dict[str, Any], job: Job) -> bool:
    """Return whether a training had the settings of the job; settings that did not exist then count as defaults."""
    settings, agent = found["settings"], found["settings"]["agent"]
    if agent is not None and job.agent is not None:
        agent = current_settings(agent)
        younger = {key: default_settings()[key] for key in job.agent.keys() - agent.keys()}
        as_kept = json.loads(json.dumps(younger))  # turns tuples into lists
        settings = settings | {"agent": agent | as_kept}
    return settings == job.settings()


def main() -> int:
    """Run the job described in a file."""
    order: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    parent, noted = order["parent"], []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: noted.append(True))
    told_to_stop = lambda: bool(noted) or os.getppid() != parent  # noqa: E731
    results, work = Path(order["results"]), Path(order["work"])
    try:
        carry_out(Job(**order["job"]), results, work, order["checkpoint_every"], told_to_stop)
    except Interrupted:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
