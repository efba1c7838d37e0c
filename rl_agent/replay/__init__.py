"""Experience replay: stored episodes, stored network outputs, samplers, and Remember-and-Forget."""

from rl_agent.replay.batch import Batch, Source, Transitions
from rl_agent.replay.memory import EpisodeMemory, make_memory
from rl_agent.replay.refer import RememberForget
from rl_agent.replay.samplers.epochs import EpochSampler
from rl_agent.replay.samplers.make import make_sampler
from rl_agent.replay.samplers.sampler import SampledBatch, Sampler
from rl_agent.replay.samplers.segments import SegmentSampler
from rl_agent.replay.samplers.uniform import UniformSampler
from rl_agent.replay.storage import Episode, EpisodeStorage
from rl_agent.replay.values import StoredValues

__all__ = [
    "Batch",
    "Episode",
    "EpisodeMemory",
    "EpisodeStorage",
    "EpochSampler",
    "RememberForget",
    "SampledBatch",
    "Sampler",
    "SegmentSampler",
    "Source",
    "StoredValues",
    "Transitions",
    "UniformSampler",
    "make_memory",
    "make_sampler",
]
