"""A batch of flows as the sweeps of a backend see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from flowsim.kernels.layout import RUNNING
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Forcing, Heat, Sensors

Array = Any


@dataclass
class DeviceState:
    """A batch of flows as the sweeps of a backend see it, on the host or on a device.

    Attributes
    ----------
    sweeps : module
        The backend.
    beside : callable
        Takes a function that launches sweeps which may run concurrently with those launched after it. Returns a
        function that must be called before the first sweep that needs their results.
    fields, clock, box, bodies, sensors
        Arrays that the sweeps read and write.
    everyone : (B,) bool
        One flag per simulation, all of them set.
    room, speeds, far_room
        Work arrays: for the rows of a thread or the windows of bodies, for the largest speeds, and for the far field
        (None without one).
    far_spacing : int
        Cells between the points on far-field sides at which the velocity is computed.
    pressure_solver
        Pressure solver of the backend.
    forcing : Forcing or None
    heat : Heat or None
    has_open_sides, has_bodies, has_bending_bodies, has_light_bodies, has_heated_bodies : bool
        Whether there are sides at which the pressure is held, bodies, bending bodies, free bodies lighter than the
        fluid, and bodies with a given temperature.
    """

    sweeps: ModuleType
    beside: Callable[[Callable[[], None]], Callable[[], None]]
    fields: Fields
    clock: Clock
    box: Box
    bodies: Bodies
    sensors: Sensors
    everyone: Array
    room: Any
    speeds: Any
    far_room: Any
    far_spacing: int
    pressure_solver: Any
    forcing: Forcing | None
    heat: Heat | None
    has_open_sides: bool
    has_bodies: bool
    has_bending_bodies: bool
    has_light_bodies: bool
    has_heated_bodies: bool

    @property
    def running(self) -> Array:
        """Flags (B,) of the simulations that take part in a step."""
        return self.clock.flags[RUNNING]
