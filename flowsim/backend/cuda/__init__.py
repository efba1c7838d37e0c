"""The CUDA backend: numba kernels that sweep :mod:`flowsim.kernels.cell` over CuPy arrays.

``active`` has a flag for each simulation, on the device; simulations whose flag is not set are skipped. Sweeps neither
wait for the device nor allocate memory, so that a sequence of them can be captured as a graph.
"""

from flowsim.backend.cuda.bodies import bend, cover, follow_light_bodies, sense
from flowsim.backend.cuda.clock import begin_step, end_step
from flowsim.backend.cuda.damping import damp
from flowsim.backend.cuda.device import Device
from flowsim.backend.cuda.far_field import far_field
from flowsim.backend.cuda.flow import (
    copy_velocity,
    correct,
    divergence,
    find_speed,
    predict,
    sample,
)
from flowsim.backend.cuda.forcing import push
from flowsim.backend.cuda.heat import (
    advance_temperature,
    fill_temperature,
    heat_bodies,
    keep_temperature,
    lift,
)
from flowsim.backend.cuda.jets import balance_jets, subtract_sources
from flowsim.backend.cuda.penalty import penalize
from flowsim.backend.cuda.placing import place_bodies
from flowsim.backend.cuda.poisson import PressureSolver
from flowsim.backend.cuda.recording import look, record, record_temperature
from flowsim.backend.cuda.sides import fill_ghosts, predict_open_sides, update_sides

__all__ = [
    "Device",
    "PressureSolver",
    "advance_temperature",
    "balance_jets",
    "begin_step",
    "bend",
    "copy_velocity",
    "correct",
    "cover",
    "damp",
    "divergence",
    "end_step",
    "far_field",
    "fill_ghosts",
    "fill_temperature",
    "find_speed",
    "follow_light_bodies",
    "heat_bodies",
    "keep_temperature",
    "lift",
    "look",
    "penalize",
    "place_bodies",
    "predict",
    "predict_open_sides",
    "push",
    "record",
    "record_temperature",
    "sample",
    "sense",
    "subtract_sources",
    "update_sides",
]
