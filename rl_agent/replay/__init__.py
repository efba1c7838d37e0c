"""Replay: the memory of whole episodes, who is drawn from it, and what is remembered or forgotten."""

from rl_agent.replay.batch import Batch
from rl_agent.replay.memory import Episode, EpisodeMemory
from rl_agent.replay.refer import RememberForget
from rl_agent.replay.samplers import UniformSampler

__all__ = ["Batch", "Episode", "EpisodeMemory", "RememberForget", "UniformSampler"]
