"""The CPU backend: numba sweeps of :mod:`flowsim.stencils` over NumPy arrays.

Every sweep takes the numbers of the ``active`` simulations and runs in parallel over simulations or, when they are
fewer than the threads, over blocks of rows of each. A simulation in a batch equals the same simulation alone to the
bit, for any number of threads.
"""

from flowsim.backend.cpu.bodies import cover, follow_light_bodies, move_free_bodies, penalize
from flowsim.backend.cpu.compiling import most_threads, use_threads
from flowsim.backend.cpu.far_field import far_field
from flowsim.backend.cpu.flow import correct, divergence, fill_ghosts, predict, update_sides
from flowsim.backend.cpu.poisson import PressureSolver

__all__ = [
    "PressureSolver",
    "correct",
    "cover",
    "divergence",
    "far_field",
    "fill_ghosts",
    "follow_light_bodies",
    "most_threads",
    "move_free_bodies",
    "penalize",
    "predict",
    "update_sides",
    "use_threads",
]
