"""The state of a batch of flows: its arrays, and how the host reads and writes them."""

from __future__ import annotations

from flowsim.backend.host.body_outlines import BodyOutlines
from flowsim.backend.host.derived_fields import DerivedFields
from flowsim.backend.host.driving import Driving
from flowsim.backend.host.heat import Heated
from flowsim.backend.host.snapshots import Snapshots
from flowsim.backend.host.velocity import Velocity


class State(Velocity, Driving, Heated, BodyOutlines, DerivedFields, Snapshots):
    """Fields and bodies of a batch of flows; parameters and attributes as in :class:`flowsim.simulation.Simulation`."""
