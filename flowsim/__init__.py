"""A batched two-dimensional incompressible Navier-Stokes solver with moving bodies.

Units: length D, time D/U, fluid density 1; so viscosity is 1/Re.
"""

from flowsim.bodies import Body, Disk, Ellipse, HalfDisk, SignedDistance, Union, polygon
from flowsim.bodies.jets import Jet
from flowsim.bodies.table import BodyState, Contact
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation
from flowsim.surface import SurfaceLoads, surface_loads

__all__ = [
    "Body",
    "BodyState",
    "Contact",
    "Disk",
    "Ellipse",
    "Grid",
    "HalfDisk",
    "Jet",
    "Sides",
    "SignedDistance",
    "Simulation",
    "SurfaceLoads",
    "Union",
    "polygon",
    "surface_loads",
]
