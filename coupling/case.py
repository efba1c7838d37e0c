"""What `flowsim simulate` runs: a task's simulation, or one described in a small YAML file."""

from typing import Annotated, Literal

import gymnasium as gym
import pydantic
from pydantic import BaseModel, ConfigDict, Field

from cases.flow_env import FlowEnv
from cases.options import SideOptions
from coupling.config import apply_overrides, find_preset, load_config, read_yaml, sentence_of
from coupling.errors import ConfigError
from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, Simulation

__all__ = ["CaseConfig", "load_case"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _DiskSettings(_Settings):
    shape: Literal["disk", "half_disk"]
    diameter: float = Field(default=1.0, gt=0)
    center: tuple[float, float]
    motion: Literal["fixed", "free"] = "fixed"
    density: float = Field(default=1.0, gt=0)


class _EllipseSettings(_Settings):
    shape: Literal["ellipse"]
    major: float = Field(default=1.0, gt=0)
    aspect: float = Field(default=0.2, gt=0, le=1)
    center: tuple[float, float]
    angle: float = 0.0
    motion: Literal["fixed", "free"] = "fixed"
    density: float = Field(default=1.0, gt=0)


_BodySettings = Annotated[_DiskSettings | _EllipseSettings, Field(discriminator="shape")]
_SHAPES = {"disk": Disk, "half_disk": HalfDisk, "ellipse": Ellipse}


class CaseConfig(_Settings):
    """A simulation in a YAML file: lengths in D, speeds in U."""

    nx: int = Field(ge=8)
    ny: int = Field(ge=8)
    h: float = Field(gt=0, description="width of a cell")
    reynolds: float = Field(gt=0, description="U D / nu")
    stream: tuple[float, float] = (1.0, 0.0)
    sides: SideOptions = SideOptions()
    bodies: tuple[_BodySettings, ...] = ()
    integrator: Literal["ab2", "euler"] = "ab2"
    cfl: float | None = Field(default=None, gt=0, le=1)
    penalty: float = Field(default=1e4, gt=0)
    dtype: Literal["float32", "float64"] = "float32"
    threads: int = Field(default=1, ge=1)

    def build(self) -> Simulation:
        """Return the simulation at rest in its stream."""
        bodies = [_SHAPES[body.shape](**body.model_dump(exclude={"shape"})) for body in self.bodies]
        return Simulation(
            Grid(self.nx, self.ny, self.h),
            Sides(**self.sides.model_dump()),
            bodies,
            viscosity=1 / self.reynolds,
            stream=self.stream,
            **self.model_dump(include={"integrator", "cfl", "penalty", "dtype", "threads"}),
        )


def load_case(case: str, overrides: list[str], seed: int = 0) -> Simulation:
    """Return the simulation of a case.

    Parameters
    ----------
    case
        A preset of a flow task (its first episode's start, the agent left alone), or a YAML file with the
        keys of :class:`CaseConfig`.
    overrides
        ``key=value`` words.
    seed
        Of the start of a task.

    Raises
    ------
    ConfigError
        As :func:`coupling.config.load_config`, and for a preset whose task is no flow.
    """
    content = read_yaml(find_preset(case))
    try:
        if "env" not in content:
            return CaseConfig.model_validate(apply_overrides(content, overrides)).build()
        config = load_config(case, overrides)
        env = gym.make(config.env, **config.env_options).unwrapped
    except pydantic.ValidationError as error:
        raise ConfigError(f"{case}: {sentence_of(error, CaseConfig)}") from error
    except (ValueError, TypeError, gym.error.Error) as error:
        raise ConfigError(f"{case}: {error}") from error
    if not isinstance(env, FlowEnv):
        raise ConfigError(
            f"env = {config.env!r} is no flow task; `flowsim simulate` needs one, or a YAML file of its own"
        )
    env.reset(seed=seed)
    return env.task.simulation
