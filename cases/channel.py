"""The channel of Schaefer & Turek (1996), in which several tasks have their body.

22 D long and 4.1 D high, walls without slip, a parabolic inflow whose mean is U; the body is at (2, 2), 0.05 D below
the middle. A number of cells per D that fits the height is a multiple of 20.
"""

from cases.bank import Development
from flowsim import Sides

BOX = (22.0, 4.1)
CENTER = (2.0, 2.0)
SIDES = Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic")
DEVELOPMENT = Development(time=60.0, snapshots=30, spacing=1.13, split=True)
"""Until the wake of a cylinder at Re 100 is periodic; each third of the states covers three periods."""
