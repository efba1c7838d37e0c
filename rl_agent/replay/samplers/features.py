"""What a sampler with a network sees of stored steps (NERS, eq. 2)."""

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
"""tanh of the TD error and of the target of a step that was not sampled yet (appendix B)."""


class TDStatistics:
    """tanh of the last TD error and of the last target of every stored step.

    Parameters
    ----------
    capacity
        Of the memory.

    Attributes
    ----------
    td_error, target
        Shape (capacity,).
    """

    def __init__(self, capacity: int) -> None:
        self.td_error: F32 = np.full(capacity, UNKNOWN, np.float32)
        self.target: F32 = np.full(capacity, UNKNOWN, np.float32)

    def forget(self, indices: I64) -> None:
        """Know nothing of the steps at ``indices``, which are new."""
        self.td_error[indices] = UNKNOWN
        self.target[indices] = UNKNOWN

    def take(self, sampled: SampledBatch) -> None:
        """Take what an update found out; its target is its value and its error."""
        self.td_error[sampled.indices] = np.tanh(sampled.td_error)
        self.target[sampled.indices] = np.tanh(sampled.value + sampled.td_error)

    def save(self) -> dict[str, F32]:
        """Arrays that ``restore`` needs."""
        return {"td_error": self.td_error, "target": self.target}

    def restore(self, arrays: dict[str, npt.NDArray[np.float32]]) -> None:
        """Take over the result of ``save``."""
        self.td_error[:], self.target[:] = arrays["td_error"], arrays["target"]


class Features:
    """Columns that describe steps, each passed through tanh (NERS, appendix B, for the last two; all in its code).

    States are standardised and rewards in scaled units before; kappa is the running number of a step over that of the
    newest one; a discrete action is a column for each choice.

    Parameters
    ----------
    names
        Which of ``FEATURES``.
    sizes
        Of the task.
    frames
        Where states are pictures, how many are stacked; they are then in ``pictures`` and in no column.

    Attributes
    ----------
    size
        Number of columns.
    pictured
        Which of s and s' are in ``pictures``.
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
        """Describe the steps at ``indices``, shape (n, size)."""
        columns = [self._column(name, source, indices, td_statistics) for name in self.names]
        return np.concatenate([np.empty((len(indices), 0), np.float32), *columns], axis=1)

    def pictures(self, source: Source, indices: I64) -> F32 | None:
        """Stacks of frames of s, then of s', where both are seen: (frames, n or 2 n, S), or ``None``."""
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
