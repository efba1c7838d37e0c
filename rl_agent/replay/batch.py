"""Batches of sampled steps, gathered from the memory for a gradient.

All functions return the ring indices of the steps in the order of the batch, and the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import EpisodeMemory
from rl_agent.replay.storage import EpisodeStorage
from rl_agent.replay.targets import Coefficients, StoredSteps, target_after
from rl_agent.runtime.jit import compiled

__all__ = [
    "Batch",
    "Source",
    "Transitions",
    "gather_batch",
    "gather_n_step_transitions",
    "gather_sequences",
    "gather_transitions",
]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Source(NamedTuple):
    """Source of sampled steps, with the scales applied to them.

    Attributes
    ----------
    memory
        The replay memory.
    mean, per_std
        Mean and inverse standard deviation that standardise the states, shape (S,).
    gamma, reward_scale
        Discount factor, and divisor of the rewards.
    """

    memory: EpisodeMemory
    mean: F32
    per_std: F32
    gamma: float
    reward_scale: float


@dataclass(frozen=True)
class Batch:
    """Sampled steps, sorted by descending ``lengths``.

    Attributes
    ----------
    windows
        Standardised observations, shape (T, B, S), aligned at the sampled step; of ``gather_sequences`` (T, n, S).
    lengths
        Number of observations in each window, shape (B,) or (n,).
    action, behaviour_mean, behaviour_std
        Actions, and the policy mu they were sampled from, shape (B, A).
    v_tbc, q_ret
        Stored value targets in scaled units, shape (B,).
    present
        1 if the agent took part in the step, 0 if it had ended before others in its environment, shape (B,); ``None``
        with one agent per environment. The agents of an environment are adjacent.
    index
        ``gather_sequences`` only: row-major positions of the B steps in the first two axes of ``windows``, shape (B,).
    states
        ``gather_sequences`` only: recurrent states before the windows, if they are stored
        (``EpisodeStorage.states_before``), shape (n, H).
    """

    windows: F32
    lengths: I64
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    v_tbc: F32
    q_ret: F32
    present: F32 | None = None
    index: I64 | None = None
    states: F32 | None = None


@dataclass(frozen=True)
class Transitions:
    """Sampled steps with their next observations, for one-step targets; sorted by descending ``lengths``.

    Attributes
    ----------
    windows, lengths, action, behaviour_mean, behaviour_std
        As in ``Batch``.
    reward
        r_{t+1} in scaled units, shape (B,).
    next_windows, next_lengths
        The windows one step later, which end at s_{t+1}, shapes (T, B, S) and (B,).
    nonterminal
        0 if s_{t+1} is a terminal state, else 1 (also if the episode was truncated), shape (B,).
    gamma
        Current discount factor.
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


def gather_batch(source: Source, indices: I64, window: int) -> tuple[I64, Batch]:
    """Gather steps of all agents of their environments, with the stored value targets.

    Parameters
    ----------
    source
        Memory and scales.
    indices
        Ring indices of steps, each of any agent of its environment, shape (B,).
    window
        Number of previous steps in a window.

    Returns
    -------
    indices
        Ring indices of the steps of all agents, in the order of the batch, shape (B N,).
    batch
        The steps, those with the longest history first.
    """
    storage = source.memory.storage
    indices, lengths = _longest_first(storage, storage.of_all_agents(indices), window)
    return indices, Batch(
        storage.windows(indices, window + 1, source.mean, source.per_std),
        lengths,
        *_steps(source, indices),
        present=None
        if storage.agents_per_env == 1
        else storage.is_present(indices).astype(np.float32),
    )


def gather_sequences(source: Source, ends: I64, window: int, length: int) -> tuple[I64, Batch]:
    """Gather the last ``length`` steps up to each of ``ends``, or fewer at the beginning of a stored episode.

    Parameters
    ----------
    source
        Memory, with one agent per environment, and scales.
    ends
        Ring indices of the last steps, shape (n,).
    window
        Number of steps before the first of ``length``.
    length
        Maximum number of steps of a sequence.

    Returns
    -------
    indices
        Ring indices of the B gathered steps.
    batch
        The steps, with ``index``; T = window + length.
    """
    storage = source.memory.storage
    ends, lengths = _longest_first(storage, ends, window + length - 1)
    back = np.arange(length - 1, -1, -1)[:, None]
    in_grid = np.flatnonzero(storage.position[ends] >= back)
    indices = ((ends - back) % storage.capacity).reshape(-1)[in_grid]
    return indices, Batch(
        storage.windows(ends, window + length, source.mean, source.per_std),
        lengths,
        *_steps(source, indices),
        index=in_grid + window * len(ends),
        states=storage.states_before(ends, window + length),
    )


def _steps(source: Source, indices: I64) -> tuple[F32, F32, F32, F32, F32]:
    """Gather actions, behaviour and value targets of steps; see ``_gather_steps``."""
    storage, values = source.memory.storage, source.memory.values
    behaviour = Behaviour(storage.action, storage.behaviour_mean, storage.behaviour_std)
    coefficients = values.coefficients(source.gamma, source.reward_scale)
    return _gather_steps(indices, storage.rows(indices), behaviour, values.steps, coefficients)


