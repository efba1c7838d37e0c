"""Configuration of a run: one YAML file, validated at the start, changed by ``key=value`` words.

Every mistake is a :class:`~coupling.errors.ConfigError` whose one sentence names the key, the value and
what is allowed.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field

from coupling.address import is_loopback
from coupling.errors import ConfigError
from coupling.external import EXTERNAL
from rl_agent.config import AgentConfig
from rl_agent.defaults import fit

__all__ = [
    "AgentConfig",
    "RaySettings",
    "RunConfig",
    "RunSettings",
    "SlurmSettings",
    "WorkerSettings",
    "apply_overrides",
    "dump_config",
    "find_preset",
    "fitted",
    "folder_name",
    "load_config",
    "preset_name",
    "read_yaml",
    "sentence_of",
    "shipped_presets",
    "with_overrides",
]


class RaySettings(BaseModel):
    """What the launcher ``ray`` asks of its cluster, for each worker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field(default="auto", min_length=1, description="of the cluster; auto is the one of this machine")
    cpus: float = Field(default=1.0, ge=0, description="CPUs that each worker takes from its node")
    gpus: float = Field(default=0.0, ge=0, description="GPUs that each worker takes from its node")


class SlurmSettings(BaseModel):
    """What the launcher ``slurm`` asks of its cluster, for each worker: one job of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: Literal["slurm", "local"] = Field(default="slurm", description="local runs the jobs here, to try it out")
    partition: str | None = Field(default=None, min_length=1, description="queue of the jobs")
    account: str | None = Field(default=None, min_length=1, description="who pays")
    time: int = Field(default=240, ge=1, description="limit of a job in minutes, after which it is queued again")
    cpus: int = Field(default=1, ge=1, description="CPUs of a job")
    gpus: int = Field(default=0, ge=0, description="GPUs of a job")
    memory: float | None = Field(default=None, gt=0, description="memory of a job in GB")
    setup: list[str] = Field(default_factory=list, description="lines of shell before the worker, such as module load")
    sbatch: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="other options of sbatch, such as {qos: high, exclusive: true}"
    )


class WorkerSettings(BaseModel):
    """How the environments are spread over processes, who starts these, and how long each is waited for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    launcher: Literal["local", "ray", "slurm", "none"] = Field(
        default="local", description="who starts workers; none waits for those that somebody starts by hand"
    )
    bind: str = Field(
        default="127.0.0.1", min_length=1, description="address of this machine that workers reach, host or host:port"
    )
    ray: RaySettings = Field(default_factory=RaySettings)
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    processes: int = Field(default=2, ge=1, le=1024, description="worker processes")
    agents: int = Field(default=24, ge=1, le=65536, description="environments over all the workers")
    threads: int = Field(default=1, ge=1, description="threads of each worker's numerical libraries")
    devices: list[int] = Field(default_factory=list, description="GPUs, one worker after the other takes the next")
    transport: Literal["tcp", "ipc"] = Field(default="tcp", description="how local workers are reached")
    curve: Literal["auto", "always"] = Field(default="auto", description="encrypt beyond this machine only, or always")
    step_timeout: float = Field(default=300.0, gt=0, description="longest environment step in seconds")
    heartbeat: float = Field(default=1.0, gt=0, le=1e9, description="seconds between signs of life")
    dead_after: float = Field(default=5.0, gt=0, description="seconds of silence after which a worker is dead")
    patience: float = Field(default=600.0, gt=0, le=1e9, description="seconds a worker looks for its learner")
    restarts: int = Field(
        default=10, ge=0, description="deaths of one worker, or failures of its environments, mended within ten minutes"
    )
    outbox: bool = Field(default=True, description="keep each worker's last step on disk, so that its death loses none")
    wait: float = Field(
        default=86400.0, gt=0, description="seconds that a run waits while none of its workers is there"
    )

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
                f"workers.transport = ipc ends at this machine, but workers.launcher = {self.launcher} does not; "
                "use tcp"
            )
        if self.launcher == "slurm" and self.slurm.cluster == "slurm" and is_loopback(self.bind):
            raise ValueError(
                f"workers.bind = {self.bind} is heard on this machine only, but workers.launcher = slurm starts "
                "workers on others; give an address that these can reach, such as workers.bind=$(hostname)"
            )
        if self.devices and self.launcher != "local":
            raise ValueError(
                f"workers.devices = {self.devices} is for workers.launcher = local; with {self.launcher} "
                "the cluster, or who starts a worker, says which GPU it sees"
            )
        return self

    def agents_of_each(self) -> list[int]:
        """Return how many agents each process hosts, as even as can be; they sum to ``agents``."""
        least, more = divmod(self.agents, self.processes)
        return [least + (slot < more) for slot in range(self.processes)]


