"""Selective frequency damping (Åkervik et al. 2006), shared by all backends.

    du/dt = N(u) - chi (u - w),   dw/dt = (u - w) / Delta

w is the flow behind a low-pass filter of width Delta, and chi the damping coefficient. N is advanced by a step, and the
other terms are integrated exactly before it (Jordi, Cotter and Sherwin 2014), so that a flow that is steady without the
damping is steady with it.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.kernels.device_function import device_function

Array = Any

DAMPING, FILTER_WIDTH = range(2)
"""Columns of an array (B, 2)."""
DAMPING_COLUMNS = 2


@device_function
def shares_of_step(row: Array, dt: float) -> tuple[float, float]:
    """Return the fractions of u - w that the flow loses and the filtered flow gains in a step."""
    rate = row[DAMPING] + 1.0 / row[FILTER_WIDTH]
    time = (1.0 - math.exp(-rate * dt)) / rate
    return row[DAMPING] * time, time / row[FILTER_WIDTH]
