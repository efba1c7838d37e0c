"""Settings of the temperature of a case: heating and buoyancy."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from flowsim import Temperature

__all__ = ["TemperatureSettings"]

_Side = Literal["left", "right", "bottom", "top"]
_AlongSide = float | tuple[float, ...]


class TemperatureSettings(BaseModel):
    """Arguments of :class:`flowsim.Temperature`; the ``temperature`` of a body is one of the body's keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    diffusivity: float = Field(gt=0, description="kappa in U D")
    sides: dict[_Side, _AlongSide] = Field(
        default_factory=dict, description="a number, or one for each cell along the side"
    )
    fluxes: dict[_Side, _AlongSide] = Field(
        default_factory=dict, description="into the box through walls, likewise"
    )
    buoyancy: tuple[float, float] = Field(
        default=(0.0, 0.0), description="acceleration for a unit of temperature"
    )
    reference: float = Field(default=0.0, description="temperature without buoyancy")
    initial: float = 0.0

    def build(self, bodies: Mapping[int, float]) -> Temperature:
        """Build the temperature of a flow with these body temperatures, by index of the body."""
        return Temperature(**self.model_dump(), bodies=bodies)
