"""Configuration of a run: one YAML file, validated at the start, changed by ``key=value`` words.

Every mistake is reported as a :class:`~coupling.errors.ConfigError` that names the key, the value and what is allowed.
"""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from cases.error_messages import sentence_of
from cases.yaml_files import dump_yaml
from coupling.errors import ConfigError
from coupling.files import expand_path
from coupling.settings.algorithms import import_algorithm
from coupling.settings.content import apply_overrides, find_preset, read_yaml, sections_first
from coupling.settings.external import EXTERNAL
from coupling.settings.suggestions import meant_key, meant_module
from coupling.wire.address import BIND_HINT, is_loopback
from rl_agent.config import (
    AgentConfig,
    algorithms,
    any_agent_config,
    default_settings,
    with_algorithm,
)
from rl_agent.config.defaults import fit
from rl_agent.config.old_names import OLD_NAMES, current_settings, current_value
from rl_agent.config.registry import written_name

__all__ = [
    "AgentConfig",
    "RaySettings",
    "RunConfig",
    "RunSettings",
    "SlurmSettings",
    "WorkerSettings",
    "dump_config",
    "fitted",
    "load_config",
    "on_another_task",
    "with_overrides",
]


if TYPE_CHECKING:
    AnyAgentConfig = AgentConfig
else:
    AnyAgentConfig = any_agent_config()


class RaySettings(BaseModel):
    """Resources that the launcher ``ray`` requests from its cluster, for each worker."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    address: str = Field(
        default="auto",
        min_length=1,
        description="address of the cluster; auto is the cluster of this machine",
    )
    cpus: float = Field(default=1.0, ge=0, description="CPUs that each worker takes from its node")
    gpus: float = Field(default=0.0, ge=0, description="GPUs that each worker takes from its node")


class SlurmSettings(BaseModel):
    """Resources that the launcher ``slurm`` requests for each worker, which is one job of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cluster: Literal["slurm", "local"] = Field(
        default="slurm", description="local runs the jobs on this machine, to try it out"
    )
    partition: str | None = Field(
        default=None, min_length=1, description="partition (queue) of the jobs"
    )
    account: str | None = Field(
        default=None, min_length=1, description="account that the cluster charges"
    )
    time: int = Field(
        default=240,
        ge=1,
        description="time limit of a job in minutes, after which it is queued again",
    )
    cpus: int = Field(default=1, ge=1, description="CPUs of a job")
    gpus: int = Field(default=0, ge=0, description="GPUs of a job")
    memory: float | None = Field(default=None, gt=0, description="memory of a job in GB")
    setup: list[str] = Field(
        default_factory=list,
        description="shell commands to run before the worker, such as module load",
    )
    sbatch: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        description="other options of sbatch, such as {qos: high, exclusive: true}",
    )


