"""Value targets as compiled backward sweeps: V_tbc of V-RACER, the lambda return of PPO, and Retrace of ACER.

Eq. 8 of the ReF-ER paper, with r_{t+1} divided by the reward scale and rho_bar = min(1, rho):

    V_tbc_t = V(s_t) + rho_bar_t [ r_{t+1} + gamma V_tbc_{t+1} - V(s_t) - A(s_t, a_t) ]

with A = 0 unless the advantage has a closed form (eqs. 6 and 7 with Q = V + A). The last step
uses the value of the final observation: 0 if the episode terminated, V(s_T) if it was truncated.
With a ``decay`` lambda below 1 (Retrace(lambda), Munos et al. 2016), V_tbc_{t+1} is replaced by
V(s_{t+1}) + lambda (V_tbc_{t+1} - V(s_{t+1})), so that V replaces rewards far in the future. On-policy, with
rho_bar = 1 and A = 0, the result is the lambda return V(s_t) + A_t of generalised advantage estimation (Schulman et al.
2016, eq. 16). Episodes are stored in a ring, so a step's index is ``(start + position) mod capacity``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.extending import register_jitable

from rl_agent.runtime.jit import compiled

__all__ = [
    "Coefficients",
    "StoredSteps",
    "corrected",
    "lambda_mix",
    "retrace",
    "sweep_all",
    "sweep_sampled",
    "target_after",
]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@register_jitable(inline="always")
def corrected(value: Any, trace: Any, error: Any) -> Any:
    """Return V + c (target - estimate), the step of all these recursions; for numbers, arrays or tensors."""
    return value + trace * error


@njit(inline="always")
def lambda_mix(target: np.float32, value: np.float32, decay: np.float32) -> np.float32:
    """Return V + lambda (V_tbc - V), exactly V_tbc if lambda is 1."""
    return target if decay == 1 else corrected(value, decay, target - value)


class StoredSteps(NamedTuple):
    """Arrays of the stored steps and episodes that value targets are computed from, written to, and read from.

    Attributes
    ----------
    position, reward, value, advantage, rho, kl, far, v_tbc
        Ring arrays, shape (capacity,) (``EpisodeStorage`` and ``StoredValues``).
    start, length, final_value
        Episode table: ring index of the first step, number of steps, value of the final observation.
    """

    position: I64
    reward: F32
    value: F32
    advantage: F32
    rho: F32
    kl: F32
    far: npt.NDArray[np.bool_]
    v_tbc: F32
    start: I64
    length: I64
    final_value: F32


class Coefficients(NamedTuple):
    """Coefficients of the recursion.

    Attributes
    ----------
    gamma
        Discount factor.
    per_scale
        Inverse of the reward scale.
    decay
        Lambda of Retrace(lambda); 1 in the paper.
    """

    gamma: np.float32
    per_scale: np.float32
    decay: np.float32


@register_jitable
def target_after(steps: Any, coefficients: Any, k: int, e: int) -> Any:
    """Return the bootstrap of the step with ring index k of the episode in row e: V_tbc_{t+1}, or V at the end."""
    if steps.position[k] + 1 == steps.length[e]:
        return steps.final_value[e]
    after = (k + 1) % steps.reward.shape[0]
    return lambda_mix(steps.v_tbc[after], steps.value[after], coefficients.decay)


@compiled()
def _sweep(
    start: int,
    position: int,
    v_next: np.float32,
    steps: StoredSteps,
    coefficients: Coefficients,
    stop_when_unchanged: bool,
) -> None:
    """Recompute V_tbc from ``position`` back to the first step of the episode beginning at ``start``.

    Unless ``decay`` is 1, the step before ``position`` depends on the refreshed V as well as on its target, so the
    sweep must not stop at ``position``.
    """
    reward, value, target = steps.reward, steps.value, steps.v_tbc
    advantage, rho = steps.advantage, steps.rho
    gamma, per_scale, decay = coefficients
    capacity = reward.shape[0]
    for t in range(position, -1, -1):
        k = start + t
        if k >= capacity:
            k -= capacity
        q = reward[k] * per_scale + gamma * v_next
        trace = min(np.float32(1.0), rho[k])
        new = corrected(value[k], trace, q - value[k] - advantage[k])
        if stop_when_unchanged and new == target[k] and (t < position or decay == 1):
            return
        target[k] = new
        v_next = lambda_mix(new, value[k], decay)


@compiled()
def sweep_sampled(indices: I64, rows: I64, steps: StoredSteps, coefficients: Coefficients) -> None:
    """Update V_tbc of sampled steps with refreshed values and weights, and of all earlier steps.

    A sweep stops as soon as a target is unchanged bit for bit: every earlier target depends on the
    refreshed step only through that one, so the result equals a full recomputation. Because steps are
    processed from the last to the first, most sweeps in the same episode stop immediately.

    Parameters
    ----------
    indices
        Ring indices of the sampled steps, shape (B,), sorted in ascending order for speed.
    rows
        Row of each step's episode in the episode table, shape (B,).
    steps
        The stored steps, of which ``v_tbc`` is written.
    coefficients
        Coefficients of the recursion.
    """
    for b in range(indices.shape[0] - 1, -1, -1):
        k, e = indices[b], rows[b]
        v_next = target_after(steps, coefficients, k, e)
        _sweep(steps.start[e], steps.position[k], v_next, steps, coefficients, True)


@compiled()
def sweep_all(rows: I64, steps: StoredSteps, coefficients: Coefficients) -> None:
    """Recompute V_tbc of every step of the episodes in ``rows`` of the table (see ``sweep_sampled``)."""
    for e in rows:
        last, final = steps.length[e] - 1, steps.final_value[e]
        _sweep(steps.start[e], last, final, steps, coefficients, False)


@compiled()
def retrace(
    reward: F32,
    value: F32,
    q: F32,
    trace: F32,
    last: F32,
    rows: I64,
    gamma: np.float32,
    untraced: bool,
) -> F32:
    """Compute Q_i = r_{i+1} + gamma [ c_{i+1} (Q_{i+1} - q_{i+1}) + V_{i+1} ] for M steps of n segments, shape (M,).

    Parameters
    ----------
    reward, value, q, trace
        r_{i+1}, V(s_i), Q(s_i, a_i) and c_i, shape (M,).
    last
        Value after the last step of each segment, shape (n,).
    rows
        Index of the step at each position of the grid of segments, -1 if there is none, shape (T, n).
    gamma
        Discount factor.
    untraced
        Whether to use c = 1.
    """
    targets = np.empty_like(reward)
    for b in range(rows.shape[1]):
        following = last[b]
        for t in range(rows.shape[0] - 1, -1, -1):
            k = rows[t, b]
            if k < 0:
                break
            target = reward[k] + gamma * following
            targets[k] = target
            c = np.float32(1.0) if untraced else trace[k]
            following = corrected(value[k], c, target - q[k])
    return targets
