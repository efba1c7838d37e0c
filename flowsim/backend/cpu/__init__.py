"""The CPU backend: numba sweeps of :mod:`flowsim.kernels.cell` over NumPy arrays.

Every sweep is a compiled function of one simulation. A sequence of sweeps is recorded once and then repeated by a
compiled loop that does not need Python's lock, so that threads process whole simulations of a batch in parallel; a
single simulation is shared among threads in blocks of its rows. A simulation in a batch equals the same simulation
alone bit for bit, on any number of threads.
"""

from flowsim.backend.cpu.bodies import bend, cover, sense
from flowsim.backend.cpu.clock import begin_step, end_step
from flowsim.backend.cpu.damping import damp
from flowsim.backend.cpu.device import Device
from flowsim.backend.cpu.far_field import far_field
from flowsim.backend.cpu.flow import copy_velocity, correct, divergence, find_speed, predict, sample
from flowsim.backend.cpu.forcing import push
from flowsim.backend.cpu.heat import (
    advance_temperature,
    fill_temperature,
    heat_bodies,
    keep_temperature,
    lift,
)
from flowsim.backend.cpu.jets import balance_jets, subtract_sources
from flowsim.backend.cpu.penalty import follow_light_bodies, penalize, place_bodies
from flowsim.backend.cpu.poisson import PressureSolver
from flowsim.backend.cpu.precompile import cores
from flowsim.backend.cpu.recording import look, record, record_temperature
from flowsim.backend.cpu.sides import fill_ghosts, predict_open_sides, update_sides

__all__ = [
    "Device",
    "PressureSolver",
    "advance_temperature",
    "balance_jets",
    "begin_step",
    "bend",
    "copy_velocity",
    "cores",
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
