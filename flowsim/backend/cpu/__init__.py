"""The CPU backend: numba sweeps of :mod:`flowsim.kernels.cell` over NumPy arrays.

Every sweep takes the numbers of the ``active`` simulations. With several threads it runs in parallel over simulations
or, when they are fewer than the threads, over blocks of rows of each. A simulation in a batch equals the same
simulation alone to the bit: on one thread, and on any number of several. The two differ by round-off, because the form
for one thread is compiled without the parallel parts.
"""

from flowsim.backend.cpu.bodies import bend, cover, follow_light_bodies, penalize, sense
from flowsim.backend.cpu.clock import begin_step, end_step, find_speed
from flowsim.backend.cpu.compiling import most_threads, use_threads
from flowsim.backend.cpu.device import Device
from flowsim.backend.cpu.far_field import far_field
from flowsim.backend.cpu.flow import copy_velocity, correct, divergence, predict, sample
from flowsim.backend.cpu.poisson import PressureSolver
from flowsim.backend.cpu.sides import fill_ghosts, predict_open_sides, update_sides

__all__ = [
    "Device",
    "PressureSolver",
    "begin_step",
    "bend",
    "copy_velocity",
    "correct",
    "cover",
    "divergence",
    "end_step",
    "far_field",
    "fill_ghosts",
    "find_speed",
    "follow_light_bodies",
    "most_threads",
    "penalize",
    "predict",
    "predict_open_sides",
    "sample",
    "sense",
    "update_sides",
    "use_threads",
]
