"""The solver alone: a task's simulation, or one described in a small YAML file."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import h5py
import numpy as np
import pydantic
from pydantic import BaseModel, ConfigDict, Field

from cases.flow_env import FlowEnv
from cases.options import SideOptions
from coupling.config import apply_overrides, find_preset, load_config, read_yaml, sentence_of
from coupling.errors import ConfigError
from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, Simulation
from flowsim.viz import (
    VORTICITY_LIMIT,
    Outline,
    Picture,
    Scene,
    outline,
    reduce_picture,
    vorticity_picture,
    write_gif,
    write_mp4,
)

__all__ = ["CaseConfig", "load_case", "simulate"]

_FPS = 20.0
_WIDTH = 960
_GIF_FRAMES = 160
_GIF_WIDTH = 480


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


def simulate(
    simulation: Simulation,
    duration: float,
    output: Path,
    *,
    frames: int = 200,
    snapshots: int = 10,
    progress: Callable[[float], None] = lambda done: None,
) -> str:
    """Run one simulation and write forces, fields and films.

    Parameters
    ----------
    simulation
        A batch of one.
    duration
        Time in D/U.
    output
        Folder for ``forces.csv`` (every step), ``fields-N.h5``, ``vorticity.mp4`` and ``vorticity.gif``.
    frames, snapshots
        Number of pictures and of field files, evenly spaced.
    progress
        Called with the part that is done, 0 to 1.

    Returns
    -------
    str
        Why it ended: the time is over, a body left the box, or the simulation diverged.
    """
    output.mkdir(parents=True, exist_ok=True)
    kept: list[Picture] = []
    stride = -(-frames // _GIF_FRAMES)
    with (output / "forces.csv").open("w", newline="") as file:
        recorder = _Recorder(simulation, csv.writer(file))
        begun = float(simulation.time[0])

        def pictures() -> Iterator[Picture]:
            for n in range(frames + 1):
                if n:
                    simulation.advance(begun + duration * n / frames - simulation.time[0], stop=recorder.record)
                if n * snapshots // frames > (n - 1) * snapshots // frames:
                    write_fields(output / f"fields-{n * snapshots // frames:04d}.h5", simulation)
                picture = _picture(simulation)
                if n % stride == 0:
                    kept.append(reduce_picture(picture, _GIF_WIDTH))
                yield picture
                progress(n / frames)
                if recorder.ending:
                    return

        write_mp4(output / "vorticity.mp4", pictures(), _FPS)
    write_gif(output / "vorticity.gif", kept, _FPS / stride)
    return recorder.ending or f"the time is over after {int(simulation.steps[0])} steps"


class _Recorder:
    """Writes a row a step, and notices when there is no use in going on."""

    def __init__(self, simulation: Simulation, writer: Any) -> None:
        self.ending = ""
        self._writer = writer
        names = [
            "x",
            "y",
            "angle",
            "velocity_x",
            "velocity_y",
            "angular_velocity",
            "force_x",
            "force_y",
            "torque",
        ]
        bodies = range(len(simulation.bodies))
        writer.writerow(["time", "dt", *(f"body{k}_{name}" for k in bodies for name in names)])

    def record(self, simulation: Simulation) -> np.ndarray:
        """Write the state of all bodies after a step; tell whether to stop."""
        state = simulation.body_state
        row = [simulation.time[0], simulation.dt[0]]
        for k in range(len(simulation.bodies)):
            row += [
                *state.position[0, k],
                state.angle[0, k],
                *state.velocity[0, k],
                state.angular_velocity[0, k],
            ]
            row += [*state.force[0, k], state.torque[0, k]]
        self._writer.writerow([f"{value:.9g}" for value in row])
        width, height = simulation.grid.size
        inside = (state.position[0] > 0) & (state.position[0] < (width, height))
        if simulation.diverged[0]:
            self.ending = f"the simulation diverged at time {simulation.time[0]:.4g}"
        elif not inside.all():
            self.ending = f"body {np.argmin(inside.all(axis=1))} left the box at time {simulation.time[0]:.4g}"
        return np.array([bool(self.ending)])


def write_fields(path: Path, simulation: Simulation) -> None:
    """Write velocity, vorticity, pressure and solid fraction at cell centres to an HDF5 file.

    Parameters
    ----------
    path
        The file.
    simulation
        A batch of one. Datasets have the shape (nx, ny), the velocity (nx, ny, 2); the attributes
        ``time`` and ``h`` go with them, and cell (i, j) has its centre at ((i + 1/2) h, (j + 1/2) h).
    """
    with h5py.File(path, "w") as file:
        file.attrs["time"], file.attrs["h"] = simulation.time[0], simulation.grid.h
        file["velocity"] = simulation.velocity_at_centres()[0]
        file["vorticity"] = simulation.vorticity()[0]
        file["pressure"] = simulation.pressure[0]
        file["solid"] = simulation.solid()[0]


def _picture(simulation: Simulation) -> Picture:
    state = simulation.body_state
    outlines = [
        Outline(outline(body, state.position[0, k], float(state.angle[0, k])), agent=body.motion == "free")
        for k, body in enumerate(simulation.bodies)
    ]
    scene = Scene(simulation.vorticity()[0], simulation.grid.size, outlines)
    return _even(np.asarray(vorticity_picture(scene, _WIDTH, VORTICITY_LIMIT)))


def _even(picture: Picture) -> Picture:
    """Cut a line or column that the film's codec cannot take."""
    height, width, _ = picture.shape
    return picture[: height - height % 2, : width - width % 2]
