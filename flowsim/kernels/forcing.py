"""The force per unit mass that drives a flow, shared by all backends.

Its columns are those of an array (B, 7): the uniform force; the mean velocity that it is to hold, NaN where it holds
none; and the mean velocity and the size of the previous step.
"""

from __future__ import annotations

from typing import Any

from flowsim.kernels.device_function import device_function

Array = Any

FORCE_X, FORCE_Y, TARGET_X, TARGET_Y, MEAN_X, MEAN_Y, LAST_DT = range(7)
FORCING_COLUMNS = 7


@device_function
def is_held(target: float) -> bool:
    """Return whether the mean velocity in a direction has a target."""
    return target == target


@device_function
def hold_mean(forcing: Array, mean_x: float, mean_y: float, dt: float) -> None:
    """Set the force that brings the mean velocity to its target in this step, against the resistance.

    The resistance is that of the previous step, what the force gave and the flow did not gain, so the error of the mean
    velocity is the change of the resistance in a step, times dt, and does not accumulate.
    """
    last = forcing[LAST_DT]
    for n in range(2):
        target, mean = forcing[TARGET_X + n], mean_x if n == 0 else mean_y
        if is_held(target):
            gained = (mean - forcing[MEAN_X + n]) / last if last > 0.0 else 0.0
            forcing[FORCE_X + n] += (target - mean) / dt - gained
            forcing[MEAN_X + n] = mean
    forcing[LAST_DT] = dt
