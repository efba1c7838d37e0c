"""Sampling of segments of episodes, for ACER and TIS."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import EpisodeMemory
from rl_agent.replay.samplers.sampler import Sampler

__all__ = ["SegmentSampler"]

I64 = npt.NDArray[np.int64]


class SegmentSampler(Sampler):
    """Draws the last steps of segments of episodes, for ACER and TIS.

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
    next_serial
        Number of the first episode that no on-policy call has learned from.
    """

    MOST_BATCHES = 4

    def __init__(self, segment: int, ratio: float | None) -> None:
        self.segment, self.ratio = segment, ratio
        self.replays_left = self.next_serial = 0

    def prepare(self, memory: EpisodeMemory) -> None:
        """Let a replay call take the place of an on-policy call that would find nothing."""
        is_on_policy = self.ratio is not None and self.replays_left == 0
        if is_on_policy and self.next_serial >= memory.next_serial:
            self.replays_left = 1

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> I64:
        """Places of the last steps of ``batch`` segments, in an on-policy call of as many as were collected.

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if memory.episodes == 0:
            raise ValueError("cannot draw from an empty memory: it holds 0 episodes")
        self.prepare(memory)
        if self.ratio is not None and self.replays_left == 0:
            ends = self._collected(memory, self.MOST_BATCHES * batch)
            if self.next_serial == memory.next_serial:
                self.replays_left = int(rng.poisson(self.ratio))
            return ends
        self.replays_left = max(0, self.replays_left - 1)
        serials = rng.integers(memory.first_serial, memory.next_serial, batch)
        rows = serials % len(memory.start)
        lengths = memory.length[rows]
        ends = rng.integers(np.minimum(self.segment, lengths) - 1, lengths)
        return (memory.start[rows] + ends) % memory.capacity

    def _collected(self, memory: EpisodeMemory, most: int) -> I64:
        """Take whole episodes from the oldest one waiting on, and cut them from their ends into segments.

        Parameters
        ----------
        memory
            The replay memory; an episode waits there.
        most
            Segments after which no further episode is taken.

        Returns
        -------
        I64
            Places of the last steps of the segments. Only the first segment of an episode may be a short one.
        """
        taken: list[I64] = []
        self.next_serial = max(self.next_serial, memory.first_serial)
        while self.next_serial < memory.next_serial and sum(len(ends) for ends in taken) < most:
            row = self.next_serial % len(memory.start)
            taken.append(memory.start[row] + np.arange(memory.length[row] - 1, -1, -self.segment))
            self.next_serial += 1
        return np.concatenate(taken) % memory.capacity

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        return {
            "replays_left": np.array(self.replays_left),
            "next_serial": np.array(self.next_serial),
        }

    def restore(self, memory: EpisodeMemory, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``; in older checkpoints nothing waits."""
        self.replays_left = int(arrays["replays_left"])
        self.next_serial = int(arrays.get("next_serial", memory.next_serial))
