"""Sampling of segments of episodes, for ACER and TIS."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.samplers.sampler import Sampler
from rl_agent.replay.storage import EpisodeStorage

__all__ = ["SegmentSampler"]

I64 = npt.NDArray[np.int64]


class SegmentSampler(Sampler):
    """Samples the last steps of segments of episodes, for ACER and TIS.

    In replay, all episodes are equally likely regardless of length (ReF-ER paper, appendix A: "uniformly sampled
    episodes"), and so are the segments of at most ``segment`` steps of an episode.

    With a ``ratio`` the calls alternate as in the ACER paper's algorithm 1: an on-policy call, then Poisson(ratio)
    replay calls. An on-policy call takes the episodes collected since the last one, cut into segments, so that every
    stored step is used on-policy exactly once. If nothing new has been collected, a replay call is made instead. If
    more than ``MOST_BATCHES`` batches have been collected (before learning starts), the oldest of them are taken and
    the next call is on-policy again. Steps that are removed from the memory before are never used on-policy.

    Parameters
    ----------
    segment
        Maximum number of steps in a segment.
    ratio
        Mean number of replay calls per on-policy call; ``None`` for replay only.

    Attributes
    ----------
    replays_left
        Replay calls before the next on-policy call.
    next_id
        Id of the first episode that has not been used by an on-policy call.
    """

    MOST_BATCHES = 4

    def __init__(self, segment: int, ratio: float | None) -> None:
        self.segment, self.ratio = segment, ratio
        self.replays_left = self.next_id = 0

    def prepare(self, storage: EpisodeStorage) -> None:
        """Replace an on-policy call by a replay call if there are no new episodes."""
        is_on_policy = self.ratio is not None and self.replays_left == 0
        if is_on_policy and self.next_id >= storage.next_id:
            self.replays_left = 1

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of the last steps of ``batch`` segments; on-policy, of all collected segments.

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if storage.episodes == 0:
            raise ValueError("cannot sample from an empty memory: it holds 0 episodes")
        self.prepare(storage)
        if self.ratio is not None and self.replays_left == 0:
            ends = self._collected(storage, self.MOST_BATCHES * batch)
            if self.next_id == storage.next_id:
                self.replays_left = int(rng.poisson(self.ratio))
            return ends
        self.replays_left = max(0, self.replays_left - 1)
        episode_ids = rng.integers(storage.first_id, storage.next_id, batch)
        rows = episode_ids % len(storage.start)
        lengths = storage.length[rows]
        ends = rng.integers(np.minimum(self.segment, lengths) - 1, lengths)
        return (storage.start[rows] + ends) % storage.capacity

    def _collected(self, storage: EpisodeStorage, most: int) -> I64:
        """Take unused episodes, the oldest first, and cut them into segments from their ends.

        Parameters
        ----------
        storage
            Storage of the replay memory, with at least one unused episode.
        most
            Number of segments after which no further episode is taken.

        Returns
        -------
        I64
            Ring indices of the last steps of the segments. Only the first segment of an episode may be shorter.
        """
        taken: list[I64] = []
        self.next_id = max(self.next_id, storage.first_id)
        while self.next_id < storage.next_id and sum(len(ends) for ends in taken) < most:
            row = self.next_id % len(storage.start)
            taken.append(storage.start[row] + np.arange(storage.length[row] - 1, -1, -self.segment))
            self.next_id += 1
        return np.concatenate(taken) % storage.capacity

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        return {
            "replays_left": np.array(self.replays_left),
            "next_serial": np.array(self.next_id),
        }

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``; without ``next_serial`` (older checkpoints) no episode is unused."""
        self.replays_left = int(arrays["replays_left"])
        self.next_id = int(arrays.get("next_serial", storage.next_id))
