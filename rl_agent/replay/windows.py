"""Windows of standardised observations, gathered from the ring of stored steps by compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_agent.runtime.jit import compiled

__all__ = ["StoredObservations", "gather_windows"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class StoredObservations(NamedTuple):
    """The arrays of an ``EpisodeStorage`` from which windows are gathered.

    Attributes
    ----------
    observation, position, episode_id
        Ring arrays, shapes (capacity, S) and (capacity,).
    length, final_observation, preceding, preceding_observation
        Episode table, shapes (rows,), (rows, S), (rows,) and (rows, H, S).
    """

    observation: npt.NDArray[Any]
    position: I64
    episode_id: I64
    length: I64
    final_observation: npt.NDArray[Any]
    preceding: I64
    preceding_observation: npt.NDArray[Any]


@compiled()
def gather_windows(
    stored: StoredObservations, indices: I64, ahead: I64, mean: F32, per_std: F32, out: F32
) -> None:
    """Gather standardised windows that end ``ahead`` steps after each of ``indices``.

    Parameters
    ----------
    stored
        The observations.
    indices
        Ring indices of the steps, shape (B,).
    ahead
        Number of steps ahead, at most to the final observation, shape (B,).
    mean, per_std
        Mean and inverse standard deviation of the states, shape (S,).
    out
        Written, shape (T, B, S), aligned at the end; zero before the beginning of an episode. In a later part of an
        episode, a window begins with the observations that precede the part.
    """
    capacity, size = stored.observation.shape
    steps = out.shape[0]
    for b in range(indices.shape[0]):
        k, on = indices[b], ahead[b]
        e = stored.episode_id[k] % len(stored.length)
        end = stored.position[k] + on
        for back in range(steps):
            t = steps - 1 - back
            if back > end + stored.preceding[e]:
                out[t, b] = np.float32(0.0)
                continue
            if back == 0 and end == stored.length[e]:
                seen = stored.final_observation[e]
            elif back <= end:
                seen = stored.observation[(k + on - back) % capacity]
            else:  # the newest of the preceding observations is the last one
                seen = stored.preceding_observation[e, end - back]
            for s in range(size):
                out[t, b, s] = (seen[s] - mean[s]) * per_std[s]
