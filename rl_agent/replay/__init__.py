"""Replay: the memory of whole episodes, who is drawn from it, and what is remembered or forgotten."""

from rl_agent.replay.batch import Batch, Transitions
from rl_agent.replay.memory import Episode, EpisodeMemory
from rl_agent.replay.refer import RememberForget
from rl_agent.replay.sampler import Drawn, Sampler, Source
from rl_agent.replay.samplers import EpochSampler, SegmentSampler, UniformSampler, make_sampler

__all__ = [
    "Batch",
    "Drawn",
    "Episode",
    "EpisodeMemory",
    "EpochSampler",
    "RememberForget",
    "Sampler",
    "SegmentSampler",
    "Source",
    "Transitions",
    "UniformSampler",
    "make_sampler",
]
