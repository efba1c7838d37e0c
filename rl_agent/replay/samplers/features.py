"""Features of stored steps for samplers with a network (NERS, eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.batch import Source
from rl_agent.replay.samplers.sampler import SampledBatch

__all__ = ["FEATURES", "Features", "TDStatistics"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

FEATURES = ("state", "action", "reward", "next_state", "time", "td_error", "target")
"""s, a, r, s', kappa, delta and r + gamma max_a Q~(s', a), in the order of eq. 2."""

UNKNOWN = 1.0
"""Value of tanh of the TD error and of the target for a step that has not been sampled yet (appendix B)."""


class TDStatistics:
    """tanh of the last TD error and of the last target of every stored step.

    Parameters
    ----------
    capacity
        Capacity of the memory.

    Attributes
    ----------
    td_error, target
        tanh of TD error and target, shape (capacity,).
    """

    def __init__(self, capacity: int) -> None:
        self.td_error: F32 = np.full(capacity, UNKNOWN, np.float32)
        self.target: F32 = np.full(capacity, UNKNOWN, np.float32)

    def forget(self, indices: I64) -> None:
        """Reset the steps at ``indices``, which are new."""
        self.td_error[indices] = UNKNOWN
        self.target[indices] = UNKNOWN

    def take(self, sampled: SampledBatch) -> None:
        """Store the results of an update; the target is the sum of value and TD error."""
        self.td_error[sampled.indices] = np.tanh(sampled.td_error)
        self.target[sampled.indices] = np.tanh(sampled.value + sampled.td_error)

    def save(self) -> dict[str, F32]:
        """Return the arrays for ``restore``."""
        return {"td_error": self.td_error, "target": self.target}

    def restore(self, arrays: dict[str, npt.NDArray[np.float32]]) -> None:
        """Restore the result of ``save``."""
        self.td_error[:], self.target[:] = arrays["td_error"], arrays["target"]


class Features:
    """Feature columns of steps, each passed through tanh (the last two in NERS, appendix B; all in its code).

    Before the tanh, states are standardised and rewards scaled. kappa is the id of a step divided by that of the newest
    one; discrete actions are one-hot.

    Parameters
    ----------
    names
        Selection of ``FEATURES``.
    sizes
        Sizes of the task.
    frames
        Number of stacked frames if states are images, which are then returned by ``pictures`` and not in columns.

    Attributes
    ----------
    size
        Number of columns.
    pictured
        Which of s and s' are returned by ``pictures``.
    """

    def __init__(self, names: Sequence[str], sizes: Sizes, frames: int = 0) -> None:
        chosen = [name for name in FEATURES if name in names]
        self._frames, self._choices = frames, sizes.choices
        self.pictured = tuple(name for name in chosen if frames and "state" in name)
        self.names = tuple(name for name in chosen if name not in self.pictured)
        widths = {
            "state": sizes.observation,
            "next_state": sizes.observation,
            "action": sizes.choices or sizes.action,
        }
        self.size = sum(widths.get(name, 1) for name in self.names)

    def __call__(self, source: Source, indices: I64, td_statistics: TDStatistics) -> F32:
        """Compute the features of the steps at ``indices``, shape (n, size)."""
        columns = [self._column(name, source, indices, td_statistics) for name in self.names]
        return np.concatenate([np.empty((len(indices), 0), np.float32), *columns], axis=1)

    def pictures(self, source: Source, indices: I64) -> F32 | None:
        """Return stacks of frames of s, then of s', if used: shape (frames, n or 2 n, S), or ``None``."""
        if not self.pictured:
            return None
        gather = {
            "state": source.memory.storage.windows,
            "next_state": source.memory.storage.following,
        }
        stacks = [
            gather[name](indices, self._frames, source.mean, source.per_std)
            for name in self.pictured
        ]
        return np.concatenate(stacks, axis=1)

    def _column(self, name: str, source: Source, indices: I64, td_statistics: TDStatistics) -> F32:
        storage, scale = source.memory.storage, (source.mean, source.per_std)
        match name:
            case "state":
                return np.tanh(storage.windows(indices, 1, *scale)[0])
            case "next_state":
                return np.tanh(storage.following(indices, 1, *scale)[0])
            case "action" if self._choices:
                return np.eye(self._choices, dtype=np.float32)[
                    storage.action[indices, 0].astype(np.int64)
                ]
            case "action":
                return np.tanh(storage.action[indices])
            case "reward":
                return np.tanh(storage.reward[indices] * np.float32(1.0 / source.reward_scale))[
                    :, None
                ]
            case "time":
                return np.tanh(storage.step_ids(indices) / storage.added).astype(np.float32)[
                    :, None
                ]
            case "td_error":
                return td_statistics.td_error[indices][:, None]
            case _:
                return td_statistics.target[indices][:, None]
