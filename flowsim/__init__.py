"""A batched two-dimensional incompressible Navier-Stokes solver with moving bodies.

Units: length D, time D/U, fluid density 1; hence the viscosity is 1/Re.
"""

from flowsim.backend.temperature import Temperature
from flowsim.bodies import Body, Disk, Ellipse, HalfDisk, SignedDistance, Union, polygon
from flowsim.bodies.jets import Jet
from flowsim.bodies.mounts import Spring
from flowsim.bodies.table import BodyState, Contact
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.measure.heat import nusselt_number, side_heat_flux, volume_nusselt_number
from flowsim.measure.recorder import Recorder
from flowsim.measure.statistics import FieldStatistics
from flowsim.measure.surface import SurfaceLoads, surface_loads
from flowsim.simulation import Simulation
from flowsim.stability.base_flow import base_flow
from flowsim.stability.modes import leading_modes

__all__ = [
    "Body",
    "BodyState",
    "Contact",
    "Disk",
    "Ellipse",
    "FieldStatistics",
    "Grid",
    "HalfDisk",
    "Jet",
    "Recorder",
    "Sides",
    "SignedDistance",
    "Simulation",
    "Spring",
    "SurfaceLoads",
    "Temperature",
    "Union",
    "base_flow",
    "leading_modes",
    "nusselt_number",
    "polygon",
    "side_heat_flux",
    "surface_loads",
    "volume_nusselt_number",
]
