"""Suites of trainings as data, and the single jobs that they consist of."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.learning.suites.comparison import refuse_unlike
from benchmarks.studies import read
from coupling.settings.config import load_config
from coupling.settings.content import read_yaml
from rl_agent.config import AgentConfig

__all__ = ["Contrast", "Job", "Result", "Suite", "jobs_of", "read_plan", "read_results", "slug"]


class Contrast(BaseModel):
    """Two methods that are compared, and the settings that they differ in; a suite with others in it is refused.

    Attributes
    ----------
    methods
        The first is compared with the second.
    differ_in
        Names of settings of an agent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    methods: tuple[str, str]
    differ_in: list[str] = Field(min_length=1)

    @property
    def name(self) -> str:
        """The contrast in words."""
        return f"{self.methods[0]} against {self.methods[1]}"


class Suite(BaseModel):
    """Methods that are trained on the same tasks.

    Attributes
    ----------
    about
        What the suite shows, for the page.
    presets
        The tasks, as presets of flowsim.
    env_options
        Changes of the options that the presets give their environments.
    agents
        Environments that are stepped side by side in one process.
    steps, cpu_seconds
        A job ends with whichever comes first: environment steps over all agents, or CPU seconds of its training.
    seeds
        Seeds 0, 1, ...
    evaluate_episodes
        Episodes in which the last policy is evaluated.
    evaluate_every
        Environment steps between evaluations of the current policy during training; only for our own agents.
    training_options
        Changes of the environment's options while an agent trains; it is evaluated without.
    agent
        Settings shared by the methods that have settings of an agent.
    methods
        By name: ``{}`` for the preset's agent, settings of an agent, or ``{sb3: CLASS, ...}``.
    contrasts
        Which methods are compared, and in what alone they differ.
    beside
        Suites whose curves on the same tasks are drawn beside these, or single methods as ``SUITE/METHOD``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    about: str
    presets: list[str] = Field(min_length=1)
    env_options: dict[str, Any] = Field(default_factory=dict)
    agents: int = Field(default=1, ge=1)
    steps: int = Field(ge=1)
    cpu_seconds: float | None = Field(default=None, gt=0)
    seeds: int = Field(ge=1)
    evaluate_episodes: int = Field(default=10, ge=1)
    evaluate_every: int | None = Field(default=None, ge=1)
    training_options: dict[str, Any] = Field(default_factory=dict)
    agent: dict[str, Any] = Field(default_factory=dict)
    methods: dict[str, dict[str, Any]] = Field(min_length=1)
    contrasts: list[Contrast] = Field(default_factory=list)
    beside: list[str] = Field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Job:
    """One training: everything that decides it.

    Attributes
    ----------
    suite, env, method, seed
        Who it is.
    steps, cpu_seconds
        When it ends; what has been trained for less can go on.
    env_options, agents, evaluate_episodes
        The task, how many of it are trained on, and in how many of its episodes the last policy is evaluated.
    agent
        Resolved settings of our agent, or None.
    sb3
        Class and settings of stable-baselines3, or None.
    training_options
        Changes of the options while it trains.
    evaluate_every
        Environment steps between evaluations during training.
    """

    suite: str
    env: str
    method: str
    seed: int
    steps: int
    cpu_seconds: float | None
    env_options: dict[str, Any]
    agents: int
    evaluate_episodes: int
    agent: dict[str, Any] | None
    sb3: dict[str, Any] | None
    training_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    evaluate_every: int | None = None

    @property
    def task(self) -> str:
        """The environment without its namespace or module."""
        return re.split(r"[/:.]", self.env)[-1]

    @property
    def options_in_training(self) -> dict[str, Any]:
        """Options of the environments that it trains in."""
        return self.env_options | self.training_options

    @property
    def name(self) -> str:
        """Its name in the file of the study, and its folder inside the folder of work."""
        return f"{self.suite}/{self.task}_{slug(self.method)}_seed{self.seed}"

    def settings(self) -> dict[str, Any]:
        """What may not change when a job goes on, as it comes back from JSON; what is unused is left out."""
        unused: tuple[tuple[str, Any], ...] = (("training_options", {}), ("evaluate_every", None))
        fixed = {
            key: value
            for key, value in dataclasses.asdict(self).items()
            if key not in ("steps", "cpu_seconds") and (key, value) not in unused
        }
        return json.loads(json.dumps(fixed))

    def is_enough(self, steps: int, cpu_seconds: float) -> bool:
        """Whether a training of this length is complete."""
        return steps >= self.steps or (
            self.cpu_seconds is not None and cpu_seconds >= self.cpu_seconds
        )


Result = dict[str, Any]
"""A row of a study: what a complete job keeps, with its curve."""


def slug(words: str) -> str:
    """Return a name that is fit for a file: ``DDPG + ReF-ER`` becomes ``ddpg_refer``."""
    return re.sub(r"[^a-z0-9]+", "_", words.replace("-", "").lower())


def read_plan(path: Path) -> dict[str, Suite]:
    """Read and validate the suites."""
    plan = {name: Suite.model_validate(content) for name, content in read_yaml(path).items()}
    for name, suite in plan.items():
        unknown = {of for of in suite.beside if not _is_known(of, plan)}
        if unknown:
            raise ValueError(
                f"suite {name} is beside {', '.join(sorted(unknown))}, which {path} does not have"
            )
    return plan


def _is_known(beside: str, plan: dict[str, Suite]) -> bool:
    suite, _, method = beside.partition("/")
    return suite in plan and (not method or method in plan[suite].methods)


def jobs_of(name: str, suite: Suite) -> list[Job]:
    """Return the jobs of a suite, all methods with seed 0 first, validated before any of them runs.

    Raises
    ------
    ValueError
        If two of them would have the same files, or methods that are compared differ in more than is said.
    """
    jobs = [
        _job(name, suite, preset, method, seed)
        for seed in range(suite.seeds)
        for preset in suite.presets
        for method in suite.methods
    ]
    (most, times), *_ = Counter(job.name for job in jobs).most_common(1)
    if times > 1:
        raise ValueError(f"{times} jobs of suite {name} are called {most}; give each its own suite")
    for contrast in suite.contrasts:
        _check(name, contrast, jobs)
    return jobs


def _check(name: str, contrast: Contrast, jobs: list[Job]) -> None:
    """Refuse a contrast of methods that are not there, are not ours, or differ in more than is said."""
    settings: dict[str, Any] = {job.method: job.agent for job in jobs}
    what = f"suite {name}, {contrast.name}"
    for method in contrast.methods:
        if settings.get(method) is None:
            raise ValueError(f"{what}: there is no agent of ours with the name {method}")
    first, second = (settings[method] for method in contrast.methods)
    refuse_unlike(what, first, second, contrast.differ_in)


def _job(name: str, suite: Suite, preset: str, method: str, seed: int) -> Job:
    config, settings = load_config(preset), suite.methods[method]
    is_foreign = "sb3" in settings
    agent = (
        AgentConfig.model_validate(suite.agent | settings)
        if settings and not is_foreign
        else config.agent
    )
    return Job(
        suite=name,
        env=config.env,
        method=method,
        seed=seed,
        steps=suite.steps,
        cpu_seconds=suite.cpu_seconds,
        env_options=config.env_options | suite.env_options,
        agents=suite.agents,
        evaluate_episodes=suite.evaluate_episodes,
        agent=None if is_foreign else agent.model_dump(mode="json", exclude={"defaults"}),
        sb3=settings if is_foreign else None,
        training_options=config.training_options | suite.training_options,
        evaluate_every=suite.evaluate_every,
    )


def read_results(study: Path, suite: str) -> list[Result]:
    """Return what the file of a study has of a suite, each training with the rows of its ``curve``."""
    return [row for row in read(study) if row["name"].rpartition("/")[0] == suite]