class WorkerSettings(BaseModel):
    """Distribution of the environments over processes, their launcher, and timeouts."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    launcher: Literal["local", "ray", "slurm", "none"] = Field(
        default="local",
        description="what starts the workers; none waits for workers started by hand",
    )
    bind: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="address of this machine for workers to connect to, host or host:port",
    )
    ray: RaySettings = Field(default_factory=RaySettings)
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    processes: int = Field(default=2, ge=1, le=1024, description="worker processes")
    agents: int = Field(default=24, ge=1, le=65536, description="environments over all the workers")
    threads: int = Field(
        default=1, ge=1, description="threads of each worker's numerical libraries"
    )
    devices: list[int] = Field(
        default_factory=list, description="GPUs, assigned to the workers in turn"
    )
    transport: Literal["tcp", "ipc"] = Field(default="tcp", description="how local workers connect")
    curve: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="encrypt tcp connections (auto), also ipc (always), or nothing, on this machine only (never)",
    )
    synchronous: bool | None = Field(
        default=None,
        description="answer only when all agents wait and no gradient step is due, so that the seed determines the "
        "training; by default with a single process",
    )
    step_timeout: float = Field(
        default=300.0,
        gt=0,
        le=1e9,
        description="time limit of an environment step, and of the first reset, in seconds",
    )
    heartbeat: float = Field(default=1.0, gt=0, le=1e9, description="seconds between heartbeats")
    dead_after: float = Field(
        default=5.0,
        gt=0,
        le=1e9,
        description="seconds of silence after which a worker counts as dead",
    )
    patience: float = Field(
        default=600.0, gt=0, le=1e9, description="seconds a worker tries to reach its learner"
    )
    restarts: int = Field(
        default=10,
        ge=0,
        description="deaths of one worker within ten minutes that the run survives, or failures of its environments "
        "if most fail",
    )
    outbox: bool = Field(
        default=True,
        description="keep each worker's last step on disk, so that none is lost if it dies",
    )
    wait: float = Field(
        default=86400.0,
        gt=0,
        le=1e9,
        description="seconds that a run waits while no worker is connected",
    )

    @property
    def are_encrypted(self) -> bool:
        """Whether the messages between workers and learner are encrypted."""
        return self.curve == "always" or (self.curve == "auto" and self.transport == "tcp")

    @pydantic.model_validator(mode="after")
    def _every_process_has_an_agent(self) -> "WorkerSettings":
        if self.processes > self.agents:
            raise ValueError(
                f"workers.processes = {self.processes} is more than workers.agents = {self.agents}; "
                "every process needs at least one agent"
            )
        if self.dead_after <= self.heartbeat:
            raise ValueError(
                f"workers.dead_after = {self.dead_after:g} must be longer than workers.heartbeat = {self.heartbeat:g}"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _workers_can_reach_the_learner(self) -> "WorkerSettings":
        if self.transport == "ipc" and self.launcher in ("ray", "slurm"):
            raise ValueError(
                "workers.transport = ipc connects workers on this machine only, but workers.launcher = "
                f"{self.launcher} starts them on others; use tcp"
            )
        if self.curve == "never" and self.transport == "tcp" and not is_loopback(self.bind):
            raise ValueError(
                f"workers.curve = never, but workers.bind = {self.bind} can be reached from other machines, which "
                "requires encryption; leave workers.curve out"
            )
        if self.launcher == "slurm" and self.slurm.cluster == "slurm" and is_loopback(self.bind):
            raise ValueError(
                f"workers.bind = {self.bind} can be reached from this machine only, but workers.launcher = slurm "
                f"starts workers on others; give an address that they can reach, such as {BIND_HINT}"
            )
        if self.devices and self.launcher != "local":
            raise ValueError(
                f"workers.devices = {self.devices} is for workers.launcher = local; with {self.launcher}, the "
                "cluster, or whoever starts a worker, sets its GPU"
            )
        return self

    @property
    def is_synchronous(self) -> bool:
        """Whether the learner waits for all workers before it answers."""
        return self.processes == 1 if self.synchronous is None else self.synchronous

    def agents_of_each(self) -> list[int]:
        """Return the number of agents of each process, as even as possible; they sum to ``agents``."""
        least, more = divmod(self.agents, self.processes)
        return [least + (slot < more) for slot in range(self.processes)]


class RunSettings(BaseModel):
    """Length, folder and evaluation of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    steps: int = Field(default=1_000_000, ge=1, description="environment steps over all agents")
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of everything random in the run")
    name: str | None = Field(
        default=None, description="name of the run folder inside run.folder; chosen when left out"
    )
    folder: str = Field(default="runs", min_length=1, description="where run folders are kept")
    checkpoint_every: float = Field(
        default=60.0, gt=0, le=1e9, description="seconds between checkpoints"
    )
    durability: Literal["process", "fsync"] = Field(
        default="process",
        description="what the experience survives: the end of any process, or also a crash of the machine (fsync)",
    )
    evaluate_episodes: int = Field(
        default=0, ge=0, le=1_000_000, description="episodes evaluated before and after training"
    )
    evaluate_max_actions: int | None = Field(
        default=None,
        ge=1,
        description="actions after which an evaluated episode is truncated; the task's limit or 10,000 if left out",
    )

    select_episodes: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="episodes per policy to choose the final policy by mean return from six of the last third of the "
        "training; 0 takes the last policy",
    )
    select_max_actions: int | None = Field(
        default=None,
        ge=1,
        description="actions after which an episode of this choice is truncated; run.evaluate_max_actions if left out",
    )

    @pydantic.field_validator("folder")
    @classmethod
    def _expand_folder(cls, folder: str) -> str:
        return expand_path(folder)

    @pydantic.field_validator("name")
    @classmethod
    def _is_one_folder(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}", name):
            raise ValueError("a run's name has at most 100 characters: letters, digits and . _ + -")
        return name


