"""The simulation of `flowsim simulate`: that of a task, or one described in a YAML file."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cases.error_messages import sentence_of
from cases.options import Side, SideOptions
from coupling.errors import ConfigError
from coupling.settings.content import apply_overrides, find_preset, read_yaml
from coupling.simulation.measures import RecordSettings, StatisticsSettings
from coupling.simulation.python_shapes import shape_from
from coupling.simulation.temperature import TemperatureSettings
from flowsim import (
    Body,
    Disk,
    Ellipse,
    FieldStatistics,
    Grid,
    HalfDisk,
    Recorder,
    Sides,
    Simulation,
    Spring,
    Union,
    polygon,
)
from flowsim.bodies.motions import Motion, added, oscillation, ramp, rotation

__all__ = ["CaseConfig", "load_case", "smaller_step"]

Vector = tuple[float, float]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# --- motions: arguments of flowsim.bodies.motions, relative to the center and angle of the body ------------------


class _Word(_Settings):
    kind: Literal["fixed", "free"]


class _Oscillation(_Settings):
    kind: Literal["oscillation"]
    amplitude: float
    period: float = Field(gt=0)
    direction: float = 0.0
    phase: float = 0.0
    pitch: float = 0.0


class _Rotation(_Settings):
    kind: Literal["rotation"]
    rate: float


class _Ramp(_Settings):
    kind: Literal["ramp"]
    velocity: Vector
    duration: float = Field(gt=0)
    smooth: bool = True


_MOTIONS: dict[str, Callable[..., Motion]] = {
    "oscillation": oscillation,
    "rotation": rotation,
    "ramp": ramp,
}


def _in_full(motion: Any) -> Any:
    """Expand a word or a single mapping to a list of mappings."""
    motions = motion if isinstance(motion, list | tuple) else [motion]
    return [{"kind": one} if isinstance(one, str) else one for one in motions]


def _only_laws_add_up(motions: tuple[_Settings, ...]) -> tuple[_Settings, ...]:
    if len(motions) > 1 and any(isinstance(motion, _Word) for motion in motions):
        raise ValueError(
            f"fixed and free cannot be combined with other motions, only {', '.join(_MOTIONS)} can be "
            "added"
        )
    return motions


_Motion = Annotated[_Word | _Oscillation | _Rotation | _Ramp, Field(discriminator="kind")]
_Motions = Annotated[
    tuple[_Motion, ...],
    BeforeValidator(_in_full),
    Field(min_length=1),
    AfterValidator(_only_laws_add_up),
]


_Degree = Literal["x", "y", "angle"]


# --- bodies: a shape with center and angle, and for a whole body its motion ------------------------------------------


class _Placed(_Settings):
    center: Vector
    angle: float = 0.0


class _Disk(_Placed):
    shape: Literal["disk", "half_disk"]
    diameter: float = Field(default=1.0, gt=0)


class _Ellipse(_Placed):
    shape: Literal["ellipse"]
    major: float = Field(default=1.0, gt=0)
    aspect: float = Field(default=0.2, gt=0, le=1)


class _Polygon(_Placed):
    shape: Literal["polygon"]
    corners: tuple[Vector, ...] = Field(min_length=3)


class _Union(_Placed):
    shape: Literal["union"]
    parts: tuple["_Part", ...] = Field(min_length=1)


class _Python(_Placed):
    shape: Literal["python"]
    file: str = Field(description="relative to the folder of the case")
    function: str
    arguments: dict[str, Any] = Field(default_factory=dict)


_Part = Annotated[_Disk | _Ellipse | _Polygon | _Union | _Python, Field(discriminator="shape")]


class _Spring(_Settings):
    stiffness: float = Field(default=0.0, ge=0)
    damping: float = Field(default=0.0, ge=0)
    rest: float | None = Field(default=None, description="where the body starts unless given")


class _Moves(_Settings):
    density: float = Field(default=1.0, gt=0)
    motion: _Motions = (_Word(kind="fixed"),)
    held: tuple[_Degree, ...] = Field(default=(), description="degrees of freedom of a free body")
    springs: dict[_Degree, _Spring] = Field(default_factory=dict)
    temperature: float | None = Field(default=None, description="that of the fluid unless given")


class _DiskBody(_Disk, _Moves): ...


class _EllipseBody(_Ellipse, _Moves): ...


class _PolygonBody(_Polygon, _Moves): ...


class _UnionBody(_Union, _Moves): ...


class _PythonBody(_Python, _Moves): ...


_Body = Annotated[
    _DiskBody | _EllipseBody | _PolygonBody | _UnionBody | _PythonBody,
    Field(discriminator="shape"),
]


def _build_body(body: _Disk | _Ellipse | _Polygon | _Union | _Python, folder: Path) -> Body:
    place: dict[str, Any] = {"center": body.center, "angle": body.angle}
    if isinstance(body, _Moves):
        place |= {
            "density": body.density,
            "motion": _build_motion(body.motion, body.center, body.angle),
            "held": body.held,
            "springs": {
                name: Spring(**spring.model_dump()) for name, spring in body.springs.items()
            },
        }
    match body:
        case _Disk(shape="disk"):
            return Disk(diameter=body.diameter, **place)
        case _Disk():
            return HalfDisk(diameter=body.diameter, **place)
        case _Ellipse():
            return Ellipse(major=body.major, aspect=body.aspect, **place)
        case _Polygon():
            return polygon(body.corners, **place)
        case _Union():
            parts = tuple(_build_body(part, folder) for part in body.parts)
            return Union(parts=parts, **place)
        case _Python():
            made = shape_from(folder / body.file, body.function, body.arguments)
            return dataclasses.replace(made, **place)


def _build_motion(motions: tuple[_Motion, ...], center: Vector, angle: float) -> str | Motion:
    laws = []
    for motion in motions:
        if isinstance(motion, _Word):
            return motion.kind
        laws.append(
            _MOTIONS[motion.kind](center, angle=angle, **motion.model_dump(exclude={"kind"}))
        )
        center, angle = (0.0, 0.0), 0.0  # positions are added, so only the first law has an offset
    return added(*laws) if len(laws) > 1 else laws[0]


# --- the case --------------------------------------------------------------------------------------------------------


class _Sides(SideOptions):
    """Sides of the box; by default those of a channel with slip walls."""

    left: Side | None = "inflow"
    bottom: Side = "slip"
    top: Side = "slip"
    left_velocity: float = 0.0
    right_velocity: float = 0.0
    bottom_velocity: float = 0.0
    top_velocity: float = 0.0
    left_profile: Literal["parabolic"] | None = None
    right_profile: Literal["parabolic"] | None = None
    bottom_profile: Literal["parabolic"] | None = None
    top_profile: Literal["parabolic"] | None = None


class CaseConfig(_Settings):
    """Keys of a simulation in a YAML file; lengths in D, speeds in U, times in D/U, angles in radians."""

    nx: int = Field(ge=8)
    ny: int = Field(ge=8)
    h: float = Field(gt=0, description="width of a cell")
    reynolds: float = Field(gt=0, description="U D / nu")
    stream: Vector = (1.0, 0.0)
    gravity: Vector = (0.0, 0.0)
    body_force: Vector | None = Field(default=None, description="per unit mass, on all of the flow")
    mean_velocity: tuple[float | None, float | None] | None = Field(
        default=None, description="held by the force, between periodic sides"
    )
    sides: _Sides = _Sides()
    temperature: TemperatureSettings | None = None
    bodies: tuple[_Body, ...] = ()
    integrator: Literal["ab2", "euler"] = "ab2"
    cfl: float | None = Field(default=None, gt=0, le=1)
    penalty: float = Field(default=1e6, gt=0)
    dtype: Literal["float32", "float64"] = "float32"
    backend: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(default=1, ge=1)
    perturbation: float = Field(default=0.0, description="speed of a push across the wake at start")
    probes: tuple[Vector, ...] = Field(default=(), description="points of the box")
    record: RecordSettings | None = None
    statistics: StatisticsSettings | None = None

    @model_validator(mode="after")
    def _bodies_and_probes_are_in_the_box(self) -> "CaseConfig":
        width, height = self.nx * self.h, self.ny * self.h
        for k, body in enumerate(self.bodies):
            x, y = body.center
            if not (0 < x < width and 0 < y < height):
                raise ValueError(
                    f"bodies.{k}.center = [{x:g}, {y:g}]: not in the box of {width:g} x {height:g}"
                )
            if body.temperature is not None and self.temperature is None:
                raise ValueError(f"bodies.{k}.temperature needs the key temperature.diffusivity")
        for m, (x, y) in enumerate(self.probes):
            if not (0 <= x <= width and 0 <= y <= height):
                raise ValueError(
                    f"probes.{m} = [{x:g}, {y:g}]: not in the box of {width:g} x {height:g}"
                )
        return self

    def build(self, folder: Path = Path()) -> Simulation:
        """Build the simulation, with a recorder and statistics if the case has them.

        Parameters
        ----------
        folder
            Folder of the Python files with shapes.

        Raises
        ------
        ValueError
            For incompatible settings; the message is one sentence.
        """
        bodies = []
        for k, body in enumerate(self.bodies):
            try:
                bodies.append(_build_body(body, folder))
            except ValueError as error:
                raise ValueError(f"bodies.{k}: {error}") from error
        temperatures = {
            k: body.temperature
            for k, body in enumerate(self.bodies)
            if body.temperature is not None
        }
        simulation = Simulation(
            Grid(self.nx, self.ny, self.h),
            Sides(**self.sides.model_dump()),
            bodies,
            viscosity=1 / self.reynolds,
            stream=self.stream,
            gravity=self.gravity,
            body_force=self.body_force,
            mean_velocity=self.mean_velocity,
            temperature=None if self.temperature is None else self.temperature.build(temperatures),
            **self.model_dump(
                include={
                    *("integrator", "cfl", "penalty", "dtype", "backend", "threads"),
                    "perturbation",
                }
            ),
        )
        if self.record is not None or self.probes:
            how = self.record or RecordSettings()
            Recorder(simulation, every=how.every, steps=how.steps, probes=self.probes)
        if self.statistics is not None:
            FieldStatistics(simulation, **self.statistics.model_dump())
        return simulation


def load_case(case: str, overrides: list[str], seed: int = 0) -> Simulation:
    """Return the simulation of a case.

    Parameters
    ----------
    case
        A preset of a flow task (the initial state of its first episode, without actions), or a YAML file with the
        keys of :class:`CaseConfig`.
    overrides
        ``key=value`` words.
    seed
        Seed of a task's initial state.

    Raises
    ------
    ConfigError
        As in :func:`coupling.settings.config.load_config`, for a preset whose task is not a flow, and if there is no
        device.
    """
    content = read_yaml(find_preset(case))
    if "env" in content:
        return _of_task(case, overrides, seed)
    content = apply_overrides(read_yaml(find_preset(case), CaseConfig), overrides, CaseConfig)
    try:
        return CaseConfig.model_validate(content).build(find_preset(case).parent)
    except pydantic.ValidationError as error:
        raise ConfigError(f"{case}: {sentence_of(error, CaseConfig, content)}") from error
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ConfigError(f"{case}: {error}") from error


def smaller_step(case: str, simulation: Simulation) -> str:
    """Return the ``key=value`` word that halves the time step of a case."""
    is_task = "env" in read_yaml(find_preset(case))
    return f"{'env_options.cfl' if is_task else 'cfl'}={simulation.cfl / 2:g}"


def _of_task(case: str, overrides: list[str], seed: int) -> Simulation:
    # imported here, since tasks need the extra rl and the solver does not
    from cases.flow_env import FlowEnv
    from coupling.settings.config import load_config
    from coupling.worker.environments import make_single
    from coupling.worker.guard import FailureError

    config = load_config(case, overrides)
    guarded = make_single(config.env, config.env_options)
    if not isinstance(guarded.unwrapped, FlowEnv):
        raise ConfigError(
            f"env = {config.env!r} is no flow task; `flowsim simulate` needs one, or a YAML file of its own"
        )
    try:
        guarded.reset(seed=seed)
    except FailureError as error:
        raise ConfigError(f"env = {config.env!r}: {error}") from error
    env = guarded.unwrapped
    assert isinstance(env, FlowEnv)
    return env.task.simulation