class RunSettings(BaseModel):
    """How long the run is, where it is kept and how it is judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=1_000_000, ge=1, description="environment steps over all agents")
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of everything random in the run")
    name: str | None = Field(default=None, description="run folder inside run.folder; chosen when left out")
    folder: str = Field(default="runs", min_length=1, description="where run folders are kept")
    checkpoint_every: float = Field(default=60.0, gt=0, description="seconds between checkpoints")
    durability: Literal["process", "fsync"] = Field(
        default="process", description="what the experience is safe from: the end of any process, or of the machine too"
    )
    evaluate_episodes: int = Field(default=0, ge=0, description="episodes judged before and after training")

    @pydantic.field_validator("name")
    @classmethod
    def _is_one_folder(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]*", name):
            raise ValueError("a run's name may hold letters, digits and . _ + - only")
        return name


class RunConfig(BaseModel):
    """Everything that decides a run: the task, the learner, the workers and the run itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: str = Field(min_length=1, description="any Gymnasium id, also as module:id")
    env_options: dict[str, Any] = Field(default_factory=dict, description="passed to the environment")
    agent: AgentConfig = Field(default_factory=AgentConfig)
    workers: WorkerSettings = Field(default_factory=WorkerSettings)
    run: RunSettings = Field(default_factory=RunSettings)

    @pydantic.model_validator(mode="after")
    def _external_environments_come_by_themselves(self) -> "RunConfig":
        if self.env == EXTERNAL and self.workers.launcher != "none":
            raise ValueError(
                f"workers.launcher = {self.workers.launcher} would start environments in Python, which {EXTERNAL} "
                "does not have; use `flowsim serve`, or workers.launcher=none"
            )
        if self.env == EXTERNAL and self.run.evaluate_episodes:
            raise ValueError(f"run.evaluate_episodes must be 0: {EXTERNAL} has no environments in Python to judge by")
        return self

    @pydantic.field_validator("agent", mode="before")
    @classmethod
    def _bare_algorithm(cls, value: Any) -> Any:
        return {"algorithm": value} if isinstance(value, str) else value


class _Loader(yaml.SafeLoader):
    """YAML whose numbers are what a scientist means (1e-4 is one) and whose keys stand once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.MarkedYAMLError(problem=f"key {twice[0]!r} stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def shipped_presets() -> list[str]:
    """Return the names of the presets that come with the package, such as ``d_cylinder_wake/quick``."""
    root = Path(str(resources.files("cases")))
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


def find_preset(preset: str) -> Path:
    """Resolve a path or a shipped name to the file.

    Raises
    ------
    ConfigError
        When there is neither.
    """
    path = Path(preset)
    if path.is_file():
        return path
    root = Path(str(resources.files("cases")))
    name = preset.removeprefix("cases/").removesuffix(".yaml")
    shipped = shipped_presets()
    if name in shipped:
        return root / f"{name}.yaml"
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"preset file {preset} does not exist")
    close = difflib.get_close_matches(name, shipped, n=1, cutoff=0.75)
    hint = f"did you mean {close[0]!r}?" if close else f"give a YAML file or one of {', '.join(shipped)}"
    raise ConfigError(f"no preset named {preset!r}: {hint}")


def preset_name(preset: str) -> str:
    """Return a folder-friendly name for a preset: ``d_cylinder_wake-quick`` for its file or its name."""
    path = find_preset(preset)
    root = Path(str(resources.files("cases")))
    inside = path.resolve().is_relative_to(root.resolve())
    stem = path.resolve().relative_to(root.resolve()).with_suffix("").as_posix() if inside else path.stem
    return folder_name(stem)


def folder_name(text: str) -> str:
    """Return a text as a name for a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-") or "run"


def load_config(preset: str | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read and validate a run configuration.

    Parameters
    ----------
    preset
        A YAML file, or the name of a shipped preset (``d_cylinder_wake/quick``); without one the overrides say it all,
        and the rest are defaults.
    overrides
        Words ``dotted.key=value``; the value is read as YAML. Entries of lists are numbered from 0.

    Returns
    -------
    RunConfig
        The validated configuration.

    Raises
    ------
    ConfigError
        With one sentence that names the key, the value and what is allowed.
    """
    content = {} if preset is None else read_yaml(find_preset(preset))
    return _validate(apply_overrides(content, overrides), preset or "the command line")


def with_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return ``config`` with ``key=value`` words applied, validated again.

    Raises
    ------
    ConfigError
        As :func:`load_config`.
    """
    return _validate(apply_overrides(config.model_dump(mode="json"), overrides), "the run's configuration")


def fitted(config: RunConfig, episode_steps: int | None) -> RunConfig:
    """Return ``config`` with the settings of the learner that nobody named fitted to the run.

    Parameters
    ----------
    config
        As loaded.
    episode_steps
        Longest episode of the task, where it is known.

    Raises
    ------
    ConfigError
        When what was named does not go together with what fits.
    """
    try:
        return config.model_copy(update={"agent": fit(config.agent, config.run.steps, episode_steps)})
    except pydantic.ValidationError as error:
        raise ConfigError(f"agent: {sentence_of(error, AgentConfig)}") from error


def dump_config(config: RunConfig) -> str:
    """Return the resolved configuration as YAML that :func:`load_config` reads back to an equal value."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Raises
    ------
    ConfigError
        When it cannot be read or is no mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a mapping, such as `env: Pendulum-v1`")
    return content


def apply_overrides(content: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Set what ``dotted.key=value`` words say, in place, and return the content.

    Raises
    ------
    ConfigError
        For a word of another form.
    """
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"{word!r} is not of the form key=value, for example agent.gamma=0.97")
        try:
            value = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            raise ConfigError(f"the value of {key} is not valid YAML: {text!r}") from error
        *sections, last = key.split(".")
        place: Any = content
        for section in sections:
            if isinstance(place, dict):
                place.setdefault(section, {})
            index = _index(place, section, key)
            if section == "agent" and isinstance(place[index], str):
                place[index] = {"algorithm": place[index]}
            place = place[index]
        place[_index(place, last, key)] = value
    return content