def gather_transitions(source: Source, indices: I64, window: int) -> tuple[I64, Transitions]:
    """Gather steps with their next observations; arguments and order as in ``gather_batch``."""
    storage, scale = source.memory.storage, (source.mean, source.per_std)
    indices, lengths = _longest_first(storage, indices, window)
    rows = storage.rows(indices)
    is_terminal = storage.terminated[rows] & (storage.position[indices] + 1 == storage.length[rows])
    return indices, Transitions(
        windows=storage.windows(indices, window + 1, *scale),
        lengths=lengths,
        action=storage.action[indices],
        behaviour_mean=storage.behaviour_mean[indices],
        behaviour_std=storage.behaviour_std[indices],
        reward=storage.reward[indices] * np.float32(1.0 / source.reward_scale),
        next_windows=storage.following(indices, window + 1, *scale),
        next_lengths=np.minimum(storage.steps_before(indices) + 1, window) + 1,
        nonterminal=(~is_terminal).astype(np.float32),
        gamma=source.gamma,
    )


def gather_n_step_transitions(
    source: Source, indices: I64, window: int, n_step: int, *, clips_rewards: bool
) -> tuple[I64, Transitions]:
    """Gather m-step transitions, where m is ``n_step``, or less if the episode ends earlier.

    Parameters
    ----------
    source, indices, window
        As in ``gather_batch``.
    n_step
        Maximum number of steps.
    clips_rewards
        Whether rewards are clipped to [-1, 1] instead of divided by their scale.

    Returns
    -------
    indices, transitions
        As from ``gather_transitions``, with reward sum_k gamma^k r_{t+k+1}, and gamma^(m-1) in ``nonterminal``.
    """
    storage, gamma = source.memory.storage, source.gamma
    indices, now = gather_transitions(source, indices, window)
    rows = storage.rows(indices)
    left = storage.length[rows] - storage.position[indices]
    ahead = np.minimum(left, n_step)
    reward = np.zeros(len(indices), np.float32)
    for k in range(int(ahead.max())):
        each = storage.reward[(indices + k) % storage.capacity]
        each = each.clip(-1.0, 1.0) if clips_rewards else each / np.float32(source.reward_scale)
        reward += np.where(k < ahead, np.float32(gamma**k) * each, np.float32(0.0))
    is_terminal = storage.terminated[rows] & (ahead == left)
    return indices, replace(
        now,
        reward=reward,
        next_windows=storage.following(indices, window + 1, source.mean, source.per_std, ahead),
        next_lengths=np.minimum(storage.steps_before(indices) + ahead, window) + 1,
        nonterminal=np.where(is_terminal, 0.0, gamma ** (ahead - 1)).astype(np.float32),
    )


def _longest_first(storage: EpisodeStorage, indices: I64, window: int) -> tuple[I64, I64]:
    """Sort steps by descending length of their history; return the steps and the lengths of their windows."""
    lengths = np.minimum(storage.steps_before(indices), window) + 1
    if window == 0:
        return indices, lengths
    order = np.argsort(-lengths, kind="stable")
    return indices[order], lengths[order]


class Behaviour(NamedTuple):
    """Ring arrays of the actions, and of the policy mu they were sampled from (``EpisodeStorage``)."""

    action: F32
    mean: F32
    std: F32


@compiled()
def _gather_steps(
    indices: I64, rows: I64, behaviour: Behaviour, steps: StoredSteps, coefficients: Coefficients
) -> tuple[F32, F32, F32, F32, F32]:
    """Gather action, behaviour and value targets of the steps at ``indices``.

    Parameters
    ----------
    indices, rows
        Ring indices of the steps, and their episodes' rows in the table, shape (B,).
    behaviour, steps, coefficients
        The stored actions, the stored values, and the coefficients of the value targets.

    Returns
    -------
    action, behaviour_mean, behaviour_std
        Shape (B, A) for Gaussians; see ``EpisodeStorage``.
    v_tbc, q_ret
        V_tbc_t and Q_ret_t = r_{t+1} + gamma V_tbc_{t+1}, shape (B,); see ``lambda_mix`` for lambda below 1.
    """
    batch = indices.shape[0]
    actions = np.empty((batch, behaviour.action.shape[1]), np.float32)
    means = np.empty((batch, behaviour.mean.shape[1]), np.float32)
    stds = np.empty((batch, behaviour.std.shape[1]), np.float32)
    targets, q_ret = np.empty(batch, np.float32), np.empty(batch, np.float32)
    for b in range(batch):
        e, k = rows[b], indices[b]
        for j in range(actions.shape[1]):
            actions[b, j] = behaviour.action[k, j]
        for j in range(means.shape[1]):
            means[b, j] = behaviour.mean[k, j]
        for j in range(stds.shape[1]):
            stds[b, j] = behaviour.std[k, j]
        v_next = target_after(steps, coefficients, k, e)
        targets[b] = steps.v_tbc[k]
        q_ret[b] = steps.reward[k] * coefficients.per_scale + coefficients.gamma * v_next
    return actions, means, stds, targets, q_ret
