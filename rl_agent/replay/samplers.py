"""Who is drawn from the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.config import (
    ACERConfig,
    AgentConfig,
    DrawsSteps,
    OnPolicyConfig,
    SegmentConfig,
)
from rl_agent.networks import Conv, make_encoder
from rl_agent.replay.ero import EROSampler
from rl_agent.replay.features import Features
from rl_agent.replay.memory import EpisodeMemory
from rl_agent.replay.ners import NERSSampler
from rl_agent.replay.prioritised import ProportionalSampler, RankSampler
from rl_agent.replay.sampler import Sampler
from rl_agent.replay.score_network import PICTURE_HIDDEN, PICTURE_OUTPUTS, ScoreNetwork
from rl_agent.rollout.normalization import Sizes

__all__ = ["EpochSampler", "SegmentSampler", "UniformSampler", "make_sampler"]

I64 = npt.NDArray[np.int64]

PRIORITY_EXPONENTS = {"rank": 0.7, "proportional": 0.6, "ners": 0.5}
"""alpha, where the settings do not say (Schaul et al. 2016, table 3; NERS, table B.1)."""


class UniformSampler(Sampler):
    """Every stored step is equally likely; draws are independent (with replacement).

    Parameters
    ----------
    episode_share
        Share of a batch for which every stored episode is equally likely, and then every step of it.
    """

    def __init__(self, episode_share: float = 0.0) -> None:
        self.episode_share = episode_share

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> I64:
        """Places of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if memory.size == 0:
            raise ValueError("cannot draw from an empty memory: it holds 0 steps")
        by_episode = round(self.episode_share * batch)
        behind = rng.integers(0, memory.size, batch - by_episode)
        if by_episode == 0:
            return (memory.tail + behind) % memory.capacity
        rows = rng.integers(memory.first_serial, memory.next_serial, by_episode) % len(memory.start)
        of_episodes = memory.start[rows] + rng.integers(0, memory.length[rows])
        return np.concatenate([memory.tail + behind, of_episodes]) % memory.capacity


class SegmentSampler(UniformSampler):
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


class EpochSampler(UniformSampler):
    """Takes every step of a fixed set once per epoch, in a new random order each time, for PPO and A3C.

    Steps that do not fill a last batch sit out the epoch.
    """

    def __init__(self) -> None:
        self.places: I64 = np.zeros(0, np.int64)
        self.cursor = 0
        self.epochs_left = 0

    def begin(self, places: I64, epochs: int) -> None:
        """Start ``epochs`` passes over the steps at ``places``."""
        self.places, self.cursor, self.epochs_left = places.copy(), 0, epochs

    def left(self, batch: int) -> int:
        """Batches still to come."""
        return self.epochs_left * (len(self.places) // batch) - self.cursor // batch

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> I64:
        """Places of the next ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If all passes are done.
        """
        if self.left(batch) <= 0:
            raise ValueError("every step has been taken in every epoch: collect new ones first")
        if self.cursor == 0:
            rng.shuffle(self.places)
        drawn = self.places[self.cursor : self.cursor + batch].copy()
        self.cursor += batch
        if self.cursor + batch > len(self.places):
            self.cursor = 0
            self.epochs_left -= 1
        return drawn

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        # their name in every checkpoint so far
        return {"slots": self.places, "progress": np.array([self.cursor, self.epochs_left])}

    def restore(self, memory: EpisodeMemory, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``."""
        self.places = arrays["slots"].astype(np.int64)
        self.cursor, self.epochs_left = (int(number) for number in arrays["progress"])


def make_sampler(config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> Sampler:
    """Build the sampler that the settings name, or that the algorithm needs.

    Parameters
    ----------
    config, sizes
        Settings of the learner, and sizes of the task.
    rng
        Draws the first weights of a sampler that has a network.
    """
    if isinstance(config, SegmentConfig):
        ratio = config.replay_ratio if sizes.choices and isinstance(config, ACERConfig) else None
        return SegmentSampler(config.segment, ratio)
    if isinstance(config, OnPolicyConfig):
        return EpochSampler()
    if config.sampler == "uniform":
        return UniformSampler(config.episode_share if isinstance(config, DrawsSteps) else 0.0)
    if config.sampler == "ero":
        return EROSampler(config.buffer_size, config.score_learning_rate, config.score_steps, rng)
    exponent = (
        PRIORITY_EXPONENTS[config.sampler]
        if config.priority_exponent is None
        else config.priority_exponent
    )
    if config.sampler == "ners":
        return _make_ners(config, sizes, exponent, rng)
    return (RankSampler if config.sampler == "rank" else ProportionalSampler)(
        config.buffer_size, exponent
    )


def _make_ners(
    config: AgentConfig, sizes: Sizes, exponent: float, rng: np.random.Generator
) -> NERSSampler:
    features = Features(
        config.score_features, sizes, config.window + 1 if config.network == "conv" else 0
    )
    picture = None
    if features.pictured:
        encoder = make_encoder(config)
        picture = Conv(encoder, sizes.observation, config.window, PICTURE_HIDDEN, PICTURE_OUTPUTS)
    network = ScoreNetwork(
        features.size,
        rng,
        has_context=config.score_context,
        picture=picture,
        pictures=len(features.pictured),
    )
    return NERSSampler(
        config.buffer_size,
        exponent,
        features,
        network,
        config.score_learning_rate,
        config.score_steps,
    )
