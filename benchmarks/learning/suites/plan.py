"""Suites of trainings as data, and the jobs of which they consist."""

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
    """Two methods to compare, and the settings in which they differ; any other difference is an error.

    Attributes
    ----------
    methods
        The first is compared with the second.
    differ_in
        Names of the agent's settings that differ.
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
        Overrides of the environment options of the presets.
    agents
        Environments that are stepped together in one process.
    steps, cpu_seconds
        Limits of a job, whichever is reached first: environment steps over all agents, or CPU seconds of training.
    seeds
        Number of seeds: 0, 1, ...
    evaluate_episodes
        Episodes in which the last policy is evaluated.
    evaluate_every
        Environment steps between evaluations of the current policy during training; only for agents of rl_agent.
    training_options
        Overrides of the environment options during training, not used in evaluation.
    agent
        Settings shared by the methods that specify agent settings.
    methods
        By name: ``{}`` for the preset's agent, settings of an agent, or ``{sb3: CLASS, ...}``.
    contrasts
        Pairs of methods to compare, and the only settings in which they differ.
    beside
        Suites, or single methods as ``SUITE/METHOD``, whose curves on the same tasks are plotted for comparison.
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
    """Complete specification of one training.

    Attributes
    ----------
    suite, env, method, seed
        Identity of the job.
    steps, cpu_seconds
        Limits of the training; a shorter training can be continued.
    env_options, agents, evaluate_episodes
        Options of the environment, number of environments, and number of evaluation episodes of the last policy.
    agent
        Resolved settings of an agent of rl_agent, or None.
    sb3
        Class and settings of stable-baselines3, or None.
    training_options
        Overrides of the environment options during training.
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
        """Environment options used in training."""
        return self.env_options | self.training_options

    @property
    def name(self) -> str:
        """Name in the file of the study, and folder within the work folder."""
        return f"{self.suite}/{self.task}_{slug(self.method)}_seed{self.seed}"

    def settings(self) -> dict[str, Any]:
        """Return the settings that must not change when a job is continued, as read from JSON, without unused ones."""
        unused: tuple[tuple[str, Any], ...] = (("training_options", {}), ("evaluate_every", None))
        fixed = {
            key: value
            for key, value in dataclasses.asdict(self).items()
            if key not in ("steps", "cpu_seconds") and (key, value) not in unused
        }
        return json.loads(json.dumps(fixed))

    def is_enough(self, steps: int, cpu_seconds: float) -> bool:
        """Return whether a training of this length is complete."""
        return steps >= self.steps or (
            self.cpu_seconds is not None and cpu_seconds >= self.cpu_seconds
        )


Result = dict[str, Any]
"""A row of a study: the result of a complete job, with its curve."""


def slug(words: str) -> str:
    """Return a name suitable for a file: ``DDPG + ReF-ER`` becomes ``ddpg_refer``."""
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
    """Return the validated jobs of a suite, ordered by seed.

    Raises
    ------
    ValueError
        If two jobs would have the same files, or if compared methods do not differ in exactly the declared settings.
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
    """Raise ValueError if a contrast's methods do not exist, are not of rl_agent, or have undeclared differences."""
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
    """Return the rows of a suite in the file of a study, each with its ``curve``."""
    return [row for row in read(study) if row["name"].rpartition("/")[0] == suite]