class RunConfig(BaseModel):
    """Complete configuration of a run: the task, the learner, the workers and the run itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    old_keys: ClassVar[dict[str, str]] = {
        f"agent.{old}": f"agent.{new}" for old, new in OLD_NAMES.items()
    }
    """Current keys of old ones, for suggestions in messages."""

    env: str = Field(min_length=1, description="any Gymnasium id, also as module:id")
    env_options: dict[str, Any] = Field(
        default_factory=dict, description="passed to the environment"
    )
    training_options: dict[str, Any] = Field(
        default_factory=dict,
        description="changes to env_options during training only; evaluations and films do not have them",
    )
    agent: AnyAgentConfig = Field(default_factory=AgentConfig)
    workers: WorkerSettings = Field(default_factory=WorkerSettings)
    run: RunSettings = Field(default_factory=RunSettings)

    @property
    def options_in_training(self) -> dict[str, Any]:
        """Options of the environments that the agent trains in."""
        return self.env_options | self.training_options

    @pydantic.model_validator(mode="after")
    def _external_environments_come_by_themselves(self) -> "RunConfig":
        if self.env == EXTERNAL and self.workers.launcher != "none":
            raise ValueError(
                f"workers.launcher = {self.workers.launcher} starts environments in Python, but those of {EXTERNAL} "
                "are outside Python; use `flowsim serve`, or workers.launcher=none"
            )
        if self.env == EXTERNAL and self.run.evaluate_episodes:
            raise ValueError(
                f"run.evaluate_episodes must be 0: {EXTERNAL} has no environments in Python to evaluate in"
            )
        if self.env == EXTERNAL and self.run.select_episodes:
            raise ValueError(
                f"run.select_episodes must be 0: {EXTERNAL} has no environments in Python to choose a policy in"
            )
        return self

    @pydantic.field_validator("env_options", "training_options", mode="before")
    @classmethod
    def _is_plain_data(cls, options: Any, info: pydantic.ValidationInfo) -> Any:
        if isinstance(options, dict):
            _refuse_not_json(str(info.field_name), options)
        return options

    @pydantic.field_validator("env", mode="before")
    @classmethod
    def _is_written_without_a_space(cls, value: Any) -> Any:
        if isinstance(value, dict):  # YAML reads `mine: Task-v0`, and `mine:` alone, as a mapping
            module, name = next(iter(value.items()), ("", None))
            meant = f"{module}:{name or 'ID'}"
            raise ValueError(f"must be one word with no space after the colon, such as {meant}")
        if re.search(r"\.py(:|$)", str(value)):
            raise ValueError(f"a module has no .py: did you mean {meant_module(value)!r}?")
        return value

    @pydantic.field_validator("agent", mode="before")
    @classmethod
    def _algorithm_is_named(cls, value: Any) -> Any:
        return with_algorithm(value)


def load_config(
    preset: str | None, overrides: Sequence[str] = (), *, imports: bool = True
) -> RunConfig:
    """Read and validate a run configuration.

    Parameters
    ----------
    preset
        A YAML file, or the name of a shipped preset (``d_cylinder_wake/quick``). If None, all settings except the
        overrides have their defaults.
    overrides
        Words ``dotted.key=value``. The value is read as YAML, except where a string is declared. Entries of lists are
        numbered from 0.
    imports
        Whether the module of a custom algorithm is imported, which is needed to validate its settings. Without the
        import, they can only be displayed (``NotImportedConfig``), and no custom code runs.

    Returns
    -------
    RunConfig
        The validated configuration.

    Raises
    ------
    ConfigError
        If the configuration is invalid; the message names the key, the value and what is allowed.
    """
    path = None if preset is None else find_preset(preset, or_env=True)
    content = {} if path is None else read_yaml(path, RunConfig)
    # the set of valid settings depends on the algorithm
    if imports and import_algorithm(_algorithm_in(content, overrides)) and path is not None:
        content = read_yaml(path, _declared())
    source = preset or "the command line"
    if isinstance(agent := content.get("agent"), dict):
        content["agent"] = _by_present_names(agent, source)
    return _validate(_changed(content, overrides), source)


def _algorithm_in(content: dict[str, Any], overrides: Sequence[str]) -> str:
    """Return the name of the algorithm in a file and overrides, empty if there is none."""
    agent = content.get("agent")
    given = [agent.get("algorithm") if isinstance(agent, dict) else agent]
    words = [word.partition("=") for word in sections_first(overrides)]
    given += [value for key, _, value in words if key in ("agent", "agent.algorithm")]
    last = next((name for name in reversed(given) if name is not None), "")
    return last.strip() if isinstance(last, str) else ""


def _declared() -> type[RunConfig]:
    """Return the model with the settings of all registered algorithms, for overrides and messages."""
    own = [kind for kind in algorithms().values() if ":" in written_name(kind)]
    if not own:
        return RunConfig
    agent: Any = (any_agent_config(), Field(default_factory=AgentConfig))
    return pydantic.create_model("RunConfig", __base__=RunConfig, agent=agent)


def with_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return ``config`` with ``key=value`` words applied, validated again.

    Raises
    ------
    ConfigError
        As :func:`load_config`.
    """
    return _validate(_changed(config.model_dump(mode="json"), overrides), "the run's configuration")


