"""What a gradient needs of drawn steps, gathered from the memory in compiled passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rl_agent.replay.targets import lambda_mix
from rl_agent.runtime.jit import compiled

__all__ = ["Batch", "Transitions", "gather_following", "gather_steps", "gather_windows"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Drawn steps, sorted by descending ``lengths``.

    Attributes
    ----------
    windows
        Standardised observations, shape (T, B, S), aligned at the drawn step.
    lengths
        Observations in each window, shape (B,).
    action, behaviour_mean, behaviour_std
        What was done, and the policy mu it was drawn from, shape (B, A).
    v_tbc, q_ret
        Stored value targets in scaled units, shape (B,).
    present
        1 where the agent took part in the step, 0 where it had ended before others of its world, shape (B,); ``None``
        where agents are alone in their worlds. The agents of a world are next to each other.
    """

    windows: F32
    lengths: I64
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    v_tbc: F32
    q_ret: F32
    present: F32 | None = None


@dataclass(frozen=True)
class Transitions:
    """Drawn steps with what followed each, for one-step targets; sorted by descending ``lengths``.

    Attributes
    ----------
    windows, lengths, action, behaviour_mean, behaviour_std
        As of ``Batch``.
    reward
        r_{t+1} in scaled units, shape (B,).
    next_windows, next_lengths
        The same windows moved on to s_{t+1}, shapes (T, B, S) and (B,).
    nonterminal
        0 where s_{t+1} is a terminal state, else 1 (also where the episode was cut short), shape (B,).
    gamma
        Present discount factor.
    """

    windows: F32
    lengths: I64
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    reward: F32
    next_windows: F32
    next_lengths: I64
    nonterminal: F32
    gamma: float


@compiled()
def gather_following(
    observation: F32,
    position: I64,
    places: I64,
    rows: I64,
    lengths: I64,
    final_observation: F32,
    mean: F32,
    per_std: F32,
    ahead: I64,
    out: F32,
) -> None:
    """Standardise the observations up to and including the one that came ``ahead`` steps after each of ``places``.

    Parameters
    ----------
    observation, position
        Ring arrays, shapes (capacity, S) and (capacity,).
    places, rows
        Places of the steps, and their episodes' rows in the table, shape (B,).
    lengths, final_observation
        Episode table: number of steps, and what was seen after the last.
    mean, per_std
        Statistics of the states, shape (S,).
    ahead
        Steps on, at least one and at most to the final observation, shape (B,).
    out
        Written, shape (T, B, S), aligned at the end; zero where the episode had not yet begun.
    """
    capacity, size = observation.shape
    steps = out.shape[0]
    for b in range(places.shape[0]):
        k, e, on = places[b], rows[b], ahead[b]
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
    observation: F32, position: I64, places: I64, mean: F32, per_std: F32, out: F32
) -> None:
    """Standardise the observations of the steps that end at each of ``places``.

    Parameters
    ----------
    observation, position
        Ring arrays, shapes (capacity, S) and (capacity,).
    places
        Places of the last steps, shape (B,).
    mean, per_std
        Statistics of the states, shape (S,).
    out
        Written, shape (T, B, S), aligned at the end; zero where the episode had not yet begun.
    """
    capacity, size = observation.shape
    steps = out.shape[0]
    for b in range(places.shape[0]):
        oldest = steps - 1 - min(position[places[b]], steps - 1)
        for t in range(steps):
            if t < oldest:
                for s in range(size):
                    out[t, b, s] = np.float32(0.0)
            else:
                k = places[b] - (steps - 1 - t)
                if k < 0:
                    k += capacity
                for s in range(size):
                    out[t, b, s] = (observation[k, s] - mean[s]) * per_std[s]


@compiled()
def gather_steps(
    places: I64,
    rows: I64,
    action: F32,
    behaviour_mean: F32,
    behaviour_std: F32,
    reward: F32,
    value: F32,
    v_tbc: F32,
    position: I64,
    lengths: I64,
    finals: F32,
    gamma: np.float32,
    per_scale: np.float32,
    decay: np.float32,
) -> tuple[F32, F32, F32, F32, F32]:
    """Gather action, behaviour and value targets of the steps at ``places``.

    Parameters
    ----------
    places, rows
        Places of the steps, and their episodes' rows in the table, shape (B,).
    action, behaviour_mean, behaviour_std, reward, value, v_tbc, position
        Ring arrays.
    lengths, finals
        Episode table: number of steps, value of the final observation.
    gamma, per_scale, decay
        Discount factor, one over the reward scale, and lambda of the value targets.

    Returns
    -------
    action, behaviour_mean, behaviour_std
        Shape (B, A) for Gaussians; see ``EpisodeMemory``.
    v_tbc, q_ret
        V_tbc_t and Q_ret_t = r_{t+1} + gamma V_tbc_{t+1}, shape (B,); see ``lambda_mix`` for lambda below 1.
    """
    capacity, size = action.shape
    batch = places.shape[0]
    actions, means = (
        np.empty((batch, size), np.float32),
        np.empty((batch, behaviour_mean.shape[1]), np.float32),
    )
    stds = np.empty((batch, behaviour_std.shape[1]), np.float32)
    targets, q_ret = np.empty(batch, np.float32), np.empty(batch, np.float32)
    for b in range(batch):
        e, k = rows[b], places[b]
        for j in range(size):
            actions[b, j] = action[k, j]
        for j in range(means.shape[1]):
            means[b, j] = behaviour_mean[k, j]
        for j in range(stds.shape[1]):
            stds[b, j] = behaviour_std[k, j]
        after = (k + 1) % capacity
        v_next = (
            finals[e]
            if position[k] + 1 == lengths[e]
            else lambda_mix(v_tbc[after], value[after], decay)
        )
        targets[b] = v_tbc[k]
        q_ret[b] = reward[k] * per_scale + gamma * v_next
    return actions, means, stds, targets, q_ret
