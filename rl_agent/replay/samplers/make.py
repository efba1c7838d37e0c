"""Construction of the sampler from the settings."""

from __future__ import annotations

import numpy as np

from rl_agent.config import (
    AgentConfig,
    OnPolicyConfig,
    SamplesSteps,
    SegmentConfig,
)
from rl_agent.networks import Conv, make_encoder
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.samplers.epochs import EpochSampler
from rl_agent.replay.samplers.ero import EROSampler
from rl_agent.replay.samplers.features import FEATURES, Features
from rl_agent.replay.samplers.ners import NERSSampler
from rl_agent.replay.samplers.prioritized import ProportionalSampler, RankSampler
from rl_agent.replay.samplers.sampler import Sampler
from rl_agent.replay.samplers.score_network import PICTURE_HIDDEN, PICTURE_OUTPUTS, ScoreNetwork
from rl_agent.replay.samplers.segments import SegmentSampler
from rl_agent.replay.samplers.uniform import UniformSampler

__all__ = ["make_sampler"]

PRIORITY_EXPONENTS = {"rank": 0.7, "proportional": 0.6, "ners": 0.5}
"""Default priority exponents alpha (Schaul et al. 2016, table 3; NERS, table B.1)."""
SCORE_STEPS = 128
"""Number of steps in a gradient of a score network (NERS, table B.1)."""


def make_sampler(config: AgentConfig, sizes: Sizes, rng: np.random.Generator) -> Sampler:
    """Build the sampler given by the settings or required by the algorithm.

    Parameters
    ----------
    config, sizes
        Settings of the learner, and sizes of the task.
    rng
        Samples the initial weights of a sampler with a network.
    """
    if isinstance(config, SegmentConfig):
        return SegmentSampler(config.segment, config.on_policy_ratio(sizes.choices))
    if isinstance(config, OnPolicyConfig):
        return EpochSampler()
    if config.sampler == "uniform":
        return UniformSampler(config.episode_share if isinstance(config, SamplesSteps) else 0.0)
    if config.sampler == "ero":
        return EROSampler(config.buffer_size, config.score_learning_rate, SCORE_STEPS, rng)
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
    features = Features(FEATURES, sizes, config.window + 1 if config.network == "conv" else 0)
    picture = None
    if features.pictured:
        encoder = make_encoder(config)
        picture = Conv(encoder, sizes.observation, config.window, PICTURE_HIDDEN, PICTURE_OUTPUTS)
    network = ScoreNetwork(
        features.size,
        rng,
        picture=picture,
        pictures=len(features.pictured),
    )
    return NERSSampler(
        config.buffer_size,
        exponent,
        features,
        network,
        config.score_learning_rate,
        SCORE_STEPS,
    )
