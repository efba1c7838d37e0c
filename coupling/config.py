"""Configuration of a run: one YAML file, validated at the start, changed by ``key=value`` words.

Every mistake is a :class:`~coupling.errors.ConfigError` whose one sentence names the key, the value and
what is allowed.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field

from coupling.errors import ConfigError
from rl_agent.config import AgentConfig

__all__ = [
    "AgentConfig",
    "RunConfig",
    "RunSettings",
    "WorkerSettings",
    "apply_overrides",
    "dump_config",
    "find_preset",
    "load_config",
    "preset_name",
    "read_yaml",
    "sentence_of",
    "shipped_presets",
    "with_overrides",
]


class WorkerSettings(BaseModel):
    """How the environments are spread over processes, and how long each is waited for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processes: int = Field(default=2, ge=1, le=1024, description="worker processes on this machine")
    agents: int = Field(default=24, ge=1, le=65536, description="environments over all the workers")
    threads: int = Field(default=1, ge=1, description="threads of each worker's numerical libraries")
    transport: Literal["tcp", "ipc"] = Field(default="tcp", description="how local workers are reached")
    step_timeout: float = Field(default=300.0, gt=0, description="longest environment step in seconds")
    heartbeat: float = Field(default=1.0, gt=0, description="seconds between signs of life")
    dead_after: float = Field(default=5.0, gt=0, description="seconds of silence after which a worker is dead")
    patience: float = Field(default=600.0, gt=0, description="seconds a worker looks for its learner")
    restarts: int = Field(default=10, ge=0, description="restarts of one worker allowed within ten minutes")

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
    hint = _suggestion(name, shipped, "give a YAML file or one of the shipped presets")
    raise ConfigError(f"no preset named {preset!r}: {hint}")


def preset_name(preset: str) -> str:
    """Return a folder-friendly name for a preset: ``d_cylinder_wake-quick`` for its file or its name."""
    path = find_preset(preset)
    root = Path(str(resources.files("cases")))
    inside = path.resolve().is_relative_to(root.resolve())
    stem = path.resolve().relative_to(root.resolve()).with_suffix("").as_posix() if inside else path.stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem) or "run"


def load_config(preset: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read and validate a run configuration.

    Parameters
    ----------
    preset
        A YAML file, or the name of a shipped preset (``d_cylinder_wake/quick``).
    overrides
        Words ``dotted.key=value``; the value is read as YAML.

    Returns
    -------
    RunConfig
        The validated configuration.

    Raises
    ------
    ConfigError
        With one sentence that names the key, the value and what is allowed.
    """
    path = find_preset(preset)
    return _validate(apply_overrides(read_yaml(path), overrides), str(preset))


def with_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return ``config`` with ``key=value`` words applied, validated again.

    Raises
    ------
    ConfigError
        As :func:`load_config`.
    """
    return _validate(apply_overrides(config.model_dump(mode="json"), overrides), "the run's configuration")


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
        place = content
        for section in sections:
            inner = place.setdefault(section, {})
            if section == "agent" and isinstance(inner, str):
                inner = place[section] = {"algorithm": inner}
            if not isinstance(inner, dict):
                raise ConfigError(f"{key} cannot be set: {section} is {inner!r}, which has no keys of its own")
            place = inner
        place[last] = value
    return content


def _validate(content: dict[str, Any], source: str) -> RunConfig:
    try:
        return RunConfig.model_validate(content)
    except pydantic.ValidationError as error:
        raise ConfigError(f"{source}: {sentence_of(error, RunConfig)}") from error


def sentence_of(error: pydantic.ValidationError, model: type[BaseModel]) -> str:
    """Turn pydantic's report about a model into one sentence about the first mistake."""
    first, *others = error.errors()
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}: {_suggestion(key, _all_keys(model), 'allowed are')}{more}"
    if first["type"] == "missing":
        return f"key {key!r} is missing{more}"
    message = first["msg"].removeprefix("Value error, ")
    if not key or key in message:
        return f"{message}{more}"
    # a model-level check names its own values; the whole section would only bury the sentence
    value = "" if isinstance(first["input"], dict) else f" = {first['input']!r}"
    return f"{key}{value}: {message[0].lower()}{message[1:]}{more}"


def _all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        keys.append(prefix + name)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys += _all_keys(inner, f"{prefix}{name}.")
    return keys


def _suggestion(wrong: str, allowed: Sequence[str], introduction: str) -> str:
    """Say what was probably meant: the nearest key, also one of another section, or else the list."""
    close = difflib.get_close_matches(wrong, allowed, n=1, cutoff=0.75)
    if not close:
        tails = [key for key in allowed if key.rpartition(".")[2] == wrong.rpartition(".")[2]]
        close = tails[:1]
    if close:
        return f"did you mean {close[0]!r}?"
    section = wrong.rpartition(".")[0]
    listed = [key for key in allowed if key.rpartition(".")[0] == section] or list(allowed)
    return f"{introduction} {', '.join(listed)}"
