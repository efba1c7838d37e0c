"""Typed options of the flow tasks, their presets, and one-sentence error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cases.error_messages import refuse_unknown, sentence_of
from cases.yaml_files import read_mapping
from flowsim import Grid

Side = Literal["inflow", "outflow", "open", "slip", "no_slip", "periodic", "far_field"]
OptionsT = TypeVar("OptionsT", bound="SolverOptions")
ModelT = TypeVar("ModelT", bound=BaseModel)


class SideOptions(BaseModel):
    """Boundary conditions on the sides of the box, as in `flowsim.Sides`; by default ``left`` depends on the others."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    left: Side | None = None
    right: Side = "outflow"
    bottom: Side = "far_field"
    top: Side = "far_field"


class SolverOptions(BaseModel):
    """Options common to all flow tasks, in the task's units of length, velocity and time."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    episode_actions: int = Field(ge=1, description="actions until an episode is truncated")
    action_time: float = Field(
        1.0, gt=0.0, le=100.0, description="time for which one action is applied"
    )
    integrator: Literal["ab2", "euler"] = "ab2"
    cfl: float | None = Field(
        None, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    penalty: float = Field(1e6, gt=0.0, description="lambda of the penalisation, in U/D")
    dtype: Literal["float32", "float64"] = "float32"
    backend: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(1, ge=1)

    def grid(self) -> Grid:
        """Return the grid of the box."""
        raise NotImplementedError

    @property
    def viscosity(self) -> float:
        """The viscosity of the fluid."""
        raise NotImplementedError


class TaskOptions(SolverOptions):
    """Options of a task whose viscosity follows from its Reynolds number."""

    reynolds: float = Field(400.0, gt=0.0, description="U D / nu")

    @property
    def viscosity(self) -> float:
        """Viscosity, 1/Re."""
        return 1.0 / self.reynolds


class FlowOptions(TaskOptions):
    """Options of a task with the unit of length D; times are in T = D/U, forces in rho U^2 D."""

    cells_per_diameter: float = Field(ge=4.0, description="resolution D/h")

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        raise NotImplementedError

    def grid(self) -> Grid:
        """Return the grid of the box at this resolution."""
        nx, ny = (round(side * self.cells_per_diameter) for side in self.box())
        return Grid(nx, ny, 1.0 / self.cells_per_diameter)

    @model_validator(mode="after")
    def _cells_are_even(self) -> Self:
        width, height = self.box()
        cells = [side * self.cells_per_diameter for side in (width, height)]
        if any(abs(n - round(n)) > 1e-9 or round(n) % 2 for n in cells):
            raise ValueError(
                f"'cells_per_diameter' is {self.cells_per_diameter:g}, which divides the box of {width:g} x "
                f"{height:g} into {cells[0]:g} x {cells[1]:g} cells, but both numbers must be even integers"
            )
        return self


def preset_names(folder: Path) -> list[str]:
    """Return the names of the presets in a task's folder, sorted."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def preset_options(folder: Path, preset: str) -> dict[str, Any]:
    """Return the `env_options` section of a shipped preset.

    Raises
    ------
    ValueError
        If there is no such preset.
    """
    names = preset_names(folder)
    if preset not in names:
        raise ValueError(f"unknown preset {preset!r}: allowed are {', '.join(names)}")
    return dict(read_mapping(folder / f"{preset}.yaml").get("env_options") or {})


def parse_options(
    model: type[ModelT], folder: Path, preset: str | None, options: dict[str, Any]
) -> ModelT:
    """Return validated options: those of the preset, overridden by `options`.

    Raises
    ------
    TypeError
        For an unknown option, like a function for an unknown keyword argument.
    ValueError
        For an invalid value; the message is one sentence with the key, the value and what is allowed.
    """
    refuse_unknown(options, ["preset", *model.model_fields])
    merged = {**(preset_options(folder, preset) if preset is not None else {}), **options}
    try:
        return model.model_validate(merged)
    except ValidationError as error:
        raise ValueError(sentence_of(error, model)) from None
