"""Columns of the arrays that every sweep sees: clocks, bodies and their motion.

A few arrays with columns replace many arrays, because each array adds to the time of every compiled function that takes
it and of every call (docs/decisions/solver_speed.md). Users see the columns as named views:
:class:`flowsim.bodies.table.BodyState`, ``Simulation.time`` and so on. The columns of bending bodies are in
:mod:`flowsim.kernels.midline`.
"""

# clocks (B, 9)
TIME, DT, UNTIL, RATIO, SPEED, VISCOSITY, DIFFUSIVITY, LAG, CATCH_UP = range(9)
"""Time, step, time at which to stop, step over the last step, largest |u| + |v|, 1/Re, the diffusivity of temperature,
zero if there is none, the time by which far-field sides and the pressure lag behind the flow, and the part of what they
lag behind that they make up in the step (:func:`flowsim.kernels.time.catch_up`)."""
CLOCK_COLUMNS = 9

# rows of flags (3, B)
RUNNING, DIVERGED, STOPPED = range(3)
"""Whether a simulation is running, has blown up, and was stopped by a fence or a contact."""
FLAGS = 3

# traits (K, 10): what a body is
AXIS_A, AXIS_B, CENTROID_X, CENTROID_Y = range(4)
"""Semi-axes, and the centre of mass in the frame of the body."""
EXCESS_MASS, EXCESS_INERTIA, FLUID_MASS, FLUID_INERTIA, MASS_LAG, INERTIA_LAG = range(4, 10)
"""Mass and moment of inertia about the centre of mass: the excess over the displaced fluid, the displaced fluid, and
the parts that follow the fluid (docs/bodies.md), zero unless a body is lighter than the fluid."""

# kinds (K, 4)
SHAPE, FREE, START, SIDE = range(4)
"""Its :class:`~flowsim.kernels.distances.Shape`, its freedom, where its table of distances begins, and the number of
entries along a side of that."""
FREELY, HOLDS_X, HOLDS_Y, HOLDS_ANGLE, SPRUNG = 1, 2, 4, 8, 16
"""Freedom of a body, the sum of these: it moves; its x, y, angle are held; it has springs."""

# states (B, K, 42): where bodies are and what acts on them
X, Y, ANGLE, VX, VY, SPIN = range(6)
"""Reference point and angle, and their rates."""
VX_BEFORE, VY_BEFORE, SPIN_BEFORE, ANGLE_BEFORE = range(6, 10)
"""Rates and angle at the beginning of the step."""
APPLIED_X, APPLIED_Y, APPLIED_TORQUE, FORCE_X, FORCE_Y, TORQUE = range(10, 16)
"""Force and torque applied to a free body, and those by the fluid in the last step."""
IMPULSE_X, IMPULSE_Y, IMPULSE_TORQUE = range(16, 19)
FLUID_MOTION, FLUID_ACCELERATION = 19, 22
"""Motion and acceleration of the fluid under a light body, three columns each: along x and y, and rotation."""
X_LOW, X_HIGH, Y_LOW, Y_HIGH = range(25, 29)
"""Fences of the reference point: the limits of its position."""
SPIN_TARGET, SPIN_RATE = range(29, 31)
"""Of a held body: target of the angular velocity, and rate of approach; a rate of zero keeps the current one."""
WORK = 31
"""Work that the fluid has done on the body."""
STIFFNESS, DAMPING, REST = 32, 35, 38
"""Stiffness, damping and rest position of the springs of a body, three columns each: along x and y, and rotation."""
ENDING_CONTACT = 41
"""Contacts that stop the simulation, a sum of :class:`~flowsim.bodies.table.Contact`."""
STATE_COLUMNS = 42
