"""Windows of standardised observations, gathered from the ring of stored steps by compiled code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.runtime.jit import compiled

__all__ = ["gather_following", "gather_windows"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


# many arguments because compiled code takes arrays one by one
@compiled()
def gather_following(
    observation: F32,
    position: I64,
    indices: I64,
    rows: I64,
    lengths: I64,
    final_observation: F32,
    mean: F32,
    per_std: F32,
    ahead: I64,
    out: F32,
) -> None:
    """Gather standardised windows that end ``ahead`` steps after each of ``indices``.

    Parameters
    ----------
    observation, position
        Ring arrays, shapes (capacity, S) and (capacity,).
    indices, rows
        Ring indices of the steps, and their episodes' rows in the table, shape (B,).
    lengths, final_observation
        Episode table: number of steps, and final observation.
    mean, per_std
        Mean and inverse standard deviation of the states, shape (S,).
    ahead
        Number of steps ahead, at least one and at most to the final observation, shape (B,).
    out
        Written, shape (T, B, S), aligned at the end; zero before the beginning of an episode.
    """
    capacity, size = observation.shape
    steps = out.shape[0]
    for b in range(indices.shape[0]):
        k, e, on = indices[b], rows[b], ahead[b]
        is_last = position[k] + on == lengths[e]
        for back in range(steps):
            t = steps - 1 - back
            if back > position[k] + on:
                out[t, b] = np.float32(0.0)
                continue
            seen = (
                final_observation[e]
                if back == 0 and is_last
                else observation[(k + on - back) % capacity]
            )
            for s in range(size):
                out[t, b, s] = (seen[s] - mean[s]) * per_std[s]


@compiled()
def gather_windows(
    observation: F32, position: I64, indices: I64, mean: F32, per_std: F32, out: F32
) -> None:
    """Gather standardised windows that end at each of ``indices``.

    Parameters
    ----------
    observation, position
        Ring arrays, shapes (capacity, S) and (capacity,).
    indices
        Ring indices of the last steps, shape (B,).
    mean, per_std
        Mean and inverse standard deviation of the states, shape (S,).
    out
        Written, shape (T, B, S), aligned at the end; zero before the beginning of an episode.
    """
    capacity, size = observation.shape
    steps = out.shape[0]
    for b in range(indices.shape[0]):
        oldest = steps - 1 - min(position[indices[b]], steps - 1)
        for t in range(steps):
            if t < oldest:
                for s in range(size):
                    out[t, b, s] = np.float32(0.0)
            else:
                k = indices[b] - (steps - 1 - t)
                if k < 0:
                    k += capacity
                for s in range(size):
                    out[t, b, s] = (observation[k, s] - mean[s]) * per_std[s]
