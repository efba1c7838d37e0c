"""The channel of Schaefer & Turek (1996), used by several tasks.

It is 22 D long and 4.1 D high, with no-slip walls and a parabolic inflow of mean velocity U. The body is at (2, 2),
0.05 D below the middle. The height is a whole number of cells if the number of cells per D is a multiple of 20.
"""

from cases.initial_flows import Development
from flowsim import Sides

BOX = (22.0, 4.1)
CENTER = (2.0, 2.0)
SIDES = Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic")
DEVELOPMENT = Development(time=60.0, snapshots=30, spacing=1.13, split=True)
"""Long enough for the wake of a cylinder at Re 100 to be periodic; each third of the states covers three periods."""