def _index(place: Any, part: str, key: str) -> Any:
    """Return what to put into the brackets for one part of a dotted key: a name, or the number of an entry."""
    if isinstance(place, dict):
        return part
    if not isinstance(place, list):
        raise ConfigError(f"{key} cannot be set: there is {place!r}, which has no keys of its own")
    if not part.isdecimal() or int(part) >= len(place):
        raise ConfigError(f"{key} cannot be set: {part!r} must be the number of an entry, 0 to {len(place) - 1}")
    return int(part)


def _validate(content: dict[str, Any], source: str) -> RunConfig:
    try:
        return RunConfig.model_validate(content)
    except pydantic.ValidationError as error:
        raise ConfigError(f"{source}: {sentence_of(error, RunConfig)}") from error


def sentence_of(error: pydantic.ValidationError, model: type[BaseModel], content: Any = None) -> str:
    """Turn pydantic's report about a model into one sentence about the first mistake.

    Parameters
    ----------
    error, model
        The report, and the model that refused.
    content
        What was refused; needed to name keys where a model has kinds of something, such as shapes of bodies.
    """
    # an unknown key often is the reason why another one is missing
    first, *others = sorted(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
    missing = first["type"] == "missing"
    key = ".".join(_place(first["loc"], content, missing))
    more = f" (and {len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}: {_instead_of(key, _keys_beside(first['loc'], model), _all_keys(model))}{more}"
    if missing:
        return f"key {key!r} is missing{more}"
    if first["type"].startswith("union_tag"):
        kind, given = first["ctx"]["discriminator"].strip("'"), first["ctx"].get("tag")
        if given is None:
            return f"key '{key}.{kind}' is missing{more}"
        return f"{key}.{kind} = {given!r}: allowed are {first['ctx']['expected_tags']}{more}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] in _MESSAGES:
        message = _MESSAGES[first["type"]].format(**first.get("ctx", {}))
    if not key or key in message:
        return f"{message}{more}"
    # a model-level check names its own values; the whole section would only bury the sentence
    value = "" if isinstance(first["input"], dict) else f" = {first['input']!r}"
    return f"{key}{value}: {message[0].lower()}{message[1:]}{more}"


_MESSAGES = {
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}
"""What pydantic says in the words of Python, said in those of YAML."""


def _place(loc: tuple[int | str, ...], content: Any, missing: bool) -> list[str]:
    """Return where a mistake is in the words of the content: pydantic also names the kinds on its way there."""
    if content is None:
        return [str(part) for part in loc]
    place = []
    for part in loc:
        entries = range(len(content)) if isinstance(content, list) else content if isinstance(content, dict) else ()
        if part in entries:
            content = content[part]
            place.append(str(part))
    return [*place, str(loc[-1])] if missing else place


def _keys_beside(loc: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """Return the keys that the section of a wrong key may hold."""
    models = [model]
    for part in map(str, loc[:-1]):
        named = [known.model_fields[part] for known in models if part in known.model_fields]
        inner = [found for field in named for found in _models_in(field.annotation)]
        models = inner or [known for known in models if _is_kind(known, part)] or models
    return list(dict.fromkeys(name for known in models for name in known.model_fields))


def _is_kind(model: type[BaseModel], word: str) -> bool:
    return any(word in get_args(field.annotation) for field in model.model_fields.values())


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        keys.append(prefix + name)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys += _all_keys(inner, f"{prefix}{name}.")
    return keys


def _instead_of(wrong: str, beside: Sequence[str], everywhere: Sequence[str]) -> str:
    """Say what was probably meant: the nearest key of the section, the same key of another one, or else the list."""
    section, dot, name = wrong.rpartition(".")
    close = [section + dot + key for key in difflib.get_close_matches(name, beside, n=1, cutoff=0.75)]
    close += [key for key in everywhere if key.rpartition(".")[2] == name]
    return f"did you mean {close[0]!r}?" if close else f"allowed are {', '.join(beside)}"
