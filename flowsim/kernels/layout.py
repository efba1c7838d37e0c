"""Columns of the arrays that every sweep sees: clocks, bodies and how they move.

Few arrays with columns stand instead of many: each array costs every compiled function that sees it, and every
call, time (docs/decisions/solver_speed.md). Users see the columns under names of their own, as views:
:class:`flowsim.bodies.table.BodyState`, ``Simulation.time`` and so on. Those of bodies that bend are in
:mod:`flowsim.kernels.midline`.
"""

# clocks (B, 7)
TIME, DT, UNTIL, RATIO, SPEED, VISCOSITY, DIFFUSIVITY = range(7)
"""Time, step, when to stop, step over the last step, largest |u| + |v|, 1/Re, and the diffusivity of temperature, zero
where there is none."""
CLOCK_COLUMNS = 7

# rows of flags (3, B)
RUNNING, DIVERGED, STOPPED = range(3)
"""Whether a simulation goes on, has blown up, and was stopped by a fence or a contact."""
FLAGS = 3

# traits (K, 10): what a body is
AXIS_A, AXIS_B, CENTROID_X, CENTROID_Y = range(4)
"""Semi-axes, and the centre of mass in the frame of the body."""
EXCESS_MASS, EXCESS_INERTIA, FLUID_MASS, FLUID_INERTIA, MASS_LAG, INERTIA_LAG = range(4, 10)
"""Mass and moment of inertia about the centre of mass: the excess over the displaced fluid, the displaced fluid, and
the parts that follow the fluid (docs/bodies.md), zero unless a body is lighter than the fluid."""

# kinds (K, 4)
SHAPE, FREE, START, SIDE = range(4)
"""Its :class:`~flowsim.kernels.distances.Shape`, how free it is, where its table of distances begins, and how many
entries a side of that has."""
FREELY, HOLDS_X, HOLDS_Y, HOLDS_ANGLE, SPRUNG = 1, 2, 4, 8, 16
"""How free a body is, the sum of these: it moves; its x, y, angle are held; it has springs."""

# states (B, K, 42): where bodies are and what acts on them
X, Y, ANGLE, VX, VY, SPIN = range(6)
"""Reference point and angle, and their rates."""
VX_BEFORE, VY_BEFORE, SPIN_BEFORE, ANGLE_BEFORE = range(6, 10)
"""At the beginning of the step."""
APPLIED_X, APPLIED_Y, APPLIED_TORQUE, FORCE_X, FORCE_Y, TORQUE = range(10, 16)
"""Force and torque on a free body, and those by the fluid in the last step."""
IMPULSE_X, IMPULSE_Y, IMPULSE_TORQUE = range(16, 19)
FLUID_MOTION, FLUID_ACCELERATION = 19, 22
"""Of the fluid under a light body, three columns each: along x and y, and rotation."""
X_LOW, X_HIGH, Y_LOW, Y_HIGH = range(25, 29)
"""Fences of the reference point."""
SPIN_TARGET, SPIN_RATE = range(29, 31)
"""Of a body that is held: the angular velocity to approach, and how fast; zero keeps the one that it has."""
WORK = 31
"""That the fluid has done on the body."""
STIFFNESS, DAMPING, REST = 32, 35, 38
"""Of the springs and dampers of a body, three columns each: along x and y, and rotation."""
ENDING_CONTACT = 41
"""Contacts that stop the simulation, a sum of :class:`~flowsim.bodies.table.Contact`."""
STATE_COLUMNS = 42
