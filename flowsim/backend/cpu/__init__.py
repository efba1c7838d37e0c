"""The CPU backend: numba sweeps of :mod:`flowsim.stencils` over NumPy arrays.

Every sweep takes the numbers of the ``active`` simulations and runs in parallel over simulations or, when they are
fewer than the threads, over blocks of rows of each. With one thread a simulation in a batch equals the same simulation
alone to the bit; blocks of rows change the order of the sums in the matrix products, and so the last digits.
"""

from flowsim.backend.cpu.bodies import cover, follow_light_bodies, penalize
from flowsim.backend.cpu.compiling import most_threads, use_threads
from flowsim.backend.cpu.flow import correct, divergence, fill_ghosts, predict, update_sides
from flowsim.backend.cpu.poisson import single_threaded_blas, solve_poisson

__all__ = [
    "correct",
    "cover",
    "divergence",
    "fill_ghosts",
    "follow_light_bodies",
    "most_threads",
    "penalize",
    "predict",
    "single_threaded_blas",
    "solve_poisson",
    "update_sides",
    "use_threads",
]
