"""A batched two-dimensional incompressible Navier-Stokes solver with moving bodies.

Units: length D, time D/U, fluid density 1; so viscosity is 1/Re.
"""

from flowsim.bodies import Body, BodyState, Disk, Ellipse, HalfDisk
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation

__all__ = ["Body", "BodyState", "Disk", "Ellipse", "Grid", "HalfDisk", "Sides", "Simulation"]
