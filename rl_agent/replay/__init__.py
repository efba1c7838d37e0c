"""Replay: the memory of whole episodes, who is drawn from it, and what is remembered or forgotten."""

from rl_agent.replay.batch import Batch, Transitions
from rl_agent.replay.memory import Episode, EpisodeMemory
from rl_agent.replay.refer import RememberForget
from rl_agent.replay.samplers.epochs import EpochSampler
from rl_agent.replay.samplers.make import make_sampler
from rl_agent.replay.samplers.sampler import Drawn, Sampler, Source
from rl_agent.replay.samplers.segments import SegmentSampler
from rl_agent.replay.samplers.uniform import UniformSampler

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
