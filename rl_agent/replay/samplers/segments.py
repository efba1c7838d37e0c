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

    In replay, episodes are equally likely, whatever their length (ReF-ER paper, appendix A: "uniformly sampled
    episodes"), and so are the segments of at most ``segment`` steps of an episode.

    With a ``ratio`` the calls alternate as in the ACER paper's algorithm 1: an on-policy call, then Poisson(ratio)
    replay calls. An on-policy call takes what has been collected since the last one, cut into segments, so every stored
    step is learned from on-policy exactly once. Where nothing has been collected since, another replay call takes its
    place; where more than ``MOST_BATCHES`` batches have been (before learning starts), the oldest of them are taken and
    the next call is on-policy again. Steps that the memory forgets before their turn are never learned on-policy.

    Parameters
    ----------
    segment
        Most steps of a segment.
    ratio
        Mean number of replay calls after an on-policy call; ``None`` for replay alone.

    Attributes
    ----------
    replays_left
        Replay calls before the next on-policy call.
    next_id
        Number of the first episode that no on-policy call has learned from.
    """

    MOST_BATCHES = 4

    def __init__(self, segment: int, ratio: float | None) -> None:
        self.segment, self.ratio = segment, ratio
        self.replays_left = self.next_id = 0

    def prepare(self, storage: EpisodeStorage) -> None:
        """Let a replay call take the place of an on-policy call that would find nothing."""
        is_on_policy = self.ratio is not None and self.replays_left == 0
        if is_on_policy and self.next_id >= storage.next_id:
            self.replays_left = 1

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Ring indices of the last steps of ``batch`` segments, in an on-policy call of as many as were collected.

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
        """Take whole episodes from the oldest one waiting on, and cut them from their ends into segments.

        Parameters
        ----------
        storage
            Of the replay memory; an episode waits there.
        most
            Segments after which no further episode is taken.

        Returns
        -------
        I64
            Ring indices of the last steps of the segments. Only the first segment of an episode may be a short one.
        """
        taken: list[I64] = []
        self.next_id = max(self.next_id, storage.first_id)
        while self.next_id < storage.next_id and sum(len(ends) for ends in taken) < most:
            row = self.next_id % len(storage.start)
            taken.append(storage.start[row] + np.arange(storage.length[row] - 1, -1, -self.segment))
            self.next_id += 1
        return np.concatenate(taken) % storage.capacity

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        return {
            "replays_left": np.array(self.replays_left),
            "next_serial": np.array(self.next_id),
        }

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``; in older checkpoints nothing waits."""
        self.replays_left = int(arrays["replays_left"])
        self.next_id = int(arrays.get("next_serial", storage.next_id))