def on_another_task(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return ``config`` with changes of ``env_options``, to evaluate or film a trained agent.

    Raises
    ------
    ConfigError
        For other keys, which belong to the training, and as in :func:`load_config`.
    """
    for word in overrides:
        if not word.startswith("env_options."):
            meant = meant_key(word.partition("=")[0], config.env)
            instead = (
                f": did you mean {word.replace(word.partition('=')[0], meant, 1)!r}?"
                if meant
                else ""
            )
            raise ConfigError(
                f"{word}: only env_options.KEY=VALUE can be changed for a trained agent{instead}"
            )
    return with_overrides(config, overrides)


def fitted(config: RunConfig, episode_steps: int | None) -> RunConfig:
    """Return ``config`` with those learner settings that were not given fitted to the run.

    Parameters
    ----------
    config
        The loaded configuration.
    episode_steps
        Longest episode of the task, if known.

    Raises
    ------
    ConfigError
        If given settings are incompatible with the fitted ones.
    """
    try:
        return config.model_copy(
            update={"agent": fit(config.agent, config.run.steps, episode_steps)}
        )
    except pydantic.ValidationError as error:
        raise ConfigError(
            f"agent: {sentence_of(error, AgentConfig, default_settings())}"
        ) from error


def dump_config(config: RunConfig) -> str:
    """Return the resolved configuration as YAML that :func:`load_config` reads back to an equal value."""
    return dump_yaml(config.model_dump(mode="json"))


def _changed(content: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return a configuration with ``key=value`` words applied, which may use old names of settings."""
    given = dict(word.partition("=")[::2] for word in overrides if word.startswith("agent."))
    _by_present_names(
        {key.removeprefix("agent."): value for key, value in given.items()}, "the command line"
    )
    words = []
    for word in overrides:
        key, _, value = word.partition("=")
        if (new := RunConfig.old_keys.get(key)) is not None:
            word = f"{new}={current_value(key.removeprefix('agent.'), value)}"
        words.append(word)
    return apply_overrides(content, words, _declared())


def _by_present_names(agent: dict[str, Any], source: str) -> dict[str, Any]:
    """Return settings of an agent by their current names.

    Raises
    ------
    ConfigError
        If a setting is given under both names.
    """
    try:
        return current_settings(agent)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from error


def _validate(content: dict[str, Any], source: str) -> RunConfig:
    try:
        return RunConfig.model_validate(content)
    except pydantic.ValidationError as error:
        sentence = sentence_of(error, _declared(), content)
        if "did you mean" not in sentence:
            sentence = _of_the_task(content) or sentence
        raise ConfigError(f"{source}: {sentence}") from error


def _refuse_not_json(key: str, value: Any) -> None:
    """Raise for an option that JSON cannot represent, since files and messages store options as JSON.

    Raises
    ------
    ValueError
        For numbers that are not finite, keys that are not text, and other types; the message names the key.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise ValueError(
                    f"{key}.{name} has a key that is not text: write '{name}' in quotes"
                )
            _refuse_not_json(f"{key}.{name}", part)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            _refuse_not_json(f"{key}.{number}", part)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{key} = {value}: must be a finite number")
    elif not isinstance(value, str | int | float | None):
        allowed = "a number, text, true, false, null, a list or a mapping"
        raise ValueError(f"{key} = {value!r}: must be {allowed}")


def _of_the_task(content: dict[str, Any]) -> str:
    """Return a suggestion for a key that is an option of the task, not of the run; empty if there is none."""
    for key in content.keys() - RunConfig.model_fields.keys():
        if meant := meant_key(str(key), content.get("env")):
            return f"unknown key {key!r}: did you mean '{meant}={content[key]}'?"
    return ""
